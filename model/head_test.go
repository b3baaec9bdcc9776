package model

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// modelDir is a directory with a config.json and one weights file.
func modelDir(t *testing.T, config string, ts ...TensorData) string {
	t.Helper()
	dir := t.TempDir()
	writeText(t, dir, "config.json", config)
	writeTensors(t, dir, "model.safetensors", ts...)
	return dir
}

func load(t *testing.T, path string) (*Head, error) {
	t.Helper()
	h, err := LoadHead(t.Context(), path, HeadOptions{})
	if err == nil {
		t.Cleanup(func() { h.Close() })
	}
	return h, err
}

const (
	llamaConfig  = `{"model_type":"llama","vocab_size":10,"hidden_size":8,"tie_word_embeddings":false}`
	tiedConfig   = `{"model_type":"qwen3","vocab_size":10,"hidden_size":8,"tie_word_embeddings":true}`
	gemmaConfig  = `{"model_type":"gemma2","vocab_size":10,"hidden_size":8,"final_logit_softcapping":30.0}`
	cohereConfig = `{"model_type":"cohere","vocab_size":10,"hidden_size":8,"logit_scale":0.25}`
	gemma3Config = `{"model_type":"gemma3","text_config":{"model_type":"gemma3_text","hidden_size":8,"vocab_size":10}}`
	openConfig   = `{"model_type":"newmodel","vocab_size":10,"hidden_size":8}`
	clashConfig  = `{"model_type":"qwen3_vl","tie_word_embeddings":true,
		"text_config":{"model_type":"qwen3_vl_text","vocab_size":10,"hidden_size":8,"tie_word_embeddings":false}}`
	llamaDefault = `{"model_type":"llama","vocab_size":10,"hidden_size":8}`
)

func TestLoadHeadFinds(t *testing.T) {
	other := ones("model.layers.0.mlp.weight", 8, 8)
	head, embed := ones("lm_head.weight", 12, 8), ones("model.embed_tokens.weight", 12, 8)
	for _, c := range []struct {
		name, config string
		tensors      []TensorData
		tensor       string
		tied         bool
		scale, cap   float64
	}{
		{"head", llamaConfig, []TensorData{other, head, embed}, "lm_head.weight", false, 1, 0},
		{"tied", tiedConfig, []TensorData{other, embed}, "model.embed_tokens.weight", true, 1, 0},
		{"tied, both, equal", tiedConfig, []TensorData{head, embed}, "model.embed_tokens.weight", true, 1, 0},
		{"tied, only the head is kept", tiedConfig, []TensorData{head}, "lm_head.weight", true, 1, 0},
		{"tied by default, cap", gemmaConfig, []TensorData{embed}, "model.embed_tokens.weight", true, 1, 30},
		{"scale", cohereConfig, []TensorData{embed}, "model.embed_tokens.weight", true, 0.25, 0},
		{"nested", gemma3Config, []TensorData{ones("language_model.model.embed_tokens.weight", 12, 8)}, "language_model.model.embed_tokens.weight", true, 1, 0},
		{"unknown family with a head", openConfig, []TensorData{head, embed}, "lm_head.weight", false, 1, 0},
		{"config disagrees with itself", clashConfig, []TensorData{head, embed}, "lm_head.weight", false, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, err := load(t, modelDir(t, c.config, c.tensors...))
			require.NoError(t, err)
			assert.Equal(t, c.tensor, h.TensorName)
			assert.Equal(t, c.tied, h.Tied)
			assert.Equal(t, []int{10, 12, 8}, []int{h.V, h.Rows, h.D})
			assert.Equal(t, [2]float64{c.scale, c.cap}, [2]float64{h.Scale, h.Softcap})
			assert.Equal(t, BF16Type, h.SourceDType)
			assert.Nil(t, h.Bias)
			w, err := h.W.BF16(t.Context(), nil)
			require.NoError(t, err)
			assert.Len(t, w, 96)
		})
	}
}

func TestLoadHeadRefuses(t *testing.T) {
	head, embed := ones("lm_head.weight", 12, 8), ones("model.embed_tokens.weight", 12, 8)
	differs := BF16Data("model.embed_tokens.weight", []int{12, 8}, make([]uint16, 96))
	for _, c := range []struct {
		name, config string
		tensors      []TensorData
		kind         error
		says         string
	}{
		{"too few rows", llamaConfig, []TensorData{ones("lm_head.weight", 9, 8)}, ErrMismatch, "9 rows, vocab_size is 10"},
		{"other hidden size", llamaConfig, []TensorData{ones("lm_head.weight", 12, 16)}, ErrMismatch, "hidden_size is 8"},
		{"1-D", llamaConfig, []TensorData{ones("lm_head.weight", 96)}, ErrMismatch, "[96]"},
		{"3-D", llamaConfig, []TensorData{ones("lm_head.weight", 12, 8, 1)}, ErrMismatch, "2-D"},
		{"quantised", llamaConfig, []TensorData{{Name: "lm_head.weight", DType: "F8_E4M3", Shape: []int{12, 8}, Data: make([]byte, 96)}}, ErrUnsupported, "F8_E4M3"},
		{"nothing", llamaConfig, []TensorData{ones("x", 12, 8)}, ErrMissing, "no LM head or token embedding"},
		{"untied without a head", llamaConfig, []TensorData{embed}, ErrMissing, "tie_word_embeddings is untied (tie_word_embeddings)"},
		{"untied by default without a head", llamaDefault, []TensorData{embed}, ErrMissing, "default of model_type llama"},
		{"unknown family without a head", openConfig, []TensorData{embed}, ErrMissing, "is unknown"},
		{"tied pair differs", tiedConfig, []TensorData{head, differs}, ErrMismatch, "differ"},
		{"two heads", llamaConfig, []TensorData{head, ones("output.weight", 12, 8)}, ErrAmbiguous, "lm_head.weight, output.weight"},
		{"bias of another length", llamaConfig, []TensorData{head, ones("lm_head.bias", 10)}, ErrMismatch, "lm_head.bias"},
		{"config is broken", `{`, []TensorData{head}, ErrMalformed, "config.json"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := load(t, modelDir(t, c.config, c.tensors...))
			oneLineOf(t, err, c.kind, c.says)
		})
	}
	_, err := load(t, filepath.Join(t.TempDir(), "none"))
	oneLineOf(t, err, ErrMissing, "cannot open")
	dir := t.TempDir()
	writeTensors(t, dir, "model.safetensors", head)
	_, err = load(t, dir)
	oneLineOf(t, err, ErrMissing, "config.json")
}

