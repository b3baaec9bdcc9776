package templates

import (
	"math/bits"

	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/ptx"
)

// weightSource is where the producer gets the weights of a stage from: a tensor map, copyRows rows at a time, or packed panels
// (manifest.Packed), of which the rows of a stage are copied as they are.
type weightSource struct {
	k *skeleton

	share  ptx.B32 // bytes of a stage's weights that the CTA copies
	expect ptx.B32 // bytes of a stage, with the hidden states

	tensor ptx.B64 // address of the tensor map
	row    ptx.B32 // of the next stage in it, of packed weights
	rows   ptx.B32 // of a panel

	base  ptx.B64 // address of the panels
	panel ptx.B64 // bytes of a panel
	addr  ptx.B64 // of the next stage's rows
}

func (k *skeleton) weightSource() weightSource {
	f := k.f
	w := weightSource{k: k, share: f.B32("weights_bytes"), expect: f.B32("stage_bytes")}
	if k.boxed() {
		w.tensor = k.tensorMap(k.sig.weights, "weights_map")
	}
	if !k.packed() {
		return w
	}
	w.rows = k.ceilDiv(k.dealt, manifest.PackedRows, "panel_rows")
	if k.boxed() {
		w.row = f.B32("panel_row")
		f.ShlB32(w.rows, w.rows, ptx.Imm(bits.TrailingZeros(manifest.PackedRows)))
		return w
	}
	w.base, w.panel, w.addr = loadPointer(f, k.sig.weights, "weights"), f.B64("panel_bytes"), f.B64("panel_addr")
	f.MulWideU32(w.panel, w.rows, ptx.Imm(manifest.PackedRows*manifest.PackedRowBytes))
	return w
}

// begin goes to the first stage of an item. Where its rows reach past the panel, the next one's come instead: these are past
// the vocabulary, and do not count.
func (w weightSource) begin(row, rows ptx.B32) {
	f, k := w.k.f, w.k
	f.ShlB32(w.share, w.wholeCopies(rows), ptx.Imm(bits.TrailingZeros(stageRowBytes)))
	f.AddU32(w.expect, w.share, ptx.Imm(k.plan.Storage.HiddenStage))
	if k.t.Split {
		f.ShrU32(w.share, w.share, ptx.Imm(bits.TrailingZeros(uint(k.t.Cluster))))
	}
	switch {
	case k.packed() && k.boxed():
		f.MovB32(w.row, row)
	case k.packed():
		f.MadWideU32(w.addr, row, ptx.Imm(stageRowBytes), w.base)
	}
}

// wholeCopies rounds the rows of a tile up to whole boxes.
func (w weightSource) wholeCopies(rows ptx.B32) ptx.B32 {
	step := copyRows(w.k.t)
	if !w.k.boxed() || rowStep(w.k.t)%step == 0 {
		return rows
	}
	whole := w.k.f.B32("rows_copied")
	w.k.f.AddU32(whole, rows, ptx.Imm(step-1))
	w.k.f.AndB32(whole, whole, ptx.Imm(-step))
	return whole
}

// stageRowBytes is a row of the weights in a stage.
const stageRowBytes = manifest.PackedRowBytes

// copy starts the copy of a stage: of the whole tile, or of the CTA's share of one that the cluster has in common.
func (w weightSource) copy(dst ptx.B32, bar ptx.SharedAddr, x, row ptx.B32, hint ptx.B64) {
	f, k := w.k.f, w.k
	if !k.boxed() {
		f.CpAsyncBulkSharedClusterGlobal(dst, w.addr, w.share, bar, ptx.CacheHint(hint))
		f.AddU64(w.addr, w.addr, w.panel)
		return
	}
	opts := []ptx.Option{ptx.CacheHint(hint)}
	if k.packed() {
		x, row = imm(f, 0), w.row
	}
	if k.t.Split {
		opts = append(opts, ptx.Multicast(k.everyPeer()))
		dst, row = w.part(dst, row)
	}
	w.copyBoxes(dst, bar, x, row, opts)
	if k.packed() {
		f.AddU32(w.row, w.row, w.rows)
	}
}

// copyBoxes starts the copies by a tensor map, one box after the other.
func (w weightSource) copyBoxes(dst ptx.B32, bar ptx.SharedAddr, x, row ptx.B32, opts []ptx.Option) {
	f := w.k.f
	at, end, boxRow, more := f.B32("box"), f.B32("boxes_end"), f.B32("box_row"), f.Pred("more_boxes")
	f.MovB32(at, dst)
	f.AddU32(end, dst, w.share)
	f.MovB32(boxRow, row)
	if !w.k.packed() {
		w.k.leaveLead(boxRow)
	}
	loop := f.Here("copy_box")
	f.CpAsyncBulkTensorSharedClusterGlobal(at, ptx.Tensor(w.tensor, x, boxRow), bar, opts...)
	f.AddU32(at, at, ptx.Imm(copyRows(w.k.t)*stageRowBytes))
	f.AddU32(boxRow, boxRow, ptx.Imm(copyRows(w.k.t)))
	f.SetpU32(ptx.LT, more, at, end)
	f.Bra(loop).If(more)
}

// skip passes over a stage where p holds.
func (w weightSource) skip(p ptx.Pred) {
	switch {
	case w.k.packed() && w.k.boxed():
		w.k.f.AddU32(w.row, w.row, w.rows).If(p)
	case w.k.packed():
		w.k.f.AddU64(w.addr, w.addr, w.panel).If(p)
	}
}

// part returns where the CTA's share of a stage goes, and its first row.
func (w weightSource) part(dst, row ptx.B32) (part, first ptx.B32) {
	f, bytes := w.k.f, w.k.f.B32()
	part, first = f.B32("part"), f.B32("part_row")
	f.MulLoU32(bytes, w.k.rank, w.share)
	f.AddU32(part, dst, bytes)
	f.ShrU32(first, bytes, ptx.Imm(bits.TrailingZeros(stageRowBytes)))
	f.AddU32(first, first, row)
	return part, first
}
