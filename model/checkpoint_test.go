package model

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ones is a BF16 tensor filled with 1.
func ones(name string, shape ...int) TensorData {
	n := 1
	for _, d := range shape {
		n *= d
	}
	v := make([]uint16, n)
	for i := range v {
		v[i] = 0x3f80
	}
	return BF16Data(name, shape, v)
}

func writeText(t *testing.T, dir, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
}

func writeTensors(t *testing.T, dir, name string, ts ...TensorData) {
	t.Helper()
	require.NoError(t, WriteFile(filepath.Join(dir, name), ts, nil))
}

func TestShards(t *testing.T) {
	dir := t.TempDir()
	writeTensors(t, dir, "model-1.safetensors", ones("a", 2))
	writeTensors(t, dir, "model-2.safetensors", ones("b", 3), ones("c", 4))
	writeText(t, dir, indexName, `{"metadata": {"total_size": 18, "more": [1, {"x": null}]}, "weight_map":
		{"a": "model-1.safetensors", "b": "model-2.safetensors", "c": "model-2.safetensors", "d": "model-9.safetensors", "e": "model-1.safetensors"}}`)
	c, err := OpenCheckpoint(dir)
	require.NoError(t, err)
	defer c.Close()
	assert.Equal(t, []string{"a", "b", "c", "d", "e"}, c.Names())
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			ten, err := c.Tensor([]string{"a", "b", "c"}[i%3])
			if assert.NoError(t, err) {
				assert.Equal(t, []int{2 + i%3}, ten.Shape)
			}
		})
	}
	wg.Wait()
	_, err = c.Tensor("d")
	oneLineOf(t, err, ErrMissing, "model-9.safetensors")
	_, err = c.Tensor("e")
	oneLineOf(t, err, ErrMismatch, `"e" is not in model-1.safetensors`)
	_, err = c.Tensor("f")
	oneLineOf(t, err, ErrMissing, `"f"`)
	assert.False(t, c.Has("f"))
	assert.Error(t, c.Verify())
}

func TestBrokenIndex(t *testing.T) {
	for _, c := range []struct{ name, text, says string }{
		{"outside", `{"weight_map":{"a":"../x.safetensors"}}`, `"../x.safetensors"`},
		{"absolute", `{"weight_map":{"a":"/x.safetensors"}}`, "same directory"},
		{"below", `{"weight_map":{"a":"sub/x.safetensors"}}`, "same directory"},
		{"backslash", `{"weight_map":{"a":"..\\x.safetensors"}}`, "same directory"},
		{"drive", `{"weight_map":{"a":"c:x.safetensors"}}`, "same directory"},
		{"other kind", `{"weight_map":{"a":"x.bin"}}`, `"x.bin"`},
		{"empty name", `{"weight_map":{"a":""}}`, "same directory"},
		{"number", `{"weight_map":{"a":1}}`, "want a string"},
		{"tensor twice", `{"weight_map":{"a":"x.safetensors","a":"y.safetensors"}}`, "twice"},
		{"map twice", `{"weight_map":{"a":"x.safetensors"},"weight_map":{}}`, "twice"},
		{"empty map", `{"weight_map":{}}`, "must name tensors"},
		{"no map", `{"metadata":{}}`, "must name tensors"},
		{"array", `[]`, "want an object"},
		{"cut", `{"weight_map":{"a":"x.safe`, "must be JSON"},
		{"tail", `{"weight_map":{"a":"x.safetensors"}} 1`, "closing brace"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			writeText(t, dir, indexName, c.text)
			_, err := OpenCheckpoint(dir)
			oneLineOf(t, err, ErrMalformed, indexName, c.says)
		})
	}
}

func TestWhichFileOfADirectory(t *testing.T) {
	dir := t.TempDir()
	_, err := OpenCheckpoint(dir)
	oneLineOf(t, err, ErrMissing, "no .safetensors file")
	writeText(t, dir, "pytorch_model.bin", "")
	writeText(t, dir, "model.gguf", "")
	_, err = OpenCheckpoint(dir)
	oneLineOf(t, err, ErrUnsupported, "model.gguf, pytorch_model.bin")

	writeTensors(t, dir, "weights.safetensors", ones("only", 1))
	source := func() string {
		c, err := OpenCheckpoint(dir)
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, c.Verify())
		return filepath.Base(c.Source())
	}
	assert.Equal(t, "weights.safetensors", source())
	for i := range 10 {
		writeTensors(t, dir, fmt.Sprintf("more%d.safetensors", i), ones("x", 1))
	}
	_, err = OpenCheckpoint(dir)
	oneLineOf(t, err, ErrAmbiguous, "more0.safetensors", "and 3 more")
	writeText(t, dir, indexName, `{"weight_map":{"only":"weights.safetensors"}}`)
	assert.Equal(t, indexName, source())
	writeTensors(t, dir, "model.safetensors", ones("m", 1))
	assert.Equal(t, "model.safetensors", source())
	_, err = OpenCheckpoint(filepath.Join(dir, "none"))
	oneLineOf(t, err, ErrMissing, "none: cannot open")
}
