package ptx

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/internal/isa"
)

// FuzzParse reads any text: Parse must not panic, and what it accepts must print to a text that reads back the same. Verify must
// not panic either.
func FuzzParse(f *testing.F) {
	for _, glob := range []string{"testdata/read/*.ptx", "testdata/read/*.out", "testdata/bad/*.ptx"} {
		files, _ := filepath.Glob(glob)
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(string(text))
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := Parse(text)
		if err != nil {
			return
		}
		roundTrip(t, m)
		_ = Verify(m)
	})
}

// FuzzRoundTrip lets bytes choose what a builder does; the module must read back the same.
func FuzzRoundTrip(f *testing.F) {
	f.Add([]byte("seed"))
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 200, 201, 202, 203, 204, 205, 206, 207, 208, 209, 210})
	f.Add([]byte("\x10\x00\x01\x02\x80\x81\x82\x83\x84\x85\x86\x87\x88\xff\xfe\xfd\xfc\xfb\xfa\xf9"))
	forms := allForms()
	f.Fuzz(func(t *testing.T, data []byte) {
		b := newBench(arch.Target{SM: 100, Variant: 'a'})
		b.m.errs = nil
		g := &generator{data: data, bench: b, forms: forms}
		for len(g.data) > 0 {
			g.step()
		}
		b.f.Place(b.after)
		b.f.Ret()
		roundTrip(t, b.m)
	})
}

// generator turns bytes into statements.
type generator struct {
	*bench
	data  []byte
	forms []isa.Form
}

func (g *generator) byte() byte {
	if len(g.data) == 0 {
		return 0
	}
	x := g.data[0]
	g.data = g.data[1:]
	return x
}

func (g *generator) word() uint64 {
	var w [8]byte
	for i := range w {
		w[i] = g.byte()
	}
	return binary.LittleEndian.Uint64(w[:])
}

func (g *generator) text() string {
	n := min(int(g.byte())%16, len(g.data))
	s := string(g.data[:n])
	g.data = g.data[n:]
	return s
}

func (g *generator) step() {
	switch g.byte() % 8 {
	case 0:
		g.f.Comment(g.text())
	case 1:
		g.f.Place(g.f.Label(g.text()))
	case 2:
		g.f.Pragma(g.text())
		g.m.errs = nil
	case 3:
		g.regs[isa.Class32] = append(g.regs[isa.Class32], g.f.B32(g.text()).r, g.f.B32().r)
	case 4:
		g.f.regs(isa.ClassF32, g.text(), int(g.byte())%5)
	default:
		g.instruction()
	}
}

func (g *generator) instruction() {
	form := g.forms[int(g.word()%uint64(len(g.forms)))]
	if !form.Complete() {
		return
	}
	in := g.instr(form, g.byte()%2 == 0, g.byte()%2 == 0)
	for i, x := range in.Args {
		in.Args[i] = g.mutate(form, &form.Row.Args[i], x)
	}
	if g.byte()%3 == 0 {
		in.Guard, in.Negate = g.regs[isa.ClassPred][g.byte()%4], g.byte()%2 == 0
	}
	in.Comment("%s", g.text())
	g.f.Body = append(g.f.Body, in)
}

// mutate gives constants and offsets other values, as far as they stay legal.
func (g *generator) mutate(form isa.Form, a *isa.Arg, x Operand) Operand {
	y := x
	switch z := x.(type) {
	case Imm:
		y = Imm(g.word() >> (g.byte() % 64))
	case F32Imm:
		y = F32Imm(math.Float32frombits(uint32(g.word())))
	case F64Imm:
		y = F64Imm(math.Float64frombits(g.word()))
	case Mem:
		z.Off = int64(int32(g.word()))
		y = z
	}
	if x == nil || checkArg(form, a, y) != "" {
		return x
	}
	return y
}
