package sim

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/internal/isa"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/ptx"
)

// slot is a place in a warp's register file: a register, a constant, or a special register that never changes.
type slot int32

// exec does one instruction for the active lanes of a step.
type exec func(s *step)

// op is an instruction, compiled.
type op struct {
	run    exec
	in     *ptx.Instr
	line   int
	guard  slot // -1: none
	negate bool
	// reads and writes are the registers touched in the ordinary way; tensor-core instructions look after their own.
	reads, writes []slot
	sync          syncKind
	mask          slot    // of lanes, with syncMask
	held          []slot  // registers of tensor-core instructions
	targets       []int32 // of branches and calls
	live          int     // 32-bit registers in use, see measure
	strong        bool    // atomic, volatile, or with a scope
}

// syncKind says which lanes must come together before an instruction may run.
type syncKind uint8

const (
	syncNone syncKind = iota
	syncWarp          // .aligned: all threads of the warp that have not exited
	syncMask          // those that membermask names
)

// Program is a kernel ready to run. It is immutable: many runs may share it.
type Program struct {
	manifest *manifest.Kernel
	arch     arch.Arch
	entry    *ptx.Func
	ops      []op
	slots    int
	regs     int // slots below are registers, the rest constants
	consts   map[uint64]slot
	specials map[slot]*isa.Special
	names    []string // of registers, by slot
	weights  []int    // in 32-bit registers, by slot
	shares   bool     // uses setmaxnreg

	static  map[*ptx.Var]uint32 // shared variables: address in the CTA
	dynamic uint32              // where dynamic shared memory begins
	local   map[*ptx.Var]uint32
	locals  uint32 // bytes of local memory of a thread
	data    map[*ptx.Var]uint64
	image   []global // variables in global and constant memory with their first contents
	params  int      // bytes
}

// global is a variable in global or constant memory.
type global struct {
	addr uint64
	data []byte
	name string
	ro   bool
}

// Load parses a PTX text and compiles the kernel that its manifest names.
func Load(text string, m *manifest.Kernel) (*Program, error) {
	mod, err := ptx.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("sim: %w", err)
	}
	entry := mod.Func(m.Entry)
	if entry == nil || !entry.Kernel {
		return nil, fmt.Errorf("sim: the module has no kernel %s, which its manifest names", m.Entry)
	}
	a, err := arch.Lookup(m.Arch)
	if err != nil {
		return nil, fmt.Errorf("sim: %w", err)
	}
	p := &Program{manifest: m, arch: a, entry: entry, consts: map[uint64]slot{}, specials: map[slot]*isa.Special{}}
	if err := p.checkTarget(mod); err != nil {
		return nil, err
	}
	if err := p.checkManifest(); err != nil {
		return nil, err
	}
	if err := p.place(mod); err != nil {
		return nil, err
	}
	return p, p.compile(mod)
}

// checkTarget holds the module's target and version against the manifest.
func (p *Program) checkTarget(mod *ptx.Module) error {
	m := p.manifest
	if m.Target != (arch.Target{}) && mod.Target != m.Target {
		return fmt.Errorf("sim: the module's target is %s, its manifest says %s", mod.Target, m.Target)
	}
	if m.PTXVersion != (arch.Version{}) && mod.Version() != m.PTXVersion {
		return fmt.Errorf("sim: the module's PTX version is %s, its manifest says %s", mod.Version(), m.PTXVersion)
	}
	return nil
}

// Limits on what a module may declare, so that a hostile one is refused and not allocated. The GPU's for shared memory; a
// kernel's variables elsewhere are small.
const maxVariableBytes = 1 << 28

// checkSize refuses variables that would not fit.
func (p *Program) checkSize(v *ptx.Var, before uint64) error {
	limit := uint64(maxVariableBytes)
	if v.Space == isa.Shared {
		limit = uint64(p.arch.MaxSharedPerCTA)
	}
	if size := uint64(v.Size()); size > limit || before > limit-size {
		return fmt.Errorf("sim: variable %s: %d bytes of %s memory are too much: the limit is %d in all", v.Name, size, v.Space, limit)
	}
	return nil
}

