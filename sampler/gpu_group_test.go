//go:build !fsgen_nocuda && !race

package sampler

import (
	"errors"
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
	"golang.org/x/sync/errgroup"

	"github.com/fsgen/fsgen/driver"
	"github.com/fsgen/fsgen/ir"
)

// ranksOn are the devices of n ranks, in turn on as many GPUs as FSGEN_GPUS says: on one, unless said.
func ranksOn(t testing.TB, n int) []string {
	devices, gpus := make([]string, n), fromEnv(t, "FSGEN_GPUS", 1)
	for i := range devices {
		devices[i] = fmt.Sprintf("%s:%d", CUDA, i%gpus)
	}
	return devices
}

// gpuGroup opens a group with a plan over a head; all is closed with the test.
func gpuGroup(t testing.TB, cfg GroupConfig, w Weights, spans []ir.Span, spec Spec) *GroupPlan {
	t.Helper()
	g, err := OpenGroup(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, g.Close()) })
	head, err := g.LoadHead(t.Context(), w, spans)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, head.Close()) })
	plan, err := head.Plan(t.Context(), spec)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, plan.Close()) })
	return plan
}

// fromEnv is a number of the environment, or what it is usually.
func fromEnv(t testing.TB, name string, usual int) int {
	text := os.Getenv(name)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, name)
	return n
}

// TestGPUVirtualRanks holds ranks on one GPU, or on several, to one alone, over FSGEN_GROUP_ROWS rows (100,000) of all samplers for each number
// of ranks.
func TestGPUVirtualRanks(t *testing.T) {
	gpu(t)
	const vocab, hidden, batch = 32001, 64, 256
	rng := rand.New(rand.NewPCG(5, 6))
	weights := Weights{Source: Matrix{Data: normals(rng, vocab*hidden, 0.3), Hidden: hidden}, Vocab: vocab, Hidden: hidden}
	each := fromEnv(t, "FSGEN_GROUP_ROWS", 100_000) / batch / (len(shardCases) - 1)
	for name, c := range shardCases {
		calls := max(each, 1)
		if c.spec.Chain.Bias == ir.BiasMatrix { // which takes longer to copy than all else
			calls = 2
		}
		for i, n := range []int{2, 3, 4, 8} {
			t.Run(fmt.Sprintf("%s on %d", name, n), func(t *testing.T) {
				w, spec, spans := weights, c.spec, []ir.Span(nil)
				spec.MaxBatch, w.Layout = batch, []Layout{RowMajor, Packed}[i%2]
				if n == 3 && spec.Sampler != ir.Grouped {
					spans = []ir.Span{{Start: 0, Count: 20000}, {Start: 20000, Count: 0}, {Start: 20000, Count: 12001}}
				}
				whole := gpuGroup(t, GroupConfig{Devices: ranksOn(t, 1)}, weights, nil, spec)
				plan := gpuGroup(t, GroupConfig{Devices: ranksOn(t, n), ExchangeBytes: 256 << 20}, w, spans, spec)
				require.Equal(t, TransportPeer, plan.h.g.Info().Transport)
				for call := range calls {
					rows, h := c.rows(rng, vocab, batch-call%3), normals(rng, (batch-call%3)*hidden, 1)
					want, err := whole.Sample(t.Context(), h, rows)
					require.NoError(t, err)
					got, err := plan.Sample(t.Context(), h, rows)
					require.NoError(t, err)
					requireSame(t, want, got, fmt.Sprintf("call %d", call))
				}
			})
		}
	}
}

