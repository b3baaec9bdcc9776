package sim_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sim"
)

// Nobody has checked the ids in a device's memory: one that is none has NaN, and nothing is read for it. Any number of CTAs gives the
// same bits.
func TestListedIDsOutOfRange(t *testing.T) {
	for _, a := range arch.All() {

		comp := chain(t, "bias,mask,temperature")
		comp.LogProb, comp.Listed = ir.ProcessedLogProb, true
		p := newProblem(comp, 300, 72, 4, 9)
		e := mustEmit(t, comp, "", a)
		ids := []int32{-1, 299, 300, 1<<31 - 1, -1 << 31, 0}
		var first []int32
		for _, ctas := range []int{1, 2, 7} {
			b := newBench(p, 2)
			b.addIDs(ids)
			prog, err := sim.Load(string(e.PTX), e.Manifest)
			require.NoError(t, err)
			rep, err := prog.Run(context.Background(), b.mem, b.launch)
			require.NoError(t, err)
			require.NoError(t, rep.Err())
			prog, err = sim.Load(string(e.PTX), e.Manifest.ListedKernel())
			require.NoError(t, err)
			b.launch.CTAs = ctas
			rep, err = prog.Run(context.Background(), b.mem, b.launch)
			require.NoError(t, err)
			require.NoError(t, rep.Err())
			got := ints(b.listed)
			if first == nil {
				first = got
			}
			require.Equal(t, first, got)
			for i, x := range float32s(b.listed) {
				id := ids[i%len(ids)]
				valid := id >= 0 && id < 300
				require.Equal(t, !valid, math.IsNaN(float64(x)), "id %d", id)
				if valid {
					near(t, p.plainLogProb(i/len(ids), id), x, "id %d", id)
				}
			}
		}
	}
}

// addIDs lists the same ids of every row.
func (b *bench) addIDs(ids []int32) {
	n, l := b.tokens.Size()/4, &b.launch
	b.listed = b.mem.Alloc("list_logprobs", 4*n*len(ids))
	l.Pointers["list_ids"], l.Pointers["list_logprobs"], l.Pointers["row_masses"] = b.put("list_ids", bytesOf(ids)), b.listed.Addr, b.mem.Alloc("row_masses", 8*n).Addr
	l.Pointers["weight_rows"], l.Pointers["hidden_rows"] = l.Tensors["weights"].Addr, l.Tensors["hidden"].Addr
	l.Scalars["list_stride"], l.Scalars["list_length"] = 0, uint32(len(ids))
	l.Scalars["weight_stride"], l.Scalars["hidden_stride"] = uint32(l.Tensors["weights"].Stride/2), uint32(l.Tensors["hidden"].Stride/2)
}
