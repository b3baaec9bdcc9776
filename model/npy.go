package model

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Array is a .npy array of at most two dimensions, read whole and in C order. It is not modified after it is made.
type Array struct {
	name  string
	shape []int
	kind  npyKind
	order binary.ByteOrder
	data  []byte
}

// npyKind is an element type without its byte order, such as "f4"; "bf" is bfloat16.
type npyKind string

// npySize is every element type that is read, with its width in bytes. bfloat16 has no type of numpy's own: ml_dtypes
// writes it as two raw bytes, V2.
var npySize = map[npyKind]int{
	"f2": 2, "f4": 4, "f8": 8, "i1": 1, "i2": 2, "i4": 4, "i8": 8, "u1": 1, "u2": 2, "u4": 4, "u8": 8, "b1": 1, "bf": 2,
}

const (
	npyMagic     = "\x93NUMPY"
	maxNpyHeader = 1 << 20 // numpy writes under 1 KiB for such arrays
)

// ReadNpy reads a .npy file. Errors are *FileError.
func ReadNpy(path string) (*Array, error) {
	f, size, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return DecodeNpy(path, f, size)
}

// DecodeNpy is ReadNpy from any random-access source of size bytes; name is used in errors.
func DecodeNpy(name string, r io.ReaderAt, size int64) (*Array, error) {
	h, start, err := readNpyHeader(name, r, size)
	if err != nil {
		return nil, err
	}
	if err := h.check(name, size-start); err != nil {
		return nil, err
	}
	shape, ok := intShape(h.shape)
	if !ok {
		return nil, fail(ErrUnsupported, name, "dimension must fit an int", "%v", h.shape)
	}
	a := &Array{name: name, shape: shape, kind: h.kind, order: h.order, data: make([]byte, size-start)}
	if err := readFull(r, a.data, start); err != nil {
		return nil, failIO(name, "reading the array", err)
	}
	if h.fortran && len(shape) == 2 && len(a.data) > 0 {
		a.data = transpose(a.data, shape[0], shape[1], npySize[a.kind])
	}
	return a, nil
}

// transpose turns a column-major [rows, cols] into a row-major one.
func transpose(src []byte, rows, cols, size int) []byte {
	dst := make([]byte, len(src))
	for r := range rows {
		for c := range cols {
			copy(dst[(r*cols+c)*size:][:size], src[(c*rows+r)*size:])
		}
	}
	return dst
}

// npyHeader is the dictionary of a .npy file.
type npyHeader struct {
	kind    npyKind
	order   binary.ByteOrder
	fortran bool
	shape   []int64
}

// readNpyHeader reads the preamble and the dictionary, and gives where the data starts. The header length is held
// against the file before anything is allocated.
func readNpyHeader(name string, r io.ReaderAt, size int64) (h npyHeader, start int64, err error) {
	var pre [12]byte
	n := min(size, int64(len(pre)))
	if err := readFull(r, pre[:n], 0); err != nil {
		return h, 0, failIO(name, "reading the npy preamble", err)
	}
	if n < 10 || string(pre[:6]) != npyMagic {
		return h, 0, fail(ErrMalformed, name, `a .npy file begins with "\x93NUMPY" and a version`, "%q", pre[:min(n, 8)])
	}
	length := int64(binary.LittleEndian.Uint16(pre[8:]))
	start = 10
	switch major := pre[6]; {
	case pre[7] != 0 || major < 1 || major > 3:
		return h, 0, fail(ErrUnsupported, name, "npy versions 1.0, 2.0 and 3.0 are read", "%d.%d", major, pre[7])
	case major > 1:
		length, start = int64(binary.LittleEndian.Uint32(pre[8:])), 12
	}
	if length > maxNpyHeader || length > size-start {
		return h, 0, fail(ErrMalformed, name, "npy header must lie inside the file and under 1 MiB",
			"%d header bytes in a file of %d", length, size)
	}
	text := make([]byte, length)
	if err := readFull(r, text, start); err != nil {
		return h, 0, failIO(name, "reading the npy header", err)
	}
	h, err = parseNpyDict(name, string(text))
	return h, start + length, err
}

// check holds the shape against the bytes that are there.
func (h *npyHeader) check(name string, dataSize int64) error {
	if len(h.shape) > 2 {
		return fail(ErrUnsupported, name, "arrays of at most 2 dimensions are read", "shape %v", h.shape)
	}
	want, ok := shapeBytes(h.shape, int64(npySize[h.kind])*8)
	if !ok {
		return fail(ErrMalformed, name, "shape is too large", "%v", h.shape)
	}
	if want != dataSize {
		rule := "file must hold exactly the shape (truncated?)"
		if dataSize > want {
			rule = "file must hold exactly the shape (extra bytes)"
		}
		return fail(ErrMalformed, name, rule, "shape %v of %s needs %d bytes, file has %d", h.shape, h.kind, want, dataSize)
	}
	return nil
}

// parseNpyDescr reads a dtype such as "<f4", "|b1" or "<V2".
func parseNpyDescr(name, descr string) (kind npyKind, order binary.ByteOrder, err error) {
	rest, order := descr, binary.ByteOrder(binary.LittleEndian)
	switch {
	case strings.HasPrefix(rest, ">"):
		rest, order = rest[1:], binary.BigEndian
	case strings.HasPrefix(rest, "<"), strings.HasPrefix(rest, "|"), strings.HasPrefix(rest, "="):
		rest = rest[1:]
	}
	if rest == "V2" && order == binary.LittleEndian || rest == "bfloat16" {
		return "bf", order, nil
	}
	kind = npyKind(rest)
	if strings.HasPrefix(descr, "=") || npySize[kind] == 0 || kind == "bf" || (descr[0] == '|' && npySize[kind] > 1) {
		return "", nil, fail(ErrUnsupported, name,
			"npy dtype must be f2, f4, f8, i1..i8, u1..u8, b1 or bfloat16 with its byte order", "%q", descr)
	}
	return kind, order, nil
}

// Name is the path the array was read from.
func (a *Array) Name() string { return a.name }

// Shape is the shape, outermost dimension first; empty for a scalar.
func (a *Array) Shape() []int { return slices.Clone(a.shape) }

// Len is the number of elements.
func (a *Array) Len() int { return len(a.data) / npySize[a.kind] }

// DType is the element type as numpy names it, with bfloat16 by its full name: "f4", "u2", "bfloat16".
func (a *Array) DType() string {
	if a.kind == "bf" {
		return "bfloat16"
	}
	return string(a.kind)
}

// place formats an index as it appears in the array's shape.
func (a *Array) place(i int) string {
	switch len(a.shape) {
	case 0:
		return "[]"
	case 1:
		return "[" + strconv.Itoa(i) + "]"
	}
	return fmt.Sprintf("[%d, %d]", i/a.shape[1], i%a.shape[1])
}
