package verify

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fsgen/fsgen/internal/stats"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
)

// run is one run of a suite.
type run struct {
	dev  target
	o    Options
	info sampler.Info
	// gpu devices take the sizes that would keep a CPU busy for hours.
	gpu bool
	// sim devices take part of each list: they are a thousand times slower, and see more of every run.
	sim bool
	// ranks are those of a group.
	ranks bool

	mu      sync.Mutex // of what follows
	done    int        // checks
	running []string   // their names
}

func newRun(dev target, o Options) *run {
	r := &run{dev: dev, o: o, info: dev.Info()}
	r.sim = strings.HasPrefix(r.info.Name, "sim:")
	r.gpu = r.info.Arch != "" && !r.sim
	_, r.ranks = dev.(deviceGroup)
	if r.o.Draws == 0 {
		r.o.Draws = 2e6
		if r.gpu {
			r.o.Draws = 1e8
		}
	}
	return r
}

// item is a check to be run; its error is the check's failure.
type item struct {
	name, from string // from is the case
	f          func(ctx context.Context, p *probe) error
	kind       kind
}

// check is an item of the default kind.
type check struct {
	name, from string
	f          func(ctx context.Context, p *probe) error
}

func list(checks []check) []item {
	var items []item
	for _, c := range checks {
		items = append(items, item{name: c.name, from: c.from, f: c.f})
	}
	return items
}

// probe is what a check works with.
type probe struct {
	*run
	*Check
	kind kind
	// rng is seeded by the run's seed and the check's name.
	rng *rand.Rand
	// progress tells how far the check is.
	progress func(what string)
	// beyond is set once a statistic has failed.
	beyond bool
	// opened counts the problems, which take the layouts of the weights in turn, from one that is the check's own.
	opened int
	// anyTag draws reserved stream tags too, which kernels take and samplers refuse.
	anyTag bool
}

func (r *run) do(ctx context.Context, s suite) (*Report, error) {
	items, err := r.chosen(s.items(r))
	if err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return nil, &NoChecksError{s.name, r.o.Sampler, r.o.Match, r.info.Name}
	}
	rep := &Report{Suite: s.name, Device: r.info.Name, Seed: r.o.Seed, Checks: []Check{}}
	perform := func(ctx context.Context, i int) (Check, error) { return r.perform(ctx, items[i], len(items)) }
	if err := inOrder(ctx, len(items), r.jobs(), perform, func(c Check) { r.add(rep, c) }); err != nil {
		return rep, err
	}
	if c, ok := nearTies(rep.Checks); ok {
		r.add(rep, c)
	}
	r.tell(len(items), "done")
	return rep, nil
}

// perform makes a check. The error is of the device, and names what it ran: whose fault it is nobody can tell.
func (r *run) perform(ctx context.Context, it item, total int) (Check, error) {
	r.begin(it.name)
	c := r.check(ctx, it, total)
	err := r.dev.Healthy()
	ran := r.end(it.name)
	if err != nil {
		return c, fmt.Errorf("verify: the device failed while %s ran: %w", ran, err)
	}
	return c, nil
}

func (r *run) begin(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running = append(r.running, name)
}

// end says what ran until now: the check that ends, and those beside it.
func (r *run) end(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done++
	ran := fmt.Sprintf("check %q", name)
	r.running = slices.DeleteFunc(r.running, func(other string) bool { return other == name })
	for _, other := range r.running {
		ran += fmt.Sprintf(", or %q beside it,", other)
	}
	return ran
}

func (r *run) add(rep *Report, c Check) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.o.Done != nil {
		r.o.Done(c)
	}
	rep.Checks = append(rep.Checks, c)
	switch {
	case c.Skipped:
		rep.Skipped++
	case c.OK:
		rep.Passed++
	default:
		rep.Failed++
	}
}

func (r *run) tell(total int, what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.o.Progress != nil {
		r.o.Progress(r.done, total, what)
	}
}

func (r *run) check(ctx context.Context, it item, total int) Check {
	c := Check{Name: it.name, Case: it.from}
	r.tell(total, it.name)
	p := &probe{run: r, Check: &c, kind: it.kind, rng: newRNG(r.o.Seed, it.name), opened: newRNG(r.o.Seed, it.name+", layouts").IntN(2),
		progress: func(what string) { r.tell(total, it.name+": "+what) }}
	begin := time.Now()
	err := it.f(ctx, p)
	if err != nil && p.beyond && ctx.Err() == nil {
		err = p.again(ctx, it, err)
	}
	if r.undone(err) {
		c.Detail, c.Skipped = err.Error(), true
	} else if err != nil {
		c.Detail = strings.TrimSpace(err.Error() + "\n" + c.Detail)
	} else {
		c.OK = true
	}
	c.Elapsed = time.Since(begin)
	return c
}

// undone reports whether a check was of something that the ranks of a group do not do.
func (r *run) undone(err error) bool {
	var missing *sampler.UnsupportedError
	return r.ranks && errors.As(err, &missing)
}

