package sim_test

import (
	"math"
	"testing"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/ir"
)

// collectFaults are planted where rows are collected in lists.
var collectFaults = []fault{
	{"a bound that one token proves", `setp.ge.u32 +(%enough\w*), (%reached_all\w*), %wanted_\d;`, `setp.ne.u32 $1, $2, 0;`, every},
	{"rows share their marks", `mad.lo.u32 +(%mark_\d+), %batch_row_\d+, 1024, %mark_\d+;`, `mad.lo.u32 $1, %lane, 0, $1;`, every},
	{"a token at the bound is not listed", `setp.geu.and.f32 +(%listed), (%\w+), (%\w+), %listed;`, `setp.gt.and.f32 $1, $2, $3, $1;`, 0},
	{"the bound is above the mark that proves it", `(setp.ne.u32 +(%bounded\w*), (%proven_bound\w*), 0;)`, "$1\n@$2 add.u32 $3, $3, 0x400000;", every},
	{"listed with the noise of temperature 1", `mov.b32 +%tau_1, %list2;`, `mov.b32 %tau_1, 0x3F800000;`, 0},
	{"scaled as rows without a list", `mov.b32 +%alpha_1, %list1;`, `mov.b32 %alpha_1, 0x3F800000;`, 0},
	{"rows of temperature 0 have lists", `setp.gt.and.f32 +%listed_row, %tau, 0f00000000, %listed_row;`, ``, 0},
	{"arrivals are left behind", `@%is_first_10 st.global.b32 \[%arrivals_1\], 0;`, ``, 0},
	{"entries overlap", `(mad.wide.u32 +%candidate_addr\w*, %r\d+), 16,`, `$1, 8,`, 0},
}

// resolveFaults are planted in the kernel that draws from the lists.
var resolveFaults = []fault{
	{"counts are left behind", `@%is_thread_2 st.global.b32 +\[%rd\d+\], 0;`, ``, 0},
	{"marks are left behind", `@%has_mark st.global.b32 +\[%rd\d+\], 0;`, ``, 0},
	{"rows that failed are drawn", `@%failed bra +done;`, ``, 0},
	{"rows of temperature 0 are drawn", `setp.gt.and.f32 +%listed_row, %temperature, 0f00000000, %narrows;`, `or.pred %listed_row, %narrows, %narrows;`, 0},
	{"edge of the bin above", `sub.u32 +(%bin_\d), 511, %thread;`, `sub.u32 $1, 510, %thread;`, 0},
	{"keys share a place", `(atom.relaxed.cta.shared.add.u32 +%r\d+, \[%smem\+69632\]), 1;`, `$1, 0;`, every},
	{"no barrier before the keys are sorted", `(fill_key_end:[^:]*?)bar.sync +0;`, `$1`, 0},
	{"no barrier before the sums of warps are read", `(@%last_lane st.shared.b64[^;]*;\s*)bar.sync +0;`, `$1`, 0},
	{"places behind the keys are not filled", `(%i_3, %listed;\s*mad.lo.u32 +(%r\d+), %r\d+, 8, %smem;\s*)st.shared.b64 +\[%r\d+\], %rd\d+;`, `$1`, 0},
	{"a key counts itself", `setp.gt.u64 +%is_larger, (%rd\d+), (%key\w*);`, `setp.ge.u64 %is_larger, $1, $2;`, 0},
	{"all threads of a key compare the same others", `shl.b32 +%compared, %rank_part, %rank_span;`, `mov.b32 %compared, 0;`, 0},
	{"the last of the others are not compared", `shl.b32 +%compared_end, %compared_end, %rank_span;`, `shl.b32 %compared_end, 4, %rank_span;`, 0},
	{"no barrier before ranks are read", `(red.relaxed.cta.shared.add.u32[^;]*;\s*)bar.sync +0;`, `$1`, 0},
	{"ranks are left from the bins", `st.shared.b32 +\[(%r\d+)\+65536\], 0;(\s*bar.sync +0;)`, `$2`, every},
	{"what fills up is moved", `@%has_key (st.shared.b64)`, `$1`, 0},
	{"k is one more", `min.u32 +%taken, %k, %listed;`, `add.u32 %taken, %k, 1; min.u32 %taken, %taken, %listed;`, 0},
	{"the cut is one short", `add.u32 +(%r\d+), %i_6, 1;(\s*@%reached)`, `mov.b32 $1, %i_6;$2`, 0},
	{"the last token kept is the next", `sub.u32 +%last, %cut, 1;`, `mov.b32 %last, %cut;`, 0},
	{"the tail of top-p is not rounded up", `add.u64 +(%tail\w*), %tail\w*, 128;`, ``, every},
	{"ties of min-p are dropped", `setp.ge.and.u64 +%kept, %weight_4, %least, %kept;`, `setp.gt.and.u64 %kept, %weight_4, %least, %kept;`, 0},
	{"min-p counts tokens that top-p dropped", `setp.ge.u64 +(%kept\w*), (%key_\d), %cut_key;`, `setp.ge.u64 $1, $2, $2;`, every},
	{"scores stay scaled", `@%below_one mov.f32[^;]*;`, ``, 1},
	{"no barrier before the best is read", `(@%kept atom.relaxed.cta.shared.max.u64(?s).*?)bar.sync +0;`, `$1`, 0},
}

