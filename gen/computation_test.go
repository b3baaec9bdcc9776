package gen

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/manifest"
)

// Of every kernel the plan is made again from its manifest, and a launch with less shared memory than it stores to is refused.
func TestArtifactsHaveTheirSharedMemory(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		ptx, err := os.ReadFile(file[:len(file)-len(".json")] + ".ptx")
		require.NoError(t, err)
		m, err := manifest.Decode(text)
		require.NoError(t, err)
		plan, err := (&Artifact{Manifest: m}).plan()
		require.NoError(t, err, file)
		has, need := m.Launch.SharedBytes, plan.Storage.Total
		if m.FurtherOf == "" {
			require.Equal(t, need, has, file)
		}
		_, err = LoadArtifact(ptx, m.Encode())
		require.NoError(t, err, file)
		m.Launch.SharedBytes = need - 1
		_, err = LoadArtifact(ptx, m.Encode())
		require.EqualError(t, err, fmt.Sprintf("manifest: launch.shared_bytes is %d: the kernel stores %d there", need-1, need), file)
		m.Generator = "another"
		_, err = LoadArtifact(ptx, m.Encode())
		require.NoError(t, err, file)
	}
}
