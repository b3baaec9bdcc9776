// Package gen ties the making side together: a request becomes PTX text and its manifest.
//
// Everything here is pure. No clock, environment, network or map order has a say: the same request gives the same bytes,
// from any goroutine. What leaves has been verified.
package gen

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/ptx"
	"github.com/fsgen/fsgen/templates"
	"github.com/fsgen/fsgen/tiling"
)

// Version is the version of the generator: it changes whenever emitted kernels do.
const Version = "0.2.0"

// generator is how manifests name it.
const generator = "fsgen " + Version

// Request asks for one kernel.
type Request struct {
	Arch        arch.Arch
	Computation ir.Computation
	// Shape is the model's; it is recorded, the tile is chosen for it, and kernels run other shapes too.
	Shape ir.Shape
	// Batch is the batch size that the tile is chosen for.
	Batch int
	// Tile overrides the choice, if not zero.
	Tile tiling.Tile
	// Options are variants that compute the same.
	Options templates.Options
}

// Artifact is an emitted kernel.
type Artifact struct {
	PTX      []byte
	Manifest *manifest.Kernel
}

// Name is the file name without extension that the artifact goes by: its entry.
func (a *Artifact) Name() string { return a.Manifest.Entry }

// RequestError says which part of a request cannot be honoured.
type RequestError struct {
	Field string
	Rule  string
	Value any
}

func (e *RequestError) Error() string {
	return fmt.Sprintf("gen: %s is %v: %s", e.Field, e.Value, e.Rule)
}

// RowAlignment is what the addresses of weights and hidden states, and the bytes from row to row, are multiples of (TMA).
const RowAlignment = 16

// Emit makes the kernel of a request. What no kernel does is a *templates.UnsupportedError.
func Emit(r Request) (*Artifact, error) {
	r.Computation = r.Computation.Normalize()
	if err := r.validate(); err != nil {
		return nil, err
	}
	plan, err := r.plan()
	if err != nil {
		return nil, err
	}
	kernel, err := templates.Build(plan, r.Computation, r.Options)
	if err != nil {
		return nil, fmt.Errorf("gen: template: %w", err)
	}
	if err := ptx.Verify(kernel.Module); err != nil {
		return nil, fmt.Errorf("gen: BUG: the emitted kernel does not verify: %w", err)
	}
	text := []byte(kernel.Module.String())
	m := describe(r, plan, kernel, text)
	if err := m.Validate(); err != nil {
		return nil, fmt.Errorf("gen: BUG: %w", err)
	}
	return &Artifact{PTX: text, Manifest: m}, nil
}

func (r Request) validate() error {
	if err := r.Computation.Validate(); err != nil {
		return err
	}
	if err := r.Shape.Validate(); err != nil {
		return err
	}
	if r.Batch < 0 {
		return &RequestError{"batch", "want 0 or more", r.Batch}
	}
	return templates.Supports(r.Computation)
}

func (r Request) plan() (*tiling.Plan, error) {
	if r.Tile != (tiling.Tile{}) {
		return tiling.NewPlan(r.Arch, r.Tile, r.Computation)
	}
	return tiling.Default(r.Arch, r.Computation, r.Work())
}

// Work is what a launch of the kernel is expected to do, by which tiles are ranked.
func (r Request) Work() tiling.Work {
	return tiling.Work{Shape: r.Shape, Batch: r.Batch, Packed: r.Options.Layout() == manifest.Packed}
}

func describe(r Request, plan *tiling.Plan, k *templates.Kernel, text []byte) *manifest.Kernel {
	t, c := plan.Tile, r.Computation
	if r.Options.Further { // after which the stages of the first kernel report
		c.TopN, c.Listed, c.Rank = 0, false, false
	}
	sum := sha256.Sum256(text)
	m := &manifest.Kernel{
		Schema: manifest.Schema, Generator: generator,
		Entry: k.Entry.Name, Arch: r.Arch.Name, Target: k.Module.Target, PTXVersion: k.Module.Version(),
		Params: k.Params,
		Launch: manifest.Launch{
			Grid:    manifest.Grid{Unit: "cta", Rule: manifest.PersistentRule, TileM: t.M, TileN: t.N, Cluster: t.Cluster, Split: t.Split},
			Cluster: [3]int{t.Cluster, 1, 1}, Block: [3]int{plan.Pipeline.Threads, 1, 1},
			SharedBytes: plan.Storage.Total, Programmatic: bytes.Contains(text, []byte("griddepcontrol.wait")),
		},
		Problem:   manifest.Problem{Vocab: r.Shape.Vocab, Hidden: r.Shape.Hidden, Batch: r.Batch, Specialised: []string{}, RowAlignment: RowAlignment},
		Tile:      manifest.Tile{Name: t.String(), M: t.M, N: t.N, K: t.K, Stages: t.Stages, Cluster: t.Cluster, Split: t.Split, PingPong: t.PingPong, Weights: r.Options.Layout()},
		Transform: c.Chain.String(), Sampler: c.Sampler.String(),
		Outputs:   []string{"token", "status"},
		PTXSHA256: hex.EncodeToString(sum[:]),
	}
	if r.Options.Ranks {
		m.Outputs = []string{manifest.Ranks}
	}
	if first := r.Options; first.Further {
		first.Further = false
		m.FurtherOf = templates.EntryName(r.Arch.Name, t, r.Computation, first)
	}
	m.Truncation = c.Truncation.Items()
	for kind, stage := range map[manifest.StageKind]*templates.Stage{manifest.JoinStage: k.Join, manifest.GatherStage: k.Gather, manifest.ResolveStage: k.Resolve,
		manifest.TopStage: k.Top, manifest.TopGatherStage: k.TopGather, manifest.TopMergeStage: k.TopMerge,
		manifest.ListedStage: k.Listed, manifest.ListedGatherStage: k.ListedGather, manifest.RanksGatherStage: k.RanksGather} {
		*m.StageOf(kind) = describeStage(stage)
	}
	if c.Shard != ir.Whole {
		m.Shard, m.Facts = c.Shard.String(), templates.HasFacts(c)
	}
	if c.Sampler.Random() {
		m.RNG = ir.NoiseName
	}
	if c.Score {
		m.Outputs = append(m.Outputs, "score")
	}
	if c.LogSumExp {
		m.Outputs = append(m.Outputs, manifest.LogSumExp)
	}
	if c.Draws != ir.SingleDraw {
		m.Outputs, m.Draws = append(m.Outputs, manifest.Draws), c.Draws.String()
	}
	if c.Draws == ir.WithoutReplacement {
		m.Outputs = append(m.Outputs, manifest.DrawScores)
	}
	if c.LogProb != ir.NoLogProb {
		m.Outputs, m.LogProbMode = append(m.Outputs, manifest.LogProb), c.LogProb.String()
	}
	if m.TopN = c.TopN; c.TopN > 0 {
		m.Outputs = append(m.Outputs, manifest.TopIDs, manifest.TopLogProbs)
	}
	if c.Rank {
		m.Outputs = append(m.Outputs, manifest.Ranks)
	}
	if c.Listed {
		m.Outputs = append(m.Outputs, manifest.ListLogProbs)
	}
	return m
}

// describeStage describes a further stage; nil for none.
func describeStage(s *templates.Stage) *manifest.Stage {
	if s == nil {
		return nil
	}
	return &manifest.Stage{Entry: s.Entry.Name, Params: s.Params, Rule: manifest.RowsRule, Block: [3]int{s.Threads, 1, 1},
		SharedBytes: s.SharedBytes, Programmatic: true}
}
