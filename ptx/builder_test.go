package ptx_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/internal/isa"
	"github.com/fsgen/fsgen/ptx"
)

// kit holds an argument of each type that constructors take.
type kit struct {
	f    *ptx.Func
	args []reflect.Value
}

func newKit(m *ptx.Module) *kit {
	callee := m.Function("callee")
	callee.Ret()
	smem := m.ExternShared("smem", 16)
	f := m.Entry("kernel")
	p := f.ParamU64("p")
	local := f.Local("stack", 8, 64)
	after := f.Label("after")
	k := &kit{f: f}
	for _, x := range []any{f.Pred(), f.Pred().Not(), f.B16(), f.B32(), f.B64(), f.F32(), f.F64(), f.B64("wide").Off(8), smem.Off(16), p, local,
		after, f.Branchtargets("table", after), callee, ptx.EQ, ptx.Tensor(f.B64(), f.B32(), ptx.Imm(3))} {
		k.args = append(k.args, reflect.ValueOf(x))
	}
	f.Place(after)
	return k
}

// arg finds an argument of a type; slices get as many registers as the form wants.
func (k *kit) arg(t reflect.Type, form isa.Form, n int) reflect.Value {
	if t.Kind() == reflect.Slice {
		s := reflect.MakeSlice(t, 0, n)
		for range n {
			s = reflect.Append(s, k.arg(t.Elem(), form, 0))
		}
		return s
	}
	for _, x := range k.args {
		if x.Type().AssignableTo(t) {
			return x
		}
	}
	panic(fmt.Sprintf("no argument of type %s", t))
}

// immediates lists legal values of the integer parameters of a form, in order.
func immediates(form isa.Form) []int {
	var out []int
	for _, s := range form.Row.Slots {
		if s.Mode == isa.Enum && s.Enum == "int" {
			out = append(out, s.Alts[0].N)
		}
	}
	for _, a := range form.Row.Args {
		if a.Role == isa.Immediate {
			out = append(out, int(a.Lo))
		}
	}
	return out
}

// vectors lists the lengths of the slice parameters of a form whose counted slots take their first alternatives.
func vectors(form isa.Form) []int {
	for i, s := range form.Row.Slots {
		if form.Sel[i] == 0 && s.Mode != isa.Option {
			form.Sel[i] = 1
		}
	}
	var out []int
	for i := range form.Row.Args {
		if n := form.Len(&form.Row.Args[i]); n > 0 && form.Row.Args[i].Role != isa.Tensor {
			out = append(out, n)
		}
	}
	return out
}

// TestConstructors calls every constructor of the table by name: it makes the form that the table says, without an error.
func TestConstructors(t *testing.T) {
	targets := []arch.Target{{SM: 90, Variant: 'a'}, {SM: 100, Variant: 'a'}}
	kits := make([]*kit, len(targets))
	for i, target := range targets {
		kits[i] = newKit(ptx.NewModule(target))
	}
	calls := 0
	for _, row := range isa.Table {
		for _, c := range row.Constructors() {
			k := kits[0]
			if !row.Req.Allows(targets[0]) {
				k = kits[1]
			}
			in := k.call(t, c)
			calls++
			if in.Form.Row != row {
				t.Errorf("%s makes %s", c.Name, in)
			}
			for i, s := range row.Slots {
				if s.Mode == isa.Named && in.Form.Sel[i] != c.Form.Sel[i] {
					t.Errorf("%s makes %s, want %s", c.Name, in, c.Form)
				}
			}
			if err := k.f.Module().Err(); err != nil {
				t.Fatalf("%s: %v", c.Name, err)
			}
		}
	}
	if calls < 1000 {
		t.Errorf("only %d constructors", calls)
	}
}

func (k *kit) call(t *testing.T, c isa.Constructor) *ptx.Instr {
	method := reflect.ValueOf(k.f).MethodByName(c.Name)
	if !method.IsValid() {
		t.Fatalf("no constructor %s", c.Name)
	}
	var in []reflect.Value
	ints, vecs := immediates(c.Form), vectors(c.Form)
	for i := range method.Type().NumIn() {
		p := method.Type().In(i)
		switch {
		case method.Type().IsVariadic() && i == method.Type().NumIn()-1:
		case p.Kind() == reflect.Int:
			in = append(in, reflect.ValueOf(ints[0]))
			ints = ints[1:]
		case p.Kind() == reflect.Slice:
			in = append(in, k.arg(p, c.Form, vecs[0]))
			vecs = vecs[1:]
		default:
			in = append(in, k.arg(p, c.Form, 0))
		}
	}
	return method.Call(in)[0].Interface().(*ptx.Instr)
}

