package ptx

import (
	"fmt"
	"math"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/internal/isa"
)

// Limits that keep hostile text from costing more than its length.
const (
	maxRegs   = 1 << 16 // registers of a module
	maxScopes = 32      // nesting of { } in a body
	maxVector = 1 << 9  // operands between braces
)

// Parse reads PTX text: everything that the printer writes, and what else the table's forms and the directives of this package
// allow, in any legal spacing. Blocks in a body are flattened: their registers and labels are renamed where names clash.
// Comments after // are kept where they precede a statement or end its line; others, and those between /* and */, are
// dropped. The first mistake ends parsing with an *Error that names line and column.
func Parse(text string) (m *Module, err error) {
	p := &parser{lex: lexer{src: text, line: 1}, m: &Module{}, top: newScope(nil), funcs: map[string]*Func{}, forms: map[string][]isa.Form{}}
	p.top.depth = -1 // a function's own block has depth 0
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *Error:
			m, err = nil, r
		default:
			panic(r)
		}
	}()
	p.advance()
	p.module()
	return p.m, nil
}

// parser reads one module. Its methods leave by panic(*Error) on the first mistake; Parse recovers it.
type parser struct {
	lex   lexer
	tok   token
	last  token // the token before tok
	m     *Module
	f     *Func
	top   *scope // the variables of the module
	scope *scope // the innermost block
	funcs map[string]*Func
	regs  int
	noted *Instr // the instruction that a comment on its last line belongs to
	calls []call
	alias map[*Label]*Label     // labels that a block refers to, by those of the block around it
	forms map[string][]isa.Form // of mnemonics met so far
	nodes []node                // the last instruction's operands, for the next to write over
}

// call is a call whose function may be declared later.
type call struct {
	name string
	pos  where
}

func (p *parser) advance() {
	p.last = p.tok
	p.tok = p.lex.next()
	if p.tok.kind == tokBad {
		p.fail("unexpected %q", p.tok.text)
	}
}

func (t token) where() where { return where{line: t.line, col: t.col} }

func (p *parser) fail(format string, args ...any) { p.failAt(p.tok, format, args...) }

func (p *parser) failAt(t token, format string, args ...any) {
	e := &Error{Fault: BadSyntax, Pos: t.where().String(), Reason: fmt.Sprintf(format, args...)}
	if p.f != nil {
		e.Func = p.f.Name
	}
	panic(e)
}

// got names the current token for a message.
func (p *parser) got() string {
	switch p.tok.kind {
	case tokEOF:
		return "the end of the text"
	case tokString:
		return "a string"
	}
	return fmt.Sprintf("%q", p.tok.text)
}

func (p *parser) is(text string) bool {
	return p.tok.text == text && (p.tok.kind == tokPunct || p.tok.kind == tokWord)
}

// accept skips the token if it is there.
func (p *parser) accept(text string) bool {
	if p.is(text) {
		p.advance()
		return true
	}
	return false
}

func (p *parser) expect(text string) {
	if !p.accept(text) {
		p.fail("got %s, want %q", p.got(), text)
	}
}

// name reads an identifier.
func (p *parser) name(what string) token {
	t := p.tok
	if t.kind != tokWord || !validName(t.text) {
		p.fail("got %s, want %s", p.got(), what)
	}
	p.advance()
	return t
}

// number reads an unsigned integer that fits an int.
func (p *parser) number(what string, lo, hi int) int {
	t := p.tok
	lit, ok := parseNumber(t.text)
	if t.kind != tokNumber || !ok || lit.float != notFloat || lit.bits < uint64(lo) || lit.bits > uint64(hi) {
		p.fail("got %s, want %s, %d to %d", p.got(), what, lo, hi)
	}
	p.advance()
	return int(lit.bits)
}

// comments hands over the comments gathered so far.
func (p *parser) comments() []comment {
	c := p.lex.comments
	p.lex.comments = nil
	return c
}

func (p *parser) module() {
	p.moduleComments()
	p.expect(".version")
	p.m.Pinned = p.version()
	p.expect(".target")
	p.m.Target = p.target()
	if p.accept(".address_size") {
		if n := p.number("an address size", 32, 64); n != 64 {
			p.failAt(p.last, "only 64-bit addresses are supported")
		}
	}
	for p.tok.kind != tokEOF {
		p.moduleComments()
		p.item()
	}
	p.moduleComments()
	for _, c := range p.calls {
		if g := p.funcs[c.name]; g == nil || g.Kernel {
			panic(&Error{Fault: BadSyntax, Pos: c.pos.String(), Reason: fmt.Sprintf("%s is no function that can be called", c.name)})
		}
	}
	p.unpin()
}

