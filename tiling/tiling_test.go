package tiling

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/internal/golden"
	"github.com/fsgen/fsgen/ir"
)

func computation(t testing.TB, sampler ir.Sampler, chain string) ir.Computation {
	t.Helper()
	c, err := ir.ParseChain(chain)
	require.NoError(t, err)
	return ir.Computation{Chain: c, Sampler: sampler}
}

// summed asks for the log-sum-exp too.
func summed(c ir.Computation) ir.Computation {
	c.LogSumExp = true
	return c
}

// logProb asks for log-probabilities too.
func logProb(c ir.Computation, mode ir.LogProb) ir.Computation {
	c.LogProb = mode
	return c
}

// slotted gives rows their parameters by slots.
func slotted(c ir.Computation) ir.Computation {
	c.Slots = true
	return c
}

// everyPlan calls f with every plan that exists, over all tiles and the computations that differ in what they store.
func everyPlan(t *testing.T, f func(*Plan, ir.Computation)) {
	t.Helper()
	plans := map[string]int{}
	for _, c := range []ir.Computation{
		computation(t, ir.Gumbel, "none"), computation(t, ir.Gumbel, "temperature"), computation(t, ir.Greedy, "temperature"),
		computation(t, ir.Grouped, "temperature"), summed(computation(t, ir.Grouped, "none")), summed(computation(t, ir.Gumbel, "temperature")),
		logProb(computation(t, ir.Grouped, "temperature"), ir.ProcessedLogProb), logProb(computation(t, ir.Gumbel, "temperature"), ir.RawLogProb),
		slotted(computation(t, ir.Greedy, "none")), slotted(summed(computation(t, ir.Gumbel, "mask"))),
	} {
		for _, a := range arch.All() {
			for _, tile := range everyTile() {
				if p, err := NewPlan(a, tile, c); err == nil {
					plans[a.Name]++
					f(p, c)
				}
			}
		}
	}
	for _, a := range arch.All() {
		require.Greater(t, plans[a.Name], 500, a.Name)
	}
}

func everyTile() (tiles []Tile) {
	for m := 64; m <= 256; m += 64 {
		for n := 8; n <= 256; n += 8 {
			for stages := minStages; stages <= maxStages; stages++ {
				for cluster := 1; cluster <= 8; cluster *= 2 {
					for i := range 4 {
						tiles = append(tiles, Tile{m, n, 64, stages, cluster, i&1 != 0, i&2 != 0})
					}
				}
			}
		}
	}
	return tiles
}

func TestTileText(t *testing.T) {
	everyPlan(t, func(p *Plan, _ ir.Computation) {
		back, err := ParseTile(p.Tile.String())
		require.NoError(t, err)
		require.Equal(t, p.Tile, back)
	})
	for _, bad := range []string{"", "m128", "m128n64k64s8", "m128n64k64s8c", "m128n64k64s8c1 ", " m128n64k64s8c1", "M128N64K64S8C1",
		"n64m128k64s8c1", "m-128n64k64s8c1", "m128n64k64s8c1x", "m1234567890n64k64s8c1", "m0128n64k64s8c1", "m128n64k64s08c1",
		"m1e2n64k64s8c1", "m128n64k64s8c1\n", "m0n0k0s0c0", "m128n64k64s8c1pb", "m128n64k64s8c1bb"} {
		_, err := ParseTile(bad)
		require.ErrorContains(t, err, "m128n64k64s8c1", "%q: the error shows a good name", bad)
	}
}

func FuzzParseTile(f *testing.F) {
	for _, s := range []string{"m128n64k64s8c1", "m0n0k0s0c0", "m9999n9999k9999s999c99", "x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		tile, err := ParseTile(s)
		if err != nil {
			return
		}
		require.Equal(t, s, tile.String())
		if p, err := NewPlan(arch.SM90, tile, ir.Computation{}); err == nil {
			checkStorage(t, p, ir.Computation{})
		}
	})
}

// region is a piece of shared memory.
type region struct {
	name        string
	at, size    int
	alignment   int
	mustBeThere bool
}

