package autotune

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/fsgen/fsgen/gen"
)

// Job is what to tune for one head: the buckets share its weights.
type Job struct {
	// Name is for people: the model's, or the shape.
	Name    string
	Buckets []Bucket
	// Bytes of weights that Open loads, by which the time of loading is predicted.
	Bytes int
	// Open makes the Runner. It is called, and the Runner closed, while no other process measures on the GPU, and not at all
	// if every bucket is tuned already.
	Open func(ctx context.Context) (ClosableRunner, error)
}

// ClosableRunner is a Runner that holds weights.
type ClosableRunner interface {
	Runner
	Close() error
}

// Bucket is one kernel of a job to find a candidate for.
type Bucket struct {
	Key Key
	// Request makes the bucket's kernels: its Batch is the bucket, its Tile is zero.
	Request    gen.Request
	Candidates []Candidate
}

// Outcome is what became of a bucket.
type Outcome struct {
	Job   string
	Key   Key
	Entry *Entry // nil where Err is not
	// Reused says that the entry was in the store already; Search is what a search found otherwise.
	Reused bool
	Search *Result
	// Rank is the place that the model of costs gives the entry's tile among the Tiles that can run, from 1 on; 0 where that is
	// none of them.
	Rank, Tiles int
	// Err is why the bucket has no entry: no candidate passed verification.
	Err error
}

// Waiting is what Progress says a run is doing while another one measures.
const Waiting = "waiting for another run on this GPU"

// Options of a run.
type Options struct {
	// Store keeps the entries; nil keeps none.
	Store *Store
	// GPU identifies the GPU for the lock: its UUID.
	GPU string
	// Force measures buckets that the store has an entry for, too.
	Force bool
	// Progress hears what the run is at, Finished of each bucket. Both may be nil; both are called from one goroutine.
	Progress func(Progress)
	Finished func(Outcome)
}

// Run tunes jobs one after the other. Each bucket's entry is kept as soon as it is found, so that a run that is cut short
// loses one bucket and goes on from there next time: buckets with a current entry are skipped. While a job's weights are
// loaded and measured nobody else measures on the GPU; what another run found meanwhile is not measured again.
func Run(ctx context.Context, jobs []Job, o Options) error {
	r := &run{o: o, meter: newMeter(o.Progress), expected: map[Key]bool{}, current: map[Entry]bool{}}
	for _, j := range jobs {
		r.expect(j)
	}
	for _, j := range jobs {
		if err := r.job(ctx, j); err != nil {
			return err
		}
	}
	return nil
}

type run struct {
	o        Options
	meter    *meter
	expected map[Key]bool // the buckets whose work the meter expects
	// current holds the entries that were compared with the kernel that the generator makes, which takes milliseconds each.
	current map[Entry]bool
}

// expect tells the meter what a job will take.
func (r *run) expect(j Job) {
	r.meter.at.Total += len(j.Buckets)
	missing := r.missing(j)
	for _, b := range missing {
		r.expected[b.Key] = true
		r.meter.expect(verifying, len(b.Candidates))
		r.meter.expect(timing, plannedPasses(len(b.Candidates), firstPasses))
	}
	if len(missing) > 0 {
		r.meter.expect(loading, j.Bytes)
	}
}

// missing lists a job's buckets that have to be measured.
func (r *run) missing(j Job) (list []Bucket) {
	for _, b := range j.Buckets {
		if r.o.Force || r.stored(b) == nil {
			list = append(list, b)
		}
	}
	return list
}

// stored returns a bucket's entry, if the kernel is still the one that was measured.
func (r *run) stored(b Bucket) *Entry {
	e := r.o.Store.Get(b.Key)
	if e == nil {
		return nil
	}
	ok, known := r.current[*e]
	if !known {
		_, _, err := e.current(b.Request)
		ok = err == nil
		r.current[*e] = ok
	}
	if !ok {
		return nil
	}
	return e
}

func (r *run) job(ctx context.Context, j Job) (err error) {
	h := &holder{job: j, meter: r.meter, expected: slices.ContainsFunc(j.Buckets, func(b Bucket) bool { return r.expected[b.Key] })}
	if len(r.missing(j)) > 0 {
		r.meter.enter(j.Name, 0, 0)
		unlock, err := r.o.Store.Lock(ctx, r.o.GPU, func() { r.meter.say(Waiting) })
		if err != nil {
			return err
		}
		defer unlock()
	}
	defer func() { err = errors.Join(err, h.close()) }() // before the lock goes
	for _, b := range j.Buckets {
		if err := ctx.Err(); err != nil {
			return err
		}
		out, err := r.bucket(ctx, h, b)
		if err != nil {
			return fmt.Errorf("%s, batch %d: %w", j.Name, b.Key.Batch, err)
		}
		if out.Entry != nil {
			out.Rank, out.Tiles = out.Entry.rank(b.Request)
		}
		if r.o.Finished != nil {
			r.o.Finished(out)
		}
	}
	return nil
}

// bucket finds a bucket's entry, in the store or by a search.
func (r *run) bucket(ctx context.Context, h *holder, b Bucket) (Outcome, error) {
	expected := 0
	if r.expected[b.Key] {
		expected = len(b.Candidates)
	}
	r.meter.enter(h.job.Name, b.Key.Batch, expected)
	defer r.meter.leave()
	out := Outcome{Job: h.job.Name, Key: b.Key}
	if !r.o.Force {
		if out.Entry = r.stored(b); out.Entry != nil {
			out.Reused = true
			return out, nil
		}
	}
	runner, err := h.open(ctx)
	if err != nil {
		return out, err
	}
	out.Search, err = search(ctx, runner, b.Candidates, b.Key.Batch, r.meter)
	if errors.Is(err, ErrNoCandidate) {
		out.Err = err
		return out, nil
	}
	if err != nil {
		return out, err
	}
	if out.Entry, err = newEntry(b.Key, b.Request, out.Search); err != nil {
		return out, err
	}
	if r.o.Store.Enabled() {
		err = r.o.Store.Put(out.Entry)
	}
	return out, err
}

// holder opens a job's Runner when it is first needed.
type holder struct {
	job      Job
	meter    *meter
	expected bool // the meter expects loading
	runner   ClosableRunner
}

func (h *holder) open(ctx context.Context) (Runner, error) {
	if h.runner != nil {
		return h.runner, nil
	}
	done := h.meter.begin(loading, h.job.Bytes)
	defer done()
	runner, err := h.job.Open(ctx)
	if err != nil {
		return nil, err
	}
	h.runner = runner
	return runner, nil
}

// close closes the Runner, or tells the meter that none was needed after all.
func (h *holder) close() error {
	if h.runner != nil {
		return h.runner.Close()
	}
	if h.expected {
		h.meter.expect(loading, -h.job.Bytes)
	}
	return nil
}
