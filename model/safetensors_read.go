package model

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"
)

// readChunk is the number of source bytes a worker takes at a time: large enough for the disk, small enough that
// cancelling is prompt and the buffers stay in cache.
const readChunk = 4 << 20

// ReadOptions tunes a read. The zero value, or nil, is good.
type ReadOptions struct {
	Workers int        // goroutines that read; 0 picks up to 8
	Count   *NonFinite // if not nil, what is not finite is added to it, and refused for none of it; costs a pass over the values
}

// ReadBF16 reads the whole tensor as bf16 bits into dst, which must hold exactly Elems values. BF16 is copied, F16 and
// F32 and F64 are rounded to nearest even; other types give ErrUnsupported. A finite value past bf16 gives ErrRange, which
// names the first, unless opt counts them. Chunks are read in parallel; ctx stops the read between chunks, leaving dst
// partly written.
func (t *Tensor) ReadBF16(ctx context.Context, dst []uint16, opt *ReadOptions) error {
	rows, _ := t.rows()
	return t.ReadRows(ctx, dst, 0, rows, opt)
}

// ReadRows is ReadBF16 of the rows [first, first+n) along the outermost dimension; dst holds n times the elements of
// one row. A range outside the tensor gives ErrRange.
func (t *Tensor) ReadRows(ctx context.Context, dst []uint16, first, n int, opt *ReadOptions) error {
	off, elems, err := t.rowRange(first, n)
	if err != nil {
		return err
	}
	if len(dst) != elems {
		return fail(ErrRange, t.file.name, "destination must match the rows", "%d values for %d of tensor %q", len(dst), elems, t.Name)
	}
	var past firstPast
	err = t.eachChunk(ctx, elems, opt, func(buf []byte, at, n int) error {
		src, err := t.readChunk(buf, dst[at:at+n], off, at)
		if err != nil {
			return err
		}
		if opt != nil && opt.Count != nil {
			past.count(opt.Count, t.DType, src)
		} else {
			past.look(t.DType, src, at, func(i int) bool { return BF16(dst[at+i]).IsInf() })
		}
		return nil
	})
	if err == nil {
		_, cols := t.rows()
		err = past.refuse(t, "bf16", first*cols)
	}
	return err
}

// readChunk reads len(dst) values, from value at of the read on that begins at off, and returns their source.
func (t *Tensor) readChunk(buf []byte, dst []uint16, off int64, at int) (src []byte, err error) {
	size := int(t.DType.size())
	src = buf[:len(dst)*size]
	direct := t.DType == BF16Type && littleEndian
	if direct {
		src = bytesOf(dst) // no conversion: straight into the caller's memory
	}
	if err := t.readAt(src, off+int64(at)*int64(size)); err != nil {
		return nil, err
	}
	if !direct {
		decodeBF16(t.DType, dst, src)
	}
	return src, nil
}

// firstPast finds the first value of a read that is finite in the source and infinite once it is converted, or has them all
// counted.
type firstPast struct {
	mu    sync.Mutex
	found bool
	at    int
	value float64
}

func (p *firstPast) count(c *NonFinite, dt DType, src []byte) {
	part := countSource(dt, src)
	p.mu.Lock()
	defer p.mu.Unlock()
	c.add(part)
}

// look goes over a piece that begins at value at of the read. Infinities are rare: only there it decodes the source again.
func (p *firstPast) look(dt DType, src []byte, at int, inf func(i int) bool) {
	if dt != F32 && dt != F64 { // the others have bf16's range or less
		return
	}
	for i := range len(src) / int(dt.size()) {
		if !inf(i) {
			continue
		}
		v := wideValue(dt, src, i)
		if math.IsInf(v, 0) {
			continue
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.found || at+i < p.at {
			p.found, p.at, p.value = true, at+i, v
		}
		return
	}
}

// refuse is the error of what was found, in a read that begins at a value of the tensor.
func (p *firstPast) refuse(t *Tensor, to string, begin int) error {
	if !p.found {
		return nil
	}
	return fail(ErrRange, t.file.name, "value must fit "+to, "tensor %q at %s is %v", t.Name, t.place(begin+p.at), p.value)
}

// wideValue is value i of little-endian F32 or F64.
func wideValue(dt DType, src []byte, i int) float64 {
	if dt == F32 {
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:])))
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(src[8*i:]))
}

// place names element i by its indices.
func (t *Tensor) place(i int) string {
	index := make([]string, len(t.Shape))
	for k := len(t.Shape) - 1; k >= 0; k-- {
		index[k] = strconv.Itoa(i % t.Shape[k])
		i /= t.Shape[k]
	}
	return "[" + strings.Join(index, ", ") + "]"
}

// BF16 reads the whole tensor into fresh memory, as ReadBF16 does.
func (t *Tensor) BF16(ctx context.Context, opt *ReadOptions) ([]uint16, error) {
	if err := t.readable(); err != nil {
		return nil, err
	}
	dst := make([]uint16, t.Elems()) // at most the file's own size over 1
	return dst, t.ReadBF16(ctx, dst, opt)
}

