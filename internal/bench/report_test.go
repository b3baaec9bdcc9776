package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/internal/golden"
	"github.com/fsgen/fsgen/internal/nvml"
)

// sample is the report of a run whose numbers are easy.
func sample() *Report {
	r := &Report{Schema: Schema, Tool: "fsgen 0", Time: "2026-01-02T03:04:05Z", Device: Device{"Fake GPU 0", "CUDA 13.0, release 1.2.3", 700},
		Problem: Problem{"qwen3-8b", 151936, 4096, "temperature", "gumbel", false, "", ""}, Method: Method{20, 9, 3}}
	around := func(us float64) (s Series) {
		for i := range 9 {
			s.Times = append(s.Times, us*(1+float64((i*5)%9-4)/100))
		}
		return s
	}
	contenders := []Contender{{Name: Floor, Kernel: "fsgen_stream, 132 CTAs"}, {Name: "fsgen-rowmajor", Kernel: "fsgen_sm_90_m192n8k64s8c1"}, {Name: Cublas, Kernel: "cublasLt 13.1.2, algorithm 2 of 8"}}
	for _, b := range []struct {
		batch int
		us    [3]float64
	}{{1, [3]float64{270, 286.2, 297}}, {256, [3]float64{271, 569.1, 488}}} {
		series := []Series{around(b.us[0]), around(b.us[1]), around(b.us[2])}
		series[1].Readings = []nvml.Reading{{SMClock: 1755, MemoryClock: 3201, Power: 612.3, Temperature: 63, Throttle: 4}}
		r.add(b.batch, contenders, series)
	}
	r.skip("cublas", 64, errors.New("out of\nmemory"))
	return r
}

// sampleBoth is a run with both ways of launching, and what the host spent.
func sampleBoth() *Report {
	r := &Report{Schema: Schema, Device: Device{Name: "Fake GPU 0", Driver: "CUDA 13.0"}, Problem: Problem{Model: "m", Vocab: 1000, Hidden: 1000, Transform: "none", Sampler: "greedy"}, Method: Method{20, 9, 3}}
	var list []Contender
	var series []Series
	for _, c := range []struct {
		name, launch string
		us           float64
	}{{Floor, Overlap, 100}, {Floor, Serial, 105}, {"fsgen-packed", Overlap, 102}, {"fsgen-packed", Serial, 107.1}, {Cublas, "", 110.25}} {
		list, series = append(list, Contender{Name: c.name, Launch: c.launch, Kernel: "k"}), append(series, Series{Times: []float64{c.us}})
	}
	r.add(8, list, series)
	r.Results[2].Host, r.Results[3].Host = 3.24, 3.1
	r.ColdStarts = []ColdStart{{"fsgen-packed", ColdKernel{"all 2", true, 9, 151, 8.25}, []ColdKernel{{"fast", false, 8, 90, 1.5}, {"slow", true, 9, 140, 2}}}}
	return r
}

// TestLikeIsComparedWithLike: the floor of an overlapped launch is the overlapped floor; a peer's is the serial one.
func TestLikeIsComparedWithLike(t *testing.T) {
	r := sampleBoth()
	var over []float64
	for i := range r.Results {
		over = append(over, r.Results[i].XFloor)
	}
	assert.Equal(t, []float64{1, 1, 1.02, 1.02, 1.05}, over)
	assert.Equal(t, round(102/110.25, 4), r.Results[2].XCublas)
	panels, err := panelsOf([]*Report{r})
	require.NoError(t, err)
	assert.InDelta(t, 1.02, panels[0].points["fsgen-packed"][8].middle, 1e-9, "a point a contender: as plans launch")

	var b bytes.Buffer
	require.NoError(t, r.WriteTable(&b))
	golden.File(t, "testdata/table_both.txt", b.Bytes())
	data, err := r.Encode()
	require.NoError(t, err)
	back, err := Decode(data)
	require.NoError(t, err)
	assert.Equal(t, r, back)
	b.Reset()
	require.NoError(t, r.WriteGoBench(&b))
	assert.Contains(t, b.String(), "/B=8/contender=fsgen-packed/launch=serial-1\t20\t107100 ns/op\t1.0200 x-floor\t0.9714 x-cublas\n")
}

// TestOldDataIsRead: that of schema 1, which had one way of launching.
func TestOldDataIsRead(t *testing.T) {
	old := sample()
	old.Schema = 1
	data, err := old.Encode()
	require.NoError(t, err)
	assert.NotContains(t, string(data), "launch\":\"")
	back, err := Decode(data)
	require.NoError(t, err)
	assert.Equal(t, old, back)
}

func TestRatiosAreOfTheSameBatch(t *testing.T) {
	r := sample()
	x := r.find(256, "fsgen-rowmajor")
	assert.Equal(t, 569.1, x.Median)
	assert.Equal(t, 551.0, round(x.P10, 0))
	assert.Equal(t, round(569.1/271, 4), x.XFloor)
	assert.Equal(t, round(569.1/488, 4), x.XCublas)
	assert.Equal(t, 1.06, r.find(1, "fsgen-rowmajor").XFloor)
	assert.Equal(t, Skipped{"cublas at batch 64", "out of; memory"}, r.Skipped[0])
}

