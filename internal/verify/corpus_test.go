package verify

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/gen"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
	"github.com/fsgen/fsgen/templates"
	"github.com/fsgen/fsgen/tiling"
)

// trial is a kernel and a problem for it: one item of the corpus that is recorded on a GPU and run again on the simulator.
// Everything about it is a function of its name, so that a tile more or less leaves the other trials as they were.
type trial struct {
	name   string
	tile   tiling.Tile
	pr     *problem
	kernel *gen.Artifact
	in     *inputs
}

// corpusArch is the architecture of the recorded GPU, corpusBatch the largest batch whose tiles are tried.
const corpusBatch = 256

var corpusArch = arch.SM90

// corpusSeed makes the corpus; another one is another corpus, and needs another recording.
const corpusSeed = 1

// corpusKinds are the problems that every tile gets, and the specs that they take turns with.
var corpusKinds = []struct {
	name  string
	build func(p *probe, t tiling.Tile, spec sampler.Spec) *problem
	specs []sampler.Spec
}{
	{"random", randomTrial, eachTransform()},
	{"exact", exactTrial, eachTransform()},
	{"all transforms", randomTrial, []sampler.Spec{gumbel(everyTransformRows), gumbel(everyTransform), greedy(everyTransformRows)}},
}

// eachTransform is both samplers with every transform alone and all at once, and every score in full.
func eachTransform() (out []sampler.Spec) {
	for _, c := range quickChains {
		out = append(out, gumbel(c), greedy(c))
	}
	full := gumbel(everyTransformRows)
	full.Exhaustive = true
	return append(out, full)
}

// corpusTiles are the tiles of every class of computation that tiling tells apart.
func corpusTiles() (out []tiling.Tile) {
	for _, spec := range []sampler.Spec{gumbel("temperature"), gumbel("none"), greedy("none")} {
		for _, t := range tiles(corpusArch.Name, spec, corpusBatch) {
			if !slices.Contains(out, t) {
				out = append(out, t)
			}
		}
	}
	return out
}

func corpus(t testing.TB) (out []*trial) {
	for _, tile := range corpusTiles() {
		for i := range corpusKinds {
			out = append(out, newTrial(t, tile, i))
		}
	}
	return out
}

func newTrial(t testing.TB, tile tiling.Tile, kind int) *trial {
	k := corpusKinds[kind]
	tr := &trial{name: tile.String() + " " + k.name, tile: tile}
	p := &probe{rng: newRNG(corpusSeed, tr.name), anyTag: true}
	spec := specFor(t, p.rng, tile, k.specs)
	tr.pr = settled(t, func() *problem { return k.build(p, tile, spec) })
	var err error
	tr.kernel, err = gen.Emit(gen.Request{Arch: corpusArch, Computation: spec.Computation(), Shape: tr.pr.shape, Tile: tile,
		Options: templates.Options{Exhaustive: spec.Exhaustive}})
	require.NoError(t, err, tr.name)
	tr.in = newInputs(tr.pr)
	return tr
}

// specFor draws one of the specs that a tile can run: the deepest rings leave no room for the constants of some.
func specFor(t testing.TB, rng *rand.Rand, tile tiling.Tile, specs []sampler.Spec) sampler.Spec {
	first := rng.IntN(len(specs))
	for i := range specs {
		spec := specs[(first+i)%len(specs)]
		if _, err := tiling.NewPlan(corpusArch, tile, spec.Computation().Normalize()); err == nil {
			spec.Tile = tile
			return spec
		}
	}
	require.Fail(t, "no computation runs tile "+tile.String())
	return sampler.Spec{}
}

// settled draws problems until one has no row whose two best scores lie within the float32 bound of each other. So a
// token is never a matter of rounding, and two devices have to agree on all of them.
func settled(t testing.TB, draw func() *problem) *problem {
	for range 50 {
		pr := draw()
		o, err := ask(t.Context(), pr)
		require.NoError(t, err)
		if o.nearTie() < 0 {
			return pr
		}
	}
	require.Fail(t, "every problem has a near tie")
	return nil
}

// nearTie returns a row whose runner-up float32 cannot tell from its token, or -1. Where both bounds are 0 the scores are
// exact: equal ones are a tie that the lower id wins, on every device.
func (o *oracle) nearTie() int {
	for b, token := range o.res.Tokens {
		second := o.res.Second[b]
		if token == ir.NoToken || second == ir.NoToken {
			continue
		}
		s1, e1 := o.req.ScoreOf(b, int(token))
		s2, e2 := o.req.ScoreOf(b, int(second))
		if e1+e2 > 0 && s1-s2 <= e1+e2 {
			return b
		}
	}
	return -1
}

