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
	for range k.t.M / manifest.PackedRows {
		w.blocks = append(w.blocks, f.B64("block_addr"))
	}
	return w
}

// begin goes to the first stage of an item. Where the tile reaches past the last block, that one comes again: its rows are
// past the vocabulary then, and do not count.
func (w weightSource) begin(row ptx.B32) {
	f := w.k.f
	for i, addr := range w.blocks {
		block := f.B32("block")
		f.ShrU32(block, row, ptx.Imm(6))
		f.AddU32(block, block, ptx.Imm(i))
		f.MinU32(block, block, w.last)
		f.MulLoU32(block, block, w.k.ksteps)
		f.MadWideU32(addr, block, ptx.Imm(manifest.PackedBlock), w.packed)
	}
}

// copy starts the copies of a stage.
func (w weightSource) copy(dst ptx.B32, bar ptx.SharedAddr, x, row ptx.B32, hint ptx.B64) {
	f := w.k.f
	if w.blocks == nil {
		f.CpAsyncBulkTensorSharedClusterGlobal(dst, ptx.Tensor(w.tensor, x, row), bar, ptx.CacheHint(hint))
		return
	}
	for i, addr := range w.blocks {
		f.CpAsyncBulkSharedClusterGlobal(dst.Off(manifest.PackedBlock*i), addr, ptx.Imm(manifest.PackedBlock), bar, ptx.CacheHint(hint))
		f.AddU64(addr, addr, ptx.Imm(manifest.PackedBlock))
	}
}
