package model

import (
	"cmp"
	"encoding/json"
	"math"
	"math/bits"
	"slices"
	"strconv"
)

// The limits of the safetensors format and of this reader.
const (
	maxHeaderBytes = 100_000_000 // the format's own cap
	maxDims        = 16          // far past any model; keeps a hostile shape small
)

// tensorInfo is one entry of a header: data[begin:end] of the file's data section.
type tensorInfo struct {
	name       string
	dtype      DType
	shape      []int64
	begin, end int64
}

// header is a header whose entries were checked one by one and against each other.
type header struct {
	tensors  []tensorInfo // in file order
	metadata map[string]string
}

// parseHeader reads the JSON text of a header and checks it against the size of the data section in bytes.
func parseHeader(file string, text []byte, dataSize int64) (*header, error) {
	if len(text) == 0 || text[0] != '{' {
		return nil, fail(ErrMalformed, file, "safetensors header must begin with '{'", "%q", text[:min(len(text), 8)])
	}
	h := &header{metadata: map[string]string{}}
	p := newJSONReader(file, "safetensors header", text)
	err := p.object("", func(name string) error {
		if name == "__metadata__" {
			return h.readMetadata(p)
		}
		t, err := readTensorInfo(p, name)
		h.tensors = append(h.tensors, t)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := p.end(); err != nil {
		return nil, err
	}
	return h, h.checkLayout(file, dataSize)
}

func (h *header) readMetadata(p *jsonReader) error {
	return p.object("__metadata__", func(key string) error {
		s, err := p.string("__metadata__." + key)
		h.metadata[key] = s
		return err
	})
}

// readTensorInfo reads {"dtype": ..., "shape": [...], "data_offsets": [begin, end]}. Another field is refused rather
// than skipped: it could change what the bytes mean.
func readTensorInfo(p *jsonReader, name string) (t tensorInfo, err error) {
	t.name = name
	seen := 0
	err = p.object(name, func(field string) (err error) {
		seen++
		switch field {
		case "dtype":
			var s string
			s, err = p.string(name + ".dtype")
			t.dtype = DType(s)
		case "shape":
			t.shape, err = p.naturals(name+".shape", maxDims)
		case "data_offsets":
			var off []int64
			if off, err = p.naturals(name+".data_offsets", 2); err == nil && len(off) != 2 {
				return p.fail("data_offsets must be [begin, end]", "tensor %q has %v", name, off)
			}
			if err == nil {
				t.begin, t.end = off[0], off[1]
			}
		default:
			return p.fail("tensor fields are dtype, shape and data_offsets", "tensor %q has %q", name, field)
		}
		return err
	})
	if err == nil && seen != 3 {
		err = p.fail("a tensor needs dtype, shape and data_offsets", "tensor %q has %d of them", name, seen)
	}
	if err == nil {
		err = t.check(p.file)
	}
	return t, err
}

// check holds one entry's byte range against its shape and type.
func (t *tensorInfo) check(file string) error {
	if t.dtype.Bits() == 0 {
		return fail(ErrUnsupported, file, "unknown dtype", "tensor %q has %q", t.name, string(t.dtype))
	}
	if t.end < t.begin {
		return fail(ErrMalformed, file, "data_offsets must not run backwards", "tensor %q has [%d, %d]", t.name, t.begin, t.end)
	}
	want, ok := shapeBytes(t.shape, dtypeBits[t.dtype])
	if !ok {
		return fail(ErrMalformed, file, "shape is too large or ends inside a byte", "tensor %q has %v of %s", t.name, t.shape, t.dtype)
	}
	if got := t.end - t.begin; got != want {
		return fail(ErrMalformed, file, "data_offsets must span exactly the shape",
			"tensor %q of %v %s needs %d bytes, has %d", t.name, t.shape, t.dtype, want, got)
	}
	return nil
}

// shapeBytes multiplies a shape out to bytes; ok is false on overflow or if a packed type ends inside a byte.
func shapeBytes(shape []int64, width int64) (n int64, ok bool) {
	n = 1
	for _, d := range shape {
		if n, ok = mul(n, d); !ok {
			return 0, false
		}
	}
	n, ok = mul(n, width)
	return n / 8, ok && n%8 == 0
}

// mul multiplies two values that are not negative; ok is false past int64.
func mul(a, b int64) (int64, bool) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	return int64(lo), hi == 0 && lo <= math.MaxInt64
}

// checkLayout puts the tensors in file order and refuses overlaps, gaps and leftover bytes.
func (h *header) checkLayout(file string, dataSize int64) error {
	slices.SortFunc(h.tensors, func(a, b tensorInfo) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end), cmp.Compare(a.name, b.name))
	})
	var at int64
	for i := range h.tensors {
		t := &h.tensors[i]
		switch {
		case t.begin < at:
			return fail(ErrMalformed, file, "tensors must not overlap",
				"tensor %q begins at %d, before the end %d of the one before it", t.name, t.begin, at)
		case t.begin > at:
			return fail(ErrMalformed, file, "tensors must leave no gap", "tensor %q begins at %d, expected %d", t.name, t.begin, at)
		case t.end > dataSize:
			return fail(ErrMalformed, file, "tensor must lie inside the file (truncated?)",
				"tensor %q ends at %d of %d data bytes", t.name, t.end, dataSize)
		}
		at = t.end
	}
	if at != dataSize {
		return fail(ErrMalformed, file, "no bytes may follow the last tensor", "%d bytes are left over", dataSize-at)
	}
	return nil
}

// natural parses a JSON number that must be a plain integer in [0, 2^63).
func natural(n json.Number) (int64, bool) {
	v, err := strconv.ParseUint(n.String(), 10, 63)
	return int64(v), err == nil
}
