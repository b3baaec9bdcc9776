package bench

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
)

// panel is one problem on one GPU: a contender's times over the floor, by batch size.
type panel struct {
	title, subtitle string
	batches         []int
	points          map[string]map[int]point // by contender and batch size
}

// point is a median with its tenth and ninetieth percentiles, over the floor of the same run.
type point struct{ low, middle, high float64 }

// panelsOf sorts reports into panels, in the order in which problems first appear. Runs of one problem on one kind of GPU
// share a panel; where two have a contender at a batch size, the later of the list counts.
func panelsOf(reports []*Report) ([]*panel, error) {
	var out []*panel
	index := map[[2]string]*panel{}
	for _, r := range reports {
		title, subtitle := r.panelTitles()
		p := index[[2]string{title, subtitle}]
		if p == nil {
			p = &panel{title: title, subtitle: subtitle, points: map[string]map[int]point{}}
			index[[2]string{title, subtitle}] = p
			out = append(out, p)
		}
		p.add(r)
	}
	out = slices.DeleteFunc(out, func(p *panel) bool { return len(p.batches) == 0 })
	if len(out) == 0 {
		return nil, errors.New("nothing to draw: no run has times over a floor")
	}
	return out, nil
}

func (r *Report) panelTitles() (title, subtitle string) {
	p := r.Problem
	return fmt.Sprintf("%s: V = %s, D = %s", p.Model, thousands(p.Vocab), thousands(p.Hidden)),
		fmt.Sprintf("%s, %s, transform %s", r.Device.Name, p.what(), p.Transform)
}

// thousands writes a number with commas.
func thousands(n int) string {
	text := strconv.Itoa(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

func (p *panel) add(r *Report) {
	for i := range r.Results {
		x := &r.Results[i]
		floor := r.base(x, Floor)
		if floor == nil || x.Contender == Floor || x != r.find(x.Batch, x.Contender, LaunchNames...) { // as plans launch
			continue
		}
		if p.points[x.Contender] == nil {
			p.points[x.Contender] = map[int]point{}
		}
		ratios := x.over(floor)
		p.points[x.Contender][x.Batch] = point{Quantile(ratios, 0.1), median(ratios), Quantile(ratios, 0.9)}
		if at, found := slices.BinarySearch(p.batches, x.Batch); !found {
			p.batches = slices.Insert(p.batches, at, x.Batch)
		}
	}
}

// bounds are the smallest and largest value in panels, with the floor, rounded out to a grid line.
func bounds(panels []*panel, step float64) (low, high float64) {
	low, high = 1, 1+step
	for _, p := range panels {
		for _, line := range p.points {
			for batch := range maps.Keys(line) {
				low, high = min(low, line[batch].low), max(high, line[batch].high)
			}
		}
	}
	return math.Floor(low/step+1e-9) * step, math.Ceil(high/step-1e-9) * step
}
