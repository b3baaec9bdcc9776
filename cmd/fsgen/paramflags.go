package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/model"
	"github.com/fsgen/fsgen/sampler"
)

// rowParams are the flags of rows' parameters past the temperature, and of what is reported beside the tokens.
type rowParams struct {
	topK, topP, minP                string
	temperatureLast                 bool
	repetition, frequency, presence string
	counts, logitBias               string
	biasLast                        bool
	allowIDs, banIDs                []int32
	draws                           int
	withoutReplacement              bool
	logProbs                        string
	rank                            bool
	topLogProbs                     int
	logProbIDs                      []int32
}

func (p *rowParams) flags(f *pflag.FlagSet) {
	f.StringVar(&p.topK, "top-k", "", "draw among the K largest logits, or FILE.npy with one a row; 0 and less is off, and so is V and more")
	f.StringVar(&p.topP, "top-p", "", "draw among the likeliest tokens of this share, or FILE.npy; 1 is off")
	f.StringVar(&p.minP, "min-p", "", "draw among tokens this likely against the likeliest, or FILE.npy; 0 is off")
	f.BoolVar(&p.temperatureLast, "temperature-last", false, "top-k, top-p and min-p see the logits at temperature 1")
	f.StringVar(&p.repetition, "repetition-penalty", "", "divisor of positive logits of tokens that have been there, or FILE.npy; 1 is off")
	f.StringVar(&p.frequency, "frequency-penalty", "", "taken from a logit each time its token has been in the output, or FILE.npy")
	f.StringVar(&p.presence, "presence-penalty", "", "taken from a logit if its token has been in the output, or FILE.npy")
	f.StringVar(&p.counts, "counts", "", "FILE.npy: [V] or [B, V] counts of the output, plus 2^31 for tokens of the prompt")
	listVar(f, &p.logitBias, "logit-bias", "", "ID=VALUE,...: added to the logits of single tokens")
	f.BoolVar(&p.biasLast, "bias-last", false, "add the bias after the penalties instead of before them")
	f.Int32SliceVar(&p.allowIDs, "allow-ids", nil, "ID,...: no other token may be drawn")
	f.Int32SliceVar(&p.banIDs, "ban-ids", nil, "ID,...: these tokens may not be drawn")
	f.IntVar(&p.draws, "draws", 1, fmt.Sprintf("tokens to draw of each row, 1 to %d, independently", ir.MaxDraws))
	f.BoolVar(&p.withoutReplacement, "without-replacement", false, "draw distinct tokens (--draws)")
	f.StringVar(&p.logProbs, "logprobs", "", "report log-probabilities: raw (the model's), temperature, or processed (what is drawn from)")
	f.BoolVar(&p.rank, "rank", false, "report the tokens' ranks (needs --logprobs and --json)")
	f.IntVar(&p.topLogProbs, "top-logprobs", 0, fmt.Sprintf("report the likeliest tokens, up to %d (needs --logprobs and --json)", ir.MaxTopN))
	f.Int32SliceVar(&p.logProbIDs, "logprob-ids", nil, "ID,...: report their log-probabilities (needs --logprobs and --json)")
}

// checkParams refuses flags that contradict each other.
func (o *sampling) checkParams(json bool) error {
	for _, name := range []string{"rank", "top-logprobs", "logprob-ids"} {
		switch {
		case !o.changed(name):
		case !json:
			return usagef("--%s needs --json, where it is reported", name)
		case o.logProbs == "":
			return usagef("--%s needs --logprobs: of which distribution", name)
		}
	}
	switch truncates := o.topK != "" || o.topP != "" || o.minP != ""; {
	case o.temperatureLast && !truncates:
		return usagef("--temperature-last needs --top-k, --top-p or --min-p")
	case o.logitBias != "" && o.bias != "":
		return usagef("--logit-bias and --bias exclude each other")
	case o.counts != "" && o.repetition == "" && o.frequency == "" && o.presence == "":
		return usagef("--counts needs --repetition-penalty, --frequency-penalty or --presence-penalty")
	case o.withoutReplacement && !o.changed("draws"):
		return usagef("--without-replacement needs --draws")
	case o.draws < 1 || o.draws > ir.MaxDraws:
		return usagef("--draws is %d: want 1 to %d", o.draws, ir.MaxDraws)
	case o.topLogProbs < 0 || o.topLogProbs > ir.MaxTopN:
		return usagef("--top-logprobs is %d: want 0 to %d", o.topLogProbs, ir.MaxTopN)
	}
	return nil
}

