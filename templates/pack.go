package templates

import (
	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/ptx"
)

// Entry and shape of the kernel that packs weights.
const (
	PackEntry   = "fsgen_pack"
	PackThreads = 256
)

// rowUnits is the 16-byte units of a row of a panel.
const rowUnits = manifest.PackedRowBytes / 16

// Pack builds the kernel that packs weights: fsgen_pack(source, stride, rows, columns, packed, panel_rows) copies rows of bf16
// that lie stride bytes apart into panels of panel_rows rows (manifest.Packed), the first row to the address packed; the rows
// that fill up the last 64 become zero. Source and stride are multiples of 16 bytes. Any grid is right.
func Pack(a arch.Arch) (*Kernel, error) {
	m := ptx.NewModule(a.Target)
	m.Comment("Packs weights: rows to swizzled panels of 64 columns.")
	f := m.Entry(PackEntry)
	f.Reqntid(PackThreads, 1, 1)
	sig := signature{f: f}
	p := &packer{f: f}
	source, stride := sig.pointer("source", "bf16", "rows x stride", "read"), sig.scalar("stride")
	rows, columns := sig.scalar("rows"), sig.scalar("columns")
	packed, panel := sig.pointer("packed", "bf16", "rows x columns, packed", "write"), sig.scalar("panel_rows")
	p.stride, p.rows, p.columns = loadU32(f, stride, "stride"), loadU32(f, rows, "rows"), loadU32(f, columns, "columns")
	p.panel = loadU32(f, panel, "panel_rows")
	p.source, p.packed = loadPointer(f, source, "source"), loadPointer(f, packed, "packed")
	p.build()
	if err := m.Err(); err != nil {
		return nil, err
	}
	return &Kernel{Module: m, Entry: f, Params: sig.finish()}, nil
}

type packer struct {
	f                            *ptx.Func
	stride, rows, columns, panel ptx.B32
	source, packed               ptx.B64
}

// build has each thread write units, a grid apart.
func (p *packer) build() {
	f := p.f
	across, tall, units := f.B32("panels"), f.B32("rows_written"), f.B64("units")
	f.AddU32(across, p.columns, ptx.Imm(manifest.PackedCols-1))
	f.ShrU32(across, across, ptx.Imm(6))
	f.AddU32(tall, p.rows, ptx.Imm(manifest.PackedRows-1))
	f.AndB32(tall, tall, ptx.Imm(-manifest.PackedRows))
	f.MulWideU32(units, across, tall)
	f.ShlB64(units, units, ptx.Imm(3))
	at, step := globalThread(f)
	past, done := f.Pred("past"), f.Label("done")
	loop := f.Here("pack_unit")
	f.SetpU64(ptx.GE, past, at, units)
	f.Bra(done).If(past)
	p.unit(at, tall)
	f.AddU64(at, at, step)
	f.Bra(loop)
	f.Place(done)
	f.Ret()
}

// unit packs one 16-byte unit, counted along the rows of one panel after the other.
func (p *packer) unit(at ptx.B64, tall ptx.B32) {
	f := p.f
	wide, row, panel, unit, column := f.B64(), f.B32("row"), f.B32("panel"), f.B32("unit"), f.B32("column")
	f.ShrU64(wide, at, ptx.Imm(3))
	f.CvtU32U64(row, wide)
	f.CvtU32U64(unit, at)
	f.AndB32(unit, unit, ptx.Imm(rowUnits-1))
	whole := f.B32()
	f.DivU32(panel, row, tall)
	f.MulLoU32(whole, panel, tall)
	f.SubU32(row, row, whole)
	f.AndB32(column, row, ptx.Imm(rowUnits-1))
	f.XorB32(column, column, unit) // the swizzle
	f.ShlB32(column, column, ptx.Imm(3))
	f.MadLoU32(column, panel, ptx.Imm(manifest.PackedCols), column)
	words := p.load(row, column)
	packedRow, dst, offset := f.B32("packed_row"), f.B64("dst"), f.B64()
	f.MadLoU32(packedRow, panel, p.panel, row)
	f.MadWideU32(dst, packedRow, ptx.Imm(manifest.PackedRowBytes), p.packed)
	f.MulWideU32(offset, unit, ptx.Imm(16))
	f.AddU64(dst, dst, offset)
	f.StGlobalV4B32(dst, words)
}

// load reads eight values of a row from a column on; those outside are zero.
func (p *packer) load(row, column ptx.B32) []ptx.B32 {
	f := p.f
	words := f.NewB32s("unit_words", 4)
	for _, w := range words {
		f.MovB32(w, ptx.Imm(0))
	}
	inside, whole, loaded := f.Pred("inside"), f.Pred("whole"), f.Label("loaded")
	f.SetpU32(ptx.LT, inside, row, p.rows)
	f.Bra(loaded).IfNot(inside)
	src, bytes, end := f.B64("src"), f.B64(), f.B32("end")
	f.MadWideU32(src, row, p.stride, p.source)
	f.MulWideU32(bytes, column, ptx.Imm(2))
	f.AddU64(src, src, bytes)
	f.AddU32(end, column, ptx.Imm(8))
	f.SetpU32(ptx.LE, whole, end, p.columns)
	f.LdGlobalV4B32(words, src).If(whole)
	f.Bra(loaded).If(whole)
	for i, w := range words {
		for j := range 2 {
			p.value(w, src, column, 2*i+j)
		}
	}
	f.Place(loaded)
	return words
}

// value adds the i-th value of a unit that the row's end cuts.
func (p *packer) value(word ptx.B32, src ptx.B64, column ptx.B32, i int) {
	f := p.f
	at, there, half, wide := f.B32(), f.Pred("there"), f.B16("value"), f.B32()
	f.AddU32(at, column, ptx.Imm(i))
	f.SetpU32(ptx.LT, there, at, p.columns)
	f.MovB16(half, ptx.Imm(0))
	f.LdGlobalB16(half, src.Off(2*i)).If(there)
	f.CvtU32U16(wide, half)
	f.ShlB32(wide, wide, ptx.Imm(16*(i%2)))
	f.OrB32(word, word, wide)
}
