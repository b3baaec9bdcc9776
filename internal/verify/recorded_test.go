package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/reference"
	"github.com/fsgen/fsgen/sampler"
)

// recording is what a GPU answered to the corpus (TestGPURecord writes it).
type recording struct {
	GPU    string         `json:"gpu"`
	Driver string         `json:"driver"`
	Date   string         `json:"date"`
	Trials []*recordedRun `json:"trials"`
}

// recordedRun is one trial's part of it. Statuses are one digit a row, scores eight hexadecimal digits: their bits.
type recordedRun struct {
	Name   string  `json:"name"`
	Kernel string  `json:"kernel"`
	PTX    string  `json:"ptx"`    // sha256
	Inputs string  `json:"inputs"` // inputs.hash
	Tokens []int32 `json:"tokens"`
	Status string  `json:"status"`
	Scores string  `json:"scores"`
}

func newRecordedRun(tr *trial, res *sampler.Result) *recordedRun {
	r := &recordedRun{Name: tr.name, Kernel: tr.kernel.Name(), PTX: tr.kernel.Manifest.PTXSHA256, Inputs: tr.in.hash(), Tokens: slices.Clone(res.Tokens)}
	for b := range res.Tokens {
		r.Status += fmt.Sprint(int(res.Status[b]))
		r.Scores += fmt.Sprintf("%08x", math.Float32bits(res.Scores[b]))
	}
	return r
}

// result reads the texts back.
func (r *recordedRun) result() (*sampler.Result, error) {
	n := len(r.Tokens)
	if len(r.Status) != n || len(r.Scores) != 8*n {
		return nil, fmt.Errorf("recorded %d tokens, %d statuses, %d digits of scores", n, len(r.Status), len(r.Scores))
	}
	res := &sampler.Result{Tokens: r.Tokens}
	for b := range n {
		var bits uint32
		if _, err := fmt.Sscanf(r.Scores[8*b:8*b+8], "%08x", &bits); err != nil {
			return nil, fmt.Errorf("recorded score of row %d: %w", b, err)
		}
		res.Status = append(res.Status, ir.Status(r.Status[b]-'0'))
		res.Scores = append(res.Scores, math.Float32frombits(bits))
	}
	return res, nil
}

// encode writes one line a trial, so that a diff of two recordings can be read.
func (r *recording) encode() ([]byte, error) {
	var out bytes.Buffer
	fmt.Fprintf(&out, "{\"gpu\": %q, \"driver\": %q, \"date\": %q, \"trials\": [\n", r.GPU, r.Driver, r.Date)
	for i, tr := range r.Trials {
		line, err := json.Marshal(tr)
		if err != nil {
			return nil, err
		}
		out.Write(line)
		if i < len(r.Trials)-1 {
			out.WriteByte(',')
		}
		out.WriteByte('\n')
	}
	out.WriteString("]}\n")
	return out.Bytes(), nil
}

// recordingPath is the recording that CI compares with.
const recordingPath = "testdata/h200.json"

func readRecording(path string) (*recording, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, howToRecord)
	}
	r := &recording{}
	return r, json.Unmarshal(text, r)
}

// held is the recording with how the simulator agrees with it; the corpus is run once.
type held struct {
	rec   *recording
	tiles map[string]*agreement
	err   error
}

var (
	holdOnce sync.Once
	holding  held
)

// heldRecording runs the corpus on the simulator and wants the GPU's answers.
func heldRecording(t *testing.T) (*recording, map[string]*agreement) {
	holdOnce.Do(func() {
		if holding.rec, holding.err = readRecording(recordingPath); holding.err == nil {
			holding.tiles, holding.err = hold(t.Context(), corpus(t), holding.rec)
		}
	})
	require.NoError(t, holding.err)
	return holding.rec, holding.tiles
}

// TestRecorded: the same kernels and buffers give the same on the simulator as on the GPU that was recorded.
func TestRecorded(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the corpus on the simulator: not under -short")
	}
	rec, tiles := heldRecording(t)
	for what, text := range map[string]string{"GPU": rec.GPU, "driver": rec.Driver, "date": rec.Date} {
		require.NotEmpty(t, text, what)
	}
	t.Logf("%s, driver %s, %s: %s", rec.GPU, rec.Driver, rec.Date, total(tiles))
}

// howToRecord is what to do about a recording that is not there or too old.
const howToRecord = "record the corpus again: make gpu-bundle, and on a machine with an H200, in the bundle, " +
	"FSGEN_RECORD_OUT=$PWD/h200.json ./verify.test -test.run TestGPURecord; commit it as internal/verify/testdata/h200.json"

// agreement counts how two runs of trials agree.
type agreement struct {
	trials, samePTX int
	rows, sameBits  int
	statuses        [4]int  // rows by status
	worst           float64 // largest difference of two scores, in bounds
}