// refuseGreedy refuses what does not change the largest logit, nor what is reported of it.
func (o *sampling) refuseGreedy() error {
	names := []string{"draws"}
	if o.logProbs != ir.ProcessedLogProb.String() {
		names = append(names, "top-k", "top-p", "min-p")
	}
	for _, name := range names {
		if o.changed(name) {
			return usagef("%s and --%s exclude each other: a greedy sampler takes the largest logit", o.greedyFlag(), name)
		}
	}
	return nil
}

func (o *sampling) setTruncation(_ *env, in *opened, spec *sampler.Spec, rows *sampler.Rows) (err error) {
	t := &spec.Truncation
	*t = ir.Truncation{TopK: o.topK != "", TopP: o.topP != "", MinP: o.minP != "", TemperatureLast: o.temperatureLast}
	if !spec.Sampler.Random() {
		if err := o.refuseGreedy(); err != nil {
			return err
		}
	}
	if t.TopK {
		if rows.TopK, err = topKFlag(o.topK, in); err != nil {
			return err
		}
	}
	if t.TopP {
		if rows.TopP, err = float32Flag("--top-p", o.topP, in.rows, ir.ValidTopP); err != nil {
			return err
		}
	}
	if t.MinP {
		rows.MinP, err = float32Flag("--min-p", o.minP, in.rows, ir.ValidMinP)
	}
	return err
}

// topKFlag reads a number, or a .npy with one number or one a row: 0 and less is off, and so is the vocabulary's size and more,
// however large.
func topKFlag(text string, in *opened) ([]int32, error) {
	list, err := int64Flag("--top-k", text, in.rows)
	if err != nil {
		return nil, err
	}
	out := make([]int32, len(list))
	for i, k := range list {
		out[i] = int32(min(max(k, math.MinInt32), math.MaxInt32)) // both ends are off
		err := ir.ValidTopK(int(out[i]), in.vocab)
		switch {
		case err != nil && isNpy(text):
			return nil, fmt.Errorf("%s: top-k %d is %d: want %v", text, i, k, err)
		case err != nil:
			return nil, usagef("--top-k is %d: want %v", k, err)
		}
	}
	return out, nil
}

// int64Flag reads a number, or a .npy with one number or one a row.
func int64Flag(flag, text string, rows int) ([]int64, error) {
	if !isNpy(text) {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, usagef("%s: %q: want an integer below 2^63 (0 and less is off), or FILE.npy", flag, text)
		}
		return []int64{n}, nil
	}
	return integerFile(flag, text, rows, (*model.Array).Int64s)
}

// float32Flag reads a number, or a .npy with one number or one a row, that valid allows. valid refuses NaN, with the rule.
func float32Flag(flag, text string, rows int, valid func(float32) error) ([]float32, error) {
	if !isNpy(text) {
		x, err := strconv.ParseFloat(text, 32)
		if err == nil {
			err = valid(float32(x))
		}
		if err != nil {
			return nil, usagef("%s: %q: want %v, or FILE.npy", flag, text, valid(float32(math.NaN())))
		}
		return []float32{float32(x)}, nil
	}
	a, err := model.ReadNpy(text)
	if err != nil {
		return nil, err
	}
	what := strings.TrimPrefix(flag, "--")
	list, err := numbers(a, what)
	if err != nil {
		return nil, err
	}
	for i, x := range list {
		if err := valid(x); err != nil {
			return nil, fmt.Errorf("%s: %s %d is %v: want %v", a.Name(), what, i, x, err)
		}
	}
	return list, onePerRow(a, len(list), rows)
}

