package reference

import (
	"math/bits"
	"slices"

	"github.com/fsgen/fsgen/ir"
)

// ranked sorts candidates: the larger score first, the lower id among equals.
func ranked(list []candidate) []candidate {
	slices.SortFunc(list, func(a, b candidate) int {
		if a.beats(b) {
			return -1
		}
		return 1
	})
	return list
}

// narrowed reports whether a filter of the row is on.
func (w *row) narrowed(vocab int) bool {
	return w.topK > 0 && w.topK < vocab || w.topP < 1 || w.minP > 0
}

// truncate returns the candidates that a row's filters keep, out of all in order, with z for a score.
func (w *row) truncate(t ir.Truncation, all []candidate, vocab int) []candidate {
	return w.truncateAt(t, all, vocab, 1)
}

// truncateAt has top-p take the mass times a factor for what it is.
func (w *row) truncateAt(t ir.Truncation, all []candidate, vocab int, factor float64) []candidate {
	if !t.Any() {
		return all
	}
	temperature := w.t
	if t.TemperatureLast {
		temperature = 1
	}
	weigh := weightsAt(temperature, all[0].score, vocab)
	if w.topK > 0 && w.topK < len(all) {
		all = all[:w.topK]
	}
	if w.topP < 1 {
		total := weigh.sum(all)
		if factor != 1 {
			total = uint64(float64(total) * factor)
		}
		all = all[:nucleus(weigh, all, total, w.topP)]
	}
	if w.minP > 0 {
		all = atLeast(weigh, all, w.minP)
	}
	return all
}

// nucleus is the length of the smallest prefix that reaches the target of top-p, out of a total.
func nucleus(weigh weights, all []candidate, total uint64, p float32) int {
	tail := uint64(1<<32) - uint64(float64(p)*(1<<32))
	tail += tail>>20 + 1<<7
	high, low := bits.Mul64(tail, total)
	dropped := high<<32 + low>>32
	var mass uint64
	for i, c := range all {
		mass += weigh.of(c.score)
		if mass+dropped >= total {
			return i + 1
		}
	}
	return len(all)
}

// atLeast keeps candidates at least p times as likely as the first.
func atLeast(weigh weights, all []candidate, p float32) (kept []candidate) {
	for _, c := range all {
		if float64(weigh.of(c.score)) >= float64(p)*float64(weigh.most()) {
			kept = append(kept, c)
		}
	}
	return kept
}
