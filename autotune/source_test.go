package autotune

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/gen"
)

// choice makes an entry with a candidate of one's own, of the kernel as it is.
func choice(t *testing.T, b Bucket, c Candidate) *Entry {
	t.Helper()
	e := entryOf(t, b)
	e.Candidate = c.String()
	if a, _, err := e.emit(b.Request); err == nil {
		e.PTXSHA256 = a.Manifest.PTXSHA256
	}
	return e
}

func TestSourceAsksStoreThenTableThenDefault(t *testing.T) {
	b := bucketOf(t, 64)
	s, w := storeIn(t, t.TempDir())
	table := &Table{}
	src := Source{s, table}
	want := func(c Candidate, from Origin) {
		t.Helper()
		got, err := src.Choose(b.Key, b.Request)
		require.NoError(t, err)
		assert.Equal(t, from, got.Origin)
		assert.Equal(t, c.Tile.String(), got.Artifact.Manifest.Tile.Name)
		assert.Equal(t, c.CTAs, got.CTAs)
		assert.NoError(t, got.Artifact.Manifest.CheckPTX(got.Artifact.PTX))
	}
	want(b.Candidates[0], FromDefault)
	inTable, inStore := b.Candidates[2], Candidate{b.Candidates[3].Tile, 120}
	table.Set(choice(t, b, inTable))
	want(inTable, FromTable)
	e := choice(t, b, inStore)
	require.NoError(t, s.Put(e))
	want(inStore, FromStore)

	e.PTXSHA256 = strings.Repeat("0", 64) // measured before the templates changed
	require.NoError(t, s.Put(e))
	want(inTable, FromTable)
	foreign := choice(t, b, inTable)
	foreign.PTXSHA256 = strings.Repeat("0", 64)
	table.Set(foreign)
	want(inTable, FromTable)

	impossible := choice(t, b, Candidate{Tile: b.Candidates[0].Tile})
	impossible.Candidate = "m192n256k64s12c1" // needs more shared memory than there is
	table.Set(impossible)
	want(b.Candidates[0], FromDefault)
	impossible.PTXSHA256 = e.PTXSHA256
	require.NoError(t, s.Put(impossible))
	want(b.Candidates[0], FromDefault)
	assert.Empty(t, w.take())

	got, err := Source{}.Choose(b.Key, b.Request)
	require.NoError(t, err)
	assert.Equal(t, FromDefault, got.Origin)
	_, err = Source{}.Choose(b.Key, gen.Request{})
	assert.Error(t, err)
}
