package sim

import "math/bits"

// eachBarrier calls f for the mbarrier at each active lane's address.
func (s *step) eachBarrier(x address, f func(lane int, b *mbarrier)) {
	for m := s.m; m != 0; m &= m - 1 {
		l := bits.TrailingZeros32(m)
		if b := s.barrierAt(l, x.of(s.w, l)); b != nil {
			f(l, b)
		}
	}
}

func buildMbarrierInit(a *asm) exec {
	x, n := a.addr(0), a.src(1)
	return func(s *step) {
		for m := s.m; m != 0; m &= m - 1 {
			l := bits.TrailingZeros32(m)
			s.initBarrier(l, x.of(s.w, l), int(s.w.r[n][l]))
		}
	}
}

func buildMbarrierInval(a *asm) exec {
	x := a.addr(0)
	return func(s *step) {
		s.eachBarrier(x, func(_ int, b *mbarrier) { delete(b.cta.smem.bars, b.at) })
	}
}

// buildTx is expect_tx (sign 1) and complete_tx (sign -1).
func buildTx(sign int) builder {
	return func(a *asm) exec {
		x, n := a.addr(0), a.src(1)
		return func(s *step) {
			s.eachBarrier(x, func(l int, b *mbarrier) {
				s.expect(l, b, sign*int(s.w.r[n][l]))
				if sign < 0 {
					b.turn()
				}
			})
		}
	}
}

// state tokens hold the phase and the arrivals that it lacked.
const stateShift = 20

func (b *mbarrier) token() uint64 { return b.phase<<stateShift | uint64(b.pending) }

// arrival makes the arrive instructions: drop takes the arrivals off later phases too, tx expects bytes first.
func arrival(drop, tx bool) builder {
	return func(a *asm) exec {
		d, x, n := a.dst(0), a.addr(1), slot(-1)
		if a.has(2) {
			n = a.src(2)
		}
		return func(s *step) {
			s.eachBarrier(x, func(l int, b *mbarrier) {
				if d >= 0 {
					s.w.r[d][l] = b.token()
				}
				count := 1
				switch {
				case tx:
					s.expect(l, b, int(s.w.r[n][l]))
				case n >= 0:
					count = int(s.w.r[n][l])
				}
				if drop {
					b.expected -= count
				}
				s.arrive(l, b, count)
			})
		}
	}
}

// buildWait makes test_wait and try_wait; only the latter lets the thread sleep. It may give up without the phase having
// completed, now and then.
func buildWait(parity, sleeps bool) builder {
	return func(a *asm) exec {
		d, x, p := a.dst(0), a.addr(1), a.src(2)
		if a.has(3) {
			a.src(3)
		}
		return func(s *step) {
			w := &phaseWait{parity: parity}
			s.eachBarrier(x, func(l int, b *mbarrier) {
				w.bars[l], w.phases[l] = b, s.w.r[p][l]
				if !parity {
					w.phases[l] >>= stateShift
				}
			})
			rng := s.w.cta.cluster.rng
			if sleeps && !s.g.expired && !w.ready(s.w, s.g) && rng.IntN(16) != 0 && s.m == s.g.mask {
				s.g.pc--
				s.g.wait = w
				return
			}
			s.g.expired = false
			for m := s.m; m != 0; m &= m - 1 {
				l := bits.TrailingZeros32(m)
				s.w.r[d][l] = b2u(w.done(l))
				if b := w.bars[l]; b != nil && w.done(l) {
					s.w.hear(b.done)
				}
			}
		}
	}
}

func buildPendingCount(a *asm) exec {
	return a.unary(func(x uint64) uint64 { return x & mask(stateShift) })
}

var mbarrierSemantics = map[string]builder{
	"MbarrierInit": buildMbarrierInit, "MbarrierInval": buildMbarrierInval,
	"MbarrierExpectTx": buildTx(1), "MbarrierCompleteTx": buildTx(-1),
	"MbarrierArrive": arrival(false, false), "MbarrierArriveState": arrival(false, false), "MbarrierArriveNoComplete": arrival(false, false),
	"MbarrierArriveExpectTx": arrival(false, true), "MbarrierArriveExpectTxState": arrival(false, true),
	"MbarrierArriveDrop": arrival(true, false), "MbarrierArriveDropState": arrival(true, false),
	"MbarrierArriveDropNoComplete": arrival(true, false), "MbarrierArriveDropExpectTx": arrival(true, true),
	"MbarrierArriveDropExpectTxState": arrival(true, true),
	"MbarrierTestWait":                buildWait(false, false), "MbarrierTestWaitParity": buildWait(true, false),
	"MbarrierTryWait": buildWait(false, true), "MbarrierTryWaitParity": buildWait(true, true),
	"MbarrierPendingCount": buildPendingCount,
}
