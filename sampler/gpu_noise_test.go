//go:build !fsgen_nocuda

package sampler

import (
	"context"
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/driver"
	"github.com/fsgen/fsgen/reference"
	"github.com/fsgen/fsgen/templates"
)

// noiseModule loads the kernels that expose the noise alone.
func noiseModule(t *testing.T, d *cudaDevice) *driver.Module {
	k, err := templates.NoiseUnit(d.arch)
	require.NoError(t, err)
	mod, err := d.load(context.Background(), []byte(k.Module.String()))
	require.NoError(t, err)
	t.Cleanup(func() { mod.Close() })
	return mod
}

func runNoise(t *testing.T, d *cudaDevice, mod *driver.Module, entry string, ctas int, p *driver.Params) {
	fn, err := mod.Function(entry)
	require.NoError(t, err)
	stream, err := d.ctx.NewStream()
	require.NoError(t, err)
	defer stream.Close()
	require.NoError(t, stream.Launch(fn, driver.LaunchConfig{Grid: driver.Dim3{X: uint32(ctas), Y: 1, Z: 1},
		Block: driver.Dim3{X: templates.NoiseThreads, Y: 1, Z: 1}}, p))
	require.NoError(t, stream.Synchronize(context.Background()))
}

// TestGPUNoiseEqualsReference: the random bits to the bit, the noise within its bound.
func TestGPUNoiseEqualsReference(t *testing.T) {
	dev := gpu(t)
	d := dev.b.(*cudaDevice)
	mod := noiseModule(t, d)
	const n = 1 << 20
	bits, noise := upload(t, dev, make([]uint64, n)), upload(t, dev, make([]float32, n))
	for _, c := range []struct {
		seed, pos uint64
		draw, tag uint32
	}{{0, 0, 0, 0}, {42, 7, 0, 0}, {^uint64(0), ^uint64(0), ^uint32(0), ^uint32(0)}, {1 << 63, 1 << 32, 5, 9}} {
		p, err := driver.NewParams(8, 8, 4, 4, 4, 8, 8)
		require.NoError(t, err)
		p.SetPtr(0, driver.DevicePtr(upload(t, dev, []uint64{c.seed})))
		p.SetPtr(1, driver.DevicePtr(upload(t, dev, []uint64{c.pos})))
		p.SetUint32(2, c.draw)
		p.SetUint32(3, c.tag)
		p.SetUint32(4, n)
		p.SetPtr(5, driver.DevicePtr(bits))
		p.SetPtr(6, driver.DevicePtr(noise))
		runNoise(t, d, mod, templates.NoiseEntry, 200, p)
		rawBits, rawNoise := make([]byte, 8*n), make([]byte, 4*n)
		require.NoError(t, d.ctx.CopyFromDevice(rawBits, driver.DevicePtr(bits)))
		require.NoError(t, d.ctx.CopyFromDevice(rawNoise, driver.DevicePtr(noise)))
		row, worst := reference.Row(c.seed, c.pos, c.draw, c.tag), 0.0
		for id := range n {
			x := binary.LittleEndian.Uint64(rawBits[8*id:])
			if want := row.Token(id); x != want {
				t.Fatalf("token %d: bits %#x, want %#x", id, x, want)
			}
			g, want := float64(math.Float32frombits(binary.LittleEndian.Uint32(rawNoise[4*id:]))), row.Bits(id).Gumbel()
			worst = max(worst, math.Abs(g-want)/(1+math.Abs(want)))
		}
		t.Logf("seed %d: worst noise error %.3g (1+|g|), bound %.3g", c.seed, worst, math.Ldexp(1, -20))
		require.Less(t, worst, math.Ldexp(1, -20))
	}
}

// scanned is what fsgen_noise_scan found.
type scanned struct {
	min, max       float32
	odd, passBound uint64
}

func scanNoise(t *testing.T, dev *Device, mod *driver.Module, start, step, count uint64) scanned {
	d := dev.b.(*cudaDevice)
	out := upload(t, dev, []uint64{math.MaxUint64, 0, 0, 0})
	p, err := driver.NewParams(8, 8, 8, 8)
	require.NoError(t, err)
	p.SetUint64(0, start)
	p.SetUint64(1, step)
	p.SetUint64(2, count)
	p.SetPtr(3, driver.DevicePtr(out))
	runNoise(t, d, mod, templates.NoiseScanEntry, 8*d.sms(), p)
	raw := make([]byte, 32)
	require.NoError(t, d.ctx.CopyFromDevice(raw, driver.DevicePtr(out)))
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(raw[8*i:]) }
	decode := func(key uint64) float32 {
		if k := uint32(key); k>>31 == 1 {
			return math.Float32frombits(k &^ (1 << 31))
		}
		return math.Float32frombits(^uint32(key))
	}
	return scanned{decode(word(0)), decode(word(1)), word(2), word(3)}
}

// TestGPUNoiseScan: every high word with the low words at both ends, every low word where the high word is 0 or all ones,
// and 10^10 draws. No noise is infinite or NaN, none passes the bound that skips it, and the extremes are the documented
// ones: g(0) = 65 ln 2 and g(2^64-1) = -ln(65 ln 2).
func TestGPUNoiseScan(t *testing.T) {
	dev := gpu(t)
	mod := noiseModule(t, dev.b.(*cudaDevice))
	largest, smallest := 65*math.Ln2, -math.Log(65*math.Ln2)
	for _, c := range []struct {
		name               string
		start, step, count uint64
	}{
		{"every high word, low words 0", 0, 1 << 32, 1 << 32},
		{"every high word, low words 1", 1<<32 - 1, 1 << 32, 1 << 32},
		{"high word 0", 0, 1, 1 << 32},
		{"high word 1", 1 << 32, 1, 1 << 32},
		{"high word of ones", 0xFFFFFFFF << 32, 1, 1 << 32},
		{"middle", 1<<63 - 1<<31, 1, 1 << 32},
		{"10^10 draws", 0x0123456789ABCDEF, 0x9E3779B97F4A7C15, 10_000_000_000},
	} {
		s := scanNoise(t, dev, mod, c.start, c.step, c.count)
		t.Logf("%-30s min %.6f max %.6f not finite %d past the bound %d", c.name, s.min, s.max, s.odd, s.passBound)
		require.Zero(t, s.odd, c.name)
		require.Zero(t, s.passBound, c.name)
		require.GreaterOrEqual(t, float64(s.min), smallest-1e-5, c.name)
		require.LessOrEqual(t, float64(s.max), largest+5e-5, c.name)
	}
	ends := scanNoise(t, dev, mod, 0, math.MaxUint64, 2)
	require.InDelta(t, largest, float64(ends.max), 5e-5)
	require.InDelta(t, smallest, float64(ends.min), 1e-5)
}
