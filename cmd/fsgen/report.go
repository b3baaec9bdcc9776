package main

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
)

// report is what sample prints as JSON.
type report struct {
	Tokens []int32     `json:"tokens"`
	Status []ir.Status `json:"status"`
	Scores []any       `json:"scores,omitzero"` // asked for, they are there for no rows too
	// LogSumExp follows the scores in kind.
	LogSumExp []any `json:"logsumexp,omitzero"`
	// Draws are those of each row, without those that it has not; DrawScores beside them.
	Draws      [][]int32 `json:"draws,omitzero"`
	DrawScores [][]any   `json:"draw_scores,omitzero"`
	// LogProbs are of the distribution that LogProbMode names; the lists have one of each row.
	LogProbMode    string         `json:"logprob_mode,omitempty"`
	LogProbs       []any          `json:"logprobs,omitzero"`
	Ranks          []int32        `json:"ranks,omitzero"`
	TopLogProbs    [][]tokenValue `json:"top_logprobs,omitzero"`
	ListedLogProbs [][]tokenValue `json:"listed_logprobs,omitzero"`

	Seeds  []uint64 `json:"seeds,omitzero"`
	Device string   `json:"device"`
	GPU    string   `json:"gpu,omitempty"`
	RNG    string   `json:"rng,omitempty"`
	Kernel string   `json:"kernel,omitempty"`
	// Transform and Sampler say what was computed.
	Transform string `json:"transform"`
	Sampler   string `json:"sampler"`
	// Truncation is the filters of rows that are narrowed; Passes is how often each row went over the vocabulary, where it may take
	// several.
	Truncation []string `json:"truncation,omitempty"`
	Passes     []int32  `json:"passes,omitempty"`
}

func (o *sampling) print(e *env, info sampler.Info, spec sampler.Spec, res *sampler.Result) error {
	if len(res.Tokens) == 0 {
		e.note("there are no hidden states: no token was sampled")
	}
	if !e.json {
		for i, t := range res.Tokens {
			fmt.Fprintln(e.stdout, o.line(res, i, t))
			if res.Status[i] != ir.StatusOK {
				e.note("row %d has no token: %s", i, res.Status[i])
			}
		}
		return nil
	}
	return json.NewEncoder(e.stdout).Encode(o.report(info, spec, res))
}

// line is what is printed of a row: its token, or its draws, and the log-sum-exp and the log-probability where those were
// asked for.
func (o *sampling) line(res *sampler.Result, row int, token int32) string {
	line := fmt.Sprint(token)
	if res.Draws != nil {
		line = strings.Trim(fmt.Sprint(drawsOf(res, row)), "[]")
	}
	if o.logSumExp {
		line += fmt.Sprintf("\t%v", res.LogSumExp[row])
	}
	if res.LogProbs != nil {
		line += fmt.Sprintf("\t%v", res.LogProbs[row])
	}
	return line
}

// drawsOf are the draws of a row: its token alone where that is none.
func drawsOf(res *sampler.Result, row int) []int32 {
	n := len(res.Draws) / len(res.Tokens)
	list := res.Draws[row*n:][:n]
	if i := slices.Index(list, ir.NoToken); i >= 0 {
		list = list[:max(i, 1)]
	}
	return list
}

func (o *sampling) report(info sampler.Info, spec sampler.Spec, res *sampler.Result) report {
	r := report{Tokens: append([]int32{}, res.Tokens...), Status: append([]ir.Status{}, res.Status...), Device: info.Name, Kernel: res.Kernel,
		Transform: spec.Computation().Normalize().Chain.String(), Sampler: spec.Sampler.String()}
	if info.Driver != "" {
		r.GPU = info.Product
	}
	if spec.Sampler.Random() {
		r.RNG, r.Seeds = ir.NoiseName, append([]uint64{}, res.Seeds...)
	}
	if o.score {
		r.Scores = floatValues(res.Scores)
	}
	if o.logSumExp {
		r.LogSumExp = floatValues(res.LogSumExp)
	}
	if spec.Truncation.Any() {
		r.Truncation = spec.Truncation.Items()
	}
	if spec.Truncation.Any() || spec.Draws != ir.SingleDraw {
		r.Passes = res.Passes
	}
	o.reportLists(&r, spec, res)
	return r
}

// tokenValue is a token with its log-probability.
type tokenValue struct {
	ID      int32 `json:"id"`
	LogProb any   `json:"logprob"`
}

// reportLists fills in what has several values a row.
func (o *sampling) reportLists(r *report, spec sampler.Spec, res *sampler.Result) {
	for row := range res.Tokens {
		if res.Draws != nil {
			r.Draws = append(r.Draws, drawsOf(res, row))
		}
		if res.DrawScores != nil {
			r.DrawScores = append(r.DrawScores, floatValues(res.DrawScores[row*spec.MaxDraws:][:len(drawsOf(res, row))]))
		}
		if spec.TopN > 0 {
			at := row * spec.TopN
			r.TopLogProbs = append(r.TopLogProbs, tokenValues(res.TopIDs[at:][:spec.TopN], res.TopLogProbs[at:][:spec.TopN]))
		}
		if spec.ListLogProbs {
			r.ListedLogProbs = append(r.ListedLogProbs, tokenValues(o.logProbIDs, res.ListLogProbs[row]))
		}
	}
	if spec.LogProb != ir.NoLogProb {
		r.LogProbMode, r.LogProbs, r.Ranks = spec.LogProb.String(), floatValues(res.LogProbs), res.Ranks
	}
}

// tokenValues joins ids and log-probabilities, without those of no token.
func tokenValues(ids []int32, values []float32) []tokenValue {
	out := []tokenValue{}
	for i, id := range ids {
		if id != ir.NoToken {
			out = append(out, tokenValue{id, floatValue(values[i])})
		}
	}
	return out
}

func floatValues(values []float32) []any {
	out := []any{}
	for _, x := range values {
		out = append(out, floatValue(x))
	}
	return out
}

// floatValue is a score or a log-sum-exp as JSON can hold it, which has neither NaN (no token) nor infinity (an infinite logit won).
func floatValue(s float32) any {
	switch {
	case math.IsNaN(float64(s)):
		return nil
	case math.IsInf(float64(s), 0):
		return strconv.FormatFloat(float64(s), 'g', -1, 32)
	}
	return s
}
