package sim

import (
	"math/bits"

	"github.com/fsgen/fsgen/internal/isa"
)

const genericSpace = isa.Generic

// resolve turns a generic address into one of a space.
func resolve(space isa.Space, addr uint64) (isa.Space, uint64) {
	if space != isa.Generic {
		return space, addr
	}
	switch addr & windowMask {
	case sharedWindow:
		return isa.SharedCluster, addr &^ windowMask
	case localWindow:
		return isa.Local, addr &^ windowMask
	case paramWindow:
		return isa.Param, addr &^ windowMask
	}
	return isa.Global, addr
}

// read checks a read of n bytes and returns them, or nil.
func (s *step) read(space isa.Space, lane int, addr uint64, n, align int) []byte {
	space, addr = resolve(space, addr)
	switch space {
	case isa.Shared, isa.SharedCluster:
		c, at := s.shared(lane, addr, n, align)
		if c == nil {
			return nil
		}
		return s.readShared(c, lane, at, n)
	case isa.Local:
		return s.private(s.w.local[lane], "local", lane, addr, n, align)
	case isa.Param:
		return s.private(s.w.cta.cluster.grid.params, "parameter", lane, addr, n, align)
	}
	b, at := s.global(lane, addr, n, align)
	if b == nil {
		return nil
	}
	for _, ok := range b.wrote[at : at+n] {
		if !ok {
			s.find(Uninitialised, lane, "reads %d bytes at %d of %q, which nobody wrote", n, at, b.Name)
			break
		}
	}
	return b.data[at : at+n]
}

// write checks a write of n bytes and returns them to be changed, or nil.
func (s *step) write(space isa.Space, lane int, addr uint64, n, align int) []byte {
	space, addr = resolve(space, addr)
	switch space {
	case isa.Shared, isa.SharedCluster:
		c, at := s.shared(lane, addr, n, align)
		if c == nil {
			return nil
		}
		return s.writeShared(c, lane, at, n)
	case isa.Local:
		return s.private(s.w.local[lane], "local", lane, addr, n, align)
	case isa.Param:
		s.find(OutOfBounds, lane, "writes parameter memory")
		return nil
	}
	b, at := s.global(lane, addr, n, align)
	if b == nil {
		return nil
	}
	if b.ReadOnly {
		s.find(OutOfBounds, lane, "writes %d bytes at %d of %q, which is only to be read", n, at, b.Name)
		return nil
	}
	for i := range n {
		b.wrote[at+i] = true
	}
	return b.data[at : at+n]
}

func (s *step) private(data []byte, what string, lane int, addr uint64, n, align int) []byte {
	if addr+uint64(n) > uint64(len(data)) {
		s.find(OutOfBounds, lane, "%s address %#x, %d bytes; there are %d", what, addr, n, len(data))
		return nil
	}
	if addr%uint64(align) != 0 {
		s.find(Misaligned, lane, "%s address %#x is no multiple of %d", what, addr, align)
		return nil
	}
	return data[addr : addr+uint64(n)]
}

func (s *step) global(lane int, addr uint64, n, align int) (*Block, int) {
	mem := s.w.cta.cluster.grid.mem
	if addr%uint64(align) != 0 {
		s.find(Misaligned, lane, "global address %#x is no multiple of %d", addr, align)
		return nil, 0
	}
	b, at := mem.find(addr, n)
	if b == nil {
		s.find(OutOfBounds, lane, "%d bytes at %s", n, mem.describe(addr))
	}
	return b, at
}

// touchesGlobal reports whether any active lane's address lies in global memory.
func (s *step) touchesGlobal(space isa.Space, x address) bool {
	if space != isa.Generic {
		return space == isa.Global
	}
	for m := s.m; m != 0; m &= m - 1 {
		if sp, _ := resolve(space, x.of(s.w, bits.TrailingZeros32(m))); sp == isa.Global {
			return true
		}
	}
	return false
}
