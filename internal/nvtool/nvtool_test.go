package nvtool

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// place makes an executable file and returns its path.
func place(t *testing.T, elements ...string) string {
	path := filepath.Join(elements...)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755))
	return path
}

func TestFindInOrder(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	place(t, dir, "module", "go.mod")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "module", "a", "b"), 0o755))
	t.Chdir(filepath.Join(dir, "module", "a", "b"))
	t.Setenv("PATH", filepath.Join(dir, "bin"))

	_, err = Find("mytool")
	require.ErrorIs(t, err, ErrNotFound)
	require.ErrorContains(t, err, "mytool: not found (looked at $FSGEN_MYTOOL, .tools/bin/mytool up to go.mod, and PATH; make tools fetches it)")

	finds := func(want string) {
		t.Helper()
		got, err := Find("mytool")
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	place(t, dir, ".tools", "bin", "mytool") // another module's
	finds(place(t, dir, "bin", "mytool"))
	finds(place(t, dir, "module", ".tools", "bin", "mytool"))
	named := place(t, dir, "elsewhere", "mytool")
	t.Setenv("FSGEN_MYTOOL", named)
	finds(named)
	t.Setenv("FSGEN_MYTOOL", filepath.Join(dir, "nowhere"))
	_, err = Find("mytool")
	require.ErrorContains(t, err, "FSGEN_MYTOOL", "a name that is given must be right")
	require.NotErrorIs(t, err, ErrNotFound)
}

type fakeTB struct{ skipped, failed bool }

func (f *fakeTB) Helper()      {}
func (f *fakeTB) Skip(...any)  { f.skipped = true }
func (f *fakeTB) Fatal(...any) { f.failed = true }

func TestMissingToolSkipsOrFails(t *testing.T) {
	t.Setenv("FSGEN_MYTOOL", filepath.Join(t.TempDir(), "nowhere"))
	for required, want := range map[string]fakeTB{"": {skipped: true}, "1": {failed: true}} {
		t.Setenv("FSGEN_REQUIRE_MYTOOL", required)
		var tb fakeTB
		ForTest(&tb, "mytool")
		require.Equal(t, want, tb)
	}
}
