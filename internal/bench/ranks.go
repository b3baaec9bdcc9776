package bench

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
)

// RanksConfig says what is timed of ranks that share a vocabulary.
type RanksConfig struct {
	Shape ir.Shape
	// Computation is what they sample; its chain is of scale, softcap and temperature.
	Computation ir.Computation
	Batches     []int
	Group       sampler.GroupConfig // with its transport peer, or none named
	Replays     int
	// Progress, where not nil, hears how many batch sizes are done.
	Progress func(done, total int)
}

// Check reports what cannot be timed.
func (c *RanksConfig) Check() error {
	chain := c.Computation.Chain
	switch {
	case chain.Mask || chain.Bias != ir.BiasNone || chain.Edits():
		return fmt.Errorf("bench: ranks are timed with a chain of scale, softcap and temperature, not %s", chain)
	case len(c.Batches) == 0 || c.Replays < 1:
		return fmt.Errorf("bench: ranks want batch sizes and replays")
	}
	return c.Shape.Validate()
}

// RanksReport is what launches of all ranks side by side take, and those of the first rank's GPU alone: with the whole head, and with
// its shard, where each rank has a GPU of its own.
type RanksReport struct {
	Schema    int               `json:"schema"`
	Devices   []string          `json:"devices"`
	Transport sampler.Transport `json:"transport"`
	Shape     ir.Shape          `json:"shape"`
	Times     []RanksTime       `json:"times"`
}

// RanksTime is of one batch size: microseconds a launch, medians over replays.
type RanksTime struct {
	Batch int     `json:"batch"`
	One   float64 `json:"one_us"`
	Shard float64 `json:"shard_us,omitempty"` // what ranks would take if they had nothing to tell one another
	Ranks float64 `json:"ranks_us"`
}

// OfIdeal is the share that ranks reach of n times the speed of one GPU.
func (t RanksTime) OfIdeal(n int) float64 { return t.One / float64(n) / t.Ranks }

// WriteJSON writes the report.
func (r *RanksReport) WriteJSON(w io.Writer) error { return json.NewEncoder(w).Encode(r) }

// WriteTable writes the report as text.
func (r *RanksReport) WriteTable(w io.Writer) error {
	_, err := fmt.Fprintf(w, "V=%d D=%d, %d ranks, transport %s\n%6s %12s %12s %12s %8s %8s\n", r.Shape.Vocab, r.Shape.Hidden, len(r.Devices), r.Transport,
		"batch", "one GPU us", "shard us", "ranks us", "speedup", "of ideal")
	for _, t := range r.Times {
		shard := "-"
		if t.Shard > 0 {
			shard = fmt.Sprintf("%.1f", t.Shard)
		}
		if err == nil {
			_, err = fmt.Fprintf(w, "%6d %12.1f %12s %12.1f %8.2f %8.3f\n", t.Batch, t.One, shard, t.Ranks, t.One/t.Ranks, t.OfIdeal(len(r.Devices)))
		}
	}
	return err
}
