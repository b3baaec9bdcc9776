package sim

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/fsgen/fsgen/internal/isa"
)

// Several ranks run side by side, a grid each, that store to one another's memory: Block.Owner says whose an allocation is. Such a
// store travels, and arrives at some time after it was made, in any order with others, unless a release at system scope makes
// those before it arrive first. The owner sees what has arrived.

// RankLaunch is one launch of a rank.
type RankLaunch struct {
	Program *Program
	Launch  Launch
}

// Rank is a rank of a group: its launches, each of which begins when the one before it has ended.
type Rank struct {
	Launches []RankLaunch
	// Late is how many turns the rank comes after the others. Absent is a rank that does not come.
	Late   int
	Absent bool
}

// GroupOptions say how a group runs.
type GroupOptions struct {
	// Seed decides in which order ranks have their turns and stores arrive.
	Seed uint64
	// Lost, if not nil, reports whether stores of one rank to another get lost, by their numbers from 0.
	Lost func(from, to int) bool
}

// RunGroup runs ranks over one memory until all that come have ended, or none can go on. It returns a report for each launch of each
// rank, none for absent ones. Errors are as of Program.Run.
func RunGroup(ctx context.Context, mem *Memory, ranks []Rank, o GroupOptions) ([][]*Report, error) {
	rng := rand.New(rand.NewPCG(o.Seed, 1))
	var runs []*rankRun
	for i, rank := range ranks {
		if rank.Absent {
			rank.Launches = nil
		}
		r := &rankRun{Rank: rank, mem: mem, link: &link{rank: i, lost: o.Lost, rng: rand.New(rand.NewPCG(o.Seed, uint64(i)+2))}}
		runs = append(runs, r)
	}
	for going := true; going; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		going = false
		for _, i := range rng.Perm(len(runs)) {
			more, err := runs[i].turn(rng)
			if err != nil {
				return nil, fmt.Errorf("rank %d: %w", i, err)
			}
			going = going || more
		}
	}
	var reports [][]*Report
	for _, r := range runs {
		reports = append(reports, r.reports)
	}
	return reports, nil
}

// rankRun is a rank under way.
type rankRun struct {
	Rank
	mem     *Memory
	link    *link
	grid    *grid // of the first of the launches that are left; nil before it begins
	reports []*Report
}

// turn steps the rank once, or lets it be late. It reports false if the rank has ended.
func (r *rankRun) turn(rng *rand.Rand) (more bool, err error) {
	if len(r.Launches) == 0 {
		return false, nil
	}
	if r.Late--; r.Late < 0 && rng.IntN(4) != 0 {
		if r.grid == nil {
			if r.grid, err = r.Launches[0].Program.newGrid(r.mem, r.Launches[0].Launch); err != nil {
				return false, err
			}
			r.grid.link = r.link
		}
		if !r.grid.advance() || r.grid.finished() {
			r.link.deliver(true) // the end of a launch orders what it stored
			r.reports, r.grid, r.Launches = append(r.reports, r.grid.finish()), nil, r.Launches[1:]
			return true, nil
		}
	}
	r.link.deliver(false)
	return true, nil
}

// link is what a rank has stored to the memory of others, as far as it has not arrived.
type link struct {
	rank int
	lost func(from, to int) bool
	rng  *rand.Rand
	way  []*parcel
}

// parcel is a store on its way.
type parcel struct {
	to   *Block
	at   int
	data []byte
}

// arriveOdds is how rarely a store arrives in a turn.
const arriveOdds = 6

// deliver lets some stores arrive, or all.
func (l *link) deliver(all bool) {
	l.rng.Shuffle(len(l.way), func(i, j int) { l.way[i], l.way[j] = l.way[j], l.way[i] })
	var left []*parcel
	for _, p := range l.way {
		if !all && l.rng.IntN(arriveOdds) != 0 {
			left = append(left, p)
			continue
		}
		p.to.Write(p.at, p.data)
	}
	l.way = left
}

// settle lets all stores arrive. A rank by itself has none.
func (l *link) settle() {
	if l != nil {
		l.deliver(true)
	}
}

// far returns where the bytes of a store go that is to another rank's memory: nil for any other.
func (s *step) far(space isa.Space, lane int, addr uint64, n, align int) []byte {
	l := s.w.cta.cluster.grid.link
	if l == nil {
		return nil
	}
	if space, addr = resolve(space, addr); space != isa.Global || addr%uint64(align) != 0 {
		return nil
	}
	b, at := s.w.cta.cluster.grid.mem.find(addr, n)
	if b == nil || b.Owner == 0 || b.Owner == l.rank+1 {
		return nil
	}
	p := &parcel{b, at, make([]byte, n)}
	if l.lost == nil || !l.lost(l.rank, b.Owner-1) {
		l.way = append(l.way, p)
	}
	return p.data
}

// releasesToSystem reports whether a store is a release at system scope.
func releasesToSystem(f isa.Form) bool { return f.Has("release.sys") }
