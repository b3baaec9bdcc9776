package main

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/model"
)

const golden = "../../../testdata/head"

func TestTestdataIsNotStale(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, write(dir))
	for _, name := range []string{"config.json", "model.safetensors", "hidden.npy"} {
		want, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(golden, name))
		require.NoError(t, err)
		assert.True(t, string(want) == string(got), "%s is stale: go run ./model/internal/mkhead testdata/head", name)
	}
}

func TestTestdataIsWhatItSays(t *testing.T) {
	h, err := model.LoadHead(t.Context(), golden, model.HeadOptions{})
	require.NoError(t, err)
	defer h.Close()
	assert.Equal(t, []int{1000, 1024, 64}, []int{h.V, h.Rows, h.D})
	w, err := h.W.BF16(t.Context(), nil)
	require.NoError(t, err)
	var sum, sq float64
	for _, b := range w[:vocab*hidden] {
		f := float64(model.BF16(b).Float32())
		sum, sq = sum+f, sq+f*f
	}
	n := float64(vocab * hidden)
	assert.InDelta(t, 0, sum/n, 4*0.125/math.Sqrt(n))
	assert.InDelta(t, 1.0/64, sq/n, 0.02/64)

	a, err := model.ReadNpy(filepath.Join(golden, "hidden.npy"))
	require.NoError(t, err)
	assert.Equal(t, []int{4, 64}, a.Shape())
	f, err := a.Float32s()
	require.NoError(t, err)
	for _, v := range f {
		assert.Equal(t, v, model.FromFloat32(v).Float32(), "hidden states are exact in bf16")
	}
}
