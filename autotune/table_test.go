package autotune

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/gen"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/model"
	"github.com/fsgen/fsgen/tiling"
)

// TestBuiltinTable holds what ships: every entry is of a known model, for a bucket that the runtime asks for, with a tile
// that can run.
func TestBuiltinTable(t *testing.T) {
	shapes := map[ir.Shape]bool{}
	for _, p := range model.All() {
		shapes[ir.Shape{Vocab: p.V, Hidden: p.D}] = true
	}
	list := Builtin().Entries()
	current := 0
	for _, e := range list {
		assert.Equal(t, "NVIDIA H200", e.Name)
		assert.Equal(t, 132, e.Multiprocessors)
		assert.True(t, shapes[ir.Shape{Vocab: e.Vocab, Hidden: e.Hidden}], "no preset has V=%d, D=%d", e.Vocab, e.Hidden)
		assert.Contains(t, tiling.Widths(arch.SM90, 256), e.Batch)
		chain, err := ir.ParseChain(e.Transform)
		require.NoError(t, err)
		kind, err := ir.ParseSampler(e.Sampler)
		require.NoError(t, err)
		c := ir.Computation{Chain: chain, Sampler: kind, Score: e.Score, LogSumExp: e.LogSumExp}
		assert.Equal(t, e.Transform, c.Normalize().Chain.String(), "as a key spells it")
		r := gen.Request{Arch: arch.SM90, Shape: ir.Shape{Vocab: e.Vocab, Hidden: e.Hidden}, Batch: e.Batch, Computation: c}
		a, choice, err := e.emit(r)
		require.NoError(t, err, "%+v", e)
		assert.LessOrEqual(t, choice.CTAs, e.Multiprocessors)
		if a.Manifest.PTXSHA256 == e.PTXSHA256 {
			current++
		}
	}
	t.Logf("%d entries, %d of them of the kernels that this generator makes", len(list), current)
}

func TestTableRoundTrip(t *testing.T) {
	table := &Table{}
	assert.Nil(t, table.Get(bucketOf(t, 8).Key))
	for _, n := range []int{64, 8, 16} {
		table.Set(entryOf(t, bucketOf(t, n)))
	}
	back, err := ParseTable(table.Encode())
	require.NoError(t, err)
	assert.Equal(t, table, back)
	assert.Equal(t, string(table.Encode()), string(back.Encode()))
	var batches []int
	for _, e := range back.Entries() {
		batches = append(batches, e.Batch)
	}
	assert.Equal(t, []int{8, 16, 64}, batches)
	empty, err := ParseTable((&Table{}).Encode())
	require.NoError(t, err)
	assert.Empty(t, empty.Entries())
}

func TestTableIgnoresDriverAndGeneratorAlone(t *testing.T) {
	table, b := &Table{}, bucketOf(t, 16)
	table.Set(entryOf(t, b))
	k := b.Key
	k.Driver, k.Generator = "14.0", "9"
	assert.NotNil(t, table.Get(k))
	for _, change := range []func(*Key){
		func(k *Key) { k.Name = "NVIDIA H100" }, func(k *Key) { k.Multiprocessors = 114 }, func(k *Key) { k.Vocab++ },
		func(k *Key) { k.Hidden++ }, func(k *Key) { k.Weights = "other" }, func(k *Key) { k.Transform = "none" },
		func(k *Key) { k.Sampler = "greedy" }, func(k *Key) { k.Score = true }, func(k *Key) { k.LogSumExp = true }, func(k *Key) { k.Batch = 32 },
	} {
		k := b.Key
		change(&k)
		assert.Nil(t, table.Get(k), "%+v", k)
	}
	newer := entryOf(t, b)
	newer.Driver, newer.Microseconds = "14.0", 1
	table.Set(newer)
	assert.Equal(t, []*Entry{newer}, table.Entries(), "one entry for a problem")
	assert.Nil(t, (*Table)(nil).Get(b.Key))
}

func TestBadTables(t *testing.T) {
	table := &Table{}
	table.Set(entryOf(t, bucketOf(t, 16)))
	text := string(table.Encode())
	entry := string(canonical(entryOf(t, bucketOf(t, 16))))
	for name, bad := range map[string]string{
		"empty":       "",
		"schema":      strings.Replace(text, `"schema": 1`, `"schema": 2`, 1),
		"old entry":   strings.Replace(text, `"schema":1`, `"schema":0`, 1),
		"twice":       strings.Replace(text, entry, entry+","+entry, 1),
		"null":        strings.Replace(text, entry, "null", 1),
		"unknown":     strings.Replace(text, `"schema":1`, `"schema":1,"x":1`, 1),
		"no GPU":      strings.Replace(text, `"gpu":"NVIDIA H200"`, `"gpu":""`, 1),
		"no vocab":    strings.Replace(text, `"vocab":32000`, `"vocab":0`, 1),
		"more":        text + "{}",
		"not a table": "[]",
	} {
		require.NotEqual(t, text, bad, name)
		_, err := ParseTable([]byte(bad))
		assert.Error(t, err, name)
	}
}