// TestGPUGroupByHost takes the records over the host.
func TestGPUGroupByHost(t *testing.T) {
	gpu(t)
	const vocab, hidden, batch = 49159, 64, 33
	rng := rand.New(rand.NewPCG(5, 7))
	weights := Weights{Source: Matrix{Data: normals(rng, vocab*hidden, 0.3), Hidden: hidden}, Vocab: vocab, Hidden: hidden}
	for name, c := range shardCases {
		if c.spec.Computation().Collects() || c.spec.Rank {
			continue // lists and reports do not travel that way
		}
		t.Run(name, func(t *testing.T) {
			rows, h := c.rows(rng, vocab, batch), normals(rng, batch*hidden, 1)
			want, err := gpuGroup(t, GroupConfig{Devices: ranksOn(t, 1)}, weights, nil, c.spec).Sample(t.Context(), h, rows)
			require.NoError(t, err)
			for _, n := range []int{2, 3, 4} {
				got, err := gpuGroup(t, GroupConfig{Devices: ranksOn(t, n), Transport: TransportHost}, weights, nil, c.spec).Sample(t.Context(), h, rows)
				require.NoError(t, err)
				requireSame(t, want, got, fmt.Sprintf("%d ranks", n))
			}
		})
	}
}

// rankLaunch is a rank's launches on a stream of its own.
type rankLaunch struct {
	l      *Launcher
	dev    *Device
	stream *driver.Stream
	args   *DeviceArgs
}

// rankLaunches makes launches of a plan with a few rows, the same on all ranks.
func rankLaunches(t testing.TB, plan *GroupPlan, batch int) (all []*rankLaunch) {
	t.Helper()
	launchers, err := plan.NewLaunchers(t.Context())
	require.NoError(t, err)
	for i, l := range launchers {
		all = append(all, newRankLaunch(t, plan, i, l, batch))
	}
	return all
}

func newRankLaunch(t testing.TB, plan *GroupPlan, i int, l *Launcher, batch int) *rankLaunch {
	rng := rand.New(rand.NewPCG(1, 1))
	dev := &Device{b: plan.b.(*cudaGroupPlan).group.ranks[i].dev}
	stream, err := dev.b.(*cudaDevice).ctx.NewStream()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, errors.Join(stream.Close(), l.Close())) })
	temps := make([]float32, batch)
	for i := range temps {
		temps[i] = 1
	}
	return &rankLaunch{l, dev, stream, &DeviceArgs{Batch: batch, Hidden: upload(t, dev, normals(rng, batch*plan.h.shape.Hidden, 1)),
		Seeds: upload(t, dev, make([]uint64, batch)), Positions: upload(t, dev, []uint64{0}), OnePosition: true, Temperature: upload(t, dev, temps),
		Tokens: upload(t, dev, make([]int32, batch)), Status: upload(t, dev, make([]int32, batch))}}
}

func (r *rankLaunch) launch() error { return r.l.Launch(r.stream.Handle(), r.args) }

// results waits, and reads tokens and statuses.
func (r *rankLaunch) results(t testing.TB) (tokens, status []byte) {
	tokens, status = make([]byte, 4*r.args.Batch), make([]byte, 4*r.args.Batch)
	ctx := r.dev.b.(*cudaDevice).ctx
	err := errors.Join(r.stream.Synchronize(t.Context()), ctx.CopyFromDevice(tokens, driver.DevicePtr(r.args.Tokens)), ctx.CopyFromDevice(status, driver.DevicePtr(r.args.Status)))
	if err != nil {
		t.Error(err)
	}
	return tokens, status
}

// step sets the position of the rank's next launches.
func (r *rankLaunch) step(position uint64) error {
	return r.dev.b.(*cudaDevice).ctx.CopyToDevice(driver.DevicePtr(r.args.Positions), asBytes([]uint64{position}))
}

