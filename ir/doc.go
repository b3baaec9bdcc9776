// Package ir says what a kernel computes: the transform chain of the logits, the sampler, the outputs, and the scalar
// expression graph that turns one accumulator into one score. It knows nothing of tiles, registers or PTX.
//
// For row b and token v (design section 3):
//
//	y = sum_k H[b,k] W[v,k]                                   float32, ascending k
//	z = penalized(softcap(scale * y) + bias), -inf where masked   Chain
//	score = a z + t g, with (a, t) = (1, T) if T <= 1, (1/T, 1) if T > 1, (1, 0) if T = 0
//	token = argmax_v score, the lowest v among equals
//	lse = log sum_v exp(z/T), with T = 0 taken for 1          LogSumExp
//
// The score is z/T + g times min(T, 1): the same order of tokens, but a small temperature cannot overflow it, and T = 0
// is greedy without a second path. Grouped scores blocks of 16 tokens in the same way, by the logarithm of their mass, and
// draws the token of the block that wins (BlockScore, Race).
package ir
