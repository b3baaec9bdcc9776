package ir

import (
	"fmt"
	"math"
)

// Values gives a graph its inputs.
type Values struct {
	F map[Input]float32
	U map[Input]uint32
	B map[Input]bool
}

type value struct {
	f float32
	u uint32
	b bool
}

// Eval computes a graph in float32, operation by operation, with the approximate operations correctly rounded. It is
// what the emitted code computes, up to the documented error of those operations.
func Eval(g *Graph, in Values) float32 {
	vals := make([]value, len(g.Nodes))
	for i, n := range g.Nodes {
		vals[i] = evalNode(n, func(a *Node) value { return vals[a.ID] }, &in)
	}
	return vals[g.Result.ID].f
}

func evalNode(n *Node, arg func(*Node) value, in *Values) value {
	switch n.Op {
	case OpInput:
		return value{in.F[n.Input], in.U[n.Input], in.B[n.Input]}
	case OpConst:
		return value{f: n.F}
	case OpConstU:
		return value{u: n.U}
	}
	var a [3]value
	for i, x := range n.Args {
		a[i] = arg(x)
	}
	return evalOp(n.Op, a)
}

func evalOp(op Op, a [3]value) value {
	x, y := a[0].f, a[1].f
	switch op {
	case OpAdd:
		return value{f: x + y}
	case OpMul:
		return value{f: x * y}
	case OpFma:
		return value{f: Fma32(x, y, a[2].f)}
	case OpMax:
		return value{f: max32(x, y)}
	case OpAbs:
		return value{f: math.Float32frombits(math.Float32bits(x) &^ (1 << 31))}
	case OpCopysign:
		return value{f: float32(math.Copysign(float64(x), float64(y)))}
	case OpLg2:
		return value{f: float32(math.Log2(float64(x)))}
	case OpEx2:
		return value{f: float32(math.Exp2(float64(x)))}
	case OpRcp:
		return value{f: float32(1 / float64(x))}
	case OpFloat:
		return value{f: float32(a[0].u)}
	case OpXor:
		return value{u: a[0].u ^ a[1].u}
	case OpSar:
		return value{u: uint32(int32(a[0].u) >> a[1].u)}
	case OpLess:
		return value{b: x < y}
	case OpNegative:
		return value{b: int32(a[0].u) < 0}
	case OpSelect:
		if a[0].b {
			return a[1]
		}
		return a[2]
	}
	panic(fmt.Sprintf("BUG: ir: no evaluation for %s", op))
}

// max32 is the larger of two numbers, or the one of them that is a number.
func max32(x, y float32) float32 {
	switch {
	case math.IsNaN(float64(x)):
		return y
	case math.IsNaN(float64(y)):
		return x
	}
	return max(x, y)
}

// Fma32 returns x*y + z rounded once to float32. The product of two float32 is exact in float64; the sum is rounded to
// odd there, so that the second rounding cannot go the wrong way (Boldo and Melquiond, 2008).
func Fma32(x, y, z float32) float32 {
	p, c := float64(x)*float64(y), float64(z)
	s := p + c
	if math.IsInf(s, 0) || math.IsNaN(s) || s == 0 {
		return float32(s)
	}
	bb := s - p
	err := (p - (s - bb)) + (c - bb) // exact (Knuth's TwoSum)
	if bits := math.Float64bits(s); err != 0 && bits&1 == 0 {
		if (err > 0) == (s > 0) {
			bits++
		} else {
			bits--
		}
		s = math.Float64frombits(bits)
	}
	return float32(s)
}