func (o *sampling) setPenalties(_ *env, in *opened, spec *sampler.Spec, rows *sampler.Rows) (err error) {
	for _, p := range []struct {
		flag, text string
		valid      func(float32) error
		list       *[]float32
	}{
		{"--repetition-penalty", o.repetition, ir.ValidRepetition, &rows.Repetition},
		{"--frequency-penalty", o.frequency, ir.ValidPenalty, &rows.Frequency},
		{"--presence-penalty", o.presence, ir.ValidPenalty, &rows.Presence},
	} {
		if p.text == "" {
			continue
		}
		spec.Chain.Penalties = true
		if *p.list, err = float32Flag(p.flag, p.text, in.rows, p.valid); err != nil {
			return err
		}
	}
	if !spec.Chain.Penalties {
		return nil
	}
	if o.counts == "" {
		return usagef("penalties need --counts: which tokens have been there")
	}
	return readCounts(o.counts, in, rows)
}

func readCounts(path string, in *opened, rows *sampler.Rows) error {
	a, err := model.ReadNpy(path)
	if err != nil {
		return err
	}
	shape := a.Shape()
	if !(len(shape) == 1 && shape[0] == in.vocab || len(shape) == 2 && shape[0] == in.rows && shape[1] == in.vocab) {
		return fmt.Errorf("%s: counts have shape %v: want [%d] or [%d, %d]", a.Name(), shape, in.vocab, in.rows, in.vocab)
	}
	rows.Counts, err = a.Uint32s()
	return err
}

func (o *sampling) setLists(_ *env, in *opened, spec *sampler.Spec, rows *sampler.Rows) error {
	if o.logitBias != "" {
		list, err := biasFlag(o.logitBias, in.vocab)
		if err != nil {
			return err
		}
		spec.Chain.Bias, rows.BiasLists = ir.BiasSparse, [][]ir.TokenBias{list}
	}
	spec.Chain.BiasLast = o.biasLast
	if o.biasLast && (spec.Chain.Bias == ir.BiasNone || !spec.Chain.Penalties) {
		return usagef("--bias-last needs a bias and a penalty")
	}
	for _, l := range []struct {
		flag string
		ids  []int32
		list *[][]int32
	}{{"allow-ids", o.allowIDs, &rows.AllowIDs}, {"ban-ids", o.banIDs, &rows.BanIDs}} {
		if !o.changed(l.flag) {
			continue
		}
		if err := checkIDs(l.flag, l.ids, in.vocab); err != nil {
			return err
		}
		spec.Chain.IDs, *l.list = true, [][]int32{l.ids}
	}
	return nil
}

func checkIDs(flag string, ids []int32, vocab int) error {
	if err := ir.ValidIDs(ids, vocab); err != nil {
		return usagef("--%s: %s", flag, reason(err))
	}
	return nil
}

// biasFlag reads ID=VALUE,...
func biasFlag(text string, vocab int) (list []ir.TokenBias, err error) {
	for _, item := range strings.Split(text, ",") {
		id, value, _ := strings.Cut(item, "=")
		v, idErr := strconv.ParseInt(strings.TrimSpace(id), 10, 32)
		x, valueErr := strconv.ParseFloat(strings.TrimSpace(value), 32)
		if errors.Join(idErr, valueErr) != nil {
			return nil, usagef("--logit-bias: %q: want ID=VALUE, as in 50256=-100", item)
		}
		list = append(list, ir.TokenBias{ID: int32(v), Value: float32(x)})
	}
	if err := ir.ValidBias(list, vocab); err != nil {
		return nil, usagef("--logit-bias: %s", reason(err))
	}
	return list, nil
}

func (o *sampling) setReports(_ *env, in *opened, spec *sampler.Spec, rows *sampler.Rows) (err error) {
	if o.changed("draws") {
		spec.Draws, spec.MaxDraws = ir.WithReplacement, o.draws
		if o.withoutReplacement {
			spec.Draws = ir.WithoutReplacement
		}
	}
	if spec.LogProb, err = parseLogProbs(o.logProbs); err != nil {
		return err
	}
	spec.Rank, spec.TopN = o.rank, o.topLogProbs
	if o.changed("logprob-ids") {
		spec.ListLogProbs, rows.ListIDs = true, [][]int32{o.logProbIDs}
		return checkIDs("logprob-ids", o.logProbIDs, in.vocab)
	}
	return nil
}
