package cfake

import (
	"bytes"
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Compile runs a C or C++ compiler, "cc" or "c++". Without it the test is skipped with the reason, or fails where
// FSGEN_REQUIRE_CC is set.
func Compile(t testing.TB, compiler string, args ...string) {
	t.Helper()
	path, err := exec.LookPath(compiler)
	if err != nil {
		if os.Getenv(RequireEnv) != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	if out, err := exec.Command(path, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", compiler, strings.Join(args, " "), err, out)
	}
}

//go:embed include/cuda.h
var stubHeader []byte

// CUDAHeader finds a cuda.h: $FSGEN_CUDA_H, the one that make tools fetches, or the toolkit's; "" where there is none.
func CUDAHeader() string {
	places := []string{os.Getenv("FSGEN_CUDA_H")}
	for dir, err := os.Getwd(); err == nil; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			places = append(places, filepath.Join(dir, ".tools/include/cuda.h"))
			break
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	if home := os.Getenv("CUDA_HOME"); home != "" {
		places = append(places, filepath.Join(home, "include/cuda.h"))
	}
	for _, path := range append(places, "/usr/local/cuda/include/cuda.h") {
		if text, err := os.ReadFile(path); err == nil && bytes.Contains(text, []byte("cuTensorMapEncodeTiled")) {
			return path
		}
	}
	return ""
}

// CUDAInclude returns a folder for a compiler's -isystem with a cuda.h in it: NVIDIA's, or a stub of what generated headers use.
func CUDAInclude(t testing.TB) string {
	t.Helper()
	if path := CUDAHeader(); path != "" {
		return filepath.Dir(path)
	}
	return StubInclude(t)
}

// StubInclude returns a folder with the stub of cuda.h.
func StubInclude(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "cuda.h"), stubHeader, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}