// regions lists what the skeleton keeps in shared memory, counted here on its own.
func regions(p *Plan, c ir.Computation) []region {
	t, s := p.Tile, p.Storage
	random, sets := c.Sampler != ir.Greedy, p.Pipeline.Samplers/32 // every warp has all columns of its rows
	if p.Arch.TMEMColumns > 0 {
		sets = 4 // quarters of the lanes
	}
	sums, own := c.LogSumExp || c.LogProb != ir.NoLogProb, s.Queue
	if c.Sampler == ir.Grouped {
		own = s.Winners
	}
	return []region{
		{"ring", 0, t.Stages * (t.M + t.N) * t.K * 2, 1024, true},                   // swizzle atoms
		{"noise", s.Noise, 16 * t.N, 16, random},                                    // read as v4.b32
		{"codes", s.Codes, 8 * codeWords(p) * p.Pipeline.Samplers / 32, 16, random}, // read as v4.b32
		{"rows", s.Rows, 16 * t.N, 16, true},                                        // read as v4.f32
		{"keys", s.Keys, 8 * t.N, 8, true},
		{"slots", s.Slots, 4 * t.N, 4, c.Slots && (c.Chain.Mask || c.Chain.Bias == ir.BiasMatrix)},
		{"scales", s.Scales, 4 * t.N, 16, sums && c.Chain.Temperature && c.LogProb != ir.RawLogProb}, // read as v4.f32
		{"sums", s.Sums, 2 * 4 * t.N * sets, 16, sums},
		{"queues and winners", own, s.Own * p.Pipeline.Samplers / 32, 16, c.Sampler != ir.Grouped || c.LogProb != ir.NoLogProb},
		{"limits", s.Limits, 16 * codeWords(p) * p.Pipeline.Samplers / 32, 16, limitsWanted(t, c) && (s.Limits > 0 || s.Total+16*codeWords(p)*p.Pipeline.Samplers/32 <= p.Arch.MaxSharedPerCTA)}, // v4.f32
		{"full", s.Full, 8 * t.Stages, 8, true}, // mbarriers
		{"empty", s.Empty, 8 * t.Stages, 8, true},
		{"deal and flag", s.Deal, 16, 16, s.Flag == s.Deal},                             // read as v4.b32
		{"peers", s.Peers, 32 + 8*16, 16, c.Shard == ir.ShardExchange && !c.Collects()}, // read as v4.b32
		{"turns", s.Turns, 2 * 8, 8, t.PingPong},
		{"tiles", s.Tiles, 2 * 8 * p.Tensor.Buffers, 8, p.Tensor.Buffers > 0}, // mbarriers
		{"place", s.Place, 4, 4, p.Tensor.Buffers > 0},
	}
}

// limitsWanted says where logits are compared with limits, if there is room.
func limitsWanted(t Tile, c ir.Computation) bool {
	plain := c.Chain.Scale >= 0 && c.Chain.Softcap == 0 && c.Chain.Bias == ir.BiasNone
	edited := c.Chain.Bias == ir.BiasSparse || c.Chain.Penalties || c.Chain.IDs // all of which comes before
	plain = (plain || edited) && !c.Chain.Mask
	return t.PingPong && t.N >= 64 && c.Sampler != ir.Greedy && c.TopN == 0 && plain
}

// codeWords are a warp's: four for each block of 16 rows and 16 columns that it samples.
func codeWords(p *Plan) int {
	groups := max(p.Tile.N/16, 1)
	if p.Tile.PingPong {
		return p.Tile.M / 64 * 4 * groups
	}
	if p.Arch.TMEMColumns == 0 {
		return 4 * groups
	}
	if p.Pipeline.Consumers == 2 {
		groups = (groups + 1) / 2 // two warps share the columns of 32 rows
	}
	return 2 * 4 * groups
}

