package ir

import (
	"fmt"
	"math/bits"
)

// Draws says how a row's tokens past the first are drawn (docs/draws.md).
type Draws uint8

const (
	// SingleDraw draws one token.
	SingleDraw Draws = iota
	// WithReplacement draws independent tokens of the row's distribution.
	WithReplacement
	// WithoutReplacement draws distinct tokens: those of the largest scores.
	WithoutReplacement
)

var drawNames = [...]string{SingleDraw: "single", WithReplacement: "with-replacement", WithoutReplacement: "without-replacement"}

// String returns the name of the kind.
func (d Draws) String() string { return drawNames[d] }

// ParseDraws reads a kind of draws; "" and "single" are one token.
func ParseDraws(s string) (Draws, error) {
	for i, name := range drawNames {
		if s == name {
			return Draws(i), nil
		}
	}
	if s == "" {
		return SingleDraw, nil
	}
	return SingleDraw, fmt.Errorf("ir: unknown kind of draws %q: want with-replacement or without-replacement", s)
}

// Collects reports whether a kernel collects tokens of rows in lists, from which a second one takes what they draw: where filters
// narrow rows, and where they draw several tokens.
func (c Computation) Collects() bool {
	return c.Sampler == Gumbel && (c.Truncation.Any() || c.Draws != SingleDraw)
}

// MaxDraws bounds the draws of a row.
const MaxDraws = 64

func (c Computation) validateDraws() error {
	switch {
	case int(c.Draws) >= len(drawNames):
		return fmt.Errorf("ir: unknown kind of draws %d", c.Draws)
	case c.Draws == SingleDraw && c.MaxDraws != 0:
		return fmt.Errorf("ir: draws of a row are at most %d: want a kind, with or without replacement", c.MaxDraws)
	case c.Draws == SingleDraw:
		return nil
	case c.MaxDraws < 1 || c.MaxDraws > MaxDraws:
		return fmt.Errorf("ir: draws of a row are at most %d: want 1 to %d", c.MaxDraws, MaxDraws)
	case c.Sampler != Gumbel:
		return fmt.Errorf("ir: draws %s want the gumbel sampler, not %s", c.Draws, c.Sampler)
	}
	return nil
}

// Stream tags keep the uses of one seed and position apart: the noise under one tag is independent of that under any other.
// Tags from StreamUser to StreamReserved-1 are for callers; those from StreamReserved on are fsgen's.
const (
	// StreamSample is the tag of a plain sample.
	StreamSample uint32 = 0
	// StreamDraft, StreamAccept and StreamRedraw are those of speculative decoding: the draft's samples, the coins that accept
	// them and the samples in place of those refused.
	StreamDraft    uint32 = 1
	StreamAccept   uint32 = 2
	StreamRedraw   uint32 = 3
	StreamUser     uint32 = 16
	StreamReserved uint32 = 1 << 31
)

// RepeatCounter is the first Philox counter of the uniform numbers that decide, in draws with replacement, whether a token
// is repeated: draw j, from 2 on, has the counter RepeatCounter + j, beside the row's state, under the key of blocks and
// tokens, whose counters end below it.
const RepeatCounter = 3 << 30

// RepeatPoint turns 64 random bits into a point below total, the sum of a row's weights: a repeat is of the first token
// seen whose cumulated weight lies above the point, and there is none if no token's does.
func RepeatPoint(random, total uint64) uint64 {
	high, _ := bits.Mul64(random, total)
	return high
}

// ValidStreamTag reports a tag that is neither one of fsgen's nor a caller's.
func ValidStreamTag(tag uint32) error {
	if tag > StreamRedraw && tag < StreamUser || tag >= StreamReserved {
		return fmt.Errorf("0 to %d, or a caller's own: %d to %d", StreamRedraw, StreamUser, StreamReserved-1)
	}
	return nil
}
