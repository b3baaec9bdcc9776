package tiling

import (
	"fmt"
	"slices"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/ir"
)

// Facts of the 128-byte swizzle, which every skeleton uses (PTX ISA, "Shared Memory Layout and Swizzling").
const (
	warpgroup     = 128 // threads
	elementBytes  = 2   // bf16
	swizzleBytes  = 128 // a row of K elements fills one swizzle span
	atomRows      = 8   // rows of one swizzle atom
	stageK        = swizzleBytes / elementBytes
	ringAlignment = 1024 // of a swizzle atom
	maxStages     = 16
	minStages     = 2
)

// Plan is everything that is derived from a tile for an architecture: the numbers that the skeleton needs.
type Plan struct {
	Arch     arch.Arch
	Tile     Tile
	Storage  Storage
	Pipeline Pipeline
	// Tensor is how tensor memory is used; zero where there is none.
	Tensor Tensor
}

// Storage places every byte of shared memory: offsets from the start of dynamic shared memory, sizes in bytes.
type Storage struct {
	WeightStage int // bytes of weights in one stage
	HiddenStage int // bytes of hidden states in one stage
	Stage       int // both
	Ring        int // all stages; the ring starts at offset 0

	Noise int // offset of the rows' noise constants, 16 bytes each
	Rows  int // offset of the rows' records for the epilogue, 16 bytes each: a, t, threshold, cap
	Keys  int // offset of the rows' best keys, 8 bytes each
	// Further is the offset of what rows of further passes have besides, 32 bytes each: mode, top, scale, passes and floor.
	Further int
	Lists   int // offset of what rows that truncation narrows have besides, 16 bytes each: marks, the true a and t
	// Edits is the offset of where the tile begins in the rows' lists of biases, counts and ids: for each team of samplers, kind of
	// lists and row two words, EditBytes a team.
	Edits, EditBytes int
	Slots            int // offset of the rows' slots, 4 bytes each, where bias or mask have slots
	// For the log-sum-exp: offset of the rows' scales, 4 bytes each, and of SumSets times a reference and then a sum for
	// each row, 4 bytes each.
	Scales, Sums int
	// The same of the second distribution, where two are added up (ir.Computation.SecondSum).
	SecondScales, SecondSums int
	// Peaks is the offset of the rows' largest logits, 4 bytes each, where they are found (ir.Computation.FindsPeaks).
	Peaks int
	// For the likeliest tokens: offset of the rows' bounds, 8 bytes each, and of what tokens are compared with for them, 4 bytes each.
	Tops, Reaches int

	Codes int // offset of the codes of the noise and the places of the blocks' first tokens, a byte each for each block and row
	// Limits is the offset of what logits have to pass for their blocks' scores to reach a threshold, 4 bytes for each code; 0 where
	// tokens are compared by their scores.
	Limits int
	// What a sampling warp has to itself, Own bytes: at offset Queue the candidates that wait for their scores, QueueEntries of 16
	// bytes, which grouped sampling has none of; at offset Winners, for the log-probability, 8 bytes for each row: the id and
	// the score without noise of its last best token. Offsets are the first warp's.
	Queue, Winners, Own int

	Full  int // offset of the "stage is full" barriers, 8 bytes each
	Empty int // offset of the "stage is empty" barriers
	Deal  int // offset of what there is to do, 16 bytes: the number of items, and how the vocabulary is dealt out
	Flag  int // offset of the word that tells the last CTA: the number of items, which by then are done
	Peers int // offset of what the end of the launch needs of the table of ranks (manifest.PeerTable), PeersBytes, where records are exchanged
	Turns int // offset of the barriers by which warpgroups that take turns hand over the tensor core
	Tiles int // offset of the "accumulator is full" and "is empty" barriers of tensor memory, 8 bytes each
	Place int // offset of the word that holds the address of the tensor memory
	Total int
}

