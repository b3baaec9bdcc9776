package sampler

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/sim"
	"github.com/fsgen/fsgen/templates"
	"github.com/fsgen/fsgen/tiling"
)

// Every value stands once, at the place that the layout says, and everything else is zero.
func TestPackRows(t *testing.T) {
	for _, shape := range [][2]int{{1, 1}, {64, 64}, {65, 72}, {130, 9}, {127, 200}} {
		v, d := shape[0], shape[1]
		ld := alignedLD(d)
		packed := packRows(numbered(v, d, ld), v, d, ld)
		panels, tall := manifest.PackedPanels(v, d)
		require.Equal(t, (v+63)/64*64, tall)
		require.Len(t, packed, panels*tall*64+manifest.PackedTail/2)
		seen := 0
		for at, x := range packed {
			row, unit := at/64%tall, at%64/8
			column := at/64/tall*64 + (unit^row%8)*8 + at%8
			want := uint16(0)
			if row < v && column < d {
				want = number(row, column)
				seen++
			}
			require.Equal(t, want, x, "%d x %d at %d: row %d, column %d", v, d, at, row, column)
		}
		require.Equal(t, v*d, seen)
	}
}

func number(row, column int) uint16 { return uint16(row*251+column*7) | 1 }

// numbered is a matrix whose padding holds what must not be read.
func numbered(v, d, ld int) []uint16 {
	rows := make([]uint16, v*ld)
	for i := range rows {
		rows[i] = 0xDEAD
		if i%ld < d {
			rows[i] = number(i/ld, i%ld)
		}
	}
	return rows
}

// The kernel that packs does what packRows does, on both architectures, whatever stands behind the rows.
func TestPackKernel(t *testing.T) {
	for _, a := range arch.All() {
		k, err := templates.Pack(a)
		require.NoError(t, err)
		m := &manifest.Kernel{Entry: k.Entry.Name, Arch: a.Name, Params: k.Params,
			Launch: manifest.Launch{Block: [3]int{templates.PackThreads, 1, 1}, Cluster: [3]int{1, 1, 1}}}
		p, err := sim.Load(k.Module.String(), m)
		require.NoError(t, err)
		for _, shape := range [][2]int{{1, 1}, {65, 72}, {130, 9}, {100, 64}} {
			v, d := shape[0], shape[1]
			ld := alignedLD(d) + 8
			rows := numbered(v, d, ld)
			want := packRows(rows, v, d, ld)
			mem := sim.NewMemory()
			out := mem.Alloc("packed", 2*len(want))
			rep, err := p.Run(t.Context(), mem, sim.Launch{CTAs: 3, Seed: 1,
				Pointers: map[string]uint64{"source": mem.Put("source", asBytes(rows)).Addr, "packed": out.Addr},
				Scalars:  map[string]uint32{"stride": uint32(2 * ld), "rows": uint32(v), "columns": uint32(d), "panel_rows": uint32((v + 63) / 64 * 64)}})
			require.NoError(t, err)
			require.NoError(t, rep.Err())
			got := make([]byte, 2*len(want))
			out.Read(0, got)
			require.Equal(t, asBytes(want), got, "%s %d x %d", a.Name, v, d)
		}
	}
}

// Clusters that begin at the last rows read past them, whole tiles at a time, but never past what packed weights have there.
func TestTilesPastPackedWeights(t *testing.T) {
	for device, tiles := range map[string][]string{
		"sim:sm_90":  {"m192n16k64s4c2", "m192n32k64s4c4", "m192n64k64s3c2p", "m192n64k64s3c8", "m128n16k64s4c2bp"},
		"sim:sm_100": {"m128n32k64s3c2", "m128n64k64s3c8"},
	} {
		for _, name := range tiles {
			tile, err := tiling.ParseTile(name)
			require.NoError(t, err)
			for _, v := range []int{1, tile.M*tile.Cluster + 1} {
				w, h, rows := make([]uint16, v*64), make([]uint16, 3*64), Rows{Seeds: []uint64{1, 2, 3}, Positions: []uint64{4}}
				for i := range w {
					w[i] = bf16Bits(float32(i%11) / 4)
				}
				for i := range h {
					h[i] = bf16Bits(float32(i%7) / 8)
				}
				got := map[string]*Result{}
				for _, on := range []string{CPU, device} {
					dev, err := Open(on)
					require.NoError(t, err)
					head, err := dev.LoadHead(t.Context(), Weights{Source: Matrix{Data: w, Hidden: 64}, Vocab: v, Hidden: 64, Layout: Packed})
					require.NoError(t, err)
					spec := Spec{MaxBatch: 3}
					if on != CPU {
						spec.Tile = tile
					}
					plan, err := head.Plan(t.Context(), spec)
					require.NoError(t, err, name)
					got[on], err = plan.Sample(t.Context(), h, rows)
					require.NoError(t, err, "%s, V = %d", name, v)
				}
				require.Equal(t, got[CPU].Tokens, got[device].Tokens, "%s, V = %d", name, v)
			}
		}
	}
}