// randomTrial has several blocks of k, and a batch that leaves columns of the tile idle or spills into a second one.
func randomTrial(p *probe, t tiling.Tile, spec sampler.Spec) *problem {
	shape := ir.Shape{Vocab: oneOf(p.rng, corpusVocabs(t)), Hidden: oneOf(p.rng, []int{65, 72, 130, 136, 200})}
	batch := oneOf(p.rng, []int{1, t.N/2 + 3, t.N - 1, t.N + 1, t.N + t.N/4})
	pr := p.random(p.weights(shape.Vocab, shape.Hidden), shape, batch, spec, p.rng.IntN(4) == 0)
	return spoiled(p.rng, pr)
}

// exactTrial has hidden states with a single 1, so that every logit is one weight, in whatever order products are added:
// a greedy row's score has no error at all, and a sampled one's only that of the noise. D is one block of k, the tile full.
func exactTrial(p *probe, t tiling.Tile, spec sampler.Spec) *problem {
	shape := ir.Shape{Vocab: oneOf(p.rng, corpusVocabs(t)), Hidden: oneOf(p.rng, []int{8, 61, 64})}
	batch := oneOf(p.rng, []int{t.N, t.N, t.N + t.N/2})
	pr := p.random(normals(p.rng, shape.Vocab*shape.Hidden, logitSD), shape, batch, spec, p.rng.IntN(4) == 0)
	clear(pr.hidden)
	for b := range batch {
		pr.hidden[b*shape.Hidden+b%shape.Hidden] = one
	}
	return spoiled(p.rng, pr)
}

// corpusVocabs end beside the borders of a tile and of a wave of the simulator's four CTAs.
func corpusVocabs(t tiling.Tile) []int {
	wave := corpusCTAs * t.M
	return []int{t.M - 1, t.M + 1, 2*t.M + 17, wave - t.M/2, wave, wave + 1}
}

func oneOf[T any](rng *rand.Rand, list []T) T { return list[rng.IntN(len(list))] }

// spoiled makes about one row in six one that cannot be sampled, or that has a logit of +inf.
func spoiled(rng *rand.Rand, pr *problem) *problem {
	for b := range pr.batch {
		if rng.IntN(6) == 0 {
			spoilers[rng.IntN(len(spoilers))](rng, pr, b)
		}
	}
	return pr
}

// spoilers do nothing to a problem that has no such parameter, or one value of it for all rows.
var spoilers = []func(rng *rand.Rand, pr *problem, b int){
	func(rng *rand.Rand, pr *problem, b int) {
		pr.hidden[b*pr.shape.Hidden+rng.IntN(pr.shape.Hidden)] = bf16(nan32)
	},
	func(_ *rand.Rand, pr *problem, b int) {
		if words := pr.maskWords(); len(pr.rows.Mask) == pr.batch*words {
			clear(pr.rows.Mask[b*words : (b+1)*words])
		}
	},
	func(rng *rand.Rand, pr *problem, b int) {
		if len(pr.rows.Temperature) == pr.batch {
			pr.rows.Temperature[b] = oneOf(rng, []float32{-1, -1e-30, nan32, inf32, -inf32})
		}
	},
	func(rng *rand.Rand, pr *problem, b int) {
		pr.biasRow(b, oneOf(rng, []float32{inf32, nan32}), rng.IntN(pr.shape.Vocab))
	},
	func(_ *rand.Rand, pr *problem, b int) { pr.biasRow(b, -inf32, every(pr.shape.Vocab)...) },
}

// biasRow sets biases of one row, where rows have their own.
func (pr *problem) biasRow(b int, value float32, at ...int) {
	if pr.spec.Chain.Bias == ir.BiasMatrix {
		for _, v := range at {
			pr.rows.Bias[b*pr.biasStride()+v] = value
		}
	}
}

// inputs is a problem as it lies in a GPU's memory, by the names that manifests give parameters.
type inputs struct {
	rows    int
	tensors map[string]tensor
	arrays  map[string][]byte
	scalars map[string]uint32
}

// tensor is a bf16 matrix whose rows are padded to 16 bytes.
type tensor struct {
	data               []byte
	rows, cols, stride int
}

