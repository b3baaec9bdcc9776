package main

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
)

// report is what sample prints as JSON.
type report struct {
	Tokens []int32     `json:"tokens"`
	Status []ir.Status `json:"status"`
	Scores []any       `json:"scores,omitzero"` // asked for, they are there for no rows too
	// LogSumExp follows the scores in kind.
	LogSumExp []any    `json:"logsumexp,omitzero"`
	Seeds     []uint64 `json:"seeds,omitzero"`
	Device    string   `json:"device"`
	GPU       string   `json:"gpu,omitempty"`
	RNG       string   `json:"rng,omitempty"`
	Kernel    string   `json:"kernel,omitempty"`
	// Transform and Sampler say what was computed.
	Transform string `json:"transform"`
	Sampler   string `json:"sampler"`
}

func (o *sampling) print(e *env, dev *sampler.Device, spec sampler.Spec, res *sampler.Result) error {
	if !e.json {
		for i, t := range res.Tokens {
			fmt.Fprintln(e.stdout, o.line(res, i, t))
			if res.Status[i] != ir.StatusOK {
				e.note("row %d has no token: %s", i, res.Status[i])
			}
		}
		return nil
	}
	return json.NewEncoder(e.stdout).Encode(o.report(dev.Info(), spec, res))
}

// line is what is printed of a row: its token, and the log-sum-exp where that was asked for.
func (o *sampling) line(res *sampler.Result, row int, token int32) string {
	if !o.logSumExp {
		return fmt.Sprint(token)
	}
	return fmt.Sprintf("%d\t%v", token, res.LogSumExp[row])
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
	return r
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
