// Package examples_test runs what of the examples runs without a GPU, and compiles the rest.
package examples_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/gen"
	"github.com/fsgen/fsgen/internal/cfake"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/templates"
)

// emit makes a kernel for temperature.
func emit(t *testing.T, batch int, o templates.Options) *gen.Artifact {
	t.Helper()
	a, err := gen.Emit(gen.Request{Arch: arch.SM90, Computation: ir.Computation{Chain: ir.Chain{Temperature: true}}, Batch: batch,
		Shape: ir.Shape{Vocab: 5000, Hidden: 264}, Options: o})
	require.NoError(t, err)
	return a
}

// run runs a program and returns what it prints.
func run(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	require.NoError(t, cmd.Run(), "%s %s: %s%s", name, strings.Join(args, " "), &out, &errs)
	return out.String()
}

func write(t *testing.T, path string, text []byte) string {
	t.Helper()
	require.NoError(t, os.WriteFile(path, text, 0o600))
	return path
}

func python(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		t.Skip(err)
	}
	return path
}

// fakeCUDA builds driver's stand-in for libcuda.
func fakeCUDA(t *testing.T) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the stand-in for libcuda is one for Linux")
	}
	source, err := os.ReadFile("../driver/testdata/fakecuda.c")
	require.NoError(t, err)
	return cfake.Build(t, source)
}

func TestPythonCompiles(t *testing.T) {
	files, err := filepath.Glob("python/*.py")
	require.NoError(t, err)
	require.Len(t, files, 5)
	run(t, []string{"PYTHONPYCACHEPREFIX=" + t.TempDir()}, python(t), append([]string{"-W", "error", "-m", "py_compile"}, files...)...)
}

// TestPythonLaunches: what Python hands to the driver, with and without a cluster, tensor maps by value and pointers to them.
func TestPythonLaunches(t *testing.T) {
	python, library, dir := python(t), fakeCUDA(t), t.TempDir()
	for i, a := range []*gen.Artifact{
		emit(t, 5, templates.Options{}), emit(t, 256, templates.Options{}), emit(t, 5, templates.Options{TensorMaps: templates.InGlobal}),
	} {
		kernel := write(t, filepath.Join(dir, fmt.Sprintf("%d.ptx", i)), a.PTX)
		write(t, filepath.Join(dir, fmt.Sprintf("%d.json", i)), a.Manifest.Encode())
		grid := ""
		for _, p := range [][3]int{{1, 1, 132}, {5000, 5, 132}, {151936, 256, 132}, {151936, 300, 8}, {700, 40, 2}} {
			grid += fmt.Sprintln(p[0], p[1], p[2], a.Manifest.Launch.Grid.CTAs(p[0], p[1], p[2]))
		}
		run(t, []string{"PYTHONDONTWRITEBYTECODE=1", "FSGEN_CUDA_LIB=" + library}, python, "-W", "error", "python/fsgen_artifact_test.py",
			library, kernel, write(t, filepath.Join(dir, "grid"), []byte(grid)))
	}
}

// TestCpp compiles the C++ example around kinds of kernels, and runs it on the stand-in for libcuda, where kernels do
// nothing and memory is 0xAA.
func TestCpp(t *testing.T) {
	library, dir := fakeCUDA(t), t.TempDir()
	in := filepath.Join(dir, "in")
	run(t, nil, "go", "run", "./inputs", in)
	for i, o := range []templates.Options{
		{}, {Weights: manifest.Packed, TensorMaps: templates.InGlobal}, {TensorMaps: templates.InGlobal},
	} {
		a := emit(t, 5, o)
		header := write(t, filepath.Join(dir, fmt.Sprintf("%d.h", i)), headerOf(t, a))
		args := []string{"-std=c++17", "-Wall", "-Wextra", "-Werror", "-isystem", cfake.CUDAInclude(t), "-DKERNEL_HEADER=\"" + header + "\"", "cpp/main.cpp"}
		if i == 2 {
			cfake.Compile(t, "c++", append(args, "-fsyntax-only")...)
			continue
		}
		program := filepath.Join(dir, fmt.Sprintf("sample%d", i))
		cfake.Compile(t, "c++", append(args, "-o", program, library)...)
		out := run(t, nil, program, in)
		assert.Contains(t, out, fmt.Sprintf(`{"kernel": "%s", "tokens": [-1431655766, `, a.Name()))
		failed, err := exec.Command(program, filepath.Join(dir, "nowhere")).CombinedOutput()
		require.Error(t, err)
		assert.Contains(t, string(failed), "shape.txt: want vocab, hidden size and batch")
	}
}

// TestScript runs every example that needs no GPU, with the tokens compared.
func TestScript(t *testing.T) {
	if testing.Short() {
		t.Skip("builds three programs")
	}
	out := run(t, []string{"FSGEN_REQUIRE_GPU=", "FSGEN_CUDA_LIB=/nowhere/libcuda.so"}, "bash", "run.sh")
	for _, want := range []string{
		`fsgen, sim:sm_90 +ran +4066,1515,2916,3894,975\n`, `go/serving, cpu +ran +24 of 24 requests`, `cpp +skipped +no usable GPU`,
	} {
		assert.Regexp(t, want, out)
	}
	assert.NotContains(t, out, "differs")
}

func headerOf(t *testing.T, a *gen.Artifact) []byte {
	t.Helper()
	head, err := gen.Header(a)
	require.NoError(t, err)
	return head
}
