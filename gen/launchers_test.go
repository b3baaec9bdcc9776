package gen

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/internal/cfake"
	"github.com/fsgen/fsgen/internal/golden"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/templates"
)

// launched are kernels that between them have every part of headers and packages: one CTA and a cluster, tensor maps, addresses
// of them and packed weights, with a map and without, scratch, all inputs, a second stage, further passes, ranks, both architectures.
func launched(t *testing.T) []*Artifact {
	t.Helper()
	cluster, packed, sm100 := request(128, "bias=rows,mask,temperature"), request(64, "temperature"), request(16, "none")
	packed.Computation.Sampler, packed.Computation.Score, packed.Computation.LogSumExp = ir.Grouped, true, true
	packed.Options.Weights = manifest.Packed
	wide := request(256, "temperature")
	wide.Options.Weights = manifest.Packed
	sm100.Arch, sm100.Computation.Sampler = arch.SM100, ir.Greedy
	global := request(8, "temperature")
	global.Options.TensorMaps = templates.InGlobal
	narrow := request(8, "temperature")
	narrow.Computation.Truncation, narrow.Computation.LogProb, narrow.Computation.Slots = ir.Truncation{TopK: true, TopP: true}, ir.ProcessedLogProb, true
	further := narrow
	further.Options.Further = true
	shard := request(8, "temperature")
	shard.Computation.Shard, shard.Computation.LogSumExp = ir.ShardExchange, true
	var out []*Artifact
	for _, r := range []Request{request(16, "temperature"), cluster, packed, wide, global, narrow, further, shard, sm100} {
		a, err := Emit(r)
		require.NoError(t, err)
		out = append(out, a)
	}
	return out
}

// TestGoldenLaunchers holds headers and packages against testdata, without their PTX, which other golden files show.
func TestGoldenLaunchers(t *testing.T) {
	files := map[string][]byte{}
	for _, a := range launched(t) {
		head := headerOf(t, a)
		pkg, err := GoPackage(a, a.Name())
		require.NoError(t, err)
		if a.Manifest.FurtherOf != "" {
			continue // but for names, it is the first pass's
		}
		files[a.Name()+".h.golden"] = regexp.MustCompile(`(?m)^\t".*\n`).ReplaceAll(head, nil)
		files[a.Name()+".go.golden"] = regexp.MustCompile("(?s)`[^`]*`").ReplaceAll(pkg, []byte("``"))
		again, err := GoPackage(a, a.Name())
		require.NoError(t, err)
		require.True(t, bytes.Equal(head, headerOf(t, a)) && bytes.Equal(pkg, again), "same request, same bytes")
	}
	golden.Dir(t, "testdata", files, "*.golden")
}

// TestHeadersOfLogProbs: slots and log-probabilities are arguments like others, and partial sums have their own size.
func TestHeadersOfLogProbs(t *testing.T) {
	r := request(16, "temperature")
	r.Computation.LogProb, r.Computation.Slots = ir.RawLogProb, true
	a, err := Emit(r)
	require.NoError(t, err)
	head := string(headerOf(t, a))
	for _, want := range []string{"return 12 * (size_t)batch * (size_t)kernel->resident;", "CUdeviceptr slots;", "uint32_t slot_count;", "CUdeviceptr logprob;"} {
		require.Contains(t, head, want)
	}
}

// TestLiteralsHoldThePTX reads the PTX back out of a header and a package.
func TestLiteralsHoldThePTX(t *testing.T) {
	for _, a := range launched(t) {
		var text, piece strings.Builder
		for line := range strings.Lines(string(headerOf(t, a))) {
			if !strings.HasPrefix(line, "\t\"") {
				continue
			}
			s, err := strconv.Unquote(strings.ReplaceAll(strings.Trim(line, "\t,\n"), `\?`, "?"))
			require.NoError(t, err, line)
			piece.WriteString(s)
			require.LessOrEqual(t, piece.Len(), 4095, "C99, 5.2.4.1")
			if strings.HasSuffix(line, ",\n") {
				text.WriteString(piece.String())
				piece.Reset()
			}
		}
		assert.Equal(t, string(a.PTX), text.String())
		pkg, err := GoPackage(a, "kernel")
		require.NoError(t, err)
		assert.Contains(t, string(pkg), "const PTX = `"+string(a.PTX)+"`")
		assert.Contains(t, string(pkg), "`"+string(a.Manifest.Encode())+"`")
	}
}

