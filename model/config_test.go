package model

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func parse(text string) (*Config, error) { return ParseConfig("config.json", []byte(text)) }

// flat is a config of one model type with more keys.
func flat(modelType, more string) string {
	return `{"model_type":"` + modelType + `","vocab_size":100,"hidden_size":64` + more + `}`
}

func TestConfigScaleAndCap(t *testing.T) {
	for _, c := range []struct {
		text       string
		scale, cap float64
	}{
		{flat("llama", ""), 1, 0},
		{flat("llama", `,"logit_scale":1.0,"final_logit_softcapping":null`), 1, 0}, // foreign, but changes nothing
		{flat("cohere", `,"logit_scale":0.5`), 0.5, 0},
		{flat("cohere", ""), 0.0625, 0},
		{flat("cohere2", `,"logit_scale":null`), 1, 0},
		{flat("granite", `,"logits_scaling":8`), 0.125, 0},
		{flat("granitemoe", ""), 1, 0},
		{flat("hyperclovax", `,"logits_scaling":8`), 8, 0},
		{flat("minicpm", `,"dim_model_base":16`), 0.25, 0},
		{flat("minicpm3", ""), 4, 0},
		{flat("falcon_h1", `,"lm_head_multiplier":0.0390625`), 0.0390625, 0},
		{flat("gemma2", ""), 1, 30},
		{flat("gemma2", `,"final_logit_softcapping":null`), 1, 0},
		{flat("gemma2", `,"final_logit_softcapping":20`), 1, 20},
		{flat("gemma3_text", ""), 1, 0},
		{flat("recurrent_gemma", ""), 1, 30},
		{flat("xlstm", `,"output_logit_soft_cap":25`), 1, 25},
		{flat("nanochat", ""), 1, 15},
		{flat("newmodel", `,"final_logit_softcapping":50`), 1, 50},
		{flat("git", `,"architectures":["Grok1ForCausalLM"],"output_multiplier_scale":0.5,"final_logit_softcapping":50`), 0.5, 50},
		{flat("muse_spark_text", ""), 0.1767766952966369, 20},
	} {
		got, err := parse(c.text)
		require.NoError(t, err, c.text)
		assert.Equal(t, [2]float64{c.scale, c.cap}, [2]float64{got.Scale, got.Softcap}, c.text)
		assert.NotEmpty(t, got.From.Scale)
		assert.NotEmpty(t, got.From.Softcap)
	}
}

func TestConfigNesting(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       Config
	}{
		{"gemma 3 leaves out the vocabulary",
			`{"model_type":"gemma3","text_config":{"model_type":"gemma3_text","hidden_size":2560}}`,
			Config{ModelType: "gemma3_text", VocabSize: 262208, HiddenSize: 2560, Tie: Tied}},
		{"nested type left out",
			`{"model_type":"llama4","text_config":{"hidden_size":5120,"torch_dtype":"bfloat16"}}`,
			Config{ModelType: "llama4_text", VocabSize: 202048, HiddenSize: 5120, Tie: Untied, DType: "bfloat16"}},
		{"everything left out",
			`{"model_type":"llama4","text_config":{}}`,
			Config{ModelType: "llama4_text", VocabSize: 202048, HiddenSize: 5120, Tie: Untied}},
		{"nested before the top",
			`{"model_type":"paligemma","vocab_size":257152,"hidden_size":9,"text_config":{"model_type":"gemma2","vocab_size":257216,"hidden_size":2304}}`,
			Config{ModelType: "gemma2", VocabSize: 257216, HiddenSize: 2304, Tie: Tied, Softcap: 30}},
		{"tying at the top",
			`{"model_type":"qwen3_vl_moe","tie_word_embeddings":false,"text_config":{"model_type":"qwen3_vl_moe_text","vocab_size":7,"hidden_size":8}}`,
			Config{ModelType: "qwen3_vl_moe_text", VocabSize: 7, HiddenSize: 8, Tie: Untied}},
		{"omni", `{"model_type":"qwen2_5_omni","thinker_config":{"model_type":"t","text_config":{"model_type":"qwen2_5_omni_text","hidden_size":8,"vocab_size":9}}}`,
			Config{ModelType: "qwen2_5_omni_text", VocabSize: 9, HiddenSize: 8}},
		{"other names", `{"model_type":"internvl_chat","llm_config":{"model_type":"qwen2","hidden_size":8,"vocab_size":9},"dtype":"torch.float16"}`,
			Config{ModelType: "qwen2", VocabSize: 9, HiddenSize: 8, Tie: Untied, DType: "float16"}},
		{"null nested", `{"model_type":"gpt2","text_config":null,"n_embd":8,"vocab_size":9}`,
			Config{ModelType: "gpt2", VocabSize: 9, HiddenSize: 8, Tie: Tied}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parse(c.text)
			require.NoError(t, err)
			c.want.File, c.want.Scale, c.want.Known, c.want.From = "config.json", 1, true, got.From
			assert.Equal(t, &c.want, got)
		})
	}
}

