package gen

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/internal/ptxas"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/templates"
	"github.com/fsgen/fsgen/tiling"
)

// eachLayout emits the default kernel of every width in both layouts of the weights.
func eachLayout(t *testing.T, f func(v variant)) {
	t.Helper()
	for _, a := range arch.All() {
		for _, c := range []ir.Computation{
			computation(ir.Gumbel, "temperature", true),
			computation(ir.Gumbel, "scale=0.5,softcap=30,bias=rows,mask,temperature", true),
			summed(computation(ir.Grouped, "temperature", true)),
			summed(computation(ir.Grouped, "scale=0.5,softcap=30,bias=rows,mask,temperature", true)),
		} {
			for _, n := range tiling.Widths(a, 256) {
				for _, l := range []manifest.Layout{manifest.RowMajor, manifest.Packed} {
					r := Request{Arch: a, Computation: c, Shape: ir.Shape{Vocab: 151936, Hidden: 4096},
						Batch: n, Options: templates.Options{Weights: l}}
					k, err := Emit(r)
					require.NoError(t, err)
					f(variant{Request: r, Artifact: k})
				}
			}
		}
	}
}

// The layouts differ in what the producer copies, and in nothing else that a caller sees but the weights' parameter.
func TestLayouts(t *testing.T) {
	eachLayout(t, func(v variant) {
		m := v.Manifest
		packed, rows := m.Param(templates.ParamPackedWeights), m.Param(templates.ParamWeights)
		if v.Options.Weights == manifest.Packed {
			require.Equal(t, manifest.Packed, m.Tile.Weights)
			require.Nil(t, rows)
			require.Contains(t, m.Entry, "_packed")
			// Once ahead of the wait for the grid before, and once in the ring.
			copies, boxes := bytes.Count(v.PTX, []byte("cp.async.bulk.shared::cluster.global")), m.Param(templates.ParamPackedMap)
			if m.Launch.Grid.Split { // a cluster has the weights in common
				require.Nil(t, packed)
				require.Equal(t, manifest.TensorMap, boxes.Kind)
				require.Equal(t, &manifest.Map{Tensor: "packed_map", Packed: true, Rows: "vocab", Element: "bf16", Box: []uint32{64, 32}, L2Promote: 128, OOBFill: "zero"}, boxes.Map)
				require.Zero(t, copies)
				return
			}
			require.Nil(t, boxes)
			require.Equal(t, manifest.Pointer, packed.Kind)
			require.Equal(t, 2, copies)
			return
		}
		require.Equal(t, manifest.RowMajor, m.Tile.Weights)
		require.Nil(t, packed)
		require.Equal(t, manifest.TensorMap, rows.Kind)
		require.NotContains(t, m.Entry, "packed")
	})
	_, err := Emit(Request{Arch: arch.SM90, Shape: ir.Shape{Vocab: 10, Hidden: 8}, Options: templates.Options{Weights: "columns"}})
	require.ErrorContains(t, err, `unknown layout of weights "columns": want rowmajor or packed`)
	_, err = Emit(Request{Arch: arch.SM90, Shape: ir.Shape{Vocab: 10, Hidden: 8}, Options: templates.Options{TensorMaps: "local"}})
	require.ErrorContains(t, err, `unknown place of tensor maps "local": want param or global`)
}

// Every kernel assembles without a spill, also as the driver's linker compiles it, which is where cached images come from:
// for other modules to follow (-c). It keeps calls, which serialise wgmma, and ignores setmaxnreg; kernels with that are
// compiled as a whole.
func TestLayoutsAssemble(t *testing.T) {
	if testing.Short() {
		t.Skip("many runs of ptxas")
	}
	tool := ptxas.ForTest(t)
	var g errgroup.Group
	g.SetLimit(2)
	eachLayout(t, func(v variant) {
		g.Go(func() error {
			assembles(t, tool, v)
			if v.Arch.Name != arch.SM90.Name || bytes.Contains(v.PTX, []byte("setmaxnreg")) { // C7509 is about wgmma
				return nil
			}
			r, err := tool.Assemble(context.Background(), string(v.PTX), v.Manifest.Target, ptxas.Options{Args: []string{"-c"}})
			require.NoError(t, err, v.name())
			require.Empty(t, r.Warnings, v.name())
			require.NotContains(t, r.Log, "C75", v.name())
			return nil
		})
	})
	require.NoError(t, g.Wait())
}
