//go:build linux && (amd64 || arm64)

package driver

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/fsgen/fsgen/arch"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLoadPTXAndFunctions(t *testing.T) {
	f := openFake(t)
	c := f.context()
	m, err := c.LoadPTX([]byte(fillPTX), JITOptions{MaxRegisters: 128, OptLevel: 3, LineInfo: true, Verbose: true})
	require.NoError(t, err)
	assert.Equal(t, "ptxas info : Used 128 registers, opt 3, lineinfo 1", m.Log())
	fn, err := m.Function("fill")
	require.NoError(t, err)
	again, err := m.Function("fill")
	require.NoError(t, err)
	assert.True(t, fn == again)
	assert.Equal(t, 1, f.calls(cuFuncLoad), "ready before the first launch")
	assert.Equal(t, "fill", fn.Name())

	_, err = m.Function("none")
	assert.ErrorIs(t, err, ErrNotFound)
	assert.ErrorContains(t, err, `kernel "none"`)

	require.NoError(t, fn.SetMaxDynamicShared(200_000))
	a, err := fn.Attributes()
	require.NoError(t, err)
	assert.Equal(t, FuncAttributes{
		MaxThreadsPerBlock: 0, StaticShared: 10, Const: 20, Local: 30, Registers: 168, PTXVersion: 50,
		BinaryVersion: 60, MaxDynamicShared: 200_000,
	}, a)
	assert.ErrorContains(t, fn.SetMaxDynamicShared(300_000), `kernel "fill", attribute 8 = 300000`)
	assert.NoError(t, fn.SetNonPortableCluster(true))
	assert.NoError(t, fn.SetNonPortableCluster(false))
	sizes, err := fn.ParamSizes()
	assert.NoError(t, err)
	assert.Equal(t, []int{8, 4, 4}, sizes)
	blocks, err := fn.MaxActiveBlocks(384, 1000)
	assert.NoError(t, err)
	assert.Equal(t, 5, blocks)
	clusters, err := fn.MaxActiveClusters(LaunchConfig{Grid: Dim3{X: 4}, Block: Dim3{X: 384}, Cluster: Dim3{X: 4}})
	assert.NoError(t, err)
	assert.Equal(t, 33, clusters)
	_, err = fn.MaxActiveClusters(LaunchConfig{})
	assert.ErrorContains(t, err, "grid {0 1 1}")

	require.NoError(t, m.Close())
	_, err = m.Function("fill")
	assert.ErrorIs(t, err, ErrClosed)
	assert.ErrorIs(t, fn.SetMaxDynamicShared(1), ErrClosed)
	_, err = fn.Attributes()
	assert.ErrorIs(t, err, ErrClosed)
	_, err = fn.MaxActiveBlocks(1, 1)
	assert.ErrorIs(t, err, ErrClosed)
	_, err = fn.ParamSizes()
	assert.ErrorIs(t, err, ErrClosed)
}

// badPTX has its fault in line 7.
const badPTX = `.version 8.0
.target sm_90a
.address_size 64
.visible .entry k()
{
	.reg .b32 %r<2>;
	bad.instruction %r1, %r1;
	ret;
}
`

// TestCompilerErrors goes through both ways to the compiler.
func TestCompilerErrors(t *testing.T) {
	f := openFake(t)
	c := f.context()
	for name, compile := range map[string]func(string, JITOptions) error{
		"load": func(ptx string, o JITOptions) error {
			m, err := c.LoadPTX([]byte(ptx), o)
			if err == nil {
				return m.Close()
			}
			return err
		},
		"link": func(ptx string, o JITOptions) error { _, err := c.CompilePTX([]byte(ptx), o); return err },
	} {
		t.Run(name, func(t *testing.T) {
			var e *Error
			err := compile(badPTX, JITOptions{})
			require.ErrorAs(t, err, &e)
			assert.ErrorIs(t, err, ErrInvalidPTX)
			assert.Contains(t, e.Log, "line 7; error   : Not a name of any known instruction")
			assert.Contains(t, err.Error(), "      7 | \tbad.instruction %r1, %r1;")
			assert.Equal(t, "", e.PTXPath)

			err = compile(strings.Replace(fillPTX, "8.0", "9.0", 1), JITOptions{})
			var version *PTXVersionError
			require.ErrorAs(t, err, &version)
			assert.ErrorIs(t, err, ErrUnsupportedPTXVersion)
			assert.ErrorContains(t, err, "the driver (CUDA 12.4) supports PTX up to 8.4; the kernel needs PTX 9.0: "+
				"update to a driver for CUDA 13.0 or later (R580 or later)")
			require.ErrorAs(t, err, &e)
			assert.Equal(t, "", e.Log, "an empty log prints nothing")
			assert.ErrorContains(t, compile(strings.Replace(fillPTX, "8.0", "99.0", 1), JITOptions{}), "update the NVIDIA driver")

			f.fail(map[string]symbol{"load": cuModuleLoadDataEx, "link": cuLinkAddData}[name], ErrJITCompilerNotFound, 0, 1)
			err = compile(fillPTX, JITOptions{})
			assert.ErrorIs(t, err, ErrJITCompilerNotFound)
			assert.ErrorContains(t, err, "libnvidia-ptxjitcompiler.so.1")
			f.fail(map[string]symbol{"load": cuModuleLoadDataEx, "link": cuLinkComplete}[name], ErrUnknown, 0, 1)
			assert.ErrorContains(t, compile(fillPTX, JITOptions{}), "the compiler gave no reason; set FSGEN_DUMP")

			for _, bad := range []string{"", " \n", "a\x00b"} {
				assert.True(t, compile(bad, JITOptions{}) != nil, "%q", bad)
			}
			for _, bad := range []JITOptions{{MaxRegisters: 256}, {MaxRegisters: -1}, {OptLevel: 5}, {OptLevel: -1}} {
				assert.True(t, compile(fillPTX, bad) != nil, "%+v", bad)
			}
			assert.NoError(t, compile(fillPTX+"\x00\x00", JITOptions{}), "PTX that ends in NULs already")
		})
	}
}

