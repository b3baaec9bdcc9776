package sampler

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"

	"github.com/fsgen/fsgen/ir"
)

// Rows are the parameters of the rows of one call. A slice of one value serves every row; otherwise there is one value
// for each. What the plan has no use for is refused rather than ignored.
//
// What a plan needs: Positions where there are Seeds; Temperature where the chain has one (Chain.Temperature), Bias where its bias
// is dense, Mask where it has one; TopK, TopP and MinP where the truncation has them, ListIDs with ListLogProbs, Slots and SlotCount
// with Slots. All else may be nil: Seeds, which are then drawn, Unseeded, BiasLists, AllowIDs and BanIDs, the penalties and their
// counts, and DrawCounts.
type Rows struct {
	// Seeds and Positions key the noise: 64-bit seed of the request, 64-bit step. A seeded row needs its position: there is
	// no default, since a position that never moves repeats one draw for ever. Rows that share seed and position share
	// their noise.
	Seeds, Positions []uint64
	// Unseeded marks rows whose seed is drawn from the operating system instead. With no Seeds at all, every row is.
	Unseeded []bool
	// Draw tells independent draws of one row and step apart; StreamTag tells uses apart: 0 for samples, 1 to 3 for speculative
	// decoding, from ir.StreamUser on for callers (docs/draws.md).
	Draw, StreamTag uint32
	// Temperature divides the logits: 0 is greedy for that row.
	Temperature []float32
	// Bias is added to the logits: [V], or [B, V] with rows BiasStride values apart (0 means V).
	Bias       []float32
	BiasStride int
	// BiasLists are the biases of single tokens where the plan's bias is sparse: one list for all or one for each row, nil for
	// none.
	BiasLists [][]ir.TokenBias
	// Mask allows tokens: word v>>5, bit v&31. Rows of MaskWords words (0 means ceil(V/32)), one for all or one for each;
	// tokens past the words given are not allowed.
	Mask      []uint32
	MaskWords int
	// AllowIDs allows the ids of a list and no other; a nil list allows all. BanIDs takes ids away. One list for all rows or one
	// for each.
	AllowIDs, BanIDs [][]int32
	// Repetition (1 is off), Frequency and Presence (0 is off) are the penalties (ir.Penalty) of tokens that have been there; nil
	// is off.
	Repetition, Frequency, Presence []float32
	// Counts says which tokens have been there: how often in the output, and ir.CountPrompt of those in the prompt. [V], or
	// [B, V] with rows CountStride values apart; or lists of the tokens that have, one for all rows or one for each.
	Counts      []uint32
	CountStride int
	CountLists  [][]ir.TokenCount
	// TopK, TopP and MinP narrow the tokens that may be drawn (docs/truncation.md): off at k <= 0 or k >= V, p >= 1, min-p 0.
	TopK       []int32
	TopP, MinP []float32
	// DrawCounts is how many tokens are drawn of a row, 1 to the plan's MaxDraws; nil is MaxDraws.
	DrawCounts []int32
	// ListIDs are the ids whose log-probabilities are asked for: one list for all rows or one for each.
	ListIDs [][]int32
	// Slots, where the plan has them, says which of SlotCount sets of parameters each row takes: everything above then has one
	// value (row, list) a slot. Rows of one slot share their noise.
	Slots     []int32
	SlotCount int
}

// Result is what a call found for each row.
type Result struct {
	// Tokens are the sampled ids; ir.NoToken where Status is not ok.
	Tokens []int32
	Status []ir.Status
	// Scores are z/T + g of the tokens (z for greedy rows; the log-mass + g of the tokens' blocks where grouped), NaN without a
	// token; nil unless the plan's Spec asks.
	Scores []float32
	// LogSumExp is the logarithm of the sum of exp(z/T) over the allowed tokens (T = 0 and greedy plans count as T = 1), NaN
	// without a token; nil unless the plan's Spec asks. A kernel repeats it to the last bit; another one may not.
	LogSumExp []float32
	// Draws are [B, MaxDraws] tokens, each row's in the order in which they were drawn, ir.NoToken past them; nil for plans of
	// single draws. DrawScores are their scores in draws without replacement, NaN past them.
	Draws      []int32
	DrawScores []float32
	// LogProbs are the log-probabilities of the tokens in the plan's mode, never above 0. Ranks are their places among the tokens
	// of the mode's distribution (all of the vocabulary; of a processed one, those that may be drawn) by falling logit, from 1. NaN
	// and 0 without a token; nil unless the plan's Spec asks.
	LogProbs []float32
	Ranks    []int32
	// TopIDs and TopLogProbs are [B, TopN]: the first TopN tokens by rank, ir.NoToken and -inf where the distribution has fewer,
	// NaN without a token.
	TopIDs      []int32
	TopLogProbs []float32
	// ListLogProbs are the log-probabilities of each row's ListIDs: -inf outside the distribution, NaN without a token.
	ListLogProbs [][]float32
	// Passes is how often each row went over the vocabulary; once on the CPU.
	Passes []int32
	// Seeds are the seeds that were used, drawn ones included; nil for plans without noise.
	Seeds []uint64
	// Kernel names what ran.
	Kernel string
}