// Float32s reads the whole tensor as float32: exact but for F64, which is rounded to nearest; a finite value past float32 gives
// ErrRange.
func (t *Tensor) Float32s(ctx context.Context) ([]float32, error) {
	if err := t.readable(); err != nil {
		return nil, err
	}
	dst := make([]float32, t.Elems())
	size := int(t.DType.size())
	var past firstPast
	err := t.eachChunk(ctx, len(dst), nil, func(buf []byte, at, n int) error {
		if err := t.readAt(buf[:n*size], t.off+int64(at*size)); err != nil {
			return err
		}
		decodeF32(t.DType, dst[at:at+n], buf[:n*size])
		past.look(t.DType, buf[:n*size], at, func(i int) bool { return math.IsInf(float64(dst[at+i]), 0) })
		return nil
	})
	if err == nil {
		err = past.refuse(t, "float32", 0)
	}
	return dst, err
}

// CountNonFinite reads the tensor and counts the values that are not finite once they are bf16.
func (t *Tensor) CountNonFinite(ctx context.Context) (c NonFinite, err error) {
	if err := t.readable(); err != nil {
		return c, err
	}
	size := int(t.DType.size())
	var mu sync.Mutex
	err = t.eachChunk(ctx, t.Elems(), nil, func(buf []byte, at, n int) error {
		if err := t.readAt(buf[:n*size], t.off+int64(at*size)); err != nil {
			return err
		}
		part := countSource(t.DType, buf[:n*size])
		mu.Lock()
		c.add(part)
		mu.Unlock()
		return nil
	})
	return c, err
}

// readable says whether the values convert to bf16.
func (t *Tensor) readable() error {
	if t.DType.Float() {
		return nil
	}
	return fail(ErrUnsupported, t.file.name, "weights must be BF16, F16, F32 or F64", "tensor %q is %s", t.Name, t.DType)
}

func (t *Tensor) rowRange(first, n int) (off int64, elems int, err error) {
	if err := t.readable(); err != nil {
		return 0, 0, err
	}
	rows, cols := t.rows()
	if first < 0 || n < 0 || first > rows || n > rows-first {
		return 0, 0, fail(ErrRange, t.file.name, "rows must lie inside the tensor",
			"[%d, %d+%d) of %d rows of %q", first, first, n, rows, t.Name)
	}
	return t.off + int64(first)*int64(cols)*t.DType.size(), n * cols, nil
}

func (t *Tensor) readAt(p []byte, off int64) error {
	if err := readFull(t.file.r, p, off); err != nil {
		return failIO(t.file.name, fmt.Sprintf("reading tensor %q", t.Name), err)
	}
	return nil
}

// eachChunk calls work for the elements [0, elems) in pieces, from several goroutines, until one fails or ctx ends.
// work gets a buffer of its goroutine's own.
func (t *Tensor) eachChunk(ctx context.Context, elems int, opt *ReadOptions, work func(buf []byte, at, n int) error) error {
	per := int(readChunk / t.DType.size())
	chunks := (elems + per - 1) / per
	if opt == nil {
		opt = &ReadOptions{}
	}
	workers := opt.Workers
	if workers <= 0 {
		workers = min(runtime.GOMAXPROCS(0), 8)
	}
	var next atomic.Int64
	return parallel(ctx, min(workers, chunks), func(ctx context.Context) error {
		buf := make([]byte, min(per, elems)*int(t.DType.size()))
		for {
			i := int(next.Add(1)) - 1
			if i >= chunks {
				return nil
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := work(buf, i*per, min(per, elems-i*per)); err != nil {
				return err
			}
		}
	})
}

// parallel runs n copies of f and gives the first error; the context handed to f ends with it.
func parallel(ctx context.Context, n int, f func(context.Context) error) error {
	if err := ctx.Err(); err != nil || n == 0 {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if err := f(ctx); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// equal compares two tensors bit for bit; a different type or shape is a difference.
func (t *Tensor) equal(ctx context.Context, o *Tensor) (bool, error) {
	if t.DType != o.DType || !slices.Equal(t.Shape, o.Shape) {
		return false, nil
	}
	a, b := make([]byte, readChunk), make([]byte, readChunk)
	for at := int64(0); at < t.size; at += readChunk {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		n := min(readChunk, t.size-at)
		if err := t.readAt(a[:n], t.off+at); err != nil {
			return false, err
		}
		if err := o.readAt(b[:n], o.off+at); err != nil {
			return false, err
		}
		if !bytes.Equal(a[:n], b[:n]) {
			return false, nil
		}
	}
	return true, nil
}

// littleEndian is the byte order of this machine; the file's is always little.
var littleEndian = func() bool {
	x := uint16(1)
	return *(*byte)(unsafe.Pointer(&x)) == 1
}()

// bytesOf is the memory of v.
func bytesOf(v []uint16) []byte {
	if len(v) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&v[0])), 2*len(v))
}
