package ptx

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/fsgen/fsgen/internal/isa"
)

// node is an operand as written, before the instruction's row says what it is.
type node struct {
	tok    token
	kind   nodeKind
	word   string
	num    signed
	off    int64
	list   []node // elements of a vector; of a tensor address, its coordinates
	tensor bool
	bar    bool // follows a |
}

type nodeKind uint8

const (
	nodeWord   nodeKind = iota // a name, with or without an offset
	nodeNumber                 // a constant
	nodeMem                    // [name+offset], with coordinates if it is a tensor address
	nodeVec                    // {a, b}
	nodeNot                    // !p
)

func (i Imm) text() string { return strconv.FormatInt(int64(i), 10) }

// instruction reads an instruction that begins with a guard.
func (p *parser) instruction() {
	p.expect("@")
	negate := p.accept("!")
	t := p.name("a predicate register")
	guard, ok := p.reg(t.text)
	if !ok || guard.Class != isa.ClassPred {
		p.failAt(t, "%s is no predicate register", t.text)
	}
	op := p.tok
	if op.kind != tokWord {
		p.fail("got %s, want an instruction", p.got())
	}
	p.advance()
	p.instructionAt(op, guard, negate)
}

// instructionAt reads the rest of an instruction after its mnemonic.
func (p *parser) instructionAt(op token, guard *Reg, negate bool) {
	for p.tok.kind == tokWord && p.tok.text[0] == '.' {
		op.text += p.tok.text // add .u32
		p.advance()
		if len(op.text) > maxName {
			p.failAt(op, "the mnemonic is too long")
		}
	}
	nodes := p.nodes[:0]
	for !p.accept(";") {
		bar := false
		if len(nodes) > 0 {
			if bar = p.accept("|"); !bar {
				p.expect(",")
			}
		}
		n := p.node(0)
		n.bar = bar
		nodes = append(nodes, n)
		if len(nodes) > maxVector {
			p.fail("too many operands")
		}
	}
	p.nodes = nodes
	in := p.match(op, nodes)
	in.Guard, in.Negate = guard, negate
	p.f.Body = append(p.f.Body, in)
	p.noted = in
}

// node reads an operand; depth bounds nesting.
func (p *parser) node(depth int) node {
	n := node{tok: p.tok}
	switch {
	case p.accept("["):
		p.memory(&n, depth)
	case depth < 2 && p.accept("{"):
		n.kind = nodeVec
		n.list = p.elements(depth)
	case p.tok.kind == tokWord:
		n.word = p.tok.text
		p.advance()
		n.off = p.offset()
	case p.accept("!"):
		n.kind, n.word = nodeNot, p.name("a predicate register").text
	case p.tok.kind == tokNumber || p.is("-") || p.is("+"):
		n.kind, n.num = nodeNumber, p.signedNumber()
	default:
		p.fail("got %s, want an operand", p.got())
	}
	return n
}

// memory reads what stands between brackets.
func (p *parser) memory(n *node, depth int) {
	if depth > 0 {
		p.failAt(n.tok, "an address cannot be an element")
	}
	n.kind = nodeMem
	if p.tok.kind != tokWord {
		p.fail("got %s, want a register or variable", p.got())
	}
	n.word = p.tok.text
	p.advance()
	n.off = p.offset()
	if p.accept(",") {
		n.tensor = true
		p.expect("{")
		n.list = p.elements(depth)
	}
	p.expect("]")
}

// elements reads the rest of a list in braces.
func (p *parser) elements(depth int) []node {
	var list []node
	for {
		list = append(list, p.node(depth+2))
		if len(list) > maxVector {
			p.fail("too many elements")
		}
		if p.accept("}") {
			return list
		}
		p.expect(",")
	}
}

// offset reads +n, -n or +-n after a name.
func (p *parser) offset() int64 {
	if !p.is("+") && !p.is("-") {
		return 0
	}
	if p.is("+") {
		p.advance()
	}
	n := p.signedNumber()
	i, ok := n.integer().(Imm)
	if !ok {
		p.failAt(n.tok, "the offset is no integer")
	}
	return int64(i)
}