func (a *agreement) String() string {
	return fmt.Sprintf("%d trials, %d of the PTX that was recorded; %d rows: %d ok, %d empty, %d nan, %d bad-temperature; "+
		"%d scores to the bit, the others within %.3f of their bounds", a.trials, a.samePTX, a.rows,
		a.statuses[0], a.statuses[1], a.statuses[2], a.statuses[3], a.sameBits, a.worst)
}

// total adds the tiles up.
func total(tiles map[string]*agreement) *agreement {
	sum := &agreement{}
	for _, a := range tiles {
		sum.add(a)
	}
	return sum
}

func (a *agreement) add(b *agreement) {
	a.trials, a.samePTX, a.rows, a.sameBits = a.trials+b.trials, a.samePTX+b.samePTX, a.rows+b.rows, a.sameBits+b.sameBits
	for i := range a.statuses {
		a.statuses[i] += b.statuses[i]
	}
	a.worst = max(a.worst, b.worst)
}

// hold runs the corpus on the simulator and holds it against a recording. It returns how each tile agrees, and what does
// not.
func hold(ctx context.Context, trials []*trial, rec *recording) (map[string]*agreement, error) {
	recorded := map[string]*recordedRun{}
	for _, r := range rec.Trials {
		recorded[r.Name] = r
	}
	found, errs := make([]*agreement, len(trials)), make([]error, len(trials))
	group := new(errgroup.Group)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, tr := range trials {
		group.Go(func() error {
			if found[i], errs[i] = tr.hold(ctx, recorded[tr.name]); errs[i] != nil {
				errs[i] = fmt.Errorf("%s (%s): %w", tr.name, tr.pr, errs[i])
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return byTile(trials, found), errors.Join(errs...)
}

// byTile adds up the agreements of each tile's trials.
func byTile(trials []*trial, found []*agreement) map[string]*agreement {
	tiles := map[string]*agreement{}
	for i, tr := range trials {
		name := tr.tile.String()
		if tiles[name] == nil {
			tiles[name] = &agreement{}
		}
		if found[i] != nil {
			tiles[name].add(found[i])
		}
	}
	return tiles
}

// hold runs one trial on the simulator and compares.
func (tr *trial) hold(ctx context.Context, rec *recordedRun) (*agreement, error) {
	if rec == nil {
		return nil, fmt.Errorf("no recording: %s", howToRecord)
	}
	if rec.Inputs != tr.in.hash() {
		return nil, fmt.Errorf("the recording is of other inputs: %s", howToRecord)
	}
	want, err := rec.result()
	if err != nil {
		return nil, err
	}
	got, err := tr.simulate(ctx)
	if err != nil {
		return nil, err
	}
	a, err := tr.compare(got, want)
	if a != nil && rec.PTX == tr.kernel.Manifest.PTXSHA256 {
		a.samePTX++
	}
	return a, err
}

// compare wants equal tokens and statuses, and scores within their bound of each other. There is no allowance for near
// ties: the corpus has none (settled).
//
// The bound of a difference is twice that of a score (reference.Request.ReportedScoreOf): both devices lie within one
// bound of the exact score, which the reference computes in float64 from the same bits of noise. The bound of one device
// is made of
//
//   - the dot product: float32 sums of the products in any order, where a tensor core cuts terms off at the last place
//     of the largest: (D + D/8 + 16) 2^-23 sum |h w|, and nothing where only one product is not 0;
//   - the softcap, 2^-20 |z|, and 1/T, 2^-22 of it: tanh and rcp by ex2.approx (2 ulp, PTX ISA) and rcp.approx (1 ulp);
//   - the noise, 2^-20 (1 + |g|): two lg2.approx (absolute error 2^-22 in (0.5, 2), else relative 2^-22) and a polynomial;
//   - half a unit in the last place for every other operation.
//
// ir's tests hold the graphs that kernels are made of to these budgets, with every approximation off by what is documented.
// Scores of rows without a token are any NaN.
func (tr *trial) compare(got, want *sampler.Result) (*agreement, error) {
	if len(got.Tokens) != len(want.Tokens) {
		return nil, fmt.Errorf("%d rows, recorded %d", len(got.Tokens), len(want.Tokens))
	}
	a, req := &agreement{trials: 1}, tr.pr.request()
	for b, token := range want.Tokens {
		if got.Tokens[b] != token || got.Status[b] != want.Status[b] {
			return nil, fmt.Errorf("row %d: token %d (%s), recorded %d (%s)", b, got.Tokens[b], got.Status[b], token, want.Status[b])
		}
		a.rows++
		a.statuses[want.Status[b]]++
		if sameBits(got.Scores[b], want.Scores[b]) {
			a.sameBits++
			continue
		}
		off, bound := apart(req, b, token, got.Scores[b], want.Scores[b])
		if !(off <= 1) { // NaN too
			return nil, fmt.Errorf("row %d: score of token %d is %v, recorded %v: bound %.3g", b, token, got.Scores[b], want.Scores[b], bound)
		}
		a.worst = max(a.worst, off)
	}
	return a, nil
}

// apart is the difference of two devices' scores of a row in bounds, and the bound; NaN where a row has no token.
func apart(req *reference.Request, b int, token int32, x, y float32) (off, bound float64) {
	if token == ir.NoToken {
		return math.NaN(), 0
	}
	_, bound = req.ReportedScoreOf(b, int(token))
	return abs(float64(x)-float64(y)) / (2 * bound), 2 * bound
}

// plantings are changes to a recording that must be seen, with words of what is said.
var plantings = []struct {
	name, says string
	change     func(t *testing.T, tr *trial, r *recordedRun) *recordedRun
}{
	{"token off by one", "recorded", func(_ *testing.T, _ *trial, r *recordedRun) *recordedRun { r.Tokens[0]++; return r }},
	{"another status", "recorded", func(_ *testing.T, _ *trial, r *recordedRun) *recordedRun {
		r.Status = string(r.Status[0]^1) + r.Status[1:]
		return r
	}},
	{"score off by more than the bound", "bound", func(t *testing.T, tr *trial, r *recordedRun) *recordedRun { return r.off(t, tr, 1.01) }},
	{"infinite score", "bound", func(_ *testing.T, _ *trial, r *recordedRun) *recordedRun { return r.setScore(inf32) }},
	{"NaN for a score", "bound", func(_ *testing.T, _ *trial, r *recordedRun) *recordedRun { return r.setScore(nan32) }},
	{"a row less", "recorded", func(_ *testing.T, _ *trial, r *recordedRun) *recordedRun { r.Tokens = r.Tokens[1:]; return r }},
	{"other inputs", "other inputs", func(_ *testing.T, _ *trial, r *recordedRun) *recordedRun { r.Inputs = "0"; return r }},
	{"no recording of the tile", "FSGEN_RECORD_OUT", func(*testing.T, *trial, *recordedRun) *recordedRun { return nil }},
}

// setScore changes the score of row 0.
func (r *recordedRun) setScore(x float32) *recordedRun {
	r.Scores = fmt.Sprintf("%08x", math.Float32bits(x)) + r.Scores[8:]
	return r
}

// off moves the score of row 0 by a number of bounds.
func (r *recordedRun) off(t *testing.T, tr *trial, bounds float64) *recordedRun {
	res, err := r.result()
	require.NoError(t, err)
	_, bound := tr.pr.request().ReportedScoreOf(0, int(res.Tokens[0]))
	return r.setScore(float32(float64(res.Scores[0]) + 2*bounds*bound))
}

// sampledTrial is a trial whose row 0 has a token, with the simulator's answer.
func sampledTrial(t *testing.T) (*trial, *sampler.Result) {
	for _, tr := range corpus(t) {
		if tr.tile.N != 64 || tr.pr.batch == 1 || tr.pr.spec.Sampler == ir.Greedy {
			continue
		}
		res, err := tr.simulate(t.Context())
		require.NoError(t, err)
		if res.Status[0] == ir.StatusOK {
			return tr, res
		}
	}
	require.Fail(t, "no trial's row 0 has a token")
	return nil, nil
}

// TestHoldSeesDifferences records trials as the simulator answers them and changes one thing.
func TestHoldSeesDifferences(t *testing.T) {
	tr, res := sampledTrial(t)
	held := func(r *recordedRun) (map[string]*agreement, error) {
		rec := &recording{GPU: "no \"GPU\"", Trials: []*recordedRun{}}
		if r != nil {
			rec.Trials = append(rec.Trials, r)
		}
		text, err := rec.encode()
		require.NoError(t, err)
		again := &recording{}
		require.NoError(t, json.Unmarshal(text, again))
		require.Equal(t, rec, again, "a recording reads back")
		return hold(t.Context(), []*trial{tr}, again)
	}
	for _, p := range plantings {
		_, err := held(p.change(t, tr, newRecordedRun(tr, res)))
		require.ErrorContains(t, err, p.says, p.name)
		require.ErrorContains(t, err, tr.name, p.name)
	}
	same, err := held(newRecordedRun(tr, res))
	require.NoError(t, err)
	a := total(same)
	require.Equal(t, agreement{trials: 1, samePTX: 1, rows: tr.pr.batch, sameBits: tr.pr.batch, statuses: a.statuses}, *a)
	near, err := held(newRecordedRun(tr, res).off(t, tr, 0.9))
	require.NoError(t, err, "within the bound")
	require.InDelta(t, 0.9, total(near).worst, 0.05)
	require.Equal(t, tr.pr.batch-1, total(near).sameBits)
}
