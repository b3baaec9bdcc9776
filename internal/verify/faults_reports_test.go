package verify

import (
	"slices"
	"testing"

	"github.com/fsgen/fsgen/sampler"
)

// checkOfReports and checkOfEdits are the checks that see them, by the beginnings of their names.
const (
	checkOfReports = "random heads: gumbel, " + everyTransformRows + ", no score, raw log-probabilities, 20 likeliest"
	checkOfEdits   = "random heads: gumbel, " + everyEdit
)

// reportFaults mix up what is reported beside tokens, editFaults what single logits are changed by.
var reportFaults = []fault{
	{"the likeliest token is left out", &lens{out: each(func(b int, res *sampler.Result) {
		n := len(res.TopIDs) / len(res.Tokens)
		copy(res.TopIDs[b*n:(b+1)*n-1], res.TopIDs[b*n+1:(b+1)*n])
	})}, "quick", []string{checkOfReports}},
	{"the likeliest tokens of all rows are those of the first", &lens{out: each(func(b int, res *sampler.Result) {
		n := len(res.TopIDs) / len(res.Tokens)
		copy(res.TopIDs[b*n:(b+1)*n], res.TopIDs[:n])
		copy(res.TopLogProbs[b*n:(b+1)*n], res.TopLogProbs[:n])
	})}, "quick", []string{checkOfReports}},
	{"ranks are counted from 0", &lens{out: each(func(b int, res *sampler.Result) { res.Ranks[b]-- })}, "quick", []string{checkOfReports}},
	{"lists are read backwards", &lens{out: each(func(b int, res *sampler.Result) {
		res.ListLogProbs[b] = slices.Clone(res.ListLogProbs[b])
		slices.Reverse(res.ListLogProbs[b])
	})}, "quick", []string{checkOfReports}},
}

// disallowedFaults take what tokens that are not allowed have of a distribution for something else.
var disallowedFaults = []fault{
	{"a NaN of a token that is not allowed has the weight of an infinite logit", &lens{out: func(p *lensPlan, _ []uint16, _ sampler.Rows, res *sampler.Result) {
		for b := range res.LogProbs {
			if p.spec.LogProb.OfModel() && res.LogProbs[b] > -20 {
				res.LogProbs[b] = -22.8739
			}
		}
	}}, "degenerate", []string{"logits of tokens not allowed", "grouped: logits of tokens not allowed", "such logits where", "grouped: such logits where"}},
	{"infinite logits of tokens that are not allowed count for nothing", &lens{out: func(p *lensPlan, _ []uint16, _ sampler.Rows, res *sampler.Result) {
		for b := range res.LogProbs {
			res.LogProbs[b] = max(res.LogProbs[b], -7)
		}
	}}, "degenerate", []string{"logits of tokens not allowed", "grouped: logits of tokens not allowed", "such logits where", "grouped: such logits where"}},
}

var editFaults = []fault{
	{"penalties are ignored", &lens{in: rowsIn(func(_ *lensPlan, r *sampler.Rows) { r.Repetition, r.Frequency, r.Presence = nil, nil, nil })},
		"quick", []string{checkOfEdits}},
	{"counts of row 0 for all", &lens{in: rowsIn(func(_ *lensPlan, r *sampler.Rows) { r.CountLists = first(r.CountLists) })}, "quick", []string{checkOfEdits}},
	{"bans are ignored", &lens{in: rowsIn(func(_ *lensPlan, r *sampler.Rows) { r.BanIDs = nil })}, "quick", []string{checkOfEdits}},
	{"allowed lists of row 0 for all", &lens{in: rowsIn(func(_ *lensPlan, r *sampler.Rows) { r.AllowIDs = first(r.AllowIDs) })}, "quick", []string{checkOfEdits}},
	{"sparse biases are ignored", &lens{in: rowsIn(func(_ *lensPlan, r *sampler.Rows) { r.BiasLists = nil })}, "quick", []string{checkOfEdits}},
}

func TestPlantedFaultsOfReportsAndEdits(t *testing.T) {
	for _, f := range slices.Concat(reportFaults, disallowedFaults, editFaults) {
		t.Run(f.name, func(t *testing.T) {
			f.device.target = device{cpu(t)}
			fails(t, f.device, Options{Suite: f.suite, Seed: 1}, f.checks...)
		})
	}
}
