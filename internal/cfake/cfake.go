// Package cfake builds stand-ins for C libraries that a test machine lacks, from C source beside the test.
package cfake

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// RequireEnv names the variable that makes a missing C compiler a failure.
const RequireEnv = "FSGEN_REQUIRE_CC"

// Build compiles C source to a shared library of a test's own and returns its path. Without a C compiler the test is
// skipped with the reason, or fails where FSGEN_REQUIRE_CC is set. Functions named in without are left out of the library.
func Build(t testing.TB, source []byte, without ...string) string {
	t.Helper()
	path, err := build(t.TempDir(), source, without)
	switch {
	case errors.Is(err, exec.ErrNotFound) && os.Getenv(RequireEnv) == "":
		t.Skipf("the fake library needs a C compiler: %v", err)
	case err != nil:
		t.Fatal(err)
	}
	return path
}

func build(dir string, source []byte, without []string) (string, error) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		return "", err
	}
	file, versions, library := filepath.Join(dir, "fake.c"), filepath.Join(dir, "fake.map"), filepath.Join(dir, "libfake.so")
	if err := os.WriteFile(file, source, 0o600); err != nil {
		return "", err
	}
	local := ""
	for _, name := range without {
		local += " " + name + ";"
	}
	if local != "" {
		local = " local:" + local
	}
	if err := os.WriteFile(versions, []byte("{ global: *;"+local+" };\n"), 0o600); err != nil {
		return "", err
	}
	args := []string{"-shared", "-fPIC", "-O0", "-g", "-Wall", "-Werror", "-o", library, file, "-lm", "-Wl,--version-script=" + versions}
	if out, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", cc, err, out)
	}
	return library, nil
}
