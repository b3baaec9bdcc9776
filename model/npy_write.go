package model

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strings"
)

// NpyElem is an element type that WriteNpy writes: f4, f8, i4, i8, u2, u4 or u8. bf16 bits are u2, as numpy has no
// bfloat16 of its own.
type NpyElem interface {
	float32 | float64 | int32 | int64 | uint16 | uint32 | uint64
}

// WriteNpy writes an array in C order as .npy version 1.0, little-endian, atomically. The values must fill the shape;
// an empty shape is a scalar.
func WriteNpy[T NpyElem](path string, shape []int, v []T) error {
	return writeAtomic(path, func(w io.Writer) error { return EncodeNpy(w, path, shape, v) })
}

// EncodeNpy is WriteNpy to a writer; name is used in errors.
func EncodeNpy[T NpyElem](w io.Writer, name string, shape []int, v []T) error {
	n := 1
	for _, d := range shape {
		if d < 0 || d > 0 && n > math.MaxInt/d {
			return fail(ErrRange, name, "shape must be of numbers that are not negative and fit memory", "%v", shape)
		}
		n *= d
	}
	if n != len(v) {
		return fail(ErrRange, name, "values must fill the shape", "%d values for %v", len(v), shape)
	}
	if _, err := w.Write(npyPreamble(npyDescr(v), shape)); err != nil {
		return failIO(name, "writing", err)
	}
	// Pieces, so that a large array is not in memory twice.
	const piece = 1 << 16
	for ; len(v) > 0; v = v[min(piece, len(v)):] {
		var buf bytes.Buffer
		if err := binary.Write(&buf, binary.LittleEndian, v[:min(piece, len(v))]); err != nil {
			return failIO(name, "encoding", err)
		}
		if _, err := w.Write(buf.Bytes()); err != nil {
			return failIO(name, "writing", err)
		}
	}
	return nil
}

func npyDescr[T NpyElem](v []T) string {
	switch any(v).(type) {
	case []float32:
		return "<f4"
	case []float64:
		return "<f8"
	case []int32:
		return "<i4"
	case []int64:
		return "<i8"
	case []uint16:
		return "<u2"
	case []uint32:
		return "<u4"
	}
	return "<u8"
}

// npyPreamble is the magic, version and dictionary, padded so that the data starts at a multiple of 64.
func npyPreamble(descr string, shape []int) []byte {
	var dims strings.Builder
	for i, d := range shape {
		if i > 0 {
			dims.WriteByte(' ')
		}
		fmt.Fprintf(&dims, "%d,", d)
	}
	tuple := dims.String()
	if len(shape) > 1 {
		tuple = strings.TrimSuffix(tuple, ",")
	}
	dict := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, tuple)
	pad := 63 - (10+len(dict))%64
	dict += strings.Repeat(" ", pad) + "\n"
	out := append([]byte(npyMagic), 1, 0)
	out = binary.LittleEndian.AppendUint16(out, uint16(len(dict)))
	return append(out, dict...)
}
