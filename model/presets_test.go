package model

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPresetsEqualTheirConfigs is the point of testdata/hf: a preset is what its config.json says.
func TestPresetsEqualTheirConfigs(t *testing.T) {
	var without []string
	for _, p := range All() {
		dir := filepath.Join("../testdata/hf", p.Name)
		if _, err := os.Stat(dir); err != nil {
			without = append(without, p.Name)
			continue
		}
		c, err := ReadConfig(dir)
		require.NoError(t, err, p.Name)
		assert.Equal(t, []any{p.ModelType, p.V, p.D, p.Tied, p.Scale, p.Softcap},
			[]any{c.ModelType, c.VocabSize, c.HiddenSize, c.Tie == Tied, c.Scale, c.Softcap}, p.Name)
		assert.NotEqual(t, TieUnknown, c.Tie, p.Name)
		assert.Contains(t, families, p.ModelType)
	}
	assert.Equal(t, []string{"mistral-large-3"}, without, "its config.json was not at hand")
}

func TestPresetNamesAreUnique(t *testing.T) {
	owner := map[string]string{}
	for _, p := range All() {
		require.NotEmpty(t, p.Repos)
		assert.Equal(t, strings.ToLower(p.Name), p.Name)
		for _, k := range p.keys() {
			if o, ok := owner[k]; ok {
				assert.Equal(t, o, p.Name, "key %q", k)
			}
			owner[k] = p.Name
		}
	}
}

func TestLookup(t *testing.T) {
	for in, want := range map[string]string{
		"qwen3-8b": "qwen3-8b", "Qwen/Qwen3-8B": "qwen3-8b", " QWEN3_8B ": "qwen3-8b", "Qwen3 8B": "qwen3-8b",
		"llama-3-70b": "llama3-70b", "Meta-Llama-3-70B": "llama3-70b", "meta-llama/Llama-3.3-70B-Instruct": "llama3-70b",
		"gemma-3-4b-it": "gemma3-4b", "c4ai-command-r-v01": "command-r", "DeepSeek-R1": "deepseek-v3", "phi4": "phi-4",
		"gpt-oss-120b": "gpt-oss-120b", "mistralai/Mistral-Large-3-675B-Instruct-2512": "mistral-large-3",
	} {
		p, err := Lookup(in)
		require.NoError(t, err, in)
		assert.Equal(t, want, p.Name, in)
	}
	p, err := Lookup("qwen3-8b")
	require.NoError(t, err)
	assert.Equal(t, [2]int{151936, 4096}, [2]int{p.V, p.D})
	p, err = Lookup("llama3-70b")
	require.NoError(t, err)
	assert.Equal(t, [2]int{128256, 8192}, [2]int{p.V, p.D})
}

func TestLookupSuggests(t *testing.T) {
	for in, want := range map[string]string{
		"qwen3-8": "qwen3-8b", "qwn3-8b": "qwen3-8b", "lama3-70b": "llama3-70b", "deepseek": "deepseek-v3", "gemma3-4": "gemma3-4b",
	} {
		_, err := Lookup(in)
		var unknown *UnknownModelError
		require.ErrorAs(t, err, &unknown, in)
		assert.Equal(t, want, unknown.Suggestions[0], in)
		assert.Contains(t, err.Error(), "did you mean "+want)
	}
	for _, in := range []string{"", "zzzzzzzz", strings.Repeat("x", 1<<20), "a\nb"} {
		_, err := Lookup(in)
		require.True(t, errors.As(err, new(*UnknownModelError)))
		assert.NotContains(t, err.Error(), "did you mean")
		assert.NotContains(t, err.Error(), "\n")
	}
}

func TestAllIsACopyInAFixedOrder(t *testing.T) {
	a := All()
	a[0].Name, a[0].Repos[0] = "x", "x"
	b := All()
	assert.Equal(t, "qwen3-0.6b", b[0].Name)
	assert.Equal(t, "Qwen/Qwen3-0.6B", b[0].Repos[0])
}

func TestEditDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"kitten", "sitting", 3}, {"flaw", "lawn", 2}, {"same", "same", 0}} {
		assert.Equal(t, c.want, editDistance(c.a, c.b))
		assert.Equal(t, c.want, editDistance(c.b, c.a))
	}
}
