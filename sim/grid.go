package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/fsgen/fsgen/internal/isa"
)

// grid is one launch under way.
type grid struct {
	p        *Program
	mem      *Memory
	ctas     int
	params   []byte
	maps     []*TensorMap
	clusters []*cluster
	seed     uint64
	workers  int
	rng      *rand.Rand
	idle     int // progress at the last standstill
	stale    int // standstills since anything changed
	rounds   int
	asleep   bool // some cluster sat the last round out
	since    int  // steps at the last progress
	most     int  // progress then
	link     *link
	found    findings
}

// stuckAfter is the instructions of the grid without any that others can notice, after which it is given up; speedRounds how
// many rounds clusters keep their speeds.
const (
	stuckAfter  = 1 << 22
	speedRounds = 16
	// Once in so many rounds a warp of a cluster falls asleep, for so many rounds at most.
	stallOdds    = 16
	longestSleep = 64
)

// quanta are the instructions of a cluster in one round: short rounds let global memory change often, long ones are quick.
var quanta = [...]int{64, 512, 4096, 4096}

// run steps all clusters until they have ended or can go no further.
func (g *grid) run(ctx context.Context) error {
	for !g.finished() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !g.advance() {
			return nil
		}
	}
	return nil
}

// advance steps all clusters once. It reports false when they can go no further.
func (g *grid) advance() bool {
	before := g.steps()
	g.round()
	moved := g.settle()
	if g.finished() {
		return true
	}
	if p := g.progress(); p != g.most {
		g.most, g.since = p, g.steps()
	} else if g.link == nil && g.steps()-g.since > stuckAfter { // who waits for other ranks looks at the clock
		g.report(Livelock, "threads run in circles")
		return false
	}
	if !moved && !g.asleep && g.steps() == before && !g.expire() {
		g.report(Deadlock, "nothing can run")
		return false
	}
	return true
}

func (g *grid) finished() bool {
	for _, c := range g.clusters {
		if !c.finished() {
			return false
		}
	}
	return true
}

func (g *grid) steps() int    { return g.sum(func(c *cluster) int { return c.steps }) }
func (g *grid) progress() int { return g.sum(func(c *cluster) int { return c.progress }) }

func (g *grid) sum(f func(*cluster) int) int {
	n := 0
	for _, c := range g.clusters {
		n += f(c)
	}
	return n
}

// round runs every cluster for a quantum, spread over the workers. Clusters share only global memory, which nobody writes
// meanwhile.
func (g *grid) round() {
	quantum := g.drawRound()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(g.workers, len(g.clusters)) {
		wg.Go(func() {
			for i := next.Add(1) - 1; int(i) < len(g.clusters); i = next.Add(1) - 1 {
				if c := g.clusters[i]; !c.asleep {
					c.run(quantum)
				}
			}
		})
	}
	wg.Wait()
}

// drawRound decides how long a round is, which clusters sit it out, and which warps fall asleep for a while: what happens
// to come in time as a rule is found missing when a warp comes very late.
func (g *grid) drawRound() (quantum int) {
	fresh := g.rounds%speedRounds == 0
	g.rounds++
	g.asleep = false
	for _, c := range g.clusters {
		if fresh {
			c.speed = []int{1, 1, 1, 8}[g.rng.IntN(4)]
		}
		if len(c.warps) > 0 && g.rng.IntN(stallOdds) == 0 {
			c.warps[g.rng.IntN(len(c.warps))].asleepUntil = g.rounds + g.rng.IntN(longestSleep)
		}
		c.asleep = g.rng.IntN(c.speed) != 0
		g.asleep = g.asleep || c.asleep
		for _, w := range c.warps {
			g.asleep = g.asleep || w.asleepUntil > g.rounds
		}
	}
	return quanta[g.rng.IntN(len(quanta))]
}

