//go:build !fsgen_nocuda

package sampler

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/driver"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/tiling"
)

const (
	timedLaunches = 20 // in one graph
	timedReplays  = 9
)

// contender is one kernel to be timed at one batch size.
type contender struct {
	name   string
	batch  int
	launch func(stream *driver.Stream) error
	graph  *driver.GraphExec
	times  []float64 // microseconds a launch
}

// TestGPUTime prints launch times over the batch sizes of a shape: medians over graph replays, contenders interleaved.
// It asserts nothing; docs/NOTES.md says what is expected. FSGEN_TIME_SHAPE is V,D; FSGEN_TIME_TILES lists extra tiles;
// FSGEN_TIME_OUT is a file for the raw times.
func TestGPUTime(t *testing.T) {
	if os.Getenv("FSGEN_TIME") == "" {
		t.Skip("set FSGEN_TIME=1 to time")
	}
	dev := gpu(t)
	v, d := timedShape(t)
	rng := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
	head, err := dev.LoadHead(context.Background(), Weights{
		Source: pooledRows{normals(rng, 1<<22, 1/math.Sqrt(float64(d))), d}, Vocab: v, Hidden: d})
	require.NoError(t, err)
	defer head.Close()
	hidden := upload(t, dev, normals(rng, 256*d, 1))
	var list []*contender
	for _, batch := range []int{1, 8, 16, 32, 64, 128, 256} {
		list = append(list, timedPlans(t, dev, head, hidden, batch)...)
	}
	floor := floorContender(t, dev, head)
	list = append(list, floor...)
	runTimed(t, dev, list)
	report(t, list, v, d)
}

func timedShape(t *testing.T) (v, d int) {
	v, d = 151936, 4096
	if s := os.Getenv("FSGEN_TIME_SHAPE"); s != "" {
		_, err := fmt.Sscanf(s, "%d,%d", &v, &d)
		require.NoError(t, err)
	}
	return v, d
}

// timedPlans makes the contenders of a batch size: the default tile, the same without noise, and tiles asked for.
func timedPlans(t *testing.T, dev *Device, head *Head, hidden uint64, batch int) []*contender {
	specs := map[string]Spec{}
	order := []string{"default", "greedy"}
	temperature := ir.Chain{Temperature: true}
	specs["default"] = Spec{Chain: temperature, MaxBatch: batch}
	specs["greedy"] = Spec{Sampler: ir.Greedy, MaxBatch: batch}
	for _, name := range strings.Fields(os.Getenv("FSGEN_TIME_TILES")) {
		tile, err := tiling.ParseTile(name)
		require.NoError(t, err)
		if widths := tiling.Widths(arch.SM90, batch); tile.N == widths[len(widths)-1] {
			specs[name] = Spec{Chain: temperature, MaxBatch: batch, Tile: tile}
			order = append(order, name)
		}
	}
	var list []*contender
	for _, name := range order {
		list = append(list, timedPlan(t, dev, head, specs[name], name, hidden, batch))
	}
	return list
}

func timedPlan(t *testing.T, dev *Device, head *Head, spec Spec, name string, hidden uint64, batch int) *contender {
	return timedArgs(t, dev, head, spec, name, hidden, batch, func(*DeviceArgs) {})
}

// timedArgs is timedPlan for launches with more arguments.
func timedArgs(t *testing.T, dev *Device, head *Head, spec Spec, name string, hidden uint64, batch int, more func(a *DeviceArgs)) *contender {
	plan, err := head.Plan(context.Background(), spec)
	require.NoError(t, err, name)
	t.Cleanup(func() { plan.Close() })
	l, err := plan.NewLauncher(batch)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	seeds, temps := make([]uint64, batch), make([]float32, batch)
	for i := range seeds {
		seeds[i], temps[i] = rand.Uint64(), 0.7+float32(i%5)*0.2
	}
	args := &DeviceArgs{Batch: batch, Hidden: hidden, Seeds: upload(t, dev, seeds), Positions: upload(t, dev, []uint64{7}),
		OnePosition: true, Temperature: upload(t, dev, temps),
		Tokens: upload(t, dev, make([]int32, batch)), Status: upload(t, dev, make([]int32, batch)),
		LogProbs: upload(t, dev, make([]float32, batch)), Passes: upload(t, dev, make([]int32, batch))}
	if n := spec.MaxDraws; n > 0 {
		args.DrawCounts, args.OneDrawCount = upload(t, dev, []int32{int32(n)}), true
		args.Draws, args.DrawScores = upload(t, dev, make([]int32, n*batch)), upload(t, dev, make([]float32, n*batch))
	}
	if n := spec.TopN; n > 0 {
		args.TopIDs, args.TopLogProbs = upload(t, dev, make([]int32, n*batch)), upload(t, dev, make([]float32, n*batch))
	}
	if spec.ListLogProbs {
		listArgs(t, dev, args, head.Shape().Vocab)
	}
	more(args)
	return &contender{name: name + " " + l.plan.list[l.plan.widths.choose(batch)].Manifest.Tile.Name, batch: batch, launch: func(s *driver.Stream) error {
		return l.Launch(s.Handle(), args)
	}}
}

