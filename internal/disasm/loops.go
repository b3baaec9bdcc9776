package disasm

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Loop is a natural loop: the instructions from which its backward branches are reached without passing the head, and the
// head, which every way into the loop passes.
type Loop struct {
	Head int   // index of the first instruction
	Body []int // indices, ascending; the head among them
	// Parent is the smallest loop around it, or nil.
	Parent *Loop
}

// Has reports whether an instruction is in the loop.
func (l *Loop) Has(i int) bool {
	_, found := slices.BinarySearch(l.Body, i)
	return found
}

// Loops finds the natural loops of the code that is reached from the first instruction, smallest first. Backward branches
// to one head are one loop.
func (p *Program) Loops() ([]*Loop, error) {
	g, err := newGraph(p)
	if err != nil {
		return nil, err
	}
	var loops []*Loop
	for head, body := range g.bodies() {
		loops = append(loops, &Loop{Head: head, Body: slices.Sorted(maps.Keys(body))})
	}
	slices.SortFunc(loops, func(a, b *Loop) int {
		return cmp.Or(cmp.Compare(len(a.Body), len(b.Body)), cmp.Compare(a.Head, b.Head))
	})
	nest(loops)
	return loops, nil
}

// nest sets the parents.
func nest(loops []*Loop) {
	for i, l := range loops {
		for _, outer := range loops[i+1:] {
			if outer.Head != l.Head && outer.Has(l.Head) {
				l.Parent = outer
				break
			}
		}
	}
}

// graph is the control flow between instructions, and the immediate dominators (Cooper, Harvey and Kennedy, "A Simple, Fast
// Dominance Algorithm", 2001).
type graph struct {
	next, prev [][]int
	order      []int // reached instructions, in reverse postorder
	place      []int // of an instruction in order; -1 where it is not reached
	idom       []int // by place
}

func newGraph(p *Program) (*graph, error) {
	n := len(p.Instrs)
	g := &graph{next: make([][]int, n), prev: make([][]int, n), place: make([]int, n)}
	for i := range n {
		var err error
		if g.next[i], err = p.successors(i); err != nil {
			return nil, err
		}
	}
	g.sort()
	for _, i := range g.order {
		for _, j := range g.next[i] {
			g.prev[j] = append(g.prev[j], i)
		}
	}
	g.dominators()
	return g, nil
}

// sort walks the graph depth first, without recursion: code is tens of thousands of instructions deep.
func (g *graph) sort() {
	seen := make([]bool, len(g.next))
	type frame struct{ node, child int }
	stack := []frame{{0, 0}}
	seen[0] = true
	for len(stack) > 0 {
		top := &stack[len(stack)-1]
		if top.child == len(g.next[top.node]) {
			g.order = append(g.order, top.node)
			stack = stack[:len(stack)-1]
			continue
		}
		to := g.next[top.node][top.child]
		top.child++
		if !seen[to] {
			seen[to] = true
			stack = append(stack, frame{to, 0})
		}
	}
	slices.Reverse(g.order)
	for i := range g.place {
		g.place[i] = -1
	}
	for at, i := range g.order {
		g.place[i] = at
	}
}

func (g *graph) dominators() {
	g.idom = make([]int, len(g.order))
	for at := range g.idom {
		g.idom[at] = -1
	}
	g.idom[0] = 0
	for changed := true; changed; {
		changed = false
		for at := 1; at < len(g.order); at++ {
			best := -1
			for _, i := range g.prev[g.order[at]] {
				if from := g.place[i]; g.idom[from] >= 0 {
					best = g.common(from, best)
				}
			}
			if best != g.idom[at] {
				g.idom[at], changed = best, true
			}
		}
	}
}

// common is the nearest place that dominates both.
func (g *graph) common(a, b int) int {
	if b < 0 {
		return a
	}
	for a != b {
		for a > b {
			a = g.idom[a]
		}
		for b > a {
			b = g.idom[b]
		}
	}
	return a
}

// dominates reports whether every way to instruction i passes instruction d.
func (g *graph) dominates(d, i int) bool {
	at := g.place[i]
	for at > g.place[d] {
		at = g.idom[at]
	}
	return at == g.place[d]
}

// bodies finds what each loop head's backward branches are reached from.
func (g *graph) bodies() map[int]map[int]bool {
	bodies := map[int]map[int]bool{}
	for _, i := range g.order {
		for _, head := range g.next[i] {
			if !g.dominates(head, i) {
				continue
			}
			if bodies[head] == nil {
				bodies[head] = map[int]bool{head: true}
			}
			g.collect(bodies[head], i)
		}
	}
	return bodies
}

// collect adds to a loop's body all that reaches instruction i without passing what is in it.
func (g *graph) collect(body map[int]bool, i int) {
	work := []int{i}
	for len(work) > 0 {
		i := work[len(work)-1]
		work = work[:len(work)-1]
		if !body[i] {
			body[i] = true
			work = append(work, g.prev[i]...)
		}
	}
}

// MainLoops finds the loops that feed the tensor cores: every instruction of the mnemonic mma must lie in one, and each must
// wait for its operands (an instruction of the mnemonic wait), and stand inside another loop, the one over tiles. Loops that
// wait for nothing are passed over: ptxas repeats single instructions of tcgen05 for each active thread.
func (p *Program) MainLoops(mma, wait string) (main []*Loop, err error) {
	at := p.Indices(mma)
	if len(at) == 0 {
		return nil, fmt.Errorf("disasm: there is no %s", mma)
	}
	loops, err := p.Loops()
	if err != nil {
		return nil, err
	}
	waits := p.Indices(wait)
	for _, i := range at {
		inner := slices.IndexFunc(loops, func(l *Loop) bool { return l.Has(i) && slices.ContainsFunc(waits, l.Has) })
		if inner < 0 {
			return nil, fmt.Errorf("disasm: %s is in no loop that has a %s", p.Instrs[i], wait)
		}
		l := loops[inner]
		if l.Parent == nil {
			return nil, fmt.Errorf("disasm: %s is in an outermost loop, from %s: there is none over blocks of k in it", p.Instrs[i], p.Instrs[l.Head])
		}
		if !slices.Contains(main, l) {
			main = append(main, l)
		}
	}
	return main, nil
}
