package reference

import (
	"fmt"
	"math"
	"slices"
)

// ends are the ends between which a correct kernel's logit of a token lies.
type ends struct {
	low, high float64
	id        int32
}

// before reports whether a token stands before another in every correct kernel.
func (x ends) before(y ends) bool {
	return x.low > y.high || x.low == x.high && x.low == y.low && y.low == y.high && x.id < y.id
}

// boundary is what float32 leaves open about the tokens that a row keeps.
type boundary struct {
	row   *row
	all   []ends
	t     float64 // the temperature of the filters
	total ends    // mass that top-k leaves, over the power of the largest high end
	top   ends    // the ends of the likeliest token's logit
}

// weightSlack is the relative error of shares of the mass by the rounding of weights and p (docs/truncation.md).
const weightSlack = 0x1p-18

func (r *Request) boundary(w *row, b int) *boundary {
	d := &boundary{row: w, t: w.massTemperature(), top: ends{low: math.Inf(-1), high: math.Inf(-1)}}
	if r.Computation.Truncation.TemperatureLast {
		d.t = 1
	}
	for v := range r.Shape.Vocab {
		if !w.allowed(v) {
			continue
		}
		z := w.exactLogit(r.exactRaw(b, v), v)
		if math.IsInf(z.value, -1) {
			continue
		}
		e := ends{z.value - z.err, z.value + z.err, int32(v)}
		d.all = append(d.all, e)
		d.top.low, d.top.high = max(d.top.low, e.low), max(d.top.high, e.high)
	}
	d.total.low = d.mass(func(e ends) float64 { return e.low })
	d.total.high = d.mass(func(e ends) float64 { return e.high })
	return d
}

// power is a share of the mass of the largest high end.
func (d *boundary) power(z float64) float64 {
	if z == d.top.high {
		return 1
	}
	return math.Exp((z - d.top.high) / d.t)
}

// mass is that of the tokens that top-k leaves, each at one end.
func (d *boundary) mass(end func(ends) float64) (sum float64) {
	var z []float64
	for _, e := range d.all {
		z = append(z, end(e))
	}
	slices.Sort(z)
	slices.Reverse(z)
	if k := d.row.topK; k > 0 && k < len(z) {
		z = z[:k]
	}
	for _, x := range z {
		sum += d.power(x)
	}
	return sum
}

// dropped says why no correct kernel keeps a token; "" where one may.
func (d *boundary) dropped(x ends) string {
	n, mass := 0, 0.0
	for _, e := range d.all {
		if e.before(x) {
			n++
			mass += d.power(e.low)
		}
	}
	p, minP := float64(d.row.topP), float64(d.row.minP)
	switch {
	case d.row.topK > 0 && n >= d.row.topK:
		return fmt.Sprintf("cut off by top-k: %d tokens stand before it", n)
	case n > 0 && p < 1 && mass/d.total.high >= p+(1-p)*weightSlack+weightSlack*mass/d.total.high:
		return fmt.Sprintf("cut off by top-p: the tokens before it have %.9g of the mass", mass/d.total.high)
	case d.power(x.high) < minP*d.power(d.top.low)*(1-weightSlack):
		return fmt.Sprintf("cut off by min-p: it has %.9g of the likeliest token", d.power(x.high)/d.power(d.top.low))
	}
	return ""
}

// kept reports whether every correct kernel keeps a token.
func (d *boundary) kept(x ends) bool {
	n, mass := 0, 0.0
	for _, e := range d.all {
		if e.id != x.id && !x.before(e) {
			n++
			mass += d.power(e.high)
		}
	}
	p, minP := float64(d.row.topP), float64(d.row.minP)
	if n == 0 {
		return true
	}
	tail := (1 - p) * (1 + weightSlack)
	return (d.row.topK <= 0 || n < d.row.topK) &&
		(p >= 1 || mass/d.total.low < 1-tail-weightSlack*min(1, mass/d.total.low)) &&
		d.power(x.low) >= minP*d.power(d.top.high)*(1+weightSlack)
}

// mismatchKept says why got cannot be the token of a truncated row; "" where it may. It has to be a token that a correct
// kernel may keep, and to hold against all those that every one keeps.
func (r *Request) mismatchKept(b int, got int32) string {
	w := r.row(b)
	d := r.boundary(&w, b)
	at := slices.IndexFunc(d.all, func(e ends) bool { return e.id == got })
	if at < 0 {
		return "its logit is -inf"
	}
	if reason := d.dropped(d.all[at]); reason != "" {
		return reason
	}
	score := r.exactScore(&w, b, int(got))
	for _, e := range d.all {
		if e.id == got || !d.kept(e) {
			continue
		}
		if reason := score.below(r.exactScore(&w, b, int(e.id)), int(got), int(e.id)); reason != "" {
			return reason
		}
	}
	return ""
}
