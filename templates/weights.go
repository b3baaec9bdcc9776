package templates

import (
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/ptx"
)

// weightSource is where the producer gets the weights of a stage from: a tensor map, or packed blocks that are copied as
// they are (manifest.Packed).
type weightSource struct {
	k      *skeleton
	tensor ptx.B64 // address of the tensor map

	packed ptx.B64   // address of the blocks
	blocks []ptx.B64 // addresses of the current stage's, one for each 64 rows of the tile
	last   ptx.B32   // the last block down
}

func (k *skeleton) weightSource() weightSource {
	f := k.f
	if !k.packed() {
		return weightSource{k: k, tensor: k.tensorMap(k.sig.weights, "weights_map")}
	}
	w := weightSource{k: k, packed: loadPointer(f, k.sig.weights, "weights"), last: k.ceilDiv(k.vocab, manifest.PackedRows, "last_block")}
	f.SubU32(w.last, w.last, ptx.Imm(1))
	for range weightShare(k.t) / k.pieceRows() {
		w.blocks = append(w.blocks, f.B64("block_addr"))
	}
	return w
}

// pieceRows is the rows of one copy of packed weights: a block, or half of one where a CTA's share is not whole blocks.
func (k *skeleton) pieceRows() int {
	if weightShare(k.t)%manifest.PackedRows != 0 {
		return manifest.PackedRows / 2
	}
	return manifest.PackedRows
}

// packedRowBytes is a row of a block, and of a stage.
const packedRowBytes = manifest.PackedBlock / manifest.PackedRows

// begin goes to the first stage of an item. Where the tile reaches past the last block, that one comes again: its rows are
// past the vocabulary then, and do not count.
func (w weightSource) begin(row ptx.B32) {
	f, k := w.k.f, w.k
	first := row
	if k.t.Split {
		first = f.B32("first_row")
		f.MadLoU32(first, k.rank, ptx.Imm(weightShare(k.t)), row)
	}
	for i, addr := range w.blocks {
		at, block, rest := f.B32(), f.B32("block"), f.B64()
		f.AddU32(at, first, ptx.Imm(i*k.pieceRows()))
		f.ShrU32(block, at, ptx.Imm(6))
		f.MinU32(block, block, w.last)
		f.MulLoU32(block, block, k.ksteps)
		f.MadWideU32(addr, block, ptx.Imm(manifest.PackedBlock), w.packed)
		if k.pieceRows() < manifest.PackedRows {
			f.AndB32(at, at, ptx.Imm(manifest.PackedRows-1))
			f.MulWideU32(rest, at, ptx.Imm(packedRowBytes))
			f.AddU64(addr, addr, rest)
		}
	}
}

// copy starts the copies of a stage: of the whole tile, or of the CTA's share of one that the cluster has in common.
func (w weightSource) copy(dst ptx.B32, bar ptx.SharedAddr, x, row ptx.B32, hint ptx.B64) {
	f, k := w.k.f, w.k
	opts := []ptx.Option{ptx.CacheHint(hint)}
	if k.t.Split {
		opts = append(opts, ptx.Multicast(k.everyPeer()))
		part, mine := f.B32("part"), f.B32("part_row")
		f.MadLoU32(part, k.rank, ptx.Imm(weightShare(k.t)*packedRowBytes), dst)
		f.MadLoU32(mine, k.rank, ptx.Imm(weightShare(k.t)), row)
		dst, row = part, mine
	}
	if w.blocks == nil {
		f.CpAsyncBulkTensorSharedClusterGlobal(dst, ptx.Tensor(w.tensor, x, row), bar, opts...)
		return
	}
	piece := packedRowBytes * k.pieceRows()
	for i, addr := range w.blocks {
		f.CpAsyncBulkSharedClusterGlobal(dst.Off(piece*i), addr, ptx.Imm(piece), bar, opts...)
		f.AddU64(addr, addr, ptx.Imm(manifest.PackedBlock))
	}
}
