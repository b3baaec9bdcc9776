//go:build linux && (amd64 || arm64)

package driver

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/manifest"
)

func launchOf(cluster int) *manifest.Kernel {
	return &manifest.Kernel{Entry: "fill", Target: arch.SM90.Target, Launch: manifest.Launch{
		Grid:    manifest.Grid{TileM: 128, TileN: 16, Cluster: cluster},
		Cluster: [3]int{cluster, 1, 1}, Block: [3]int{384, 1, 1}, SharedBytes: 200_000, Programmatic: true}}
}

func TestKernel(t *testing.T) {
	f := openFake(t)
	c := f.context()
	m, err := c.LoadPTX([]byte(fillPTX), JITOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, m.Close()) })
	for cluster, resident := range map[int]int{1: 5 * 132, 2: 132, 16: 8 * 16} {
		k, err := m.Kernel(launchOf(cluster))
		require.NoError(t, err)
		assert.Equal(t, resident, k.Resident())
		assert.Equal(t, cluster, k.CTAs(100, 1), "no more than there is work")
		attributes, err := k.Attributes()
		require.NoError(t, err)
		assert.Equal(t, 200_000, attributes.MaxDynamicShared)
		allowed, err := k.get(funcNonPortableCluster)
		require.NoError(t, err)
		assert.Equal(t, cluster > portableCluster, allowed == 1)
		carveout, err := k.get(funcSharedCarveout)
		require.NoError(t, err)
		assert.Equal(t, 100, carveout)
		cfg := k.Config(4*cluster, true)
		assert.Equal(t, LaunchConfig{Grid: Dim3{uint32(4 * cluster), 1, 1}, Block: Dim3{384, 1, 1}, Cluster: cfg.Cluster, SharedBytes: 200_000,
			Programmatic: true}, cfg)
		assert.Equal(t, cluster > 1, cfg.Cluster == Dim3{uint32(cluster), 1, 1})
		assert.False(t, k.Config(cluster, false).Programmatic)
		require.NoError(t, k.set(funcNonPortableCluster, 0))
	}
}

func TestKernelsThatCannotRun(t *testing.T) {
	f := openFake(t)
	m, err := f.context().LoadPTX([]byte(fillPTX), JITOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, m.Close()) })
	other, large, missing := launchOf(1), launchOf(1), launchOf(1)
	other.Target = arch.SM100.Target
	large.Launch.Block[0] = 4096 // of which the fake's multiprocessor holds none
	missing.Entry = "nobody"
	var e *KernelError
	_, err = m.Kernel(other)
	require.ErrorAs(t, err, &e)
	require.ErrorContains(t, err, "it is for sm_100")
	_, err = m.Kernel(large)
	require.ErrorAs(t, err, &e)
	require.ErrorContains(t, err, "does not fit")
	_, err = m.Kernel(missing)
	require.ErrorIs(t, err, ErrNotFound)
	large.Launch.SharedBytes = 1 << 20
	_, err = m.Kernel(large)
	require.ErrorIs(t, err, ErrInvalidValue)
}

func TestMatrixMap(t *testing.T) {
	var s TensorMapSpec
	s.MatrixMap(&manifest.Map{Box: []uint32{64, 32}, Swizzle: 128, L2Promote: 64}, 1<<20, 1000, 72, 80)
	require.NoError(t, s.Check())
	assert.Equal(t, TensorMapSpec{Type: BFloat16, Rank: 2, Address: 1 << 20, Dims: [5]uint64{72, 1000}, Strides: [4]uint64{160},
		Box: [5]uint32{64, 32}, Swizzle: Swizzle128B, L2Promotion: L2Promotion64B}, s)
	for bytes, want := range map[int]L2Promotion{0: L2PromotionNone, 128: L2Promotion128B, 256: L2Promotion256B} {
		assert.Equal(t, want, l2PromotionOf(bytes))
	}
	assert.Equal(t, SwizzleNone, swizzleOf(0))
	s.Swizzle = swizzleOf(48)
	assert.Error(t, s.Check())
}