func TestConfigSaysWhereFrom(t *testing.T) {
	c, err := parse(`{"model_type":"gemma3","text_config":{"model_type":"gemma3_text","hidden_size":2560}}`)
	require.NoError(t, err)
	assert.Equal(t, Origins{
		VocabSize: "default of model_type gemma3_text (262208)", HiddenSize: "text_config.hidden_size",
		Tie: "default of model_type gemma3_text (tied)", Scale: "none in model_type gemma3_text", Softcap: "no final_logit_softcapping",
	}, c.From)
}

func TestConfigRefuses(t *testing.T) {
	for _, c := range []struct {
		name, text string
		kind       error
		says       string
	}{
		{"empty", ``, ErrMalformed, "must be JSON"},
		{"array", `[]`, ErrMalformed, "want an object"},
		{"key twice", flat("llama", `,"vocab_size":5`), ErrMalformed, `"vocab_size"`},
		{"nested key twice", flat("llama", `,"x":{"a":1,"a":2}`), ErrMalformed, `"x.a"`},
		{"tail", flat("llama", "") + "x", ErrMalformed, "closing brace"},
		{"too deep", flat("llama", `,"x":`+strings.Repeat("[", 100)+strings.Repeat("]", 100)), ErrMalformed, "too deep"},
		{"too deep objects", strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100), ErrMalformed, "too deep"},
		{"no vocabulary", `{"model_type":"llama","hidden_size":8}`, ErrMissing, `vocab_size; model_type is "llama"`},
		{"no hidden size", `{"model_type":"llama","vocab_size":8}`, ErrMissing, "hidden_size or n_embd or d_model"},
		{"nothing", `{}`, ErrMissing, "hidden_size"},
		{"no default", `{"model_type":"x","text_config":{"hidden_size":8}}`, ErrMissing, "looked in text_config"},
		{"vocabulary 0", `{"vocab_size":0,"hidden_size":8}`, ErrMalformed, "vocab_size is 0"},
		{"negative", `{"vocab_size":-1,"hidden_size":8}`, ErrMalformed, "vocab_size is -1"},
		{"fraction", `{"vocab_size":1.5,"hidden_size":8}`, ErrMalformed, "vocab_size is 1.5"},
		{"too large", `{"vocab_size":2147483648,"hidden_size":8}`, ErrMalformed, "2147483648"},
		{"string", `{"vocab_size":"10","hidden_size":8}`, ErrMalformed, `vocab_size is "10"`},
		{"hidden sizes differ", `{"vocab_size":1,"hidden_size":8,"n_embd":16}`, ErrMismatch, "hidden_size is 8, n_embd is 16"},
		{"model_type is a number", `{"model_type":1}`, ErrMalformed, "model_type is 1"},
		{"architectures", `{"architectures":"x"}`, ErrMalformed, "architectures"},
		{"architectures of numbers", `{"architectures":[1]}`, ErrMalformed, "architectures holds 1"},
		{"text_config", `{"text_config":3}`, ErrMalformed, "text_config is 3"},
		{"two nested", `{"text_config":{},"llm_config":{}}`, ErrAmbiguous, "text_config and llm_config"},
		{"tie is null", flat("llama", `,"tie_word_embeddings":null`), ErrMalformed, "tie_word_embeddings is null"},
		{"tie is a string", flat("llama", `,"tie_word_embeddings":"true"`), ErrMalformed, "true or false"},
		{"dtype", flat("llama", `,"torch_dtype":16`), ErrMalformed, "torch_dtype is 16"},
		{"cap 0", flat("gemma2", `,"final_logit_softcapping":0`), ErrMalformed, "positive number"},
		{"cap negative", flat("gemma2", `,"final_logit_softcapping":-30`), ErrMalformed, "-30"},
		{"cap infinite", flat("gemma2", `,"final_logit_softcapping":Infinity`), ErrMalformed, `"Infinity"`},
		{"cap over float64", flat("gemma2", `,"final_logit_softcapping":1e999`), ErrMalformed, "1e999"},
		{"cap over float32", flat("gemma2", `,"final_logit_softcapping":1e39`), ErrMalformed, "1e39"},
		{"scale under float32", flat("cohere", `,"logit_scale":1e-46`), ErrMalformed, "1e-46"},
		{"divisor whose inverse is over float32", flat("granite", `,"logits_scaling":2e-45`), ErrMalformed, "fit float32"},
		{"scale is a word", flat("cohere", `,"logit_scale":"inv_sqrt_d_model"`), ErrMalformed, "inv_sqrt"},
		{"scale in a family without", flat("llama", `,"logit_scale":0.5`), ErrUnsupported, `logit_scale is 0.5, model_type is "llama"`},
		{"scale in an unknown family", flat("new", `,"logits_scaling":8`), ErrUnsupported, "logits_scaling"},
		{"MPT's", flat("mpt", `,"logit_scale":"inv_sqrt_d_model"`), ErrUnsupported, "inv_sqrt_d_model"},
		{"OLMo's", flat("hf_olmo", `,"scale_logits":true`), ErrUnsupported, "scale_logits is true"},
		{"cap in a family without", flat("qwen3", `,"final_logit_softcapping":30`), ErrUnsupported, "qwen3"},
		{"MiniCPM without its base", flat("minicpm", ""), ErrMissing, "dim_model_base"},
		{"Baichuan", flat("baichuan", ""), ErrUnsupported, "normalise"},
		{"default and top disagree", `{"model_type":"gemma3","vocab_size":5,"text_config":{"model_type":"gemma3_text","hidden_size":8}}`, ErrAmbiguous, "262208"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parse(c.text)
			oneLineOf(t, err, c.kind, c.says)
		})
	}
}

