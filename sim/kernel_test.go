package sim_test

import (
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/gen"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/reference"
	"github.com/fsgen/fsgen/sim"
	"github.com/fsgen/fsgen/tiling"
)

// problem is one batch with everything that a kernel may read.
type problem struct {
	comp  ir.Computation
	shape ir.Shape
	req   reference.Request
}

// newProblem fills a batch with values whose products spread the logits over a few units.
func newProblem(comp ir.Computation, vocab, hidden, batch int, seed uint64) *problem {
	rng := rand.New(rand.NewPCG(seed, 7))
	shape := ir.Shape{Vocab: vocab, Hidden: hidden}
	p := &problem{comp: comp, shape: shape}
	bf := func(n int, scale float64) []uint16 {
		out := make([]uint16, n)
		for i := range out {
			out[i] = uint16(math.Float32bits(float32(rng.NormFloat64()*scale)) >> 16)
		}
		return out
	}
	words := (vocab + 31) / 32
	p.req = reference.Request{
		H: bf(batch*hidden, 1), W: bf(vocab*hidden, 2/math.Sqrt(float64(hidden))), Batch: batch, Shape: shape, Computation: comp,
		Draw: 3, StreamTag: 9,
	}
	for range batch {
		p.req.Seeds = append(p.req.Seeds, rng.Uint64())
		p.req.Positions = append(p.req.Positions, rng.Uint64())
		p.req.Temperature = append(p.req.Temperature, float32(rng.Float64()*2))
	}
	if comp.Chain.Bias != ir.BiasNone {
		p.req.BiasStride = vocab
		p.req.Bias = make([]float32, vocab*batch)
		for i := range p.req.Bias {
			p.req.Bias[i] = float32(rng.NormFloat64())
		}
	}
	if comp.Chain.Bias == ir.BiasVector {
		p.req.Bias, p.req.BiasStride = p.req.Bias[:vocab], 0
	}
	if comp.Chain.Mask {
		p.req.MaskStride, p.req.MaskWords = words, words
		p.req.Mask = make([]uint32, words*batch)
		for i := range p.req.Mask {
			p.req.Mask[i] = rng.Uint32()
		}
	}
	if !comp.Chain.Temperature {
		p.req.Temperature = nil
	}
	return p
}

func bytesOf(v any) []byte {
	out, err := binary.Append(nil, binary.LittleEndian, v)
	if err != nil {
		panic(err)
	}
	return out
}

// bench is a memory with the problem in it, and the launch of a kernel over it.
type bench struct {
	mem                    *sim.Memory
	launch                 sim.Launch
	tokens, status, scores *sim.Block
	lse, logProbs, listed  *sim.Block
	keys, ticket           *sim.Block
	workspace              []*sim.Block // all that a launch finds zero and leaves zero
}

// newBench lays a problem out: rows padded to 16 bytes, workspace zero.
func newBench(p *problem, ctas int) *bench {
	b := &bench{mem: sim.NewMemory()}
	ld := (p.shape.Hidden*2 + 15) / 16 * 16
	rows := func(name string, data []uint16, n int) sim.Tensor {
		buf := make([]byte, n*ld)
		for r := range n {
			copy(buf[r*ld:], bytesOf(data[r*p.shape.Hidden:][:p.shape.Hidden]))
		}
		at := b.put(name, buf)
		return sim.Tensor{Addr: at, Rows: n, Cols: p.shape.Hidden, Stride: ld}
	}
	r, n := &p.req, p.req.Batch
	b.launch.CTAs = ctas
	b.launch.Tensors = map[string]sim.Tensor{"weights": rows("weights", r.W, p.shape.Vocab), "hidden": rows("hidden", r.H, n)}
	b.tokens, b.status, b.scores = b.mem.Alloc("tokens", 4*n), b.mem.Alloc("status", 4*n), b.mem.Alloc("scores", 4*n)
	b.lse, b.logProbs = b.mem.Alloc("lse", 4*n), b.mem.Alloc("logprob", 4*n)
	b.keys, b.ticket = b.mem.Put("keys", make([]byte, 8*n)), b.mem.Put("ticket", make([]byte, 4))
	b.workspace = []*sim.Block{b.keys, b.ticket}
	b.launch.Pointers = map[string]uint64{
		"seeds": b.put("seeds", bytesOf(r.Seeds)), "positions": b.put("positions", bytesOf(r.Positions)),
		"temperature": b.put("temperature", bytesOf(r.Temperature)), "bias": b.put("bias", bytesOf(r.Bias)), "mask": b.put("mask", bytesOf(r.Mask)),
		"tokens": b.tokens.Addr, "status": b.status.Addr, "scores": b.scores.Addr, "keys": b.keys.Addr, "ticket": b.ticket.Addr,
		"lse": b.lse.Addr, "lse_partials": b.mem.Alloc("lse_partials", 16*n*ctas).Addr,
		"logprob": b.logProbs.Addr, "slots": b.put("slots", bytesOf(r.Slots)),
	}
	b.launch.Scalars = map[string]uint32{
		"vocab": uint32(p.shape.Vocab), "hidden_size": uint32(p.shape.Hidden), "batch": uint32(n), "slot_count": uint32(r.SlotCount), "seed_stride": 1, "position_stride": 1,
		"temperature_stride": 1, "draw": r.Draw, "stream_tag": r.StreamTag, "bias_stride": uint32(r.BiasStride),
		"mask_stride": uint32(r.MaskStride), "mask_words": uint32(r.MaskWords), "top_k_stride": 1, "top_p_stride": 1, "min_p_stride": 1,
	}
	if p.comp.Truncation.Any() {
		b.addLists(p)
	}
	return b
}

