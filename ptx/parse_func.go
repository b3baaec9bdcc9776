package ptx

import (
	"maps"
	"slices"

	"github.com/fsgen/fsgen/internal/isa"
)

// scope is a block of a body: what its names mean, and the labels that are referred to before they are placed.
type scope struct {
	outer  *scope
	regs   map[string]*Reg
	vars   map[string]*Var
	labels map[string]*labelUse
	tables map[string]*Table
	depth  int
}

// labelUse is a label, placed or only referred to so far.
type labelUse struct {
	label  *Label
	placed bool
	first  token
}

func newScope(outer *scope) *scope {
	s := &scope{outer: outer, regs: map[string]*Reg{}, vars: map[string]*Var{}, labels: map[string]*labelUse{},
		tables: map[string]*Table{}}
	if outer != nil {
		s.depth = outer.depth + 1
	}
	return s
}

// lookup finds a name in one of a scope's maps, from the innermost block outwards.
func lookup[T any](s *scope, of func(*scope) map[string]T, name string) (x T, ok bool) {
	for ; s != nil; s = s.outer {
		if x, ok = of(s)[name]; ok {
			return x, true
		}
	}
	return x, false
}

func (p *parser) reg(name string) (*Reg, bool) {
	return lookup(p.scope, func(s *scope) map[string]*Reg { return s.regs }, name)
}

func (p *parser) varNamed(name string) (*Var, bool) {
	return lookup(p.scope, func(s *scope) map[string]*Var { return s.vars }, name)
}

func (p *parser) tableNamed(name string) (*Table, bool) {
	return lookup(p.scope, func(s *scope) map[string]*Table { return s.tables }, name)
}

// label returns the label that a reference in the innermost block means. It may be placed later; if the block ends without it,
// the block around it is asked.
func (p *parser) label(t token) *Label {
	u := p.scope.labels[t.text]
	if u == nil {
		u = &labelUse{label: &Label{Name: t.text}, first: t}
		p.scope.labels[t.text] = u
	}
	return u.label
}

// place puts a label in the innermost block.
func (p *parser) place(t token) {
	u := p.scope.labels[t.text]
	if u != nil && u.placed {
		p.failAt(t, "label %s is placed twice", t.text)
	}
	if u == nil {
		u = &labelUse{label: &Label{}, first: t}
		p.scope.labels[t.text] = u
	}
	u.placed = true
	u.label.Name = p.unique(t)
	p.f.Body = append(p.f.Body, u.label)
}

// unique declares a name in the function. In a block it is renamed if the function has it already.
func (p *parser) unique(t token) string {
	if p.scope.depth > 0 && validName(t.text) && !p.f.names.free(t.text) {
		return p.f.names.fresh(t.text)
	}
	p.declare(&p.f.names, t.text, t.where())
	return t.text
}

func (p *parser) open() {
	if p.scope.depth+1 >= maxScopes {
		p.fail("blocks are nested deeper than %d", maxScopes)
	}
	p.scope = newScope(p.scope)
}

// close ends a block. Labels that it refers to but does not place are the outer block's.
func (p *parser) close() {
	s := p.scope
	p.scope = s.outer
	for _, name := range slices.Sorted(maps.Keys(s.labels)) {
		u := s.labels[name]
		if u.placed {
			continue
		}
		if p.scope == p.top {
			p.failAt(u.first, "label %s is never placed", name)
		}
		outer := p.scope.labels[name]
		if outer == nil {
			p.scope.labels[name] = u
			continue
		}
		p.alias[u.label] = outer.label
	}
}

// settleLabels replaces the labels that blocks refer to by those that are placed.
func (p *parser) settleLabels() {
	settle := func(l *Label) *Label {
		for p.alias[l] != nil {
			l = p.alias[l]
		}
		return l
	}
	for _, s := range p.f.Body {
		switch s := s.(type) {
		case *Instr:
			for i, x := range s.Args {
				if l, ok := x.(*Label); ok {
					s.Args[i] = settle(l)
				}
			}
		case *Table:
			for i, l := range s.Targets {
				s.Targets[i] = settle(l)
			}
		}
	}
}

// function reads a kernel or function.
func (p *parser) function(visible bool) {
	f := &Func{Kernel: p.is(".entry"), Visible: visible, m: p.m, placed: map[*Label]bool{}}
	p.advance()
	if p.is("(") {
		p.fail("functions with results are not supported")
	}
	t := p.name("the function's name")
	f.Name, f.pos = t.text, t.where()
	p.declare(&p.m.names, f.Name, f.pos)
	p.m.Items = append(p.m.Items, f)
	p.funcs[f.Name] = f
	p.f, p.scope, p.alias = f, newScope(p.top), map[*Label]*Label{}
	f.names.outer = &p.m.names
	if p.accept("(") {
		p.params()
	}
	p.directives()
	p.comments()
	p.expect("{")
	p.body()
	p.settleLabels()
	p.f, p.scope = nil, nil
}

func (p *parser) params() {
	for !p.accept(")") {
		if len(p.f.Params) > 0 {
			p.expect(",")
		}
		if !p.f.Kernel || !p.is(".param") {
			p.fail("got %s, want a parameter of a kernel", p.got())
		}
		v := p.typedName()
		if v.Len == 0 {
			p.failAt(p.last, "the extent of parameter %s is missing", v.Name)
		}
		p.addVar(v)
		p.f.Params = append(p.f.Params, v)
	}
	p.f.layoutParams()
}

