package verify

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
)

// kind is what the plans of a check compute, where the check leaves it open: with which noise, and whether with the
// log-sum-exp. The zero value is the default sampler without it.
type kind struct {
	sampler   ir.Sampler
	logSumExp bool
}

// groupedSums is the kind that covers what the default does not.
var groupedSums = kind{sampler: ir.Grouped, logSumExp: true}

// both is each check for the default sampler and for the grouped one.
func both(items []item) []item {
	out := slices.Clone(items)
	for _, it := range items {
		it.name, it.kind = "grouped: "+it.name, groupedSums
		out = append(out, it)
	}
	return out
}

// chosen drops the checks of samplers, and of names, that the options do not ask for. A check's data does not depend on what else runs.
func (r *run) chosen(items []item) ([]item, error) {
	if r.o.Sampler != "" {
		s, err := ir.ParseSampler(r.o.Sampler)
		if err != nil {
			return nil, err
		}
		items = slices.DeleteFunc(items, func(it item) bool { return it.kind.sampler != s })
	}
	if r.o.Match != "" {
		match, err := regexp.Compile(r.o.Match)
		if err != nil {
			return nil, fmt.Errorf("verify: %w", err)
		}
		items = slices.DeleteFunc(items, func(it item) bool { return !match.MatchString(it.name) })
	}
	return items, nil
}

// noisy and greedy are specs with scores, of the probe's kind.
func (p *probe) noisy(c string) sampler.Spec {
	return sampler.Spec{Chain: chain(c), Score: true, Sampler: p.kind.sampler, LogSumExp: p.kind.logSumExp}
}

func (p *probe) greedy(c string) sampler.Spec {
	return sampler.Spec{Chain: chain(c), Score: true, Sampler: ir.Greedy, LogSumExp: p.kind.logSumExp}
}

// plain is a spec that gives tokens and nothing else, for statistics.
func (p *probe) plain(c string) sampler.Spec {
	return sampler.Spec{Chain: chain(c), Sampler: p.kind.sampler, MaxBatch: 256}
}

// gumbel and greedy are specs with scores.
func gumbel(c string) sampler.Spec { return sampler.Spec{Chain: chain(c), Score: true} }
func greedy(c string) sampler.Spec {
	return sampler.Spec{Chain: chain(c), Score: true, Sampler: ir.Greedy}
}
