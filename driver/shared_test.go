//go:build linux && (amd64 || arm64)

package driver

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const sharedGrain = 2 << 20 // of the fake driver

func (f *fake) shared(c *Context, size uint64, others ...*Device) *SharedBuffer {
	f.t.Helper()
	b, err := c.AllocShared(size, others...)
	must(f.t, err)
	f.t.Cleanup(func() { assert.NoError(f.t, b.Close()) })
	return b
}

func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(list)
}

func TestSharedMemoryOfOneProcess(t *testing.T) {
	f := openFake(t)
	before := openFiles(t)
	a, b := f.contextOf(0), f.contextOf(1)
	mine, err := a.AllocShared(100)
	require.NoError(t, err)
	assert.EqualValues(t, sharedGrain, mine.Size(), "rounded up to what is allocated at a time")
	assert.Equal(t, a.Device(), mine.Device())
	theirs := f.stream(b)
	assert.ErrorIs(t, theirs.MemsetD8(mine.Ptr(), 1, 4), ErrInvalidValue, "no access yet")
	require.NoError(t, mine.Allow(b.Device()))
	require.NoError(t, theirs.MemsetD8(mine.Ptr(), 5, 4))

	file, err := mine.Export()
	require.NoError(t, err)
	again, err := b.ImportShared(file, mine.Size())
	require.NoError(t, err)
	require.NoError(t, file.Close())
	assert.NotEqual(t, mine.Ptr(), again.Ptr())
	assert.ErrorIs(t, f.stream(a).MemsetD8(again.Ptr(), 1, 4), ErrInvalidValue, "mapped for the importer alone")
	require.NoError(t, mine.Close())
	got := make([]byte, 5)
	require.NoError(t, b.CopyFromDevice(got[:4], again.Ptr()))
	assert.Equal(t, []byte{5, 5, 5, 5, 0}, got, "the memory lives as long as a mapping does")
	require.NoError(t, again.Close())
	assert.Equal(t, before, openFiles(t))

	assert.NoError(t, mine.Close())
	_, err = mine.Export()
	assert.ErrorIs(t, err, ErrClosed)
	assert.ErrorIs(t, mine.Allow(b.Device()), ErrClosed)
	assert.ErrorContains(t, mine.Allow(), "the shared buffer of 2097152 bytes is closed")
}

// Every call may fail, and then what was done before it is undone: openFake's cleanup counts, and so does openFiles.
func TestSharedMemoryThatFails(t *testing.T) {
	f := openFake(t)
	c := f.context()
	whole := f.shared(c, 1)
	file, err := whole.Export()
	require.NoError(t, err)
	defer file.Close()
	before, live := openFiles(t), f.control("fake_live")
	for _, s := range []symbol{
		cuMemGetAllocationGranularity, cuMemCreate, cuMemImportFromShareableHandle, cuMemAddressReserve, cuMemMap, cuMemSetAccess,
	} {
		f.fail(s, ErrUnknown, 0, 1)
		b, err := c.AllocShared(1)
		if s == cuMemImportFromShareableHandle {
			require.NoError(t, err)
			require.NoError(t, b.Close())
			b, err = c.ImportShared(file, whole.Size())
		}
		require.ErrorIs(t, err, ErrUnknown, "%v", s)
		assert.Nil(t, b)
		assert.Equal(t, live, f.control("fake_live"), "%v", s)
		assert.Equal(t, before, openFiles(t), "%v", s)
	}
	f.fail(cuMemExportToShareableHandle, ErrNotPermitted, 0, 1)
	_, err = whole.Export()
	assert.ErrorIs(t, err, ErrNotPermitted)

	for _, s := range []symbol{cuMemUnmap, cuMemAddressFree} {
		b, err := c.AllocShared(1)
		require.NoError(t, err)
		released := f.calls(cuMemRelease)
		f.fail(s, ErrUnknown, 0, 1)
		assert.ErrorIs(t, b.Close(), ErrUnknown)
		assert.Equal(t, released+1, f.calls(cuMemRelease), "the rest is given back all the same")
		f.crashed = true
	}
}