// TestZeroArguments calls every constructor with the zero value of each parameter: nothing panics, and all but those without
// operands are refused.
func TestZeroArguments(t *testing.T) {
	m := ptx.NewModule(arch.Target{SM: 100, Variant: 'a'})
	f := reflect.ValueOf(m.Entry("kernel"))
	for _, row := range isa.Table {
		for _, c := range row.Constructors() {
			method := f.MethodByName(c.Name)
			var in []reflect.Value
			for i := range method.Type().NumIn() {
				if !method.Type().IsVariadic() || i < method.Type().NumIn()-1 {
					in = append(in, reflect.Zero(method.Type().In(i)))
				}
			}
			_ = method.Call(in)[0].Interface().(*ptx.Instr).String()
		}
	}
	_ = m.String()
	if m.Err() == nil || ptx.Verify(m) == nil {
		t.Error("no errors")
	}
	g := ptx.NewModule(arch.SM90.Target).Entry("kernel")
	g.Place(nil)
	g.Branchtargets("t", nil)
	g.MbarrierArrive(ptx.SharedVar{}, nil, ptx.Count(nil))
	g.CpAsyncBulkTensorSharedClusterGlobal(nil, ptx.Tensor(nil, nil), nil, ptx.Multicast(nil))
	_ = g.Module().String()
	if ptx.Verify(g.Module()) == nil {
		t.Error("no errors")
	}
}

