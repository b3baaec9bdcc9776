package sampler

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/fsgen/fsgen/gen"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/templates"
	"github.com/fsgen/fsgen/tiling"
)

// RowReader reads rows of a [rows, hidden] bf16 matrix, as model.Head does.
type RowReader interface {
	// ReadRows fills dst with n rows from row first on.
	ReadRows(ctx context.Context, dst []uint16, first, n int) error
}

// Matrix is a RowReader over memory: rows of Hidden bf16 values, Stride values apart.
type Matrix struct {
	Data           []uint16
	Hidden, Stride int
}

// ReadRows implements RowReader.
func (m Matrix) ReadRows(_ context.Context, dst []uint16, first, n int) error {
	stride := m.Stride
	if stride == 0 {
		stride = m.Hidden
	}
	if err := m.check(len(dst)/max(n, 1), first+n); err != nil {
		return err
	}
	for i := range n {
		copy(dst[i*m.Hidden:(i+1)*m.Hidden], m.Data[(first+i)*stride:])
	}
	return nil
}

// check holds the matrix to a number of rows of a head's hidden size.
func (m Matrix) check(hidden, rows int) error {
	stride := max(m.Stride, m.Hidden)
	switch have := int64(len(m.Data)); {
	case m.Hidden < 1:
		return &InputError{"matrix hidden size", "want 1 or more", m.Hidden}
	case m.Stride != 0 && m.Stride < m.Hidden:
		return &InputError{"matrix stride", fmt.Sprintf("want the hidden size, %d, or more", m.Hidden), m.Stride}
	case hidden != m.Hidden && rows > 0:
		return &InputError{"matrix hidden size", fmt.Sprintf("want that of the head, %d", hidden), m.Hidden}
	case rows > 0 && (have < int64(m.Hidden) || (have-int64(m.Hidden))/int64(stride) < int64(rows-1)):
		return &InputError{"matrix data", fmt.Sprintf("want %d rows, %d values apart", rows, stride), have}
	}
	return nil
}

// Weights are the rows of an LM head: W [Vocab, Hidden] in bf16. Rows of a padded vocabulary are simply not read.
type Weights struct {
	Source RowReader
	Vocab  int
	Hidden int
	// Layout is how the device keeps the weights, RowMajor if empty: Packed is faster, and has to be made at load. The CPU
	// keeps rows either way.
	Layout Layout
}

// Layout is how weights lie in a device's memory.
type Layout = manifest.Layout

// The layouts.
const (
	RowMajor = manifest.RowMajor
	Packed   = manifest.Packed
)

func (w *Weights) validate() (err error) {
	if w.Source == nil {
		return &InputError{"weights", "want a source of rows", nil}
	}
	given := w.Layout
	if w.Layout, err = manifest.ParseLayout(string(given)); err != nil {
		return &InputError{"weights layout", "want rowmajor or packed", fmt.Sprintf("%q", given)}
	}
	if err := refuse("head's shape", ir.Shape{Vocab: w.Vocab, Hidden: w.Hidden}.Validate()); err != nil {
		return err
	}
	if m, ok := w.Source.(Matrix); ok { // ahead of memory for rows that it has not
		return m.check(w.Hidden, w.Vocab)
	}
	return nil
}

// Head is an LM head on a device.
type Head struct {
	b      headBackend
	open   lifetime
	shape  ir.Shape
	device string
}

// LoadHead copies an LM head to the device. Sizes that no head can have, that a Matrix has not, or that on the cpu and the simulators
// this machine's memory does not hold are an *InputError; what the source says stays below.
func (d *Device) LoadHead(ctx context.Context, w Weights) (*Head, error) {
	if err := d.open.enter(); err != nil {
		return nil, err
	}
	defer d.open.leave()
	if err := w.validate(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("sampler: load head: %w", err)
	}
	b, err := d.b.loadHead(ctx, w)
	if err != nil {
		return nil, fmt.Errorf("sampler: load head: %w", err)
	}
	return d.newHead(b, ir.Shape{Vocab: w.Vocab, Hidden: w.Hidden}), nil
}

func (d *Device) newHead(b headBackend, shape ir.Shape) *Head {
	h := &Head{b: b, shape: shape, device: d.Info().Name}
	h.open.begin(&d.open, b.close)
	return h
}

// Shape returns the head's vocabulary and hidden size.
func (h *Head) Shape() ir.Shape { return h.shape }

// Close closes the head's plans, and frees it.
func (h *Head) Close() error { return h.open.close() }