// TestBigLogs has the compiler write more than is usual, and more than there is room for.
func TestBigLogs(t *testing.T) {
	f := openFake(t)
	c := f.context()
	for _, pad := range []int{0, 1 << 20, logBytes - 500, logBytes, 10 * logBytes} {
		f.control("fake_logs", uintptr(pad), uintptr(pad))
		m, err := c.LoadPTX([]byte(fillPTX), JITOptions{})
		require.NoError(t, err)
		cut := strings.Contains(m.Log(), "[the log was cut at 4194304 bytes]")
		assert.Equal(t, pad >= logBytes, cut, "%d", pad)
		assert.True(t, len(m.Log()) >= min(pad, logBytes)-64, "%d of %d", len(m.Log()), pad)
		assert.Equal(t, 0, strings.Count(m.Log(), "\x00"))
		require.NoError(t, m.Close())

		_, err = c.LoadPTX([]byte(badPTX), JITOptions{})
		var e *Error
		require.ErrorAs(t, err, &e)
		assert.Contains(t, e.Log[:min(200, len(e.Log))], "line 7;")
		assert.True(t, len(e.Log) >= min(pad, logBytes)-64)
	}
}

func TestDump(t *testing.T) {
	f := openFake(t)
	c := f.context()
	dir := filepath.Join(t.TempDir(), "dump")
	t.Setenv(EnvDump, dir)
	_, err := c.LoadPTX([]byte(badPTX), JITOptions{})
	var e *Error
	require.ErrorAs(t, err, &e)
	kept, err := os.ReadFile(e.PTXPath)
	require.NoError(t, err)
	assert.Equal(t, badPTX, string(kept))
	assert.ErrorContains(t, e, "PTX kept in "+dir)
	log, err := os.ReadFile(strings.TrimSuffix(e.PTXPath, ".ptx") + ".log")
	require.NoError(t, err)
	assert.Contains(t, string(log), "line 7;")

	m, err := c.LoadPTX([]byte(fillPTX), JITOptions{Verbose: true})
	require.NoError(t, err)
	require.NoError(t, m.Close())
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	assert.Len(t, files, 4)

	var warned []string
	SetWarnHandler(func(s string) { warned = append(warned, s) })
	defer SetWarnHandler(nil)
	t.Setenv(EnvDump, files[0]) // a file
	for range 3 {
		m, err = c.LoadPTX([]byte(fillPTX), JITOptions{})
		require.NoError(t, err)
		require.NoError(t, m.Close())
	}
	require.Len(t, warned, 1, "an unusable directory is said once")
	assert.Contains(t, warned[0], EnvDump)
}

// A linker is called by one thread alone, also where other goroutines take the processor whenever a call lets go of it.
func TestCompilationStaysOnItsThread(t *testing.T) {
	f := openFake(t)
	c := f.context()
	f.control("fake_delay", 300)
	defer f.control("fake_delay", 0)
	stop := make(chan struct{})
	var busy sync.WaitGroup
	for range 2 * runtime.GOMAXPROCS(0) {
		busy.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					runtime.Gosched()
				}
			}
		})
	}
	for range 50 {
		_, err := c.CompilePTX([]byte(fillPTX), JITOptions{})
		require.NoError(t, err)
	}
	close(stop)
	busy.Wait()
}

