// Package nvtool finds the command-line tools of NVIDIA's toolkit that tests and reports use. None is needed to build or run
// fsgen; make tools fetches them from PyPI.
package nvtool

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ErrNotFound says that a tool is not here.
var ErrNotFound = errors.New("not found")

// Find looks for a tool such as ptxas: at $FSGEN_PTXAS, else .tools/bin/ptxas in the module that holds the working
// directory, else on PATH.
func Find(name string) (path string, err error) {
	env := "FSGEN_" + strings.ToUpper(name)
	if p := os.Getenv(env); p != "" {
		if _, err := os.Stat(p); err != nil {
			return "", fmt.Errorf("%s: %s: %w", name, env, err)
		}
		return p, nil
	}
	if dir, err := os.Getwd(); err == nil {
		if p := inModule(dir, name); p != "" {
			return p, nil
		}
	}
	if p, err := exec.LookPath(name); err == nil {
		return p, nil
	}
	return "", fmt.Errorf("%s: %w (looked at $%s, .tools/bin/%s up to go.mod, and PATH; make tools fetches it)", name, ErrNotFound, env, name)
}

// inModule returns the tool in .tools/bin beside the go.mod at or above dir, if it is there.
func inModule(dir, name string) string {
	for {
		p := filepath.Join(dir, ".tools", "bin", name)
		if _, err := os.Stat(p); err == nil {
			return p
		}
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return ""
		}
		up := filepath.Dir(dir)
		if up == dir {
			return ""
		}
		dir = up
	}
}

// TB is the part of testing.TB that ForTest needs.
type TB interface {
	Helper()
	Skip(...any)
	Fatal(...any)
}

// ForTest finds a tool for a test. Where there is none the test is skipped with the reason, or fails if
// FSGEN_REQUIRE_PTXAS=1, in the case of ptxas.
func ForTest(t TB, name string) (path string) {
	t.Helper()
	path, err := Find(name)
	switch {
	case err == nil:
	case os.Getenv("FSGEN_REQUIRE_"+strings.ToUpper(name)) == "1":
		t.Fatal(err)
	default:
		t.Skip(err)
	}
	return path
}
