package model

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// rawFile makes a safetensors file of a header text and data.
func rawFile(header string, data ...byte) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), data...)
}

func openBytes(b []byte) (*File, error) {
	return NewFile("x.safetensors", bytes.NewReader(b), int64(len(b)))
}

// oneLineOf holds an error to the house form: typed, one printable line, file first.
func oneLineOf(t *testing.T, err error, kind error, parts ...string) {
	t.Helper()
	require.Error(t, err)
	var fe *FileError
	require.ErrorAs(t, err, &fe)
	assert.ErrorIs(t, err, kind)
	msg := err.Error()
	assert.True(t, strings.HasPrefix(msg, fe.File+": "), msg)
	assert.NotContains(t, msg, "\n")
	assert.Less(t, len(msg), 1000)
	for _, p := range parts {
		assert.Contains(t, msg, p)
	}
}

func TestReferenceFile(t *testing.T) {
	f, err := Open("testdata/safetensors/reference.safetensors") // by the safetensors library 0.8.0
	require.NoError(t, err)
	defer f.Close()
	note, _ := f.Metadata("note")
	assert.Equal(t, `é "quoted"`, note)
	for _, name := range []string{"bf16", "f16", "f32", "f64"} {
		ten, err := f.Tensor(name)
		require.NoError(t, err)
		assert.Equal(t, []int{2, 3}, ten.Shape)
		got, err := ten.BF16(t.Context(), nil)
		require.NoError(t, err, name)
		assert.Equal(t, []uint16{0, 0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0}, got, name)
		f32, err := ten.Float32s(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []float32{0, 1, 2, 3, 4, 5}, f32, name)
	}
	scalar, err := f.Tensor("scalar")
	require.NoError(t, err)
	v, err := scalar.BF16(t.Context(), nil)
	require.NoError(t, err)
	assert.Equal(t, []uint16{0x3fc0}, v)
	none, err := f.Tensor("none")
	require.NoError(t, err)
	v, err = none.BF16(t.Context(), nil)
	require.NoError(t, err)
	assert.Empty(t, v)
	i64, err := f.Tensor("i64")
	require.NoError(t, err)
	_, err = i64.BF16(t.Context(), nil)
	oneLineOf(t, err, ErrUnsupported, `"i64" is I64`)
	_, err = f.Tensor("nope")
	oneLineOf(t, err, ErrMissing, `"nope"`)
}

