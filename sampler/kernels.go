package sampler

import (
	"unsafe"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/gen"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/templates"
	"github.com/fsgen/fsgen/tiling"
)

// artifacts lists the kernels of a plan, narrowest first: one for each width up to the one that holds MaxBatch.
func (s Spec) artifacts(a arch.Arch, shape ir.Shape) ([]*gen.Artifact, error) {
	if s.Artifact != nil {
		return []*gen.Artifact{s.Artifact}, nil
	}
	req := gen.Request{Arch: a, Computation: s.Computation(), Shape: shape, Tile: s.Tile,
		Options: templates.Options{Exhaustive: s.Exhaustive}}
	if s.Tile != (tiling.Tile{}) {
		k, err := gen.Emit(req)
		return []*gen.Artifact{k}, err
	}
	var out []*gen.Artifact
	for _, n := range tiling.Widths(a, s.MaxBatch) {
		req.Batch = n
		k, err := gen.Emit(req)
		if err != nil {
			return nil, err
		}
		out = append(out, k)
	}
	return out, nil
}

// tileWidths are the widths N of a plan's kernels, narrowest first.
type tileWidths []int

func widthsOf(artifacts []*gen.Artifact) tileWidths {
	var w tileWidths
	for _, a := range artifacts {
		w = append(w, a.Manifest.Tile.N)
	}
	return w
}

// choose returns the narrowest kernel that takes a batch in one column tile, or the widest. Any would give the same
// tokens.
func (w tileWidths) choose(batch int) int {
	for i, n := range w {
		if batch <= n {
			return i
		}
	}
	return len(w) - 1
}

// alignedLD returns the smallest leading dimension with rows of whole 16-byte units, which TMA needs.
func alignedLD(hidden int) int { return (hidden + 7) / 8 * 8 }

// pad copies rows of n values to rows of ld values.
func pad(dst, src []uint16, n, ld int) []uint16 {
	for i := 0; i*n < len(src); i++ {
		copy(dst[i*ld:i*ld+n], src[i*n:(i+1)*n])
	}
	return dst
}

// asBytes views a slice of numbers as bytes.
func asBytes[T uint16 | uint32 | uint64 | int32 | float32](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&s[0])), len(s)*int(unsafe.Sizeof(s[0])))
}
