package model

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"math"
	"slices"
)

// File is an open safetensors file whose whole header has been checked against the file's size. Its tensors may be
// read from any number of goroutines until Close.
type File struct {
	name    string
	r       io.ReaderAt
	closer  io.Closer
	tensors []*Tensor
	byName  map[string]*Tensor
	meta    map[string]string
}

// Tensor is one tensor of a File: its place and type, not its data.
type Tensor struct {
	Name  string
	DType DType
	Shape []int // outermost dimension first; rows are contiguous

	file *File
	off  int64 // of the first byte, from the start of the file
	size int64 // bytes
}

// Open opens a safetensors file and checks its header. No tensor data is read. Errors are *FileError.
func Open(path string) (*File, error) {
	f, size, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	file, err := NewFile(path, f, size)
	if err != nil {
		f.Close()
		return nil, err
	}
	file.closer = f
	return file, nil
}

// NewFile is Open over any random-access source of size bytes; name is used in errors.
func NewFile(name string, r io.ReaderAt, size int64) (*File, error) {
	text, err := readHeaderText(name, r, size)
	if err != nil {
		return nil, err
	}
	start := 8 + int64(len(text))
	h, err := parseHeader(name, text, size-start)
	if err != nil {
		return nil, err
	}
	f := &File{name: name, r: r, meta: h.metadata, byName: make(map[string]*Tensor, len(h.tensors))}
	for _, t := range h.tensors {
		shape, ok := intShape(t.shape)
		if !ok || t.end-t.begin > math.MaxInt { // only where an int has 32 bits
			return nil, fail(ErrUnsupported, name, "tensor must fit an int", "tensor %q has %v", t.name, t.shape)
		}
		ten := &Tensor{Name: t.name, DType: t.dtype, Shape: shape, file: f, off: start + t.begin, size: t.end - t.begin}
		f.tensors = append(f.tensors, ten)
		f.byName[t.name] = ten
	}
	return f, nil
}

// readHeaderText reads the header's JSON. The length is held against the file before anything is allocated.
func readHeaderText(name string, r io.ReaderAt, size int64) ([]byte, error) {
	var word [8]byte
	if size < 8 {
		return nil, fail(ErrMalformed, name, "a safetensors file has at least 8 bytes", "%d", size)
	}
	if err := readFull(r, word[:], 0); err != nil {
		return nil, failIO(name, "reading the header length", err)
	}
	n := binary.LittleEndian.Uint64(word[:])
	if n > maxHeaderBytes {
		return nil, fail(ErrMalformed, name, "header length must be at most 100000000 (is this safetensors?)", "%d", n)
	}
	if int64(n) > size-8 {
		return nil, fail(ErrMalformed, name, "header must lie inside the file", "%d header bytes in a file of %d", n, size)
	}
	text := make([]byte, n)
	if err := readFull(r, text, 8); err != nil {
		return nil, failIO(name, "reading the header", err)
	}
	return text, nil
}

// readFull is ReadAt that accepts io.EOF only with everything read.
func readFull(r io.ReaderAt, p []byte, off int64) error {
	n, err := r.ReadAt(p, off)
	switch {
	case n == len(p):
		return nil
	case err == nil || errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	}
	return trimPathError(err)
}

// trimPathError drops the path that an *fs.PathError repeats.
func trimPathError(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

func intShape(dims []int64) ([]int, bool) {
	shape := make([]int, len(dims))
	for i, d := range dims {
		if d > math.MaxInt {
			return nil, false
		}
		shape[i] = int(d)
	}
	return shape, true
}

// Close closes the file; later reads of its tensors fail.
func (f *File) Close() error {
	if f.closer == nil {
		return nil
	}
	return f.closer.Close()
}

// Name is the path the file was opened by.
func (f *File) Name() string { return f.name }

// Tensors lists the tensors in file order.
func (f *File) Tensors() []*Tensor { return slices.Clone(f.tensors) }

// Tensor finds a tensor by its exact name.
func (f *File) Tensor(name string) (*Tensor, error) {
	if t := f.byName[name]; t != nil {
		return t, nil
	}
	return nil, fail(ErrMissing, f.name, "no such tensor", "%q", name)
}

// Metadata gives one string of the header's __metadata__.
func (f *File) Metadata(key string) (string, bool) {
	s, ok := f.meta[key]
	return s, ok
}

// File is the path of the file that holds the tensor.
func (t *Tensor) File() string { return t.file.name }

// Elems is the number of elements.
func (t *Tensor) Elems() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Bytes is the size of the tensor in its file.
func (t *Tensor) Bytes() int64 { return t.size }

// rows splits the shape into the outermost dimension and the elements of one step along it: [r, c...] -> r, prod(c).
// A scalar is one row of one element.
func (t *Tensor) rows() (rows, cols int) {
	if len(t.Shape) == 0 {
		return 1, 1
	}
	cols = 1
	for _, d := range t.Shape[1:] {
		cols *= d
	}
	return t.Shape[0], cols
}