// InputError says which input of a call cannot be honoured.
type InputError struct {
	Field string
	Rule  string
	Value any
}

func (e *InputError) Error() string {
	if e.Value == nil {
		return fmt.Sprintf("sampler: %s: %s", e.Field, e.Rule)
	}
	return fmt.Sprintf("sampler: %s is %v: %s", e.Field, e.Value, e.Rule)
}

// batch is a checked call: every default is filled in.
type batch struct {
	rows       int
	slots      int // sets of parameters: rows, unless rows say which they take
	shape      ir.Shape
	hidden     []uint16 // [rows, shape.Hidden]
	seeds      []uint64 // 1 or rows
	pos        []uint64 // 1 or rows
	temp       []float32
	bias       []float32
	mask       []uint32
	draw       uint32
	tag        uint32
	biasRow    int // stride; 0 for a vector
	maskRow    int // stride; 0 for one mask
	words      int
	drawCounts []int32 // 1 or rows; nil for plans of single draws
	edited     edits   // of a chain with edits, on devices with kernels
	topN       int     // likeliest tokens of a row
	params     Rows    // as given, and checked: what stands in no field above
}

// withoutEmpty has nothing where a slice is empty: whoever cuts buffers to length 0 means that there is none.
func (r Rows) withoutEmpty() Rows {
	r.Temperature, r.Bias, r.BiasLists, r.Mask = some(r.Temperature), some(r.Bias), some(r.BiasLists), some(r.Mask)
	r.AllowIDs, r.BanIDs, r.Counts, r.CountLists = some(r.AllowIDs), some(r.BanIDs), some(r.Counts), some(r.CountLists)
	r.Repetition, r.Frequency, r.Presence = some(r.Repetition), some(r.Frequency), some(r.Presence)
	r.TopK, r.TopP, r.MinP = some(r.TopK), some(r.TopP), some(r.MinP)
	r.DrawCounts, r.ListIDs = some(r.DrawCounts), some(r.ListIDs)
	return r
}

func some[T any](x []T) []T {
	if len(x) == 0 {
		return nil
	}
	return x
}

