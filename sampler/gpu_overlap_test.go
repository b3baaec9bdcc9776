//go:build !fsgen_nocuda

package sampler

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/driver"
)

// latePTX is a kernel that lets the next one begin at once and writes only after a while, as unkindly as a kernel before
// sampling can behave: late(p, value, n, ns) sets n 64-bit words, ns nanoseconds after it began.
const latePTX = `.version 8.0
.target sm_90
.address_size 64
.visible .entry late(.param .u64 p, .param .u64 value, .param .u32 n, .param .u64 ns)
{
	.reg .pred %more;
	.reg .b32 %i, %n;
	.reg .b64 %p, %value, %ns, %begin, %now;
	griddepcontrol.launch_dependents;
	ld.param.u64 %p, [p];
	cvta.to.global.u64 %p, %p;
	ld.param.u64 %value, [value];
	ld.param.u32 %n, [n];
	ld.param.u64 %ns, [ns];
	mov.u64 %begin, %globaltimer;
spin:
	mov.u64 %now, %globaltimer;
	sub.u64 %now, %now, %begin;
	setp.lt.u64 %more, %now, %ns;
	@%more bra spin;
	mov.u32 %i, 0;
store:
	st.global.u64 [%p], %value;
	add.u64 %p, %p, 8;
	add.u32 %i, %i, 1;
	setp.lt.u32 %more, %i, %n;
	@%more bra store;
	ret;
}
`

// lateWriter sets a launch's positions by the kernel above.
type lateWriter struct {
	fn     *driver.Function
	params *driver.Params
}

func newLateWriter(t *testing.T, l *launched) *lateWriter {
	mod, err := l.ctx.LoadPTX([]byte(latePTX), driver.JITOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { mod.Close() })
	w := &lateWriter{}
	w.fn, err = mod.Function("late")
	require.NoError(t, err)
	w.params, err = driver.NewParams(8, 8, 4, 8)
	require.NoError(t, err)
	w.params.SetPtr(0, driver.DevicePtr(l.args.Positions))
	w.params.SetUint32(2, uint32(l.n))
	return w
}

// enqueue has the positions set to a value some microseconds after the kernel has begun.
func (w *lateWriter) enqueue(l *launched, position, us uint64) error {
	w.params.SetUint64(1, position)
	w.params.SetUint64(3, 1000*us)
	one := driver.Dim3{X: 1}
	return l.stream.Launch(w.fn, driver.LaunchConfig{Grid: one, Block: one}, w.params)
}

// steps enqueues sampling steps, each with its own position and outputs, and returns those: written by a late kernel, by a
// fill, or with nothing between launches but launches.
func (l *launched) steps(t *testing.T, dev *Device, n int, before func(step int) error) (enqueue func() error, read func() [][]uint32) {
	outs := make([]uint64, n)
	for i := range outs {
		outs[i] = upload(t, dev, make([]uint32, l.n))
	}
	enqueue = func() error {
		for i, out := range outs {
			if err := before(i); err != nil {
				return err
			}
			a := *l.args
			a.Tokens = out
			if err := l.launcher.Launch(l.stream.Handle(), &a); err != nil {
				return err
			}
		}
		return nil
	}
	read = func() (all [][]uint32) {
		require.NoError(t, l.stream.Synchronize(t.Context()))
		for _, out := range outs {
			raw, tokens := make([]byte, 4*l.n), make([]uint32, l.n)
			require.NoError(t, l.ctx.CopyFromDevice(raw, driver.DevicePtr(out)))
			for i := range tokens {
				tokens[i] = binary.LittleEndian.Uint32(raw[4*i:])
			}
			all = append(all, tokens)
		}
		return all
	}
	return enqueue, read
}

// TestGPUOverlapWaitsForWhatItReads: launches that begin early sample from what the work before them leaves, whatever kind
// of work that is, on a stream and in a graph, for a kernel of one CTA and for a cluster.
func TestGPUOverlapWaitsForWhatItReads(t *testing.T) {
	dev := gpu(t)
	const n = 24
	for _, rows := range []int{5, 200} {
		l := newLaunched(t, dev, newProblem(rand.New(rand.NewPCG(3, uint64(rows))), 5000, 64, rows))
		late := newLateWriter(t, l)
		kinds := map[string]func(step int) error{
			"late kernel": func(step int) error { return late.enqueue(l, uint64(step), uint64(20*(step%3))) },
			"fill": func(step int) error { // both halves of a position
				v := uint64(step) * (1<<32 + 1)
				return l.stream.MemsetD32(driver.DevicePtr(l.args.Positions), uint32(v), 2*uint64(l.n))
			},
			"launches alone": func(int) error { return nil },
		}
		for kind, before := range kinds {
			serial, want := l.steps(t, dev, n, func(step int) error {
				if err := l.stream.Synchronize(t.Context()); err != nil {
					return err
				}
				if err := before(step); err != nil {
					return err
				}
				return l.stream.Synchronize(t.Context())
			})
			require.NoError(t, serial())
			enqueue, got := l.steps(t, dev, n, before)
			require.NoError(t, enqueue())
			require.Equal(t, want(), got(), "%s, %d rows, stream", kind, rows)
			graph, err := l.stream.Capture(enqueue)
			require.NoError(t, err)
			exec, err := graph.Instantiate()
			require.NoError(t, err)
			for range 20 {
				require.NoError(t, exec.Launch(l.stream))
			}
			require.Equal(t, want(), got(), "%s, %d rows, graph", kind, rows)
			require.NoError(t, exec.Close())
			require.NoError(t, graph.Close())
		}
	}
}
