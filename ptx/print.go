package ptx

import (
	"io"
	"strconv"
	"strings"

	"github.com/fsgen/fsgen/internal/isa"
)

// Layout of printed instructions.
const (
	indent     = "    "
	opWidth    = 28 // operands start after it, unless the mnemonic is longer
	noteColumn = 72
)

// String returns the module as PTX text. It prints whatever is there: call Verify first.
func (m *Module) String() string {
	var b strings.Builder
	m.write(&b)
	return b.String()
}

// WriteTo implements io.WriterTo.
func (m *Module) WriteTo(w io.Writer) (int64, error) {
	n, err := io.WriteString(w, m.String())
	return int64(n), err
}

func (m *Module) write(b *strings.Builder) {
	items := m.Items
	for len(items) > 0 {
		c, ok := items[0].(Comment)
		if !ok {
			break
		}
		c.write(b, "")
		items = items[1:]
	}
	b.WriteString(".version " + m.Version().String() + "\n")
	b.WriteString(".target " + m.Target.String() + "\n")
	b.WriteString(".address_size 64\n")
	afterComment := false
	for _, it := range items {
		if !afterComment {
			b.WriteByte('\n')
		}
		_, afterComment = it.(Comment)
		switch it := it.(type) {
		case Comment:
			it.write(b, "")
		case *Var:
			it.write(b, "")
			b.WriteString(";\n")
		case *Func:
			it.write(b)
		}
	}
}

func (c Comment) write(b *strings.Builder, indent string) {
	b.WriteString(strings.TrimRight(indent+"// "+string(c), " "))
	b.WriteByte('\n')
}

// write prints a declaration without the semicolon.
func (v *Var) write(b *strings.Builder, indent string) {
	b.WriteString(indent)
	if v.Extern {
		b.WriteString(".extern ")
	} else if v.Vis {
		b.WriteString(".visible ")
	}
	b.WriteString("." + v.Space.String() + " ")
	if v.Align != 0 {
		b.WriteString(".align " + strconv.Itoa(v.Align) + " ")
	}
	b.WriteString("." + v.Type.String() + " " + v.Name)
	switch {
	case v.Len == Scalar:
	case v.Len == 0:
		b.WriteString("[]")
	default:
		b.WriteString("[" + strconv.Itoa(v.Len) + "]")
	}
	if len(v.Init) == 0 {
		return
	}
	b.WriteString(" = ")
	if v.Len == Scalar {
		v.Init[0].write(b)
		return
	}
	Vec(v.Init).write(b)
}

func (f *Func) write(b *strings.Builder) {
	if f.Visible {
		b.WriteString(".visible ")
	}
	kind := ".func "
	if f.Kernel {
		kind = ".entry "
	}
	b.WriteString(kind + f.Name + "(")
	for i, p := range f.Params {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
		p.write(b, indent)
	}
	if len(f.Params) > 0 {
		b.WriteByte('\n')
	}
	b.WriteString(")\n")
	for _, d := range f.directives() {
		d.write(b)
	}
	b.WriteString("{\n")
	f.writeRegs(b)
	for _, v := range f.Vars {
		v.write(b, indent)
		b.WriteString(";\n")
	}
	f.writeBody(b)
	b.WriteString("}\n")
}

func (d directive) write(b *strings.Builder) {
	b.WriteString(d.row.Text)
	for i, v := range d.values {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(" " + strconv.Itoa(v))
	}
	b.WriteByte('\n')
}

// writeRegs declares the registers, one group a class, ranges where the names allow it.
func (f *Func) writeRegs(b *strings.Builder) {
	for c := isa.NoClass + 1; c < isa.NumClasses; c++ {
		var names []string
		for _, r := range f.Regs {
			if r.Class == c {
				names = append(names, r.Name)
			}
		}
		writeWrapped(b, indent+".reg ."+c.String()+" ", regRanges(names))
	}
}

// writeWrapped prints items after a prefix, in lines of bounded length that each end a declaration.
func writeWrapped(b *strings.Builder, prefix string, items []string) {
	const width = 110
	for len(items) > 0 {
		line := prefix + items[0]
		items = items[1:]
		for len(items) > 0 && len(line)+2+len(items[0]) < width {
			line += ", " + items[0]
			items = items[1:]
		}
		b.WriteString(line + ";\n")
	}
}

