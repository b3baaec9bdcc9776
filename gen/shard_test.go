package gen

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/manifest"
)

// TestGatherBringsAllThatIsResolved: whatever a kernel leaves of a row for the one that resolves it, the stage between them brings
// together with what other ranks have left. What follows from decisions alone is the same on all ranks: states, open rows and pivots; and
// sums of the first pass stay for further ones. What is kept of a row the resolving stage itself leaves.
func TestGatherBringsAllThatIsResolved(t *testing.T) {
	all, err := shardCorpus()
	require.NoError(t, err)
	some := 0
	for _, v := range all.sorted() {
		gather := v.Manifest.GatherKernel()
		if gather == nil {
			continue
		}
		some++
		decided := map[string]bool{manifest.States: true, manifest.Open: true, manifest.Pivots: true, manifest.Masses: v.Options.Further, manifest.Kept: true}
		for _, p := range v.Manifest.StageKernel().Params {
			if (p.Access == "workspace" || p.Access == "scratch") && !decided[p.Name] {
				require.NotNil(t, gather.Param(p.Name), "%s: nobody brings %s together", v.name(), p.Name)
			}
		}
	}
	require.Positive(t, some)
}
