package gen

import (
	"bytes"
	"fmt"
	"maps"
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/model"
	"github.com/fsgen/fsgen/ptx"
	"github.com/fsgen/fsgen/templates"
	"github.com/fsgen/fsgen/tiling"
)

// batches that kernels are emitted for: every power of two and one between.
var batches = []int{1, 2, 4, 8, 16, 32, 64, 100, 128, 256}

// computations are what the preset set is emitted with, before the model's own scale and softcap are added.
var computations = []ir.Computation{
	computation(ir.Gumbel, "none", false),
	computation(ir.Gumbel, "temperature", false),
	computation(ir.Gumbel, "temperature,bias,mask", false),
	computation(ir.Gumbel, "softcap=30,temperature", false),
	computation(ir.Greedy, "none", false),
	computation(ir.Gumbel, "bias=rows,temperature", false),
	computation(ir.Gumbel, "temperature", true),
	computation(ir.Greedy, "bias=rows,mask", true),
	computation(ir.Grouped, "temperature", true),
	summed(computation(ir.Grouped, "temperature", false)),
	summed(computation(ir.Grouped, "temperature,bias,mask", false)),
	summed(computation(ir.Gumbel, "softcap=30,temperature", true)),
}

// summed asks for the log-sum-exp too.
func summed(c ir.Computation) ir.Computation {
	c.LogSumExp = true
	return c
}

func computation(s ir.Sampler, chain string, score bool) ir.Computation {
	c, err := ir.ParseChain(chain)
	if err != nil {
		panic(err)
	}
	return ir.Computation{Chain: c, Sampler: s, Score: score}
}

// of adds what a model does to its logits.
func of(p model.Preset, c ir.Computation) ir.Computation {
	if p.Scale != 1 {
		c.Chain.Scale = float32(p.Scale)
	}
	if p.Softcap != 0 {
		c.Chain.Softcap = float32(p.Softcap)
	}
	return c
}

// variant is one distinct kernel, with a request that gives it.
type variant struct {
	Request
	*Artifact
	parse func() (*ptx.Module, error) // reads the PTX, once
}

// name says what a variant is: all that a kernel may depend on.
func (v variant) name() string {
	return fmt.Sprintf("%s %s %s %s score=%v lse=%v %s %+v", v.Arch.Name, v.Manifest.Tile.Name, v.Computation.Sampler, v.Computation.Chain,
		v.Computation.Score, v.Computation.LogSumExp, v.Computation.Extras(), v.Options)
}

// corpus collects distinct kernels by name.
type corpus map[string]variant

