package ir

import "fmt"

// Shard says whether a kernel has the vocabulary as a whole, or a run of its ids whose winners are still to meet those of other
// runs. Ids stay those of the whole vocabulary, in the noise too, so that a row's token does not depend on how it is cut.
type Shard uint8

const (
	// Whole is all of the vocabulary.
	Whole Shard = iota
	// ShardRecords leaves a record of each row's best, which something else brings together with those of the other shards.
	ShardRecords
	// ShardExchange brings the records of all shards together by itself, through the memory of the devices that have them.
	ShardExchange
)

var shardNames = [...]string{Whole: "whole", ShardRecords: "shard", ShardExchange: "exchange"}

// String returns the name that kernels' names carry.
func (s Shard) String() string { return shardNames[s] }

// ParseShard reads what a kernel of a shard does with its records, "records" or "exchange"; "" is Whole.
func ParseShard(s string) (Shard, error) {
	switch s {
	case "":
		return Whole, nil
	case "records":
		return ShardRecords, nil
	case "exchange":
		return ShardExchange, nil
	}
	return 0, fmt.Errorf("ir: unknown kind of shard %q: want records or exchange", s)
}

// Span is a run of ids: Count of them from Start on. None is a run too.
type Span struct{ Start, Count int }

// End is the first id past the span.
func (s Span) End() int { return s.Start + s.Count }

// SpanError says which rule the spans of shards break.
type SpanError struct {
	Rank int // of the span
	Span Span
	Rule string
}

func (e *SpanError) Error() string {
	return fmt.Sprintf("ir: shard %d is [%d, %d): want %s", e.Rank, e.Span.Start, e.Span.End(), e.Rule)
}

// ValidSpan reports a span that a computation cannot have of a vocabulary, as a *SpanError; rank is only told.
func (c Computation) ValidSpan(rank int, s Span, vocab int) error {
	switch {
	case s.Start < 0 || s.Count < 0 || s.Start > vocab || s.Count > vocab-s.Start:
		return &SpanError{rank, s, fmt.Sprintf("one inside the vocabulary of %d", vocab)}
	case c.Sampler == Grouped && s.Count > 0 && s.Start%BlockTokens != 0:
		return &SpanError{rank, s, fmt.Sprintf("a start that is a multiple of %d with the grouped sampler, whose blocks no two shards may have", BlockTokens)}
	case c.Sampler == Grouped && s.Count > 0 && s.End()%BlockTokens != 0 && s.End() != vocab:
		return &SpanError{rank, s, fmt.Sprintf("an end that is a multiple of %d with the grouped sampler, whose blocks no two shards may have", BlockTokens)}
	}
	return nil
}

// ValidSpans reports spans that do not have every id of a vocabulary once, in the order of ranks, as a *SpanError. Empty ones may
// stand anywhere.
func (c Computation) ValidSpans(spans []Span, vocab int) error {
	end := 0
	for rank, s := range spans {
		if err := c.ValidSpan(rank, s, vocab); err != nil {
			return err
		}
		if s.Count == 0 {
			continue
		}
		if s.Start != end {
			return &SpanError{rank, s, fmt.Sprintf("a start of %d, where the shards before it end", end)}
		}
		end = s.End()
	}
	if end != vocab {
		return &SpanError{len(spans) - 1, Span{end, 0}, fmt.Sprintf("shards that have every id below %d", vocab)}
	}
	return nil
}

// EvenSpans cuts a vocabulary for a number of ranks, as evenly as multiples of 64 ids allow: the ids that a packed panel and a
// word of a mask have. The last ranks may have less, or none.
func EvenSpans(vocab, ranks int) []Span {
	const step = 64
	each := (vocab + ranks*step - 1) / (ranks * step) * step
	spans := make([]Span, ranks)
	for i := range spans {
		start := min(i*each, vocab)
		spans[i] = Span{start, min(each, vocab-start)}
	}
	return spans
}
