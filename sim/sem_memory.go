package sim

import (
	"math/bits"

	"github.com/fsgen/fsgen/internal/isa"
)

// spaceOf is the state space of address operand i.
func (a *asm) spaceOf(i int) isa.Space { return a.form.Space(&a.form.Row.Args[i]) }

// buildLd loads a scalar or vector; narrow values are extended to the register (PTX ISA, "ld").
func buildLd(a *asm) exec {
	space, x, d := a.spaceOf(1), a.addr(1), a.dsts(0)
	a.hint()
	t := widthOf(a.typ(0))
	reg := width{a.dstBits(0), t.signed}
	n := t.bits / 8
	return func(s *step) {
		for m := s.m; m != 0; m &= m - 1 {
			l := bits.TrailingZeros32(m)
			data := s.read(space, l, x.of(s.w, l), n*len(d), n*len(d))
			for i, r := range d {
				if r < 0 {
					continue
				}
				v := uint64(0)
				if data != nil {
					v = load(data[i*n:], n)
				}
				s.w.r[r][l] = reg.cut(t.ext(v))
			}
		}
	}
}

// hint reads the cache policy, so that its register counts as read.
func (a *asm) hint() {
	if i := a.index("cache-policy"); i >= 0 {
		a.src(i)
	}
}

func buildSt(a *asm) exec {
	space, x, v := a.spaceOf(0), a.addr(0), a.srcs(1)
	a.hint()
	n, release := a.typ(1).Bits()/8, releasesToSystem(a.form)
	do := func(s *step) {
		if release {
			s.w.cta.cluster.grid.link.settle()
		}
		for m := s.m; m != 0; m &= m - 1 {
			l := bits.TrailingZeros32(m)
			if far := s.far(space, l, x.of(s.w, l), n*len(v), n*len(v)); far != nil {
				for i, r := range v {
					store(far[i*n:], n, s.w.r[r][l])
				}
				continue
			}
			data := s.write(space, l, x.of(s.w, l), n*len(v), n*len(v))
			if data == nil {
				continue
			}
			for i, r := range v {
				store(data[i*n:], n, s.w.r[r][l])
			}
		}
	}
	return func(s *step) {
		if s.touchesGlobal(space, x) {
			s.later(do)
			return
		}
		s.w.cta.cluster.progress++
		do(s)
	}
}

// buildPrefetch checks nothing: a prefetch of a bad address does no harm.
func buildPrefetch(a *asm) exec {
	a.addr(0)
	return func(*step) {}
}

// buildPrefetchMap checks that there is a tensor map.
func buildPrefetchMap(a *asm) exec {
	x, window := a.addr(0), uint64(0)
	if a.spaceOf(0) == isa.Param {
		window = paramWindow
	}
	return func(s *step) {
		for m := s.m; m != 0; m &= m - 1 {
			l := bits.TrailingZeros32(m)
			s.tensorMap(l, x.of(s.w, l)+window)
		}
	}
}

// buildPolicy makes a cache policy; its value means nothing here.
func buildPolicy(a *asm) exec {
	d := a.dst(0)
	c := a.c.constant(0x6c6f_7063)
	if a.has(1) {
		a.src(1)
	}
	return func(s *step) { copyLanes(s, d, c) }
}

// buildMapa gives the address of the same place in another CTA of the cluster.
func buildMapa(generic bool) builder {
	return func(a *asm) exec {
		d, x, y := a.dst(0), a.src(1), a.src(2)
		window := uint64(0)
		if generic {
			window = sharedWindow
		}
		return func(s *step) {
			r := s.w.r
			for m := s.m; m != 0; m &= m - 1 {
				l := bits.TrailingZeros32(m)
				// A rank past the cluster gives an address that no access may use.
				r[d][l] = window | r[x][l]&placeMask | (min(r[y][l], 0xfe)+1)<<rankShift
			}
		}
	}
}

func buildGetctarank(a *asm) exec {
	d, x := a.dst(0), a.src(1)
	return func(s *step) {
		for m := s.m; m != 0; m &= m - 1 {
			l := bits.TrailingZeros32(m)
			rank := s.w.r[x][l] >> rankShift & 0xff
			if rank == 0 {
				rank = uint64(s.w.cta.rank) + 1
			}
			s.w.r[d][l] = rank - 1
		}
	}
}

var memorySemantics = map[string]builder{
	"Ld": buildLd, "LdGlobalNc": buildLd, "St": buildSt,
	"Prefetch": buildPrefetch, "PrefetchGlobal": buildPrefetch, "PrefetchuL1": buildPrefetch,
	"PrefetchTensormap": buildPrefetchMap, "PrefetchParamTensormap": buildPrefetchMap, "DiscardGlobalL2": buildPrefetch,
	"CreatepolicyFractionalL2EvictLast": buildPolicy, "CreatepolicyFractionalL2EvictNormal": buildPolicy,
	"CreatepolicyFractionalL2EvictFirst": buildPolicy, "CreatepolicyFractionalL2EvictUnchanged": buildPolicy,
	"Mapa": buildMapa(false), "MapaGeneric": buildMapa(true),
	"Getctarank": buildGetctarank, "GetctarankGeneric": buildGetctarank,
}