// Pipeline counts threads and registers.
type Pipeline struct {
	Samplers          int // threads that sample
	Team              int // threads that sample a tile together
	Consumers         int // warpgroups that multiply or sample
	Threads           int
	LaunchRegisters   int // per thread at launch: an even share of the register file
	ProducerRegisters int // after setmaxnreg.dec; 0 where an even share will do
	ConsumerRegisters int // of a thread that samples, after setmaxnreg.inc if there is one
	Accumulators      int // float32 registers of logits in one thread that samples
	CodeWords         int // words of codes of the noise that a warp draws for a tile, each of four columns of a block
	SumSets           int // sets of sampling warps that see every row of the tile, for the log-sum-exp
	EmptyArrivals     int // arrivals that free a stage
}

// Bytes of the per-row and per-stage records.
const (
	barrierBytes = 8
	noiseBytes   = 16
	rowBytes     = 16
	keyBytes     = 8
	sumBytes     = 4
	winnerBytes  = 8
	slotBytes    = 4
	placeBytes   = 8
	entryBytes   = 16
	addressBytes = 16 // of tensor memory: a word, and what keeps the next aligned
	dealBytes    = 16

	// PeersBytes is the head of a table of ranks, PeersHead bytes, and the addresses of the inboxes of the first PeersNear of them.
	PeersBytes = PeersHead + keyBytes*PeersNear
	PeersHead  = 32
	PeersNear  = 16
)

// QueueEntries is the candidates that a sampling warp keeps waiting: one for each lane, and one more for each from the step
// that fills it up.
const QueueEntries = 64

// Noise is drawn for blocks of BlockRows aligned tokens, GroupWords words for CodeGroup columns: each is four columns' codes
// and the places of the blocks' first tokens.
const (
	BlockRows     = 16
	CodeGroup     = 16
	GroupWords    = 4
	CodeWordBytes = 8
	// LimitWordBytes is the limits of a word's columns.
	LimitWordBytes = 16
)

// codeGroups is the groups of columns of a tile; a narrow one has part of one.
func codeGroups(t Tile) int { return (t.N + CodeGroup - 1) / CodeGroup }

// Each of a multiprocessor's schedulers has a quarter of its registers and every fourth warp of a CTA.
const (
	schedulers  = 4
	warpThreads = 32
)

// evenShare is the registers that every thread of a CTA can have.
func evenShare(a arch.Arch, threads int) int {
	warps := (threads/warpThreads + schedulers - 1) / schedulers
	return min(a.Registers/schedulers/warps/warpThreads/8*8, a.MaxRegistersPerThread)
}

// Reject says why a tile cannot run.
type Reject struct {
	Tile   Tile
	Reason string
}

func (r *Reject) Error() string { return fmt.Sprintf("tiling: tile %s: %s", r.Tile, r.Reason) }

// Tensor counts the columns of tensor memory: two accumulators of N columns each, so that one is sampled from while the
// other fills.
type Tensor struct {
	Buffers int
	Columns int // used
	Alloc   int // allocated: a power of two, 32 or more
}

// family is what tiling knows of one architecture.
type family struct {
	// rows are the tile heights M, in the order in which they are tried; widths the narrowest N.
	rows     []int
	minWidth int
	// splitWidth is the least width for which a cluster may split the batch; 0 is none.
	splitWidth int
	pingPong   bool // warpgroups may take turns
	rowRule    string
	pipeline   func(a arch.Arch, t Tile) Pipeline
	tensor     func(t Tile) Tensor
	// tile is the shape to start from for a width, without stages.
	tile func(n int) Tile
	// lists changes it for computations whose rows are listed; nil if it is the same.
	lists func(Tile, ir.Computation) Tile
}

var families = map[string]family{arch.SM90.Name: sm90, arch.SM100.Name: sm100}

// NewPlan derives the plan of a tile for a computation, or says why the tile cannot run (*Reject).
func NewPlan(a arch.Arch, t Tile, c ir.Computation) (*Plan, error) {
	fam, ok := families[a.Name]
	if !ok {
		return nil, &Reject{t, "there is no skeleton for " + a.Name}
	}
	c = c.Normalize()
	p, reason := fam.plan(a, t, c)
	switch {
	case reason != "":
		return nil, &Reject{t, reason}
	case p.overflows():
		return nil, &Reject{t, fmt.Sprintf("needs %d bytes of shared memory; %s has %d%s", p.Storage.Total, a.Name, a.MaxSharedPerCTA, fam.remedy(a, t, c))}
	}
	if reason := p.lackOfRegisters(); reason != "" {
		return nil, &Reject{t, reason}
	}
	return p, nil
}