// checkManifest holds the manifest's launch and parameters against the text.
func (p *Program) checkManifest() error {
	m, f := p.manifest, p.entry
	if n := f.ReqThreads; n != [3]int{} && n != m.Launch.Block {
		return fmt.Errorf("sim: kernel %s wants blocks of %v threads, its manifest says %v", f.Name, n, m.Launch.Block)
	}
	if n := f.ReqCluster; n != [3]int{} && n != m.Launch.Cluster {
		return fmt.Errorf("sim: kernel %s wants clusters of %v, its manifest says %v", f.Name, n, m.Launch.Cluster)
	}
	if len(f.Params) != len(m.Params) {
		return fmt.Errorf("sim: kernel %s has %d parameters, its manifest lists %d", f.Name, len(f.Params), len(m.Params))
	}
	for i, v := range f.Params {
		if w := m.Params[i]; w.Name != v.Name || w.Offset != v.Offset || w.Size != v.Size() {
			return fmt.Errorf("sim: parameter %d of %s is %s at %d, %d bytes; its manifest says %s at %d, %d bytes",
				i, f.Name, v.Name, v.Offset, v.Size(), w.Name, w.Offset, w.Size)
		}
		p.params = max(p.params, v.Offset+v.Size())
	}
	return nil
}

// place gives variables their addresses. Shared memory begins with what the system reserves, as on the GPU: dynamic shared
// memory is not at address 0.
func (p *Program) place(mod *ptx.Module) error {
	p.static, p.local, p.data = map[*ptx.Var]uint32{}, map[*ptx.Var]uint32{}, map[*ptx.Var]uint64{}
	end := uint32(p.arch.ReservedShared)
	var open []*ptx.Var
	vars := mod.Vars()
	for _, f := range mod.Funcs() {
		vars = append(vars, f.Vars...)
	}
	next := uint64(moduleBase)
	align := uint32(16)
	used := map[isa.Space]uint64{}
	for _, v := range vars {
		if err := p.checkSize(v, used[v.Space]); err != nil {
			return err
		}
		used[v.Space] += uint64(v.Size())
		switch v.Space {
		case isa.Shared:
			align = max(align, uint32(v.Alignment()))
			if v.Size() == 0 {
				open = append(open, v)
				continue
			}
			p.static[v] = roundUp(end, uint32(v.Alignment()))
			end = p.static[v] + uint32(v.Size())
		case isa.Local:
			p.local[v] = roundUp(p.locals, uint32(v.Alignment()))
			p.locals = p.local[v] + uint32(v.Size())
		case isa.Global, isa.Const:
			next = (next + 255) &^ 255
			g := global{addr: next, data: initial(v), name: v.Name, ro: v.Space == isa.Const}
			p.data[v] = g.addr
			p.image = append(p.image, g)
			next += uint64(v.Size()) + 256
		default:
			return fmt.Errorf("sim: variable %s is in %s memory", v.Name, v.Space)
		}
	}
	p.dynamic = roundUp(end, align)
	for _, v := range open {
		p.static[v] = p.dynamic
	}
	return nil
}

func roundUp(n, align uint32) uint32 { return (n + align - 1) / align * align }

// initial is the memory image of a variable.
func initial(v *ptx.Var) []byte {
	out := make([]byte, v.Size())
	n := v.Type.Bytes()
	for i, x := range v.Init {
		bits := constant(x, v.Type)
		for j := range n {
			out[i*n+j] = byte(bits >> (8 * j))
		}
	}
	return out
}

// lineOf is the line of a parsed instruction.
func lineOf(in *ptx.Instr) int {
	line, _, _ := strings.Cut(in.Pos(), ":")
	n, _ := strconv.Atoi(line)
	return n
}

// sharedBytes is the size of a CTA's shared memory window, what the system reserves included.
func (p *Program) sharedBytes() int { return int(p.dynamic) + p.manifest.Launch.SharedBytes }
