package ir

import (
	"fmt"
	"math"
)

// Type is the type of a value in a graph.
type Type uint8

// The types of values.
const (
	F32 Type = iota
	U32
	Bool
)

var typeNames = [...]string{"f32", "u32", "bool"}

func (t Type) String() string { return typeNames[t] }

// Op is an operation of a graph. Float operations round to nearest even and keep subnormals, except where said.
type Op uint8

// The operations. opTable gives each its types.
const (
	OpInput    Op = iota // a value from outside, named by Input
	OpConst              // a float32 constant
	OpConstU             // a 32-bit constant
	OpAdd                // a + b
	OpMul                // a * b
	OpFma                // a * b + c, rounded once
	OpMax                // the larger of a and b; the other one where one is NaN
	OpAbs                // |a|
	OpCopysign           // |a| with the sign of b
	OpLg2                // log2 a, approximate, for normal a > 0: 2^-22 absolute near 1, relative elsewhere
	OpEx2                // 2^a, approximate: 2^-22 relative, may flush subnormal results to 0
	OpRcp                // 1/a, approximate: 1 ulp, may flush subnormals to 0
	OpFloat              // float32 of an unsigned integer, rounded to nearest
	OpXor                // a ^ b
	OpSar                // a >> b, arithmetic
	OpLess               // a < b
	OpNegative           // a < 0 for a as a signed integer
	OpSelect             // a ? b : c
)

type opInfo struct {
	name   string
	args   []Type
	result Type
}

var opTable = [...]opInfo{
	OpInput:    {"input", nil, F32},
	OpConst:    {"const", nil, F32},
	OpConstU:   {"constu", nil, U32},
	OpAdd:      {"add", []Type{F32, F32}, F32},
	OpMul:      {"mul", []Type{F32, F32}, F32},
	OpFma:      {"fma", []Type{F32, F32, F32}, F32},
	OpMax:      {"max", []Type{F32, F32}, F32},
	OpAbs:      {"abs", []Type{F32}, F32},
	OpCopysign: {"copysign", []Type{F32, F32}, F32},
	OpLg2:      {"lg2", []Type{F32}, F32},
	OpEx2:      {"ex2", []Type{F32}, F32},
	OpRcp:      {"rcp", []Type{F32}, F32},
	OpFloat:    {"float", []Type{U32}, F32},
	OpXor:      {"xor", []Type{U32, U32}, U32},
	OpSar:      {"sar", []Type{U32, U32}, U32},
	OpLess:     {"less", []Type{F32, F32}, Bool},
	OpNegative: {"negative", []Type{U32}, Bool},
	OpSelect:   {"select", []Type{Bool, F32, F32}, F32},
}

// String returns the operation's name.
func (o Op) String() string { return opTable[o].name }

// Input names a value that a graph takes from outside.
type Input string

// The inputs of the epilogue.
const (
	InLogit   Input = "logit"   // float32 accumulator y
	InBias    Input = "bias"    // float32 bias of the token (and row); 0 where a sparse bias has none
	InAllowed Input = "allowed" // bool, the token's mask bit, and whether the row's lists of ids let it through
	InAlpha   Input = "alpha"   // float32, the row's a
	InTau     Input = "tau"     // float32, the row's t
	InLow     Input = "low"     // uint32, low half of the token's 64 random bits
	InHigh    Input = "high"    // uint32, high half of the token's 64 random bits

	InBlockLow  Input = "block_low"  // uint32, low half of the block's 64 random bits
	InBlockHigh Input = "block_high" // uint32, high half of the block's 64 random bits
	InFirst     Input = "first"      // bool, the token has the least exponential of its block

	InPad  Input = "pad"  // float32, 0 or -inf: whether the token counts
	InBase Input = "base" // float32, the largest score without noise
	InCode Input = "code" // float32, code of the noise (CodeValue)

	InThreshold Input = "threshold" // float32, what the row's scores have to reach

	InTop  Input = "top"  // float32, the largest score without noise of a block
	InMass Input = "mass" // float32, a block's mass over that of its largest token, or a sum over the power of its reference

	InScale    Input = "scale"    // float32, log2(e)/tau of the row
	InLargest  Input = "largest"  // float32, the reference of a sum
	InExponent Input = "exponent" // float32, octaves above a reference
	InFraction Input = "fraction" // float32, octaves from the nearest whole one

	InSeen              Input = "seen"               // bool, prompt or output had the token
	InCount             Input = "count"              // float32, how often the output had the token
	InRepetition        Input = "repetition"         // float32, the row's penalties (Penalty)
	InInverseRepetition Input = "inverse_repetition" // float32, rounded reciprocal of the repetition penalty
	InFrequency         Input = "frequency"          // float32
	InPresence          Input = "presence"           // float32
)

