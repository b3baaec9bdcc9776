package sampler

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/fsgen/fsgen/internal/rendezvous"
	"github.com/fsgen/fsgen/ir"
)

// Processes of a group that are given different things would come to different tokens, or to none that are right: what crosses between
// ranks says nothing of what it was found from. So they tell one another what they were given.

// otherProcesses is what a group asks of the processes of its other ranks.
type otherProcesses interface {
	// seeds are the same on all ranks.
	seeds(ctx context.Context, n int) ([]uint64, error)
	// tell gives all ranks a text of each, at most rendezvous.MaxBlob bytes, by rank.
	tell(ctx context.Context, text []byte) ([][]byte, error)
	name() string
}

// agree holds all processes to one and the same of everything that is given, by what each thing is called. It returns the same error on
// all.
func (g *Group) agree(ctx context.Context, given map[string]string) error {
	if g.others == nil {
		return nil
	}
	text, err := json.Marshal(given)
	if err != nil {
		return err
	}
	all, err := g.others.tell(ctx, text)
	if err != nil {
		return fmt.Errorf("sampler: what all ranks are given: %w", err)
	}
	return disagreement(g.others.name(), all)
}

// disagreement is the first thing in which a rank differs from rank 0, nil if there is none.
func disagreement(group string, all [][]byte) error {
	var first map[string]string
	for rank, text := range all {
		var given map[string]string
		if err := json.Unmarshal(text, &given); err != nil {
			return fmt.Errorf("sampler: rank %d of group %q told nothing that can be read: %w", rank, group, err)
		}
		if rank == 0 {
			first = given
		}
		for _, what := range slices.Sorted(maps.Keys(first)) {
			if want, has := first[what], given[what]; has != want {
				return &rendezvous.MismatchError{Group: group, Rank: rank, What: what, Want: cmp.Or(want, "none"), Has: cmp.Or(has, "none")}
			}
		}
	}
	return nil
}

// given is what all ranks must be told of a head. Its spans are their digest where they are many.
func (w Weights) given(spans []ir.Span) map[string]string {
	parts := fmt.Sprint(spans)
	if len(parts) > 100 {
		parts = digest(parts)
	}
	return map[string]string{"vocabulary": fmt.Sprint(w.Vocab), "hidden size": fmt.Sprint(w.Hidden), "layout": string(cmp.Or(w.Layout, RowMajor)), "vocabulary's spans": parts}
}

// given is what all ranks must be told of a plan: how it tunes, and whether launches overlap, is each one's own.
func (s Spec) given() map[string]string {
	c := s.Computation()
	return map[string]string{"transform": c.Chain.String(), "sampler": c.Sampler.String(), "extras": c.Extras(), "score": fmt.Sprint(c.Score),
		"log-sum-exp": fmt.Sprint(c.LogSumExp), "passes": fmt.Sprint(s.Passes), "max batch": fmt.Sprint(s.MaxBatch), "tile": fmt.Sprint(s.Tile, s.CTAs)}
}

// Agree holds all processes of the plan's group to the same hidden states and rows: Sample and launches take them as they are. All call it. Whoever
// differs is a *MismatchError on all of them. It sends digests over the host; ranks of one process have nothing to agree on.
func (p *GroupPlan) Agree(ctx context.Context, hidden []uint16, rows Rows) error {
	if err := p.open.enter(); err != nil {
		return err
	}
	defer p.open.leave()
	if p.h.g.others == nil {
		return nil
	}
	given := map[string]string{"hidden states": fmt.Sprintf("%d values, digest %s", len(hidden), digest(hidden))}
	fields := reflect.ValueOf(rows)
	for i := range fields.NumField() {
		given[fields.Type().Field(i).Name] = digest(fields.Field(i).Interface())
	}
	return p.h.g.agree(ctx, given)
}

// digest is short, and differs where values do.
func digest(value any) string {
	h := sha256.New()
	if binary.Write(h, binary.LittleEndian, value) != nil { // what is no array of numbers is hashed as text
		fmt.Fprint(h, value)
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:6])
}