// match finds the row of an instruction: the first whose modifiers and operands fit.
func (p *parser) match(op token, nodes []node) *Instr {
	var why *Error
	for _, form := range p.formsOf(op) {
		in := &Instr{Form: form, f: p.f, pos: op.where()}
		e := p.operands(in, nodes)
		if e == nil {
			return p.resolve(in)
		}
		if why == nil {
			why = e
		}
	}
	panic(why)
}

// formsOf are the forms that a mnemonic spells, at least one. Kernels use few mnemonics many times.
func (p *parser) formsOf(op token) []isa.Form {
	if known := p.forms[op.text]; known != nil {
		return known
	}
	name, _, _ := strings.Cut(op.text, ".")
	rows := isa.ByOp(name)
	if len(rows) == 0 {
		p.failAt(op, "unknown instruction %s", op.text)
	}
	var out []isa.Form
	for _, row := range rows {
		if sel, ok := matchMods(row, op.text); ok {
			out = append(out, isa.Form{Row: row, Sel: sel})
		}
	}
	if out == nil {
		p.failAt(op, "the modifiers of %s fit no form; forms: %s", op.text, forms(rows))
	}
	p.forms[op.text] = out
	return out
}

// forms lists what a mnemonic may look like.
func forms(rows []*isa.Row) string {
	var out []string
	for i, r := range rows {
		if i == 4 {
			out = append(out, "...")
			break
		}
		out = append(out, isa.Form{Row: r}.Syntax())
	}
	return strings.Join(out, "; ")
}

// matchMods splits a mnemonic into the row's own words and one alternative for each slot.
func matchMods(row *isa.Row, text string) (isa.Sel, bool) {
	var sel isa.Sel
	rest, ok := strings.CutPrefix(text, row.Op)
	if !ok || rest != "" && rest[0] != '.' {
		return sel, false
	}
	return sel, matchSlots(row, 0, rest, &sel)
}

// matchSlots chooses alternatives from slot i on so that they spell rest. It tries each that fits, and leaving an option out.
func matchSlots(row *isa.Row, i int, rest string, sel *isa.Sel) bool {
	if i == len(row.Slots) {
		return rest == "" && (isa.Form{Row: row, Sel: *sel}).Complete()
	}
	slot := &row.Slots[i]
	for j := range slot.Alts {
		after, ok := cutMod(rest, slot.Alts[j].Text)
		if !ok {
			continue
		}
		sel[i] = uint8(j + 1)
		if matchSlots(row, i+1, after, sel) {
			return true
		}
	}
	sel[i] = 0
	return slot.Mode == isa.Option && matchSlots(row, i+1, rest, sel)
}

// cutMod takes a modifier from the front of rest.
func cutMod(rest, mod string) (string, bool) {
	if mod == "" {
		return rest, true
	}
	if len(rest) <= len(mod) || rest[0] != '.' || rest[1:1+len(mod)] != mod {
		return "", false
	}
	after := rest[1+len(mod):]
	return after, after == "" || after[0] == '.'
}

// operands fills in the operands of a candidate, or says why they do not fit.
func (p *parser) operands(in *Instr, nodes []node) *Error {
	row := in.Form.Row
	must, extra := 0, 0
	for i := range row.Args {
		if _, m := in.Form.Wants(&row.Args[i]); m {
			must++
		}
	}
	extra = len(nodes) - must
	in.Args = make([]Operand, len(row.Args))
	next := 0
	for i := range row.Args {
		a := &row.Args[i]
		may, m := in.Form.Wants(a)
		if !may || !m && extra <= 0 {
			continue
		}
		if !m {
			extra--
		}
		if next >= len(nodes) {
			return p.misfit(in, in.pos, "operand "+a.Name+" is missing")
		}
		n := &nodes[next]
		next++
		if n.bar != a.Bar {
			return p.misfit(in, n.tok.where(), "operands are joined by | where the form does not have it, or the other way")
		}
		x, reason := p.operand(in.Form, a, n)
		if reason == "" {
			reason = checkArg(in.Form, a, x)
		}
		if reason != "" {
			return p.misfit(in, n.tok.where(), fmt.Sprintf("operand %s: %s", a.Name, reason))
		}
		in.Args[i] = x
	}
	if next < len(nodes) {
		return p.misfit(in, nodes[next].tok.where(), "there are more operands than the form has")
	}
	return nil
}

