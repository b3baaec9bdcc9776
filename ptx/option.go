package ptx

import "github.com/fsgen/fsgen/internal/isa"

// Option is an optional part of an instruction, given at the end of a constructor's call: a modifier ([Mod], such as FTZ or
// RelaxedGPU), or an optional operand ([CacheHint], [Multicast], [SuspendHint], [Count], [Fraction], [SrcSize]). The order of
// options does not matter; the printer puts them where PTX wants them. An option that the form lacks is an error.
type Option interface {
	apply(*optionSet)
}

// Mod is an optional modifier, as PTX spells it without the leading dot. The constants are generated from the table.
type Mod string

type optionSet struct {
	mods     []string
	operands []optOperand
}

// optOperand is an optional operand, found by its name in the table.
type optOperand struct {
	arg string
	x   Operand
}

func (m Mod) apply(s *optionSet) { s.mods = append(s.mods, string(m)) }

type operandOption struct {
	mod Mod // the modifier that comes with the operand, if any
	optOperand
}

func (o operandOption) apply(s *optionSet) {
	if o.mod != "" {
		s.mods = append(s.mods, string(o.mod))
	}
	s.operands = append(s.operands, o.optOperand)
}

func option(mod Mod, arg string, x argument) Option {
	o := operandOption{mod, optOperand{arg: arg}}
	if x != nil {
		o.x = x.operand()
	}
	return o
}

// CacheHint attaches an L2 cache policy (from a Createpolicy instruction): .L2::cache_hint and its operand.
func CacheHint(policy B64) Option { return option("L2::cache_hint", "cache-policy", policy) }

// Multicast writes a bulk copy to every CTA of the cluster whose bit is set: .multicast::cluster and its operand.
func Multicast(ctaMask Src16) Option { return option("multicast::cluster", "ctaMask", ctaMask) }

// SuspendHint is the time limit of MbarrierTryWait, in nanoseconds.
func SuspendHint(ns Src32) Option { return option("", "suspendTimeHint", ns) }

// Count is the number of arrivals of MbarrierArrive (else 1).
func Count(n Src32) Option { return option("", "count", n) }

// Threads is the number of threads that take part in BarSync and its kin (else all of the CTA).
func Threads(n Src32) Option { return option("", "b", n) }

// Fraction is the part of the accesses that CreatepolicyFractional gives its first priority (else 1).
func Fraction(x SrcF32) Option { return option("", "fraction", x) }

// SrcSize is the number of bytes that CpAsync reads; the rest of the destination is filled with zeros.
func SrcSize(n Src32) Option { return option("", "src-size", n) }

// DisableOutputLane masks rows of the result of Tcgen05Mma: 4 registers for one CTA, 8 for two.
func DisableOutputLane(mask []B32) Option { return option("", "disable-output-lane", vecOf(mask)) }

// sel adds the modifiers among the options to the choice that the constructor made, and reports the first that does not fit.
func (s *optionSet) sel(f isa.Form) (isa.Form, string) {
	for _, m := range s.mods {
		slot, alt := findOption(f, m)
		if slot < 0 {
			return f, m
		}
		f.Sel[slot] = uint8(alt + 1)
	}
	return f, ""
}

func findOption(f isa.Form, mod string) (slot, alt int) {
	for i, s := range f.Row.Slots {
		if s.Mode != isa.Option || f.Sel[i] != 0 {
			continue
		}
		for j, a := range s.Alts {
			if a.Text == mod {
				return i, j
			}
		}
	}
	return -1, 0
}
