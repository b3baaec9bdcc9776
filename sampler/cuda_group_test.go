//go:build linux && (amd64 || arm64) && !fsgen_nocuda

package sampler

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/autotune"
	"github.com/fsgen/fsgen/gen"
	"github.com/fsgen/fsgen/internal/cache"
	"github.com/fsgen/fsgen/internal/cfake"
	"github.com/fsgen/fsgen/internal/nccl"
	"github.com/fsgen/fsgen/internal/rendezvous"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/templates"
	"github.com/fsgen/fsgen/tiling"
)

// callGroup opens a group, samples a few times and closes everything.
func callGroup(t testing.TB, cfg GroupConfig, spec Spec) (info GroupInfo, err error) {
	const vocab, hidden = 300, 16
	g, err := OpenGroup(t.Context(), cfg)
	if err != nil {
		return info, err
	}
	defer func() { assert.NoError(t, g.Close()) }()
	head, err := g.LoadHead(t.Context(), Weights{Source: Matrix{Data: make([]uint16, vocab*hidden), Hidden: hidden}, Vocab: vocab, Hidden: hidden}, nil)
	if err != nil {
		return info, err
	}
	defer func() { assert.NoError(t, head.Close()) }()
	plan, err := head.Plan(t.Context(), spec)
	if err != nil {
		return info, err
	}
	defer func() { assert.NoError(t, plan.Close()) }()
	for range 3 {
		rows := Rows{}
		if spec.Truncation.TopK {
			rows.TopK = []int32{3}
		}
		if spec.ListLogProbs {
			rows.ListIDs = [][]int32{{1, 299}}
		}
		if _, err := plan.Sample(t.Context(), make([]uint16, 5*hidden), rows); err != nil {
			return info, err
		}
	}
	return g.Info(), nil
}

// TestGroupsLeaveNothing: whatever the ranks are and records travel by, all that a group took is given back.
func TestGroupsLeaveNothing(t *testing.T) {
	f := openFake(t)
	for _, want := range []Transport{TransportPeer, TransportHost} {
		for _, spec := range []Spec{{Sampler: ir.Gumbel}, {Sampler: ir.Greedy, LogProb: ir.RawLogProb, Score: true}} {
			info, err := callGroup(t, GroupConfig{Devices: []string{"cuda:0", "cuda:0", "cuda:0"}, Transport: want}, spec)
			require.NoError(t, err)
			require.Equal(t, want, info.Transport)
			require.Equal(t, "asked for", info.Why)
		}
	}
	before := f.calls("cuLaunchKernelEx")
	_, err := callGroup(t, GroupConfig{Devices: []string{"cuda:0", "cuda:0"}, Transport: TransportPeer}, allReports)
	require.NoError(t, err)
	require.Equal(t, 2*3*8, f.calls("cuLaunchKernelEx")-before, "a kernel, three stages of the likeliest, two of lists, and a pass that counts with its own")
	tile, err := tiling.ParseTile("m128n16k64s4c1")
	require.NoError(t, err)
	info, err := callGroup(t, GroupConfig{Devices: []string{"cuda:0", "cuda:0"}}, Spec{Truncation: ir.Truncation{TopK: true}, Tile: tile, MaxBatch: 16})
	require.NoError(t, err)
	require.Equal(t, TransportPeer, info.Transport)
	_, err = callGroup(t, GroupConfig{Devices: []string{"cuda:0", "cuda:0"}, ExchangeBytes: 1}, Spec{Truncation: ir.Truncation{TopK: true}, Tile: tile, MaxBatch: 256})
	require.EqualError(t, err, "sampler: ranks have 2097152 bytes to exchange all plans' records in, and this plan takes 38445056")
	_, err = callGroup(t, GroupConfig{Devices: []string{"cuda:0", "cuda:0"}, ExchangeBytes: 8 << 20}, Spec{Truncation: ir.Truncation{TopK: true}, Tile: tile, MaxBatch: 256})
	var room *RoomError
	require.ErrorAs(t, err, &room)
	require.Equal(t, "sampler: ranks have 8388608 bytes to exchange all plans' records in, and this plan takes 38445056: a largest batch of 48 fits", err.Error())
	_, err = callGroup(t, GroupConfig{Devices: []string{"cuda:0", "cuda:0"}, ExchangeBytes: 8 << 20}, Spec{Truncation: ir.Truncation{TopK: true}, Tile: tile, MaxBatch: room.MaxBatch})
	require.NoError(t, err)
	_, err = callGroup(t, GroupConfig{Devices: []string{"cuda:0", "cuda:0"}, Transport: TransportNCCL}, Spec{})
	var transport *TransportError
	require.ErrorAs(t, err, &transport)
}

