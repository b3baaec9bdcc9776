package isa

import "github.com/fsgen/fsgen/arch"

// Directive is a performance directive of a kernel (PTX ISA, "Performance-Tuning Directives" and "Cluster Dimension
// Directives").
type Directive struct {
	Text   string
	Values int // integers that follow: at most so many
	Min    arch.Version
	Req    arch.Req
}

var directives = []Directive{
	{".reqntid", 3, v(2, 1), arch.Req{}},
	{".maxntid", 3, v(1, 3), arch.Req{}},
	{".minnctapersm", 1, v(2, 0), sm(20)},
	{".maxnreg", 1, v(1, 3), arch.Req{}},
	{".explicitcluster", 0, v(7, 8), sm(90)},
	{".reqnctapercluster", 3, v(7, 8), sm(90)},
	{".maxclusterrank", 1, v(7, 8), sm(90)},
}

// DirectiveByText finds a performance directive by its spelling, or returns nil.
func DirectiveByText(text string) *Directive {
	for i := range directives {
		if directives[i].Text == text {
			return &directives[i]
		}
	}
	return nil
}

// SmallParams is the size of a kernel's parameter buffer that every version allows, in bytes.
const SmallParams = 4352

// MaxParams is the largest parameter buffer, in bytes; see LargeParams.
const MaxParams = 32764

// LargeParams is what a parameter buffer above SmallParams asks.
var LargeParams = Directive{Text: ".param", Min: v(8, 1), Req: sm(70)}
