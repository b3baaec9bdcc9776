package golden

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// recorder stands in for a test that fails.
type recorder struct{ said []string }

func (r *recorder) Helper()                   {}
func (r *recorder) Fatal(args ...any)         { r.said = append(r.said, fmt.Sprint(args...)) }
func (r *recorder) Errorf(f string, a ...any) { r.said = append(r.said, fmt.Sprintf(f, a...)) }

func TestDir(t *testing.T) {
	dir := t.TempDir()
	run := func(write bool, files map[string][]byte) []string {
		defer func(old bool) { *update = old }(*update)
		*update = write
		r := &recorder{}
		Dir(r, dir, files, "*.ptx")
		return r.said
	}
	first := map[string][]byte{"a.ptx": []byte("x\ny\n"), "b.ptx": []byte("z\n")}
	require.Len(t, run(false, first), 2, "files that are missing")
	require.Empty(t, run(true, first))
	require.Empty(t, run(false, first))

	changed := map[string][]byte{"a.ptx": []byte("x\nz\n")}
	said := run(false, changed)
	require.Len(t, said, 2)
	require.Contains(t, said[0], "line 2\nwant: y\ngot:  z\n")
	require.Contains(t, said[1], "b.ptx: no test makes this file")

	require.NoError(t, os.WriteFile(filepath.Join(dir, "kept.txt"), nil, 0o644))
	require.Empty(t, run(true, changed))
	require.Empty(t, run(false, changed))
	require.NoFileExists(t, filepath.Join(dir, "b.ptx"))
	require.FileExists(t, filepath.Join(dir, "kept.txt"))
}

func TestDiff(t *testing.T) {
	require.Empty(t, Diff([]byte("a"), []byte("a")))
	require.Contains(t, Diff([]byte("a\nb"), []byte("a")), "line 2\nwant: b\ngot:  (end)")
}
