// Package reference is the sampler in plain Go: the oracle of every test of an emitted kernel, and the device "cpu".
//
// It is written from the definition (docs/noise.md and the documentation of package ir), apart from the templates and
// from ir's expression graphs, so that one mistake cannot stand on both sides of a comparison. For row b and token v:
//
//	y = sum_k H[b,k] W[v,k]                                      float32, ascending k
//	z = softcap(scale * y) + bias, penalized, dropped where masked   float32, operation by operation
//	s = fma(tau, g, z * alpha)                                   float32; (alpha, tau) = (T <= 1 ? 1 : 1/T, T <= 1 ? T : 1)
//	token = argmax_v s, the lowest v among equals
//
// The grouped sampler compares blocks of 16 tokens by their log-mass and one Gumbel each, and draws a token of the winner.
// The log-sum-exp of z/T is summed in float64, in one order for all.
//
// Truncation, several draws, log-probabilities and ranks (docs/parameters.md, docs/truncation.md, docs/draws.md) are computed from
// all logits of a row, sorted.
//
// The noise g is that of "philox-v2", in float64 rounded once to float32; the softcap too is computed in float64 and
// rounded once. One random number bounds the noise of 16 neighbouring tokens; those whose bound loses draw none of their
// own (Request.NoSkip). A result is a function of one row's inputs: not of the batch, the slot, the block or the goroutines.
package reference