// TestRatiosAreOfTheSameTurn has the clock fall in the middle of a run: the contender that was timed once more at the low one is no slower.
func TestRatiosAreOfTheSameTurn(t *testing.T) {
	r := &Report{Schema: Schema}
	r.add(1, []Contender{{Name: Floor}, {Name: "fsgen-packed"}}, []Series{{Times: []float64{100, 100, 100, 120, 120}}, {Times: []float64{102, 102, 122.4, 122.4, 122.4}}})
	x := r.find(1, "fsgen-packed")
	assert.Equal(t, 1.02, x.XFloor)
	assert.Equal(t, 122.4, x.Median, "which is 1.22 of the floor's")
	r.Results[0].Times = r.Results[0].Times[:3]
	r.derive()
	assert.Equal(t, 1.224, x.XFloor, "times of different numbers of turns have no turns in common")
}

func TestReportSurvivesItsFile(t *testing.T) {
	r := sample()
	data, err := r.Encode()
	require.NoError(t, err)
	assert.Equal(t, len(r.Results)+2, bytes.Count(data, []byte("\n")), "a line for each result")
	back, err := Decode(data)
	require.NoError(t, err)
	assert.Equal(t, r, back)

	// What follows from the times is not believed.
	edited := bytes.ReplaceAll(data, []byte(`"x_floor":1.06`), []byte(`"x_floor":0.5`))
	require.NotEqual(t, data, edited)
	back, err = Decode(edited)
	require.NoError(t, err)
	assert.Equal(t, r, back)

	none, err := (&Report{Schema: Schema}).Encode()
	require.NoError(t, err)
	assert.True(t, json.Valid(none))
}

func TestDecodeRefuses(t *testing.T) {
	good, err := sample().Encode()
	require.NoError(t, err)
	for want, edit := range map[string]func(*Report){
		"schema 3: this fsgen reads 1 to 2":  func(r *Report) { r.Schema = 3 },
		"schema 0: this fsgen reads 1 to 2":  func(r *Report) { r.Schema = 0 },
		`result 4: launched "late": want ov`: func(r *Report) { r.Results[4].Launch = "late" },
		"result 1: floor at batch size 1":    func(r *Report) { r.Results[1].Contender = Floor },
		"result 0: want a batch size":        func(r *Report) { r.Results[0].Times = nil },
		"result 2: a time of 0":              func(r *Report) { r.Results[2].Times[3] = 0 },
		"result 3: want a batch size, a con": func(r *Report) { r.Results[3].Contender = "" },
	} {
		r, err := Decode(good)
		require.NoError(t, err)
		edit(r)
		bad, err := r.Encode()
		require.NoError(t, err)
		_, err = Decode(bad)
		assert.ErrorContains(t, err, want)
	}
	for _, text := range []string{"", "[]", `{"schema":1,"frob":2}`} {
		_, err := Decode([]byte(text))
		assert.ErrorContains(t, err, "not the data of a run", text)
	}
}

func TestTable(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, sample().WriteTable(&b))
	golden.File(t, "testdata/table.txt", b.Bytes())

	bare := sample()
	for i := range bare.Results {
		bare.Results[i].Clocks, bare.Results[i].Kernel = nil, ""
	}
	bare.Results = append(bare.Results[:2], bare.Results[3:5]...) // without cuBLAS
	bare.derive()
	b.Reset()
	require.NoError(t, bare.WriteTable(&b))
	assert.Regexp(t, `(?m)^BATCH +CONTENDER +MEDIAN US +P10 +P90 +X FLOOR$`, b.String())
}

// benchLine is the form of a result in Go's benchmark data (golang.org/design/14313-benchmark-format): name, iterations,
// and pairs of a value and its unit.
var benchLine = regexp.MustCompile(`^Benchmark\S+-1\t\d+(\t[0-9.]+ [a-z/-]+)+$`)

func TestGoBench(t *testing.T) {
	r := sample()
	var b bytes.Buffer
	require.NoError(t, r.WriteGoBench(&b))
	golden.File(t, "testdata/gobench.txt", []byte(regexp.MustCompile(`(?m)^(goos|goarch): .*$`).ReplaceAllString(b.String(), "$1: any")))
	results := 0
	for line := range strings.Lines(b.String()) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "Benchmark"):
			assert.Regexp(t, benchLine, line)
			results++
		case strings.HasPrefix(line, "Unit "):
			assert.Regexp(t, `^Unit \S+ better=lower$`, line)
		default:
			assert.Regexp(t, `^[a-z][a-z0-9]*: \S`, line)
		}
	}
	assert.Equal(t, 6*9, results)
}

// TestBenchstatReadsGoBench asks benchstat itself, where it is installed.
func TestBenchstatReadsGoBench(t *testing.T) {
	tool, err := exec.LookPath("benchstat")
	if err != nil {
		t.Skip("benchstat is not here (go install golang.org/x/perf/cmd/benchstat@latest)")
	}
	var b bytes.Buffer
	require.NoError(t, sample().WriteGoBench(&b))
	path := t.TempDir() + "/new.txt"
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o600))
	out, err := exec.Command(tool, "-col", "/contender", path).CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, want := range []string{"sec/op", "x-floor", "x-cublas", "fsgen-rowmajor", "qwen3-8b"} {
		assert.Contains(t, string(out), want)
	}
}

func TestRoundKeepsDigits(t *testing.T) {
	assert.Equal(t, 1.235, round(1.23456, 3))
	assert.True(t, math.IsNaN(round(math.NaN(), 3)))
}