// Spec says what a plan computes.
type Spec struct {
	Chain   ir.Chain
	Sampler ir.Sampler
	// Score asks for the winning scores, LogSumExp for the logarithm of the sum of exp(z/T) of every row.
	Score, LogSumExp bool
	// Truncation says by which of top-k, top-p and min-p rows narrow the tokens that may be drawn.
	Truncation ir.Truncation
	// Draws asks for up to MaxDraws tokens of each row, with replacement or without.
	Draws    ir.Draws
	MaxDraws int
	// LogProb asks for the log-probabilities of the tokens, of one distribution; Rank for their places in it, TopN for its
	// likeliest tokens, ListLogProbs for the log-probabilities of lists of ids.
	LogProb      ir.LogProb
	Rank         bool
	TopN         int
	ListLogProbs bool
	// Slots has rows say which parameters they take (Rows.Slots).
	Slots bool
	// Passes is how many passes over the weights a Launch makes, at most, for rows that truncation or several draws leave undecided
	// after the first: 0 means 3, 2 with top-k alone and for draws without replacement, or 4 with processed log-probabilities or draws
	// with replacement beside top-p or min-p, and 1 none but the first. Those that find no such row end at once. Sample makes as many as it takes.
	Passes int
	// MaxBatch is the largest batch to be fast at, up to 2^31 - 1; larger ones work too. 0 means 64.
	MaxBatch int
	// Tile fixes the tile, if not zero, and CTAs its grid, if not zero: never more than the GPU holds or the work feeds. The CPU has
	// no tiles, and refuses those that no architecture has.
	Tile tiling.Tile
	CTAs int
	// Tuning says where the tiles come from otherwise.
	Tuning Tuning
	// Exhaustive computes every score in full instead of skipping those that a bound rules out: slower, the same tokens.
	Exhaustive bool
	// SerialLaunch has launches wait for the end of the kernel before them in their stream. Otherwise they may begin beside
	// that kernel's last blocks, and wait for it by themselves before they touch anything but the weights, if the kernel
	// knows how (programmatic dependent launch). Set it where a kernel writes the weights with nothing but launches
	// between it and sampling: no copy, event or synchronisation.
	SerialLaunch bool
	// Artifact runs an emitted kernel instead of generating one; Chain and Sampler must be its own, and it must write what is asked for.
	Artifact *gen.Artifact
	// Further is the emitted kernel of the further passes of Artifact, one that truncates. Without it such a plan makes the first pass
	// alone, and rows may stay undecided.
	Further *gen.Artifact

	shard  ir.Shard   // of a rank's plan
	chosen *rankTiles // by rank 0, for all; nil elsewhere
}

// Computation returns the computation of the spec.
func (s Spec) Computation() ir.Computation {
	return ir.Computation{Chain: s.Chain, Sampler: s.Sampler, Score: s.Score, LogSumExp: s.LogSumExp, Truncation: s.Truncation,
		Draws: s.Draws, MaxDraws: s.MaxDraws, LogProb: s.LogProb, Rank: s.Rank, TopN: s.TopN, Listed: s.ListLogProbs, Shard: s.shard, Slots: s.Slots}
}

func (s Spec) validate() error {
	if s.MaxBatch < 0 || s.MaxBatch > math.MaxInt32 {
		return &InputError{"max batch", fmt.Sprintf("want 0 to %d", math.MaxInt32), s.MaxBatch}
	}
	if s.Passes < 0 {
		return &InputError{"passes", "want 0 or more", s.Passes}
	}
	if s.CTAs < 0 || s.CTAs > 0 && s.Tile == (tiling.Tile{}) {
		return &InputError{"CTAs", "want 0 or more, and 0 without a tile", s.CTAs}
	}
	if s.Artifact != nil {
		if err := s.validateArtifact(s.Artifact, false); err != nil {
			return err
		}
	}
	if s.Further != nil {
		if err := s.validateFurther(); err != nil {
			return err
		}
	}
	if s.Tuning != Tuned && s.Tuning != Untuned {
		return &InputError{"tuning", "want Tuned or Untuned", int(s.Tuning)}
	}
	return refuse("spec", s.Computation().Validate())
}

// validateFurther holds the kernel of further passes to the plan, and to the layout of the weights of the first.
func (s Spec) validateFurther() error {
	switch m := s.Further.Manifest; {
	case s.Artifact == nil:
		return &InputError{"further artifact", "want that of the first pass too", m.Entry}
	case m.Arch != s.Artifact.Manifest.Arch || m.Tile.Weights != s.Artifact.Manifest.Tile.Weights:
		return &InputError{"further artifact", fmt.Sprintf("the first pass is of %s and %s weights", s.Artifact.Manifest.Arch, s.Artifact.Manifest.Tile.Weights), m.Entry}
	}
	return s.validateArtifact(s.Further, true)
}

