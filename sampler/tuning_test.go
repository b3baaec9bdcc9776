package sampler

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/autotune"
	"github.com/fsgen/fsgen/gen"
	"github.com/fsgen/fsgen/internal/cache"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/tiling"
)

// tunedFor is a tuner with a store that holds one entry: a candidate for a bucket.
func tunedFor(t *testing.T, spec Spec, shape ir.Shape, batch int, candidate string) *tuner {
	t.Helper()
	c, err := autotune.ParseCandidate(candidate)
	require.NoError(t, err)
	tu := &tuner{gpu: autotune.GPU{Name: "NVIDIA Test", Multiprocessors: 4, Driver: "13.0"}, table: func() *autotune.Table { return nil },
		store: autotune.OpenStore(cache.Open(cache.Options{Dir: t.TempDir()}), func(s string) { t.Error(s) })}
	r := gen.Request{Arch: arch.SM90, Computation: spec.Computation(), Shape: shape, Batch: batch, Tile: c.Tile}
	a, err := gen.Emit(r)
	require.NoError(t, err)
	require.NoError(t, tu.store.Put(&autotune.Entry{Schema: autotune.Schema, Key: autotune.NewKey(tu.gpu, string(RowMajor), r),
		Candidate: candidate, PTXSHA256: a.Manifest.PTXSHA256, Microseconds: 1}))
	return tu
}

// chosen spells the kernels of a plan's buckets.
func chosen(t *testing.T, spec Spec, shape ir.Shape, tu *tuner) string {
	t.Helper()
	require.NoError(t, spec.validate())
	list, err := spec.buckets(arch.SM90, shape, RowMajor, tu)
	require.NoError(t, err)
	var out []string
	for _, b := range list {
		tile, err := tiling.ParseTile(b.Artifact.Manifest.Tile.Name)
		require.NoError(t, err)
		out = append(out, autotune.Candidate{Tile: tile, CTAs: b.CTAs}.String())
	}
	return strings.Join(out, " ")
}

func TestPlansTakeTunedTiles(t *testing.T) {
	shape := ir.Shape{Vocab: 1000, Hidden: 64}
	spec := Spec{Chain: ir.Chain{Temperature: true}, MaxBatch: 30}
	plain := chosen(t, spec, shape, nil)
	tu := tunedFor(t, spec, shape, 16, "m64n32k64s5c2@2")
	require.Equal(t, strings.Replace(plain, strings.Fields(plain)[1], "m64n32k64s5c2@2", 1), chosen(t, spec, shape, tu),
		"of its bucket alone")

	list, err := spec.buckets(arch.SM90, shape, RowMajor, tu)
	require.NoError(t, err)
	w := widthsOf(list)
	require.Equal(t, tileWidths{8, 16, 32}, w, "buckets, whatever the tiles' widths")
	for batch, want := range map[int]int{1: 0, 8: 0, 9: 1, 16: 1, 17: 2, 32: 2, 33: 2} {
		require.Equal(t, want, w.choose(batch), batch)
	}
	for name, change := range map[string]func(*Spec){
		"untuned":    func(s *Spec) { s.Tuning = Untuned },
		"exhaustive": func(s *Spec) { s.Exhaustive = true },
		"other":      func(s *Spec) { s.Chain.Mask = true },
		"score":      func(s *Spec) { s.Score = true },
	} {
		other := spec
		change(&other)
		require.Equal(t, chosen(t, other, shape, nil), chosen(t, other, shape, tu), name)
	}
	require.Equal(t, plain, chosen(t, spec, ir.Shape{Vocab: 1000, Hidden: 72}, tu), "another shape")
	entries, err := tu.store.List()
	require.NoError(t, err)
	tu.gpu.Driver = "13.1"
	require.Equal(t, plain, chosen(t, spec, shape, tu), "another driver")

	table := &autotune.Table{}
	table.Set(entries[0])
	tu.table = func() *autotune.Table { return table }
	require.Contains(t, chosen(t, spec, shape, tu), "m64n32k64s5c2@2", "a table is for every driver")
	spec.Exhaustive = true
	require.Equal(t, plain, chosen(t, spec, shape, tu), "an exhaustive kernel was not measured")
}

func TestFixedTileNeedsNoTuning(t *testing.T) {
	shape := ir.Shape{Vocab: 1000, Hidden: 64}
	spec := Spec{MaxBatch: 30, Tile: tiling.Tile{M: 128, N: 16, K: 64, Stages: 4, Cluster: 1}, CTAs: 3}
	tu := tunedFor(t, spec, shape, 16, "m64n32k64s5c2@2")
	require.Equal(t, "m128n16k64s4c1@3", chosen(t, spec, shape, tu))

	head := simHeadFor(t, 40, 8)
	for _, bad := range []Spec{{CTAs: 3}, {CTAs: -1, Tile: spec.Tile}} {
		_, err := head.Plan(t.Context(), bad)
		var input *InputError
		require.ErrorAs(t, err, &input)
	}
}

func TestOnlyGPUsHaveTunings(t *testing.T) {
	for _, name := range []string{CPU, "sim:sm_90"} {
		dev, err := Open(name)
		require.NoError(t, err)
		_, ok := dev.GPU()
		require.False(t, ok, name)
		require.NoError(t, dev.Close())
	}
}

func simHeadFor(t *testing.T, v, d int) *Head {
	t.Helper()
	dev, err := Open("sim:sm_90")
	require.NoError(t, err)
	w := make([]uint16, v*d)
	for i := range w {
		w[i] = uint16(0x3c00 + i*7919%0x300)
	}
	head, err := dev.LoadHead(t.Context(), Weights{Source: Matrix{Data: w, Hidden: d}, Vocab: v, Hidden: d})
	require.NoError(t, err)
	t.Cleanup(func() { head.Close(); dev.Close() })
	return head
}

// TestCandidatesGiveTheSameTokens runs a small head through every candidate of a bucket, and through grids of every size.
func TestCandidatesGiveTheSameTokens(t *testing.T) {
	shape := ir.Shape{Vocab: 650, Hidden: 72}
	spec := Spec{Chain: ir.Chain{Temperature: true}}
	head := simHeadFor(t, shape.Vocab, shape.Hidden)
	hidden, rows := make([]uint16, 9*shape.Hidden), Rows{Positions: []uint64{5}}
	for i := range hidden {
		hidden[i] = uint16(0x3f00 + i%64)
	}
	for i := range 9 {
		rows.Seeds = append(rows.Seeds, uint64(i)*77)
		rows.Temperature = append(rows.Temperature, float32(i)/4)
	}
	var want []int32
	for i, c := range autotune.Candidates(gen.Request{Arch: arch.SM90, Computation: spec.Computation(), Shape: shape, Batch: 16}) {
		for ctas := range simCTAs + 2 {
			if ctas > 0 && i%4 != 0 {
				continue // every grid for a quarter of the tiles
			}
			spec.Tile, spec.CTAs = c.Tile, ctas
			plan, err := head.Plan(t.Context(), spec)
			require.NoError(t, err)
			res, err := plan.Sample(t.Context(), hidden, rows)
			require.NoError(t, err)
			require.NoError(t, plan.Close())
			if want == nil {
				want = res.Tokens
			}
			require.Equal(t, want, res.Tokens, "%s with %d CTAs", c.Tile, ctas)
		}
	}
}
