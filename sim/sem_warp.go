package sim

import (
	"math/bits"

	"github.com/fsgen/fsgen/internal/isa"
)

// member makes an instruction wait for the lanes that its membermask names (PTX ISA, "shfl.sync": the executing thread
// waits until all of them have executed it with the same mask).
func (a *asm) member() {
	i := a.index("membermask")
	a.o.mask, a.o.sync = a.src(i), syncMask
}

// checkMember reports lanes that are not in their own mask, masks that differ, and lanes that have exited.
func (s *step) checkMember() {
	r := &s.w.r[s.op.mask]
	first := bits.TrailingZeros32(s.g.mask)
	for m := s.g.mask; m != 0; m &= m - 1 {
		l := bits.TrailingZeros32(m)
		switch {
		case r[l]>>l&1 == 0:
			s.find(Divergence, l, "the lane executes a .sync instruction whose membermask %08x does not name it", r[l])
		case r[l] != r[first]:
			s.find(Divergence, l, "membermask %08x, lane %d has %08x", r[l], first, r[first])
		}
	}
	if gone := uint32(r[first]) &^ s.w.live; gone != 0 {
		s.find(Divergence, bits.TrailingZeros32(gone), "membermask %08x names lanes %08x that have exited or never were", r[first], gone)
	}
}

// shuffles compute the source lane from lane, operand and clamp (PTX ISA, "shfl.sync").
var shuffles = map[string]func(lane, b, maxLane, minLane int) (from int, ok bool){
	"up":   func(l, b, _, lo int) (int, bool) { return l - b, l-b >= lo },
	"down": func(l, b, hi, _ int) (int, bool) { return l + b, l+b <= hi },
	"bfly": func(l, b, hi, _ int) (int, bool) { return l ^ b, l^b <= hi },
	"idx":  func(_, b, hi, lo int) (int, bool) { return lo | b, lo|b <= hi },
}

func buildShfl(pred bool) builder {
	return func(a *asm) exec {
		d, p, next := a.dst(0), slot(-1), 1
		if pred {
			p, next = a.dst(1), 2
		}
		x, b, c := a.src(next), a.src(next+1), a.src(next+2)
		a.member()
		mode := a.form.Alt(0).Text
		source := shuffles[mode]
		return func(s *step) {
			s.checkMember()
			r := s.w.r
			old := r[x]
			for m := s.m; m != 0; m &= m - 1 {
				l := bits.TrailingZeros32(m)
				clamp, seg := int(r[c][l]&0x1f), int(r[c][l]>>8&0x1f)
				hi, lo := l&seg|clamp&^seg, l&seg
				if mode == "up" {
					lo = max(l&seg, l&seg|clamp&^seg)
				}
				n := int(r[b][l] & 0x1f)
				if mode == "idx" {
					n &^= seg
				}
				from, ok := source(l, n, hi, lo)
				if !ok {
					from = l
				}
				if s.g.mask>>from&1 == 0 {
					s.find(Divergence, l, "takes a value from lane %d, which does not take part", from)
				}
				r[d][l] = old[from]
				if p >= 0 {
					r[p][l] = b2u(ok)
				}
			}
		}
	}
}

// ballot gathers a predicate of the lanes that take part.
func ballot(s *step, p slot, flip uint64) uint32 {
	out := uint32(0)
	for m := s.m; m != 0; m &= m - 1 {
		l := bits.TrailingZeros32(m)
		out |= uint32((s.w.r[p][l]^flip)&1) << l
	}
	return out
}

func (s *step) all(d slot, v uint64) {
	if d < 0 {
		return
	}
	for m := s.m; m != 0; m &= m - 1 {
		s.w.r[d][bits.TrailingZeros32(m)] = v
	}
}

var votes = map[string]func(got, m uint32) bool{
	"all": func(got, m uint32) bool { return got == m },
	"any": func(got, _ uint32) bool { return got != 0 },
	"uni": func(got, m uint32) bool { return got == 0 || got == m },
}

func buildVote(a *asm) exec {
	d := a.dst(0)
	p, flip := a.pred(1)
	a.member()
	f := votes[a.form.Alt(0).Text]
	return func(s *step) {
		s.checkMember()
		s.all(d, b2u(f(ballot(s, p, flip), s.m)))
	}
}

func buildBallot(a *asm) exec {
	d := a.dst(0)
	p, flip := a.pred(1)
	a.member()
	return func(s *step) {
		s.checkMember()
		s.all(d, uint64(ballot(s, p, flip)))
	}
}

func buildMatch(all bool) builder {
	return func(a *asm) exec {
		d, p, i := a.dst(0), slot(-1), 1
		if all {
			p, i = a.dst(1), 2
		}
		x := a.src(i)
		a.member()
		return func(s *step) {
			s.checkMember()
			old := s.w.r[x]
			for m := s.m; m != 0; m &= m - 1 {
				l := bits.TrailingZeros32(m)
				same := uint32(0)
				for k := s.m; k != 0; k &= k - 1 {
					j := bits.TrailingZeros32(k)
					same |= uint32(b2u(old[j] == old[l])) << j
				}
				if all && same != s.m {
					same = 0
				}
				s.w.r[d][l] = uint64(same)
				if p >= 0 {
					s.w.r[p][l] = b2u(same != 0)
				}
			}
		}
	}
}

// buildElect chooses the lowest lane of the mask: any is allowed.
func buildElect(a *asm) exec {
	d, p := a.dst(0), a.dst(1)
	a.member()
	return func(s *step) {
		s.checkMember()
		leader := bits.TrailingZeros32(s.m)
		s.all(d, uint64(leader))
		s.all(p, 0)
		s.w.r[p][leader] = 1
	}
}

func buildRedux(a *asm) exec {
	d, x := a.dst(0), a.src(1)
	a.member()
	typ := a.typ(0)
	join := a.reduction(typ)
	return func(s *step) {
		s.checkMember()
		v, first := uint64(0), true
		for m := s.m; m != 0; m &= m - 1 {
			y := s.w.r[x][bits.TrailingZeros32(m)]
			if first {
				v, first = join(y, y), false
				if a.form.Has("add") || a.form.Has("xor") {
					v = y
				}
				continue
			}
			v = join(v, y)
		}
		s.all(d, v)
	}
}

func (a *asm) reduction(typ isa.Type) fn2 {
	if typ == isa.F32 {
		abs, nan, low := a.form.Has("abs"), a.form.Has("NaN"), a.form.Has("min")
		return func(x, y uint64) uint64 {
			if abs {
				x, y = x&0x7fffffff, y&0x7fffffff
			}
			return bits32(float32(extreme(float64(f32(x)), float64(f32(y)), low, nan)))
		}
	}
	t, f := widthOf(typ), a.updateOf(typ)
	return func(x, y uint64) uint64 { return t.cut(f(t, x, y, 0)) }
}

func buildActivemask(a *asm) exec {
	d := a.dst(0)
	return func(s *step) { s.all(d, uint64(s.m)) }
}

var warpSemantics = map[string]builder{
	"ShflSync": buildShfl(false), "ShflSyncPred": buildShfl(true), "VoteSync": buildVote, "VoteSyncBallot": buildBallot,
	"MatchAnySync": buildMatch(false), "MatchAllSync": buildMatch(true), "Activemask": buildActivemask,
	"ElectSync": buildElect, "ElectSyncLeader": buildElect, "ReduxSync": buildRedux,
}