func TestCompileThenLoadImage(t *testing.T) {
	f := openFake(t)
	c := f.context()
	image, err := c.CompilePTX([]byte(fillPTX), JITOptions{Verbose: true})
	require.NoError(t, err)
	assert.Contains(t, image.Log, "ptxas info")
	assert.True(t, bytes.HasPrefix(image.Cubin, []byte("\x7fELF")))
	assert.Equal(t, f.calls(cuLinkCreate), f.calls(cuLinkDestroy))
	m, err := c.LoadImage(image.Cubin)
	require.NoError(t, err)
	_, err = m.Function("fill")
	require.NoError(t, err)
	require.NoError(t, m.Close())

	f.fail(cuModuleLoadDataEx, ErrNoBinaryForGPU, 0, 1)
	_, err = c.LoadImage(image.Cubin)
	assert.ErrorIs(t, err, ErrNoBinaryForGPU)
	assert.ErrorContains(t, err, "loading an image of")
	calls := f.calls(cuModuleLoadDataEx)
	_, err = c.LoadImage(image.Cubin[:60])
	var bad *ImageError
	assert.ErrorAs(t, err, &bad)
	_, err = c.LoadImage([]byte(fillPTX))
	assert.ErrorAs(t, err, &bad)
	assert.Equal(t, calls, f.calls(cuModuleLoadDataEx), "the driver never sees them")
}

// elf makes the header of an ELF file of n bytes whose section headers, so many of 64 bytes, begin at off.
func elf(n int, off uint64, sections uint16) []byte {
	b := make([]byte, n)
	copy(b, "\x7fELF\x02\x01")
	binary.LittleEndian.PutUint64(b[40:], off)
	binary.LittleEndian.PutUint16(b[58:], 64)
	binary.LittleEndian.PutUint16(b[60:], sections)
	return b
}

func TestCheckImage(t *testing.T) {
	fatbin := func(n int, header uint16, body uint64) []byte {
		b := make([]byte, n)
		binary.LittleEndian.PutUint32(b, 0xba55ed50)
		binary.LittleEndian.PutUint16(b[6:], header)
		binary.LittleEndian.PutUint64(b[8:], body)
		return b
	}
	for _, good := range [][]byte{elf(1024, 512, 8), elf(1024, 100, 0), fatbin(116, 16, 100), fatbin(200, 16, 100)} {
		assert.NoError(t, checkImage(good))
	}
	for _, bad := range [][]byte{
		nil, {0}, []byte("\x7fELF"), elf(1024, 512, 9), elf(1024, 1025, 0), elf(1024, 1<<64-64, 2), elf(1024, 0, 0),
		fatbin(115, 16, 100), fatbin(116, 15, 100), fatbin(116, 16, 1<<64-8), []byte("// PTX"), make([]byte, 100),
	} {
		var e *ImageError
		assert.ErrorAs(t, checkImage(bad), &e)
	}
}

func FuzzCheckImage(f *testing.F) {
	f.Add(elf(128, 64, 1))
	f.Add([]byte("\x50\xed\x55\xba"))
	f.Fuzz(func(_ *testing.T, b []byte) { _ = checkImage(b) })
}

// TestImageKey changes one ingredient at a time: each must give another key.
func TestImageKey(t *testing.T) {
	f := openFake(t)
	c := f.context()
	ptx := []byte(fillPTX)
	keys := map[string]string{"": c.ImageKey(ptx, JITOptions{})}
	assert.Equal(t, keys[""], c.ImageKey(ptx, JITOptions{}))
	add := func(what string, key string) {
		for other, k := range keys {
			assert.True(t, k != key, "%s gives the key of %q", what, other)
		}
		keys[what] = key
	}
	add("PTX", c.ImageKey(append(ptx, ' '), JITOptions{}))
	for _, o := range []JITOptions{{MaxRegisters: 1}, {OptLevel: 1}, {LineInfo: true}, {Verbose: true}} {
		add("option", c.ImageKey(ptx, o))
	}
	other := *c.dev
	other.cc.Minor++
	c2 := &Context{dev: &other}
	add("compute capability", c2.ImageKey(ptx, JITOptions{}))
	drv := &Driver{version: f.version + 10}
	other = *c.dev
	other.drv = drv
	add("driver version", c2.ImageKey(ptx, JITOptions{}))
	assert.True(t, len(keys[""]) < 200)
}

func TestVersions(t *testing.T) {
	for v, want := range map[Version]arch.Version{
		10020: {}, 11080: arch.V(7, 8), 12000: arch.V(8, 0), 12060: arch.V(8, 5), 12080: arch.V(8, 7), 13000: arch.V(9, 0),
		13000 + 1: arch.V(9, 0), 99990: ptxReleases[len(ptxReleases)-1].ptx,
	} {
		assert.Equal(t, want, v.PTX(), "%v", v)
	}
	for i := 1; i < len(ptxReleases); i++ {
		a, b := ptxReleases[i-1], ptxReleases[i]
		assert.True(t, a.ptx.Less(b.ptx) && a.cuda < b.cuda && a.branch < b.branch, "%v", b)
	}
	for text, want := range map[string]arch.Version{
		".version 8.0\n": arch.V(8, 0), "// x\n  .version\t7.8": arch.V(7, 8), "// .version 1.2": {}, "": {},
		".version 99999999999999999999.0": {},
	} {
		got, found := ptxVersion([]byte(text))
		assert.Equal(t, want != arch.Version{}, found, text)
		if found {
			assert.Equal(t, want, got)
		}
	}
}