func checkStorage(t testing.TB, p *Plan, c ir.Computation) {
	var there []region
	for _, r := range regions(p, c) {
		if !r.mustBeThere {
			require.Zero(t, r.at, "%s: %s takes no room", p.Tile, r.name)
			continue
		}
		require.Zero(t, r.at%r.alignment, "%s: %s at %d", p.Tile, r.name, r.at)
		there = append(there, r)
	}
	slices.SortFunc(there, func(a, b region) int { return cmp.Compare(a.at, b.at) })
	end := 0
	for _, r := range there {
		require.GreaterOrEqual(t, r.at, end, "%s: %s overlaps what stands before it", p.Tile, r.name)
		require.Less(t, r.at-end, 16, "%s: a gap before %s", p.Tile, r.name)
		end = r.at + r.size
	}
	s := p.Storage
	queue, winners := 64*16, 8*p.Tile.N // of a warp
	if c.Sampler == ir.Grouped {
		queue = 0
	}
	if c.LogProb == ir.NoLogProb {
		winners = 0
	} else {
		require.Equal(t, s.Queue+queue, s.Winners)
	}
	require.Equal(t, queue+winners, s.Own)
	require.LessOrEqual(t, end, s.Total, "%s", p.Tile)
	require.Less(t, s.Total-end, 16, "%s: a gap at the end", p.Tile)
	require.LessOrEqual(t, s.Total, p.Arch.MaxSharedPerCTA)
	require.Equal(t, s.Ring, there[0].size)
	require.Equal(t, s.Stage, s.WeightStage+s.HiddenStage)
	// Swizzle atoms hold 8 rows: both operands, and each CTA's share of a multicast, start at one.
	shared := s.HiddenStage
	if p.Tile.Split {
		shared = s.WeightStage
	}
	for _, bytes := range []int{s.Stage, s.WeightStage, shared / p.Tile.Cluster} {
		require.Zero(t, bytes%1024, "%s: %d bytes", p.Tile, bytes)
	}
}

func TestStorageIsCountedToTheByte(t *testing.T) {
	everyPlan(t, func(p *Plan, c ir.Computation) { checkStorage(t, p, c) })
}

// A scheduler has a quarter of the registers and of the warps, rounded up. setmaxnreg moves registers inside what the CTA
// got at launch, and takes multiples of 8 from 24 to 256 (PTX ISA, section "setmaxnreg").
func TestRegistersFitTheFile(t *testing.T) {
	everyPlan(t, func(p *Plan, _ ir.Computation) {
		a, l := p.Arch, p.Pipeline
		require.LessOrEqual(t, l.Threads, a.MaxThreadsPerCTA)
		require.LessOrEqual(t, l.LaunchRegisters, a.MaxRegistersPerThread)
		warps, file := (l.Threads/32+3)/4, a.Registers/4
		require.LessOrEqual(t, (l.LaunchRegisters+7)/8*8*32*warps, file, "%s", p.Tile)
		require.Less(t, l.Accumulators, l.ConsumerRegisters)
		if l.ProducerRegisters == 0 {
			require.Equal(t, l.LaunchRegisters, l.ConsumerRegisters)
			return
		}
		require.Zero(t, l.Threads%128, "setmaxnreg works on warpgroups")
		require.LessOrEqual(t, 32*(l.ProducerRegisters+l.Consumers*l.ConsumerRegisters), file, "%s", p.Tile)
		for _, n := range []int{l.ProducerRegisters, l.ConsumerRegisters} {
			require.Zero(t, n%8)
			require.True(t, 24 <= n && n <= 256, "%d registers", n)
		}
		require.Less(t, l.ProducerRegisters, l.LaunchRegisters)
		require.Greater(t, l.ConsumerRegisters, l.LaunchRegisters)
	})
}

// Each architecture's own counts: what a thread holds of the logits, and who says that a stage is free.
func TestAccumulatorsAndArrivals(t *testing.T) {
	everyPlan(t, func(p *Plan, _ ir.Computation) {
		l, x := p.Pipeline, p.Tensor
		if p.Arch.TMEMColumns == 0 {
			high := 1
			if p.Tile.PingPong {
				require.Equal(t, 2, l.Consumers)
				require.Equal(t, 128, l.Team)
				high = p.Tile.M / 64
			} else {
				require.Equal(t, p.Tile.M, 64*l.Consumers, "64 rows a warpgroup")
				require.Equal(t, l.Samplers, l.Team)
			}
			extra := 32 // a warp for copies
			if l.ProducerRegisters > 0 {
				extra = 128
			}
			require.Equal(t, 128*l.Consumers+extra, l.Threads)
			require.Equal(t, high*64*p.Tile.N/128, l.Accumulators, "a warpgroup holds 64 x N float32, or all of a tile")
			require.Equal(t, l.Team/32*p.Tile.Cluster, l.EmptyArrivals, "one for each warp of the cluster that has the tile")
			require.Zero(t, x)
			return
		}
		require.Equal(t, 128*(l.Consumers+1), l.Threads)
		require.Equal(t, p.Tile.Cluster, l.EmptyArrivals, "one commit of each CTA of the cluster")
		require.Equal(t, x.Buffers*p.Tile.N, x.Columns)
		require.GreaterOrEqual(t, x.Alloc, max(x.Columns, 32))
		require.Zero(t, x.Alloc&(x.Alloc-1), "a power of two")
		require.LessOrEqual(t, x.Alloc, p.Arch.TMEMColumns)
	})
}