// allReports asks for all that is reported of rows.
var allReports = Spec{Sampler: ir.Greedy, LogProb: ir.RawLogProb, TopN: 3, Rank: true, ListLogProbs: true}

// TestGroupsTakeTunedTiles: what was tuned for the part of a GPU that a rank has, and a shard's shape, is what plans of groups take, in one
// process and in several.
func TestGroupsTakeTunedTiles(t *testing.T) {
	f := openFake(t)
	t.Setenv(cache.EnvDir, t.TempDir())
	gpu, ok := f.GPU()
	require.True(t, ok)
	gpu.Multiprocessors /= 2
	tile, err := tiling.ParseTile("m64n32k64s5c2")
	require.NoError(t, err)
	r := gen.Request{Arch: arch.SM90, Computation: ir.Computation{Chain: ir.Chain{Temperature: true}}, Batch: 16, Tile: tile,
		Shape: ShardShape(ir.Shape{Vocab: 300, Hidden: 16}, ir.EvenSpans(300, 2))}
	a, err := gen.Emit(r)
	require.NoError(t, err)
	require.NoError(t, autotune.OpenStore(cache.Open(cache.Options{}), nil).Put(&autotune.Entry{Schema: autotune.Schema, Key: autotune.NewKey(gpu, string(RowMajor), r),
		Candidate: tile.String(), PTXSHA256: a.Manifest.PTXSHA256, Microseconds: 1}))
	kernelsOf := func(cfg GroupConfig) (names []string, err error) {
		g, err := OpenGroup(t.Context(), cfg)
		if err != nil {
			return nil, err
		}
		defer func() { assert.NoError(t, g.Close()) }()
		head, err := g.LoadHead(t.Context(), Weights{Source: Matrix{Data: make([]uint16, 300*16), Hidden: 16}, Vocab: 300, Hidden: 16}, nil)
		if err != nil {
			return nil, err
		}
		defer func() { assert.NoError(t, head.Close()) }()
		plan, err := head.Plan(t.Context(), Spec{Chain: ir.Chain{Temperature: true}, MaxBatch: 16})
		if err != nil {
			return nil, err
		}
		defer func() { assert.NoError(t, plan.Close()) }()
		return plan.Kernels(), nil
	}
	tuned := "fsgen_sm_90_m64n32k64s5c2_gumbel_temperature_exchange"
	names, err := kernelsOf(GroupConfig{Devices: []string{"cuda:0", "cuda:0"}})
	require.NoError(t, err)
	require.Len(t, names, 4)
	require.Equal(t, []string{tuned, tuned}, []string{names[1], names[3]})
	var all errgroup.Group
	for rank := range 2 {
		all.Go(func() error {
			names, err := kernelsOf(GroupConfig{Devices: []string{"cuda:0"}, Rank: rank, World: 2, Name: fmt.Sprintf("tuned-%d", os.Getpid()), JoinTimeout: 20 * time.Second})
			if err == nil && (len(names) != 2 || names[1] != tuned) {
				err = fmt.Errorf("rank %d has the kernels %v", rank, names)
			}
			return err
		})
	}
	require.NoError(t, all.Wait())
}

