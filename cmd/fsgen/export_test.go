package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/autotune"
)

// A table that another run has added to since this one began keeps what that run added.
func TestExportAddsToTheTableAsItIs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "table.json")
	require.NoError(t, os.WriteFile(path, nil, 0o600)) // as mktemp leaves it
	all := autotune.Builtin().Entries()
	require.NoError(t, exportTunings(path, all[:1]))
	require.NoError(t, exportTunings(path, all[1:3]))
	got, err := readTable(path)
	require.NoError(t, err)
	require.Equal(t, all[:3], got.Entries())
	require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
	require.ErrorContains(t, exportTunings(path, all[:1]), "no table of this fsgen")
}
