package nccl

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"structs"
	"sync"
	"time"
	"unsafe"
)

// Config says which communicator a rank is of.
type Config struct {
	World, Rank int
	ID          UniqueID
	// Blocking has NCCL do its waiting inside its calls, where neither ctx nor Abort can end it.
	Blocking bool
}

// Comm is one rank's part of a communicator. All methods may be called from any goroutine; gathers run in the order in which
// they are enqueued, which must be the same on all ranks.
type Comm struct {
	lib         *Library
	world, rank int
	enqueuing   sync.Mutex // held from a gather's call until NCCL has it

	mu     sync.Mutex // held during a call into NCCL
	handle uintptr    // ncclComm_t; 0 once it is gone
}

// cConfig is ncclConfig_t of NCCL 2.14, which every later version takes: it reads as much as the size says, and knows by the
// version what it need not ask for.
type cConfig struct {
	_              structs.HostLayout
	size           uint64
	magic, version uint32
	blocking       int32
	_              int32
}

const configMagic = 0xcafebeef // NCCL_API_MAGIC

// Init joins a communicator and returns when all ranks have. The ranks call it at once, each with the context of its device
// current. If ctx ends first the communicator is aborted and the error a *WaitError, unless cfg.Blocking.
func (l *Library) Init(ctx context.Context, cfg Config) (*Comm, error) {
	if cfg.World < 1 || cfg.Rank < 0 || cfg.Rank >= cfg.World {
		return nil, &ConfigError{fmt.Sprintf("rank %d of %d: want 1 rank or more, the first is 0", cfg.Rank, cfg.World)}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c := &Comm{lib: l, world: cfg.World, rank: cfg.Rank}
	out := new(uintptr)
	var pin runtime.Pinner // NCCL may look there until the communicator is made, long after its call has returned
	pin.Pin(out)
	defer pin.Unpin()
	config := &cConfig{size: uint64(unsafe.Sizeof(cConfig{})), magic: configMagic, version: uint32(minVersion)}
	if cfg.Blocking {
		config.blocking = 1
	}
	var id uniqueID
	for i := range id.words {
		id.words[i] = binary.NativeEndian.Uint64(cfg.ID[8*i:])
	}
	r := Result(l.init(unsafe.Pointer(out), int32(cfg.World), id, int32(cfg.Rank), unsafe.Pointer(config)))
	c.handle = *out
	if err := c.settle(ctx, fnInit, r); err != nil {
		return nil, errors.Join(err, c.Abort())
	}
	return c, nil
}

// World returns the number of ranks, Rank which of them this is.
func (c *Comm) World() int { return c.world }

// Rank returns the rank of this process.
func (c *Comm) Rank() int { return c.rank }

func (c *Comm) String() string { return fmt.Sprintf("rank %d of %d", c.rank, c.world) }

const typeUint8 = 1 // ncclUint8

// AllGather enqueues on a CUstream that every rank's n bytes at send be put at recv+i*n of every rank, i being the rank they are
// of: recv takes World() times n. send may be recv+Rank()*n. Both are device memory. It returns when the work is enqueued; Abort
// ends it if NCCL has to wait for other ranks first. For graph capture use a blocking communicator: another one's work is enqueued
// by a thread of NCCL's, and not by the one that captures.
func (c *Comm) AllGather(send, recv uint64, n uint64, stream uintptr) error {
	if n > 1<<62/uint64(c.world) {
		return &ConfigError{fmt.Sprintf("a gather of %d bytes from each of %d ranks", n, c.world)}
	}
	if n == 0 {
		return nil
	}
	c.enqueuing.Lock()
	defer c.enqueuing.Unlock()
	r, err := c.call(func() uintptr {
		return c.lib.fn[fnAllGather].Call(uintptr(send), uintptr(recv), uintptr(n), typeUint8, c.handle, stream)
	})
	if err != nil {
		return err
	}
	return c.settle(context.Background(), fnAllGather, r)
}

// AsyncError returns the error that the communicator's work has met since, on the device or the network, or nil. Work that waits
// for a rank that died may end nowhere else: whoever waits for a stream asks from time to time, and aborts.
func (c *Comm) AsyncError() error {
	r, err := c.state()
	if err != nil || r == inProgress {
		return err
	}
	return c.lib.check(fnAsyncError, r, c.String())
}

// Abort ends the communicator and the work that it still has on the device. It waits for a call that is inside NCCL, which only
// a blocking communicator's takes long to return from. After Abort, or Close, it does nothing.
func (c *Comm) Abort() error { return c.drop(fnAbort) }

// Close waits until the work of all ranks is done, and destroys the communicator. If ctx ends first it is aborted, and the error
// a *WaitError; a blocking one waits for ever for a rank that does not close. A second Close does nothing.
func (c *Comm) Close(ctx context.Context) error {
	c.enqueuing.Lock()
	defer c.enqueuing.Unlock()
	r, err := c.call(func() uintptr { return c.lib.fn[fnFinalize].Call(c.handle) })
	if err == nil {
		err = c.settle(ctx, fnFinalize, r)
	}
	switch {
	case errors.Is(err, ErrClosed):
		return nil
	case err != nil:
		return errors.Join(err, c.Abort())
	}
	return c.drop(fnDestroy)
}

// drop gives the handle back, once.
func (c *Comm) drop(f function) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.handle == 0 {
		return nil
	}
	r := resultOf(c.lib.fn[f].Call(c.handle))
	c.handle = 0
	if r == inProgress { // the rest happens in the background
		return nil
	}
	return c.lib.check(f, r, c.String())
}

// call makes a call on the communicator, unless it is gone.
func (c *Comm) call(f func() uintptr) (Result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.handle == 0 {
		return 0, ErrClosed
	}
	return resultOf(f()), nil
}

// state asks what the communicator is at: success, inProgress, or an error.
func (c *Comm) state() (Result, error) {
	var state int32
	r, err := c.call(func() uintptr { return c.lib.fn[fnAsyncError].Call(c.handle, uintptr(unsafe.Pointer(&state))) })
	if err == nil {
		err = c.lib.check(fnAsyncError, r, c.String())
	}
	return Result(state), err
}

// settle waits until the communicator has done what a call asked of it.
func (c *Comm) settle(ctx context.Context, f function, r Result) error {
	for tries := 0; r == inProgress; tries++ {
		if ctx.Err() != nil {
			return &WaitError{functionNames[f], c.String(), ctx.Err()}
		}
		if tries < 100 {
			runtime.Gosched()
		} else {
			time.Sleep(time.Millisecond)
		}
		var err error
		if r, err = c.state(); err != nil {
			return err
		}
	}
	return c.lib.check(f, r, c.String())
}
