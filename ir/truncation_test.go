package ir

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseTruncation(t *testing.T) {
	for text, want := range map[string]Truncation{
		"":                                   {},
		"none":                               {},
		"top-k":                              {TopK: true},
		" min-p, top-p":                      {TopP: true, MinP: true},
		"temperature-last,top-k":             {TopK: true, TemperatureLast: true},
		"top-k,top-p,min-p,temperature-last": {TopK: true, TopP: true, MinP: true, TemperatureLast: true},
	} {
		got, err := ParseTruncation(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
		back, err := ParseTruncation(got.String())
		require.NoError(t, err)
		require.Equal(t, got, back, "what is printed is read")
	}
	require.Equal(t, "top-p,min-p", Truncation{TopP: true, MinP: true}.String(), "in the order of application")
	require.Equal(t, "none", Truncation{}.String())
	for text, want := range map[string]string{
		"top-k,":           `unknown filter ""`,
		"top_k":            `unknown filter "top_k": want some of top-k, top-p, min-p and temperature-last`,
		"top-k=50":         `unknown filter "top-k=50"`,
		"top-p,top-p":      "top-p is named twice",
		"temperature-last": "want top-k, top-p or min-p",
	} {
		_, err := ParseTruncation(text)
		require.ErrorContains(t, err, want, text)
	}
}
