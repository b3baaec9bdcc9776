// Package manifest is the contract of an emitted kernel: what a caller in any language must know to load it, encode its
// tensor maps, fill its parameters and launch it. A manifest stands beside its .ptx file as JSON.
package manifest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"

	"github.com/fsgen/fsgen/arch"
)

// Schema is the version of the manifest's layout. Readers refuse others.
const Schema = 1

// Kind is the kind of a kernel parameter.
type Kind string

// The kinds of parameters.
const (
	Pointer   Kind = "pointer"   // 64-bit device address
	Scalar    Kind = "scalar"    // 32-bit value
	TensorMap Kind = "tensormap" // 128-byte CUtensorMap by value
	// TensorMapPointer is the 64-bit device address of a CUtensorMap in global memory, a multiple of 64. The kernel acquires
	// the map, so that it may come from any copy that is ahead of the launch; that of the weights counts as the weights where
	// launches overlap (Launch.Programmatic).
	TensorMapPointer Kind = "tensormap_pointer"
)

// Kernel describes one kernel.
type Kernel struct {
	Schema     int          `json:"schema"`
	Generator  string       `json:"generator"`
	Entry      string       `json:"entry"`
	Arch       string       `json:"arch"`
	Target     arch.Target  `json:"target"`
	PTXVersion arch.Version `json:"ptx_version"`
	Params     []Param      `json:"params"`
	Launch     Launch       `json:"launch"`
	Problem    Problem      `json:"problem"`
	Tile       Tile         `json:"tile"`
	// Transform is the canonical transform chain in its order of application, "none" if empty.
	Transform string `json:"transform"`
	Sampler   string `json:"sampler"`
	// RNG names the definition of the noise; empty for samplers without noise.
	RNG string `json:"rng,omitempty"`
	// Outputs lists what the kernel writes for each row: token, status, score, lse, logprob, top_ids, top_logprobs, ranks, list_logprobs, draws, draw_scores.
	Outputs []string `json:"outputs"`
	// LogProbMode says of which distribution log-probabilities are: raw, temperature or processed; empty without any.
	LogProbMode string `json:"logprob_mode,omitempty"`
	// Truncation lists the filters that narrow rows, in their order of application: top-k, top-p, min-p; and temperature-last
	// where the temperature follows them.
	Truncation []string `json:"truncation,omitempty"`
	// Draws says that rows may draw several tokens, with-replacement or without-replacement; empty for one each.
	Draws string `json:"draws,omitempty"`
	// Resolve is launched behind the kernel, in the same stream: it draws the tokens of the rows that are narrowed, or draw several. Its
	// parameters of the same names take the same values.
	Resolve *Stage `json:"resolve,omitempty"`
	// FurtherOf names the kernel whose undecided rows this one goes on with (docs/truncation.md): any of its tiles' will do. It is empty for
	// kernels of first passes.
	FurtherOf string `json:"further_of,omitempty"`
	// Top is launched behind the kernel, a CTA for each row: it sorts the likeliest tokens. Listed is launched last, where ids are listed:
	// it gives their log-probabilities, on any number of CTAs.
	Top    *Stage `json:"top,omitempty"`
	Listed *Stage `json:"listed,omitempty"`
	// TopN is how many of the likeliest tokens of every row come out, in order; 0 for none.
	TopN int `json:"top_n,omitempty"`
	// Shard says that the kernel has a part of the vocabulary (docs/parallel.md): "shard" leaves records of its rows for Join,
	// "exchange" joins them with those of its peers itself; empty for all of it. Facts says that records have more than keys.
	Shard string `json:"shard,omitempty"`
	Facts bool   `json:"record_facts,omitempty"`
	// Join joins the records that the kernels of all shards have left, a thread for each row, on any number of CTAs.
	Join *Stage `json:"join,omitempty"`
	// Gather is launched behind an exchanging kernel that collects tokens, ahead of Resolve: it exchanges their lists. Any grid is right
	// whose CTAs are all there at once.
	Gather *Stage `json:"gather,omitempty"`
	// TopGather, ListedGather and RanksGather exchange among the ranks what each has to report of its ids: TopGather behind Top, ListedGather
	// behind Listed, and RanksGather behind a kernel that counts. TopMerge is launched behind TopGather, a CTA for each row, and writes the
	// likeliest tokens of all ranks. Any grid of the others is right whose CTAs are all there at once.
	TopGather    *Stage `json:"top_gather,omitempty"`
	TopMerge     *Stage `json:"top_merge,omitempty"`
	ListedGather *Stage `json:"listed_gather,omitempty"`
	RanksGather  *Stage `json:"ranks_gather,omitempty"`
	// Resources is what ptxas reported, where it was at hand.
	Resources *Resources `json:"resources,omitempty"`
	// PTXSHA256 is the hash of the PTX text that the manifest describes.
	PTXSHA256 string `json:"ptx_sha256"`
}

