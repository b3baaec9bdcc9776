package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Schema is the version of the data's form.
const Schema = 2

// firstSchema is the oldest that is read: it had no ways of launching, all of its launches being serial, and neither the
// host's times.
const firstSchema = 1

// Contenders whose times others are compared with.
const (
	Floor  = "floor"
	Cublas = "cublas"
)

// Report is the data of one run.
type Report struct {
	Schema int `json:"schema"`
	// Tool is what measured: "fsgen 0.3" or "bench/peers.py".
	Tool    string   `json:"tool"`
	Time    string   `json:"time"` // RFC 3339, UTC
	Device  Device   `json:"device"`
	Problem Problem  `json:"problem"`
	Method  Method   `json:"method"`
	Results []Result `json:"results"`
	// ColdStarts are how long plans took to be ready.
	ColdStarts []ColdStart `json:"cold_starts,omitempty"`
	// Skipped are contenders that were asked for and not run.
	Skipped []Skipped `json:"skipped,omitempty"`
}

// Device is the GPU.
type Device struct {
	Name   string `json:"name"`
	Driver string `json:"driver"`
	// PowerLimit is what the GPU is held to, in watts; 0 if unknown.
	PowerLimit float64 `json:"power_limit_w,omitzero"`
}

// Problem is what was computed.
type Problem struct {
	// Model is a name for the shape.
	Model     string `json:"model"`
	Vocab     int    `json:"vocab"`
	Hidden    int    `json:"hidden"`
	Transform string `json:"transform"`
	Sampler   string `json:"sampler"`
	// LogSumExp says that the kernels write it too.
	LogSumExp bool `json:"logsumexp,omitempty"`
	// LogProb is the mode of the log-probabilities that they write, if any.
	LogProb string `json:"logprob,omitempty"`
	// Truncation lists the filters of every row, at TopK, TopP and MinP, if any.
	Truncation string `json:"truncation,omitempty"`
}

// what names the sampler and what it writes beside tokens.
func (p Problem) what() string {
	name := p.Sampler
	if p.LogSumExp {
		name += " with log-sum-exp"
	}
	if p.LogProb != "" {
		name += " with " + p.LogProb + " log-probabilities"
	}
	if p.Truncation != "" {
		name += " with " + p.Truncation
	}
	return name
}

// WeightBytes is what the floor reads.
func (p Problem) WeightBytes() float64 { return 2 * float64(p.Vocab) * float64(p.Hidden) }

// Result is one contender at one batch size.
type Result struct {
	Batch     int    `json:"batch"`
	Contender string `json:"contender"`
	// Launch is Serial or Overlap; "" if it was not fsgen's to choose.
	Launch string `json:"launch,omitempty"`
	Kernel string `json:"kernel,omitempty"`
	// Times are in microseconds a launch, one for each replay, in the order of the replays.
	Times []float64 `json:"times_us"`
	// Median, P10 and P90 are of the times.
	Median float64 `json:"median_us"`
	P10    float64 `json:"p10_us"`
	P90    float64 `json:"p90_us"`
	// XFloor and XCublas are the medians, over the replays, of the time over that of the floor and of cuBLAS in the same turn; 0 where
	// there is none.
	XFloor  float64 `json:"x_floor,omitzero"`
	XCublas float64 `json:"x_cublas,omitzero"`
	// Host is the host's time of a launch, in microseconds, that of the driver in it; 0 where it was not taken.
	Host   float64 `json:"host_us,omitzero"`
	Clocks *Clocks `json:"clocks,omitempty"`
}

// Skipped is a contender that was not run, and why.
type Skipped struct {
	Contender string `json:"contender"`
	Why       string `json:"why"`
}

// add files what was measured at a batch size.
func (r *Report) add(batch int, list []Contender, series []Series) {
	for i, c := range list {
		x := Result{Batch: batch, Contender: c.Name, Launch: c.Launch, Kernel: c.Kernel, Clocks: clocksOf(series[i].Readings)}
		for _, t := range series[i].Times {
			x.Times = append(x.Times, round(t, 3))
		}
		r.Results = append(r.Results, x)
	}
	r.derive()
}

