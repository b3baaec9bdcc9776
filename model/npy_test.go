package model

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// rawNpy makes a version 1.0 file of a dictionary and data.
func rawNpy(dict string, data ...byte) []byte {
	b := append([]byte(npyMagic), 1, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(dict)))
	return append(append(b, dict...), data...)
}

func dictOf(descr, fortran, shape string) string {
	return "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }\n"
}

func decodeNpy(b []byte) (*Array, error) {
	return DecodeNpy("x.npy", bytes.NewReader(b), int64(len(b)))
}

func mustNpy(t *testing.T, descr, shape string, data ...byte) *Array {
	t.Helper()
	a, err := decodeNpy(rawNpy(dictOf(descr, "False", shape), data...))
	require.NoError(t, err)
	return a
}

// TestNumpyFiles reads what numpy 2.4.6 and ml_dtypes wrote: the values 0..5 as [2, 3] in each type and byte order.
func TestNumpyFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/npy/*_*.npy")
	require.NoError(t, err)
	require.Len(t, files, 22)
	for _, file := range append(files, "testdata/npy/version2.npy", "testdata/npy/version3.npy", "testdata/npy/fortran.npy", "testdata/npy/bfloat16.npy") {
		a, err := ReadNpy(file)
		require.NoError(t, err, file)
		assert.Equal(t, []int{2, 3}, a.Shape(), file)
		assert.Equal(t, 6, a.Len())
		if a.DType()[0] == 'f' || a.DType() == "bfloat16" {
			got, err := a.Float32s()
			require.NoError(t, err)
			assert.Equal(t, []float32{0, 1, 2, 3, 4, 5}, got, file)
			bits, err := a.BF16s()
			require.NoError(t, err)
			assert.Equal(t, []uint16{0, 0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0}, bits, file)
			continue
		}
		got, err := a.Int64s()
		require.NoError(t, err)
		assert.Equal(t, []int64{0, 1, 2, 3, 4, 5}, got, file)
	}
}

func TestNumpyCorners(t *testing.T) {
	read := func(name string) *Array {
		a, err := ReadNpy("testdata/npy/" + name + ".npy")
		require.NoError(t, err)
		return a
	}
	f, err := read("scalar").Float32s()
	require.NoError(t, err)
	assert.Equal(t, []float32{1.5}, f)
	assert.Empty(t, read("scalar").Shape())
	f, err = read("empty").Float32s()
	require.NoError(t, err)
	assert.Empty(t, f)
	assert.Equal(t, []int{0, 3}, read("empty").Shape())
	b, err := read("b1").Uint32s()
	require.NoError(t, err)
	assert.Equal(t, []uint32{0, 1, 0, 1, 0, 1}, b)
	v, err := read("vector").Uint64s()
	require.NoError(t, err)
	assert.Equal(t, []uint64{0, 1, 2, 3, 4}, v)
	assert.Equal(t, "testdata/npy/vector.npy", read("vector").Name())
	_, err = ReadNpy("testdata/npy/structured.npy")
	oneLineOf(t, err, ErrUnsupported, "structured")
	_, err = ReadNpy("testdata/npy/three.npy")
	oneLineOf(t, err, ErrUnsupported, "[1 2 3]")
	_, err = ReadNpy("testdata/npy")
	oneLineOf(t, err, ErrMissing, "regular file")
}

func TestBrokenNpy(t *testing.T) {
	ok := dictOf("<f4", "False", "(1,)")
	long := append([]byte(npyMagic), 2, 0, 255, 255, 255, 255)
	cases := []struct {
		name string
		file []byte
		kind error
		says string
	}{
		{"empty", nil, ErrMalformed, `begins with "\x93NUMPY"`},
		{"other magic", []byte("\x93NUMPI\x01\x00\x00\x00\x00\x00"), ErrMalformed, "begins with"},
		{"version 4", []byte(npyMagic + "\x04\x00\x00\x00\x00\x00"), ErrUnsupported, "4.0"},
		{"version 0", []byte(npyMagic + "\x00\x00\x00\x00\x00\x00"), ErrUnsupported, "0.0"},
		{"header of 4 GB", long, ErrMalformed, "4294967295 header bytes"},
		{"header past the end", rawNpy(ok)[:20], ErrMalformed, "in a file of 20"},
		{"truncated data", rawNpy(ok, 1, 2, 3), ErrMalformed, "needs 4 bytes, file has 3"},
		{"extra data", rawNpy(ok, 1, 2, 3, 4, 5), ErrMalformed, "extra bytes"},
		{"no dictionary", rawNpy("[]"), ErrMalformed, "Python dictionary"},
		{"empty dictionary", rawNpy("{}"), ErrMalformed, "needs descr"},
		{"no key", rawNpy("{1: 2}"), ErrMalformed, "quoted string"},
		{"open string", rawNpy("{'descr"), ErrMalformed, "quoted string"},
		{"escape", rawNpy(`{'de\x73cr': '<f4'}`), ErrMalformed, "quoted string"},
		{"unknown key", rawNpy("{'descr': '<f4', 'fortran_order': False, 'shape': (), 'x': 1}"), ErrMalformed, `"x"`},
		{"key twice", rawNpy("{'descr': '<f4', 'descr': '<f4', 'shape': ()}"), ErrMalformed, "twice"},
		{"key missing", rawNpy("{'descr': '<f4', 'shape': ()}"), ErrMalformed, "needs descr"},
		{"text after", rawNpy("{'descr': '<f4', 'fortran_order': False, 'shape': ()} x"), ErrMalformed, "nothing may follow"},
		{"dictionary cut", rawNpy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)"), ErrMalformed, "Python dictionary"},
		{"order is a number", rawNpy("{'descr': '<f4', 'fortran_order': 0, 'shape': ()}"), ErrMalformed, "True or False"},
		{"complex", rawNpy(dictOf("<c8", "False", "()")), ErrUnsupported, `"<c8"`},
		{"object", rawNpy(dictOf("|O", "False", "()")), ErrUnsupported, `"|O"`},
		{"float128", rawNpy(dictOf("<f16", "False", "()")), ErrUnsupported, `"<f16"`},
		{"no byte order", rawNpy(dictOf("|f4", "False", "()")), ErrUnsupported, `"|f4"`},
		{"void of 4", rawNpy(dictOf("<V4", "False", "()")), ErrUnsupported, `"<V4"`},
		{"internal name", rawNpy(dictOf("<bf", "False", "()")), ErrUnsupported, `"<bf"`},
		{"shape is a number", rawNpy(dictOf("<f4", "False", "1")), ErrMalformed, "dictionary"},
		{"shape in parentheses", rawNpy(dictOf("<f4", "False", "(1)")), ErrMalformed, "tuple"},
		{"negative", rawNpy(dictOf("<f4", "False", "(-1,)")), ErrMalformed, "integers in"},
		{"over int64", rawNpy(dictOf("<f4", "False", "(9223372036854775808,)")), ErrMalformed, "integers in"},
		{"product overflows", rawNpy(dictOf("<f4", "False", "(4294967296, 4294967296)")), ErrMalformed, "too large"},
		{"product overflows to nothing", rawNpy(dictOf("<f8", "False", "(2305843009213693952, 8)")), ErrMalformed, "too large"},
		{"huge", rawNpy(dictOf("|u1", "False", "(900000000000000000,)")), ErrMalformed, "needs 900000000000000000 bytes"},
		{"17 dimensions", rawNpy(dictOf("<f4", "False", "("+strings.Repeat("1,", 17)+")")), ErrUnsupported, "at most 2"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := decodeNpy(c.file)
			oneLineOf(t, err, c.kind, c.says)
		})
	}
}

func TestNpyHeaderForms(t *testing.T) {
	for _, dict := range []string{
		`{"shape":(2L,),"descr":"<u2","fortran_order":True}`, // Python 2's long integers, double quotes, another order
		"{'descr': '<V2', 'fortran_order': False, 'shape': (2,), }  \n",
		"{'descr': '|V2', 'fortran_order': False, 'shape': (1, 2)}",
		"{'descr': 'bfloat16', 'fortran_order': False, 'shape': (2, 1)}",
	} {
		a, err := decodeNpy(rawNpy(dict, 0x80, 0x3f, 0, 0x40))
		require.NoError(t, err, dict)
		got, err := a.BF16s()
		require.NoError(t, err)
		assert.Equal(t, []uint16{0x3f80, 0x4000}, got, dict)
	}
	// Column-major with an empty side must not loop over the other.
	a, err := decodeNpy(rawNpy(dictOf("<f4", "True", "(4611686018427387904, 0)")))
	require.NoError(t, err)
	assert.Zero(t, a.Len())
}

func TestNpyRanges(t *testing.T) {
	minus := mustNpy(t, "<i2", "(1, 2)", 0, 0, 0xff, 0xff) // 0, -1
	i, err := minus.Int64s()
	require.NoError(t, err)
	assert.Equal(t, []int64{0, -1}, i)
	f, err := minus.Float32s()
	require.NoError(t, err)
	assert.Equal(t, []float32{0, -1}, f)
	_, err = minus.Uint64s()
	oneLineOf(t, err, ErrRange, "x.npy: value must fit uint64: [0, 1] is -1")
	_, err = minus.Uint32s()
	oneLineOf(t, err, ErrRange, "[0, 1] is -1")

	big := mustNpy(t, ">u8", "(1,)", 255, 255, 255, 255, 255, 255, 255, 255)
	_, err = big.Int64s()
	oneLineOf(t, err, ErrRange, "int64: [0] is 18446744073709551615")
	u, err := big.Uint64s()
	require.NoError(t, err)
	assert.Equal(t, []uint64{math.MaxUint64}, u)
	f, err = big.Float32s()
	require.NoError(t, err)
	assert.Equal(t, []float32{0x1p64}, f)

	_, err = mustNpy(t, "<i8", "()", 0, 0, 0, 0x80, 0, 0, 0, 0).Int32s() // 2^31
	oneLineOf(t, err, ErrRange, "int32: [] is 2147483648")
	ok, err := mustNpy(t, "<i8", "()", 0, 0, 0, 0x80, 255, 255, 255, 255).Int32s() // -2^31
	require.NoError(t, err)
	assert.Equal(t, []int32{math.MinInt32}, ok)
	_, err = mustNpy(t, "|b1", "(1,)", 2).Int32s()
	oneLineOf(t, err, ErrMalformed, "boolean")
}

func TestNpyTypesAreNotGuessed(t *testing.T) {
	u2 := mustNpy(t, "<u2", "(1,)", 0x80, 0x3f)
	_, err := u2.Float32s()
	oneLineOf(t, err, ErrUnsupported, "u2")
	n, err := u2.Uint32s()
	require.NoError(t, err)
	assert.Equal(t, []uint32{0x3f80}, n)
	i4 := mustNpy(t, "<i4", "(1,)", 255, 255, 255, 255)
	_, err = i4.BF16s()
	oneLineOf(t, err, ErrUnsupported, "dtype i4")
	w, err := i4.Words32()
	require.NoError(t, err)
	assert.Equal(t, []uint32{math.MaxUint32}, w)
	f4 := mustNpy(t, "<f4", "(1,)", 0, 0, 0, 0)
	_, err = f4.Int64s()
	oneLineOf(t, err, ErrUnsupported, "dtype f4")
	_, err = f4.Words32()
	oneLineOf(t, err, ErrUnsupported, "dtype f4")
	_, err = mustNpy(t, "<V2", "(1,)", 0, 0).Uint64s()
	oneLineOf(t, err, ErrUnsupported, "bfloat16")
}

func TestNpyFloatOverflow(t *testing.T) {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], math.Float64bits(math.Inf(-1)))
	binary.LittleEndian.PutUint64(b[8:], math.Float64bits(1e300))
	a := mustNpy(t, "<f8", "(2,)", b[:]...)
	_, err := a.Float32s()
	oneLineOf(t, err, ErrRange, "float32: [1] is 1e+300")
	_, err = a.BF16s()
	oneLineOf(t, err, ErrRange, "bf16: [1] is 1e+300")
	inf, err := mustNpy(t, "<f8", "(1,)", b[:8]...).BF16s()
	require.NoError(t, err)
	assert.Equal(t, []uint16{0xff80}, inf)
}

func roundTrip[T NpyElem](t *testing.T, shape []int, v []T, get func(*Array) ([]T, error)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.npy")
	require.NoError(t, WriteNpy(path, shape, v))
	a, err := ReadNpy(path)
	require.NoError(t, err)
	assert.Equal(t, append([]int{}, shape...), append([]int{}, a.Shape()...))
	got, err := get(a)
	require.NoError(t, err)
	assert.Equal(t, v, got)
}

func TestNpyRoundTrip(t *testing.T) {
	roundTrip(t, []int{2, 2}, []float32{1, -2, float32(math.Inf(1)), 1e-45}, (*Array).Float32s)
	roundTrip(t, nil, []int32{math.MinInt32}, (*Array).Int32s)
	roundTrip(t, []int{3}, []int64{-1, 0, math.MaxInt64}, (*Array).Int64s)
	roundTrip(t, []int{1, 2}, []uint16{0x7fc1, 0}, (*Array).BF16s)
	roundTrip(t, []int{2}, []uint32{0, math.MaxUint32}, (*Array).Words32)
	roundTrip(t, []int{1}, []uint64{math.MaxUint64}, (*Array).Uint64s)
	roundTrip(t, []int{0, 5}, []uint64{}, (*Array).Uint64s)
	large := make([]int32, 200_000)
	for i := range large {
		large[i] = int32(i)
	}
	roundTrip(t, []int{400, 500}, large, (*Array).Int32s)
}

// TestNpyWriterMatchesNumpy holds the writer's bytes to numpy's.
func TestNpyWriterMatchesNumpy(t *testing.T) {
	for _, c := range []struct {
		file  string
		write func(w *bytes.Buffer) error
	}{
		{"f4_little", func(w *bytes.Buffer) error { return EncodeNpy(w, "", []int{2, 3}, []float32{0, 1, 2, 3, 4, 5}) }},
		{"f8_little", func(w *bytes.Buffer) error { return EncodeNpy(w, "", []int{2, 3}, []float64{0, 1, 2, 3, 4, 5}) }},
		{"u2_little", func(w *bytes.Buffer) error { return EncodeNpy(w, "", []int{2, 3}, []uint16{0, 1, 2, 3, 4, 5}) }},
		{"vector", func(w *bytes.Buffer) error { return EncodeNpy(w, "", []int{5}, []int64{0, 1, 2, 3, 4}) }},
		{"scalar", func(w *bytes.Buffer) error { return EncodeNpy(w, "", nil, []float32{1.5}) }},
	} {
		var got bytes.Buffer
		require.NoError(t, c.write(&got))
		want, err := os.ReadFile("testdata/npy/" + c.file + ".npy")
		require.NoError(t, err)
		assert.Equal(t, string(want), got.String(), c.file)
	}
	for _, shape := range [][]int{{2}, {-1}, {math.MaxInt, 2}} {
		err := EncodeNpy(&bytes.Buffer{}, "y.npy", shape, []int32{1})
		oneLineOf(t, err, ErrRange, "y.npy")
	}
}