// runTimed captures a graph of each contender and replays them in turn.
func runTimed(t *testing.T, dev *Device, list []*contender) {
	ctx := dev.b.(*cudaDevice).ctx
	stream, err := ctx.NewStream()
	require.NoError(t, err)
	defer stream.Close()
	start, err := ctx.NewEvent(true)
	require.NoError(t, err)
	defer start.Close()
	end, err := ctx.NewEvent(true)
	require.NoError(t, err)
	defer end.Close()
	for _, c := range list {
		g, err := stream.Capture(func() error {
			for range timedLaunches {
				if err := c.launch(stream); err != nil {
					return err
				}
			}
			return nil
		})
		require.NoError(t, err, c.name)
		defer g.Close()
		c.graph, err = g.Instantiate()
		require.NoError(t, err)
		defer c.graph.Close()
	}
	for range 3 { // clocks settle before anything counts
		for _, c := range list {
			require.NoError(t, c.graph.Launch(stream))
		}
		require.NoError(t, stream.Synchronize(context.Background()))
	}
	for range timedReplays {
		for _, c := range list {
			require.NoError(t, start.Record(stream))
			require.NoError(t, c.graph.Launch(stream))
			require.NoError(t, end.Record(stream))
			require.NoError(t, end.Synchronize(context.Background()))
			d, err := driver.Elapsed(start, end)
			require.NoError(t, err)
			c.times = append(c.times, float64(d.Nanoseconds())/1e3/timedLaunches)
		}
	}
}

func (c *contender) quantile(q float64) float64 {
	s := slices.Sorted(slices.Values(c.times))
	return s[int(q*float64(len(s)-1))]
}

func report(t *testing.T, list []*contender, v, d int) {
	floor := math.Inf(1)
	for _, c := range list {
		if c.batch == 0 {
			floor = min(floor, c.quantile(0.5))
		}
	}
	raw := map[string][]float64{}
	for _, c := range list {
		raw[strconv.Itoa(c.batch)+" "+c.name] = c.times
		t.Logf("V=%d D=%d B=%3d %-32s %8.1f us  p10 %8.1f p90 %8.1f  x floor %.3f", v, d, c.batch, c.name,
			c.quantile(0.5), c.quantile(0.1), c.quantile(0.9), c.quantile(0.5)/floor)
	}
	if out := os.Getenv("FSGEN_TIME_OUT"); out != "" {
		text, err := json.MarshalIndent(raw, "", " ")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(out, text, 0o644))
	}
}

// timedHead is a packed head of the shape that is timed, and hidden states of some rows.
func timedHead(t *testing.T, dev *Device, rows int) (head *Head, hidden uint64) {
	t.Helper()
	v, d := timedShape(t)
	head, err := dev.LoadHead(context.Background(), Weights{Source: pooledRows{normals(rand.New(rand.NewPCG(1, 2)), 1<<22, 1/math.Sqrt(float64(d))), d},
		Vocab: v, Hidden: d, Layout: Packed})
	require.NoError(t, err)
	hidden = upload(t, dev, normals(rand.New(rand.NewPCG(1, 3)), rows*d, 1))
	t.Cleanup(func() { head.Close() }) // behind the plans
	return head, hidden
}

// timedOverPlain holds plans to what they may take over the plain one, by medians of ratios of replays in turn.
func timedOverPlain(t *testing.T, most float64, specs func(batch int) []Spec) {
	dev := gpu(t)
	head, hidden := timedHead(t, dev, 64)
	for _, batch := range []int{1, 16, 64} {
		var list []*contender
		for _, spec := range append([]Spec{{}}, specs(batch)...) {
			spec.Chain.Temperature, spec.MaxBatch = true, batch
			list = append(list, timedPlan(t, dev, head, spec, spec.Computation().Extras(), hidden, batch))
		}
		runTimed(t, dev, list)
		for _, c := range list[1:] {
			c.holdTo(t, list[0], most)
		}
	}
}
