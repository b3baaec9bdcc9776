package autotune

import (
	"sync"
	"time"
)

// Progress says what a run is at.
type Progress struct {
	// Job and Bucket are what is tuned, Doing the work under way, as in "timing".
	Job    string
	Bucket int
	Doing  string
	// Done of Total buckets are finished.
	Done, Total int
	// Left predicts the time left from what went before; less than 0 where nothing did.
	Left time.Duration
}

// stage is a kind of work; each has a pace of its own.
type stage int

const (
	loading   stage = iota // in bytes of weights
	verifying              // in candidates
	timing                 // in candidates times passes
	stages
)

var stageNames = [stages]string{"loading weights", "verifying", "timing"}

// pace is how far a stage is.
type pace struct {
	done, ahead int
	spent       time.Duration
	bucket      int // of what is ahead, that which belongs to the bucket under way
}

// meter predicts the time left of a run from what each stage's work took so far. A nil report makes it silent.
type meter struct {
	report func(Progress)
	now    func() time.Time

	mu    sync.Mutex
	at    Progress
	paces [stages]pace
}

func newMeter(report func(Progress)) *meter { return &meter{report: report, now: time.Now} }

// expect adds work to what is ahead.
func (m *meter) expect(s stage, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.paces[s].ahead += n
}

// enter begins a bucket whose work is expected; leave ends it, whatever of that was not needed.
func (m *meter) enter(job string, bucket, candidates int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at.Job, m.at.Bucket = job, bucket
	m.paces[verifying].bucket = candidates
	m.paces[timing].bucket = plannedPasses(candidates, firstPasses)
}

func (m *meter) leave() {
	m.plan(verifying, 0)
	m.plan(timing, 0)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at.Done++
}

// plan corrects what the bucket under way still needs of a stage.
func (m *meter) plan(s stage, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := &m.paces[s]
	p.ahead += n - p.bucket
	p.bucket = n
}

// begin reports that n units of a stage begin; what it returns says that they are done.
func (m *meter) begin(s stage, n int) (done func()) {
	m.say(stageNames[s])
	start := m.now()
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		p := &m.paces[s]
		p.done += n
		p.ahead = max(p.ahead-n, 0)
		p.bucket = max(p.bucket-n, 0)
		p.spent += m.now().Sub(start)
	}
}

// say reports what is being done.
func (m *meter) say(doing string) {
	if m.report == nil {
		return
	}
	m.mu.Lock()
	m.at.Doing, m.at.Left = doing, m.left()
	at := m.at
	m.mu.Unlock()
	m.report(at)
}

// left predicts the time left.
func (m *meter) left() time.Duration {
	var left time.Duration
	for _, p := range m.paces {
		if p.ahead == 0 {
			continue
		}
		if p.done == 0 {
			return -1
		}
		left += time.Duration(float64(p.spent) / float64(p.done) * float64(p.ahead))
	}
	return left
}
