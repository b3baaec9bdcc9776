//go:build !fsgen_nocuda

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fakeLibcuda compiles the stand-in for libcuda that package driver is tested with: two GPUs of compute capability CC/10.
func fakeLibcuda(t *testing.T, cc0, cc1 string) string {
	t.Helper()
	if _, err := exec.LookPath("cc"); err != nil || runtime.GOOS != "linux" {
		require.Empty(t, os.Getenv("FSGEN_REQUIRE_CC"), "a C compiler is needed")
		t.Skip("needs Linux and a C compiler")
	}
	source, err := os.ReadFile("../../driver/testdata/fakecuda.c")
	require.NoError(t, err)
	text := string(source)
	for old, now := range map[string]string{"case 75: *v = 9;": "case 75: *v = dev ? " + cc1 + " / 10 : " + cc0 + " / 10;",
		"case 76: *v = 0;": "case 76: *v = dev ? " + cc1 + " % 10 : " + cc0 + " % 10;"} {
		require.Contains(t, text, old)
		text = strings.Replace(text, old, now, 1)
	}
	dir := t.TempDir()
	c, library := filepath.Join(dir, "fake.c"), filepath.Join(dir, "libcuda.so")
	require.NoError(t, os.WriteFile(c, []byte(text), 0o600))
	out, err := exec.Command("cc", "-shared", "-fPIC", "-o", library, c, "-lpthread").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return library
}

// onGPUs is the command with the GPUs of a stand-in, in a process of its own: a driver is loaded once and for all.
func onGPUs(library, cache string, args ...string) *exec.Cmd {
	cmd := exec.Command("fsgen", args...)
	cmd.Env = append(os.Environ(), "FSGEN_CUDA_LIB="+library, "FSGEN_CACHE_DIR="+cache)
	return cmd
}

// doctorOn runs doctor so.
func doctorOn(t *testing.T, library string, args ...string) (out string, code int) {
	t.Helper()
	cmd := onGPUs(library, t.TempDir(), append([]string{"doctor", "--require-gpu"}, args...)...)
	text, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

func TestDoctorListsDriverAndEveryGPU(t *testing.T) {
	out, code := doctorOn(t, fakeLibcuda(t, "90", "100"))
	assert.Equal(t, exitOK, code)
	assert.Regexp(t, `(?m)^ok  driver .*libcuda.so: CUDA 12.4, PTX up to 8.4.*, 2 GPUs$`, out)
	assert.Regexp(t, `(?m)^ok  gpu .*cuda:0: Fake GPU 0, kernels for sm_90, GPU-`, out)
	assert.Regexp(t, `(?m)^--  gpu .*device cuda:1: no usable GPU: driver 12.4 reads PTX up to 8.4; .*update the driver$`, out)
}

func TestDoctorTakesTheSecondGPUForAGPU(t *testing.T) {
	out, code := doctorOn(t, fakeLibcuda(t, "75", "90"), "--json")
	assert.Equal(t, exitOK, code)
	assert.Contains(t, out, `{"name":"gpu","ok":false,"detail":"device cuda:0: no usable GPU: arch: Fake GPU 0 has compute capability 7.5`)
	assert.Contains(t, out, `{"name":"gpu","ok":true,"detail":"cuda:1: Fake GPU 1, kernels for sm_90`)
}

func TestDoctorSaysThatNoGPUCanBeUsed(t *testing.T) {
	out, code := doctorOn(t, fakeLibcuda(t, "75", "120"))
	assert.Equal(t, exitNoGPU, code)
	assert.Regexp(t, `(?m)^--  gpu .*Fake GPU 1 has compute capability 12.0, consumer Blackwell .*: it has neither .*; fsgen has kernels for .* only$`, out)
}