func TestQuoteC(t *testing.T) {
	assert.Equal(t, `"a\\b\"c\td\?\?=\n"`, quoteC("a\\b\"c\td??=\n"))
	assert.Equal(t, "\t\"a\\n\"\n\t\"b\\n\",\n", literals("a\nb\n"))
}

func TestGoPackageNames(t *testing.T) {
	a := launched(t)[0]
	for _, name := range []string{"", "_", "a-b", "func", "9a", "a.b"} {
		_, err := GoPackage(a, name)
		var e *RequestError
		require.ErrorAs(t, err, &e, name)
		assert.Equal(t, "package name", e.Field)
	}
}

// TestParametersAreExplained: a reader of a header is told what each member means.
func TestParametersAreExplained(t *testing.T) {
	if testing.Short() {
		t.Skip("emits every combination")
	}
	c, err := flagCorpus()
	require.NoError(t, err)
	for _, v := range c {
		for _, p := range v.Manifest.Params {
			require.NotEmpty(t, paramDocs[p.Name], p.Name)
		}
	}
}

func writeFile(t *testing.T, path string, text []byte) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, text, 0o600))
}

// TestHeadersCompile: as C99 and as C++11, without a warning, with NVIDIA's cuda.h, if there is one, and the stub.
func TestHeadersCompile(t *testing.T) {
	dir, includes := t.TempDir(), []string{cfake.StubInclude(t)}
	if real := cfake.CUDAInclude(t); cfake.CUDAHeader() != "" {
		includes = append(includes, real)
	}
	source := ""
	for _, a := range launched(t) {
		writeFile(t, filepath.Join(dir, a.Name()+".h"), headerOf(t, a))
		source += fmt.Sprintf("#include \"%s.h\"\n#include \"%[1]s.h\"\n", a.Name())
	}
	writeFile(t, filepath.Join(dir, "all.c"), []byte(source+"int main(void) { return 0; }\n"))
	for _, include := range includes {
		common := []string{"-pedantic", "-Wall", "-Wextra", "-Werror", "-isystem", include, "-fsyntax-only"}
		cfake.Compile(t, "cc", append(common, "-std=c99", filepath.Join(dir, "all.c"))...)
		cfake.Compile(t, "c++", append(common, "-std=c++11", "-x", "c++", filepath.Join(dir, "all.c"))...)
	}
}

// setArguments gives every argument a value of its own: assign writes the assignment of one that is no tensor map by value.
func setArguments(a *Artifact, assign func(name string, value int) string) string {
	known := map[string]int{"vocab": 1000, "hidden_size": 64, "batch": 5}
	text := assign("workspace", 99<<20)
	if a.Manifest.Resolve != nil {
		text += assign("workspace_rows", 7)
	}
	for i, arg := range allArguments(a.Manifest) {
		switch value, ok := known[arg.Name]; {
		case ok:
			text += assign(arg.Name, value)
		case arg.Kind == manifest.Scalar:
			text += assign(arg.Name, 100+i)
		case arg.Kind != manifest.TensorMap:
			text += assign(arg.Name, (i+1)<<20)
		}
	}
	return text
}

// TestBothLaunchersLaunchTheSame runs a header's and a package's launch on the fake driver, which says what it was given: the
// same bytes from either, and a refusal of what is missing.
func TestBothLaunchersLaunchTheSame(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the driver runs on Linux alone")
	}
	source, err := os.ReadFile("../driver/testdata/fakecuda.c")
	require.NoError(t, err)
	library := cfake.Build(t, source)
	dir := t.TempDir()
	writeModule(t, dir)
	artifacts := launched(t)[1:7] // the fake is a GPU of compute capability 9.0
	for _, a := range artifacts {
		pkg, err := GoPackage(a, a.Name())
		require.NoError(t, err)
		writeFile(t, filepath.Join(dir, a.Name(), "kernel.go"), pkg)
		writeFile(t, filepath.Join(dir, a.Name(), "cmd"+a.Name(), "main.go"), []byte(goProgram(a)))
	}
	goTool(t, dir, "vet", "./...")
	goTool(t, dir, "build", "-o", "bin/", "./...")
	for _, a := range artifacts {
		program := filepath.Join(dir, a.Name()+".bin")
		writeFile(t, filepath.Join(dir, a.Name()+".h"), headerOf(t, a))
		writeFile(t, program+".c", []byte(cProgram(a)))
		cfake.Compile(t, "cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-isystem", cfake.CUDAInclude(t), "-o", program, program+".c", library)
		fromC := output(t, library, program)
		require.NoError(t, os.Rename(filepath.Join(dir, "bin", "cmd"+a.Name()), program+"-go"), "the program of the package")
		fromGo := output(t, library, program+"-go")
		require.Equal(t, fromC, fromGo, a.Name())
		require.Contains(t, fromC, "missing: 1\n")
		require.Greater(t, strings.Count(fromC, "\n"), 1)
	}
}