// TestRankLaunchesOfReports: a launch of a rank has the stages that exchange what it reports, if it is asked for.
func TestRankLaunchesOfReports(t *testing.T) {
	f := openFake(t)
	g, err := OpenGroup(t.Context(), GroupConfig{Devices: []string{"cuda:0", "cuda:0"}})
	require.NoError(t, err)
	head, err := g.LoadHead(t.Context(), Weights{Source: Matrix{Data: make([]uint16, 300*16), Hidden: 16}, Vocab: 300, Hidden: 16}, nil)
	require.NoError(t, err)
	spec := allReports
	spec.MaxBatch = 8
	plan, err := head.Plan(t.Context(), spec)
	require.NoError(t, err)
	launchers, err := plan.NewLaunchers(t.Context())
	require.NoError(t, err)
	require.Len(t, launchers, 2)
	args := &DeviceArgs{Batch: 5, Hidden: 1 << 20, Tokens: 2 << 20, Status: 3 << 20, LogProbs: 4 << 20, TopIDs: 5 << 20, TopLogProbs: 6 << 20}
	for _, c := range []struct {
		lists, launches int
		ranks           uint64
	}{{0, 4, 0}, {2, 6, 0}, {2, 8, 7 << 20}} {
		args.ListLength, args.ListIDs, args.ListLogProbs, args.Ranks = c.lists, 8<<20, 9<<20, c.ranks
		before := f.calls("cuLaunchKernelEx")
		require.NoError(t, launchers[1].Launch(0, args))
		require.Equal(t, c.launches, f.calls("cuLaunchKernelEx")-before)
	}
	l := launchers[1]
	gathered := f.paramOf(l.plan.ranks.stages[manifest.RanksGatherStage], templates.ParamRanks)
	require.EqualValues(t, args.Ranks, gathered)
	for _, array := range []string{manifest.SentTopKeys, manifest.TopKeys} {
		_, all := l.plan.spaceBytes(l.rows)
		require.Less(t, uint64(l.reports(array)-l.space.Ptr()), uint64(all), array)
	}
	require.Zero(t, f.last().programmatic, "ranks that share a GPU take turns")
	for _, l := range launchers {
		require.NoError(t, l.Close())
	}
	require.NoError(t, plan.Close())
	require.NoError(t, head.Close())
	require.NoError(t, g.Close())
}

// TestReportsTakePeers: what ranks report goes from memory to memory, and is refused by type where it cannot.
func TestReportsTakePeers(t *testing.T) {
	openFake(t)
	for _, device := range []string{"cuda:0", "sim:sm_90"} {
		for _, spec := range []Spec{allReports, {LogProb: ir.RawLogProb, TopN: 3}, {LogProb: ir.RawLogProb, ListLogProbs: true}} {
			_, err := callGroup(t, GroupConfig{Devices: []string{device, device}, Transport: TransportHost}, spec)
			var missing *UnsupportedError
			require.ErrorAs(t, err, &missing)
			require.ErrorContains(t, err, "of shards whose ranks do not reach one another's memory")
		}
	}
}

// TestGroupsByNCCL: ranks on GPUs of their own that do not reach one another, in one process and in several.
func TestGroupsByNCCL(t *testing.T) {
	f := openFake(t)
	source, err := os.ReadFile("../internal/nccl/testdata/fakenccl.c")
	require.NoError(t, err)
	t.Setenv(nccl.EnvLibrary, cfake.Build(t, source))
	f.control("fake_no_peers", 1)
	defer f.control("fake_no_peers", 0)
	info, err := callGroup(t, GroupConfig{Devices: []string{"cuda:0", "cuda:1"}}, Spec{Sampler: ir.Greedy, LogProb: ir.RawLogProb})
	require.NoError(t, err)
	require.Equal(t, TransportNCCL, info.Transport)
	require.Equal(t, `peer: rank 0 to rank 1: the driver says that cuda:0 cannot reach cuda:1`, info.Why)
	var all errgroup.Group
	for rank := range 2 {
		all.Go(func() error {
			info, err := callGroup(t, GroupConfig{Devices: []string{fmt.Sprintf("cuda:%d", rank)}, Rank: rank, World: 2, Name: fmt.Sprintf("nccl-%d", os.Getpid()),
				JoinTimeout: 20 * time.Second}, Spec{})
			if err == nil && info.Transport != TransportNCCL {
				err = fmt.Errorf("transport %s (%s)", info.Transport, info.Why)
			}
			return err
		})
	}
	require.NoError(t, all.Wait())
}

// TestGroupsDoNotTrustPeers: the driver says that devices reach one another, and stores get lost (case I1).
func TestGroupsDoNotTrustPeers(t *testing.T) {
	f := openFake(t)
	t.Setenv(nccl.EnvLibrary, "/nowhere/libnccl.so")
	f.control("fake_drop_peer_stores", 1)
	defer f.control("fake_drop_peer_stores", 0)
	info, err := callGroup(t, GroupConfig{Devices: []string{"cuda:0", "cuda:1"}}, Spec{})
	require.NoError(t, err)
	require.Equal(t, TransportHost, info.Transport)
	require.Regexp(t, `^peer: rank [01] to rank [01]: .*; nccl: `, info.Why)
	t.Log(info.Why)
}

