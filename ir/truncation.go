package ir

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
)

// Truncation says by which parameters rows narrow the tokens that may be drawn; the values are each row's own, at launch.
// Filters apply in the order top-k, top-p over what top-k left, min-p (docs/truncation.md).
type Truncation struct {
	// TopK keeps the k tokens of largest z, the lowest ids among equals.
	TopK bool
	// TopP keeps the smallest prefix of the tokens, by falling z and rising id, that has the share p of the mass.
	TopP bool
	// MinP keeps tokens that are at least min-p times as likely as the likeliest.
	MinP bool
	// TemperatureLast has the filters see the distribution at T = 1, and the temperature shape the draw among what they kept.
	TemperatureLast bool
}

// truncationItem is one thing that a truncation may have.
type truncationItem struct {
	name string
	has  *bool
}

func (t *Truncation) items() []truncationItem {
	return []truncationItem{{"top-k", &t.TopK}, {"top-p", &t.TopP}, {"min-p", &t.MinP}, {"temperature-last", &t.TemperatureLast}}
}

// Items lists the filters by name, in their order, and temperature-last if the temperature follows them.
func (t Truncation) Items() (items []string) {
	for _, item := range t.items() {
		if *item.has {
			items = append(items, item.name)
		}
	}
	return items
}

// String is the items in the form that ParseTruncation reads; "none" without any.
func (t Truncation) String() string {
	if items := t.Items(); len(items) > 0 {
		return strings.Join(items, ",")
	}
	return "none"
}

// ParseTruncation reads names of filters in any order, as in "top-k,top-p", and temperature-last; "" and "none" are none.
func ParseTruncation(s string) (t Truncation, err error) {
	if s == "" || s == "none" {
		return t, nil
	}
	for name := range strings.SplitSeq(s, ",") {
		name = strings.TrimSpace(name)
		items := t.items()
		at := slices.IndexFunc(items, func(item truncationItem) bool { return item.name == name })
		switch {
		case at < 0:
			return Truncation{}, fmt.Errorf("ir: unknown filter %q: want some of top-k, top-p, min-p and temperature-last", name)
		case *items[at].has:
			return Truncation{}, fmt.Errorf("ir: truncation %q: %s is named twice", s, name)
		}
		*items[at].has = true
	}
	return t, Computation{Truncation: t}.validateTruncation()
}

// RowScales reports whether rows have (alpha, tau) of their own: for their temperatures, or since some are compared by logits
// without noise, under truncation and to weigh draws with replacement.
func (c Computation) RowScales() bool {
	return c.Chain.Temperature || c.Truncation.Any() || c.Draws == WithReplacement
}

// MaxTopK bounds a k that narrows anything: from the vocabulary size on, and at 0 and below, top-k is off.
const MaxTopK = 1024

// Any reports whether any filter is there.
func (t Truncation) Any() bool { return t.TopK || t.TopP || t.MinP }

func (c Computation) validateTruncation() error {
	if c.Truncation.TemperatureLast && !c.Truncation.Any() {
		return errors.New("ir: temperature-last says that the temperature follows the filters: want top-k, top-p or min-p")
	}
	if c.Truncation.Any() && c.Sampler == Grouped {
		return errors.New("ir: top-k, top-p and min-p narrow tokens, and grouped draws blocks: want gumbel")
	}
	return nil
}

// ValidTopK reports a k that cannot be honoured for a vocabulary.
func ValidTopK(k, vocab int) error {
	if k > MaxTopK && k < vocab {
		return fmt.Errorf("at most %d, or 0 or %d and more for off", MaxTopK, vocab)
	}
	return nil
}

// ValidTopP reports a p that has no meaning. From 1 on top-p is off.
func ValidTopP(p float32) error {
	if !(p >= 0) {
		return errors.New("0 or more (1 and more is off)")
	}
	return nil
}

// ValidMinP reports a min-p that has no meaning. At 0 min-p is off.
func ValidMinP(p float32) error {
	if !(p >= 0 && p <= 1) {
		return errors.New("0 (off) to 1")
	}
	return nil
}

// Shares are multiples of 2^-32. The tail that top-p drops may be larger than 1-p by a 2^20th of itself and by 2^-25: what
// float32 may have made of the logits and of p. So [0.5, 0.25, 0.25] under p = 0.75 is its first two tokens.
const (
	tailRounding = 20 // bits
	shareOfUlp   = 1 << 7
)

// NucleusTarget is the weight that the smallest prefix of top-p has to reach, out of total, the sum of the weights that
// top-k left: total less the largest tail that may go. It is at least 1, so that the likeliest token stays whatever p is.
// p is at least 0 and below 1.
func NucleusTarget(total uint64, p float32) uint64 {
	tail := uint64(1<<32) - uint64(p*(1<<32)) // the product is exact, and cut off
	tail += tail>>tailRounding + shareOfUlp
	high, low := bits.Mul64(tail, total)
	dropped := high<<32 | low>>32
	if dropped >= total {
		return 1
	}
	return total - dropped
}

// MinPThreshold is the least weight that min-p keeps: that of the likeliest token times p, from 0 to 1, rounded up.
func MinPThreshold(p float32, vocab int) uint64 {
	x := p * float32(MaxWeight(vocab)) // exact: a power of two
	w := uint64(x)
	if float32(w) < x { // x has a fraction, so that it is below 2^24 and w is exact
		w++
	}
	return w
}