// TestLongKeysCostLittle has a key of 2 MB over 200,000 members: a path kept whole would be copied 400 GB in all.
func TestLongKeysCostLittle(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"` + strings.Repeat("k", 2<<20) + `":{"`)
	for i := range 200_000 {
		fmt.Fprintf(&b, `%d":0,"`, i)
	}
	b.WriteString(`x":{"y":1,"y":2}}}`)
	_, err := parse(b.String())
	oneLineOf(t, err, ErrMalformed, "twice")
}

func TestConfigTakesPythonsNumbers(t *testing.T) {
	c, err := parse(flat("nemotron_h", `,"limit":[0.0,Infinity,-Infinity,NaN],"s":"NaN \"Infinity","NaN":1`))
	require.NoError(t, err)
	assert.Equal(t, 100, c.VocabSize)
}

func TestConfigFiles(t *testing.T) {
	dir := t.TempDir()
	_, err := ReadConfig(dir)
	oneLineOf(t, err, ErrMissing, "config.json")
	writeText(t, dir, "config.json", flat("llama", ""))
	c, err := ReadConfig(dir)
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(dir, "config.json"), c.File)
	require.NoError(t, os.Truncate(c.File, maxConfigBytes+1))
	_, err = ReadConfig(c.File)
	oneLineOf(t, err, ErrMalformed, "4194305 bytes")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "sub"), 0o755))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "sub", "config.json"), 0o755))
	_, err = ReadConfig(filepath.Join(dir, "sub"))
	oneLineOf(t, err, ErrMissing, "regular file")
}

// TestRealConfigs reads the configs of models that are not presets.
func TestRealConfigs(t *testing.T) {
	for name, want := range map[string]Config{
		"qwen3-vl-4b":      {ModelType: "qwen3_vl_text", VocabSize: 151936, HiddenSize: 2560, Tie: Tied, Scale: 1},
		"qwen3-vl-30b-a3b": {ModelType: "qwen3_vl_moe_text", VocabSize: 151936, HiddenSize: 2048, Tie: Untied, Scale: 1},
		"llama4-scout":     {ModelType: "llama4_text", VocabSize: 202048, HiddenSize: 5120, Tie: Untied, Scale: 1},
		"gemma4-26b-a4b":   {ModelType: "gemma4_text", VocabSize: 262144, HiddenSize: 2816, Tie: Tied, Scale: 1, Softcap: 30},
		"kimi-k2.5":        {ModelType: "kimi_k2", VocabSize: 163840, HiddenSize: 7168, Tie: Untied, Scale: 1},
		"granite":          {ModelType: "granite", VocabSize: 49155, HiddenSize: 4096, Tie: Tied, Scale: 1.0 / 16},
	} {
		c, err := ReadConfig("../testdata/hf/" + name)
		require.NoError(t, err, name)
		got := Config{ModelType: c.ModelType, VocabSize: c.VocabSize, HiddenSize: c.HiddenSize, Tie: c.Tie, Scale: c.Scale, Softcap: c.Softcap}
		assert.Equal(t, want, got, name)
		assert.True(t, c.Known)
		assert.Equal(t, "bfloat16", c.DType)
	}
}