// TestBrokenFiles has one file for each rule of the format.
func TestBrokenFiles(t *testing.T) {
	const ok = `"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}`
	two := func(off string) []byte {
		return rawFile(`{`+ok+`,"b":{"dtype":"U8","shape":[2],"data_offsets":`+off+`}}`, 1, 2, 3, 4)
	}
	one := func(entry string) []byte { return rawFile(`{"a":`+entry+`}`, 1, 2) }
	cases := []struct {
		name string
		file []byte
		kind error
		says string
	}{
		{"empty", nil, ErrMalformed, "at least 8 bytes: 0"},
		{"seven bytes", make([]byte, 7), ErrMalformed, "at least 8 bytes: 7"},
		{"header over the cap", binary.LittleEndian.AppendUint64(nil, 100_000_001), ErrMalformed, "100000001"},
		{"header length of all ones", bytes.Repeat([]byte{255}, 64), ErrMalformed, "at most 100000000"},
		{"header past the end", rawFile("{}")[:9], ErrMalformed, "2 header bytes in a file of 9"},
		{"no header", rawFile(""), ErrMalformed, "must begin with '{'"},
		{"space first", rawFile(" {}"), ErrMalformed, "must begin with '{'"},
		{"not JSON", rawFile("{]"), ErrMalformed, "must be JSON"},
		{"cut JSON", rawFile(`{"a":{"dtype":`), ErrMalformed, "must be JSON"},
		{"comma at the end", rawFile(`{` + ok + `,}`), ErrMalformed, "must be JSON"},
		{"two values", rawFile(`{}{}`), ErrMalformed, "closing brace"},
		{"zero after", rawFile("{}\x00"), ErrMalformed, "closing brace"},
		{"not UTF-8", rawFile("{\"\xff\":1}"), ErrMalformed, "UTF-8"},
		{"tensor is a number", rawFile(`{"a":1}`), ErrMalformed, `want an object: "a" is 1`},
		{"same tensor twice", rawFile(`{`+ok+`,`+ok+`}`, 1, 2), ErrMalformed, `must not occur twice: "a"`},
		{"same field twice", one(`{"dtype":"U8","dtype":"U8","shape":[2],"data_offsets":[0,2]}`), ErrMalformed, `"a.dtype"`},
		{"other field", one(`{"dtype":"U8","shape":[2],"data_offsets":[0,2],"strides":[1]}`), ErrMalformed, `"strides"`},
		{"letter case", one(`{"Dtype":"U8","shape":[2],"data_offsets":[0,2]}`), ErrMalformed, `"Dtype"`},
		{"missing field", one(`{"dtype":"U8","shape":[2]}`), ErrMalformed, "has 2 of them"},
		{"unknown dtype", one(`{"dtype":"Q4","shape":[2],"data_offsets":[0,2]}`), ErrUnsupported, `"Q4"`},
		{"dtype is a number", one(`{"dtype":4,"shape":[2],"data_offsets":[0,2]}`), ErrMalformed, "want a string"},
		{"negative shape", one(`{"dtype":"U8","shape":[-2],"data_offsets":[0,2]}`), ErrMalformed, "-2"},
		{"fractional shape", one(`{"dtype":"U8","shape":[2.0],"data_offsets":[0,2]}`), ErrMalformed, "2.0"},
		{"null in shape", one(`{"dtype":"U8","shape":[null],"data_offsets":[0,2]}`), ErrMalformed, "non-negative integer"},
		{"shape over int64", one(`{"dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,2]}`), ErrMalformed, "9223372036854775808"},
		{"shape product overflows", one(`{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,2]}`), ErrMalformed, "too large"},
		{"product overflows to the size", one(`{"dtype":"F64","shape":[2305843009213693952,4],"data_offsets":[0,0]}`), ErrMalformed, "too large"},
		{"too many dimensions", one(`{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]}`), ErrMalformed, "more than 16"},
		{"half a byte", one(`{"dtype":"F4","shape":[3],"data_offsets":[0,2]}`), ErrMalformed, "ends inside a byte"},
		{"size is not the shape's", one(`{"dtype":"U16","shape":[2],"data_offsets":[0,2]}`), ErrMalformed, "needs 4 bytes, has 2"},
		{"one offset", one(`{"dtype":"U8","shape":[2],"data_offsets":[2]}`), ErrMalformed, "[begin, end]"},
		{"three offsets", one(`{"dtype":"U8","shape":[2],"data_offsets":[0,2,4]}`), ErrMalformed, "more than 2"},
		{"backwards", one(`{"dtype":"U8","shape":[2],"data_offsets":[2,0]}`), ErrMalformed, "backwards"},
		{"past the end", one(`{"dtype":"U8","shape":[3],"data_offsets":[0,3]}`), ErrMalformed, "ends at 3 of 2 data bytes"},
		{"does not start at 0", one(`{"dtype":"U8","shape":[1],"data_offsets":[1,2]}`), ErrMalformed, "begins at 1, expected 0"},
		{"overlap", two(`[1,3]`), ErrMalformed, "must not overlap"},
		{"same place", two(`[0,2]`), ErrMalformed, "must not overlap"},
		{"gap", rawFile(`{`+ok+`,"b":{"dtype":"U8","shape":[1],"data_offsets":[3,4]}}`, 1, 2, 3, 4), ErrMalformed, "begins at 3, expected 2"},
		{"bytes left over", rawFile(`{`+ok+`}`, 1, 2, 3), ErrMalformed, "1 bytes are left over"},
		{"data without tensors", rawFile(`{}`, 1), ErrMalformed, "1 bytes are left over"},
		{"metadata is an array", rawFile(`{"__metadata__":[]}`), ErrMalformed, "want an object"},
		{"metadata value is a number", rawFile(`{"__metadata__":{"a":1}}`), ErrMalformed, "want a string"},
		{"metadata twice", rawFile(`{"__metadata__":{},"__metadata__":{}}`), ErrMalformed, "twice"},
		{"control characters in a name", rawFile(`{"\u001b[2J\n` + strings.Repeat("x", 5000) + `":1}`), ErrMalformed, "want an object"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := openBytes(c.file)
			oneLineOf(t, err, c.kind, c.says)
		})
	}
}