// Stage is another kernel of the same PTX, launched after the first.
type Stage struct {
	Entry  string  `json:"entry"`
	Params []Param `json:"params"`
	// Rule of the grid: "rows", a CTA for each row of the batch.
	Rule        string `json:"rule"`
	Block       [3]int `json:"block"`
	SharedBytes int    `json:"shared_bytes"`
	// Programmatic is as in Launch.
	Programmatic bool `json:"programmatic,omitempty"`
}

// Param is one kernel parameter, in the order of the kernel's signature.
type Param struct {
	Name   string `json:"name"`
	Kind   Kind   `json:"kind"`
	Offset int    `json:"offset"` // bytes from the start of the parameter buffer
	Size   int    `json:"size"`   // bytes
	// Element is the type that a pointer points to, or the type of a scalar: u32, u64, i32, f32.
	Element string `json:"element,omitempty"`
	// Shape says what a pointer's array holds, in the manifest's own words: "batch", "batch x mask_stride". "ctas" is the grid's
	// size.
	Shape string `json:"shape,omitempty"`
	// Access of a pointer: read, write, workspace (zero before the first launch, left zero by every launch), scratch (what it
	// holds before and after a launch means nothing) or state (kept from launch to launch).
	Access string `json:"access,omitempty"`
	// Map describes a tensor map, by value or pointed to.
	Map *Map `json:"map,omitempty"`
}

// IsMap reports whether a parameter of the kind is a tensor map, by value or pointed to.
func (k Kind) IsMap() bool { return k == TensorMap || k == TensorMapPointer }

// Map says how to encode a tensor map with cuTensorMapEncodeTiled. Dimensions stand innermost first, as the driver takes
// them; the global size is [hidden, rows] with a row stride of the leading dimension times the element size. Of packed weights it is
// [PackedCols, panels times the rows of each] (PackedPanels) with a row stride of PackedRowBytes, and no swizzle: the memory has it. A
// packed shard has shard_start mod 32 rows ahead of its first (docs/parallel.md), which count, too.
type Map struct {
	Tensor    string   `json:"tensor"`           // the parameter's name
	Packed    bool     `json:"packed,omitempty"` // of packed weights: the parameter is PackedMap
	Rows      string   `json:"rows"`             // the scalar that bounds the rows: vocab, shard_count or batch
	Element   string   `json:"element"`          // bf16
	Box       []uint32 `json:"box"`              // elements
	Swizzle   int      `json:"swizzle"`          // bytes: 0, 32, 64 or 128
	L2Promote int      `json:"l2_promotion"`
	OOBFill   string   `json:"oob_fill"` // zero
}

// Launch says how to launch the kernel.
type Launch struct {
	Grid Grid `json:"grid"`
	// Cluster and Block are shapes (x, y, z) that the PTX demands.
	Cluster [3]int `json:"cluster"`
	Block   [3]int `json:"block"`
	// SharedBytes is the dynamic shared memory of a CTA.
	SharedBytes int `json:"shared_bytes"`
	// Programmatic says that the kernel waits by itself (griddepcontrol.wait) for the kernel ahead of it in its stream,
	// before it touches anything but its parameters and the weights. So it may be launched with
	// CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, if that kernel does not write the weights.
	Programmatic bool `json:"programmatic,omitempty"`
}