// again runs a check whose statistic has failed once more, on other data. Of hundreds of statistics one is beyond the limit by
// chance every few hundred runs; a sampler that is biased fails both times. The report shows both.
func (p *probe) again(ctx context.Context, it item, first error) error {
	p.Detail += "once more, on other data, since " + first.Error() + "\n"
	p.rng, p.Stat, p.beyond = newRNG(p.o.Seed, it.name+", once more"), nil, false
	return it.f(ctx, p)
}

// newRNG is a stream of random numbers of a run's seed and a name.
func newRNG(seed uint64, name string) *rand.Rand {
	hash := fnv.New64a()
	hash.Write([]byte(name))
	return rand.New(rand.NewPCG(seed, hash.Sum64()))
}

// nearTies holds the near ties of all checks to 1 in 1,000 rows: each may be one, but so many are a fault.
func nearTies(checks []Check) (Check, bool) {
	c := Check{Name: "near ties are under 1 in 1,000 rows", OK: true}
	for _, k := range checks {
		if k.Stat == nil {
			c.Rows += k.Rows
			c.NearTies += k.NearTies
		}
	}
	c.OK = c.NearTies == 0 || c.NearTies*1000 < c.Rows
	c.Detail = fmt.Sprintf("%d of %d rows", c.NearTies, c.Rows)
	return c, c.Rows > 0
}

// session is a plan on the device.
type session struct {
	head head
	plan plan
}

// open loads a problem's weights and plans its spec.
func (p *probe) open(ctx context.Context, pr *problem) (*session, error) {
	p.opened++
	layout := sampler.RowMajor
	if p.opened%2 == 0 && pr.spec.Artifact == nil {
		layout = sampler.Packed
	}
	h, err := p.dev.load(ctx, sampler.Weights{
		Source: sampler.Matrix{Data: pr.w, Hidden: pr.shape.Hidden, Stride: pr.shape.Hidden},
		Vocab:  pr.shape.Vocab, Hidden: pr.shape.Hidden, Layout: layout,
	})
	if err != nil {
		return nil, err
	}
	planned, err := h.plan(ctx, pr.spec)
	if err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return &session{h, planned}, nil
}

func (s *session) close() error { return errors.Join(s.plan.Close(), s.head.Close()) }

// hang is how long one call may take.
const hang = 2 * time.Minute

// sample runs a problem whose weights and spec are the session's.
func (s *session) sample(ctx context.Context, pr *problem) (*sampler.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, hang)
	defer cancel()
	return s.plan.Sample(ctx, pr.hidden, pr.rows)
}

// with opens a problem, calls f and closes again.
func (p *probe) with(ctx context.Context, pr *problem, f func(s *session) error) error {
	s, err := p.open(ctx, pr)
	if err != nil {
		return err
	}
	return errors.Join(f(s), s.close())
}

// verify runs a problem on the device and on the reference and compares.
func (p *probe) verify(ctx context.Context, pr *problem) (got *sampler.Result, err error) {
	err = p.with(ctx, pr, func(s *session) (err error) {
		got, err = p.verifyOn(ctx, s, pr)
		return err
	})
	return got, err
}

func (p *probe) verifyOn(ctx context.Context, s *session, pr *problem) (*sampler.Result, error) {
	o, err := ask(ctx, pr)
	if err != nil {
		return nil, err
	}
	got, err := s.sample(ctx, pr)
	if err != nil {
		return nil, err
	}
	return got, o.judge(p.Check, nil, got)
}

// limit is the |z| below which a statistic passes; one beyond it is judged once more, on other data.
const limit = 4

// judge takes statistics: the worst stands in the check, all in its detail.
func (p *probe) judge(results ...stats.Result) error {
	for _, res := range results {
		res.Z = finite(res.Z)
		p.Detail += res.String() + "\n"
		if p.Stat == nil || abs(res.Z) > abs(p.Stat.Z) {
			p.Stat = &res
		}
	}
	err := stats.Check(limit, results...)
	p.beyond = p.beyond || err != nil
	for _, res := range results {
		if res.TooFew {
			err = errors.Join(err, fmt.Errorf("verify: %s: %d draws are too few to judge", res.Name, res.N))
		}
	}
	return err
}

// want is a row's expected answer.
type want struct {
	token  int32
	status ir.Status
}

// expect compares tokens and statuses with what they must be, reference or not.
func expect(got *sampler.Result, wants ...want) error {
	if len(got.Tokens) != len(wants) {
		return fmt.Errorf("%d tokens for %d rows", len(got.Tokens), len(wants))
	}
	for b, w := range wants {
		if got.Tokens[b] != w.token || got.Status[b] != w.status {
			return fmt.Errorf("row %d: token %d (%s), want %d (%s)", b, got.Tokens[b], got.Status[b], w.token, w.status)
		}
	}
	return nil
}

func ok(token int) want { return want{int32(token), ir.StatusOK} }