// derive computes everything that follows from the times.
func (r *Report) derive() {
	for i := range r.Results {
		x := &r.Results[i]
		x.Median, x.P10, x.P90 = round(median(x.Times), 3), round(Quantile(x.Times, 0.1), 3), round(Quantile(x.Times, 0.9), 3)
	}
	for i := range r.Results {
		x := &r.Results[i]
		x.XFloor, x.XCublas = r.ratio(x, Floor), r.ratio(x, Cublas)
	}
}

// ratio is what a result takes of a contender's time at the same batch size, 0 if that is not there.
func (r *Report) ratio(x *Result, over string) float64 {
	if base := r.base(x, over); base != nil {
		return round(median(x.over(base)), 4)
	}
	return 0
}

// over are the ratios of a result's times to those of another in the same turns, in which clocks are alike. Over a run they drift, by 20% where
// the power cap holds them down, so that medians of two contenders may be of different clocks.
func (x *Result) over(base *Result) (ratios []float64) {
	for i, t := range x.Times {
		in := base.Median // data that nobody has taken in turns
		if len(base.Times) == len(x.Times) {
			in = base.Times[i]
		}
		ratios = append(ratios, t/in)
	}
	return ratios
}

// base is the result of a contender that another result is compared with: launched in the same way, if it is there in both.
func (r *Report) base(x *Result, contender string) *Result {
	if same := r.find(x.Batch, contender, x.Launch); same != nil {
		return same
	}
	return r.find(x.Batch, contender, Serial, Overlap) // what is not ours is launched as ever
}

// find returns the result of a contender, launched in the first of some ways that is there; or in none.
func (r *Report) find(batch int, contender string, launches ...string) *Result {
	for _, launch := range slices.Concat(launches, []string{""}) {
		for i := range r.Results {
			if x := &r.Results[i]; x.Batch == batch && x.Contender == contender && x.Launch == launch {
				return x
			}
		}
	}
	return nil
}

// Encode returns the report as JSON, a line for each result, so that a diff of kept data shows what moved.
func (r *Report) Encode() ([]byte, error) {
	head := *r
	head.Results = nil
	text, err := json.Marshal(head)
	if err != nil {
		return nil, err
	}
	var lines [][]byte
	for _, x := range r.Results {
		line, err := json.Marshal(x)
		if err != nil {
			return nil, err
		}
		lines = append(lines, line)
	}
	results := fmt.Appendf(nil, `"results":[`+"\n%s\n]", bytes.Join(lines, []byte(",\n")))
	return append(bytes.Replace(text, []byte(`"results":null`), results, 1), '\n'), nil
}

// Decode reads a report. What follows from the times is computed anew, not believed.
func Decode(data []byte) (*Report, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	r := &Report{}
	if err := dec.Decode(r); err != nil {
		return nil, fmt.Errorf("not the data of a run: %w", err)
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	r.derive()
	return r, nil
}

func (r *Report) check() error {
	if r.Schema < firstSchema || r.Schema > Schema {
		return fmt.Errorf("schema %d: this fsgen reads %d to %d", r.Schema, firstSchema, Schema)
	}
	for i, x := range r.Results {
		if x.Batch < 1 || x.Contender == "" || len(x.Times) == 0 {
			return fmt.Errorf("result %d: want a batch size, a contender and times", i)
		}
		if x.Launch != "" && !slices.Contains(LaunchNames, x.Launch) {
			return fmt.Errorf("result %d: launched %q: want %s", i, x.Launch, strings.Join(LaunchNames, " or "))
		}
		if first := r.find(x.Batch, x.Contender, x.Launch); first != &r.Results[i] {
			return fmt.Errorf("result %d: %s at batch size %d is there twice", i, x.Contender, x.Batch)
		}
		for _, t := range x.Times {
			if !(t > 0) || math.IsInf(t, 0) {
				return fmt.Errorf("result %d: a time of %v", i, t)
			}
		}
	}
	return nil
}

// skip files a contender that could not be run; batch 0 stands for all of them.
func (r *Report) skip(contender string, batch int, err error) {
	if batch > 0 {
		contender = fmt.Sprintf("%s at batch %d", contender, batch)
	}
	r.Skipped = append(r.Skipped, Skipped{contender, strings.ReplaceAll(err.Error(), "\n", "; ")})
}
