package autotune

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"slices"
	"sync"
)

// Table is a list of entries of one or more GPUs, as a file holds it: an entry for each GPU and problem, whatever driver
// and generator it was measured with.
type Table struct {
	entries map[Key]*Entry // by Key.problem
}

// tableFile is a table's JSON.
type tableFile struct {
	Schema  int      `json:"schema"`
	Entries []*Entry `json:"entries"`
}

// ParseTable reads a table and checks every entry.
func ParseTable(data []byte) (*Table, error) {
	var f tableFile
	if err := decodeStrict(data, &f); err != nil {
		return nil, err
	}
	if f.Schema != Schema {
		return nil, fmt.Errorf("autotune: table of schema %d, want %d", f.Schema, Schema)
	}
	t := &Table{}
	for i, e := range f.Entries {
		if e == nil {
			return nil, fmt.Errorf("autotune: entry %d of the table is null", i)
		}
		if err := e.validate(); err != nil {
			return nil, fmt.Errorf("entry %d of the table: %w", i, err)
		}
		if t.Get(e.Key) != nil {
			return nil, fmt.Errorf("autotune: entry %d of the table is the second for %+v", i, e.problem())
		}
		t.Set(e)
	}
	return t, nil
}

// Get returns the entry for a key's GPU and problem, or nil; its driver and generator may differ from the key's.
func (t *Table) Get(k Key) *Entry {
	if t == nil {
		return nil
	}
	return t.entries[k.problem()]
}

// Set adds an entry, in place of one for the same GPU and problem.
func (t *Table) Set(e *Entry) {
	if t.entries == nil {
		t.entries = map[Key]*Entry{}
	}
	t.entries[e.problem()] = e
}

// Entries lists the entries in the order of their keys: GPU, shape, layout, computation, batch.
func (t *Table) Entries() []*Entry {
	var list []*Entry
	for _, e := range t.entries {
		list = append(list, e)
	}
	sortEntries(list)
	return list
}

func sortEntries(list []*Entry) {
	slices.SortFunc(list, func(a, b *Entry) int {
		return cmp.Or(
			cmp.Compare(a.Name, b.Name), cmp.Compare(a.Multiprocessors, b.Multiprocessors),
			cmp.Compare(a.Vocab, b.Vocab), cmp.Compare(a.Hidden, b.Hidden), cmp.Compare(a.Weights, b.Weights),
			cmp.Compare(a.Sampler, b.Sampler), cmp.Compare(a.Transform, b.Transform), bytes.Compare(canonical(a.Score), canonical(b.Score)),
			bytes.Compare(canonical(a.LogSumExp), canonical(b.LogSumExp)), cmp.Compare(a.Extras, b.Extras),
			cmp.Compare(a.Batch, b.Batch), cmp.Compare(a.Driver, b.Driver), cmp.Compare(a.Generator, b.Generator))
	})
}

// Encode writes the table as JSON, an entry a line: the same entries, the same bytes.
func (t *Table) Encode() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "{\n\"schema\": %d,\n\"entries\": [", Schema)
	for i, e := range t.Entries() {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
		b.Write(canonical(e))
	}
	b.WriteString("\n]\n}\n")
	return b.Bytes()
}

//go:embed tables
var tables embed.FS

// Builtin returns the table that ships with fsgen.
var Builtin = sync.OnceValue(func() *Table {
	all := &Table{}
	files, err := tables.ReadDir("tables")
	if err != nil {
		panic(fmt.Sprintf("BUG: autotune: %v", err))
	}
	for _, f := range files {
		data, err := tables.ReadFile("tables/" + f.Name())
		if err != nil {
			panic(fmt.Sprintf("BUG: autotune: %v", err))
		}
		t, err := ParseTable(data)
		if err != nil {
			panic(fmt.Sprintf("BUG: autotune: tables/%s: %v", f.Name(), err))
		}
		for _, e := range t.entries {
			all.Set(e)
		}
	}
	return all
})