func newInputs(pr *problem) *inputs {
	r, n := pr.rows, pr.batch
	in := &inputs{rows: n,
		tensors: map[string]tensor{
			templates.ParamWeights: newTensor(pr.w, pr.shape.Vocab, pr.shape.Hidden), templates.ParamHidden: newTensor(pr.hidden, n, pr.shape.Hidden),
		},
		arrays: map[string][]byte{
			templates.ParamSeeds: littleEndian(r.Seeds), templates.ParamPositions: littleEndian(r.Positions),
			templates.ParamTemperature: littleEndian(r.Temperature), templates.ParamBias: littleEndian(r.Bias), templates.ParamMask: littleEndian(r.Mask),
		},
		scalars: map[string]uint32{
			templates.ParamVocab: uint32(pr.shape.Vocab), templates.ParamHiddenSize: uint32(pr.shape.Hidden), templates.ParamBatch: uint32(n),
			templates.ParamSeedStride: strideOf(r.Seeds), templates.ParamPositionStride: strideOf(r.Positions),
			templates.ParamTemperatureStride: strideOf(r.Temperature), templates.ParamDraw: r.Draw, templates.ParamStreamTag: r.StreamTag,
			templates.ParamBiasStride: 0, templates.ParamMaskStride: 0, templates.ParamMaskWords: uint32(pr.maskWords()),
		},
	}
	if pr.spec.Chain.Bias == ir.BiasMatrix {
		in.scalars[templates.ParamBiasStride] = uint32(pr.biasStride())
	}
	if len(r.Mask) != pr.maskWords() {
		in.scalars[templates.ParamMaskStride] = uint32(pr.maskWords())
	}
	return in
}

func newTensor(data []uint16, rows, cols int) tensor {
	t := tensor{rows: rows, cols: cols, stride: (2*cols + 15) / 16 * 16}
	t.data = make([]byte, rows*t.stride)
	for i := range rows {
		copy(t.data[i*t.stride:], littleEndian(data[i*cols:(i+1)*cols]))
	}
	return t
}

// strideOf is 0 for one value that serves all rows.
func strideOf[T any](v []T) uint32 {
	if len(v) == 1 {
		return 0
	}
	return 1
}

func littleEndian(v any) []byte {
	out, err := binary.Append(nil, binary.LittleEndian, v)
	if err != nil {
		panic("BUG: verify: " + err.Error())
	}
	return out
}

// hash tells whether two runs were given the same.
func (in *inputs) hash() string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(in.tensors)) {
		t := in.tensors[name]
		fmt.Fprintln(h, name, t.rows, t.cols, t.stride)
		h.Write(t.data)
	}
	for _, name := range slices.Sorted(maps.Keys(in.arrays)) {
		fmt.Fprintln(h, name, len(in.arrays[name]))
		h.Write(in.arrays[name])
	}
	for _, name := range slices.Sorted(maps.Keys(in.scalars)) {
		fmt.Fprintln(h, name, in.scalars[name])
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// result reads the arrays that a kernel wrote.
func (in *inputs) result(raw map[string][]byte) *sampler.Result {
	res := &sampler.Result{}
	for b := range in.rows {
		word := func(name string) uint32 { return binary.LittleEndian.Uint32(raw[name][4*b:]) }
		res.Tokens = append(res.Tokens, int32(word(templates.ParamTokens)))
		res.Status = append(res.Status, ir.Status(word(templates.ParamStatus)))
		res.Scores = append(res.Scores, math.Float32frombits(word(templates.ParamScores)))
	}
	return res
}

// count counts what a trial shows.
func (tr *trial) count(seen map[string]int) {
	pr, n := tr.pr, tr.tile.N
	for _, what := range []string{
		pr.spec.Sampler.String(), pr.spec.Chain.String(), fmt.Sprint("exhaustive ", pr.spec.Exhaustive),
		fmt.Sprint("full ", pr.batch%n == 0), fmt.Sprint("columns ", (pr.batch+n-1)/n), fmt.Sprint("k blocks ", (pr.shape.Hidden+63)/64),
		fmt.Sprint("second wave ", pr.shape.Vocab > corpusCTAs*tr.tile.M), fmt.Sprint("one temperature ", len(pr.rows.Temperature) == 1),
		fmt.Sprint("greedy row ", slices.Contains(pr.rows.Temperature, 0)),
	} {
		seen[what]++
	}
}

// The corpus shows what it is meant to: every tile, sampler, transform and status, greedy rows among sampled ones, one and
// two column tiles, one and several blocks of k, vocabularies in one wave and past it.
func TestCorpusCovers(t *testing.T) {
	seen := map[string]int{}
	for _, tr := range corpus(t) {
		tr.count(seen)
		o, err := ask(t.Context(), tr.pr)
		require.NoError(t, err)
		require.Negative(t, o.nearTie(), tr.name)
		for _, s := range o.res.Status {
			seen[s.String()]++
		}
	}
	want := []string{"gumbel", "greedy", "exhaustive true", "full true", "full false", "columns 1", "columns 2", "k blocks 1", "k blocks 2",
		"k blocks 3", "k blocks 4", "second wave true", "second wave false", "one temperature true", "greedy row true", "ok", "empty", "nan", "bad-temperature"}
	for _, c := range quickChains {
		want = append(want, chain(c).String())
	}
	for _, what := range want {
		require.Positive(t, seen[what], "%s: %v", what, seen)
	}
	t.Log(seen)
}
