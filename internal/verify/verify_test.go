package verify

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/sampler"
)

func cpu(t testing.TB) *sampler.Device {
	dev, err := sampler.Open(sampler.CPU)
	require.NoError(t, err)
	return dev
}

// show logs every check of a report, and marks the failed ones as errors.
func show(t *testing.T, rep *Report) {
	t.Helper()
	for _, c := range rep.Checks {
		log := t.Logf
		if !c.OK {
			log = t.Errorf
		}
		log("ok=%v %s (%s): %d rows, %d near ties, %v\n%s", c.OK, c.Name, c.Case, c.Rows, c.NearTies, c.Elapsed, c.Detail)
	}
}

// passes runs a suite on the CPU and wants every check to pass.
func passes(t *testing.T, name string) {
	rep, err := Run(t.Context(), cpu(t), Options{Suite: name, Seed: 1})
	require.NoError(t, err)
	show(t, rep)
	require.Zero(t, rep.Failed)
	require.NotZero(t, rep.Passed)
}

func TestQuick(t *testing.T) { passes(t, "quick") }

func TestDegenerate(t *testing.T) { passes(t, "degenerate") }

func TestInvariance(t *testing.T) { passes(t, "invariance") }

