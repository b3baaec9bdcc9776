package bench

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fsgen/fsgen/ir"
)

func TestConfigIsChecked(t *testing.T) {
	good := small()
	assert.NoError(t, good.Check())
	for want, change := range map[string]func(*Config){
		"vocab":                            func(c *Config) { c.Shape.Vocab = 0 },
		"unknown sampler":                  func(c *Config) { c.Computation.Sampler = 9 },
		"no batch sizes":                   func(c *Config) { c.Batches = nil },
		"batch size 0: want 1 or more":     func(c *Config) { c.Batches = []int{1, 0} },
		"batch size 8 is named twice":      func(c *Config) { c.Batches = []int{8, 1, 8} },
		"weights: want one of":             func(c *Config) { c.Layouts = nil },
		`weights: unknown "colmajor"`:      func(c *Config) { c.Layouts = []string{"colmajor"} },
		"weights: rowmajor is named twice": func(c *Config) { c.Layouts = []string{RowMajor, RowMajor} },
		`peers: unknown "numpy": want cub`: func(c *Config) { c.Peers = []string{"numpy"} },
		"replays are 10: want an odd":      func(c *Config) { c.Method.Replays = 10 },
	} {
		c := small()
		change(&c)
		assert.ErrorContains(t, c.Check(), want)
	}
	none := small()
	none.Peers = nil
	assert.NoError(t, none.Check())
}

func TestProblemSaysWhatIsComputed(t *testing.T) {
	c := small()
	c.Computation = ir.Computation{Sampler: ir.Greedy, Chain: ir.Chain{Temperature: true, Scale: 1}}
	assert.Equal(t, Problem{"small", 1003, 68, "none", "greedy", false, "", ""}, c.problem())
	assert.Equal(t, 2.0*1003*68, c.problem().WeightBytes())
	assert.Equal(t, "greedy", c.problem().what())
	c.Computation = ir.Computation{LogProb: ir.RawLogProb}
	assert.Equal(t, "gumbel with raw log-probabilities", c.problem().what())
	c.Computation = ir.Computation{Truncation: ir.Truncation{TopK: true, TopP: true}}
	assert.Equal(t, "gumbel with top-k,top-p", c.problem().what())
	c.Computation = ir.Computation{Sampler: ir.Grouped, LogSumExp: true}
	assert.Equal(t, "grouped with log-sum-exp", c.problem().what())
}