// bitonicFaults are planted where more keys are sorted than there are threads.
var bitonicFaults = []fault{
	{"no barrier between steps of the sort", `(sort_pair_end:\s*)bar.sync +0;`, `$1`, 0},
	{"the sort rises", `setp.ne.u32 +%rising, (%r\d+), 0;`, `setp.eq.u32 %rising, $1, 0;`, 0},
	{"many keys go to their ranks", `setp.gt.u32 +%many_keys, %sorted_size_1, 256;`, `setp.gt.u32 %many_keys, %sorted_size_1, 1024;`, 0},
}

// manyKeptUnderTest is a kernel whose rows keep more tokens than a CTA has threads.
func manyKeptUnderTest(t testing.TB) *kernelUnderTest {
	comp := chain(t, "temperature")
	comp.Truncation = ir.Truncation{TopK: true}
	k := &kernelUnderTest{name: "sm_90 m64n8k64s4c1 many kept", art: frozen(t, comp, "m64n8k64s4c1", arch.SM90), p: newProblem(comp, 900, 72, 4, 3), ctas: 3}
	for row := range k.p.req.Batch {
		k.p.req.TopK, k.p.req.Temperature[row] = append(k.p.req.TopK, 700), 100
	}
	k.answer(t)
	return k
}

// truncatedUnderTest is a kernel with rows of all filters, some of which end at ties and borders. The filters see T = 1, so that a
// row of high temperature shows each token that it keeps.
func truncatedUnderTest(t testing.TB, a arch.Arch, tile string, vocab, hidden, batch, ctas int) *kernelUnderTest {
	comp := chain(t, "bias=rows,mask,temperature")
	comp.Truncation = ir.Truncation{TopK: true, TopP: true, MinP: true, TemperatureLast: true}
	k := &kernelUnderTest{name: a.Name + " " + tile + " truncation", art: frozen(t, comp, tile, a), p: newProblem(comp, vocab, hidden, batch, 3), ctas: ctas}
	k.p.addFilters()
	k.answer(t)
	return k
}

// addFilters gives every row filters by its place.
func (p *problem) addFilters() {
	r := &p.req
	for row := range r.Batch {
		k, topP, minP, temperature := int32(0), float32(1), float32(0), float32(100)
		switch row % 8 {
		case 0:
			k = 40
		case 1:
			k, topP = 100, 0.9
		case 2:
			k, temperature = 1, 0.5
		case 3: // equal logits: ids decide, and min-p keeps all that are equal
			k, minP = 5, 1
			p.level(row, 0, 0, 0, 0, 0, 0, 0, 0)
		case 4: // the second of two tokens is just below what top-p may drop
			topP = 0.9999999
			p.level(row, 0, float32(math.Log(1.35e-7)))
		case 5:
			k, minP, temperature = 30, 0.2, 0.7
		case 6:
			k, topP, temperature = 60, 0.5, 0
		case 7:
			k, topP = 17, 0.5
		}
		r.TopK, r.TopP, r.MinP, r.Temperature[row] = append(r.TopK, k), append(r.TopP, topP), append(r.MinP, minP), temperature
	}
	nan := r.Batch - 1
	r.Bias[nan*r.BiasStride+5] = float32(math.NaN())
	r.Mask[nan*r.MaskStride] |= 1 << 5
	clear(r.Mask[(r.Batch-8)*r.MaskStride:][:r.MaskWords]) // no token is allowed
}

// level leaves a row some tokens, a tile's width apart, of these logits.
func (p *problem) level(row int, z ...float32) {
	r := &p.req
	clear(r.H[row*p.shape.Hidden:][:p.shape.Hidden])
	mask := r.Mask[row*r.MaskStride:][:r.MaskWords]
	clear(mask)
	for i, x := range z {
		v := (i*47 + 9) % p.shape.Vocab
		mask[v/32] |= 1 << (v % 32)
		r.Bias[row*r.BiasStride+v] = x
	}
}
