package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/internal/golden"
)

const kept = `{"schema":1,"tool":"fsgen 0","time":"2026-01-02T03:04:05Z","device":{"name":"G","driver":"D"},"problem":{"model":"m","vocab":10,
"hidden":8,"transform":"none","sampler":"greedy"},"method":{"launches":20,"replays":9,"warm_ups":3},"results":[
{"batch":1,"contender":"floor","times_us":[2],"median_us":0,"p10_us":0,"p90_us":0},
{"batch":1,"contender":"fsgen-rowmajor","times_us":[3],"median_us":0,"p10_us":0,"p90_us":0}]}`

func TestDraw(t *testing.T) {
	in, out := filepath.Join(t.TempDir(), "run.json"), filepath.Join(t.TempDir(), "figure.svg")
	require.NoError(t, os.WriteFile(in, []byte(kept), 0o600))
	require.NoError(t, run(out, []string{in}))
	text, err := os.ReadFile(out)
	require.NoError(t, err)
	assert.True(t, strings.HasPrefix(string(text), "<svg "))
	assert.Contains(t, string(text), "m: V = 10, D = 8")
}

func TestDrawSaysWhichFile(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.json")
	require.NoError(t, os.WriteFile(bad, []byte("{"), 0o600))
	assert.ErrorContains(t, run("", []string{bad}), "bad.json: not the data of a run")
	assert.ErrorContains(t, run("", []string{bad + "none"}), "no such file")
	assert.ErrorContains(t, run("", nil), "nothing to draw")
}

// TestKeptFigureIsOfKeptData: bench/figure.svg is what bench/results give; go test ./bench/figure -update draws it.
func TestKeptFigureIsOfKeptData(t *testing.T) {
	runs, err := filepath.Glob("../results/*.json")
	require.NoError(t, err)
	if len(runs) == 0 {
		t.Skip("no results are kept yet")
	}
	picture, err := draw(runs)
	require.NoError(t, err)
	golden.File(t, "../figure.svg", picture)
}
