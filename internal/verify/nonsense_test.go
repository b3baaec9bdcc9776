package verify

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
)

// nonsense answers every call with the next few numbers, and refuses nothing.
func nonsense(t *testing.T) *lens {
	var next atomic.Uint32
	return &lens{target: device{cpu(t)},
		info: func(i sampler.Info) sampler.Info { i.Arch = arch.SM90.Name; return i },
		sample: func(p *lensPlan, hidden []uint16, _ sampler.Rows) (*sampler.Result, error) {
			n := len(hidden)/p.w.Hidden + 1/(1+len(hidden)) // a row too many for an empty batch
			res := &sampler.Result{Tokens: make([]int32, n), Status: make([]ir.Status, n)}
			if p.spec.Score {
				res.Scores = make([]float32, n)
			}
			for b := range n {
				res.Tokens[b] = int32(next.Add(1) % 3 % uint32(p.w.Vocab))
			}
			return res, nil
		}}
}

// TestNoCheckPassesNonsense runs every check of every suite, those of a GPU too, on a device that answers nonsense. The
// large heads of suite full take minutes of reference; they differ from its small ones in their size alone.
func TestNoCheckPassesNonsense(t *testing.T) {
	checks := only(t, nonsense(t), Options{Suite: "full", Seed: 1, Draws: 20000}, func(it item) bool {
		large := strings.HasPrefix(it.name, "V=") && !strings.HasPrefix(it.name, "V=1000, D=7") || strings.HasPrefix(it.name, "a large head")
		return !large
	})
	require.Greater(t, len(checks), 70)
	for _, c := range checks {
		require.False(t, c.OK, "%s passes", c.Name)
	}
}