var inputTypes = map[Input]Type{
	InLogit: F32, InBias: F32, InAllowed: Bool, InAlpha: F32, InTau: F32, InLow: U32, InHigh: U32, InBlockLow: U32, InBlockHigh: U32, InFirst: Bool, InPad: F32, InBase: F32, InCode: F32, InThreshold: F32,
	InTop: F32, InMass: F32, InScale: F32, InLargest: F32, InExponent: F32, InFraction: F32,
	InSeen: Bool, InCount: F32, InRepetition: F32, InInverseRepetition: F32, InFrequency: F32, InPresence: F32,
}

// Node is one value of a graph.
type Node struct {
	Op    Op
	Type  Type
	Args  []*Node
	Input Input   // of OpInput
	F     float32 // of OpConst
	U     uint32  // of OpConstU
	ID    int     // place in Graph.Nodes
}

// Graph is an expression with one result; its nodes stand in an order in which arguments come before their users.
type Graph struct {
	Nodes  []*Node
	Result *Node
}

// Inputs lists the inputs that the graph reads, in order of first use.
func (g *Graph) Inputs() []Input {
	var in []Input
	for _, n := range g.Nodes {
		if n.Op == OpInput {
			in = append(in, n.Input)
		}
	}
	return in
}

// Reads reports whether the graph reads an input.
func (g *Graph) Reads(in Input) bool {
	for _, n := range g.Nodes {
		if n.Op == OpInput && n.Input == in {
			return true
		}
	}
	return false
}

// builder makes graphs; equal nodes are made once.
type builder struct {
	g    Graph
	memo map[string]*Node
}

func newBuilder() *builder { return &builder{memo: map[string]*Node{}} }

func (b *builder) add(n Node) *Node {
	key := nodeKey(&n)
	if have := b.memo[key]; have != nil {
		return have
	}
	n.ID = len(b.g.Nodes)
	b.g.Nodes = append(b.g.Nodes, &n)
	b.memo[key] = &n
	return &n
}

func nodeKey(n *Node) string {
	key := fmt.Sprintf("%d/%s/%08x/%08x", n.Op, n.Input, math.Float32bits(n.F), n.U)
	for _, a := range n.Args {
		key += fmt.Sprintf("/%d", a.ID)
	}
	return key
}

func (b *builder) input(in Input) *Node {
	return b.add(Node{Op: OpInput, Type: inputTypes[in], Input: in})
}
func (b *builder) f(x float32) *Node { return b.add(Node{Op: OpConst, Type: F32, F: x}) }
func (b *builder) u(x uint32) *Node  { return b.add(Node{Op: OpConstU, Type: U32, U: x}) }

func (b *builder) op(op Op, args ...*Node) *Node {
	return b.add(Node{Op: op, Type: opTable[op].result, Args: args})
}

// horner evaluates c[0] + c[1] x + c[2] x^2 + ...
func (b *builder) horner(x *Node, c []float32) *Node {
	sum := b.f(c[len(c)-1])
	for i := len(c) - 2; i >= 0; i-- {
		sum = b.op(OpFma, sum, x, b.f(c[i]))
	}
	return sum
}

func (b *builder) finish(result *Node) *Graph {
	b.g.Result = result
	return &b.g
}
