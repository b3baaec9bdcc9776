package driver

import (
	"bytes"
	"fmt"
	"math/bits"
	"sync"
	"unsafe"
)

// Memory outside the Go heap. What the driver reads or writes during a call lies here: goroutine stacks move, and the
// collector must not meet integers that look like pointers. Blocks come in powers of two and are aligned to their
// size, up to a page; a freed block waits for the next user of its size.
var blocks struct {
	sync.Mutex
	free [maxClass + 1][][]byte
}

const (
	minClass  = 9  // 512 bytes
	maxClass  = 16 // 64 KiB, which is also what is asked of the system at a time; larger blocks are the system's own
	pageBytes = 4096
)

// newBlock returns n or more zeroed bytes outside the Go heap.
func newBlock(n int) ([]byte, error) {
	class := max(bits.Len(uint(n-1)), minClass)
	if class > maxClass {
		return mapPages(n)
	}
	blocks.Lock()
	defer blocks.Unlock()
	list := blocks.free[class]
	if len(list) == 0 {
		chunk, err := mapPages(1 << maxClass)
		if err != nil {
			return nil, err
		}
		for at := 0; at < len(chunk); at += 1 << class {
			list = append(list, chunk[at:at+1<<class:at+1<<class])
		}
	}
	b := list[len(list)-1]
	blocks.free[class] = list[:len(list)-1]
	clear(b)
	return b, nil
}

// freeBlock takes back what newBlock returned.
func freeBlock(b []byte) {
	if len(b) > 1<<maxClass {
		_ = munmap(b)
		return
	}
	class := bits.Len(uint(len(b) - 1))
	blocks.Lock()
	blocks.free[class] = append(blocks.free[class], b)
	blocks.Unlock()
}

func mapPages(n int) ([]byte, error) {
	b, err := mmap((n + pageBytes - 1) &^ (pageBytes - 1))
	if err != nil {
		return nil, fmt.Errorf("driver: no memory outside the Go heap: %w", err)
	}
	return b, nil
}

// address is where a block begins, as the driver takes it.
func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// at views the memory at offset off of a block as a T.
func at[T any](b []byte, off int) *T {
	var zero T
	_ = b[off : off+int(unsafe.Sizeof(zero))]
	return (*T)(unsafe.Pointer(&b[off]))
}

// cString returns the text that the driver's char pointer stored in word w of a frame points to.
func (f *frame) cString(w int) string {
	p := *at[unsafe.Pointer](f.mem, 8*w)
	if p == nil {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(p, n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(p), n))
}

// cBytes returns a view of n bytes at the pointer that the driver stored in word w of a frame.
func (f *frame) cBytes(w, n int) []byte {
	p := *at[unsafe.Pointer](f.mem, 8*w)
	if p == nil || n == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(p), n)
}

// frame is the scratch memory of one driver call at a time: the call, and outside the Go heap its out-parameters. The first
// words of mem are outs for the caller; the rest is laid out as each call needs.
type frame struct {
	call bracketed
	one  [1]uintptr // for calls of one argument around the call
	mem  []byte
}

const (
	frameBytes = 1024
	outWords   = 15 // words 0 to 14 are the caller's out-parameters; word 15 takes the popped context
	popWord    = 15
	frameSpace = 128 // where the words end and free space, aligned to 128, begins
)

// frames are kept, not left to a sync.Pool: as many exist as calls were ever in flight together, and taking one
// never allocates once they do.
var frames struct {
	sync.Mutex
	free []*frame
}

func getFrame() *frame {
	frames.Lock()
	defer frames.Unlock()
	if n := len(frames.free); n > 0 {
		f := frames.free[n-1]
		frames.free = frames.free[:n-1]
		return f
	}
	mem, err := newBlock(frameBytes)
	if err != nil {
		panic(err) // the process has no memory left for 64 KiB, as when the Go heap cannot grow
	}
	return &frame{mem: mem}
}

func putFrame(f *frame) {
	frames.Lock()
	frames.free = append(frames.free, f)
	frames.Unlock()
}

// out returns the address of out-parameter word w, after zeroing it.
func (f *frame) out(w int) uintptr {
	*at[uint64](f.mem, 8*w) = 0
	return address(f.mem) + uintptr(8*w)
}

// poppedAt is where the context that a call pops goes.
func (f *frame) poppedAt() uintptr { return address(f.mem) + 8*popWord }

// word returns out-parameter w as the driver left it; word32 and int return narrower ones.
func (f *frame) word(w int) uint64   { return *at[uint64](f.mem, 8*w) }
func (f *frame) word32(w int) uint32 { return *at[uint32](f.mem, 8*w) }
func (f *frame) int(w int) int       { return int(*at[int32](f.mem, 8*w)) }
func (f *frame) handle(w int) uintptr {
	return *at[uintptr](f.mem, 8*w)
}

// cText returns the text in b up to the first NUL.
func cText(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}