// newBatch checks a call against the plan's spec and shape.
func newBatch(spec Spec, shape ir.Shape, hidden []uint16, r Rows) (*batch, error) {
	r = r.withoutEmpty()
	if len(hidden)%shape.Hidden != 0 {
		return nil, &InputError{"hidden states", fmt.Sprintf("want a whole number of rows of %d values", shape.Hidden), len(hidden)}
	}
	b := &batch{rows: len(hidden) / shape.Hidden, shape: shape, hidden: hidden, draw: r.Draw, tag: r.StreamTag, topN: spec.TopN, params: r}
	c := spec.Computation()
	for _, check := range []func(ir.Computation, Rows) error{
		b.setSlots, b.setNoise, b.setTemperature, b.setBias, b.setMask,
		b.checkBiasLists, b.checkIDs, b.checkPenalties, b.checkCounts, b.checkTruncation, b.checkDraws, b.checkListed,
	} {
		if err := check(c, r); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// perRow checks that there is one value, or one for each row.
func (b *batch) perRow(field string, n int) error {
	if n != 1 && n != b.slots {
		return &InputError{field, "want " + b.oneOrEach("value"), fmt.Sprintf("%d values", n)}
	}
	return nil
}

func (b *batch) setNoise(c ir.Computation, r Rows) error {
	if !c.Sampler.Random() {
		if r.Seeds != nil || r.Positions != nil || r.Unseeded != nil || r.Draw != 0 || r.StreamTag != 0 {
			return &InputError{"seeds, positions, draw and stream tag", "a greedy plan has no noise to key", nil}
		}
		return nil
	}
	if err := ir.ValidStreamTag(r.StreamTag); err != nil {
		return &InputError{"stream tag", "want " + err.Error(), r.StreamTag}
	}
	if r.Unseeded != nil && len(r.Unseeded) != b.slots {
		return &InputError{"unseeded", fmt.Sprintf("want %d values", b.slots), fmt.Sprintf("%d values", len(r.Unseeded))}
	}
	if r.Seeds == nil {
		return b.drawAllSeeds(r)
	}
	if err := b.perRow("seeds", len(r.Seeds)); err != nil {
		return err
	}
	if r.Positions == nil {
		return &InputError{"positions", "a seeded row needs its position", nil}
	}
	if err := b.perRow("positions", len(r.Positions)); err != nil {
		return err
	}
	b.seeds, b.pos = r.Seeds, r.Positions
	return b.drawSeeds(r.Unseeded)
}

func (b *batch) drawAllSeeds(r Rows) error {
	for row, u := range r.Unseeded {
		if !u {
			return &InputError{"seeds", fmt.Sprintf("row %d is not unseeded and there are none", row), nil}
		}
	}
	b.pos = r.Positions
	if b.pos == nil {
		b.pos = []uint64{0}
	}
	if err := b.perRow("positions", len(b.pos)); err != nil {
		return err
	}
	b.seeds = osSeeds(b.slots)
	return nil
}

// drawSeeds replaces the seeds of unseeded rows.
func (b *batch) drawSeeds(unseeded []bool) error {
	if unseeded == nil {
		return nil
	}
	seeds := make([]uint64, b.slots)
	fresh := osSeeds(b.slots)
	for i := range seeds {
		seeds[i] = b.seeds[min(i, len(b.seeds)-1)]
		if unseeded[i] {
			seeds[i] = fresh[i]
		}
	}
	b.seeds = seeds
	return nil
}

// osSeeds draws n seeds from the operating system: 64 bits each, so that 10^5 of them repeat with a chance of 3e-10.
func osSeeds(n int) []uint64 {
	buf := make([]byte, 8*n)
	rand.Read(buf) // never fails (crypto/rand)
	seeds := make([]uint64, n)
	for i := range seeds {
		seeds[i] = binary.LittleEndian.Uint64(buf[8*i:])
	}
	return seeds
}

func (b *batch) setTemperature(c ir.Computation, r Rows) error {
	if !c.Chain.Temperature {
		if r.Temperature != nil {
			return &InputError{"temperature", "the plan's transform has none", nil}
		}
		return nil
	}
	if err := b.perRow("temperature", len(r.Temperature)); err != nil {
		return err
	}
	for row, t := range r.Temperature {
		if err := ir.ValidTemperature(t); err != nil {
			return &InputError{fmt.Sprintf("temperature of row %d", row), "want " + err.Error(), t}
		}
	}
	if c.Sampler.Random() {
		b.temp = r.Temperature
	}
	return nil
}

func (b *batch) setBias(c ir.Computation, r Rows) error {
	v := b.shape.Vocab
	switch {
	case (c.Chain.Bias == ir.BiasNone || c.Chain.Bias == ir.BiasSparse) && (r.Bias != nil || r.BiasStride != 0):
		return &InputError{"bias", "the plan's transform has no dense one", nil}
	case c.Chain.Bias == ir.BiasVector && (len(r.Bias) != v || r.BiasStride != 0):
		return &InputError{"bias", fmt.Sprintf("want %d values, one a token", v), fmt.Sprintf("%d values, stride %d", len(r.Bias), r.BiasStride)}
	case c.Chain.Bias == ir.BiasMatrix:
		b.biasRow = r.BiasStride
		if b.biasRow == 0 {
			b.biasRow = v
		}
		if b.biasRow < v {
			return &InputError{"bias stride", fmt.Sprintf("want %d or more", v), r.BiasStride}
		}
		if want := (b.slots-1)*b.biasRow + v; b.slots > 0 && len(r.Bias) < want {
			return &InputError{"bias", fmt.Sprintf("want [%d, %d]: %d values", b.slots, v, want), fmt.Sprintf("%d values", len(r.Bias))}
		}
	}
	b.bias = r.Bias
	return nil
}

func (b *batch) setMask(c ir.Computation, r Rows) error {
	if !c.Chain.Mask {
		if r.Mask != nil || r.MaskWords != 0 {
			return &InputError{"mask", "the plan's transform has none", nil}
		}
		return nil
	}
	b.words = r.MaskWords
	if b.words == 0 {
		b.words = (b.shape.Vocab + 31) / 32
	}
	if b.words < 0 || len(r.Mask) != b.words && len(r.Mask) != b.words*b.slots {
		return &InputError{"mask", fmt.Sprintf("want %s of %d words", b.oneOrEach("row"), b.words), fmt.Sprintf("%d words", len(r.Mask))}
	}
	if len(r.Mask) != b.words {
		b.maskRow = b.words
	}
	b.mask = r.Mask
	return nil
}