// TestGPUGroupSoak has ranks launch FSGEN_SOAK_ROUNDS times (5,000), each by a goroutine of its own that is late at random, and now
// and then very late. No launch may hang or differ.
func TestGPUGroupSoak(t *testing.T) {
	dev := gpu(t)
	rounds, n := fromEnv(t, "FSGEN_SOAK_ROUNDS", 5000), fromEnv(t, "FSGEN_SOAK_RANKS", 2)
	const vocab, hidden, batch = 4096, 64, 16
	weights := Weights{Source: Matrix{Data: normals(rand.New(rand.NewPCG(1, 8)), vocab*hidden, 0.3), Hidden: hidden}, Vocab: vocab, Hidden: hidden}
	plan := gpuGroup(t, GroupConfig{Devices: ranksOn(t, n)}, weights, nil, Spec{Chain: ir.Chain{Temperature: true}, MaxBatch: batch})
	ranks := rankLaunches(t, plan, batch)
	const looks = 64 // launches between looks at the results
	before := uint64(0)
	for done := 0; done < rounds; done += looks {
		if done == looks { // whatever the first launches have brought in is there
			before = freeMemory(t, dev)
		}
		tokens := make([][]byte, n)
		var all errgroup.Group
		for _, r := range ranks { // before any waits for another: the stream of copies may share its queue to the GPU
			require.NoError(t, r.step(uint64(done)))
		}
		for i, r := range ranks {
			all.Go(func() error {
				for range looks {
					time.Sleep(skew())
					if err := r.launch(); err != nil {
						return err
					}
				}
				var status []byte
				tokens[i], status = r.results(t)
				for _, s := range status {
					if s != 0 {
						return errors.Join(fmt.Errorf("rank %d, about round %d: status %v", i, done, status), r.l.Peers())
					}
				}
				return nil
			})
		}
		require.NoError(t, all.Wait())
		for i := range ranks {
			require.Equal(t, tokens[0], tokens[i], "about round %d", done)
		}
	}
	if rounds > looks {
		require.Equal(t, before, freeMemory(t, dev), "device memory that is free")
	}
}

// skew is mostly nothing, often microseconds, and now and then milliseconds.
func skew() time.Duration {
	switch rand.IntN(2000) {
	case 0:
		return time.Duration(rand.IntN(50)) * time.Millisecond
	case 1, 2, 3, 4, 5, 6, 7, 8, 9, 10:
		return time.Duration(rand.IntN(300)) * time.Microsecond
	}
	return 0
}

func freeMemory(t testing.TB, dev *Device) uint64 {
	free, _, err := dev.b.(*cudaDevice).ctx.MemoryInfo()
	require.NoError(t, err)
	return free
}

// TestGPUGroupReplays captures the launches of two ranks once and replays them, with positions that change: as launched.
func TestGPUGroupReplays(t *testing.T) {
	gpu(t)
	const vocab, hidden, batch, replays = 4096, 64, 16, 300
	weights := Weights{Source: Matrix{Data: normals(rand.New(rand.NewPCG(1, 9)), vocab*hidden, 0.3), Hidden: hidden}, Vocab: vocab, Hidden: hidden}
	plan := gpuGroup(t, GroupConfig{Devices: ranksOn(t, 2)}, weights, nil, Spec{Chain: ir.Chain{Temperature: true}, MaxBatch: batch})
	eager, replayed := rankLaunches(t, plan, batch), rankLaunches(t, plan, batch)
	var graphs []*driver.GraphExec
	for _, r := range replayed {
		g, err := r.stream.Capture(r.launch)
		require.NoError(t, err)
		defer g.Close()
		exec, err := g.Instantiate()
		require.NoError(t, err)
		defer exec.Close()
		graphs = append(graphs, exec)
	}
	for position := range uint64(replays) {
		for i := range eager {
			require.NoError(t, errors.Join(eager[i].step(position), replayed[i].step(position)))
		}
		for i := range eager {
			require.NoError(t, eager[i].launch())
		}
		want, _ := eager[0].results(t)
		eager[1].results(t)
		for i := range graphs {
			require.NoError(t, graphs[i].Launch(replayed[i].stream))
		}
		for _, r := range replayed {
			got, status := r.results(t)
			require.Equal(t, want, got, "position %d", position)
			require.Equal(t, make([]byte, 4*batch), status)
		}
	}
}