// regRanges writes names %x0 ... %x(n-1) as the range %x<n>, at the place of the first; other names stay as they are.
func regRanges(names []string) []string {
	ranges := map[string]*indexes{}
	for _, name := range names {
		if prefix, i, ok := splitIndex(name); ok {
			if ranges[prefix] == nil {
				ranges[prefix] = &indexes{}
			}
			ranges[prefix].add(i)
		}
	}
	var out []string
	for _, name := range names {
		prefix, _, _ := splitIndex(name)
		x := ranges[prefix]
		if x == nil || !x.whole() {
			out = append(out, name)
			continue
		}
		if !x.written {
			out = append(out, prefix+"<"+strconv.Itoa(x.count)+">")
		}
		x.written = true
	}
	return out
}

// indexes are those of the names with one prefix. Names differ, so that their number and the largest tell whether they are
// a range.
type indexes struct {
	count, largest int
	written        bool
}

func (x *indexes) add(i int) { x.count, x.largest = x.count+1, max(x.largest, i) }

func (x *indexes) whole() bool { return x.count > 1 && x.largest == x.count-1 }

// splitIndex splits %acc12 into %acc and 12; an index has no leading zeros.
func splitIndex(name string) (prefix string, index int, ok bool) {
	end := len(name)
	for end > 0 && name[end-1] >= '0' && name[end-1] <= '9' {
		end--
	}
	digits := name[end:]
	if digits == "" || len(digits) > 6 || digits[0] == '0' && len(digits) > 1 || end < 2 {
		return "", 0, false
	}
	index, _ = strconv.Atoi(digits)
	return name[:end], index, true
}

func (f *Func) writeBody(b *strings.Builder) {
	var before Stmt
	for _, s := range f.Body {
		switch s := s.(type) {
		case Comment:
			if _, ok := before.(*Instr); ok || before == nil {
				b.WriteByte('\n')
			}
			s.write(b, indent)
		case *Label:
			if _, ok := before.(*Label); !ok {
				b.WriteByte('\n')
			}
			b.WriteString(s.Name + ":\n")
		case *Table:
			s.declare(b)
		case Pragma:
			b.WriteString(indent + ".pragma \"" + string(s) + "\";\n")
		case *Instr:
			if before == nil {
				b.WriteByte('\n')
			}
			b.WriteString(indent)
			start := b.Len()
			s.write(b, opWidth)
			s.writeNote(b, b.Len()-start+len(indent))
			b.WriteByte('\n')
		}
		before = s
	}
}

func (t *Table) declare(b *strings.Builder) {
	b.WriteString(indent + t.Name + ": .branchtargets ")
	for i, l := range t.Targets {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(l.Name)
	}
	b.WriteString(";\n")
}

func (in *Instr) writeNote(b *strings.Builder, column int) {
	if in.Note == "" {
		return
	}
	for n := max(noteColumn-column, 2); n > 0; n-- {
		b.WriteByte(' ')
	}
	b.WriteString("// " + in.Note)
}

// write prints the instruction with its semicolon; operands start after width characters of mnemonic.
func (in *Instr) write(b *strings.Builder, width int) {
	start := b.Len()
	if in.Guard != nil {
		b.WriteByte('@')
		if in.Negate {
			b.WriteByte('!')
		}
		b.WriteString(in.Guard.Name + " ")
	}
	in.Form.Write(b)
	first := true
	for i := range in.Args {
		if in.Args[i] == nil && in.optional(i) {
			continue
		}
		switch {
		case first:
			for n := max(width-(b.Len()-start), 1); n > 0; n-- {
				b.WriteByte(' ')
			}
		case in.Form.Row.Args[i].Bar:
			b.WriteByte('|')
		default:
			b.WriteString(", ")
		}
		first = false
		writeOperand(b, in.Args[i])
	}
	b.WriteByte(';')
}

func (in *Instr) optional(i int) bool {
	_, must := in.Form.Wants(&in.Form.Row.Args[i])
	return !must
}
