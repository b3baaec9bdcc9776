package bench

import (
	"fmt"
	"io"
	"runtime"
)

// WriteGoBench prints the report in the format of Go's benchmarks, for benchstat: a line for each replay, since
// benchstat makes its own statistics. Ratios are of one round: the contender's replay over the floor's, and over
// cuBLAS's, of the same turn.
func (r *Report) WriteGoBench(w io.Writer) error {
	p := r.Problem
	// What would tell two runs apart for nothing, such as the time, is left out: benchstat compares within equal keys.
	_, err := fmt.Fprintf(w, "goos: %s\ngoarch: %s\npkg: github.com/fsgen/fsgen\ngpu: %s\ndriver: %s\nvocab: %d\nhidden: %d\ntransform: %s\nsampler: %s\n"+
		"Unit x-floor better=lower\nUnit x-cublas better=lower\n",
		runtime.GOOS, runtime.GOARCH, r.Device.Name, r.Device.Driver, p.Vocab, p.Hidden, p.Transform, p.what())
	if err != nil {
		return err
	}
	for i := range r.Results {
		if err := r.writeLines(w, &r.Results[i]); err != nil {
			return err
		}
	}
	return nil
}

func (r *Report) writeLines(w io.Writer, x *Result) error {
	floor, cublas, launch := r.base(x, Floor), r.base(x, Cublas), ""
	if x.Launch != "" {
		launch = "/launch=" + x.Launch
	}
	for i, t := range x.Times {
		line := fmt.Sprintf("BenchmarkFsgen/model=%s/B=%d/contender=%s%s-1\t%d\t%.0f ns/op", r.Problem.Model, x.Batch, x.Contender, launch, r.Method.Launches, 1e3*t)
		for _, base := range []struct {
			unit string
			of   *Result
		}{{"x-floor", floor}, {"x-cublas", cublas}} {
			if base.of != nil && i < len(base.of.Times) {
				line += fmt.Sprintf("\t%.4f %s", t/base.of.Times[i], base.unit)
			}
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}
