package reference

import "github.com/fsgen/fsgen/ir"

// Request is one batch of rows to sample. Slices are read, never written or kept.
type Request struct {
	// H holds the hidden states [Batch, Hidden] in bf16, LDH elements from row to row (0 means Hidden).
	H   []uint16
	LDH int
	// W holds the weights [>= Vocab, Hidden] in bf16, LDW elements from row to row (0 means Hidden). Of a shard they are those of
	// its span, from the first on.
	W   []uint16
	LDW int

	Batch       int
	Shape       ir.Shape
	Computation ir.Computation
	// Span is the ids that the request is about, where the computation is of a shard (ir.Shard): the others are no tokens. All that
	// goes by ids, the noise too, goes by those of the whole vocabulary.
	Span ir.Span

	// Seeds and Positions hold one value a row, or one for all rows. Greedy samplers and injected noise need none.
	Seeds, Positions []uint64
	// Draw and StreamTag are the draw index and the stream tag of every row.
	Draw, StreamTag uint32

	// Temperature holds one value a row, or one for all rows, where the chain has a temperature.
	Temperature []float32
	// Bias holds the bias: [Vocab] with BiasStride 0, or [Batch, Vocab] with BiasStride elements from row to row.
	Bias       []float32
	BiasStride int
	// Mask holds MaskWords words a row, MaskStride words from row to row (0: one mask for all rows); token v is bit v&31
	// of word v>>5, set where the token is allowed. Tokens past the words are not allowed.
	Mask                  []uint32
	MaskStride, MaskWords int

	// Slots, where the computation has them, gives every row the slot that its parameters come from: all of Seeds to ListIDs then
	// have one value (row, list) a slot, or one for all, and there are SlotCount.
	Slots     []int32
	SlotCount int
	// TopK, TopP and MinP hold one value a row, or one for all rows, where the computation truncates by them.
	TopK       []int32
	TopP, MinP []float32
	// Repetition, Frequency and Presence hold one value a row, or one for all rows, where the chain has penalties; nil is off.
	Repetition, Frequency, Presence []float32
	// Counts holds the tokens' counts (ir.CountPrompt): [Vocab] for all rows with CountStride 0, or [Batch, Vocab] with
	// CountStride elements from row to row. CountLists holds them as one list a row, or one for all rows, instead.
	Counts      []uint32
	CountStride int
	CountLists  [][]ir.TokenCount
	// BiasLists holds one list a row, or one for all rows, where the bias is sparse.
	BiasLists [][]ir.TokenBias
	// AllowIDs and BanIDs hold one list a row, or one for all rows, where the chain has lists of ids. A nil list of AllowIDs
	// allows every token, an empty one none; a ban outranks.
	AllowIDs, BanIDs [][]int32
	// DrawCounts holds how many tokens are drawn, one value a row or one for all rows; nil is the computation's MaxDraws.
	DrawCounts []int32
	// ListIDs holds the ids whose log-probabilities are asked for, one list a row or one for all rows.
	ListIDs [][]int32

	// Logits [Batch, Vocab], or [Vocab] for all rows, where not nil, stands for the raw logits y; then H and W are nil.
	Logits []float32
	// Noise [Batch, Vocab], where not nil, stands for the noise g of a gumbel sampler.
	Noise []float32

	// NoSkip computes the noise of every allowed token, even of those that provably lose. The result is the same.
	NoSkip bool
}

// Result holds one value a row.
type Result struct {
	// Tokens are the sampled ids; ir.NoToken where Status is not ok.
	Tokens []int32
	Status []ir.Status
	// Scores are the winners' z/T + g, or z where the row is greedy; for a grouped sampler, the log-mass + g of the winners'
	// blocks. NaN where Status is not ok.
	Scores []float32
	// Best and SecondScores are the two largest scores as they are compared: z/T + g times min(T, 1).
	// SecondScores is -inf where no second token was allowed.
	Best, SecondScores []float32
	// Second are the runners-up; ir.NoToken where there is none. A grouped sampler compares blocks: its runner-up is the token
	// of the second block.
	Second []int32
	// LogSumExp is the logarithm of the sum of exp(z/T) over the allowed tokens (T = 0 counts as 1), computed in float64; NaN
	// where Status is not ok, nil unless the computation asks.
	LogSumExp []float32
	sums      []rowSum // what they are of

	// Draws are [Batch, MaxDraws] tokens: a row's draws in order, ir.NoToken past them. DrawScores are their scores, in the units
	// of Scores, where they are drawn without replacement; NaN past them.
	Draws      []int32
	DrawScores []float32
	// LogProbs and Ranks are the tokens' log-probabilities and places; NaN and 0 where Status is not ok.
	LogProbs []float32
	Ranks    []int32
	// TopIDs and TopLogProbs are [Batch, TopN]: the likeliest tokens by falling logit, ir.NoToken and -inf where there are no
	// more; NaN where Status is not ok.
	TopIDs      []int32
	TopLogProbs []float32
	// Listed are the log-probabilities of each row's list of ids: -inf outside the distribution, NaN where Status is not ok.
	Listed [][]float32
}

func newResult(batch int) *Result {
	return &Result{
		Tokens: make([]int32, batch), Status: make([]ir.Status, batch), Scores: make([]float32, batch),
		Best: make([]float32, batch), SecondScores: make([]float32, batch), Second: make([]int32, batch),
	}
}

func (r *Request) ldh() int { return orTight(r.LDH, r.Shape.Hidden) }
func (r *Request) ldw() int { return orTight(r.LDW, r.Shape.Hidden) }

func orTight(ld, hidden int) int {
	if ld == 0 {
		return hidden
	}
	return ld
}

// hidden is row b of H.
func (r *Request) hidden(b int) []uint16 { return r.H[b*r.ldh():][:r.Shape.Hidden] }

// logits is row b of Logits.
func (r *Request) logits(b int) []float32 {
	if len(r.Logits) == r.Shape.Vocab {
		return r.Logits
	}
	return r.Logits[b*r.Shape.Vocab:][:r.Shape.Vocab]
}

// weights is row v of W.
func (r *Request) weights(v int) []uint16 {
	return r.W[(v-r.span().Start)*r.ldw():][:r.Shape.Hidden]
}

// span is the ids that the request is about.
func (r *Request) span() ir.Span {
	if r.Computation.Shard == ir.Whole {
		return ir.Span{Count: r.Shape.Vocab}
	}
	return r.Span
}

// slot is where row b has its parameters.
func (r *Request) slot(b int) int {
	if r.Slots == nil {
		return b
	}
	return int(r.Slots[b])
}

// slots is how many rows of parameters there are.
func (r *Request) slots() int {
	if r.Computation.Slots {
		return r.SlotCount
	}
	return r.Batch
}

// ofSlot picks a value from a slice with one value a slot or one for all.
func ofSlot[T any](values []T, slot int) T {
	if len(values) == 1 {
		return values[0]
	}
	return values[slot]
}

// orElse is ofSlot where there are values.
func orElse[T any](values []T, slot int, otherwise T) T {
	if len(values) == 0 {
		return otherwise
	}
	return ofSlot(values, slot)
}
