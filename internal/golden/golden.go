// Package golden compares what a test made with files that were looked at and committed. Tests of a package that imports
// it take the flag -update, which writes the files instead: go test ./gen -update, then read the diff.
package golden

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

var update = flag.Bool("update", false, "write golden files instead of comparing with them")

// TB is the part of testing.TB that is needed.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
}

// File compares data with the file at path.
func File(t TB, path string, data []byte) {
	t.Helper()
	if *update {
		if err := write(path, data); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Errorf("%v (run the test with -update to write it)", err)
		return
	}
	if d := Diff(want, data); d != "" {
		t.Errorf("%s differs (-update accepts the new text):\n%s", path, d)
	}
}

// Dir compares files by name with those of a folder that match the patterns; others of that kind there are an error, or
// removed by -update.
func Dir(t TB, dir string, files map[string][]byte, patterns ...string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		File(t, filepath.Join(dir, name), files[name])
	}
	for _, pattern := range patterns {
		there, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range there {
			if files[filepath.Base(path)] != nil {
				continue
			}
			if !*update {
				t.Errorf("%s: no test makes this file", path)
			} else if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func write(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}

// Diff shows the first line in which two texts differ, with its number; "" if they are equal.
func Diff(want, got []byte) string {
	if bytes.Equal(want, got) {
		return ""
	}
	w, g := bytes.Split(want, []byte("\n")), bytes.Split(got, []byte("\n"))
	line := func(x [][]byte, i int) string {
		if i < len(x) {
			return string(x[i])
		}
		return "(end)"
	}
	i := 0
	for i < len(w) && i < len(g) && bytes.Equal(w[i], g[i]) {
		i++
	}
	return fmt.Sprintf("line %d\nwant: %s\ngot:  %s\n(%d lines, %d wanted)", i+1, line(w, i), line(g, i), len(g), len(w))
}
