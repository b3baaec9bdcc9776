//go:build !fsgen_nocuda

package sampler

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
)

// Kernels load and store 16 bytes at a time where the arrays of a workspace hold records of 16: none may begin elsewhere, whatever
// the number of rows.
func TestWorkspaceArraysAreAligned(t *testing.T) {
	for rows := 1; rows < 70; rows++ {
		for _, spec := range []Spec{{}, {Truncation: ir.Truncation{TopP: true}}, {Draws: ir.WithReplacement, MaxDraws: 2}} {
			p := &cudaPlan{spec: spec}
			zeroed, all := p.spaceBytes(rows)
			require.Zero(t, all%16, "partial sums for %d rows", rows)
			require.LessOrEqual(t, zeroed, all)
		}
		for _, array := range []string{manifest.Counts, manifest.Marks, manifest.States, manifest.Bins, manifest.Candidates, manifest.Pivots} {
			require.Zero(t, manifest.WorkspacePlace(array, rows)%16, "%s for %d rows", array, rows)
		}
		require.Zero(t, manifest.ReportOffset(manifest.Kept, rows)%16, "%d rows", rows)
		require.Zero(t, manifest.CollectionOffset(manifest.Masses, rows)%8)
	}
}
