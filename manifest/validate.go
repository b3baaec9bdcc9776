package manifest

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/fsgen/fsgen/arch"
)

// Error says what is wrong with a manifest.
type Error struct {
	Field string
	Rule  string
	Value any
}

func (e *Error) Error() string {
	return fmt.Sprintf("manifest: %s is %v: %s", e.Field, e.Value, e.Rule)
}

// Limits that hold on every architecture, so that a hostile manifest cannot ask for the absurd.
const (
	maxParams      = 96
	maxParamBytes  = 4352
	maxThreads     = 1024
	maxSharedBytes = 232448
	maxTile        = 1 << 12
	maxName        = 255
)

// Validate reports the first field that no kernel of this schema could have.
func (k *Kernel) Validate() error {
	if k.Schema != Schema {
		return &Error{"schema", fmt.Sprintf("this fsgen reads schema %d", Schema), k.Schema}
	}
	if !identifier(k.Entry) {
		return &Error{"entry", "want an identifier of C: it names the kernel, its files and its header", fmt.Sprintf("%q", k.Entry)}
	}
	if _, err := arch.ParseTarget(k.Target.String()); err != nil {
		return &Error{"target", err.Error(), k.Target}
	}
	if _, err := arch.ParseVersion(k.PTXVersion.String()); err != nil {
		return &Error{"ptx_version", err.Error(), k.PTXVersion}
	}
	if sum, err := hex.DecodeString(k.PTXSHA256); err != nil || len(sum) != 32 {
		return &Error{"ptx_sha256", "want 64 hexadecimal digits", k.PTXSHA256}
	}
	if err := k.validateParams(); err != nil {
		return err
	}
	if err := k.validateLaunch(PersistentRule); err != nil {
		return err
	}
	if err := k.validateOutputs(); err != nil {
		return err
	}
	if err := k.validateUses(); err != nil {
		return err
	}
	if err := k.validateTruncation(); err != nil {
		return err
	}
	if err := k.validateDraws(); err != nil {
		return err
	}
	for kind := range StageKinds {
		if err := k.validateStage(kind.String(), k.KernelOf(kind)); err != nil {
			return err
		}
	}
	if err := k.validateShard(); err != nil {
		return err
	}
	return k.validateShape()
}

// validateUses holds the transform to the parameters that it would take, and the shape of the partial sums, from which their memory is
// reckoned, to those that there are.
func (k *Kernel) validateUses() error {
	items := map[string]bool{}
	for item := range strings.SplitSeq(k.Transform, ",") {
		name, _, _ := strings.Cut(item, "=")
		items[name] = true
	}
	for _, name := range []string{"temperature", "bias", "mask"} {
		if k.Param(name) != nil && !items[name] {
			return &Error{"transform", fmt.Sprintf("the kernel has a parameter %s, which none of this takes", name), fmt.Sprintf("%q", k.Transform)}
		}
	}
	one, two := PartialsShape(k.LogProbMode != "", false), PartialsShape(k.LogProbMode != "", true)
	if p := k.Param(Partials); p != nil && p.Shape != one && p.Shape != two {
		return &Error{"shape of " + Partials, fmt.Sprintf("want %q or %q", one, two), fmt.Sprintf("%q", p.Shape)}
	}
	return nil
}

// validateShard holds a kernel of a part of the vocabulary to what passes its records on.
func (k *Kernel) validateShard() error {
	has := func(m *Kernel, name string) bool {
		return m != nil && m.Param(name) != nil && m.Param(name).Kind == Pointer
	}
	switch {
	case k.Shard != "" && k.Shard != "shard" && k.Shard != "exchange":
		return &Error{"shard", "want shard, exchange or none", fmt.Sprintf("%q", k.Shard)}
	case k.Facts && k.Shard == "":
		return &Error{"record_facts", "only shards leave records", k.Facts}
	case (k.Gather != nil) != (k.Shard == "exchange" && k.Resolve != nil), k.Gather != nil && !has(k.GatherKernel(), Peers):
		return &Error{"shard", "an exchange of tokens that are collected comes with the stage gather, which has a pointer peers", fmt.Sprintf("%q", k.Shard)}
	case (k.Shard == "shard") != (k.Join != nil), has(k, Records) != (k.Join != nil || k.Gather != nil), k.Join != nil && !has(k.JoinKernel(), Gathered):
		return &Error{"shard", "a shard comes with a pointer records, and with the stage join, which has a pointer gathered", fmt.Sprintf("%q", k.Shard)}
	case (k.Shard == "exchange" && k.Gather == nil && k.RanksGather == nil) != has(k, Peers):
		return &Error{"shard", "an exchange comes with a pointer peers", fmt.Sprintf("%q", k.Shard)}
	}
	return k.validateReports()
}