func output(t *testing.T, library, program string) string {
	t.Helper()
	cmd := exec.Command(program, library)
	cmd.Env = append(os.Environ(), "FSGEN_CUDA_LIB="+library)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// writeModule writes a module that uses this checkout, and what it requires.
func writeModule(t *testing.T, dir string) {
	t.Helper()
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	mod, err := os.ReadFile("../go.mod")
	require.NoError(t, err)
	text := strings.Replace(string(mod), "module github.com/fsgen/fsgen\n", "module example.com/kernels\n", 1)
	text += "\nrequire github.com/fsgen/fsgen v0.0.0\nreplace github.com/fsgen/fsgen => " + root + "\n"
	writeFile(t, filepath.Join(dir, "go.mod"), []byte(text))
	sum, err := os.ReadFile("../go.sum")
	require.NoError(t, err)
	writeFile(t, filepath.Join(dir, "go.sum"), sum)
}

func goTool(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off", "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "go %s: %s", strings.Join(args, " "), out)
}

// matrixOf is the size that programs give a tensor map's matrix: what is packed has no leading dimension.
func matrixOf(arg argument) string {
	if arg.Map.Packed {
		return "70, 136"
	}
	return "7, 64, 72"
}

// cProgram launches a kernel by its header and prints what the fake was given, in 4-byte words: grid, block, shared memory,
// cluster, overlap, the number of parameters, and the parameters.
func cProgram(a *Artifact) string {
	m := a.Manifest
	var maps string
	for i, arg := range allArguments(m) {
		if arg.Kind.IsMap() {
			maps += fmt.Sprintf("\tif (fsgen_encode_%s(&maps[%d], %d << 20, %s)) return 5;\n", arg.Name, i, i+1, matrixOf(arg))
			if arg.Kind == manifest.TensorMap {
				maps += fmt.Sprintf("\targs.%s = &maps[%d];\n", arg.Name, i)
			}
		}
	}
	overlap := ""
	if m.Launch.Programmatic {
		overlap = "\targs.overlap = 1;\n"
	}
	return `#define FSGEN_SHORT_NAMES
#include "` + a.Name() + `.h"
#include <stdio.h>
int fake_last_launch(void *to);
int fake_launch_before(void *to);
int main(void)
{
	static unsigned int last[1024];
	static CUtensorMap maps[64];
	fsgen_kernel kernel;
	fsgen_args args;
	char log[512];
	CUcontext context;
	CUdeviceptr space;
	CUresult code;
	CUdevice device;
	unsigned int i, stage;
	memset(&args, 0, sizeof args);
	if (cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device) || cuCtxPushCurrent(context)) return 1;
	if (fsgen_load(&kernel, log, sizeof log)) return 2;
	if (cuMemAlloc(&space, fsgen_workspace_bytes(5)) || fsgen_workspace_zero(space, 5, NULL) || cuMemFree(space)) return 3;
	if (fsgen_launch(&kernel, &args, NULL)) return 4; /* no rows */
	(void)maps;
` + maps + setArguments(a, func(name string, value int) string { return fmt.Sprintf("\targs.%s = %d;\n", name, value) }) + overlap + `
	args.tokens = 0;
	printf("missing: %d\n", fsgen_launch(&kernel, &args, NULL));
	args.tokens = 77 << 20;
	if ((code = fsgen_launch(&kernel, &args, NULL)) != CUDA_SUCCESS) return printf("%s\n", fsgen_error(code)), 6;
	for (stage = 0; stage < ` + strconv.Itoa(len(stagesOf(m))) + `; stage++) {
		if (stage == 0)
			fake_last_launch(last);
		else
			fake_launch_before(last);
		for (i = 0; i < sizeof last / 4 && i < 528; i++)
			if (i != 12) /* whether tensor maps are aligned: C99 does not align them */
				printf("%u: %x\n", i, last[i]);
	}
` + cTables(m) + `	if (strcmp(fsgen_error(CUDA_ERROR_INVALID_VALUE), "invalid argument")) return 7;
	return fsgen_unload(&kernel) == CUDA_SUCCESS ? 0 : 8;
}
`
}

