package sampler

import "unsafe"

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
