package driver

import (
	"fmt"

	"github.com/fsgen/fsgen/manifest"
)

// Kernel is a loaded kernel that a manifest describes, ready for Function.LaunchOn: whoever runs fsgen's kernels, the sampler
// and generated packages alike, loads them so.
type Kernel struct {
	*Function
	Manifest *manifest.Kernel

	resident int
}

// KernelError is a kernel that the device cannot run.
type KernelError struct{ Entry, Device, Reason string }

func (e *KernelError) Error() string {
	return fmt.Sprintf("driver: kernel %s on %s: %s", e.Entry, e.Device, e.Reason)
}

// portableCluster is the cluster that every device of compute capability 9.0 or more takes; larger ones have to be allowed
// (CUDA Programming Guide, "Thread Block Clusters").
const portableCluster = 8

// Kernel finds the kernel of a manifest, allows it the shared memory and the cluster that it needs, and asks how many of its
// CTAs the device holds at once. A kernel for other devices, or too large for this one, is a *KernelError.
func (m *Module) Kernel(k *manifest.Kernel) (*Kernel, error) {
	dev := m.primary.dev
	if !k.Target.RunsOn(dev.ComputeCapability()) {
		return nil, &KernelError{k.Entry, dev.Name(), fmt.Sprintf("it is for %s", k.Target)}
	}
	fn, err := m.Function(k.Entry)
	if err != nil {
		return nil, err
	}
	if err := fn.SetMaxDynamicShared(k.Launch.SharedBytes); err != nil {
		return nil, err
	}
	if err := fn.PreferShared(); err != nil {
		return nil, err
	}
	if k.Launch.Cluster[0] > portableCluster {
		if err := fn.SetNonPortableCluster(true); err != nil {
			return nil, err
		}
	}
	out := &Kernel{Function: fn, Manifest: k}
	if out.resident, err = out.countResident(dev); err != nil {
		return nil, err
	}
	if out.resident < k.Launch.Cluster[0] {
		return nil, &KernelError{k.Entry, dev.Name(), "it does not fit"}
	}
	return out, nil
}

func (k *Kernel) countResident(dev *Device) (int, error) {
	sms, err := dev.Attribute(Multiprocessors)
	if err != nil {
		return 0, err
	}
	l := k.Manifest.Launch
	if cluster := l.Cluster[0]; cluster > 1 {
		clusters, err := k.MaxActiveClusters(k.Config(max(sms/cluster, 1)*cluster, false))
		return clusters * cluster, err
	}
	blocks, err := k.MaxActiveBlocks(l.Block[0], l.SharedBytes)
	return blocks * sms, err
}

// Resident is the number of CTAs that the device holds at once: what Grid.CTAs of the manifest asks for.
func (k *Kernel) Resident() int { return k.resident }

// CTAs is the grid for a problem: a CTA for all that fit, or as many as have work; 0 for an empty batch.
func (k *Kernel) CTAs(vocab, batch int) int {
	return k.Manifest.Launch.Grid.CTAs(vocab, batch, k.resident)
}

// Config is the launch of a number of CTAs, a multiple of the cluster. With overlap it may begin beside the kernel ahead of it
// in its stream, if it is one that waits for that by itself (manifest.Launch.Programmatic).
func (k *Kernel) Config(ctas int, overlap bool) LaunchConfig {
	l := k.Manifest.Launch
	cfg := LaunchConfig{
		Grid: Dim3{X: uint32(ctas), Y: 1, Z: 1}, Block: Dim3{X: uint32(l.Block[0]), Y: 1, Z: 1},
		SharedBytes: uint32(l.SharedBytes), Programmatic: overlap && l.Programmatic,
	}
	if c := l.Cluster[0]; c > 1 {
		cfg.Cluster = Dim3{X: uint32(c), Y: 1, Z: 1}
	}
	return cfg
}

// MatrixMap fills in a spec with the tensor map of a bf16 matrix [rows, cols] whose rows lie ld elements apart, with the box
// that a kernel wants; of packed weights rows and cols are those of the matrix that was packed, and ld does not matter. The spec is
// the caller's so that EncodeTiled, which keeps it from the stack, allocates nothing.
func (s *TensorMapSpec) MatrixMap(m *manifest.Map, addr DevicePtr, rows, cols, ld int) {
	if m.Packed {
		panels, tall := manifest.PackedPanels(rows, cols)
		rows, cols, ld = panels*tall, manifest.PackedCols, manifest.PackedCols
	}
	*s = TensorMapSpec{
		Type: BFloat16, Rank: 2, Address: addr,
		Dims:    [5]uint64{uint64(cols), uint64(rows)},
		Strides: [4]uint64{uint64(ld) * 2},
		Box:     [5]uint32{m.Box[0], m.Box[1]},
		Swizzle: swizzleOf(m.Swizzle), L2Promotion: l2PromotionOf(m.L2Promote),
	}
}

func swizzleOf(bytes int) Swizzle {
	for s, span := range swizzleSpans {
		if int(span) == bytes {
			return Swizzle(s)
		}
	}
	return numSwizzles // which Check refuses
}

func l2PromotionOf(bytes int) L2Promotion {
	switch bytes {
	case 64:
		return L2Promotion64B
	case 128:
		return L2Promotion128B
	case 256:
		return L2Promotion256B
	}
	return L2PromotionNone
}