// TestGPUGroupRankNeverComes launches one of two ranks: it ends in time, says whom it missed, and so does whatever is launched behind.
func TestGPUGroupRankNeverComes(t *testing.T) {
	gpu(t)
	const vocab, hidden, batch = 4096, 64, 16
	weights := Weights{Source: Matrix{Data: normals(rand.New(rand.NewPCG(1, 10)), vocab*hidden, 0.3), Hidden: hidden}, Vocab: vocab, Hidden: hidden}
	plan := gpuGroup(t, GroupConfig{Devices: ranksOn(t, 2), Timeout: 200 * time.Millisecond}, weights, nil, Spec{Chain: ir.Chain{Temperature: true}, MaxBatch: batch})
	r := rankLaunches(t, plan, batch)[1]
	require.NoError(t, r.l.Peers())
	for range 2 {
		start := time.Now()
		require.NoError(t, r.launch())
		tokens, status := r.results(t)
		require.Less(t, time.Since(start), 2*time.Second)
		for i := range batch {
			require.Equal(t, []byte{255, 255, 255, 255}, tokens[4*i:4*i+4])
			require.Equal(t, []byte{byte(ir.StatusPeer), 0, 0, 0}, status[4*i:4*i+4])
		}
		var missing *PeerError
		require.ErrorAs(t, r.l.Peers(), &missing)
		require.Equal(t, &PeerError{Missing: []int{0}, World: 2, Rank: 1, Epoch: 1, Timeout: 200 * time.Millisecond}, missing)
	}
}

// TestGPUExchangeTime prints what the exchange adds to a launch, with FSGEN_TIME set: two ranks on one GPU that exchange, against the
// same two that only leave their records, side by side in graphs, in turns.
func TestGPUExchangeTime(t *testing.T) {
	if os.Getenv("FSGEN_TIME") == "" {
		t.Skip("set FSGEN_TIME=1 to time")
	}
	gpu(t)
	v, d := timedShape(t)
	weights := Weights{Source: pooledRows{normals(rand.New(rand.NewPCG(1, 2)), 1<<22, 1/math.Sqrt(float64(d))), d}, Vocab: v, Hidden: d, Layout: Packed}
	for _, n := range []int{2, 4, 8} {
		if most := fromEnv(t, "CUDA_DEVICE_MAX_CONNECTIONS", 8); 2*n > most {
			t.Logf("%d ranks are left out: set CUDA_DEVICE_MAX_CONNECTIONS=32, or streams of ranks share one of the %d queues to the GPU", n, most)
			continue
		}
		for _, batch := range []int{1, 16, 64} {
			for _, spec := range []Spec{{}, {LogProb: ir.RawLogProb}} {
				spec.Chain.Temperature, spec.MaxBatch = true, batch
				timeExchange(t, n, batch, weights, spec)
			}
		}
	}
}

// sideBySide is one kind of launches of all ranks, captured.
type sideBySide struct {
	launches int            // in a graph
	gate     *driver.Buffer // what is filled ahead of a replay
	ranks    []*rankLaunch
	graphs   []*driver.GraphExec
	times    []float64   // until the last rank is done
	ends     [][]float64 // until each is
}

// middles are the medians of the ranks' ends.
func (k *sideBySide) middles() string {
	var text []string
	for _, times := range k.ends {
		text = append(text, fmt.Sprintf("%.1f", (&contender{times: times}).quantile(0.5)))
	}
	return strings.Join(text, ", ")
}

