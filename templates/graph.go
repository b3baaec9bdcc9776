package templates

import (
	"fmt"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/ptx"
)

// inputs gives a graph the registers that hold its inputs.
type inputs struct {
	f map[ir.Input]ptx.F32
	u map[ir.Input]ptx.B32
	p map[ir.Input]ptx.Pred
}

// lowered is where the value of one node lives.
type lowered struct {
	f ptx.SrcF32
	u ptx.Src32
	p ptx.Pred
}

// lower emits a graph and returns the register of its result.
func lower(f *ptx.Func, g *ir.Graph, in inputs) ptx.F32 {
	vals := make([]lowered, len(g.Nodes))
	for i, n := range g.Nodes {
		switch n.Op {
		case ir.OpInput:
			vals[i] = in.value(n)
		case ir.OpConst:
			vals[i] = lowered{f: ptx.F32Imm(n.F)}
		case ir.OpConstU:
			vals[i] = lowered{u: ptx.Imm(n.U)}
		default:
			var a [3]lowered
			for j, arg := range n.Args {
				a[j] = vals[arg.ID]
			}
			vals[i] = lowerOp(f, n, a)
		}
	}
	result, ok := vals[g.Result.ID].f.(ptx.F32)
	if !ok {
		result = f.F32("score")
		f.MovF32(result, vals[g.Result.ID].f)
	}
	return result
}

func (in inputs) value(n *ir.Node) lowered {
	var v lowered
	ok := false
	switch n.Type {
	case ir.F32:
		var r ptx.F32
		r, ok = in.f[n.Input]
		v.f = r
	case ir.U32:
		var r ptx.B32
		r, ok = in.u[n.Input]
		v.u = r
	case ir.Bool:
		v.p, ok = in.p[n.Input]
	}
	if !ok {
		panic(fmt.Sprintf("BUG: templates: no register for input %s", n.Input))
	}
	return v
}

// lowerOp emits one operation. Additions and products carry .rn, so that ptxas never contracts them: a score has the
// same bits in every variant.
func lowerOp(f *ptx.Func, n *ir.Node, a [3]lowered) lowered {
	if n.Type == ir.Bool {
		return lowered{p: lowerCompare(f, n.Op, a)}
	}
	if n.Type == ir.U32 {
		d := f.B32()
		if n.Op == ir.OpXor {
			f.XorB32(d, a[0].u.(ptx.SrcBits32), a[1].u.(ptx.SrcBits32))
		} else {
			f.ShrS32(d, a[0].u, a[1].u)
		}
		return lowered{u: d}
	}
	d := f.F32()
	switch n.Op {
	case ir.OpAdd:
		f.AddF32(d, a[0].f, a[1].f, ptx.RN)
	case ir.OpMul:
		lowerMul(f, d, a[0].f, a[1].f)
	case ir.OpFma:
		f.FmaRnF32(d, a[0].f, a[1].f, a[2].f)
	case ir.OpMax:
		f.MaxF32(d, a[0].f, a[1].f)
	case ir.OpAbs:
		f.AbsF32(d, a[0].f)
	case ir.OpCopysign:
		f.CopysignF32(d, a[1].f, a[0].f) // PTX takes the sign first
	case ir.OpLg2:
		f.Lg2ApproxF32(d, a[0].f, ptx.FTZ)
	case ir.OpEx2:
		f.Ex2ApproxF32(d, a[0].f, ptx.FTZ)
	case ir.OpRcp:
		f.RcpApproxF32(d, a[0].f, ptx.FTZ)
	case ir.OpFloat:
		f.CvtRnF32U32(d, a[0].u.(ptx.B32))
	case ir.OpSelect:
		f.SelpF32(d, a[1].f, a[2].f, a[0].p)
	default:
		panic(fmt.Sprintf("BUG: templates: no code for %s", n.Op))
	}
	return lowered{f: d}
}

func lowerCompare(f *ptx.Func, op ir.Op, a [3]lowered) ptx.Pred {
	p := f.Pred()
	if op == ir.OpLess {
		f.SetpF32(ptx.LT, p, a[0].f, a[1].f)
	} else {
		f.SetpS32(ptx.LT, p, a[0].u, ptx.Imm(0))
	}
	return p
}

// lowerMul turns a product with -1 into a negation, which costs nothing as an operand's modifier.
func lowerMul(f *ptx.Func, d ptx.F32, a, b ptx.SrcF32) {
	if b == ptx.SrcF32(ptx.F32Imm(-1)) {
		f.NegF32(d, a)
		return
	}
	f.MulF32(d, a, b, ptx.RN)
}
