package sim_test

import (
	"math"
	"testing"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/ir"
)

// logProbFaults are planted in the log-probability of the tokens. A warp that does not wait for its lanes before it looks at a
// key again cannot be seen: lanes part at branches alone here, and there is none.
var logProbFaults = []fault{
	{"noted while another lane's key stands", `setp.eq.and.u64 +(%stands), %key_\d+, %key_now, (%raise_\d+);`, `setp.eq.and.u32 $1, %lane, %lane, $2;`, 0},
	{"warps note in one place", `(mad.lo.u32 +%winner_addr, %candidate2, 8), %queue;`, `$1, %smem;`, 0},
	{"noted in the first row's place", `(mad.lo.u32 +%winner_addr, %candidate2), 8,`, `$1, 0,`, 0},
	{"what was noted is not forgotten", `st.shared.v2.b32 +\[%r\d+\+\d+\], \{%r\d+, %r\d+\};`, ``, every},
	{"what the first warp noted alone", `selp.b32 +(%r\d+), %noted_\d_1, %r\d+, %is_best_\d;`, ``, every},
	{"the id noted for the score", `(st.shared.v2.b32 +\[%winner_addr\+\d+\], \{%candidate1,) %r\d+`, `$1 %candidate1`, 0},
	{"the token's CTA in the first turn alone", `sub.u32 +%tile_group, %tile_group, %turns;`, ``, 0},
	{"what the CTA noted of the first row", `mad.lo.u32 +(%r\d+), %sum_row, %ctas\w*, %token_cta;`, `mov.b32 $1, %token_cta;`, 0},
	{"notes on top of the partial sums", `add.u64 +%noted_addr, %noted_addr, %rd\d+;`, ``, 0},
	{"infinite tokens weigh without bound", `0f42040000`, `0f7F800000`, every},
	{"partial sums half their size", `(mad.wide.u32 +%partial_addr\w*, %r\d+), 8,`, `$1, 4,`, every},
	{"logits of twice their size are added up", `add.rn.f32 +(%f\d+), (%z_\d+_0), %pad;`, `add.rn.f32 $1, $2, $2;`, every},
	{"log-probability of rows that failed", `@!%ok st.global.f32[^;]*;`, ``, 0},
}

// slotFaults are planted in the rows' way to their parameters.
var slotFaults = []fault{
	{"slots are not held to their number", `setp.lt.u32 +%has_slot, %row_slot, %slot_count;`, `setp.eq.u32 %has_slot, %lane, %lane;`, 0},
	{"a negative slot is one", `setp.lt.u32 +%has_slot, %row_slot, %slot_count;`, `setp.lt.s32 %has_slot, %row_slot, %slot_count;`, 0},
	{"every row in its own place", `ld.global.b32 +(%row_slot\w*), [^;]*;`, `mov.b32 $1, %lane;`, every},
	{"masks of no slot", `setp.lt.u32 +(%active\w*), %row_slot\w*, %slot_count;`, `setp.eq.u32 $1, %lane, %lane;`, every},
	{"temperatures of no slot", `@%has_slot_\d ld.global.f32`, `ld.global.f32`, every},
	{"slots are not kept", `st.shared.b32 +\[%r\d+\+\d+\], %kept_slot;`, ``, 0},
	{"a row without a slot has another status", `@!%has_slot mov.b32 +%key_low_1, 4;`, `@!%has_slot mov.b32 %key_low_1, 2;`, 0},
}

// logProbUnderTest is a kernel that gives log-probabilities to rows with slots, of which some are none.
func logProbUnderTest(t testing.TB, a arch.Arch, tile, transforms string, vocab, hidden, batch, ctas int) *kernelUnderTest {
	comp := chain(t, transforms)
	comp.LogProb, comp.Slots = ir.RawLogProb, true
	k := &kernelUnderTest{name: a.Name + " " + tile + " log-probabilities", art: frozen(t, comp, tile, a), p: newProblem(comp, vocab, hidden, batch, 3), ctas: ctas}
	k.p.strange()
	k.p.slotted()
	k.answer(t)
	for row, slot := range map[int]int32{1: -1, batch / 2: int32(batch), batch - 1: math.MinInt32} {
		nan := float32(math.NaN())
		k.p.req.Slots[row] = slot
		k.want.Tokens[row], k.want.Status[row], k.want.Scores[row], k.want.LogProbs[row] = ir.NoToken, ir.StatusBadParameter, nan, nan
	}
	return k
}

// wrongLogProbs reports whether a log-probability is not the answer's.
func (k *kernelUnderTest) wrongLogProbs(b *bench) bool {
	if k.want.LogProbs == nil {
		return false
	}
	for row, got := range float32s(b.logProbs) {
		want := float64(k.want.LogProbs[row])
		if want != got && !(math.Abs(got-want) <= 1e-5*(1+math.Abs(want))) && !(math.IsNaN(want) && math.IsNaN(got)) {
			return true
		}
	}
	return false
}