// emit makes the corpus of some requests, on as many goroutines as there are cores. Where two requests have one name, their
// PTX must be the same bytes.
func emit(requests []Request) (corpus, error) {
	artifacts := make([]*Artifact, len(requests))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, r := range requests {
		g.Go(func() (err error) {
			if artifacts[i], err = Emit(r); err != nil {
				err = fmt.Errorf("%+v: %w", r, err)
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	c := corpus{}
	for i, r := range requests {
		r.Computation = r.Computation.Normalize()
		v := variant{r, artifacts[i], sync.OnceValues(func() (*ptx.Module, error) { return ptx.Parse(string(artifacts[i].PTX)) })}
		old, ok := c[v.name()]
		if ok && !bytes.Equal(old.PTX, v.PTX) {
			return nil, fmt.Errorf("%s: for %d x %d, batch %d, the PTX is not that for %d x %d, batch %d", v.name(),
				r.Shape.Vocab, r.Shape.Hidden, r.Batch, old.Shape.Vocab, old.Shape.Hidden, old.Batch)
		}
		if !ok {
			c[v.name()] = v
		}
	}
	return c, nil
}

func (c corpus) sorted() []variant {
	var out []variant
	for _, name := range slices.Sorted(maps.Keys(c)) {
		out = append(out, c[name])
	}
	return out
}

// presetCorpus is every model with every set of transforms at every batch size. Models that treat their logits alike differ
// in their shape alone, on which no kernel depends: the first of all meets all transforms at all sizes, the first of those that scale or
// cap their logits each transform and each size, but a third of the pairs, and the others a tenth. In short mode there are
// only the first ones, at two sizes.
var presetCorpus = sync.OnceValues(func() (corpus, error) {
	var rs []Request
	alike := map[[2]float64]int{}
	for _, p := range model.All() {
		key := [2]float64{p.Scale, p.Softcap}
		nth := alike[key]
		alike[key]++
		part := 10
		if nth == 0 {
			part = 1 + 2*min(len(alike)-1, 1)
		}
		for i, c := range computations {
			for j, batch := range batches {
				if testing.Short() && (nth > 0 || batch != 16 && batch != 256) || !testing.Short() && (i+j+nth)%part != 0 {
					continue
				}
				for _, a := range arch.All() {
					rs = append(rs, Request{Arch: a, Computation: of(p, c), Shape: ir.Shape{Vocab: p.V, Hidden: p.D}, Batch: batch})
				}
			}
		}
	}
	return emit(rs)
})

// tileCorpus is every tile that a tuner may try, with the most that an epilogue can have to do.
var tileCorpus = sync.OnceValues(func() (corpus, error) {
	var rs []Request
	for _, a := range arch.All() {
		for _, c := range []ir.Computation{
			computation(ir.Grouped, "scale=0.5,softcap=30,bias=rows,mask,temperature", true),
			summed(computation(ir.Grouped, "temperature", true)),
			summed(computation(ir.Gumbel, "scale=0.5,softcap=30,bias=rows,mask,temperature", true)),
		} {
			for _, tile := range tiles(a, c) {
				rs = append(rs, Request{Arch: a, Computation: c, Shape: ir.Shape{Vocab: 1000, Hidden: 64}, Batch: tile.N, Tile: tile})
			}
		}
	}
	return emit(rs)
})

// tiles are the candidates of all batch sizes.
func tiles(a arch.Arch, c ir.Computation) (out []tiling.Tile) {
	for _, batch := range batches {
		plans, _ := tiling.Candidates(a, c, batch)
		for _, p := range plans {
			if !slices.Contains(out, p.Tile) {
				out = append(out, p.Tile)
			}
		}
	}
	return out
}

// flagCorpus is every combination of what a computation can ask for, at one tile, on one architecture and the next on the other;
// tensor maps in global memory, and the variants that skip nothing.
var flagCorpus = sync.OnceValues(func() (corpus, error) {
	var rs []Request
	for i, a := range arch.All() {
		r := Request{Arch: a, Shape: ir.Shape{Vocab: 1000, Hidden: 64}, Batch: 16}
		for j, c := range combinations() {
			if r.Computation = c; (i+j)%2 == 0 {
				rs = append(rs, r)
			}
		}
		for _, r.Options.Weights = range []manifest.Layout{manifest.RowMajor, manifest.Packed} {
			r.Computation, r.Options.TensorMaps = computations[1], templates.InGlobal
			rs = append(rs, r)
		}
		r.Options = templates.Options{Exhaustive: true}
		for _, r.Computation = range computations {
			rs = append(rs, r)
		}
	}
	return emit(rs)
})

// combinations are all of those flags but the scale, one product, and the log-sum-exp, which are each on in half of them.
func combinations() (out []ir.Computation) {
	for flags := range uint(1) << 5 {
		on := func(bit int) bool { return flags>>bit&1 == 1 }
		for _, bias := range []ir.Bias{ir.BiasNone, ir.BiasVector, ir.BiasMatrix} {
			c := ir.Computation{Score: on(0), Chain: ir.Chain{Mask: on(1), Temperature: on(2), Bias: bias}}
			if on(4) {
				c.Chain.Softcap = 30
			}
			if (bits.OnesCount(flags)+int(bias))%2 == 1 {
				c.Chain.Scale = 0.25
			}
			samplers := []ir.Sampler{ir.Gumbel, ir.Grouped}
			if on(3) {
				samplers = []ir.Sampler{ir.Greedy}
			}
			for i, s := range samplers {
				c.Sampler = s
				c.LogSumExp = (bits.OnesCount(flags)+i)%2 == 1
				out = append(out, c)
			}
		}
	}
	return out
}

// usualCorpus is what requests ask for beside a token, at every default tile with packed weights: there the fewest registers are left over.
var usualCorpus = sync.OnceValues(func() (corpus, error) {
	var rs []Request
	for _, more := range []ir.Computation{
		{LogSumExp: true}, {LogProb: ir.RawLogProb}, {LogProb: ir.TemperatureLogProb}, {LogProb: ir.RawLogProb, TopN: ir.MaxTopN},
		{Draws: ir.WithReplacement, MaxDraws: 8}, {Draws: ir.WithoutReplacement, MaxDraws: 8}, {Truncation: ir.Truncation{TopK: true, TopP: true}},
	} {
		more.Sampler, more.Chain = ir.Gumbel, ir.Chain{Temperature: true}
		for _, batch := range tiling.Widths(arch.SM90, 256) {
			rs = append(rs, Request{Arch: arch.SM90, Computation: more, Shape: ir.Shape{Vocab: 1000, Hidden: 64}, Batch: batch,
				Options: templates.Options{Weights: manifest.Packed}})
		}
	}
	return emit(rs)
})

// extrasCorpus is the kernels of what else a computation may ask for: the modes of log-probabilities in turn and slots at the
// default tiles, where what is added up is compared too and where it is not, and where registers are fewest.
var extrasCorpus = sync.OnceValues(func() (corpus, error) {
	const all = "scale=0.5,softcap=30,bias=rows,mask,temperature"
	cs := []ir.Computation{
		computation(ir.Gumbel, all, true), computation(ir.Grouped, all, false), computation(ir.Grouped, "temperature", false),
		computation(ir.Greedy, "bias", false), computation(ir.Gumbel, "temperature", false),
	}
	var rs []Request
	for i, batch := range []int{16, 64, 256} {
		for j, c := range cs {
			for _, a := range arch.All() {
				if a.Name == arch.SM100.Name && batch == 64 { // no warpgroups that take turns: the skeleton is that of 16
					continue
				}
				c.LogProb = ir.RawLogProb + ir.LogProb((i+j)%3)
				c.LogSumExp = c.LogProb == ir.ProcessedLogProb && j == 0
				c.Slots, c.Listed = (i+j)%2 == 0, j < 2
				if c.Sampler != ir.Grouped {
					c.TopN, c.Rank = []int{ir.MaxTopN, 1, 0, 5}[(i+j)%4], j < 2
				}
				layout := manifest.RowMajor
				if j == 1 {
					layout = manifest.Packed
				}
				rs = append(rs, Request{Arch: a, Computation: c, Shape: ir.Shape{Vocab: 1000, Hidden: 64}, Batch: batch, Options: templates.Options{Weights: layout}})
				if j < 2 {
					ranks := rs[len(rs)-1]
					ranks.Computation, ranks.Options.Ranks = c.Normalize().RankPass(), true
					rs = append(rs, ranks)
				}
			}
		}
	}
	for j, c := range cs[:2] {
		c.LogProb = ir.ProcessedLogProb
		tile, err := tiling.ParseTile([]string{"m128n192k64s4c1", "m192n64k64s6c1p"}[j])
		if err != nil {
			return nil, err
		}
		rs = append(rs, Request{Arch: arch.SM90, Computation: c, Shape: ir.Shape{Vocab: 1000, Hidden: 64}, Batch: tile.N, Tile: tile})
	}
	return emit(rs)
})

// shardCorpus is kernels of shards, with as little as they can have to do and with nearly all there is, where registers are fewest.
var shardCorpus = sync.OnceValues(func() (corpus, error) {
	const all = "scale=0.5,softcap=30,bias=rows,mask,temperature"
	var rs []Request
	for _, x := range []struct {
		arch  arch.Arch
		batch int
		chain string
		shard ir.Shard
	}{
		{arch.SM90, 16, "none", ir.ShardExchange}, {arch.SM90, 64, all, ir.ShardExchange}, {arch.SM90, 256, all, ir.ShardRecords},
		{arch.SM100, 16, "temperature", ir.ShardRecords}, {arch.SM100, 256, all, ir.ShardExchange},
	} {
		r := Request{Arch: x.arch, Computation: computation(ir.Gumbel, x.chain, x.chain == all), Shape: ir.Shape{Vocab: 1000, Hidden: 64}, Batch: x.batch}
		if r.Computation.Shard = x.shard; x.chain == all {
			r.Computation.LogProb, r.Computation.LogSumExp, r.Computation.Slots = ir.ProcessedLogProb, true, true
			r.Options.Weights = manifest.Packed
		}
		rs = append(rs, r)
	}
	for i, a := range arch.All() {
		r := Request{Arch: a, Computation: computation(ir.Gumbel, all, true), Shape: ir.Shape{Vocab: 1000, Hidden: 64}, Batch: []int{64, 256}[i]}
		r.Computation.Shard, r.Computation.Truncation, r.Computation.LogProb, r.Computation.Slots = ir.ShardExchange, ir.Truncation{TopK: true, TopP: true, MinP: true}, ir.ProcessedLogProb, true
		if r.Options.Further = i == 0; i == 1 {
			r.Computation.TopN, r.Computation.Rank, r.Computation.Listed = 5, true, true
		}
		rs = append(rs, r)
		r.Computation = computation(ir.Gumbel, "temperature", false)
		r.Computation.Shard, r.Computation.Draws, r.Computation.MaxDraws = ir.ShardExchange, ir.WithReplacement, 64
		r.Options.Further = i == 1
		rs = append(rs, r)
	}
	reports := Request{Arch: arch.SM90, Computation: computation(ir.Gumbel, all, true), Shape: ir.Shape{Vocab: 1000, Hidden: 64}, Batch: 64}
	reports.Computation.LogProb, reports.Computation.Slots, reports.Computation.Shard = ir.RawLogProb, true, ir.ShardExchange
	reports.Computation.TopN, reports.Computation.Rank, reports.Computation.Listed = 20, true, true
	reports.Options.Weights = manifest.Packed
	ranks := reports
	ranks.Computation, ranks.Options.Ranks = reports.Computation.Normalize().RankPass(), true
	return emit(append(rs, reports, ranks))
})

// truncationCorpus is kernels that truncate, whose modules have a second entry: with as little as such a kernel can have to do and
// with all there is, reports and slots too, where one warpgroup samples and where two take turns, where two distributions are added up,
// and where registers are fewest; and kernels of further passes.
var truncationCorpus = sync.OnceValues(func() (corpus, error) {
	const all = "scale=0.5,softcap=30,bias=rows,mask,temperature"
	var rs []Request
	for _, x := range []struct {
		arch       arch.Arch
		tile       string
		batch      int
		chain      string
		truncation string
		further    bool
		logProb    ir.LogProb
		reports    bool
	}{
		{arch.SM90, "", 8, "none", "top-k", false, ir.NoLogProb, false},
		{arch.SM90, "", 64, all, "top-k,top-p,min-p,temperature-last", false, ir.ProcessedLogProb, true},
		{arch.SM90, "", 256, "temperature", "top-p", false, ir.RawLogProb, false},
		{arch.SM90, "", 64, all, "top-p", false, ir.RawLogProb, false},
		{arch.SM90, "m128n192k64s4c1", 192, all, "top-k,min-p", false, ir.RawLogProb, false},
		{arch.SM90, "", 64, all, "top-k,top-p,min-p", true, ir.ProcessedLogProb, true},
		{arch.SM90, "", 16, "temperature", "top-k,top-p,min-p", false, ir.TemperatureLogProb, false},
		{arch.SM100, "", 16, "temperature", "min-p", false, ir.RawLogProb, true},
		{arch.SM100, "", 128, "temperature", "top-p", true, ir.NoLogProb, false},
		{arch.SM100, "", 256, all, "top-k,top-p,min-p", false, ir.ProcessedLogProb, true},
	} {
		t, err := ir.ParseTruncation(x.truncation)
		if err != nil {
			return nil, err
		}
		r := Request{Arch: x.arch, Computation: computation(ir.Gumbel, x.chain, x.chain == all), Shape: ir.Shape{Vocab: 1000, Hidden: 64}, Batch: x.batch}
		r.Computation.Truncation, r.Options.Further = t, x.further
		r.Computation.Slots, r.Computation.LogProb = x.chain == all, x.logProb
		r.Computation.LogSumExp = x.logProb == ir.ProcessedLogProb && !t.TemperatureLast
		if x.reports {
			r.Computation.TopN, r.Computation.Rank, r.Computation.Listed = 5, true, true
		}
		if x.tile != "" {
			if r.Tile, err = tiling.ParseTile(x.tile); err != nil {
				return nil, err
			}
		}
		rs = append(rs, r)
	}
	return emit(rs)
})

// drawsCorpus is kernels of rows that draw several tokens, of both kinds, that filters narrow or not: with as little to do as there can
// be and with all, where warpgroups take turns, where registers are fewest, and of further passes.
var drawsCorpus = sync.OnceValues(func() (corpus, error) {
	const all = "scale=0.5,softcap=30,bias=rows,mask,temperature"
	var rs []Request
	for _, x := range []struct {
		arch    arch.Arch
		tile    string
		batch   int
		chain   string
		kind    ir.Draws
		further bool
		narrow  string
		logProb ir.LogProb
	}{
		{arch.SM90, "", 8, "none", ir.WithReplacement, false, "", ir.NoLogProb},
		{arch.SM90, "", 64, all, ir.WithReplacement, false, "", ir.NoLogProb},
		{arch.SM90, "m128n192k64s4c1", 192, all, ir.WithReplacement, true, "", ir.NoLogProb},
		{arch.SM90, "", 256, "temperature", ir.WithoutReplacement, true, "", ir.NoLogProb},
		{arch.SM100, "", 16, all, ir.WithReplacement, false, "", ir.NoLogProb},
		{arch.SM100, "", 128, "temperature", ir.WithoutReplacement, false, "", ir.NoLogProb},
		{arch.SM90, "", 64, all, ir.WithReplacement, false, "top-k,top-p,min-p,temperature-last", ir.ProcessedLogProb},
		{arch.SM90, "", 256, "temperature", ir.WithoutReplacement, false, "top-p", ir.TemperatureLogProb},
		{arch.SM90, "", 64, all, ir.WithReplacement, true, "top-k,top-p,min-p", ir.ProcessedLogProb},
		{arch.SM100, "", 16, "temperature", ir.WithReplacement, false, "top-k,top-p,min-p", ir.RawLogProb},
		{arch.SM100, "", 16, "temperature", ir.WithReplacement, true, "top-p", ir.RawLogProb},
		{arch.SM100, "", 256, all, ir.WithoutReplacement, false, "top-k,top-p,min-p", ir.ProcessedLogProb},
	} {
		narrow, err := ir.ParseTruncation(x.narrow)
		if err != nil {
			return nil, err
		}
		r := Request{Arch: x.arch, Computation: computation(ir.Gumbel, x.chain, x.chain == all), Shape: ir.Shape{Vocab: 1000, Hidden: 64}, Batch: x.batch}
		r.Computation.Draws, r.Computation.MaxDraws, r.Options.Further = x.kind, ir.MaxDraws, x.further
		r.Computation.Truncation, r.Computation.LogProb, r.Computation.Slots = narrow, x.logProb, x.logProb == ir.ProcessedLogProb
		if x.tile != "" {
			if r.Tile, err = tiling.ParseTile(x.tile); err != nil {
				return nil, err
			}
		}
		rs = append(rs, r)
	}
	return emit(rs)
})

// editCorpus is kernels that change single logits: with every kind of edit, alone and beside as much as there is, where one product is
// sampled and where several are, and where registers are fewest.
var editCorpus = sync.OnceValues(func() (corpus, error) {
	raw, all := computation(ir.Gumbel, "softcap=30,bias=sparse,penalties,bias-last,ids,mask,temperature", true),
		computation(ir.Gumbel, "scale=0.5,softcap=30,bias=rows,penalties,bias-last,ids,mask,temperature", true)
	raw.LogProb, raw.Slots = ir.RawLogProb, true
	all.LogProb, all.LogSumExp, all.Slots = ir.ProcessedLogProb, true, true
	narrow := computation(ir.Gumbel, "bias=sparse,penalties,ids,temperature", true)
	narrow.Truncation = ir.Truncation{TopK: true, TopP: true, MinP: true}
	var rs []Request
	for _, c := range []ir.Computation{
		computation(ir.Greedy, "penalties", false), summed(computation(ir.Grouped, "bias=sparse,penalties,ids,mask,temperature", false)), raw, all, narrow,
	} {
		for _, batch := range []int{8, 64, 256} {
			for _, a := range arch.All() {
				rs = append(rs, Request{Arch: a, Computation: c, Shape: ir.Shape{Vocab: 1000, Hidden: 64}, Batch: batch})
			}
		}
	}
	return emit(rs)
})

// everything is all the variants that the tests look at, in a fixed order; in short mode those of some models.
func everything(t testing.TB) []variant {
	t.Helper()
	all, parts := corpus{}, []func() (corpus, error){presetCorpus, tileCorpus, flagCorpus, usualCorpus, extrasCorpus, truncationCorpus, drawsCorpus, editCorpus, shardCorpus}
	if testing.Short() {
		parts = parts[:1]
	}
	for _, part := range parts {
		c, err := part()
		require.NoError(t, err)
		maps.Copy(all, c)
	}
	return all.sorted()
}
