package sampler

import "github.com/fsgen/fsgen/manifest"

// packRows packs rows of ld values, hidden of which count, as templates.Pack does on a GPU (manifest.Packed).
func packRows(rows []uint16, vocab, hidden, ld int) []uint16 {
	const unit = 8 // values of 16 bytes
	_, tall := manifest.PackedPanels(vocab, hidden)
	out := make([]uint16, manifest.PackedBytes(vocab, hidden)/2)
	for v := range vocab {
		row := rows[v*ld : v*ld+hidden]
		for first := 0; first < hidden; first += unit {
			panel, place := first/manifest.PackedCols, first%manifest.PackedCols/unit^v%8
			at := (panel*tall+v)*manifest.PackedCols + place*unit
			copy(out[at:at+unit], row[first:min(first+unit, hidden)])
		}
	}
	return out
}