func TestRejectsNameTheRule(t *testing.T) {
	for name, want := range map[string]string{
		"m256n64k64s4c1":   "M is 64, 128 or 192",
		"m0n64k64s4c1":     "M is 64, 128 or 192",
		"m128n0k64s4c1":    "N is 8 or a multiple of 16",
		"m128n24k64s4c1":   "N is 8 or a multiple of 16",
		"m128n272k64s4c1":  "up to 256",
		"m128n64k32s4c1":   "K is 64",
		"m128n64k128s4c1":  "K is 64",
		"m128n64k64s1c1":   "stages are 2 to 16",
		"m128n64k64s17c1":  "stages are 2 to 16",
		"m128n64k64s4c0":   "power of two up to 8",
		"m128n64k64s4c3":   "power of two up to 8",
		"m128n64k64s4c16":  "power of two up to 8",
		"m128n8k64s4c2":    "multicasts N/cluster rows",
		"m128n48k64s4c4":   "multicasts N/cluster rows",
		"m128n64k64s4c1b":  "a cluster of one has nothing to split",
		"m192n64k64s4c4b":  "multicasts M/cluster rows, a multiple of 32",
		"m192n256k64s4c1":  "needs 258128 bytes of shared memory; sm_90 has 232448: narrower, m192n176k64s4c1 fits",
		"m192n256k64s3c1":  "registers a thread; there are 160",
		"m128n256k64s3c1p": "registers a thread; there are 232",
		"m128n8k64s4c1p":   "take turns from N = 16 on",
	} {
		tile, err := ParseTile(name)
		require.NoError(t, err)
		_, err = NewPlan(arch.SM90, tile, ir.Computation{})
		var r *Reject
		require.ErrorAs(t, err, &r, name)
		require.Equal(t, tile, r.Tile)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "tile "+name)
	}
	_, err := NewPlan(arch.SM100, Tile{64, 16, 64, 4, 1, false, false}, ir.Computation{})
	require.ErrorContains(t, err, "M is 128")
	_, err = NewPlan(arch.SM100, Tile{128, 8, 64, 4, 1, false, false}, ir.Computation{})
	require.ErrorContains(t, err, "N is a multiple of 16")
	_, err = NewPlan(arch.SM100, Tile{128, 16, 64, 4, 1, false, true}, ir.Computation{})
	require.ErrorContains(t, err, "do not take turns on sm_100")
	_, err = NewPlan(arch.Arch{Name: "sm_75"}, Tile{128, 16, 64, 4, 1, false, false}, ir.Computation{})
	require.ErrorContains(t, err, "no skeleton for sm_75")
	for _, hostile := range []Tile{{}, {-64, 8, 64, 4, 1, false, false}, {64, -8, 64, 4, 1, false, true}, {64, 8, 64, 4, -1, false, false}, {1 << 62, 1 << 62, 64, 1 << 62, 1 << 62, true, true}} {
		_, err := NewPlan(arch.SM90, hostile, ir.Computation{})
		require.Error(t, err)
	}
}