func (p *parser) addVar(v *Var) {
	p.declare(&p.f.names, v.Name, v.pos)
	p.scope.vars[v.Name] = v
}

// setters store the values of performance directives.
var setters = map[string]func(*Func, [3]int){
	".reqntid":           func(f *Func, v [3]int) { f.ReqThreads = v },
	".maxntid":           func(f *Func, v [3]int) { f.MaxThreads = v },
	".minnctapersm":      func(f *Func, v [3]int) { f.MinCTAs = v[0] },
	".maxnreg":           func(f *Func, v [3]int) { f.MaxRegs = v[0] },
	".explicitcluster":   func(f *Func, _ [3]int) { f.ExplicitCluster = true },
	".reqnctapercluster": func(f *Func, v [3]int) { f.ReqCluster = v },
	".maxclusterrank":    func(f *Func, v [3]int) { f.MaxClusterRank = v[0] },
}

func (p *parser) directives() {
	for p.tok.kind == tokWord {
		d := isa.DirectiveByText(p.tok.text)
		if d == nil {
			p.fail("got %s, want a directive of a kernel or {", p.got())
		}
		p.advance()
		v := [3]int{1, 1, 1}
		for i := range d.Values {
			if i > 0 && !p.accept(",") {
				break
			}
			v[i] = p.number("a value of "+d.Text, 1, 1<<30)
		}
		setters[d.Text](p.f, v)
	}
}

// body reads statements up to the brace that ends the function.
func (p *parser) body() {
	for {
		p.bodyComments()
		switch {
		case p.accept("{"):
			p.open()
		case p.accept("}"):
			p.close()
			if p.scope == p.top {
				return
			}
		case p.tok.kind == tokEOF:
			p.fail("got the end of the text, want the } of %s", p.f.Name)
		default:
			p.statement()
		}
	}
}

// bodyComments puts comments into the body; one on the last line of an instruction becomes its note.
func (p *parser) bodyComments() {
	for _, c := range p.comments() {
		if in := p.noted; in != nil && c.line == p.last.line && in.Note == "" {
			in.Note = c.text
			p.noted = nil
			continue
		}
		p.f.Body = append(p.f.Body, Comment(c.text))
	}
	p.noted = nil
}

func (p *parser) statement() {
	switch {
	case p.is(".reg"):
		p.registers()
	case p.is(".shared") || p.is(".local") || p.is(".global") || p.is(".const"):
		p.bodyVariable()
	case p.accept(".pragma"):
		if p.tok.kind != tokString || !validPragma(p.tok.text) {
			p.fail("got %s, want a string", p.got())
		}
		p.f.Body = append(p.f.Body, Pragma(p.tok.text))
		p.advance()
		p.expect(";")
	case p.is("@"):
		p.instruction()
	case p.tok.kind == tokWord:
		p.labelOrInstruction()
	default:
		p.fail("got %s, want a statement", p.got())
	}
}

func (p *parser) labelOrInstruction() {
	t := p.tok
	p.advance()
	if !p.is(":") {
		p.instructionAt(t, nil, false)
		return
	}
	if !validName(t.text) {
		p.failAt(t, "%q is no label", t.text)
	}
	p.advance()
	if p.accept(".branchtargets") {
		p.branchTargets(t)
		return
	}
	p.place(t)
}

func (p *parser) branchTargets(t token) {
	table := &Table{Name: p.unique(t)}
	for {
		table.Targets = append(table.Targets, p.label(p.name("a label")))
		if p.accept(";") {
			break
		}
		p.expect(",")
	}
	p.scope.tables[t.text] = table
	p.f.Body = append(p.f.Body, table)
}

func (p *parser) bodyVariable() {
	v := p.variable(false, false)
	t := token{text: v.Name, line: v.pos.line, col: v.pos.col}
	if _, ok := p.scope.vars[v.Name]; ok && p.scope.depth > 0 {
		p.failAt(t, "name %q is declared twice", v.Name)
	}
	v.Name = p.unique(t)
	p.scope.vars[t.text] = v
	p.f.Vars = append(p.f.Vars, v)
}

// registers reads a .reg directive: names and ranges name<n>.
func (p *parser) registers() {
	p.advance()
	class := p.regClass()
	for {
		t := p.name("a register's name")
		if p.accept("<") {
			n := p.number("a count", 0, maxRegs)
			p.expect(">")
			p.room(n)
			for i := range n {
				r := t
				r.text = t.text + Imm(i).text()
				p.addReg(r, class)
			}
		} else {
			p.room(1)
			p.addReg(t, class)
		}
		if p.accept(";") {
			return
		}
		p.expect(",")
	}
}

func (p *parser) regClass() isa.Class {
	if p.tok.kind == tokWord && p.tok.text[0] == '.' {
		t, ok := isa.ParseType(p.tok.text[1:])
		if ok && t.Bits() != 8 {
			p.advance()
			return isa.ClassOf(t)
		}
	}
	p.fail("got %s, want a register type such as .b32", p.got())
	return isa.NoClass
}

func (p *parser) room(n int) {
	p.regs += n
	if p.regs > maxRegs {
		p.fail("more than %d registers", maxRegs)
	}
}

func (p *parser) addReg(t token, class isa.Class) {
	if p.scope.regs[t.text] != nil {
		p.failAt(t, "register %s is declared twice", t.text)
	}
	r := &Reg{Name: p.unique(t), Class: class}
	p.scope.regs[t.text] = r
	p.f.Regs = append(p.f.Regs, r)
}
