package ir

import (
	"fmt"
	"math"
)

// passes run in this order over every graph; Check holds before and after each.
var passes = []struct {
	name string
	run  func(b *builder, n *Node) *Node
}{
	{"fold", fold},
	{"identities", identities},
}

// Optimize folds constants, drops operations that change nothing and removes what the result does not need. It never
// changes a bit of the result.
func Optimize(g *Graph) *Graph {
	for _, p := range passes {
		g = rewrite(g, p.run)
		if err := Check(g); err != nil {
			panic(fmt.Sprintf("BUG: ir: after pass %s: %v", p.name, err))
		}
	}
	return g
}

// rewrite rebuilds the nodes that the result needs, arguments first, through one rewriting rule.
func rewrite(g *Graph, rule func(*builder, *Node) *Node) *Graph {
	b := newBuilder()
	done := make([]*Node, len(g.Nodes))
	needed := reachable(g)
	for i, n := range g.Nodes {
		if !needed[i] {
			continue
		}
		c := *n
		c.Args = make([]*Node, len(n.Args))
		for j, a := range n.Args {
			c.Args[j] = done[a.ID]
		}
		done[i] = rule(b, &c)
	}
	return prune(b.finish(done[g.Result.ID]))
}

// prune drops nodes that a rule left without users.
func prune(g *Graph) *Graph {
	needed := reachable(g)
	var kept []*Node
	for i, n := range g.Nodes {
		if needed[i] {
			n.ID = len(kept)
			kept = append(kept, n)
		}
	}
	g.Nodes = kept
	return g
}

func reachable(g *Graph) []bool {
	needed := make([]bool, len(g.Nodes))
	needed[g.Result.ID] = true
	for i := len(g.Nodes) - 1; i >= 0; i-- {
		if needed[i] {
			for _, a := range g.Nodes[i].Args {
				needed[a.ID] = true
			}
		}
	}
	return needed
}

// exact marks the operations that every machine computes to the same bits; only those may be folded.
var exact = map[Op]bool{OpAdd: true, OpMul: true, OpFma: true, OpAbs: true, OpCopysign: true, OpFloat: true}

// fold replaces an exact float operation on constants by its value.
func fold(b *builder, n *Node) *Node {
	if !exact[n.Op] {
		return b.add(*n)
	}
	for _, a := range n.Args {
		if a.Op != OpConst && a.Op != OpConstU {
			return b.add(*n)
		}
	}
	return b.f(evalNode(n, func(a *Node) value { return evalNode(a, nil, nil) }, nil).f)
}

// identities drops x*1 and turns select(c, x, x) into x; adding 0 is kept, since -0 + 0 is +0.
func identities(b *builder, n *Node) *Node {
	switch {
	case n.Op == OpMul && isConst(n.Args[1], 1):
		return n.Args[0]
	case n.Op == OpMul && isConst(n.Args[0], 1):
		return n.Args[1]
	case n.Op == OpSelect && n.Args[1] == n.Args[2]:
		return n.Args[1]
	}
	return b.add(*n)
}

func isConst(n *Node, x float32) bool {
	return n.Op == OpConst && math.Float32bits(n.F) == math.Float32bits(x)
}

// Check verifies a graph: order, arity and types.
func Check(g *Graph) error {
	for i, n := range g.Nodes {
		info := opTable[n.Op]
		if n.ID != i {
			return fmt.Errorf("node %d (%s) is numbered %d", i, n.Op, n.ID)
		}
		if len(n.Args) != len(info.args) {
			return fmt.Errorf("node %d (%s) has %d arguments, not %d", i, n.Op, len(n.Args), len(info.args))
		}
		for j, a := range n.Args {
			if a.ID >= i || g.Nodes[a.ID] != a {
				return fmt.Errorf("node %d (%s): argument %d does not stand before it", i, n.Op, j)
			}
			if a.Type != info.args[j] {
				return fmt.Errorf("node %d (%s): argument %d is %s, not %s", i, n.Op, j, a.Type, info.args[j])
			}
		}
	}
	return nil
}
