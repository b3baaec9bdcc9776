package isa

import (
	"strings"

	"github.com/fsgen/fsgen/arch"
)

// This file holds the small vocabulary that the table is written in.

// alts is a list of alternatives under construction.
type alts []Alt

// a lists alternatives by their text.
func a(texts ...string) alts {
	out := make(alts, len(texts))
	for i, t := range texts {
		out[i] = Alt{Text: t, GoID: goName(t)}
	}
	return out
}

func (l alts) since(major, minor int) alts {
	return l.each(func(x *Alt) { x.Min = x.Min.Max(arch.V(major, minor)) })
}

// sm raises what is asked of the target; a list that asks for special targets keeps them.
func (l alts) sm(n int) alts { return l.each(func(x *Alt) { x.Req.MinSM = max(x.Req.MinSM, n) }) }

func (l alts) req(r arch.Req) alts    { return l.each(func(x *Alt) { x.Req = r }) }
func (l alts) hide() alts             { return l.each(func(x *Alt) { x.Hidden = true }) }
func (l alts) in(s Space) alts        { return l.each(func(x *Alt) { x.Space = s }) }
func (l alts) n(n int) alts           { return l.each(func(x *Alt) { x.N = n }) }
func (l alts) eff(e Effect) alts      { return l.each(func(x *Alt) { x.Eff |= e }) }
func (l alts) named(goID string) alts { return l.each(func(x *Alt) { x.GoID = goID }) }
func (l alts) and(more ...alts) alts {
	out := append(alts(nil), l...)
	for _, m := range more {
		out = append(out, m...)
	}
	return out
}

func (l alts) each(f func(*Alt)) alts {
	out := append(alts(nil), l...)
	for i := range out {
		f(&out[i])
	}
	return out
}

// cross joins every alternative of l with every one of m: "relaxed" and "gpu" give "relaxed.gpu".
func (l alts) cross(m alts) alts {
	var out alts
	for _, x := range l {
		for _, y := range m {
			z := Alt{Text: x.Text + "." + y.Text, GoID: x.GoID + y.GoID, Min: x.Min.Max(y.Min), Req: x.Req, Eff: x.Eff | y.Eff}
			z.Hidden = x.Hidden || y.Hidden
			z.Req.MinSM = max(z.Req.MinSM, y.Req.MinSM)
			out = append(out, z)
		}
	}
	return out
}

// ty lists types for a type slot.
func ty(types ...Type) alts {
	out := make(alts, len(types))
	for i, t := range types {
		out[i] = Alt{Text: t.String(), GoID: t.GoID(), Type: t}
	}
	return out
}

func named(l ...alts) Slot { return Slot{Mode: Named, Alts: alts{}.and(l...)} }
func opt(l ...alts) Slot   { return Slot{Mode: Option, Alts: alts{}.and(l...)} }
func enum(goType string, l ...alts) Slot {
	return Slot{Mode: Enum, Enum: goType, Alts: alts{}.and(l...)}
}

// counted is an enumeration of numbers: the parameter has the given name and passes Alt.N.
func counted(param string, l ...alts) Slot {
	return Slot{Mode: Enum, Enum: "int", Param: param, Alts: alts{}.and(l...)}
}
func counts(l ...alts) Slot  { return Slot{Mode: Counts, Alts: alts{}.and(l...)} }
func types(t ...Type) Slot   { return named(ty(t...)) }
func fixed(text string) Slot { return named(a(text).named("")) }

// s collects slots, o operands.
func s(slots ...Slot) []Slot { return slots }
func o(args ...Arg) []Arg    { return args }

func dst(name string, t Ref) Arg    { return Arg{Name: name, Role: Dst, Type: t} }
func src(name string, t Ref) Arg    { return Arg{Name: name, Role: Src, Type: t} }
func dstSrc(name string, t Ref) Arg { return Arg{Name: name, Role: DstSrc, Type: t} }
func sink(name string) Arg          { return Arg{Name: name, Role: Sink} }
func label(name string) Arg         { return Arg{Name: name, Role: LabelRef} }
func addr(name string, sp Space) Arg {
	return Arg{Name: name, Role: Address, Space: sp}
}

// imm is an operand that must be an integer constant in [lo, hi].
func imm(name string, lo, hi int64) Arg {
	return Arg{Name: name, Role: Immediate, Type: Ref(U32), Lo: lo, Hi: hi}
}

// one is an operand that must be one of a few integer constants.
func one(name string, set ...int64) Arg {
	return Arg{Name: name, Role: Immediate, Type: Ref(U32), Lo: set[0], Hi: set[len(set)-1], Set: set}
}

func (x Arg) noImm() Arg          { x.NoImm = true; return x }
func (x Arg) special() Arg        { x.Special = true; return x }
func (x Arg) negatable() Arg      { x.Not = true; return x }
func (x Arg) wider() Arg          { x.Wider = true; return x }
func (x Arg) bar() Arg            { x.Bar = true; return x }
func (x Arg) flat() Arg           { x.Flat = true; return x }
func (x Arg) optional() Arg       { x.Opt = true; return x }
func (x Arg) when(mod string) Arg { x.If = mod; return x }
func (x Arg) mult(n int64) Arg    { x.Mult = n; return x }
func (x Arg) since(n int, min arch.Version) Arg {
	x.Req, x.Min = arch.Req{MinSM: n}, min
	return x
}
func (x Arg) among(set ...int64) Arg { x.Set = set; return x }
func (x Arg) vec(n int) Arg          { x.Len = n; return x }

// vecOf makes a vector of mul*N/div registers, N from the alternative chosen in a slot.
func (x Arg) vecOf(slot, mul, div int) Arg {
	x.Len, x.LenSlot, x.LenDiv = mul, slot+1, div
	return x
}

func b(t Type) Ref { return Ref(t) }

func v(major, minor int) arch.Version { return arch.V(major, minor) }
func sm(n int) arch.Req               { return arch.Req{MinSM: n} }

var (
	only90a = arch.Req{Special: []int{90}}
	fam100  = arch.Req{Special: []int{100}, Family: true}
	any90a  = arch.Req{Special: []int{90, 100, 120}, Family: true} // setmaxnreg
)

// section names the manual's section for rows that have none.
func section(title string, rows ...Row) []Row {
	for i := range rows {
		if rows[i].Sec == "" {
			rows[i].Sec = title + ": " + rows[i].Op
		}
	}
	return rows
}

// goWords gives the spelling of tokens that a plain capital does not suit.
var goWords = map[string]string{
	"cta": "CTA", "gpu": "GPU", "sys": "Sys", "ftz": "FTZ", "NaN": "NaN", "ca": "CA", "cg": "CG", "cs": "CS", "cv": "CV",
	"lu": "LU", "wb": "WB", "wt": "WT", "L1": "L1", "L2": "L2", "satfinite": "SatFinite", "acq": "Acq", "rel": "Rel",
	"noinc": "NoInc", "noComplete": "NoComplete", "bf16": "BF16", "f16": "F16", "f32": "F32", "64B": "64B",
}

// goName turns a modifier into part of a Go identifier: "L2::cache_hint" into "L2CacheHint".
func goName(text string) string {
	var out strings.Builder
	for _, w := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(".:_", r) }) {
		if g, ok := goWords[w]; ok {
			out.WriteString(g)
			continue
		}
		out.WriteString(strings.ToUpper(w[:1]) + w[1:])
	}
	return out.String()
}
