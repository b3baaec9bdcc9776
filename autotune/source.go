package autotune

import (
	"github.com/fsgen/fsgen/gen"
	"github.com/fsgen/fsgen/tiling"
)

// Origin is where the choice of a candidate comes from.
type Origin string

// The origins, in the order in which a Source asks them.
const (
	FromStore   Origin = "store"   // measured on this machine
	FromTable   Origin = "table"   // measured on another with the same GPU
	FromDefault Origin = "default" // not measured: tiling.Default
)

// Source says how to serve a batch bucket: as this machine's store has it, else as a table has it, else by the default
// tile. Either may be nil. It looks up and never measures.
type Source struct {
	Store *Store
	Table *Table
}

// Choice is a kernel and how to launch it.
type Choice struct {
	Artifact *gen.Artifact
	// CTAs is the candidate's: see Grid.
	CTAs   int
	Origin Origin
}

// Choose emits the kernel of a bucket, r.Batch being the bucket and r.Tile zero. An entry of the store counts only if the
// generator still makes the very kernel that was verified and timed; one of the table if its tile can run.
func (s Source) Choose(k Key, r gen.Request) (Choice, error) {
	if a, c, origin := s.measured(k, r); a != nil {
		return Choice{a, c.CTAs, origin}, nil
	}
	a, err := gen.Emit(r)
	return Choice{a, 0, FromDefault}, err
}

// Find is Choose for who makes a kernel of his own of the candidate.
func (s Source) Find(k Key, r gen.Request) (Candidate, Origin, error) {
	if a, c, origin := s.measured(k, r); a != nil {
		return c, origin, nil
	}
	p, err := tiling.Default(r.Arch, r.Computation.Normalize(), r.Work())
	if err != nil {
		return Candidate{}, FromDefault, err
	}
	return Candidate{Tile: p.Tile}, FromDefault, nil
}

// measured is the kernel and the candidate that an entry has; nil where none counts.
func (s Source) measured(k Key, r gen.Request) (*gen.Artifact, Candidate, Origin) {
	if e := s.Store.Get(k); e != nil {
		if a, c, err := e.current(r); err == nil {
			return a, c, FromStore
		}
	}
	if e := s.Table.Get(k); e != nil {
		if a, c, err := e.emit(r); err == nil {
			return a, c, FromTable
		}
	}
	return nil, Candidate{}, FromDefault
}
