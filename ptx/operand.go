package ptx

import (
	"math"
	"strconv"
	"strings"

	"github.com/fsgen/fsgen/internal/isa"
)

// Operand is an operand as an instruction holds it: [*Reg], [Not], [Imm], [F32Imm], [F64Imm], [Special], [Mem], [Vec], [TensorMem],
// [*Label], [*Table], [VarRef], [FuncRef] or [Sink]. The nil Operand stands for an optional operand that was left out.
type Operand interface {
	write(*strings.Builder)
}

// Reg is a virtual register of one function.
type Reg struct {
	Name  string // with the leading %
	Class isa.Class
}

func (r *Reg) write(b *strings.Builder) { b.WriteString(r.Name) }

// Not is a predicate register whose negation is read.
type Not struct{ Reg *Reg }

func (n Not) write(b *strings.Builder) {
	b.WriteByte('!')
	n.Reg.write(b)
}

// Imm is an integer constant, for operands of every integer width. For 64-bit patterns above the largest int64 write
// Imm(int64(x)).
type Imm int64

// write prints small values in decimal and masks in hexadecimal.
func (i Imm) write(b *strings.Builder) {
	if i < 1<<20 {
		b.WriteString(strconv.FormatInt(int64(i), 10))
		return
	}
	b.WriteString("0x")
	b.WriteString(strconv.FormatInt(int64(i), 16))
}

// F32Imm is a single-precision constant, printed as its bits.
type F32Imm float32

func (x F32Imm) write(b *strings.Builder) { writeHex(b, "0f", uint64(math.Float32bits(float32(x))), 8) }

// F64Imm is a double-precision constant, printed as its bits.
type F64Imm float64

func (x F64Imm) write(b *strings.Builder) { writeHex(b, "0d", math.Float64bits(float64(x)), 16) }

func writeHex(b *strings.Builder, prefix string, bits uint64, digits int) {
	s := strings.ToUpper(strconv.FormatUint(bits, 16))
	b.WriteString(prefix)
	for n := len(s); n < digits; n++ {
		b.WriteByte('0')
	}
	b.WriteString(s)
}

// Special is a special register, such as TidX. Only mov reads it.
type Special struct{ Row *isa.Special }

func (s Special) write(b *strings.Builder) { b.WriteString(s.Row.Text) }

// Mem is an address operand: a register or variable plus a byte offset.
type Mem struct {
	Base Operand // *Reg, or VarRef with offset 0
	Off  int64
}

func (m Mem) write(b *strings.Builder) {
	b.WriteByte('[')
	m.inner(b)
	b.WriteByte(']')
}

func (m Mem) inner(b *strings.Builder) {
	if m.Base == nil {
		b.WriteString("?")
		return
	}
	m.Base.write(b)
	writeOffset(b, m.Off)
}

// writeOffset writes an offset behind a sign of its own, below zero too: ptxas takes reg+-8, not reg-8.
func writeOffset(b *strings.Builder, off int64) {
	if off != 0 {
		b.WriteByte('+')
		b.WriteString(strconv.FormatInt(off, 10))
	}
}

// Vec is a list of registers (or constants) in braces.
type Vec []Operand

func (v Vec) write(b *strings.Builder) {
	b.WriteByte('{')
	for i, x := range v {
		if i > 0 {
			b.WriteString(", ")
		}
		writeOperand(b, x)
	}
	b.WriteByte('}')
}

func writeOperand(b *strings.Builder, x Operand) {
	if x == nil {
		b.WriteByte('?')
		return
	}
	x.write(b)
}

// TensorMem is the address of a box of a tensor: its map and the coordinates of the box, innermost dimension first.
type TensorMem struct {
	Map    Mem
	Coords Vec
}

func (t TensorMem) write(b *strings.Builder) {
	b.WriteByte('[')
	t.Map.inner(b)
	b.WriteString(", ")
	t.Coords.write(b)
	b.WriteByte(']')
}

// Label is a place in a function that branches name.
type Label struct{ Name string }

func (l *Label) write(b *strings.Builder) { b.WriteString(l.Name) }

// Table is a list of branch targets for BrxIdx.
type Table struct {
	Name    string
	Targets []*Label
}

func (t *Table) write(b *strings.Builder) { b.WriteString(t.Name) }

// VarRef is the address of a variable or parameter.
type VarRef struct {
	Var *Var
	Off int64
}

func (v VarRef) write(b *strings.Builder) {
	b.WriteString(v.Var.Name)
	writeOffset(b, v.Off)
}

// FuncRef names the function that is called.
type FuncRef struct{ Name string }

func (f FuncRef) write(b *strings.Builder) { b.WriteString(f.Name) }

// Sink is the _ that drops a result.
type Sink struct{}

func (Sink) write(b *strings.Builder) { b.WriteByte('_') }