// unpin drops a version that is the one the module would print anyway.
func (p *parser) unpin() {
	pinned := p.m.Pinned
	p.m.Pinned = arch.Version{}
	if p.m.Version() != pinned {
		p.m.Pinned = pinned
	}
}

func (p *parser) moduleComments() {
	for _, c := range p.comments() {
		p.m.Items = append(p.m.Items, Comment(c.text))
	}
}

// version reads MAJOR.MINOR, which the lexer takes for a float.
func (p *parser) version() arch.Version {
	v, err := arch.ParseVersion(p.tok.text)
	if p.tok.kind != tokNumber || err != nil || v.Major > 99 {
		p.fail("got %s, want a PTX version such as 8.0", p.got())
	}
	p.advance()
	return v
}

func (p *parser) target() arch.Target {
	t, err := arch.ParseTarget(p.tok.text)
	if p.tok.kind != tokWord || err != nil || t.String() != p.tok.text {
		p.fail("got %s, want a target such as sm_90a", p.got())
	}
	p.advance()
	return t
}

// item reads a variable, kernel or function.
func (p *parser) item() {
	extern, visible := false, false
	for {
		if p.accept(".visible") {
			visible = true
		} else if p.accept(".extern") {
			extern = true
		} else {
			break
		}
	}
	switch {
	case p.is(".entry") || p.is(".func"):
		if extern {
			p.fail("external functions are not supported")
		}
		p.function(visible)
	case p.is(".global") || p.is(".shared") || p.is(".const"):
		v := p.variable(extern, visible)
		p.declare(&p.m.names, v.Name, v.pos)
		p.m.Items = append(p.m.Items, v)
		p.top.vars[v.Name] = v
	default:
		p.fail("got %s, want a variable, .entry or .func", p.got())
	}
}

func (p *parser) declare(n *names, name string, pos where) {
	if reason := n.declare(name); reason != "" {
		panic(&Error{Fault: BadName, Pos: pos.String(), Reason: reason})
	}
}

var spaceByText = map[string]isa.Space{".global": isa.Global, ".shared": isa.Shared, ".const": isa.Const, ".local": isa.Local,
	".param": isa.Param}

// variable reads a declaration from its state space to its semicolon.
func (p *parser) variable(extern, visible bool) *Var {
	v := p.typedName()
	v.Extern, v.Vis = extern, visible
	if v.Len == 0 && !extern {
		p.failAt(p.last, "the extent of %s is missing: only .extern arrays are open", v.Name)
	}
	if p.accept("=") {
		p.initializer(v)
	}
	p.expect(";")
	return v
}

// typedName reads .space .align N .type name[N].
func (p *parser) typedName() *Var {
	v := &Var{Space: spaceByText[p.tok.text], Len: Scalar}
	p.advance()
	if p.accept(".align") {
		v.Align = p.number("an alignment", 1, 1<<20)
	}
	v.Type = p.memoryType()
	p.pointerHint()
	t := p.name("a name")
	v.Name, v.pos = t.text, t.where()
	if p.accept("[") {
		v.Len = 0
		if !p.is("]") {
			v.Len = p.number("an extent", 1, int(min(int64(1)<<40, math.MaxInt)))
		}
		p.expect("]")
	}
	return v
}

// pointerHint skips .ptr and what it says of a parameter: advice that the printer does not repeat.
func (p *parser) pointerHint() {
	if !p.accept(".ptr") {
		return
	}
	if _, ok := spaceByText[p.tok.text]; ok && p.tok.kind == tokWord {
		p.advance()
	}
	if p.accept(".align") {
		p.number("an alignment", 1, 1<<20)
	}
}

func (p *parser) memoryType() isa.Type {
	if p.tok.kind == tokWord && p.tok.text[0] == '.' {
		t, ok := isa.ParseType(p.tok.text[1:])
		if ok && t != isa.Pred && t.Kind() != isa.KindPacked {
			p.advance()
			return t
		}
	}
	p.fail("got %s, want a type such as .u32", p.got())
	return isa.None
}

func (p *parser) initializer(v *Var) {
	if v.Len == Scalar {
		v.Init = []Operand{p.constant(v.Type)}
		return
	}
	p.expect("{")
	for {
		v.Init = append(v.Init, p.constant(v.Type))
		if p.accept("}") {
			return
		}
		p.expect(",")
	}
}

// constant reads a number for a type.
func (p *parser) constant(t isa.Type) Operand {
	n := p.signedNumber()
	x := n.as(t)
	if x == nil {
		p.failAt(n.tok, "%q is no constant of type %s", n.tok.text, t)
	}
	return x
}
