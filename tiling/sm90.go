package tiling

import (
	"fmt"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/ir"
)

// Facts of wgmma and of the 128-byte swizzle on sm_90 (PTX ISA, section "Asynchronous warpgroup level matrix instructions").
const (
	warpgroup     = 128 // threads
	wgmmaM        = 64
	elementBytes  = 2   // bf16
	swizzleBytes  = 128 // a row of K elements fills one swizzle span
	atomRows      = 8   // rows of one swizzle atom
	stageK        = swizzleBytes / elementBytes
	ringAlignment = 1024 // of a swizzle atom
	maxStages     = 16
	minStages     = 2
)

// Plan is everything that is derived from a tile for sm_90: the numbers that the skeleton needs.
type Plan struct {
	Arch     arch.Arch
	Tile     Tile
	Storage  Storage
	Pipeline Pipeline
}

// Storage places every byte of shared memory: offsets from the start of dynamic shared memory, sizes in bytes.
type Storage struct {
	WeightStage int // bytes of weights in one stage
	HiddenStage int // bytes of hidden states in one stage
	Stage       int // both
	Ring        int // all stages; the ring starts at offset 0

	Full  int // offset of the "stage is full" barriers, 8 bytes each
	Empty int // offset of the "stage is empty" barriers
	Noise int // offset of the rows' noise constants, 16 bytes each
	Keys  int // offset of the rows' best keys, 8 bytes each
	Scale int // offset of the rows' (a, t) pairs, 8 bytes each
	Flag  int // offset of the word that tells the last CTA
	Total int
}

// Pipeline counts threads and registers.
type Pipeline struct {
	Samplers          int // threads that sample
	Consumers         int // warpgroups that multiply; one more produces
	Threads           int
	LaunchRegisters   int // per thread at launch: an even share of the register file
	ProducerRegisters int // after setmaxnreg.dec; 0 where an even share will do
	ConsumerRegisters int // of a consumer thread, after setmaxnreg.inc if there is one
	Accumulators      int // float32 registers of one consumer thread
	EmptyArrivals     int // arrivals that free a stage: one a consumer warp of every CTA in the cluster
}

// Bytes of the per-row and per-stage records.
const (
	barrierBytes = 8
	noiseBytes   = 16
	keyBytes     = 8
	scaleBytes   = 8
	flagBytes    = 16
)

// Reject says why a tile cannot run.
type Reject struct {
	Tile   Tile
	Reason string
}

func (r *Reject) Error() string { return fmt.Sprintf("tiling: tile %s: %s", r.Tile, r.Reason) }

// NewPlan derives the plan of a tile for a computation, or says why the tile cannot run (*Reject).
func NewPlan(a arch.Arch, t Tile, c ir.Computation) (*Plan, error) {
	if reason := checkShape(a, t); reason != "" {
		return nil, &Reject{t, reason}
	}
	p := &Plan{Arch: a, Tile: t, Storage: newStorage(t, c.Normalize()), Pipeline: newPipeline(a, t)}
	if p.Storage.Total > a.MaxSharedPerCTA {
		return nil, &Reject{t, fmt.Sprintf("needs %d bytes of shared memory; %s has %d", p.Storage.Total, a.Name, a.MaxSharedPerCTA)}
	}
	if need := p.Pipeline.Accumulators + epilogueRegisters; need > p.Pipeline.ConsumerRegisters {
		return nil, &Reject{t, fmt.Sprintf("needs about %d registers a consumer thread; there are %d", need, p.Pipeline.ConsumerRegisters)}
	}
	return p, nil
}

// epilogueRegisters is what the epilogue holds beside the accumulators, as ptxas allots it.
const epilogueRegisters = 80

func checkShape(a arch.Arch, t Tile) string {
	switch {
	case t.M != 64 && t.M != 128 && t.M != 192:
		return "M is 64, 128 or 192: 64 for each of one to three consumer warpgroups"
	case t.N != 8 && (t.N < 16 || t.N > 256 || t.N%16 != 0):
		return "N is 8 or a multiple of 16 up to 256"
	case t.K != stageK:
		return fmt.Sprintf("K is %d: one 128-byte swizzle span of bf16", stageK)
	case t.Stages < minStages || t.Stages > maxStages:
		return fmt.Sprintf("stages are %d to %d", minStages, maxStages)
	case t.Cluster < 1 || t.Cluster > a.MaxCluster || t.Cluster&(t.Cluster-1) != 0:
		return fmt.Sprintf("the cluster is a power of two up to %d", a.MaxCluster)
	case t.N%(atomRows*t.Cluster) != 0:
		return "each CTA of the cluster multicasts N/cluster rows, a multiple of 8"
	}
	return ""
}

func newStorage(t Tile, c ir.Computation) Storage {
	s := Storage{WeightStage: t.M * swizzleBytes, HiddenStage: t.N * swizzleBytes}
	s.Stage = s.WeightStage + s.HiddenStage
	s.Ring = s.Stage * t.Stages
	end := s.Ring
	place := func(bytes int) int {
		at := end
		end += bytes
		return at
	}
	if c.Sampler == ir.Gumbel {
		s.Noise = place(noiseBytes * t.N)
	}
	s.Keys = place(keyBytes * t.N)
	if c.Sampler == ir.Gumbel && c.Chain.Temperature {
		s.Scale = place(scaleBytes * t.N)
	}
	s.Full = place(barrierBytes * t.Stages)
	s.Empty = place(barrierBytes * t.Stages)
	s.Flag = place(flagBytes)
	s.Total = end
	return s
}

// setmaxnreg counts that share the register file out between one producer and n consumer warpgroups: 128 threads each,
// the counts multiples of 8, the sum no more than launch grants.
var registerShares = map[int][2]int{2: {40, 232}, 3: {32, 160}}

func newPipeline(a arch.Arch, t Tile) Pipeline {
	n := t.M / wgmmaM
	threads := warpgroup * (n + 1)
	even := min(a.Registers/threads/a.RegisterUnit*a.RegisterUnit, a.MaxRegistersPerThread)
	p := Pipeline{
		Consumers: n, Threads: threads, Samplers: warpgroup * n,
		LaunchRegisters: even, ConsumerRegisters: even,
		Accumulators:  t.N / 2,
		EmptyArrivals: 4 * n * t.Cluster,
	}
	if share, ok := registerShares[n]; ok && p.Accumulators+epilogueRegisters > even {
		p.ProducerRegisters, p.ConsumerRegisters = share[0], share[1]
	}
	return p
}