func TestLoadHeadBias(t *testing.T) {
	h, err := load(t, modelDir(t, llamaConfig, ones("lm_head.weight", 12, 8), ones("lm_head.bias", 12)))
	require.NoError(t, err)
	require.NotNil(t, h.Bias)
	b, err := h.Bias.Float32s(t.Context())
	require.NoError(t, err)
	assert.Len(t, b, 12)
}

func TestLoadHeadBareFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "w.safetensors")
	bare := func(ts ...TensorData) (*Head, error) {
		require.NoError(t, WriteFile(path, ts, nil))
		return load(t, path)
	}
	h, err := bare(ones("anything", 12, 8), ones("norm", 8))
	require.NoError(t, err)
	assert.Equal(t, []any{"anything", 12, 12, 8, 1.0, 0.0}, []any{h.TensorName, h.V, h.Rows, h.D, h.Scale, h.Softcap})
	h, err = bare(ones("a", 12, 8), ones("lm_head.weight", 12, 8), ones("b", 2, 2))
	require.NoError(t, err)
	assert.Equal(t, "lm_head.weight", h.TensorName)
	_, err = bare(ones("b", 2, 2), ones("a", 12, 8), ones("wte.weight", 12, 8))
	oneLineOf(t, err, ErrAmbiguous, "wte.weight [12 8], a [12 8], b [2 2]")
	for name, want := range map[string]string{"a": "", "none": "no such tensor"} {
		h, err = load(t, path+":"+name)
		if want == "" {
			require.NoError(t, err)
			assert.Equal(t, name, h.TensorName)
		} else {
			oneLineOf(t, err, ErrMissing, want)
		}
	}
	_, err = bare(ones("norm", 8))
	oneLineOf(t, err, ErrMissing, "no 2-D tensor")

	if runtime.GOOS != "windows" { // a colon in a name that exists is part of the name
		odd := filepath.Join(dir, "w.safetensors:a")
		require.NoError(t, WriteFile(odd, []TensorData{ones("z", 1, 1)}, nil))
		h, err = load(t, odd)
		require.NoError(t, err)
		assert.Equal(t, "z", h.TensorName)
	}
}

func TestLoadHeadOptions(t *testing.T) {
	dir := modelDir(t, llamaConfig, ones("lm_head.weight", 12, 8), ones("other", 11, 8))
	for vocab, ok := range map[int]bool{0: true, 1: true, 11: true, 12: true, 13: false, -1: false} {
		h, err := LoadHead(t.Context(), dir, HeadOptions{Vocab: vocab})
		if !ok {
			oneLineOf(t, err, ErrRange, "of 12 rows")
			continue
		}
		require.NoError(t, err)
		defer h.Close()
		if vocab == 0 {
			vocab = 10
		}
		assert.Equal(t, vocab, h.V)
	}
	h, err := load(t, dir+":other")
	require.NoError(t, err)
	assert.Equal(t, 11, h.Rows)
	assert.Equal(t, 10, h.V)
}

func TestLoadHeadOfShardsOpensOnlyItsOwn(t *testing.T) {
	dir := t.TempDir()
	writeText(t, dir, "config.json", llamaConfig)
	writeTensors(t, dir, "2.safetensors", ones("lm_head.weight", 12, 8))
	writeText(t, dir, indexName, `{"weight_map":{"x":"1.safetensors","lm_head.weight":"2.safetensors"}}`)
	h, err := load(t, dir)
	require.NoError(t, err, "the shard that is not there is not needed")
	assert.True(t, strings.HasSuffix(h.W.File(), "2.safetensors"))
}

func TestLoadHeadComparisonObeysContext(t *testing.T) {
	dir := modelDir(t, tiedConfig, ones("lm_head.weight", 12, 8), ones("model.embed_tokens.weight", 12, 8))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := LoadHead(ctx, dir, HeadOptions{})
	assert.ErrorIs(t, err, context.Canceled)
}

func TestUnknownFamilyIsNoted(t *testing.T) {
	h, err := load(t, modelDir(t, openConfig, ones("lm_head.weight", 12, 8)))
	require.NoError(t, err)
	require.Len(t, h.Notes, 2)
	assert.Contains(t, h.Notes[0], "tie_word_embeddings")
	assert.Contains(t, h.Notes[1], `"newmodel"`)
}

// TestTestdataHead is the small head that other packages use.
func TestTestdataHead(t *testing.T) {
	h, err := load(t, "../testdata/head")
	require.NoError(t, err)
	assert.Equal(t, []any{1000, 1024, 64, false}, []any{h.V, h.Rows, h.D, h.Tied})
	st, err := os.Stat("../testdata/head/model.safetensors")
	require.NoError(t, err)
	assert.Less(t, st.Size(), int64(140<<10))
	c, err := h.W.CountNonFinite(t.Context())
	require.NoError(t, err)
	assert.False(t, c.Any())
}
