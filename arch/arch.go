// Package arch holds facts about GPU architectures: names, PTX targets, and the limits that a kernel must stay within.
//
// The numbers come from the CUDA C++ Programming Guide, appendix "Compute Capabilities", and the PTX ISA manual.
package arch

import (
	"fmt"
	"strings"
)

// ComputeCapability identifies the instruction set of a GPU, as the driver reports it.
type ComputeCapability struct {
	Major, Minor int
}

// SM returns the capability times ten: 90 for 9.0, 103 for 10.3.
func (c ComputeCapability) SM() int { return c.Major*10 + c.Minor }

// String returns the capability as "9.0".
func (c ComputeCapability) String() string { return fmt.Sprintf("%d.%d", c.Major, c.Minor) }

// Arch describes one architecture that fsgen knows how to write kernels for.
type Arch struct {
	// Name is what --arch takes: "sm_90".
	Name string
	// Target is the PTX target of emitted kernels.
	Target Target
	// MinPTX is the lowest PTX version that knows the target.
	MinPTX Version

	// MaxSharedPerCTA is the dynamic shared memory that one CTA may opt in to, in bytes.
	MaxSharedPerCTA int
	// ReservedShared is what the system takes of shared memory for each CTA, in bytes.
	ReservedShared int
	// Registers is the size of the register file of one multiprocessor, in 32-bit registers.
	Registers int
	// MaxRegistersPerThread is the most registers that one thread may have.
	MaxRegistersPerThread int
	// RegisterUnit is the granularity of a per-thread register count.
	RegisterUnit int
	// MaxThreadsPerCTA is the largest CTA.
	MaxThreadsPerCTA int
	// MaxCluster is the largest portable cluster, in CTAs.
	MaxCluster int
	// TMEMColumns is the number of tensor-memory columns of one multiprocessor; 0 where there is none.
	TMEMColumns int
	// Multiprocessors is the count of the usual data-centre part, used only to rank configurations without a GPU.
	Multiprocessors int
}

// SM90 is NVIDIA Hopper: H100, H200, GH200.
var SM90 = Arch{
	Name: "sm_90", Target: Target{90, ArchSpecific}, MinPTX: V(8, 0),
	MaxSharedPerCTA: 232448, ReservedShared: 1024,
	Registers: 65536, MaxRegistersPerThread: 255, RegisterUnit: 8,
	MaxThreadsPerCTA: 1024, MaxCluster: 8, Multiprocessors: 132,
}

// SM100 is NVIDIA Blackwell for data centres: B200, GB200 (compute capability 10.0) and B300 (10.3), which one
// family-specific artifact serves. Consumer Blackwell (12.x) has neither its tensor cores nor tensor memory.
var SM100 = Arch{
	Name: "sm_100", Target: Target{100, FamilySpecific}, MinPTX: V(8, 8),
	MaxSharedPerCTA: 232448, ReservedShared: 1024,
	Registers: 65536, MaxRegistersPerThread: 255, RegisterUnit: 8,
	MaxThreadsPerCTA: 1024, MaxCluster: 8, TMEMColumns: 512, Multiprocessors: 148,
}

// All lists the architectures that fsgen writes kernels for, oldest first.
func All() []Arch { return []Arch{SM90, SM100} }

// consumerBlackwell is why compute capability 12.x is refused by name: its number is above sm_100's, so that kernels for
// sm_100 look as if they should run there.
const consumerBlackwell = "consumer Blackwell (GeForce RTX 50, RTX PRO, DGX Spark): " +
	"it has neither the tensor cores (tcgen05) nor the tensor memory that kernels for sm_100 need"

const consumerBlackwellMajor = 12

// Lookup finds an architecture by its name; a variant suffix (sm_90a) is accepted too.
func Lookup(name string) (Arch, error) {
	var names []string
	for _, a := range All() {
		if name == a.Name || name == a.Target.String() {
			return a, nil
		}
		names = append(names, a.Name)
	}
	known := "fsgen knows " + strings.Join(names, ", ")
	if t, err := ParseTarget(name); err == nil {
		cc := ComputeCapability{Major: t.SM / 10, Minor: t.SM % 10}
		if cc.Major == consumerBlackwellMajor {
			return Arch{}, fmt.Errorf("arch: %s is %s; %s", name, consumerBlackwell, known)
		}
		if a, err := ForDevice(name, cc); err == nil {
			known = a.Name + "'s kernels run on it too; " + known
		}
	}
	return Arch{}, fmt.Errorf("arch: unknown architecture %q: %s", name, known)
}

// ForDevice picks the architecture whose kernels run on a GPU, or says why there is none.
func ForDevice(gpu string, cc ComputeCapability) (Arch, error) {
	for _, a := range All() {
		if a.Target.RunsOn(cc) {
			return a, nil
		}
	}
	return Arch{}, &UnsupportedError{GPU: gpu, Capability: cc}
}

// UnsupportedError says that fsgen has no kernels for a GPU.
type UnsupportedError struct {
	GPU        string
	Capability ComputeCapability
}

func (e *UnsupportedError) Error() string {
	var have []string
	for _, a := range All() {
		have = append(have, a.Target.String())
	}
	capability := e.Capability.String()
	if e.Capability.Major == consumerBlackwellMajor {
		capability += ", " + consumerBlackwell
	}
	return fmt.Sprintf("arch: %s has compute capability %s; fsgen has kernels for %s only",
		e.GPU, capability, strings.Join(have, ", "))
}