// validateReports holds the stages that exchange what ranks report to the stages that report.
func (k *Kernel) validateReports() error {
	exchanges := k.Shard == "exchange"
	for _, s := range []struct {
		kind    StageKind
		reports bool
	}{{TopGatherStage, k.Top != nil}, {TopMergeStage, k.Top != nil}, {ListedGatherStage, k.Listed != nil}, {RanksGatherStage, len(k.Outputs) == 1 && k.Outputs[0] == Ranks}} {
		m := k.KernelOf(s.kind)
		if (m != nil) != (exchanges && s.reports) || m != nil && s.kind.Waits() && (m.Param(Peers) == nil || m.Param(Peers).Kind != Pointer) {
			return &Error{s.kind.String(), "it comes with an exchange of what is reported, and has a pointer peers if it exchanges", fmt.Sprintf("%q", k.Shard)}
		}
	}
	return nil
}

// truncations are what rows may be narrowed by, in the order in which a manifest lists them.
var truncations = []string{"top-k", "top-p", "min-p", "temperature-last"}

// validateTruncation holds the list of filters to its order, and to a further stage that draws what they leave.
func (k *Kernel) validateTruncation() error {
	last := -1
	for i, name := range k.Truncation {
		at := slices.Index(truncations, name)
		if at <= last || name == "temperature-last" && i == 0 {
			return &Error{fmt.Sprintf("truncation[%d]", i), "want some of top-k, top-p and min-p in this order, then perhaps temperature-last", fmt.Sprintf("%q", name)}
		}
		last = at
	}
	if collects := len(k.Truncation) > 0 || k.Draws != ""; collects != (k.Resolve != nil) {
		return &Error{"truncation", "it comes with the stage resolve, and that with a truncation or several draws", k.Truncation}
	}
	return nil
}

// validateDraws holds several draws to what they are written to by the further stage.
func (k *Kernel) validateDraws() error {
	if k.Draws != "" && k.Draws != "with-replacement" && k.Draws != "without-replacement" {
		return &Error{"draws", "want with-replacement, without-replacement or none", fmt.Sprintf("%q", k.Draws)}
	}
	written := map[string]bool{Draws: k.Draws != "", DrawScores: k.Draws == "without-replacement"}
	for name, asked := range written {
		has := false
		if s := k.StageKernel(); s != nil {
			p := s.Param(name)
			has = p != nil && p.Kind == Pointer && p.Access == "write"
		}
		if has != asked || slices.Contains(k.Outputs, name) != asked {
			return &Error{"draws", "several draws come with the output draws, those without replacement with draw_scores, and pointers of resolve to write them", fmt.Sprintf("%q", k.Draws)}
		}
	}
	if k.FurtherOf != "" && (k.Resolve == nil || !identifier(k.FurtherOf) || k.FurtherOf == k.Entry) {
		return &Error{"further_of", "want the name of another kernel, of one that truncates", fmt.Sprintf("%q", k.FurtherOf)}
	}
	return nil
}