// TestGroupsOfProcesses: ranks that meet as processes do, each with a group of its own.
func TestGroupsOfProcesses(t *testing.T) {
	openFake(t)
	for i, want := range []Transport{TransportPeer, TransportHost, ""} {
		var all errgroup.Group
		for rank := range 3 {
			all.Go(func() error {
				info, err := callGroup(t, GroupConfig{Devices: []string{"cuda:0"}, Rank: rank, World: 3, Name: fmt.Sprintf("test-%d-%d", os.Getpid(), i),
					JoinTimeout: 20 * time.Second, Transport: want}, Spec{})
				if err != nil {
					return err
				}
				if want != "" && info.Transport != want {
					return fmt.Errorf("transport %s (%s)", info.Transport, info.Why)
				}
				return nil
			})
		}
		require.NoError(t, all.Wait())
	}
}

// TestGroupsMissARank: who does not come to the meeting is named.
func TestGroupsMissARank(t *testing.T) {
	openFake(t)
	_, err := OpenGroup(t.Context(), GroupConfig{Devices: []string{"cuda:0"}, Rank: 0, World: 2, Name: fmt.Sprintf("alone-%d", os.Getpid()), JoinTimeout: 100 * time.Millisecond})
	var missing *rendezvous.MissingError
	require.ErrorAs(t, err, &missing)
	require.Equal(t, []int{1}, missing.Missing)
}

func TestArenasAreDealtOut(t *testing.T) {
	s := arenaSpace{size: 10000}
	places := map[int]int{}
	for i, size := range []int{1000, 500, 2000} {
		at, err := s.take(size)
		require.NoError(t, err)
		places[i] = at
	}
	require.Equal(t, map[int]int{0: 0, 1: 1000, 2: 1500}, places)
	s.free(1000)
	at, err := s.take(600)
	require.NoError(t, err)
	require.Equal(t, 3500, at)
	at, err = s.take(500)
	require.NoError(t, err)
	require.Equal(t, 1000, at)
	_, err = s.take(9000)
	require.EqualError(t, err, "sampler: ranks have 10000 bytes to exchange all plans' records in, and this plan takes 9000 beside 4 others")
	for each, want := range map[int]int{100: 48, 330: 16, 1000: 0} {
		_, err = s.takeRows(64, func(rows int) int { return each * rows })
		require.Equal(t, &RoomError{Bytes: 64 * each, Room: 10000, Others: 4, MaxBatch: want}, err)
	}
	at, err = s.takeRows(64, func(rows int) int { return 10 * rows })
	require.NoError(t, err)
	require.Equal(t, 4100, at)
}

