// Package sampler is the runtime: it opens a device, loads an LM head, plans kernels for it and samples tokens.
//
//	dev, err := sampler.Open(sampler.Auto)
//	head, err := dev.LoadHead(ctx, sampler.Weights{Source: w, Vocab: 151936, Hidden: 4096})
//	plan, err := head.Plan(ctx, sampler.Spec{Chain: ir.Chain{Temperature: true}, MaxBatch: 256})
//	res, err := plan.Sample(ctx, hidden, sampler.Rows{Seeds: seeds, Positions: positions, Temperature: temperature})
//
// The same program runs on a GPU (cuda:N, kernels emitted and compiled on the spot) and without one (cpu, the reference),
// with the same tokens: a token depends on its row's hidden state, parameters, seed and position, and on nothing else.
//
// Spec.Sampler picks one of two exact samplers, gumbel and grouped, which draw other tokens of the same distribution, or
// greedy; Spec.Score and Spec.LogSumExp ask for numbers beside the tokens (docs/noise.md defines them all).
//
// Rows have parameters of their own (Rows, docs/parameters.md): temperature, bias, penalties, lists of ids, mask, top-k, top-p,
// min-p, and the number of draws; Spec says which a plan takes, and which log-probabilities it reports. What a device cannot do is
// refused when planning, as an *UnsupportedError.
//
// Several devices, or several ranks on one, share a head's vocabulary in a group (OpenGroup, docs/parallel.md), in one process or in
// several: with the tokens of one device.
//
// Devices, heads and plans are safe from any goroutine. Closing one waits for its calls under way, and closes what was made of it.
package sampler
