//go:build linux && (amd64 || arm64) && !fsgen_nocuda

package dynlib

import (
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/internal/cfake"
)

const fake = `
#include <stdint.h>
uint64_t weigh(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f, uint64_t g, uint64_t h,
	uint64_t i, uint64_t j, uint64_t k, uint64_t l, uint64_t m, uint64_t n, uint64_t o, uint64_t p) {
	return a + 2*b + 3*c + 4*d + 5*e + 6*f + 7*g + 8*h + 9*i + 10*j + 11*k + 12*l + 13*m + 14*n + 15*o + 16*p;
}
int store(uint64_t *out, uint64_t x) { *out = x; return 7; }
struct big { uint64_t words[16]; };
uint64_t spread(uint64_t *out, int a, struct big b, int c, void *d) {
	*out = (uint64_t)d;
	for (int i = 0; i < 16; i++) *out += (i + 1) * b.words[i];
	return 100 * a + c;
}
const char *word(int n) { return n == 2 ? "two" : "other"; }
`

func TestCalls(t *testing.T) {
	path := cfake.Build(t, []byte(fake))
	lib, err := Open(path)
	require.NoError(t, err)
	assert.Equal(t, path, lib.Name())
	weigh, err := lib.Func("weigh")
	require.NoError(t, err)
	args, want := make([]uintptr, 16), uintptr(0) // as many as cublasLtMatmul takes: most of them on the stack
	for i := range args {
		args[i] = uintptr(100 + i*i)
		want += uintptr(i+1) * args[i]
	}
	assert.Equal(t, want, weigh.Call(args...))

	store, err := lib.Func("store")
	require.NoError(t, err)
	var out uint64
	assert.EqualValues(t, 7, store.Call(uintptr(unsafe.Pointer(&out)), 42))
	assert.EqualValues(t, 42, out)

	word, err := lib.Func("word")
	require.NoError(t, err)
	assert.Equal(t, "two", word.Text(2))
	assert.Equal(t, "other", word.Text(-1))

	var spread func(out unsafe.Pointer, a int32, big struct{ words [16]uint64 }, c int32, d uintptr) uint64
	require.NoError(t, lib.Bind(&spread, "spread"))
	big, sum := struct{ words [16]uint64 }{}, uint64(1<<40)
	for i := range big.words {
		big.words[i] = uint64(1000 + i*i)
		sum += uint64(i+1) * big.words[i]
	}
	assert.EqualValues(t, 705, spread(unsafe.Pointer(&out), 7, big, 5, 1<<40))
	assert.Equal(t, sum, out, "a structure by value, among other arguments")
	assert.ErrorAs(t, lib.Bind(&spread, "nothing"), new(*SymbolError))

	_, err = lib.Func("nothing")
	var missing *SymbolError
	require.ErrorAs(t, err, &missing)
	assert.Equal(t, SymbolError{path, "nothing"}, *missing)
}

func TestOpenTakesTheFirstThatLoads(t *testing.T) {
	path := cfake.Build(t, []byte(fake))
	lib, err := Open("libfsgen-none.so.9", path, "libfsgen-none.so.8")
	require.NoError(t, err)
	assert.Equal(t, path, lib.Name())
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	_, err := Open("libfsgen-none.so.9", "/nowhere/libfsgen-none.so.8")
	assert.ErrorIs(t, err, ErrNotFound)
	assert.ErrorContains(t, err, "libfsgen-none.so.9 cannot be loaded")

	bad := filepath.Join(t.TempDir(), "bad.so")
	require.NoError(t, os.WriteFile(bad, []byte("no library"), 0o600))
	_, err = Open("libfsgen-none.so.9", bad, "libfsgen-none.so.8")
	assert.NotErrorIs(t, err, ErrNotFound)
	assert.ErrorContains(t, err, "bad.so cannot be loaded", "what is there and unfit explains more")

	_, err = Open()
	assert.ErrorIs(t, err, ErrNotFound)
}