func (p *parser) misfit(in *Instr, pos where, reason string) *Error {
	return &Error{Fault: BadSyntax, Pos: pos.String(), Func: p.f.Name, Reason: reason, Form: in.Form.Syntax()}
}

// operand makes what the row wants of a node.
func (p *parser) operand(f isa.Form, a *isa.Arg, n *node) (Operand, string) {
	switch a.Role {
	case isa.LabelRef, isa.TableRef, isa.FuncRef:
		return p.reference(a, n)
	case isa.Tensor:
		return p.tensor(f, a, n)
	}
	if a.Role == isa.Sink && n.kind == nodeWord && n.word == "_" && n.off == 0 {
		return Sink{}, ""
	}
	switch n.kind {
	case nodeMem:
		if n.tensor {
			return nil, "got a tensor address"
		}
		base, reason := p.base(n)
		return Mem{base, n.off}, reason
	case nodeVec:
		return p.vector(f, a, n.list)
	case nodeNot:
		if r, ok := p.reg(n.word); ok {
			return Not{r}, ""
		}
		return nil, fmt.Sprintf("%s is declared nowhere", n.word)
	case nodeNumber:
		if x := n.num.as(f.Type(a.Type)); x != nil {
			return x, ""
		}
		return nil, fmt.Sprintf("%q is no constant of type %s", n.num.tok.text, f.Type(a.Type))
	}
	return p.word(n)
}

// word resolves a name: a register, a special register or a variable.
func (p *parser) word(n *node) (Operand, string) {
	if sp, ok := isa.SpecialByText(n.word); ok && n.off == 0 {
		return Special{sp}, ""
	}
	if r, ok := p.reg(n.word); ok && n.off == 0 {
		return r, ""
	}
	if v, ok := p.varNamed(n.word); ok {
		return VarRef{v, n.off}, ""
	}
	return nil, fmt.Sprintf("%s is declared nowhere", n.word)
}

func (p *parser) base(n *node) (Operand, string) {
	if r, ok := p.reg(n.word); ok {
		return r, ""
	}
	if v, ok := p.varNamed(n.word); ok {
		return VarRef{Var: v}, ""
	}
	return nil, fmt.Sprintf("%s is declared nowhere", n.word)
}

func (p *parser) vector(f isa.Form, a *isa.Arg, list []node) (Operand, string) {
	v := make(Vec, len(list))
	element := *a
	element.Role = isa.Src
	for i := range list {
		x, reason := p.operand(f, &element, &list[i])
		if reason != "" {
			return nil, reason
		}
		v[i] = x
	}
	return v, ""
}

func (p *parser) tensor(f isa.Form, a *isa.Arg, n *node) (Operand, string) {
	if n.kind != nodeMem || !n.tensor {
		return nil, "want [map, {coordinates}]"
	}
	base, reason := p.base(n)
	if reason != "" {
		return nil, reason
	}
	v, reason := p.vector(f, a, n.list)
	if reason != "" {
		return nil, reason
	}
	return TensorMem{Mem{base, n.off}, v.(Vec)}, ""
}

// reference names a label, table or function. A label is only looked up once the row is settled, so that a candidate that
// fails leaves no trace.
func (p *parser) reference(a *isa.Arg, n *node) (Operand, string) {
	if n.kind != nodeWord || n.off != 0 || !validName(n.word) {
		return nil, "want a name"
	}
	switch a.Role {
	case isa.TableRef:
		if t, ok := p.tableNamed(n.word); ok {
			return t, ""
		}
		return nil, fmt.Sprintf("no table %s of branch targets is declared before", n.word)
	case isa.FuncRef:
		return FuncRef{n.word}, ""
	}
	t := n.tok
	t.text = n.word
	return &Label{Name: pendingMark + n.word}, ""
}

// pendingMark cannot occur in a name that was read.
const pendingMark = "\x00"

// resolve replaces names by what they mean in this block.
func (p *parser) resolve(in *Instr) *Instr {
	for i, x := range in.Args {
		switch x := x.(type) {
		case *Label:
			name, pending := strings.CutPrefix(x.Name, pendingMark)
			if pending {
				in.Args[i] = p.label(token{kind: tokWord, text: name, line: in.pos.line, col: in.pos.col})
			}
		case FuncRef:
			p.calls = append(p.calls, call{x.Name, in.pos})
		}
	}
	return in
}
