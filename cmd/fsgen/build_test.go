package main

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// emitOnly runs the go command for the build that only emits.
func emitOnly(t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	require.NoError(t, err, "%s", errs.String())
	return out
}

func TestEmitOnlyBuildHasNoForeignCode(t *testing.T) {
	deps := string(emitOnly(t, "list", "-deps", "-tags", "fsgen_nocuda", "."))
	assert.NotContains(t, deps, "purego")
	assert.NotContains(t, deps, "runtime/cgo\n")
	assert.Contains(t, string(emitOnly(t, "list", "-deps", ".")), "purego", "the check above sees what it looks for")
}

func TestEmitOnlyBuildIsStaticAndRuns(t *testing.T) {
	if testing.Short() || raceEnabled || runtime.GOOS != "linux" {
		t.Skip("builds a program and reads ELF")
	}
	bin := filepath.Join(t.TempDir(), "fsgen")
	emitOnly(t, "build", "-tags", "fsgen_nocuda", "-o", bin, ".")
	f, err := elf.Open(bin)
	require.NoError(t, err)
	defer f.Close()
	libs, err := f.ImportedLibraries()
	require.NoError(t, err)
	assert.Empty(t, libs)
	for _, p := range f.Progs {
		assert.NotEqual(t, elf.PT_INTERP, p.Type, "a static program has no loader")
	}

	ptx, err := exec.Command(bin, "emit", "--vocab", "1000", "--hidden", "64", "-o", "-").Output()
	require.NoError(t, err)
	_, want, _ := runIn(t.Context(), "emit", "--vocab", "1000", "--hidden", "64", "-o", "-")
	assert.Equal(t, want, string(ptx))
	var exit *exec.ExitError
	_, err = exec.Command(bin, "sample", "--device", "cuda").Output()
	require.ErrorAs(t, err, &exit)
	assert.Equal(t, exitNoGPU, exit.ExitCode())
	assert.Contains(t, string(exit.Stderr), "this build has no CUDA support")
}
