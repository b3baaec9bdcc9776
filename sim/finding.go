package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Kind classifies a finding.
type Kind string

// The kinds of findings.
const (
	Deadlock      Kind = "deadlock"       // threads that wait for what can never come
	Livelock      Kind = "livelock"       // threads that run without anything changing
	OutOfBounds   Kind = "out of bounds"  // an access outside every allocation
	Misaligned    Kind = "misaligned"     // an address that the instruction does not allow
	Uninitialised Kind = "uninitialised"  // a read of what nobody wrote
	Race          Kind = "race"           // an access that nothing orders after (or before) an asynchronous one
	MissingFence  Kind = "missing fence"  // generic and async proxy, or registers and tensor core, without a fence between; a tensor map in global memory that the CTA has not acquired
	BarrierMisuse Kind = "barrier misuse" // counts and transactions that cannot be right
	Divergence    Kind = "divergence"     // threads apart where .aligned demands that they are together
	Registers     Kind = "registers"      // more registers than setmaxnreg grants
	TensorMemory  Kind = "tensor memory"  // tensor memory used without or past its allocation, or never freed
	Unsupported   Kind = "unsupported"    // encodings that are reserved, or that the simulator does not model
	Trapped       Kind = "trap"           // the kernel gave up
)

// Finding is one fault that a run showed. The same fault at the same line is reported once, for the first that met it.
type Finding struct {
	Kind   Kind
	Kernel string
	// Line is that of the PTX text; 0 where no instruction is to blame.
	Line  int
	Instr string
	CTA   int
	Warp  int // -1 where no warp is to blame
	Lane  int // -1 where the whole warp is
	Text  string
	Count int // how often it was met
}

// String returns the finding in one line; the text of a deadlock has several.
func (f *Finding) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", f.Kernel, f.Kind)
	if f.Line > 0 {
		fmt.Fprintf(&b, " at line %d", f.Line)
	}
	fmt.Fprintf(&b, ", CTA %d", f.CTA)
	if f.Warp >= 0 {
		fmt.Fprintf(&b, " warp %d", f.Warp)
	}
	if f.Lane >= 0 {
		fmt.Fprintf(&b, " lane %d", f.Lane)
	}
	fmt.Fprintf(&b, ": %s", f.Text)
	if f.Instr != "" {
		fmt.Fprintf(&b, " [%s]", f.Instr)
	}
	return b.String()
}

type findingKey struct {
	kind Kind
	line int
}

// findings collects without repeating. One cluster owns it, so that it needs no lock.
type findings struct {
	list  []*Finding
	index map[findingKey]*Finding
}

// maxFindings bounds how many different findings are kept.
const maxFindings = 64

func (l *findings) add(f Finding) {
	key := findingKey{f.Kind, f.Line}
	if old := l.index[key]; old != nil {
		old.Count++
		return
	}
	if len(l.list) >= maxFindings {
		return
	}
	if l.index == nil {
		l.index = map[findingKey]*Finding{}
	}
	f.Count = 1
	l.index[key] = &f
	l.list = append(l.list, &f)
}

// merge joins the findings of all clusters: each once, in the order of the text.
func merge(all []*findings) []*Finding {
	var out findings
	for _, l := range all {
		for _, f := range l.list {
			n := f.Count
			out.add(*f)
			if kept := out.index[findingKey{f.Kind, f.Line}]; kept != nil {
				kept.Count += n - 1
			}
		}
	}
	slices.SortStableFunc(out.list, func(a, b *Finding) int { return cmp.Compare(a.Line, b.Line) })
	return out.list
}