func TestGoodCorners(t *testing.T) {
	for name, file := range map[string][]byte{
		"no tensors":          rawFile(`{}`),
		"padded":              rawFile(`{}      `),
		"null-size anywhere":  rawFile(`{"b":{"dtype":"U8","shape":[0],"data_offsets":[2,2]},"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}`, 1, 2),
		"not in file order":   rawFile(`{"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 1, 2),
		"packed":              rawFile(`{"a":{"dtype":"F4","shape":[4],"data_offsets":[0,2]}}`, 1, 2),
		"fields in any order": rawFile(`{"a":{"data_offsets":[0,2],"shape":[],"dtype":"I16"}}`, 1, 2),
	} {
		_, err := openBytes(file)
		assert.NoError(t, err, name)
	}
}

// TestLyingHeaderAllocatesNothing opens a 9-byte file that claims a header of 100 MB and one that claims a huge tensor.
func TestLyingHeaderAllocatesNothing(t *testing.T) {
	files := [][]byte{
		append(binary.LittleEndian.AppendUint64(nil, maxHeaderBytes), '{'),
		rawFile(`{"a":{"dtype":"U8","shape":[9000000000000000000],"data_offsets":[0,9000000000000000000]}}`),
	}
	for _, f := range files {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := openBytes(f)
		runtime.ReadMemStats(&after)
		require.Error(t, err)
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
	}
}

// bigF32 is a file of one F32 tensor [rows, 1024] of several chunks, each value its index.
func bigF32(t *testing.T, rows int) string {
	t.Helper()
	v := make([]float32, rows*1024)
	for i := range v {
		v[i] = float32(i)
	}
	path := filepath.Join(t.TempDir(), "big.safetensors")
	require.NoError(t, WriteFile(path, []TensorData{F32Data("w", []int{rows, 1024}, v)}, nil))
	return path
}

func TestParallelReadEqualsSerial(t *testing.T) {
	f, err := Open(bigF32(t, 3000)) // 12 MB, 3 chunks
	require.NoError(t, err)
	defer f.Close()
	w := f.Tensors()[0]
	whole := make([]uint16, w.Elems())
	require.NoError(t, w.ReadBF16(t.Context(), whole, &ReadOptions{Workers: 1}))
	for i, b := range whole {
		if b != uint16(FromFloat32(float32(i))) {
			t.Fatalf("element %d is %04x", i, b)
		}
	}
	var wg sync.WaitGroup
	for _, r := range [][2]int{{0, 3000}, {0, 0}, {3000, 0}, {1, 2999}, {1234, 1}, {500, 2000}} {
		wg.Go(func() {
			dst := make([]uint16, r[1]*1024)
			assert.NoError(t, w.ReadRows(t.Context(), dst, r[0], r[1], &ReadOptions{Workers: 5}))
			assert.True(t, bytes.Equal(bytesOf(whole[r[0]*1024:(r[0]+r[1])*1024]), bytesOf(dst)), "rows %v", r)
		})
	}
	wg.Wait()
}

func TestReadRefusals(t *testing.T) {
	f, err := Open(bigF32(t, 2))
	require.NoError(t, err)
	w := f.Tensors()[0]
	for _, r := range [][2]int{{-1, 1}, {0, 3}, {2, 1}, {1, -1}, {1, math.MaxInt}, {math.MinInt, 1}} {
		oneLineOf(t, w.ReadRows(t.Context(), nil, r[0], r[1], nil), ErrRange, "rows must lie inside")
	}
	oneLineOf(t, w.ReadBF16(t.Context(), make([]uint16, 5), nil), ErrRange, "5 values for 2048")
	require.NoError(t, f.Close())
	err = w.ReadBF16(t.Context(), make([]uint16, 2048), nil)
	oneLineOf(t, err, ErrIO)
	assert.ErrorIs(t, err, os.ErrClosed)
}

func TestFileCutAfterOpening(t *testing.T) {
	path := bigF32(t, 64)
	f, err := Open(path)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, os.Truncate(path, 1000))
	_, err = f.Tensors()[0].BF16(t.Context(), nil)
	oneLineOf(t, err, ErrIO, "reading tensor")
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

// slowReader is a file of a header and zeros that ends its context at the third read of data.
type slowReader struct {
	head   []byte
	reads  atomic.Int32
	cancel context.CancelCauseFunc
	cause  error
}

func (r *slowReader) ReadAt(p []byte, off int64) (int, error) {
	if off < int64(len(r.head)) {
		return copy(p, r.head[off:]), nil
	}
	if r.reads.Add(1) == 3 {
		r.cancel(r.cause)
	}
	return len(p), nil
}

func TestReadStopsWithItsContext(t *testing.T) {
	const elems = 12 << 20 // of F32: 12 chunks
	ctx, cancel := context.WithCancelCause(t.Context())
	r := &slowReader{cancel: cancel, cause: errors.New("had enough")}
	r.head = rawFile(fmt.Sprintf(`{"w":{"dtype":"F32","shape":[%d],"data_offsets":[0,%d]}}`, elems, 4*elems))
	f, err := NewFile("slow", r, int64(len(r.head)+4*elems))
	require.NoError(t, err)
	err = f.Tensors()[0].ReadBF16(ctx, make([]uint16, elems), &ReadOptions{Workers: 2})
	assert.ErrorIs(t, err, r.cause)
	assert.Less(t, r.reads.Load(), int32(6), "no reading on after the end")

	_, err = f.Tensors()[0].CountNonFinite(ctx)
	assert.Error(t, err, "an ended context starts nothing")
}

func TestCountNonFinite(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	f32 := []float32{1, float32(nan), float32(inf), float32(-inf), math.MaxFloat32, 0}
	f64 := []float64{1, nan, inf, -inf, -1e300, 5e-324}
	path := filepath.Join(t.TempDir(), "n.safetensors")
	require.NoError(t, WriteFile(path, []TensorData{
		F32Data("f32", []int{6}, f32), F64Data("f64", []int{6}, f64),
		BF16Data("bf16", []int{5}, []uint16{0x7f80, 0xff80, 0x7f81, 0xffc0, 0x7f7f}),
		F16Data("f16", []int{5}, []uint16{0x7c00, 0xfc00, 0x7c01, 0xfe00, 0x7bff}),
	}, nil))
	f, err := Open(path)
	require.NoError(t, err)
	defer f.Close()
	for name, want := range map[string]NonFinite{
		"f32": {NaN: 1, Inf: 2, Overflow: 1}, "f64": {NaN: 1, Inf: 2, Overflow: 1}, "bf16": {NaN: 2, Inf: 2}, "f16": {NaN: 2, Inf: 2},
	} {
		ten, err := f.Tensor(name)
		require.NoError(t, err)
		got, err := ten.CountNonFinite(t.Context())
		require.NoError(t, err)
		assert.Equal(t, want, got, name)
		assert.True(t, got.Any())
		var during NonFinite
		_, err = ten.BF16(t.Context(), &ReadOptions{Count: &during})
		require.NoError(t, err)
		assert.Equal(t, want, during, name)
	}
}

// TestValuesPastTheRangeAreRefused reads finite values that would become infinite; those that are so in the file stay.
func TestValuesPastTheRangeAreRefused(t *testing.T) {
	inf := math.Inf(1)
	big := make([]float32, 3000*1024) // 12 MB, 3 chunks
	big[1500*1024+7], big[2900*1024] = -math.MaxFloat32, math.MaxFloat32
	path := filepath.Join(t.TempDir(), "p.safetensors")
	require.NoError(t, WriteFile(path, []TensorData{
		F64Data("f64", []int{3, 2}, []float64{1, inf, -inf, 1e39, 1e300, 0}), F32Data("f32", []int{3000, 1024}, big),
		F32Data("inf", []int{2}, []float32{float32(inf), float32(-inf)}), F16Data("f16", []int{2}, []uint16{0x7c00, 0x7bff}),
		F64Data("edge", []int{2}, []float64{0x1.fep127, math.Nextafter(0x1.ffp127, 0)}), F64Data("tie", nil, []float64{-0x1.ffp127}),
	}, nil))
	f, err := Open(path)
	require.NoError(t, err)
	defer f.Close()
	read := func(name string) ([]uint16, *Tensor, error) {
		ten, err := f.Tensor(name)
		require.NoError(t, err)
		v, err := ten.BF16(t.Context(), nil)
		return v, ten, err
	}
	_, f64, err := read("f64")
	oneLineOf(t, err, ErrRange, `value must fit bf16: tensor "f64" at [1, 1] is 1e+39`)
	oneLineOf(t, f64.ReadRows(t.Context(), make([]uint16, 2), 2, 1, nil), ErrRange, `"f64" at [2, 0] is 1e+300`)
	require.NoError(t, f64.ReadRows(t.Context(), make([]uint16, 2), 0, 1, nil))
	_, err = f64.Float32s(t.Context())
	oneLineOf(t, err, ErrRange, `value must fit float32: tensor "f64" at [1, 1] is 1e+39`)
	_, f32, err := read("f32")
	oneLineOf(t, err, ErrRange, `"f32" at [1500, 7] is -3.4028234663852886e+38`)
	_, err = f32.Float32s(t.Context())
	require.NoError(t, err)
	_, _, err = read("tie")
	oneLineOf(t, err, ErrRange, `"tie" at [] is -3.39617752923046e+38`)
	for name, want := range map[string][]uint16{"inf": {0x7f80, 0xff80}, "f16": {0x7f80, 0x4780}, "edge": {0x7f7f, 0x7f7f}} {
		v, _, err := read(name)
		require.NoError(t, err, name)
		assert.Equal(t, want, v, name)
	}
}

func TestWriterIsStableAndAtomic(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "w.safetensors")
	w := []TensorData{BF16Data("b", []int{1, 2}, []uint16{1, 2}), F32Data("a", nil, []float32{3})}
	meta := map[string]string{"z": "1", "format": "pt", "a": "\"\n"}
	require.NoError(t, WriteFile(path, w, meta))
	first, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, WriteFile(path, w, meta))
	again, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, first, again)
	assert.Zero(t, (8+binary.LittleEndian.Uint64(first))%64, "data is aligned")

	// Each of these is refused by the reader, so the writer leaves the old file and no litter.
	for _, bad := range [][]TensorData{
		{BF16Data("x", []int{3}, []uint16{1})}, {BF16Data("x", []int{-1}, nil)}, {w[0], w[0]},
		{{Name: "x", DType: "Q4", Shape: []int{0}}}, {{Name: "__metadata__", DType: "U8", Shape: []int{0}}},
	} {
		err := WriteFile(path, bad, meta)
		oneLineOf(t, err, kindOf(err))
	}
	oneLineOf(t, WriteFile(filepath.Join(dir, "none", "x"), nil, nil), ErrIO)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, entries, 1)
	still, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, first, still)
}

// kindOf is the kind an error already has, for cases where any kind will do.
func kindOf(err error) error {
	var fe *FileError
	if errors.As(err, &fe) {
		return fe.Kind
	}
	return nil
}

func TestOpenRefusesWhatIsNoFile(t *testing.T) {
	_, err := Open(t.TempDir())
	oneLineOf(t, err, ErrMissing, "regular file")
	_, err = Open(filepath.Join(t.TempDir(), "none"))
	oneLineOf(t, err, ErrMissing, "no such file")
	assert.ErrorIs(t, err, os.ErrNotExist)
}
