package manifest

// StageKind names a further stage of a kernel.
type StageKind int

// The stages, in the order in which those that a kernel has are launched behind it. Join and Gather come one or neither.
const (
	JoinStage StageKind = iota
	GatherStage
	ResolveStage
	TopStage
	TopGatherStage
	TopMergeStage
	ListedStage
	ListedGatherStage
	RanksGatherStage
	// StageKinds is how many there are.
	StageKinds
)

var stageNames = [StageKinds]string{"join", "gather", "resolve", "top", "top_gather", "top_merge", "listed", "listed_gather", "ranks_gather"}

// String returns the stage's name in a manifest.
func (s StageKind) String() string { return stageNames[s] }

// Waits reports whether the stage's CTAs wait for other ranks: all of them must be there at once.
func (s StageKind) Waits() bool {
	return s == GatherStage || s == TopGatherStage || s == ListedGatherStage || s == RanksGatherStage
}

// StageOf is where the kernel has its stage of a kind; nil stands there for none.
func (k *Kernel) StageOf(kind StageKind) **Stage {
	return [StageKinds]**Stage{&k.Join, &k.Gather, &k.Resolve, &k.Top, &k.TopGather, &k.TopMerge, &k.Listed, &k.ListedGather, &k.RanksGather}[kind]
}

// KernelOf describes a stage as a kernel of its own; nil if there is none.
func (k *Kernel) KernelOf(kind StageKind) *Kernel {
	s := *k.StageOf(kind)
	if s == nil {
		return nil
	}
	one := *k
	one.Entry, one.Params, one.Resources = s.Entry, s.Params, nil
	for other := range StageKinds {
		*one.StageOf(other) = nil
	}
	one.Launch = Launch{Grid: Grid{Unit: "cta", Rule: s.Rule, TileM: 1, TileN: 1, Cluster: 1}, Cluster: [3]int{1, 1, 1}, Block: s.Block,
		SharedBytes: s.SharedBytes, Programmatic: s.Programmatic}
	return &one
}

// StageKernel describes the stage that draws from lists as a kernel of its own; nil if there is none. Its grid is a CTA for each row.
func (k *Kernel) StageKernel() *Kernel { return k.KernelOf(ResolveStage) }

// TopKernel describes the stage that sorts the likeliest tokens likewise.
func (k *Kernel) TopKernel() *Kernel { return k.KernelOf(TopStage) }

// ListedKernel describes the stage of listed ids. A CTA for each row is one grid that is right; more are as well.
func (k *Kernel) ListedKernel() *Kernel { return k.KernelOf(ListedStage) }

// JoinKernel describes the stage that joins records.
func (k *Kernel) JoinKernel() *Kernel { return k.KernelOf(JoinStage) }

// GatherKernel describes the stage that exchanges lists.
func (k *Kernel) GatherKernel() *Kernel { return k.KernelOf(GatherStage) }