// TestGroupsPlanAndCloseAtOnce: plans and launchers give their places in the arena back while others take theirs.
func TestGroupsPlanAndCloseAtOnce(t *testing.T) {
	openFake(t)
	g, err := OpenGroup(t.Context(), GroupConfig{Devices: []string{"cuda:0", "cuda:0"}, Transport: TransportPeer})
	require.NoError(t, err)
	head, err := g.LoadHead(t.Context(), Weights{Source: Matrix{Data: make([]uint16, 300*16), Hidden: 16}, Vocab: 300, Hidden: 16}, nil)
	require.NoError(t, err)
	var all errgroup.Group
	for range 4 {
		all.Go(func() error {
			for range 8 {
				if err := planAndClose(t.Context(), head); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, all.Wait())
	require.Empty(t, g.b.(*cudaGroup).space.taken)
	require.NoError(t, g.Close())
}

// planAndClose makes a plan and launchers, which have places of their own, and closes them at once.
func planAndClose(ctx context.Context, head *GroupHead) error {
	plan, err := head.Plan(ctx, Spec{MaxBatch: 8})
	if err != nil {
		return err
	}
	launchers, err := plan.NewLaunchers(ctx)
	var all errgroup.Group
	for _, l := range launchers {
		all.Go(l.Close)
	}
	return errors.Join(err, all.Wait(), plan.Close())
}

// TestChannelsThatFailLeaveNothing: whichever call of the driver fails, the place in the arena is free again, and nobody frees it once more.
func TestChannelsThatFailLeaveNothing(t *testing.T) {
	f := openFake(t)
	g, err := OpenGroup(t.Context(), GroupConfig{Devices: []string{"cuda:0", "cuda:0"}, Transport: TransportPeer})
	require.NoError(t, err)
	head, err := g.LoadHead(t.Context(), Weights{Source: Matrix{Data: make([]uint16, 300*16), Hidden: 16}, Vocab: 300, Hidden: 16}, nil)
	require.NoError(t, err)
	plan, err := head.Plan(t.Context(), Spec{MaxBatch: 8})
	require.NoError(t, err)
	b, m := g.b.(*cudaGroup), plan.b.(*cudaGroupPlan).parts[0].list[0].Manifest
	taken := slices.Clone(b.space.taken)
	for call, times := range map[string]int{"cuMemAlloc_v2": 2, "cuMemcpyHtoDAsync_v2": 4} { // of two ranks
		for skip := range times {
			f.fail(call, skip)
			channels, err := b.newChannels(t.Context(), m, 16)
			require.Error(t, err, "%s after %d", call, skip)
			require.Empty(t, channels)
			require.Equal(t, taken, b.space.taken, "%s after %d", call, skip)
		}
	}
	require.NoError(t, g.Close())
}

// TestProcessesAreGivenTheSame: whoever differs is named by all ranks, before anything is computed.
func TestProcessesAreGivenTheSame(t *testing.T) {
	openFake(t)
	type given struct {
		transport     Transport
		vocab, hidden int
		spec          Spec
		rows          Rows
	}
	usual := given{vocab: 300, hidden: 16, spec: Spec{MaxBatch: 8}, rows: Rows{Seeds: []uint64{1}, Positions: []uint64{0}}}
	try := func(rank int, name string, x given) error {
		g, err := OpenGroup(t.Context(), GroupConfig{Devices: []string{"cuda:0"}, Rank: rank, World: 3, Name: name, JoinTimeout: 20 * time.Second, Transport: x.transport})
		if err != nil {
			return err
		}
		defer func() { assert.NoError(t, g.Close()) }()
		head, err := g.LoadHead(t.Context(), Weights{Source: Matrix{Data: make([]uint16, x.vocab*x.hidden), Hidden: x.hidden}, Vocab: x.vocab, Hidden: x.hidden}, nil)
		if err != nil {
			return err
		}
		defer func() { assert.NoError(t, head.Close()) }()
		plan, err := head.Plan(t.Context(), x.spec)
		if err != nil {
			return err
		}
		defer func() { assert.NoError(t, plan.Close()) }()
		return plan.Agree(t.Context(), make([]uint16, 2*x.hidden), x.rows)
	}
	for what, change := range map[string]func(*given){
		"": func(*given) {},
		"rank 1 has vocabulary 301, where others have 300":                              func(x *given) { x.vocab = 301 },
		"rank 1 has hidden size 24, where others have 16":                               func(x *given) { x.hidden = 24 },
		"rank 1 has sampler grouped, where others have gumbel":                          func(x *given) { x.spec.Sampler = ir.Grouped },
		"rank 1 has extras top-k, where others have none":                               func(x *given) { x.spec.Truncation.TopK = true },
		"rank 1 has max batch 64, where others have 8":                                  func(x *given) { x.spec.MaxBatch = 0 },
		"rank 1 has Seeds [0-9a-f]{12}, where others have [0-9a-f]{12}":                 func(x *given) { x.rows.Seeds = []uint64{2} },
		"rank 1 has ListIDs [0-9a-f]{12}, where others have [0-9a-f]{12}":               func(x *given) { x.rows.ListIDs = [][]int32{{1}} },
		"group transport is (nccl: rank 0 asks for the best|the best: rank 1 asks for)": func(x *given) { x.transport = TransportNCCL },
	} {
		var all errgroup.Group
		for rank := range 3 {
			x := usual
			if rank == 1 {
				change(&x)
			}
			all.Go(func() error {
				err := try(rank, fmt.Sprintf("same-%d-%x", os.Getpid(), digest(what)), x)
				if what == "" {
					return err
				}
				assert.Error(t, err, what)
				assert.Regexp(t, what, fmt.Sprint(err), "rank %d", rank)
				return nil
			})
		}
		require.NoError(t, all.Wait())
	}
}

func TestClosedGroupsOfGPUsSaySo(t *testing.T) {
	openFake(t)
	for _, devices := range [][]string{{"cuda:0", "cuda:0"}, {"cuda:0", "cuda:1"}} {
		g, err := OpenGroup(t.Context(), GroupConfig{Devices: devices})
		require.NoError(t, err)
		closedGroup(t, g)
	}
}