func timeExchange(t *testing.T, n, batch int, w Weights, spec Spec) {
	t.Run(fmt.Sprintf("%d ranks, batch %d, %s", n, batch, spec.Computation().Extras()), func(t *testing.T) {
		gate, err := gpu(t).b.(*cudaDevice).ctx.Alloc(gateBytes)
		require.NoError(t, err)
		defer gate.Free()
		var plans []*GroupPlan
		for _, transport := range []Transport{TransportHost, TransportPeer} {
			plans = append(plans, gpuGroup(t, GroupConfig{Devices: ranksOn(t, n), Transport: transport}, w, nil, spec))
		}
		// Single launches are what an exchange adds to the slower rank. In a row of launches it also has ranks go in step, which share one
		// memory: whoever is done early leaves it to the others, whose part of the multiprocessors cannot fill it.
		for _, launches := range []int{1, timedLaunches} {
			var kinds []*sideBySide
			for _, plan := range plans {
				k := captureRanks(t, plan, batch, launches)
				k.gate = gate
				kinds = append(kinds, k)
			}
			for round := range timedReplays*timedLaunches/launches + 3 {
				for _, k := range kinds {
					k.replay(t, round >= 3)
				}
			}
			alone, exchanging := contender{times: kinds[0].times}, contender{times: kinds[1].times}
			t.Logf("%d ranks, B=%d %s: graphs of %d: records alone %.1f us, exchanged %.1f us: %+.1f us (ranks end at %s; %s)", n, batch, spec.Computation().Extras(), launches,
				alone.quantile(0.5), exchanging.quantile(0.5), exchanging.quantile(0.5)-alone.quantile(0.5), kinds[0].middles(), kinds[1].middles())
		}
	})
}

// captureRanks captures launches of every rank.
func captureRanks(t *testing.T, plan *GroupPlan, batch, launches int) *sideBySide {
	k, c := &sideBySide{launches: launches}, plan.b.(*cudaGroupPlan)
	for i, part := range c.parts {
		l, err := part.newRankLauncher(batch, c.channels[i])
		require.NoError(t, err)
		r := newRankLaunch(t, plan, i, l, batch)
		r.args.LogProbs = upload(t, r.dev, make([]float32, batch))
		g, err := r.stream.Capture(func() error {
			for range launches {
				if err := r.launch(); err != nil {
					return err
				}
			}
			return nil
		})
		require.NoError(t, err)
		defer g.Close()
		exec, err := g.Instantiate()
		require.NoError(t, err)
		t.Cleanup(func() { exec.Close() })
		k.ranks, k.graphs = append(k.ranks, r), append(k.graphs, exec)
	}
	return k
}

// gateBytes take a GPU longer to fill than the host takes to launch the graphs behind: so ranks begin together, whatever the host does.
const gateBytes = 1 << 30

// replay runs all ranks' graphs side by side, from one event to the last one's end.
func (k *sideBySide) replay(t *testing.T, counts bool) {
	ctx := k.ranks[0].dev.b.(*cudaDevice).ctx
	start, err := ctx.NewEvent(true)
	require.NoError(t, err)
	defer start.Close()
	first := k.ranks[0].stream
	require.NoError(t, errors.Join(first.MemsetD8(k.gate.Ptr(), 0, gateBytes), start.Record(first)))
	for i, r := range k.ranks {
		if i > 0 {
			require.NoError(t, r.stream.Wait(start))
		}
	}
	for i, r := range k.ranks {
		require.NoError(t, k.graphs[i].Launch(r.stream))
	}
	var slowest time.Duration
	var ends []*driver.Event
	for _, r := range k.ranks {
		end, err := ctx.NewEvent(true)
		require.NoError(t, err)
		defer end.Close()
		require.NoError(t, end.Record(r.stream))
		ends = append(ends, end)
	}
	micros := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 / float64(k.launches) }
	k.ends = slices.Grow(k.ends, len(ends))[:len(ends)]
	for i, end := range ends {
		require.NoError(t, end.Synchronize(t.Context()))
		d, err := driver.Elapsed(start, end)
		require.NoError(t, err)
		if slowest = max(slowest, d); counts {
			k.ends[i] = append(k.ends[i], micros(d))
		}
	}
	if counts {
		k.times = append(k.times, micros(slowest))
	}
}