// TestMistakes makes mistakes that compile: each is reported with this file and line, the instruction, and what is accepted.
func TestMistakes(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(m *ptx.Module, f *ptx.Func)
		kind ptx.Fault
		want []string
	}{
		"zero register": {func(m *ptx.Module, f *ptx.Func) { f.AddS32(f.B32(), ptx.B32{}, ptx.Imm(1)) }, ptx.BadOperand,
			[]string{"k: add.s32 %r0, ?, 1;: operand a is missing", "form: add.s32 d: s32, a: s32, b: s32"}},
		"nil interface": {func(m *ptx.Module, f *ptx.Func) { f.AddS32(f.B32(), nil, ptx.Imm(1)) }, ptx.BadOperand, []string{"operand a is missing"}},
		"range": {func(m *ptx.Module, f *ptx.Func) { f.AddS16(f.B16(), f.B16("x"), ptx.Imm(1<<16)) }, ptx.BadOperand,
			[]string{"add.s16 %h0, %x, 65536;: operand b: constant 65536 does not fit s16 (-32768 to 65535)"}},
		"float bits": {func(m *ptx.Module, f *ptx.Func) { f.LdGlobalNcF32(f.F32(), f.B64(), ptx.FTZ) }, ptx.BadModifier,
			[]string{"modifier .ftz is not among those of the form, or is given twice", "{.L2::64B .L2::128B .L2::256B}"}},
		"twice": {func(m *ptx.Module, f *ptx.Func) { f.AddF32(f.F32(), f.F32(), f.F32(), ptx.FTZ, ptx.FTZ) }, ptx.BadModifier, []string{"given twice"}},
		"exclusive": {func(m *ptx.Module, f *ptx.Func) { f.LdGlobalB32(f.B32(), f.B64(), ptx.RelaxedGPU, ptx.CG) }, ptx.BadModifier,
			[]string{"modifiers .relaxed.gpu and .cg exclude each other"}},
		"stray operand": {func(m *ptx.Module, f *ptx.Func) {
			f.BarWarpSync(ptx.Imm(-1))
			f.MbarrierInit(f.B32(), ptx.Imm(1))
			f.BarSync(ptx.Imm(1), ptx.Count(ptx.Imm(32)))
		},
			ptx.BadOperand, []string{`no optional operand "count"`}},
		"vector": {func(m *ptx.Module, f *ptx.Func) { f.LdGlobalV4F32(f.NewF32s("x", 3), f.B64()) }, ptx.BadOperand,
			[]string{"operand d: got a vector of 3, want a vector of 4 f32"}},
		"wgmma n": {func(m *ptx.Module, f *ptx.Func) {
			f.WgmmaMmaAsyncF32BF16(12, f.NewF32s("acc", 6), f.B64(), f.B64(), f.Pred(), 1, 1, 0, 0)
		}, ptx.BadModifier, []string{"a modifier is missing or unknown; accepted: .m64n8k16"}},
		"wgmma scale": {func(m *ptx.Module, f *ptx.Func) {
			f.WgmmaMmaAsyncF32BF16(8, f.NewF32s("acc", 4), f.B64(), f.B64(), f.Pred(), 2, 1, 0, 0)
		}, ptx.BadOperand, []string{"operand imm-scale-a: got 2, want one of [-1 1]"}},
		"tensor": {func(m *ptx.Module, f *ptx.Func) {
			f.CpAsyncBulkTensorSharedClusterGlobal(f.B32(), ptx.Tensor(f.B64()), f.B32())
		}, ptx.BadModifier, []string{"the length of the vector operand fits none of .1d .2d .3d .4d .5d"}},
		"target": {func(m *ptx.Module, f *ptx.Func) { m.Target.Variant = arch.Portable; f.WgmmaFence() }, ptx.BadTarget,
			[]string{"wgmma.fence.sync.aligned needs sm_90a; the module's target is sm_90"}},
		"version": {func(m *ptx.Module, f *ptx.Func) { m.Pinned = arch.V(8, 0); f.FenceReleaseGPU() }, ptx.BadVersion,
			[]string{"fence.release.gpu needs PTX 8.6; the module is pinned to 8.0"}},
		"optional operand's target": {func(m *ptx.Module, f *ptx.Func) {
			m.Target = arch.Target{SM: 80}
			f.MbarrierArrive(f.B32(), ptx.Count(ptx.Imm(2)))
		}, ptx.BadTarget, []string{"mbarrier.arrive.shared.b64 with operand count needs sm_90 or later"}},
		"special register's target": {func(m *ptx.Module, f *ptx.Func) {
			m.Target = arch.Target{SM: 80}
			f.MovB32(f.B32(), ptx.ClusterCtarank)
		}, ptx.BadTarget, []string{"mov.b32 with %cluster_ctarank needs sm_90 or later"}},
		"placed twice": {func(m *ptx.Module, f *ptx.Func) { l := f.Here("x"); f.Place(l) }, ptx.BadBranch, []string{"label x is placed twice"}},
		"name":         {func(m *ptx.Module, f *ptx.Func) { f.ParamU32("%tid") }, ptx.BadName, []string{`name "%tid" is reserved by PTX`}},
		"bad name":     {func(m *ptx.Module, f *ptx.Func) { f.Shared("a b", 1, 1) }, ptx.BadName, []string{`"a b" is no PTX identifier`}},
		"name twice":   {func(m *ptx.Module, f *ptx.Func) { m.Shared("k", 1, 1) }, ptx.BadName, []string{`name "k" is declared twice`}},
		"guard":        {func(m *ptx.Module, f *ptx.Func) { f.Ret().If(ptx.Pred{}) }, ptx.BadOperand, []string{"the guard is a predicate register that was never made"}},
		"pragma":       {func(m *ptx.Module, f *ptx.Func) { f.Pragma("a\"b") }, ptx.BadName, []string{"cannot be written between quotes"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := ptx.NewModule(arch.SM90.Target)
			f := m.Entry("k")
			c.do(m, f)
			err := m.Err()
			var e *ptx.Error
			if !errors.As(err, &e) {
				t.Fatalf("no error")
			}
			if e.Fault != c.kind || !strings.HasPrefix(e.Pos, "builder_test.go:") {
				t.Errorf("fault %v at %q", e.Fault, e.Pos)
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%v\ndoes not say %q", err, w)
				}
			}
			if ptx.Verify(m) == nil {
				t.Error("Verify forgets it")
			}
		})
	}
}

func TestTenErrors(t *testing.T) {
	m := ptx.NewModule(arch.SM90.Target)
	f := m.Entry("k")
	for range 30 {
		f.AddS32(f.B32(), ptx.B32{}, ptx.Imm(1))
	}
	var list ptx.Errors
	if !errors.As(m.Err(), &list) || len(list) != 10 {
		t.Errorf("%d errors, want 10", len(list))
	}
}

