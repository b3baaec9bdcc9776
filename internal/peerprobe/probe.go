package peerprobe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/fsgen/fsgen/driver"
)

// Bytes is how much memory a probe writes: more than one packet of any link.
const Bytes = 4096

const words = Bytes / 4

// Timeout is enough for a copy of a few KB on a device that is busy with other work.
const Timeout = 5 * time.Second

// Veto says that memory does not hold what was written to it. It is an answer and no failure of a call: those keep their own
// type.
type Veto struct {
	// Writer and Owner are devices, as in "cuda:0 (NVIDIA H200)"; "" for the one that the process at hand does not know.
	Writer, Owner string
	// Wrong is how many 32-bit words differ, of Words.
	Wrong, Words int
	// Offset is where the first of them lies, in bytes; there, Wrote was written and Saw was seen.
	Offset     int
	Wrote, Saw uint32
	// Err is set where nothing could be compared: the copy did not end in time (context.DeadlineExceeded).
	Err error
}

func (v *Veto) Error() string {
	who := fmt.Sprintf("peer access from %s to %s", orPeer(v.Writer), orPeer(v.Owner))
	if v.Err != nil {
		return fmt.Sprintf("peerprobe: %s: the copy did not end: %v", who, v.Err)
	}
	return fmt.Sprintf("peerprobe: %s loses stores: %d of %d words differ, the first at byte %d: wrote %#08x, saw %#08x",
		who, v.Wrong, v.Words, v.Offset, v.Wrote, v.Saw)
}

// Unwrap returns what ended the copy, if nothing could be compared.
func (v *Veto) Unwrap() error { return v.Err }

func orPeer(device string) string {
	if device == "" {
		return "a peer"
	}
	return device
}

// Path is one direction between two devices: Bytes of memory, by the writer's address and by the owner's.
type Path struct {
	Writer *driver.Context
	Remote driver.DevicePtr
	Owner  *driver.Context
	Local  driver.DevicePtr
}

// Run writes from one device to the other's memory and reads it there. Both directions are two runs. It returns nil if all
// arrived within the timeout (0 is Timeout), a *Veto if not, ctx's error if that ended first, or a call's.
func Run(ctx context.Context, p Path, timeout time.Duration) error {
	if timeout == 0 {
		timeout = Timeout
	}
	timed, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	seed := uint32(time.Now().UnixNano())
	err := Clear(timed, p.Owner, p.Local, seed)
	if err == nil {
		err = Write(timed, p.Writer, p.Remote, seed)
	}
	if err == nil {
		err = Verify(timed, p.Owner, p.Local, seed)
	}
	var veto *Veto
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &veto):
		veto.Writer, veto.Owner = p.Writer.Device().String(), p.Owner.Device().String()
	case errors.Is(err, context.DeadlineExceeded):
		veto = &Veto{Writer: p.Writer.Device().String(), Owner: p.Owner.Device().String(), Words: words, Err: err}
		err = veto
	}
	return err
}

// pattern is what a probe writes: no two words alike, none of them what Clear leaves there, and another for every seed, so that
// what an earlier probe wrote is not taken for this one's.
func pattern(seed uint32) []byte {
	b := make([]byte, 0, Bytes)
	for i := range uint32(words) {
		b = binary.LittleEndian.AppendUint32(b, (seed+i)*0x9E3779B1)
	}
	return b
}

// Clear fills the owner's memory with what no probe of this seed writes there: the complement.
func Clear(ctx context.Context, owner *driver.Context, local driver.DevicePtr, seed uint32) error {
	b := pattern(seed)
	for i := range b {
		b[i] = ^b[i]
	}
	return write(ctx, owner, local, b)
}

// Write writes the pattern of a seed to the other device's memory, and returns when the copy is done.
func Write(ctx context.Context, writer *driver.Context, remote driver.DevicePtr, seed uint32) error {
	return write(ctx, writer, remote, pattern(seed))
}

// write lays bytes into memory of the device and has that copy them, which goes the way that a kernel's stores go.
func write(ctx context.Context, c *driver.Context, to driver.DevicePtr, b []byte) error {
	return onStream(ctx, c, func(s *driver.Stream, host *driver.HostBuffer, own *driver.Buffer) error {
		copy(host.Bytes(), b)
		if err := s.CopyToDevice(own.Ptr(), host, 0, Bytes); err != nil {
			return err
		}
		return s.CopyWithinDevice(to, own.Ptr(), Bytes)
	}, nil)
}

// Verify reads the owner's memory and compares it with the pattern of a seed. What differs is a *Veto.
func Verify(ctx context.Context, owner *driver.Context, local driver.DevicePtr, seed uint32) error {
	return onStream(ctx, owner, func(s *driver.Stream, host *driver.HostBuffer, _ *driver.Buffer) error {
		return s.CopyFromDevice(host, 0, Bytes, local)
	}, func(got []byte) error { return compare(pattern(seed), got, owner.Device().String()) })
}

func compare(want, got []byte, owner string) error {
	veto := &Veto{Owner: owner, Words: words}
	le := binary.LittleEndian
	for at := 0; at < Bytes; at += 4 {
		wrote, saw := le.Uint32(want[at:]), le.Uint32(got[at:])
		if wrote == saw {
			continue
		}
		if veto.Wrong == 0 {
			veto.Offset, veto.Wrote, veto.Saw = at, wrote, saw
		}
		veto.Wrong++
	}
	if veto.Wrong == 0 {
		return nil
	}
	return veto
}