// plan derives the plan of a tile, whether or not there is room for it, or says what is wrong with its shape.
func (fam family) plan(a arch.Arch, t Tile, c ir.Computation) (p *Plan, reason string) {
	if reason := fam.checkShape(a, t); reason != "" {
		return nil, reason
	}
	p = &Plan{Arch: a, Tile: t, Pipeline: fam.pipeline(a, t)}
	if fam.tensor != nil {
		p.Tensor = fam.tensor(t)
	}
	p.Storage = newStorage(p, c)
	return p, ""
}

// overflows reports whether a plan needs more shared memory than there is.
func (p *Plan) overflows() bool { return p.Storage.Total > p.Arch.MaxSharedPerCTA }

// lackOfRegisters says that a plan needs more registers than there are; "" where it does not.
func (p *Plan) lackOfRegisters() string {
	need := p.Pipeline.Accumulators + epilogueRegisters
	if need <= p.Pipeline.ConsumerRegisters {
		return ""
	}
	return fmt.Sprintf("needs about %d registers a thread; there are %d", need, p.Pipeline.ConsumerRegisters)
}

// remedy names the tile nearest to one that has no room in shared memory which has: as deep a ring of as wide a tile as fits.
func (fam family) remedy(a arch.Arch, t Tile, c ir.Computation) string {
	how := "with fewer stages"
	for ; t.N > 0; t.N -= atomRows {
		if fit := fam.deepestOf(a, t, c); fit != nil {
			return fmt.Sprintf(": %s, %s fits", how, fit.Tile)
		}
		how = "narrower"
	}
	return ""
}

// deepestOf is the plan with the most stages, up to a tile's own, with which it has room; nil for none. c is normalized.
func (fam family) deepestOf(a arch.Arch, t Tile, c ir.Computation) *Plan {
	for ; t.Stages >= minStages; t.Stages-- {
		p, reason := fam.plan(a, t, c)
		switch {
		case reason != "" || p.lackOfRegisters() != "": // whatever the stages
			return nil
		case !p.overflows():
			return p
		}
	}
	return nil
}

// splitRows is what a CTA's share of multicast weights is a multiple of: half a packed block.
const splitRows = 32

// epilogueRegisters is what the epilogue holds beside the accumulators, as ptxas allots it.
const epilogueRegisters = 72

func (fam family) checkShape(a arch.Arch, t Tile) string {
	switch {
	case !slices.Contains(fam.rows, t.M):
		return fam.rowRule
	case t.N != fam.minWidth && (t.N < 16 || t.N > 256 || t.N%16 != 0):
		return widthRule(fam.minWidth)
	case t.K != stageK:
		return fmt.Sprintf("K is %d: one 128-byte swizzle span of bf16", stageK)
	case t.Stages < minStages || t.Stages > maxStages:
		return fmt.Sprintf("stages are %d to %d", minStages, maxStages)
	case t.Cluster < 1 || t.Cluster > a.MaxCluster || t.Cluster&(t.Cluster-1) != 0:
		return fmt.Sprintf("the cluster is a power of two up to %d", a.MaxCluster)
	case t.PingPong && !fam.pingPong:
		return "warpgroups do not take turns on " + a.Name + ": its tensor memory holds two tiles"
	case t.PingPong && t.N < 16:
		return "warpgroups take turns from N = 16 on"
	case t.Split && t.Cluster == 1:
		return "a cluster of one has nothing to split"
	case t.Split && t.M%(splitRows*t.Cluster) != 0:
		return "each CTA of the cluster multicasts M/cluster rows, a multiple of 32"
	case !t.Split && t.N%(atomRows*t.Cluster) != 0:
		return "each CTA of the cluster multicasts N/cluster rows, a multiple of 8"
	}
	return ""
}

func widthRule(least int) string {
	if least < 16 {
		return fmt.Sprintf("N is %d or a multiple of 16 up to 256", least)
	}
	return "N is a multiple of 16 up to 256"
}