// Grid is the rule for the number of CTAs. The kernel is persistent: any multiple of the cluster up to what is resident at
// once is right.
type Grid struct {
	Unit string `json:"unit"` // "cta"
	Rule string `json:"rule"` // "persistent"
	// TileM and TileN are the rows of weights and of hidden states that a CTA takes at a time.
	TileM   int `json:"tile_m"`
	TileN   int `json:"tile_n"`
	Cluster int `json:"cluster"`
	// Split says that the CTAs of a cluster take the same rows of weights, and tile_n hidden states each.
	Split bool `json:"split,omitempty"`
}

// Rules of a grid.
const (
	PersistentRule = "persistent" // any multiple of the cluster up to what is resident at once
	RowsRule       = "rows"       // a CTA for each row of the batch
)

// CTAs returns the grid for a problem on a device that holds `resident` CTAs of the kernel at once: all of them, or as
// many as there are tiles. It returns 0 for an empty batch.
func (g Grid) CTAs(vocab, batch, resident int) int {
	if g.Rule == RowsRule {
		return max(batch, 0)
	}
	clusters := resident / g.Cluster
	if batch <= 0 || vocab <= 0 || clusters <= 0 {
		return 0
	}
	down, across := g.Item()
	return min(clusters, ceilDiv(vocab, down)*ceilDiv(batch, across)) * g.Cluster
}

// Item returns the rows of weights and of hidden states that a cluster takes at a time.
func (g Grid) Item() (down, across int) {
	if g.Split {
		return g.TileM, g.TileN * g.Cluster
	}
	return g.TileM * g.Cluster, g.TileN
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// Problem is the shape that the kernel was emitted for.
type Problem struct {
	Vocab  int `json:"vocab,omitempty"`
	Hidden int `json:"hidden,omitempty"`
	// Batch is the batch size that the tile was chosen for; other sizes are right too, if not as fast.
	Batch int `json:"batch,omitempty"`
	// Specialised names what of the shape is fixed in the code. Empty: vocabulary, hidden size and batch are parameters.
	Specialised []string `json:"specialised"`
	// RowAlignment is what the addresses of weights and hidden states, and the bytes from row to row, are multiples of.
	RowAlignment int `json:"row_alignment"`
}

// Tile is the tile configuration.
type Tile struct {
	Name    string `json:"name"`
	M       int    `json:"m"`
	N       int    `json:"n"`
	K       int    `json:"k"`
	Stages  int    `json:"stages"`
	Cluster int    `json:"cluster"`
	Split   bool   `json:"split,omitempty"` // the cluster splits the batch
	// PingPong has two warpgroups take tiles in turns.
	PingPong bool `json:"ping_pong,omitempty"`
	// Weights is the layout of the weights that the kernel reads.
	Weights Layout `json:"weights"`
}

// Layout is how the weights lie in memory.
type Layout string

// The layouts. Packed weights are panels of PackedCols columns, one after the other: each has all rows, PackedRowBytes a row,
// and is filled up with zeros to a multiple of PackedRows rows; columns past the hidden size are zero. So whatever rows a
// tile takes, those of a stage of the ring are one run of bytes, as the ring holds them, and one plain copy fetches them, or boxes. In
// a row r, 16-byte unit u stands at unit u ^ (r mod 8): the 128-byte swizzle. Behind the last panel come PackedTail bytes,
// which tiles past the vocabulary read and do not use: of a cluster that begins at its last rows, 8 CTAs of 256 rows at most.
const (
	RowMajor Layout = "rowmajor"
	Packed   Layout = "packed"

	// PackedMap is the parameter that is a tensor map of packed weights.
	PackedMap = "packed_map"

	PackedCols     = 64
	PackedRowBytes = 2 * PackedCols
	PackedRows     = 64
	PackedTail     = 8 * 256 * PackedRowBytes
)

// PackedPanels returns the number of panels of packed weights and the rows of each.
func PackedPanels(vocab, hidden int) (panels, rows int) {
	return ceilDiv(hidden, PackedCols), ceilDiv(vocab, PackedRows) * PackedRows
}

// PackedBytes is the size of packed weights.
func PackedBytes(vocab, hidden int) int {
	panels, rows := PackedPanels(vocab, hidden)
	return panels*rows*PackedRowBytes + PackedTail
}

// ParseLayout reads a layout's name; "" is row-major.
func ParseLayout(s string) (Layout, error) {
	switch l := Layout(s); l {
	case "":
		return RowMajor, nil
	case RowMajor, Packed:
		return l, nil
	}
	return "", fmt.Errorf("unknown layout of weights %q: want rowmajor or packed", s)
}

// text is the name that the numbers make.
func (t Tile) text() string {
	name := fmt.Sprintf("m%dn%dk%ds%dc%d", t.M, t.N, t.K, t.Stages, t.Cluster)
	if t.Split {
		name += "b"
	}
	if t.PingPong {
		name += "p"
	}
	return name
}

// Width is the hidden states of a cluster's item.
func (t Tile) Width() int {
	if t.Split {
		return t.N * t.Cluster
	}
	return t.N
}

// Resources is what ptxas reported for the kernel.
type Resources struct {
	Registers  int `json:"registers"`
	SpillBytes int `json:"spill_bytes"`
	LocalBytes int `json:"local_bytes"`
	// SharedBytes is static shared memory, with what the system reserves.
	SharedBytes int `json:"static_shared_bytes"`
}

// Encode writes the manifest as indented JSON with a final newline: the same manifest, the same bytes.
func (k *Kernel) Encode() []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(k); err != nil {
		panic(fmt.Sprintf("BUG: manifest: %v", err))
	}
	return b.Bytes()
}

