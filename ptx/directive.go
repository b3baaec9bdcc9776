package ptx

import "github.com/fsgen/fsgen/internal/isa"

// directive is a performance directive that a function carries.
type directive struct {
	row    *isa.Directive
	values []int
}

// directives lists the performance directives of the function, in the order of printing.
func (f *Func) directives() []directive {
	var out []directive
	add := func(text string, on bool, values ...int) {
		if on {
			out = append(out, directive{isa.DirectiveByText(text), values})
		}
	}
	one := func(text string, v int) { add(text, v != 0, v) }
	three := func(text string, v [3]int) { add(text, v != [3]int{}, v[0], v[1], v[2]) }
	three(".reqntid", f.ReqThreads)
	three(".maxntid", f.MaxThreads)
	one(".minnctapersm", f.MinCTAs)
	one(".maxnreg", f.MaxRegs)
	add(".explicitcluster", f.ExplicitCluster)
	three(".reqnctapercluster", f.ReqCluster)
	one(".maxclusterrank", f.MaxClusterRank)
	return out
}