// validateStage holds a further stage to what a kernel is held to.
func (k *Kernel) validateStage(name string, s *Kernel) error {
	if s == nil {
		return nil
	}
	if !identifier(s.Entry) || s.Entry == k.Entry {
		return &Error{name + ".entry", "want an identifier of C, not that of the kernel", fmt.Sprintf("%q", s.Entry)}
	}
	if err := s.validateParams(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := s.validateLaunch(RowsRule); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for i, p := range s.Params {
		if q := k.Param(p.Name); q != nil && (q.Kind != p.Kind || q.Element != p.Element) {
			return &Error{fmt.Sprintf("%s.params[%d]", name, i), "a parameter of the kernel's name is of its kind and element", fmt.Sprintf("%s, %s %s", p.Name, p.Kind, p.Element)}
		}
	}
	return nil
}

// logProbModes are the distributions of log-probabilities.
var logProbModes = map[string]bool{"raw": true, "temperature": true, "processed": true}

// validateOutputs checks that outputs are known, each named once, and that the log-sum-exp and the log-probability have what they
// are written to.
func (k *Kernel) validateOutputs() error {
	seen := map[string]bool{}
	for i, o := range k.Outputs {
		known := o == "token" || o == "status" || o == "score" || o == LogSumExp || o == LogProb || o == TopIDs || o == TopLogProbs || o == Ranks || o == ListLogProbs || o == Draws || o == DrawScores
		if !known || seen[o] {
			return &Error{fmt.Sprintf("outputs[%d]", i), "want token, status, score, lse, logprob, top_ids, top_logprobs, ranks, list_logprobs, draws or draw_scores, each once", fmt.Sprintf("%q", o)}
		}
		seen[o] = true
	}
	has := func(name, access string) bool {
		p := k.Param(name)
		switch { // stages write what becomes of records
		case p == nil && access == "write" && k.Join != nil:
			p = k.JoinKernel().Param(name)
		case p == nil && access == "write" && k.Gather != nil:
			p = k.GatherKernel().Param(name)
		}
		return p != nil && p.Kind == Pointer && p.Access == access
	}
	for _, name := range []string{LogSumExp, LogProb} {
		if has(name, "write") != seen[name] || seen[name] && !has(Partials, "scratch") {
			return &Error{"outputs", name + " comes with a pointer " + name + " to write and a pointer lse_partials to scratch", k.Outputs}
		}
	}
	if s := k.ListedKernel(); (s != nil) != seen[ListLogProbs] || s != nil && (!seen[LogProb] || s.Param(ListLogProbs) == nil) {
		return &Error{"outputs", ListLogProbs + " comes with logprob, and with the stage listed, which writes it", k.Outputs}
	}
	tops := k.TopKernel()
	if k.TopMerge != nil {
		tops = k.KernelOf(TopMergeStage)
	}
	if s := tops; (s != nil) != seen[TopIDs] || seen[TopIDs] != seen[TopLogProbs] || (k.TopN > 0) != seen[TopIDs] || k.TopN < 0 ||
		s != nil && (!seen[LogProb] || s.Param(TopIDs) == nil || s.Param(TopLogProbs) == nil) {
		return &Error{"outputs", TopIDs + " and " + TopLogProbs + " come with logprob, top_n, and the stage top, which writes them", k.Outputs}
	}
	if k.LogProbMode != "" && !logProbModes[k.LogProbMode] || seen[LogProb] != (k.LogProbMode != "") {
		return &Error{"logprob_mode", "want raw, temperature or processed with the output logprob, and none without", fmt.Sprintf("%q", k.LogProbMode)}
	}
	return nil
}

// identifier reports whether a name is safe wherever it goes: PTX, C, Go and file names.
func identifier(s string) bool {
	for i, r := range s {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return s != "" && len(s) <= maxName
}

// collected are the parameters of the workspace that lie behind it (CollectionOffset).
var collected = map[string]bool{Marks: true, Counts: true, States: true, Bins: true, Peaks: true,
	TopMarks: true, TopBounds: true, TopCounts: true}

// accesses are what a pointer may be for; other parameters have none.
var accesses = map[string]bool{"": true, "read": true, "write": true, "workspace": true, "scratch": true, "state": true}

func (k *Kernel) validateParams() error {
	if len(k.Params) > maxParams {
		return &Error{"params", fmt.Sprintf("at most %d", maxParams), len(k.Params)}
	}
	seen := map[string]bool{}
	end := 0
	for i, p := range k.Params {
		at := fmt.Sprintf("params[%d]", i)
		size := map[Kind]int{Pointer: 8, Scalar: 4, TensorMap: 128, TensorMapPointer: 8}[p.Kind]
		switch {
		case !identifier(p.Name) || seen[p.Name]:
			return &Error{at + ".name", "names are identifiers of C, each used once", fmt.Sprintf("%q", p.Name)}
		case size == 0:
			return &Error{at + ".kind", "want pointer, scalar, tensormap or tensormap_pointer", p.Kind}
		case p.Size != size:
			return &Error{at + ".size", fmt.Sprintf("a %s has %d bytes", p.Kind, size), p.Size}
		case p.Offset < end || p.Offset%min(p.Size, 64) != 0 || p.Offset > maxParamBytes-p.Size:
			return &Error{at + ".offset", "parameters stand in order, aligned, within 4352 bytes", p.Offset}
		case !accesses[p.Access]:
			return &Error{at + ".access", "want read, write, workspace, scratch, state or none", fmt.Sprintf("%q", p.Access)}
		case p.Access == "workspace" && WorkspaceOffset(p.Name) < 0 && !collected[p.Name]:
			return &Error{at + ".access", "not a part of the workspace", fmt.Sprintf("%q", p.Name)}
		case p.Kind.IsMap() != (p.Map != nil):
			return &Error{at + ".map", "a tensor map and only that has a map", p.Kind}
		}
		if p.Map != nil {
			if err := p.Map.validate(at + ".map"); err != nil {
				return err
			}
		}
		seen[p.Name], end = true, p.Offset+p.Size
	}
	return k.validateMapRows()
}

// validateMapRows checks that what bounds a tensor map's rows is a parameter.
func (k *Kernel) validateMapRows() error {
	for i, p := range k.Params {
		if p.Map == nil {
			continue
		}
		if rows := k.Param(p.Map.Rows); rows == nil || rows.Kind != Scalar {
			return &Error{fmt.Sprintf("params[%d].map.rows", i), "want the name of a scalar parameter", fmt.Sprintf("%q", p.Map.Rows)}
		}
		if p.Map.Tensor != p.Name {
			return &Error{fmt.Sprintf("params[%d].map.tensor", i), "want the parameter's name", fmt.Sprintf("%q", p.Map.Tensor)}
		}
		if packed := p.Name == PackedMap; p.Map.Packed != packed || packed && k.Tile.Weights != Packed {
			return &Error{fmt.Sprintf("params[%d].map.packed", i), "true for the parameter " + PackedMap + " of a kernel of packed weights, and for no other", p.Map.Packed}
		}
	}
	return nil
}

func (m *Map) validate(at string) error {
	if len(m.Box) != 2 || m.Box[0] < 1 || m.Box[0] > 256 || m.Box[1] < 1 || m.Box[1] > 256 {
		return &Error{at + ".box", "want two numbers from 1 to 256", m.Box}
	}
	swizzle := 128
	if m.Packed {
		swizzle = 0
	}
	if m.Element != "bf16" || m.OOBFill != "zero" || m.Swizzle != swizzle {
		return &Error{at, fmt.Sprintf("want bf16, zero fill and a %d-byte swizzle", swizzle), fmt.Sprintf("%s, %s, %d", m.Element, m.OOBFill, m.Swizzle)}
	}
	if m.L2Promote != 0 && m.L2Promote != 64 && m.L2Promote != 128 && m.L2Promote != 256 {
		return &Error{at + ".l2_promotion", "want 0, 64, 128 or 256 bytes", m.L2Promote}
	}
	return nil
}

// validateLaunch checks the launch; rule is the grid's.
func (k *Kernel) validateLaunch(rule string) error {
	l, g := k.Launch, k.Launch.Grid
	threads := l.Block[0] * l.Block[1] * l.Block[2]
	switch {
	case l.Block[0] < 1 || l.Block[1] != 1 || l.Block[2] != 1 || threads > maxThreads:
		return &Error{"launch.block", fmt.Sprintf("want [n, 1, 1] with n from 1 to %d", maxThreads), l.Block}
	case l.Cluster[0] < 1 || l.Cluster[0] > 16 || l.Cluster[1] != 1 || l.Cluster[2] != 1:
		return &Error{"launch.cluster", "want [n, 1, 1] with n from 1 to 16", l.Cluster}
	case l.SharedBytes < 0 || l.SharedBytes > maxSharedBytes:
		return &Error{"launch.shared_bytes", fmt.Sprintf("want 0 to %d", maxSharedBytes), l.SharedBytes}
	case g.Unit != "cta" || g.Rule != rule:
		return &Error{"launch.grid", "this fsgen knows the unit cta and here the rule " + rule, g.Unit + " " + g.Rule}
	case g.TileM < 1 || g.TileM > maxTile || g.TileN < 1 || g.TileN > maxTile || g.Cluster != l.Cluster[0]:
		return &Error{"launch.grid", "tile and cluster of the kernel", fmt.Sprintf("%+v", g)}
	}
	return nil
}

// validateShape checks what is told of the problem and the tile against the launch.
func (k *Kernel) validateShape() error {
	p, t, g := k.Problem, k.Tile, k.Launch.Grid
	switch {
	case p.Vocab < 0 || p.Hidden < 0 || p.Batch < 0:
		return &Error{"problem", "sizes are not negative", fmt.Sprintf("%d x %d, batch %d", p.Vocab, p.Hidden, p.Batch)}
	case p.RowAlignment < 1 || p.RowAlignment&(p.RowAlignment-1) != 0 || p.RowAlignment > 1<<12:
		return &Error{"problem.row_alignment", "want a power of two up to 4096", p.RowAlignment}
	case t.M != g.TileM || t.N != g.TileN || t.Cluster != g.Cluster:
		return &Error{"tile", "the tile is the grid's", fmt.Sprintf("%dx%d, cluster %d", t.M, t.N, t.Cluster)}
	case t.Name != t.text() || t.Split != g.Split:
		return &Error{"tile.name", "its numbers make " + t.text() + ", and the grid's split is the tile's", fmt.Sprintf("%q", t.Name)}
	case k.Launch.SharedBytes < t.ringBytes():
		return &Error{"launch.shared_bytes", fmt.Sprintf("the stages of the tile alone take %d", t.ringBytes()), k.Launch.SharedBytes}
	}
	return nil
}

// ringBytes is what the stages take of shared memory: bf16 rows of weights and of hidden states.
func (t Tile) ringBytes() int { return 2 * t.K * (t.M + t.N) * t.Stages }
