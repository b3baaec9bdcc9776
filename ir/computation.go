package ir

import "fmt"

// Sampler is how a token is chosen from the transformed logits.
type Sampler uint8

const (
	// Gumbel adds exact Gumbel noise to every logit and takes the largest: an exact categorical sample.
	Gumbel Sampler = iota
	// Greedy takes the largest logit.
	Greedy
	// Grouped draws one Gumbel for the log-mass of each block of 16 aligned tokens, and a token of the block that wins: the
	// same distribution by another path (FlashSampling, arXiv 2603.15854, lemma D.2; docs/noise.md).
	Grouped
)

var samplerNames = [...]string{Gumbel: "gumbel", Greedy: "greedy", Grouped: "grouped"}

// Random reports whether the sampler draws noise.
func (s Sampler) Random() bool { return s != Greedy }

// String returns the sampler's name.
func (s Sampler) String() string { return samplerNames[s] }

// ParseSampler reads a sampler's name.
func ParseSampler(s string) (Sampler, error) {
	for i, name := range samplerNames {
		if s == name {
			return Sampler(i), nil
		}
	}
	return 0, fmt.Errorf("ir: unknown sampler %q: want gumbel, grouped or greedy", s)
}

// Status says how a row ended.
type Status int32

const (
	// StatusOK: the token is a sample.
	StatusOK Status = 0
	// StatusEmpty: the row has no allowed logit above -inf; its token is -1.
	StatusEmpty Status = 1
	// StatusNaN: an allowed logit is NaN; the token is -1.
	StatusNaN Status = 2
	// StatusBadTemperature: the temperature is negative, NaN or above MaxTemperature; the token is -1.
	StatusBadTemperature Status = 3
	// StatusBadParameter: top-k, top-p, min-p, a penalty or the number of draws is out of its range; the token is -1.
	StatusBadParameter Status = 4
	// StatusUndecided: the passes made leave open which tokens top-p or min-p keep; the token is -1.
	StatusUndecided Status = 5
	// StatusPeer: the rank of another shard has not been heard of in time; the token is -1.
	StatusPeer Status = 6
)

var statusNames = [...]string{"ok", "empty", "nan", "bad-temperature", "bad-parameter", "undecided", "peer"}

// String returns the status as results spell it.
func (s Status) String() string {
	if s < 0 || int(s) >= len(statusNames) {
		return fmt.Sprintf("status(%d)", int32(s))
	}
	return statusNames[s]
}

// MarshalText implements encoding.TextMarshaler.
func (s Status) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// NoToken is the token of a row that could not be sampled.
const NoToken = -1

// UndecidedToken stands for the likeliest tokens of a row whose list has overflowed: a further pass knows more.
const UndecidedToken = -2

// Computation is what one kernel computes for every row.
type Computation struct {
	Chain   Chain
	Sampler Sampler
	// Score asks for each row's winning score beside its token, in float32: z/T + g (z for greedy rows); the block's
	// log-mass + g for Grouped.
	Score bool
	// LogSumExp asks for each row's log-sum-exp of z/T over the allowed tokens, in float32; T = 0 counts as 1 here. Truncation
	// does not change it.
	LogSumExp bool
	// Truncation narrows the tokens that may be drawn.
	Truncation Truncation
	// Draws says how more tokens than one are drawn, at most MaxDraws of a row; the first is the ordinary sample.
	Draws    Draws
	MaxDraws int
	// LogProb asks for the log-probability of each row's token, in one mode.
	LogProb LogProb
	// Rank asks for the place of each row's token among the tokens of the mode (LogProb), from 1.
	Rank bool
	// TopN asks for the ids and log-probabilities of that many likeliest tokens of every row; 0 to MaxTopN.
	TopN int
	// Listed asks for the log-probabilities of a list of ids of every row.
	Listed bool
	// Shard says that the vocabulary is cut.
	Shard Shard
	// Slots takes the parameters of row i from slot Slots[i] instead of slot i.
	Slots bool
}

// Normalize drops what cannot change a token: a greedy sampler has no use for the temperature.
func (c Computation) Normalize() Computation {
	if c.Sampler == Greedy {
		c.Chain.Temperature = false
	}
	if !c.Chain.scaled() {
		c.Chain.Scale = 0
	}
	return c
}

// Validate reports a computation that cannot be built.
func (c Computation) Validate() error {
	if int(c.Sampler) >= len(samplerNames) {
		return fmt.Errorf("ir: unknown sampler %d", c.Sampler)
	}
	if int(c.Shard) >= len(shardNames) {
		return fmt.Errorf("ir: unknown kind of shard %d", c.Shard)
	}
	for _, check := range []func() error{c.Chain.Validate, c.validateTruncation, c.validateDraws, c.validateOutputs} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// Shape is the size of one problem.
type Shape struct {
	// Vocab is the number of tokens that may be sampled; the weights may have more (padded) rows.
	Vocab int
	// Hidden is the length of a hidden state.
	Hidden int
}

// MaxVocab bounds the token ids, so that an id and its complement stay apart as 32-bit integers.
const MaxVocab = 1<<31 - 1

// Validate reports a shape that no path can run.
func (s Shape) Validate() error {
	if s.Vocab < 1 || s.Vocab > MaxVocab {
		return fmt.Errorf("ir: vocabulary size is %d: want 1 to %d", s.Vocab, MaxVocab)
	}
	if s.Hidden < 1 || s.Hidden > 1<<20 {
		return fmt.Errorf("ir: hidden size is %d: want 1 to %d", s.Hidden, 1<<20)
	}
	return nil
}
