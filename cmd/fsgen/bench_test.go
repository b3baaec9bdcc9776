package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/internal/bench"
	"github.com/fsgen/fsgen/ir"
)

func TestBenchNamesItsShape(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "my head (v2)")
	require.NoError(t, os.Mkdir(dir, 0o700))
	for model, want := range map[string]string{"": "v10d8", "qwen3-8b": "qwen3-8b", "Qwen/Qwen3-8B": "qwen3-8b", dir: "my-head-v2-"} {
		o := benching{target: target{model: model}}
		assert.Equal(t, want, o.name(ir.Shape{Vocab: 10, Hidden: 8}), model)
	}
}

const benched = `{"schema":1,"tool":"fsgen 0","time":"2026-01-02T03:04:05Z","device":{"name":"G","driver":"D"},"problem":{"model":"m","vocab":10,
"hidden":8,"transform":"none","sampler":"greedy"},"method":{"launches":20,"replays":9,"warm_ups":3},"results":[
{"batch":1,"contender":"floor","times_us":[2],"median_us":2,"p10_us":2,"p90_us":2,"x_floor":1}]}`

func TestBenchPrintsAndKeeps(t *testing.T) {
	rep, err := bench.Decode([]byte(benched))
	require.NoError(t, err)
	for format, want := range map[string]string{"table": "BATCH  CONTENDER", "gobench": "BenchmarkFsgen/model=m/B=1/contender=floor-1\t20\t2000 ns/op", "json": `{"schema":1,`} {
		var out bytes.Buffer
		o := benching{format: format, out: filepath.Join(t.TempDir(), "run.json")}
		require.NoError(t, o.print(&env{stdout: &out, json: format == "json"}, rep))
		assert.Contains(t, out.String(), want)
		kept, err := os.ReadFile(o.out)
		require.NoError(t, err)
		back, err := bench.Decode(kept)
		require.NoError(t, err)
		assert.Equal(t, rep, back)
	}
}
