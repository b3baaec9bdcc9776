//go:build linux && (amd64 || arm64)

package driver

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/ebitengine/purego"
	"golang.org/x/sys/unix"
)

// libraryNames are tried in order for the driver: what the system's loader finds, then where containers and
// distributions put it without telling the loader.
var libraryNames = []string{
	"libcuda.so.1",
	"/usr/local/nvidia/lib64/libcuda.so.1",
	"/usr/lib/wsl/lib/libcuda.so.1",
	"/run/opengl-driver/lib/libcuda.so.1",
}

func dlopen(path string) (uintptr, error) {
	runtime.LockOSThread() // dlerror's text belongs to the thread that failed
	defer runtime.UnlockOSThread()
	return purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
}

func dlsym(handle uintptr, name string) (uintptr, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return purego.Dlsym(handle, name)
}

// invoke calls a C function that returns a CUresult. args must lie in memory that outlives the call, and neither it
// nor any argument may point into a stack. Passing a slice that is on the heap already is what keeps this free of
// allocations, at about 75 ns a call; purego.RegisterFunc costs 630 ns and allocates.
func invoke(fn uintptr, args []uintptr) Code {
	result, _, _ := purego.SyscallN(fn, args...)
	return Code(uint32(result))
}

// mmap returns zeroed memory outside the Go heap.
func mmap(n int) ([]byte, error) {
	return unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
}

func munmap(b []byte) error { return unix.Munmap(b) }

// nap sleeps for about d. time.Sleep would often sleep a whole millisecond: the scheduler's poller counts in those.
func nap(d time.Duration) {
	t := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&t, nil)
}

// closeOnExec keeps a descriptor from programs that the process starts.
func closeOnExec(fd int) { unix.CloseOnExec(fd) }

// newHostFile makes a file in memory, which nobody can make smaller under those who have mapped it.
func newHostFile(size int) (int, error) {
	fd, err := unix.MemfdCreate("fsgen", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return 0, err
	}
	if err = unix.Ftruncate(fd, int64(size)); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL)
	}
	if err != nil {
		_ = unix.Close(fd)
	}
	return fd, err
}

// mapFile maps a file of newHostFile, here or in another process.
func mapFile(fd uintptr, size int) ([]byte, error) {
	seals, err := unix.FcntlInt(fd, unix.F_GET_SEALS, 0)
	if err != nil || seals&unix.F_SEAL_SHRINK == 0 {
		return nil, errors.New("it is not of NewHostFile")
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(fd), &stat); err != nil {
		return nil, err
	}
	if int64(size) > stat.Size {
		return nil, fmt.Errorf("it has %d bytes", stat.Size)
	}
	return unix.Mmap(int(fd), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}