// addLists adds what a kernel that truncates reads, and what it leaves for its second stage.
func (b *bench) addLists(p *problem) {
	n, at := p.req.Batch, b.launch.Pointers
	at["top_k"], at["top_p"], at["min_p"] = b.put("top_k", bytesOf(p.req.TopK)), b.put("top_p", bytesOf(p.req.TopP)), b.put("min_p", bytesOf(p.req.MinP))
	for name, size := range map[string]int{manifest.Marks: 4 * manifest.RowMarks * n, manifest.Counts: 4 * n, manifest.Arrivals: 4} {
		block := b.mem.Put(name, make([]byte, size))
		b.workspace, at[name] = append(b.workspace, block), block.Addr
	}
	at[manifest.States], at[manifest.Open] = b.mem.Put(manifest.States, make([]byte, manifest.StateBytes*n)).Addr, b.mem.Put(manifest.Open, make([]byte, 4)).Addr
	for name, size := range map[string]int{manifest.Candidates: manifest.RowCandidates * manifest.CandidateBytes * n, manifest.Bounds: 4 * n, manifest.Masses: 8 * n,
		"passes": 4 * n} {
		at[name] = b.mem.Alloc(name, size).Addr
	}
}

func (b *bench) put(name string, data []byte) uint64 {
	x := b.mem.Put(name, data)
	x.ReadOnly = true
	return x.Addr
}