// TestVerifyBuilt makes modules whose mistakes only the whole shows, and no text can hold.
func TestVerifyBuilt(t *testing.T) {
	for want, build := range map[string]func(m *ptx.Module, f, g *ptx.Func){
		"register %r0 belongs to another function": func(m *ptx.Module, f, g *ptx.Func) {
			x := g.B32()
			f.MovB32(x, ptx.Imm(0))
		},
		"label there is never placed":                  func(m *ptx.Module, f, g *ptx.Func) { f.Bra(f.Label("there")) },
		"table t names label x, which is never placed": func(m *ptx.Module, f, g *ptx.Func) { f.Branchtargets("t", f.Label("x")) },
		"table t has no targets":                       func(m *ptx.Module, f, g *ptx.Func) { f.Branchtargets("t") },
		"table t is declared in another function": func(m *ptx.Module, f, g *ptx.Func) {
			x := f.B32()
			f.MovB32(x, ptx.Imm(0))
			f.BrxIdx(x, g.Branchtargets("t", g.Here("y")))
		},
		"variable s is not declared in this function or module": func(m *ptx.Module, f, g *ptx.Func) {
			f.StSharedB32(g.Shared("s", 4, 4), ptx.Imm(0))
		},
		"parameter b is said to lie at 4; its place is 8": func(m *ptx.Module, f, g *ptx.Func) {
			f.ParamU32("a")
			f.ParamU64("b")
			f.Params[1].Offset = 4
		},
		"guard %r0 is no predicate register of this function": func(m *ptx.Module, f, g *ptx.Func) {
			f.B32()
			f.Trap().Guard = f.Regs[0]
		},
		".reqntid has the value -1": func(m *ptx.Module, f, g *ptx.Func) { f.Reqntid(-1, 1, 1) },
	} {
		m := ptx.NewModule(arch.SM90.Target)
		f, g := m.Entry("f"), m.Entry("g")
		g.Ret()
		build(m, f, g)
		f.Ret()
		if err := ptx.Verify(m); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestNames(t *testing.T) {
	m := ptx.NewModule(arch.SM90.Target)
	f := m.Entry("k")
	var got []string
	for _, hint := range []string{"tile", "tile", "tile_1", "tid", "r7", "a b", "0", "", "%x", strings.Repeat("n", 2000)} {
		got = append(got, f.B32(hint).Name())
	}
	got[9] = got[9][:4]
	want := []string{"%tile", "%tile_1", "%tile_1_1", "%tid_1", "%r7_1", "%a_b", "%x0", "%r0", "%x_x", "%nnn"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	acc := append(f.NewF32s("acc", 2), f.NewF32s("acc", 2)...)
	if acc[1].Name() != "%acc1" || acc[3].Name() != "%acc_1_1" {
		t.Errorf("got %s, %s", acc[1].Name(), acc[3].Name())
	}
	if a, b := f.Label("exit"), f.Label("loop"); a.Name != "exit_1" || b.Name != "loop" {
		t.Errorf("got %s, %s", a.Name, b.Name)
	}
}

func TestParams(t *testing.T) {
	m := ptx.NewModule(arch.SM90.Target)
	f := m.Entry("k")
	f.ParamU32("a")
	f.ParamU64("b")
	f.ParamF32("c")
	f.ParamTensorMap("d")
	f.ParamBytes("e", 2, 6)
	var got []string
	for _, p := range m.Entries()[0].Params {
		got = append(got, fmt.Sprintf("%s@%d+%d", p.Name, p.Offset, p.Size()))
	}
	if want := "a@0+4 b@8+8 c@16+4 d@64+128 e@192+6"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

// TestDeterminism builds and prints the same kernel from many goroutines.
func TestDeterminism(t *testing.T) {
	want := hopper().String()
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if hopper().String() != want {
				t.Error("another text")
			}
		})
	}
	wg.Wait()
}

func big() *ptx.Module {
	m := ptx.NewModule(arch.SM90.Target)
	f := m.Entry("k")
	a, b := f.B32("a"), f.F32("b")
	f.MovB32(a, ptx.Imm(0))
	f.MovF32(b, ptx.F32Imm(0))
	for i := range 2500 {
		f.XorB32(a, a, ptx.Imm(i)).Comment("mix")
		f.FmaRnF32(b, b, b, b, ptx.FTZ)
	}
	f.Ret()
	return m
}

// TestFast keeps a kernel of 5,000 instructions within milliseconds; the bound is loose for a shared machine.
func TestFast(t *testing.T) {
	best := time.Hour
	for range 5 {
		start := time.Now()
		_ = big().String()
		best = min(best, time.Since(start))
	}
	if t.Logf("5,000 instructions: %v", best); best > 100*time.Millisecond {
		t.Errorf("building and printing 5,000 instructions took %v", best)
	}
}

func BenchmarkBuild(b *testing.B) {
	for b.Loop() {
		_ = big().String()
	}
}

func BenchmarkParse(b *testing.B) {
	text := big().String()
	for b.Loop() {
		if _, err := ptx.Parse(text); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	m := big()
	for b.Loop() {
		if err := ptx.Verify(m); err != nil {
			b.Fatal(err)
		}
	}
}