// validateArtifact holds an emitted kernel to the plan.
func (s Spec) validateArtifact(a *gen.Artifact, further bool) error {
	field := "artifact"
	if further {
		field = "further artifact"
	}
	reason, got := s.unlike(a, further)
	switch {
	case reason == "":
		return nil
	case got == "":
		got = a.Manifest.Entry
	}
	return &InputError{field, reason, got}
}

// unlike says why a kernel is none of the plan's, and what it has instead where the kernel's name does not tell.
func (s Spec) unlike(a *gen.Artifact, further bool) (reason, got string) {
	m, c := a.Manifest, s.Computation().Normalize()
	switch {
	case !a.Writes("token"):
		return "it draws no tokens", ""
	case further != (m.FurtherOf != ""):
		return "first passes and further ones are kernels of their own", ""
	case m.Sampler != c.Sampler.String() || m.Transform != c.Chain.String():
		return fmt.Sprintf("the plan wants %s with transform %s", c.Sampler, c.Chain), m.Sampler + " with transform " + m.Transform
	case c.Sampler.Random() && m.RNG != ir.NoiseName:
		return "this fsgen knows the noise " + ir.NoiseName, m.RNG
	case c.Truncation.String() != a.Truncation():
		return "the plan wants truncation " + c.Truncation.String(), "a kernel with truncation " + a.Truncation()
	case c.Draws.String() != a.Draws():
		return "the plan wants draws " + c.Draws.String(), "a kernel with draws " + a.Draws()
	case c.Shard == ir.Whole && m.Shard != "":
		return "the plan is of the whole vocabulary", "a kernel of shards, " + m.Entry
	case c.Shard != ir.Whole:
		return "plans of groups make their own kernels", ""
	case c.Slots != (m.Param(manifest.Slots) != nil):
		return "slots: the plan and the kernel both have them, or neither", ""
	}
	return s.unwritten(a, further), ""
}

// unwritten says what the plan wants and the kernel does not write. What is reported of rows beside their tokens comes with first passes.
func (s Spec) unwritten(a *gen.Artifact, further bool) string {
	switch m := a.Manifest; {
	case s.Score && !a.Writes("score"):
		return "the plan wants scores, which the kernel does not write"
	case s.LogSumExp && !further && !a.Writes(manifest.LogSumExp):
		return "the plan wants the log-sum-exp, which the kernel does not write"
	case s.LogProb != ir.NoLogProb && m.LogProbMode != s.LogProb.String():
		return fmt.Sprintf("the plan wants %s log-probabilities, which the kernel does not write", s.LogProb)
	case further:
		return ""
	case s.Rank:
		return "an emitted kernel counts no ranks"
	case m.TopN != s.TopN: // a kernel that finds some has to leave them somewhere
		return fmt.Sprintf("the plan wants the %d likeliest tokens, and the kernel finds %d", s.TopN, m.TopN)
	case s.ListLogProbs && !a.Writes(manifest.ListLogProbs):
		return "the plan wants listed log-probabilities, which the kernel does not write"
	}
	return ""
}

// UnsupportedError names something that a plan asks for and its device, or the ranks of a group, cannot do.
type UnsupportedError struct {
	Feature ir.Feature
	Device  string
	Ranks   int // of a group, whose first device it names; 0 for a device
}

func (e *UnsupportedError) Error() string {
	if e.Ranks > 0 {
		return fmt.Sprintf("sampler: %d ranks on %s cannot do %s yet; the cpu device by itself can", e.Ranks, e.Device, e.Feature)
	}
	return fmt.Sprintf("sampler: device %s: no kernel does %s yet; the cpu device does", e.Device, e.Feature)
}

// Plan prepares sampling: kernels are emitted, compiled (or found in the cache) and loaded here, so that no call to
// Sample has to. What no device can do, such as a sampler or a tile that there is none of, is an *InputError; what this one
// cannot, an *UnsupportedError.
func (h *Head) Plan(ctx context.Context, spec Spec) (*Plan, error) {
	if err := h.open.enter(); err != nil {
		return nil, err
	}
	defer h.open.leave()
	if spec.MaxBatch == 0 {
		spec.MaxBatch = 64
	}
	if err := spec.validate(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("sampler: plan: %w", err)
	}
	b, err := h.b.plan(ctx, spec)
	if err != nil {
		return nil, planError(err, h.device, 0)
	}
	p := &Plan{b: b, spec: spec, shape: h.shape}
	p.open.begin(&h.open, b.close)
	return p, nil
}

// planError is an *UnsupportedError for what no kernel does.
func planError(err error, device string, ranks int) error {
	var missing *templates.UnsupportedError
	if errors.As(err, &missing) {
		return &UnsupportedError{missing.Feature, device, ranks}
	}
	var room *RoomError
	if errors.As(err, &room) {
		return room
	}
	return fmt.Errorf("sampler: plan: %w", err)
}