func ints(b *sim.Block) []int32 {
	raw := make([]byte, b.Size())
	b.Read(0, raw)
	out := make([]int32, len(raw)/4)
	for i := range out {
		out[i] = int32(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return out
}

func mustEmit(t testing.TB, comp ir.Computation, tile string, a arch.Arch) *gen.Artifact {
	t.Helper()
	r := gen.Request{Arch: a, Computation: comp, Shape: ir.Shape{Vocab: 1000, Hidden: 64}, Batch: 16}
	if tile != "" {
		var err error
		r.Tile, err = tiling.ParseTile(tile)
		require.NoError(t, err)
	}
	out, err := gen.Emit(r)
	require.NoError(t, err)
	return out
}

func chain(t testing.TB, text string) ir.Computation {
	t.Helper()
	c, err := ir.ParseChain(text)
	require.NoError(t, err)
	return ir.Computation{Chain: c, Score: true}
}

// runKernel runs a text over a problem, and its second stage where it has one, and returns the last report with the bench.
func runKernel(t testing.TB, text string, m *manifest.Kernel, p *problem, ctas int, seed uint64) (*sim.Report, *bench) {
	t.Helper()
	prog, err := sim.Load(text, m)
	require.NoError(t, err)
	b := newBench(p, ctas)
	b.launch.Seed = seed
	rep, err := prog.Run(context.Background(), b.mem, b.launch)
	require.NoError(t, err)
	stage := m.StageKernel()
	if stage == nil || len(rep.Findings) > 0 {
		return rep, b
	}
	prog, err = sim.Load(text, stage)
	require.NoError(t, err)
	b.launch.CTAs = p.req.Batch
	rep, err = prog.Run(context.Background(), b.mem, b.launch)
	require.NoError(t, err)
	return rep, b
}

// sameAsReference runs an emitted kernel and wants no findings and the reference's tokens.
func sameAsReference(t testing.TB, a *gen.Artifact, p *problem, ctas int, seed uint64) {
	t.Helper()
	rep, b := runKernel(t, string(a.PTX), a.Manifest, p, ctas, seed)
	require.NoError(t, rep.Err())
	want, err := reference.Sample(context.Background(), &p.req)
	require.NoError(t, err)
	require.Equal(t, want.Tokens, ints(b.tokens))
	for _, w := range []*sim.Block{b.keys, b.ticket} {
		for _, v := range ints(w) {
			require.Zero(t, v, "%s is left zero", w.Name)
		}
	}
}

func TestKernelEqualsReference(t *testing.T) {
	comp := chain(t, "temperature")
	a := mustEmit(t, comp, "", arch.SM90)
	sameAsReference(t, a, newProblem(comp, 512, 256, 16, 1), 2, 1)
}

// Shapes cross tile, stage and wave borders; tiles stand at both ends of every axis.
func TestCorpusEqualsReference(t *testing.T) {
	const all = "scale=0.5,softcap=30,bias=rows,mask,temperature"
	for i, c := range []struct {
		tile, chain          string
		vocab, hidden, batch int
		ctas                 int
	}{
		{"m192n8k64s8c1", "none", 200, 64, 1, 1},
		{"m64n8k64s12c1", "mask,temperature", 130, 72, 3, 2},
		{"m192n16k64s8c1", "temperature", 1000, 72, 5, 3},
		{"m128n16k64s2c1", all, 130, 8, 16, 2},
		{"m64n16k64s3c1", "bias", 129, 320, 17, 2},
		{"m192n32k64s7c2", "bias,temperature", 500, 72, 40, 2},
		{"m192n64k64s4c1", "mask,temperature", 600, 200, 40, 4},
		{"m64n96k64s10c2", "temperature", 300, 64, 97, 2},
		{"m192n128k64s5c1", "temperature", 400, 64, 129, 2},
		{"m128n128k64s6c2", "bias,mask,temperature", 700, 136, 130, 4},
		{"m128n192k64s5c2", "temperature", 300, 64, 150, 2},
		{"m128n256k64s4c2", all, 300, 64, 100, 2},
		{"m64n256k64s5c1", "none", 129, 64, 200, 1},
		{"m64n32k64s4c4", "temperature", 500, 128, 33, 4},
		{"m64n64k64s4c8", "softcap=5", 900, 128, 64, 8},
		{"m192n128k64s5c2b", "temperature", 800, 136, 200, 4},
		{"m192n96k64s4c2b", all, 400, 72, 400, 2},
		{"m128n32k64s3c2b", all, 300, 200, 40, 4},
		{"m64n16k64s3c2b", "mask,temperature", 200, 64, 100, 4},
	} {
		if raceEnabled && i%3 != 0 {
			continue
		}
		t.Run(c.tile+"_"+c.chain, func(t *testing.T) {
			comp := chain(t, c.chain)
			a := mustEmit(t, comp, c.tile, arch.SM90)
			sameAsReference(t, a, newProblem(comp, c.vocab, c.hidden, c.batch, 5), c.ctas, 11)
		})
	}
}

// The same over tensor memory.
func TestTensorMemoryKernels(t *testing.T) {
	const all = "scale=0.5,softcap=30,bias=rows,mask,temperature"
	for i, c := range []struct {
		tile, chain          string
		vocab, hidden, batch int
		ctas                 int
	}{
		{"m128n16k64s12c1", "none", 200, 64, 1, 1},
		{"m128n16k64s4c1", "temperature", 1000, 72, 5, 3},
		{"m128n32k64s10c2", "mask", 500, 72, 30, 4},
		{"m128n64k64s3c1", all, 600, 200, 40, 2},
		{"m128n96k64s7c2", "temperature", 300, 64, 97, 2},
		{"m128n128k64s6c2", "bias=rows,mask,temperature", 700, 136, 130, 4},
		{"m128n192k64s5c1", "temperature", 300, 64, 150, 1},
		{"m128n256k64s4c2", "bias", 300, 64, 100, 2},
	} {
		if raceEnabled && i%3 != 0 {
			continue
		}
		t.Run(c.tile+"_"+c.chain, func(t *testing.T) {
			comp := chain(t, c.chain)
			a := mustEmit(t, comp, c.tile, arch.SM100)
			sameAsReference(t, a, newProblem(comp, c.vocab, c.hidden, c.batch, 5), c.ctas, 11)
		})
	}
}

// Orderings differ from seed to seed; results do not. A seed repeats its run whatever the number of workers.
func TestSeeds(t *testing.T) {
	comp := chain(t, "temperature")
	a := mustEmit(t, comp, "m128n16k64s2c2", arch.SM90)
	p := newProblem(comp, 700, 200, 9, 2)
	prog, err := sim.Load(string(a.PTX), a.Manifest)
	require.NoError(t, err)
	steps := map[int]bool{}
	for seed := range uint64(3) {
		sameAsReference(t, a, p, 4, seed)
		b := newBench(p, 4)
		b.launch.Seed = seed
		var reports []*sim.Report
		for workers := 1; workers <= 3; workers++ {
			b.launch.Workers = workers
			rep, err := prog.Run(context.Background(), b.mem, b.launch)
			require.NoError(t, err)
			reports = append(reports, rep)
		}
		require.Equal(t, reports[0], reports[1])
		require.Equal(t, reports[0], reports[2])
		steps[reports[0].Steps] = true
	}
	require.Greater(t, len(steps), 1, "all seeds took the same steps")
}
