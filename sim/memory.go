package sim

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sort"
)

// Generic addresses (PTX ISA, "Generic Addressing"): windows for the spaces that are not global, far from one another so that
// a stray address meets nothing.
const (
	mapBase      = 0x00_0500_0000_0000 // tensor maps that the launch keeps in global memory
	moduleBase   = 0x00_0600_0000_0000 // variables of the module
	sharedBase   = 0x00_0680_0000_0000 // allocations that several memories have
	heapBase     = 0x00_0700_0000_0000 // allocations
	paramWindow  = 0x00_7d00_0000_0000
	localWindow  = 0x00_7e00_0000_0000
	sharedWindow = 0x00_7f00_0000_0000
	windowMask   = ^uint64(0xFFFFFFFF)
)

// Memory is a device's global memory. Allocations are apart, so that an access past the end of one is found to the byte.
// A run owns the memory: calls of one Memory must not overlap.
type Memory struct {
	blocks []*Block // by address
	next   uint64
}

// NewSharedMemory makes an empty memory whose allocations other memories may adopt (Memory.Adopt).
func NewSharedMemory() *Memory { return &Memory{next: sharedBase} }

// NewMemory makes an empty memory.
func NewMemory() *Memory { return &Memory{next: heapBase} }

// Block is one allocation.
type Block struct {
	Name string
	Addr uint64
	// ReadOnly makes a kernel's write a finding.
	ReadOnly bool
	// Owner is the rank whose memory it is, counted from 1, in a run of several (RunGroup): stores of other ranks go through a link.
	// 0 is memory that no rank stores to from afar.
	Owner int

	data  []byte
	wrote []bool // by byte
}

// Alloc makes an allocation of n bytes, aligned to 256 as the CUDA driver does. Nobody has written it: reading it is a
// finding until Write or a kernel has.
func (m *Memory) Alloc(name string, n int) *Block {
	b := &Block{Name: name, Addr: m.next, data: make([]byte, n), wrote: make([]bool, n)}
	m.next = (m.next + uint64(n) + 4096 + 255) &^ 255
	m.blocks = append(m.blocks, b)
	return b
}

// Put makes an allocation that holds a copy of data.
func (m *Memory) Put(name string, data []byte) *Block {
	b := m.Alloc(name, len(data))
	b.Write(0, data)
	return b
}

// Adopt adds an allocation of another memory. Their addresses must be apart.
func (m *Memory) Adopt(b *Block) {
	i := sort.Search(len(m.blocks), func(i int) bool { return m.blocks[i].Addr > b.Addr })
	m.blocks = slices.Insert(m.blocks, i, b)
}

// Free removes an allocation: accesses to it become findings.
func (m *Memory) Free(b *Block) {
	m.blocks = slices.DeleteFunc(m.blocks, func(x *Block) bool { return x == b })
}

// Size is the size in bytes.
func (b *Block) Size() int { return len(b.data) }

// Write copies data into the allocation.
func (b *Block) Write(at int, data []byte) {
	copy(b.data[at:], data)
	for i := range data {
		b.wrote[at+i] = true
	}
}

// Read copies from the allocation.
func (b *Block) Read(at int, data []byte) { copy(data, b.data[at:]) }

// Written reports whether every byte of the allocation has been written.
func (b *Block) Written() bool { return !slices.Contains(b.wrote, false) }

// find returns the allocation that holds [addr, addr+n) and the place in it, or nil.
func (m *Memory) find(addr uint64, n int) (*Block, int) {
	i := sort.Search(len(m.blocks), func(i int) bool { return m.blocks[i].Addr > addr }) - 1
	if i < 0 {
		return nil, 0
	}
	b := m.blocks[i]
	if at := addr - b.Addr; at+uint64(n) <= uint64(len(b.data)) {
		return b, int(at)
	}
	return nil, 0
}

// describe says where an address that no allocation holds lies.
func (m *Memory) describe(addr uint64) string {
	i := sort.Search(len(m.blocks), func(i int) bool { return m.blocks[i].Addr > addr }) - 1
	if i < 0 {
		return fmt.Sprintf("address %#x is in no allocation", addr)
	}
	b := m.blocks[i]
	return fmt.Sprintf("address %#x is %d bytes into %q, which has %d", addr, addr-b.Addr, b.Name, len(b.data))
}

// mapped lays the module's variables over the memory for one run.
func (m *Memory) mapped(image []global) *Memory {
	out := &Memory{}
	for _, g := range image {
		b := &Block{Name: g.name, Addr: g.addr, ReadOnly: g.ro, data: slices.Clone(g.data), wrote: make([]bool, len(g.data))}
		for i := range b.wrote {
			b.wrote[i] = true // variables without initialiser are zero
		}
		out.blocks = append(out.blocks, b)
	}
	out.blocks = append(out.blocks, m.blocks...)
	sort.Slice(out.blocks, func(i, j int) bool { return out.blocks[i].Addr < out.blocks[j].Addr })
	return out
}

// load and store read and write a little-endian value of n bytes.
func load(data []byte, n int) uint64 {
	switch n {
	case 1:
		return uint64(data[0])
	case 2:
		return uint64(binary.LittleEndian.Uint16(data))
	case 4:
		return uint64(binary.LittleEndian.Uint32(data))
	}
	return binary.LittleEndian.Uint64(data)
}

func store(data []byte, n int, v uint64) {
	switch n {
	case 1:
		data[0] = byte(v)
	case 2:
		binary.LittleEndian.PutUint16(data, uint16(v))
	case 4:
		binary.LittleEndian.PutUint32(data, uint32(v))
	default:
		binary.LittleEndian.PutUint64(data, v)
	}
}
