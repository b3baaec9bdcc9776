package sim

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/fsgen/fsgen/manifest"
)

// TensorMap is what a tensor map says (CUDA Driver API, cuTensorMapEncodeTiled). Dimensions go from the innermost outwards.
type TensorMap struct {
	Addr    uint64
	Element int // bytes
	Dims    []int
	Strides []int // bytes from one to the next, for dimensions 1 on
	Box     []int
	Swizzle int // bytes: 0, 32, 64, 128
}

// elementBytes are the element types of the manifest.
var elementBytes = map[string]int{"u8": 1, "bf16": 2, "f16": 2, "f32": 4, "u32": 4, "u64": 8}

// newTensorMap makes the map that the manifest asks for. The rules are the driver's: it refuses what breaks them.
func newTensorMap(p *manifest.Param, t Tensor) (*TensorMap, error) {
	m := &TensorMap{Addr: t.Addr, Element: elementBytes[p.Map.Element], Swizzle: p.Map.Swizzle,
		Dims: []int{t.Cols, t.Rows}, Strides: []int{t.Stride}}
	for _, b := range p.Map.Box {
		m.Box = append(m.Box, int(b))
	}
	fail := func(format string, args ...any) (*TensorMap, error) {
		return nil, fmt.Errorf("sim: tensor map %s: %s", p.Name, fmt.Sprintf(format, args...))
	}
	switch {
	case m.Element == 0:
		return fail("element type %q", p.Map.Element)
	case len(m.Box) != len(m.Dims):
		return fail("the box has %d dimensions, the tensor %d", len(m.Box), len(m.Dims))
	case t.Addr%16 != 0:
		return fail("address %#x is no multiple of 16", t.Addr)
	case t.Stride%16 != 0:
		return fail("stride %d is no multiple of 16", t.Stride)
	case t.Rows < 1 || t.Cols < 1:
		return fail("%d rows of %d", t.Rows, t.Cols)
	case m.Box[0]*m.Element%16 != 0:
		return fail("a row of the box has %d bytes, no multiple of 16", m.Box[0]*m.Element)
	case m.Swizzle > 0 && m.Box[0]*m.Element > m.Swizzle:
		return fail("a row of the box has %d bytes, the swizzle spans %d", m.Box[0]*m.Element, m.Swizzle)
	}
	for _, b := range m.Box {
		if b < 1 || b > 256 {
			return fail("box %v: want 1 to 256", m.Box)
		}
	}
	return m, nil
}

// boxBytes is what one copy brings, out-of-bounds elements included.
func (m *TensorMap) boxBytes() int {
	n := m.Element
	for _, b := range m.Box {
		n *= b
	}
	return n
}

// mapMagic begins an encoded map, so that an address that points elsewhere is noticed. The real encoding is the driver's
// secret; kernels only pass it on.
const mapMagic = 0x7061_6d5f_6e65_6773

func encodeMap(at []byte, index int) {
	binary.LittleEndian.PutUint64(at, mapMagic)
	binary.LittleEndian.PutUint64(at[8:], uint64(index))
}

// putMap lays an encoded map into global memory, as a copy from the host does.
func (g *grid) putMap(name string, index int) uint64 {
	b := &Block{Name: "tensor map " + name, Addr: mapBase + uint64(index)<<12, ReadOnly: true, data: make([]byte, mapBytes),
		wrote: slices.Repeat([]bool{true}, mapBytes)}
	encodeMap(b.data, index)
	at := slices.IndexFunc(g.mem.blocks, func(x *Block) bool { return x.Addr > b.Addr })
	if at < 0 {
		at = len(g.mem.blocks)
	}
	g.mem.blocks = slices.Insert(g.mem.blocks, at, b)
	return b.Addr
}

const mapBytes = 128

// tensorMap finds the map at a generic address for an access by it. One in global memory was written through another proxy:
// the CTA has to acquire it first.
func (s *step) tensorMap(lane int, addr uint64) *TensorMap {
	m := s.mapAt(lane, addr)
	if m != nil && addr&windowMask != paramWindow && !s.w.cta.acquired[addr] {
		s.find(MissingFence, lane, "the tensor map at %#x in global memory is used ahead of a fence.proxy.tensormap::generic.acquire", addr)
	}
	return m
}

// mapAt finds the map at a generic address.
func (s *step) mapAt(lane int, addr uint64) *TensorMap {
	data := s.read(genericSpace, lane, addr, 8, 64)
	if data == nil {
		return nil
	}
	g := s.w.cta.cluster.grid
	if load(data, 8) != mapMagic {
		s.find(OutOfBounds, lane, "address %#x holds no tensor map", addr)
		return nil
	}
	index := s.read(genericSpace, lane, addr+8, 8, 8)
	if index == nil || load(index, 8) >= uint64(len(g.maps)) {
		return nil
	}
	return g.maps[load(index, 8)]
}

// swizzled permutes 16-byte chunks of shared memory: bits 4 on are xored with those above bit 7 (PTX ISA, "Swizzling
// Modes"). The pattern lies in the address, not in the box.
func swizzled(addr uint32, span int) uint32 {
	switch span {
	case 128:
		return addr ^ addr>>3&0x70
	case 64:
		return addr ^ addr>>3&0x30
	case 32:
		return addr ^ addr>>3&0x10
	}
	return addr
}

// box calls f for each row of a box: its place in the box in bytes, the global address of its first element that exists, how
// many bytes of it exist, and how many zeros come before them.
func (m *TensorMap) box(coords []int, f func(at int, addr uint64, zeros, n int)) {
	row := m.Box[0] * m.Element
	first := max(coords[0], 0)
	last := min(coords[0]+m.Box[0], m.Dims[0])
	n := max(last-first, 0) * m.Element
	rows := m.boxBytes() / row
	for r := range rows {
		addr, rest, inside := m.Addr+uint64(first*m.Element), r, true
		for d := 1; d < len(m.Dims); d++ {
			x := coords[d] + rest%m.Box[d]
			rest /= m.Box[d]
			inside = inside && x >= 0 && x < m.Dims[d]
			addr += uint64(int64(x) * int64(m.Strides[d-1]))
		}
		if !inside || n == 0 {
			f(r*row, 0, row, 0)
			continue
		}
		f(r*row, addr, (first-coords[0])*m.Element, n)
	}
}