func TestSharedMemoryIsChecked(t *testing.T) {
	f := openFake(t)
	c, other := f.context(), f.contextOf(1)
	var size *SharedSizeError
	for _, n := range []uint64{0, 1<<62 + 1, 1<<64 - 1} {
		_, err := c.AllocShared(n)
		assert.ErrorAs(t, err, &size)
		_, err = c.ImportShared(nil, n)
		assert.ErrorAs(t, err, &size)
	}
	_, err := c.AllocShared(1 << 40)
	assert.ErrorIs(t, err, ErrOutOfMemory)
	assert.ErrorContains(t, err, "allocating 1099511627776 bytes of shared device memory on cuda:0")

	pipe, end, err := os.Pipe()
	require.NoError(t, err)
	defer end.Close()
	_, err = c.ImportShared(pipe, sharedGrain)
	assert.ErrorIs(t, err, ErrInvalidValue, "a file of something else")
	assert.ErrorContains(t, err, "importing 2097152 bytes of shared memory on cuda:0")
	require.NoError(t, pipe.Close())
	for _, file := range []*os.File{pipe, nil} {
		_, err = c.ImportShared(file, sharedGrain)
		assert.ErrorContains(t, err, "the file of shared memory")
	}

	b := f.shared(c, 1, other.Device())
	file, err := b.Export()
	require.NoError(t, err)
	defer file.Close()
	_, err = c.ImportShared(file, 2*b.Size())
	assert.ErrorIs(t, err, ErrInvalidValue, "more than there is")
	assert.ErrorContains(t, err, "mapping 4194304 bytes of shared memory")

	assert.NoError(t, b.Allow())
	many := make([]*Device, maxAccessingDevices+1)
	assert.ErrorContains(t, b.Allow(many...), "want at most")
	var mismatch *DriverMismatchError
	assert.ErrorAs(t, b.Allow(openFake(t).context().Device()), &mismatch)
	f.control("fake_no_peers", 1)
	_, err = c.AllocShared(1, other.Device())
	assert.ErrorIs(t, err, ErrInvalidDevice)
	assert.ErrorContains(t, err, "cuda:1 (Fake GPU 1)")
}

func TestSharedMemoryUnsupported(t *testing.T) {
	f := openFake(t)
	c := f.context()
	f.control("fake_attribute", uintptr(FileHandles), 0)
	_, err := c.AllocShared(1)
	assert.ErrorIs(t, err, ErrNotSupported)
	assert.ErrorContains(t, err, "cuda:0 (Fake GPU 0) cannot share memory by file descriptors")
	assert.Equal(t, 0, f.calls(cuMemCreate))
}

func TestSharedMemoryOfAPoisonedContext(t *testing.T) {
	f := openFake(t)
	c := f.context()
	b, err := c.AllocShared(1)
	require.NoError(t, err)
	f.fail(cuCtxSynchronize, ErrIllegalAddress, 0, 1)
	assert.ErrorIs(t, c.Synchronize(), ErrPoisoned)
	_, err = b.Export()
	assert.ErrorIs(t, err, ErrPoisoned)
	assert.ErrorIs(t, b.Close(), ErrPoisoned)
	assert.NoError(t, b.Close())
	f.crashed = true
}

// Goroutines export, import and close at once; nothing may be left.
func TestSharedMemoryFromManyGoroutines(t *testing.T) {
	f := openFake(t)
	contexts := []*Context{f.contextOf(0), f.contextOf(1)}
	before := openFiles(t)
	b, err := contexts[0].AllocShared(1)
	require.NoError(t, err)
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			for {
				file, err := b.Export()
				if errors.Is(err, ErrClosed) {
					return
				}
				if !assert.NoError(t, err) {
					return
				}
				again, err := contexts[g%2].ImportShared(file, b.Size())
				if assert.NoError(t, err) {
					assert.NoError(t, contexts[g%2].CopyToDevice(again.Ptr()+DevicePtr(g), []byte{byte(g)}))
					assert.NoError(t, again.Close())
				}
				assert.NoError(t, file.Close())
				if g == 7 {
					assert.NoError(t, b.Close())
				}
			}
		})
	}
	wg.Wait()
	assert.Equal(t, before, openFiles(t))
}

// TestSharedMemoryOfAnotherProcess writes in one process what another then reads.
func TestSharedMemoryOfAnotherProcess(t *testing.T) {
	f := openFake(t)
	shareWithAnotherProcess(t, f.context(), func() *Context { return f.contextOf(1) })
}

const envSharedSize = "FSGEN_TEST_SHARED_SIZE" // set for the other process

// shareWithAnotherProcess runs the test once more in a process of its own, where other gives the context that the memory is
// imported into.
func shareWithAnotherProcess(t *testing.T, c *Context, other func() *Context) {
	t.Helper()
	if size, err := strconv.ParseUint(os.Getenv(envSharedSize), 10, 64); err == nil {
		importAndWrite(t, other(), size)
		return
	}
	b, err := c.AllocShared(1)
	require.NoError(t, err)
	defer func() { assert.NoError(t, b.Close()) }()
	require.NoError(t, c.CopyToDevice(b.Ptr(), bytes.Repeat([]byte{1}, 8)))
	file, err := b.Export()
	require.NoError(t, err)
	cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.count", "1")
	cmd.Env = append(os.Environ(), envSharedSize+"="+strconv.FormatUint(b.Size(), 10))
	cmd.ExtraFiles = []*os.File{file}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, file.Close())
	got := make([]byte, 8)
	require.NoError(t, c.CopyFromDevice(got, b.Ptr()))
	assert.Equal(t, []byte{1, 1, 9, 9, 9, 9, 1, 1}, got)
}

func importAndWrite(t *testing.T, c *Context, size uint64) {
	t.Helper()
	file := os.NewFile(3, "inherited")
	b, err := c.ImportShared(file, size)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	got := make([]byte, 1)
	require.NoError(t, c.CopyFromDevice(got, b.Ptr()+7))
	assert.Equal(t, []byte{1}, got)
	require.NoError(t, c.CopyToDevice(b.Ptr()+2, []byte{9, 9, 9, 9}))
	require.NoError(t, b.Close())
}