// Decode reads a manifest and checks it.
func Decode(data []byte) (*Kernel, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var k Kernel
	if err := dec.Decode(&k); err != nil {
		return nil, fmt.Errorf("manifest: not a kernel manifest: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, fmt.Errorf("manifest: something follows the manifest's JSON object")
	}
	if err := k.Validate(); err != nil {
		return nil, err
	}
	return &k, nil
}

// Param returns the parameter of a name, or nil.
func (k *Kernel) Param(name string) *Param {
	for i := range k.Params {
		if k.Params[i].Name == name {
			return &k.Params[i]
		}
	}
	return nil
}

// Names that the log-sum-exp and the log-probability go by: the output and the parameter that it is written to, and the
// parameter of the scratch in which CTAs leave their partial sums.
const (
	LogSumExp = "lse"
	LogProb   = "logprob"
	Partials  = "lse_partials"
	// TopIDs and TopLogProbs are the likeliest tokens of every row, which the stage that sorts them writes.
	TopIDs      = "top_ids"
	TopLogProbs = "top_logprobs"
	// Ranks are 1 for every row with a token, to which another kernel adds the tokens before that one. It finds the token's key in
	// RankKeys: the logit in an order-preserving form above the complement of the id.
	Ranks    = "ranks"
	RankKeys = "rank_keys"
	// Kept says of every row what filters keep of it, for the stages that report (KeptBytes of a row).
	Kept = "row_kept"
	// ListLogProbs is what the stage of listed ids writes.
	ListLogProbs = "list_logprobs"
)

// Names of the parameters in which a kernel that truncates leaves what it found, for the kernel that draws from it (Resolve).
const (
	Marks      = "marks"
	Counts     = "candidate_counts"
	Candidates = "candidates"
	Bounds     = "row_bounds"
	Masses     = "row_masses"
	// SecondMasses are those of the second distribution, where two are added up.
	SecondMasses = "row_second_masses"
	Arrivals     = "arrivals"
	States       = "row_states"
	Open         = "open_rows"
	Pivots       = "row_pivots"
	Bins         = "row_bins"
	Peaks        = "row_peaks"

	RowPivots      = 64   // drawn tokens of a row that a survey decides about
	PivotBytes     = 24   // of one: rank, score, and what its log-probability takes
	StateBytes     = 32   // of the state that a row has between passes
	RowMarks       = 1024 // words of marks of a row
	RowCandidates  = 8192 // candidates that a row's list holds
	CandidateBytes = 16   // logit, id, score and a word that means nothing
)

// CollectionOffset is where one of these arrays lies, for batches of up to so many rows, in the memory that a launcher gives
// to all of them: marks and counts, zeroed once, and then those that need not be. It is -1 for other parameters.
func CollectionOffset(param string, batch int) int {
	return offsetOf(param, batch, []rowArray{{Counts, 16}, {Peaks, 16}, {Marks, 4 * RowMarks}, {States, StateBytes}, {Bins, 8*RowPivots + 16}, {Candidates, RowCandidates * CandidateBytes}, {Pivots, PivotBytes * RowPivots}, {Bounds, 8}, {Masses, 8}, {SecondMasses, 8}, {"", 0}})
}

// Names of the parameters in which a kernel lists the likeliest tokens for the stage that sorts them (Top): workspace but for
// the last two, which are scratch.
const (
	TopMarks  = "top_marks"
	TopBounds = "top_bounds"
	TopCounts = "top_counts"
	TopFloors = "top_floors"
	TopKeys   = "top_keys"

	RowTopMarks = 64   // marks of a row, 8 bytes each
	RowTopKeys  = 8192 // tokens that a row's list holds, 8 bytes each
	KeptBytes   = 48   // what is kept of a row: kind and length of its list, largest logit, scale of weights, least rank and weight, mass
)

// ReportOffset is where one of these arrays lies, or that of the rows' sums (Masses), their tokens' keys (RankKeys) or what is kept of
// them (Kept), for batches of up to so many rows, in the memory that a launcher gives to all of them: first those that are zeroed once,
// and last TopKeys, without which it is small. It is -1 for other parameters.
func ReportOffset(param string, batch int) int {
	return offsetOf(param, batch, []rowArray{{TopMarks, 8 * RowTopMarks}, {TopBounds, 8}, {TopCounts, 8}, {Masses, 8}, {RankKeys, 8}, {Kept, KeptBytes}, {TopFloors, 8}, {SentTopKeys, 8 * SentTops}, {TopKeys, 8 * RowTopKeys}, {"", 0}})
}

// ReportBytes is the size of all of them.
func ReportBytes(batch int) int { return ReportOffset("", batch) }

// rowArray is an array of a row's.
type rowArray struct {
	name  string
	bytes int // of a row, padded
}

// offsetOf is where an array of some that lie one behind the other begins, -1 for one that is not among them.
func offsetOf(param string, batch int, arrays []rowArray) int {
	end := 0
	for _, array := range arrays {
		if array.name == param {
			return end
		}
		end += batch * array.bytes
	}
	return -1
}

// CollectionBytes is the size of all of them.
func CollectionBytes(batch int) int { return CollectionOffset("", batch) }

// CollectionStart is where they begin in the workspace of a kernel that truncates, for batches of up to so many rows: behind what
// every kernel has, at a multiple of 256.
func CollectionStart(batch int) int { return (WorkspaceBytes(batch) + 255) &^ 255 }

// Workspace returns how much memory a launch works in, for batches of up to so many rows, but for the partial sums, and how much of it,
// from its beginning, is zeroed once.
func (k *Kernel) Workspace(batch int) (zeroed, all int) {
	if k.Resolve == nil {
		return WorkspaceBytes(batch), WorkspaceBytes(batch)
	}
	start := CollectionStart(batch)
	return start + CollectionOffset(Candidates, batch), start + CollectionBytes(batch)
}

// WorkspacePlace is where in it a parameter points to; -1 for what is not in it.
func WorkspacePlace(param string, batch int) int {
	if at := CollectionOffset(param, batch); at >= 0 && param != "" {
		return CollectionStart(batch) + at
	}
	return WorkspaceOffset(param)
}

// Names of what kernels write that draw several tokens of a row: the outputs and the parameters of the stage Resolve; and of the
// parameter that says how many there is room for.
const (
	Draws      = "draws"
	DrawScores = "draw_scores"
	MaxDraws   = "max_draws"
)

// Slots is the parameter that says for each row which set of parameters it takes.
const Slots = "slots"

// PartialsBytes returns the bytes of scratch that a launch of some CTAs over a batch needs: PartialBytes for each CTA and row, or 0 if
// the kernel has no use for it. Launches that overlap need one each.
func (k *Kernel) PartialsBytes(batch, ctas int) int {
	p := k.Param(Partials)
	if p == nil {
		return 0
	}
	logProb := k.LogProbMode != ""
	bytes := PartialBytes(logProb)
	if p.Shape == PartialsShape(logProb, true) {
		bytes = SecondPartials(logProb) + PairBytes
	}
	return bytes * batch * ctas
}

// PartialsShape is the shape of the partial sums of one distribution, or of two. Callers in other languages size the scratch by it, and
// manifests that were written are held to it: that of log-probabilities stays 16 bytes, where PartialBytes is 12.
func PartialsShape(logProb, two bool) string {
	bytes := SecondPartials(logProb)
	if two {
		bytes += PairBytes
	}
	return fmt.Sprintf("batch x ctas x %d", bytes/4)
}

// PairBytes is the size of one CTA's partial sum of a row, a reference and a sum, float32 both. NotedBytes is that of the score without
// noise of the row's best token, if the CTA had it; where there are any they lie behind all the pairs.
const (
	PairBytes  = 8
	NotedBytes = 4
)

// PartialBytes is the scratch of a CTA and a row: a pair, and for log-probabilities what is noted.
func PartialBytes(logProb bool) int {
	if logProb {
		return PairBytes + NotedBytes
	}
	return PairBytes
}

// SecondPartials is where a second distribution that is added up lies, behind what a CTA leaves of a row in the first: at a multiple of 8.
func SecondPartials(logProb bool) int { return (PartialBytes(logProb) + 7) &^ 7 }

// Parameters that point into the workspace of a launch.
const (
	Ticket = "ticket"
	Keys   = "keys"
)

// The workspace of a launch is one run of memory: the ticket, in a cache line of its own, and the keys behind it, KeysOffset
// bytes from the ticket. It is zero before the first launch, every launch leaves it zero, and launches that overlap need one
// each. A launch that was cut short leaves it to be zeroed again.
const KeysOffset = 256

// WorkspaceOffset is where in the workspace a parameter of it points to, in bytes; -1 for what is not in it.
func WorkspaceOffset(param string) int {
	switch param {
	case Ticket:
		return 0
	case Arrivals:
		return KeysOffset / 2
	case Open:
		return KeysOffset * 3 / 4
	case Keys:
		return KeysOffset
	}
	return -1
}

// WorkspaceBytes is the size of the workspace for batches of up to so many rows.
func WorkspaceBytes(batch int) int { return KeysOffset + 8*batch }

// CheckPTX reports whether a PTX text is the one that the manifest describes.
func (k *Kernel) CheckPTX(text []byte) error {
	sum := sha256.Sum256(text)
	if got := hex.EncodeToString(sum[:]); got != k.PTXSHA256 {
		return fmt.Errorf("manifest: the PTX's sha256 is %s; the manifest describes %s", got, k.PTXSHA256)
	}
	return nil
}

// ParamSizes lists the sizes of the parameters, in order.
func (k *Kernel) ParamSizes() []int {
	sizes := make([]int, len(k.Params))
	for i, p := range k.Params {
		sizes[i] = p.Size
	}
	return sizes
}
