package sampler

import (
	"slices"
	"unsafe"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
)

// tileWidths are the widths of a plan's buckets, narrowest first.
type tileWidths []int

func widthsOf(buckets []bucket) tileWidths {
	var w tileWidths
	for _, b := range buckets {
		w = append(w, b.width)
	}
	return w
}

// choose returns the narrowest bucket that holds a batch, or the widest. The kernel of any would give the same tokens.
func (w tileWidths) choose(batch int) int {
	for i, n := range w {
		if batch <= n {
			return i
		}
	}
	return len(w) - 1
}

// idLists are the lists of a call as kernels take them: all of one length, filled up with ir.NoToken.
type idLists struct {
	ids            []int32
	length, stride int // of a list; from list to list, 0 for one that serves all
}

func (b *batch) idLists() (l idLists) {
	lists := b.params.ListIDs
	for _, list := range lists {
		l.length = max(l.length, len(list))
	}
	if len(lists) > 1 {
		l.stride = l.length
	}
	for _, list := range lists {
		l.ids = append(l.ids, list...)
		l.ids = append(l.ids, slices.Repeat([]int32{ir.NoToken}, l.length-len(list))...)
	}
	return l
}

// listed deals out the log-probabilities of the rows' lists, length of each row.
func (b *batch) listed(values []float32, length int) [][]float32 {
	out := make([][]float32, b.rows)
	if values == nil {
		values = []float32{} // so that empty lists are empty everywhere, not nil
	}
	for row := range out {
		slot, lists := row, b.params.ListIDs
		if b.params.Slots != nil {
			slot = int(b.params.Slots[row])
		}
		list := lists[min(slot, len(lists)-1)]
		out[row] = values[row*length:][:len(list):len(list)]
	}
	return out
}

// undecidedTops reports whether a further pass over the rows has to find the likeliest tokens of any.
func undecidedTops(ids []int32) bool { return slices.Contains(ids, ir.UndecidedToken) }

// listedCTAs is the grid of the stage of listed ids: a warp for each, up to a bound.
func listedCTAs(m *manifest.Kernel, rows, length int) int {
	warps := m.Launch.Block[0] / 32
	return min((rows*length+warps-1)/warps, mostListedCTAs)
}

// mostListedCTAs is more than fit any GPU at once.
const mostListedCTAs = 4096

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