// settle does the accesses to global memory that the round left, in random order.
func (g *grid) settle() bool {
	var all []*deferred
	for _, c := range g.clusters {
		for i := range c.deferred {
			all = append(all, &c.deferred[i])
		}
	}
	g.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for i, d := range all {
		if i == 0 || g.rng.IntN(4) != 0 { // others come later still
			d.apply()
		}
	}
	for _, c := range g.clusters {
		c.deferred = slices.DeleteFunc(c.deferred, func(d deferred) bool { return d.wait.done })
	}
	return len(all) > 0
}

// expire ends waits that have a time limit, since nothing else can happen. It reports false if that has been tried without
// any change.
func (g *grid) expire() bool {
	if p := g.progress(); p != g.idle {
		g.idle, g.stale = p, 0
	}
	if g.stale++; g.stale > 2 {
		return false
	}
	any := false
	for _, c := range g.clusters {
		for _, w := range c.warps {
			for _, x := range w.groups {
				if _, ok := x.wait.(*phaseWait); ok {
					x.expired, any = true, true
				}
			}
		}
	}
	return any
}

// report describes where every thread stands, once the run has come to an end that is none.
func (g *grid) report(kind Kind, what string) {
	var first *Finding
	where := map[string][]string{}
	for _, c := range g.clusters {
		for _, w := range c.warps {
			for _, x := range w.groups {
				o := &g.p.ops[x.pc]
				if x.wait != nil && x.pc > 0 && !x.expired {
					o = g.blockedAt(x)
				}
				text := fmt.Sprintf("line %d %s: %s", o.line, instrText(o), w.why(x, o))
				where[text] = append(where[text], fmt.Sprintf("CTA %d warp %d lanes %08x", w.cta.id, w.id, x.mask))
				if first == nil {
					first = &Finding{Kind: kind, Kernel: g.p.manifest.Entry, Line: o.line, Instr: instrText(o), CTA: w.cta.id, Warp: w.id, Lane: -1}
				}
				if miss := w.missing(x, o); miss != 0 && x.wait == nil && o.demandsTogether() {
					g.found.add(Finding{Kind: Divergence, Kernel: g.p.manifest.Entry, Line: o.line, Instr: instrText(o), CTA: w.cta.id, Warp: w.id,
						Lane: -1, Text: fmt.Sprintf("lanes %08x wait for lanes %08x of their warp, which stand elsewhere", x.mask, miss)})
				}
			}
		}
	}
	if first == nil {
		return
	}
	first.Text = what + standing(where)
	g.found.add(*first)
}

// demandsTogether reports whether threads that are apart break a rule; barrier without .aligned only makes them wait.
func (o *op) demandsTogether() bool {
	return o.sync == syncMask || o.in != nil && o.in.Form.Effects()&isa.Converge != 0
}

// standing lists the places with the threads at each.
func standing(where map[string][]string) string {
	var b strings.Builder
	keys := make([]string, 0, len(where))
	for k := range where {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		who := where[k]
		if len(who) > 4 {
			who = append(who[:4:4], fmt.Sprintf("and %d more", len(where[k])-4))
		}
		fmt.Fprintf(&b, "\n  %s\n    %s", k, strings.Join(who, ", "))
	}
	return b.String()
}

// blockedAt is the instruction that a waiting group has begun: waits that try again stand at it, others past it.
func (g *grid) blockedAt(x *group) *op {
	if _, ok := x.wait.(*phaseWait); ok {
		return &g.p.ops[x.pc]
	}
	return &g.p.ops[x.pc-1]
}

func instrText(o *op) string {
	if o.in == nil {
		return "end of function"
	}
	return strings.TrimSuffix(o.in.String(), ";")
}

func (w *warp) why(g *group, o *op) string {
	if g.wait != nil {
		return "waits for " + g.wait.describe(w, g)
	}
	if miss := w.missing(g, o); miss != 0 {
		return fmt.Sprintf("waits for lanes %08x of the warp to come to the same instruction", miss)
	}
	return "runs"
}
