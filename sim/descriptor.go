package sim

import "math"

// matrix is an operand of a tensor core in shared memory, as its descriptor says (PTX ISA, "Matrix Descriptor Format" of
// wgmma, "Shared memory descriptor" of tcgen05).
type matrix struct {
	cta     *cta
	start   uint32
	leading uint32 // byte offset
	stride  uint32 // byte offset
	span    int    // swizzle in bytes: 0, 32, 64, 128
	byRow   bool   // K-major: the k of a row are adjacent
	decode  func(v uint64) float32
}

// wgmmaSwizzles are the modes of bits 62-63.
var wgmmaSwizzles = [4]int{0, 128, 64, 32}

// wgmmaMatrix decodes a descriptor: start address in bits 0-13, leading offset in 16-29, stride in 32-45, all in units of
// 16 bytes, base offset in 49-51, swizzle in 62-63.
func (s *step) wgmmaMatrix(d uint64, transposed bool) matrix {
	if d>>49&7 != 0 {
		s.find(Unsupported, -1, "descriptor %#x has a base offset", d)
	}
	if reserved := d & (3<<14 | 3<<30 | 7<<46 | 1023<<52); reserved != 0 {
		s.find(Unsupported, -1, "descriptor %#x sets reserved bits %#x", d, reserved)
	}
	m := matrixFields(d)
	m.cta, m.span, m.byRow = s.w.cta, wgmmaSwizzles[d>>62], !transposed
	return m
}

func matrixFields(d uint64) matrix {
	return matrix{start: uint32(d&0x3fff) << 4, leading: uint32(d>>16&0x3fff) << 4, stride: uint32(d>>32&0x3fff) << 4}
}

// chunk is the address of 16 bytes of the matrix, before the swizzle (PTX ISA, "Strides", canonical layouts). By rows: row i,
// k from 8j. By columns: k = i, rows from 8j.
func (m *matrix) chunk(i, j int) uint32 {
	group, line := uint32(i/8), uint32(i%8)
	width := uint32(max(m.span, 16))
	at := m.start + line*width
	per := int(width / 16) // chunks side by side in a span
	switch {
	case m.byRow && m.span == 0:
		return at + group*m.stride + uint32(j)*m.leading
	case m.byRow:
		return at + group*m.stride + uint32(j)*16
	case m.span == 0:
		return at + group*m.leading + uint32(j)*m.stride
	}
	return at + group*m.stride + uint32(j/per)*m.leading + uint32(j%per)*16
}

// mark is a granule that a tensor core reads.
type mark struct {
	c *cta
	g uint32
}

// tile reads rows [first, first+n) and 16 k of the matrix as [n][16] floats, checks each chunk and marks it as being read.
func (s *step) tile(m *matrix, first, n int, out []float32, marks []mark, what string) []mark {
	for r := 0; r < n; r += 8 {
		for x := range 8 {
			for half := range 2 {
				i, j := first+r+x, half // by rows: row, k chunk
				if !m.byRow {
					i, j = x+8*half, (first+r)/8
				}
				at := swizzled(m.chunk(i, j), m.span)
				if int(at)+granuleBytes > len(m.cta.smem.data) || int(at) < int(s.w.cta.cluster.grid.p.arch.ReservedShared) {
					s.find(OutOfBounds, -1, "%s reads shared address %#x, outside the CTA's memory", what, at)
					return marks
				}
				s.asyncRead(m.cta, at, what)
				m.cta.smem.granules[at/granuleBytes].reading++
				marks = append(marks, mark{m.cta, at / granuleBytes})
				m.place(m.cta.smem.data[at:at+granuleBytes], out, r, x, half)
			}
		}
	}
	return marks
}

// place decodes a chunk into the tile.
func (m *matrix) place(data []byte, out []float32, r, x, half int) {
	for e := range 8 {
		v := m.decode(load(data[2*e:], 2))
		if m.byRow {
			out[(r+x)*16+8*half+e] = v
		} else {
			out[(r+e)*16+x+8*half] = v
		}
	}
}

func decodeBF16(v uint64) float32 { return math.Float32frombits(uint32(v) << 16) }
func decodeF16(v uint64) float32  { return float32(f16.wide(v)) }

// release ends the reads.
func release(marks []mark) {
	for _, m := range marks {
		m.c.smem.granules[m.g].reading--
	}
}
