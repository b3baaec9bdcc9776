package sim

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"

	"github.com/fsgen/fsgen/manifest"
)

// Launch is one launch of a kernel.
type Launch struct {
	// CTAs is the size of the grid, a multiple of the cluster.
	CTAs int
	// Pointers, Scalars and Tensors give the parameters of each kind their values, by the manifest's names.
	Pointers map[string]uint64
	Scalars  map[string]uint32
	Tensors  map[string]Tensor
	// Seed decides in which order threads, copies and accesses come. The same seed repeats a run.
	Seed uint64
	// Workers is the number of clusters that run at once; 0 means GOMAXPROCS. It does not change a run.
	Workers int
}

// Tensor is a matrix in global memory that a tensor map is made of, with the box and swizzle of the manifest.
type Tensor struct {
	Addr   uint64
	Rows   int
	Cols   int // elements
	Stride int // bytes from row to row
}

// Report is what a run showed.
type Report struct {
	Kernel   string
	Seed     uint64
	Findings []*Finding
	// Steps is the number of warp instructions done.
	Steps int
}

// Err returns the findings as an error, or nil if there are none.
func (r *Report) Err() error {
	if len(r.Findings) == 0 {
		return nil
	}
	return &FaultError{r}
}

// FaultError says that a run had findings.
type FaultError struct{ Report *Report }

// Error tells the first finding in its first line, and then all.
func (e *FaultError) Error() string {
	var b strings.Builder
	list := e.Report.Findings
	fmt.Fprintf(&b, "sim: seed %d: %s", e.Report.Seed, strings.Split(list[0].String(), "\n")[0])
	switch n := len(list) - 1; n {
	case 0:
		if !strings.Contains(list[0].String(), "\n") {
			return b.String()
		}
	case 1:
		b.WriteString("; and another finding")
	default:
		fmt.Fprintf(&b, "; and %d more findings", n)
	}
	for i, f := range list {
		if i == 8 {
			fmt.Fprintf(&b, "\n  and %d more", len(e.Report.Findings)-i)
			break
		}
		fmt.Fprintf(&b, "\n  %s", f)
	}
	return b.String()
}

// Run runs the kernel over a memory until every thread has exited, or none can go on. An error means that the launch is
// impossible or was cancelled; what the kernel does wrong is in the report.
func (p *Program) Run(ctx context.Context, mem *Memory, l Launch) (*Report, error) {
	g, err := p.newGrid(mem, l)
	if err != nil {
		return nil, err
	}
	if err := g.run(ctx); err != nil {
		return nil, err
	}
	return g.finish(), nil
}

// newGrid starts a launch.
func (p *Program) newGrid(mem *Memory, l Launch) (*grid, error) {
	cluster := volume(p.manifest.Launch.Cluster)
	switch {
	case l.CTAs <= 0 || l.CTAs%cluster != 0:
		return nil, fmt.Errorf("sim: a grid of %d CTAs: want a positive multiple of the cluster, %d", l.CTAs, cluster)
	case volume(p.manifest.Launch.Block) > p.arch.MaxThreadsPerCTA:
		return nil, fmt.Errorf("sim: blocks of %v threads: %s allows %d", p.manifest.Launch.Block, p.arch.Name, p.arch.MaxThreadsPerCTA)
	case p.manifest.Launch.SharedBytes > p.arch.MaxSharedPerCTA:
		return nil, fmt.Errorf("sim: %d bytes of shared memory: %s allows %d", p.manifest.Launch.SharedBytes, p.arch.Name, p.arch.MaxSharedPerCTA)
	}
	g := &grid{p: p, mem: mem.mapped(p.image), ctas: l.CTAs, seed: l.Seed, workers: l.Workers, rng: rand.New(rand.NewPCG(l.Seed, 0))}
	if g.workers <= 0 {
		g.workers = runtime.GOMAXPROCS(0)
	}
	if err := g.setParams(&l); err != nil {
		return nil, err
	}
	for i := range l.CTAs / cluster {
		g.clusters = append(g.clusters, newCluster(g, i, cluster))
	}
	return g, nil
}

// finish reports on a run.
func (g *grid) finish() *Report {
	all := []*findings{&g.found}
	for _, c := range g.clusters {
		all = append(all, &c.found)
	}
	return &Report{Kernel: g.p.manifest.Entry, Seed: g.seed, Findings: merge(all), Steps: g.steps()}
}

// setParams fills the parameter buffer.
func (g *grid) setParams(l *Launch) error {
	g.params = make([]byte, g.p.params)
	for i := range g.p.manifest.Params {
		p := &g.p.manifest.Params[i]
		if err := g.setParam(p, l); err != nil {
			return err
		}
	}
	return nil
}

func (g *grid) setParam(p *manifest.Param, l *Launch) error {
	at := g.params[p.Offset:]
	missing := fmt.Errorf("sim: the launch gives no %s %s", p.Kind, p.Name)
	switch p.Kind {
	case manifest.Pointer:
		v, ok := l.Pointers[p.Name]
		if !ok {
			return missing
		}
		binary.LittleEndian.PutUint64(at, v)
	case manifest.Scalar:
		v, ok := l.Scalars[p.Name]
		if !ok {
			return missing
		}
		binary.LittleEndian.PutUint32(at, v)
	case manifest.TensorMap, manifest.TensorMapPointer:
		v, ok := l.Tensors[p.Name]
		if !ok {
			return missing
		}
		m, err := newTensorMap(p, v)
		if err != nil {
			return err
		}
		g.maps = append(g.maps, m)
		if p.Kind == manifest.TensorMapPointer {
			binary.LittleEndian.PutUint64(at, g.putMap(p.Name, len(g.maps)-1))
		} else {
			encodeMap(at, len(g.maps)-1)
		}
	default:
		return fmt.Errorf("sim: parameter %s has kind %q", p.Name, p.Kind)
	}
	return nil
}