// The order is part of the contract: a tie in a measurement goes to the first.
func TestCandidatesInFixedOrder(t *testing.T) {
	var text bytes.Buffer
	c := computation(t, ir.Gumbel, "softcap=30,bias,mask,temperature")
	for _, a := range arch.All() {
		first, last := 1, ""
		for batch := 1; batch <= 301; batch++ {
			list := ""
			if batch <= 300 {
				list = listCandidates(a, c, batch)
			}
			if list != last && last != "" {
				fmt.Fprintf(&text, "%s batch %d to %d\n%s", a.Name, first, batch-1, last)
				first = batch
			}
			last = list
		}
	}
	golden.File(t, "testdata/candidates.txt", text.Bytes())
}

func listCandidates(a arch.Arch, c ir.Computation, batch int) string {
	var text strings.Builder
	plans, rejects := Candidates(a, c, batch)
	for _, p := range plans {
		fmt.Fprintf(&text, "    %-16s %6d bytes, %d threads, %d/%d registers\n",
			p.Tile, p.Storage.Total, p.Pipeline.Threads, p.Pipeline.LaunchRegisters, p.Pipeline.ConsumerRegisters)
	}
	for _, r := range rejects {
		fmt.Fprintf(&text, "    %-16s %s\n", r.Tile, r.Reason)
	}
	return text.String()
}

func TestCandidatesHoldWhatTheyPromise(t *testing.T) {
	for _, a := range arch.All() {
		for _, c := range []ir.Computation{computation(t, ir.Greedy, "none"), computation(t, ir.Gumbel, "temperature")} {
			for batch := range 300 {
				checkCandidates(t, a, c, batch)
			}
		}
	}
}

func checkCandidates(t *testing.T, a arch.Arch, c ir.Computation, batch int) {
	plans, _ := Candidates(a, c, batch)
	require.NotEmpty(t, plans)
	seen := map[Tile]bool{}
	for _, p := range plans {
		require.False(t, seen[p.Tile], "%s twice", p.Tile)
		seen[p.Tile] = true
		deeper := p.Tile
		deeper.Stages++
		_, err := NewPlan(a, deeper, c)
		require.True(t, err != nil || p.Tile.Stages == 12, "%s could be deeper", p.Tile)
	}
	d, err := Default(a, c, Work{Batch: batch})
	require.NoError(t, err)
	require.True(t, seen[d.Tile], "the default %s for batch %d is a candidate", d.Tile, batch)
	require.True(t, d.Tile.Width() >= batch || d.Tile.Width() == 256)
}

// A tile that has no room in shared memory is refused with the name of the nearest that has: no deeper ring fits, nor a wider tile.
func TestRejectionsForRoomNameATileThatFits(t *testing.T) {
	both := summed(logProb(computation(t, ir.Gumbel, "temperature"), ir.RawLogProb))
	fix, refused := regexp.MustCompile(`has \d+(?:: (with fewer stages|narrower), (m\w+) fits)?$`), map[string]int{}
	for _, c := range []ir.Computation{computation(t, ir.Gumbel, "temperature"), both} {
		for _, a := range arch.All() {
			for _, tile := range everyTile() {
				_, err := NewPlan(a, tile, c)
				if err == nil || !strings.Contains(err.Error(), "bytes of shared memory") {
					continue
				}
				named := fix.FindStringSubmatch(err.Error())
				require.NotEmpty(t, named, err)
				require.NotEmpty(t, named[2], err)
				fit, err := ParseTile(named[2])
				require.NoError(t, err)
				_, err = NewPlan(a, fit, c)
				require.NoError(t, err, "%s for %s", fit, tile)
				refused[named[1]]++
				fit.Stages++
				_, err = NewPlan(a, fit, c)
				require.True(t, fit.Stages > tile.Stages || err != nil, "%s, for %s, fits too", fit, tile)
				fit.Stages--
				require.Equal(t, named[1] == "narrower", fit.N < tile.N)
				tile.N, tile.Stages = fit.N, fit.Stages
				require.Equal(t, tile, fit)
			}
		}
	}
	require.Greater(t, refused["with fewer stages"], 1000)
	require.Greater(t, refused["narrower"], 100)
	_, err := NewPlan(arch.SM90, Tile{128, 128, 64, 6, 2, false, true}, both)
	require.ErrorContains(t, err, "needs 239232 bytes of shared memory; sm_90 has 232448: with fewer stages, m128n128k64s5c2p fits")
}