// cTables and goTables print the table of a rank of three, and how large an inbox is, where the kernel has peers.
func cTables(m *manifest.Kernel) string {
	if m.Shard == "" {
		return ""
	}
	return `	{
		unsigned char table[512];
		const CUdeviceptr inboxes[3] = {1 << 20, 2 << 20, 3 << 20};
		fsgen_peer_table(table, 3, 1, 16, 5000000000u, inboxes);
		for (i = 0; i < fsgen_peer_table_bytes(3); i++)
			printf("%02x", table[i]);
		printf(" %u\n", (unsigned int)fsgen_inbox_bytes(16, 3));
	}
`
}

func goTables(m *manifest.Kernel) (imports, code string) {
	if m.Shard == "" {
		return "", ""
	}
	return "\t\"github.com/fsgen/fsgen/manifest\"\n", `	table := manifest.PeerTable{World: 3, Rank: 1, Rows: 16, Timeout: 5e9, Inboxes: []uint64{1 << 20, 2 << 20, 3 << 20}}
	fmt.Printf("%x %d\n", table.Encode(), k.Manifest.InboxBytes(16, 3))
`
}

// goProgram is the same by the generated package.
func goProgram(a *Artifact) string {
	m := a.Manifest
	maps := ""
	for i, arg := range arguments(m) {
		if arg.Kind.IsMap() {
			maps += fmt.Sprintf("\tm%d, err := k.Encode%s(%d<<20, %s)\n\tcheck(err)\n\t_ = m%[1]d\n", i, exported(arg.Name), i+1, matrixOf(arg))
			if arg.Kind == manifest.TensorMap {
				maps += fmt.Sprintf("\targs.%s = &m%d\n", exported(arg.Name), i)
			}
		}
	}
	overlap := ""
	if m.Launch.Programmatic {
		overlap = "\targs.Overlap = true\n"
	}
	imports, tables := goTables(m)
	return `package main

import (
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/ebitengine/purego"

	kernel "example.com/kernels/` + a.Name() + `"
	"github.com/fsgen/fsgen/driver"
` + imports + `)

var last [1024]uint32

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	d, err := driver.Open()
	check(err)
	dev, err := d.Device(0)
	check(err)
	ctx, err := dev.Context()
	check(err)
	k, err := kernel.Load(ctx)
	check(err)
	var args kernel.Args
	check(k.Launch(0, &args)) // no rows
` + maps + setArguments(a, func(name string, value int) string { return fmt.Sprintf("\targs.%s = %d\n", exported(name), value) }) + overlap + `
	args.Tokens = 0
	var missing *driver.ParamError
	if errors.As(k.Launch(0, &args), &missing) {
		fmt.Println("missing: 1")
	}
	args.Tokens = 77 << 20
	check(k.Launch(0, &args))
	lib, err := purego.Dlopen(os.Args[1], purego.RTLD_NOW)
	check(err)
	for _, name := range []string{"fake_last_launch", "fake_launch_before"}[:` + strconv.Itoa(len(stagesOf(m))) + `] {
		var launched func(*[1024]uint32) int32
		purego.RegisterLibFunc(&launched, lib, name)
		launched(&last)
		for i, word := range last[:528] {
			if i != 12 {
				fmt.Printf("%d: %x\n", i, word)
			}
		}
	}
` + tables + `	check(k.Close())
}
`
}

func headerOf(t *testing.T, a *Artifact) []byte {
	t.Helper()
	head, err := Header(a)
	require.NoError(t, err)
	return head
}

// Lists that no row has are at address 0.
func TestLaunchersTakeNoLists(t *testing.T) {
	c, err := ir.ParseChain("bias=sparse,penalties,ids")
	require.NoError(t, err)
	a, err := Emit(Request{Arch: arch.SM90, Shape: ir.Shape{Vocab: 1000, Hidden: 64}, Batch: 4, Computation: ir.Computation{Chain: c}})
	require.NoError(t, err)
	pkg, err := GoPackage(a, "edits")
	require.NoError(t, err)
	header, n := string(headerOf(t, a)), 0
	for _, p := range a.Manifest.Params {
		if templates.Optional(p.Name) {
			require.Contains(t, header, "CUdeviceptr "+p.Name)
			require.NotContains(t, header, "args->"+p.Name+" == 0")
			require.NotContains(t, string(pkg), p.Name+" is missing")
			n++
		}
	}
	require.Equal(t, 12, n)
	require.Contains(t, header, "args->tokens == 0")
	require.Contains(t, string(pkg), "tokens is missing")
}