// queueBytes is a warp's queue.
func queueBytes(c ir.Computation) int {
	if c.Sampler == ir.Grouped {
		return 0
	}
	return entryBytes * QueueEntries
}

// ownBytes is all that a sampling warp has to itself.
func ownBytes(t Tile, c ir.Computation) int {
	if c.LogProb == ir.NoLogProb {
		return queueBytes(c)
	}
	return queueBytes(c) + winnerBytes*t.N
}

// limitWidth is the columns from which sampling is a load beside the products, so that logits are compared with limits.
const limitWidth = 64

// placeLimits places the limits behind all else, if they are wanted and the ring leaves the room.
func (s *Storage) placeLimits(p *Plan, c ir.Computation) {
	if t := p.Tile; !t.PingPong || t.N < limitWidth || !c.LogitLimits() {
		return
	}
	at := ceilDiv(s.Total, LimitWordBytes) * LimitWordBytes
	end := at + LimitWordBytes*p.Pipeline.CodeWords*p.Pipeline.Samplers/warpThreads
	if end <= p.Arch.MaxSharedPerCTA {
		s.Limits, s.Total = at, end
	}
}

// Limited reports whether logits are compared with limits (ir.Limit), and not scores with thresholds.
func (p *Plan) Limited() bool { return p.Storage.Limits > 0 }

func newStorage(p *Plan, c ir.Computation) Storage {
	t := p.Tile
	s := Storage{WeightStage: t.M * swizzleBytes, HiddenStage: t.N * swizzleBytes}
	s.Stage = s.WeightStage + s.HiddenStage
	s.Ring = s.Stage * t.Stages
	end := s.Ring
	place := func(bytes int) int {
		at := end
		end += bytes
		return at
	}
	if c.Sampler.Random() {
		s.Noise = place(noiseBytes * t.N)
		s.Codes = place(CodeWordBytes * p.Pipeline.CodeWords * p.Pipeline.Samplers / warpThreads)
	}
	s.Rows = place(rowBytes * t.N)
	s.Keys = place(keyBytes * t.N)
	if c.Slots && (c.Chain.Mask || c.Chain.Bias == ir.BiasMatrix) {
		s.Slots = place(slotBytes * t.N)
	}
	if n := c.Chain.EditLists(); n > 0 {
		s.EditBytes = placeBytes * n * t.N
		s.Edits = place(s.EditBytes * p.Pipeline.Samplers / p.Pipeline.Team)
	}
	if c.Collects() {
		s.Lists = place(rowBytes * t.N)
		s.Further = place(2 * rowBytes * t.N)
	}
	if c.AddsUp() {
		if c.Summed().RowScales() {
			s.Scales = place(sumBytes * t.N)
		}
		s.Sums = place(2 * sumBytes * t.N * p.Pipeline.SumSets)
	}
	if second, ok := c.SecondSum(); ok {
		if second.RowScales() {
			s.SecondScales = place(sumBytes * t.N)
		}
		s.SecondSums = place(2 * sumBytes * t.N * p.Pipeline.SumSets)
	}
	if c.FindsPeaks() {
		s.Peaks = place(sumBytes * t.N)
	}
	if c.TopN > 0 {
		s.Tops, s.Reaches = place(keyBytes*t.N), place(sumBytes*t.N)
	}
	if s.Own = ownBytes(t, c); s.Own > 0 {
		s.Queue = place(s.Own * p.Pipeline.Samplers / warpThreads)
		s.Winners = s.Queue + queueBytes(c)
	}
	s.Full = place(barrierBytes * t.Stages)
	s.Empty = place(barrierBytes * t.Stages)
	s.Deal = place(dealBytes)
	s.Flag = s.Deal
	if c.Shard == ir.ShardExchange && !c.Collects() {
		s.Peers = place(PeersBytes)
	}
	if t.PingPong {
		s.Turns = place(barrierBytes * p.Pipeline.Consumers)
	}
	if n := p.Tensor.Buffers; n > 0 {
		s.Tiles = place(2 * barrierBytes * n)
		s.Place = place(addressBytes)
	}
	s.Total = end
	s.placeLimits(p, c)
	return s
}
