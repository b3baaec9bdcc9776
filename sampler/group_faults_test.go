//go:build !race

package sampler

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/sim"
)

// faultPlan is a plan of ranks on a simulator, with calls that no two of which come to the same tokens, and their tokens.
type faultPlan struct {
	*simGroupPlan
	batches []*batch
	want    []*Result
}

// newFaultPlan plans rows that several warps have, so that a rank's flag could come before the records of some.
func newFaultPlan(t *testing.T, device string, ranks, calls int) *faultPlan {
	return newFaultPlanOf(t, device, ranks, calls, 40, Spec{Sampler: ir.Greedy}, Rows{})
}

// newFaultPlanOf is newFaultPlan of n rows of another spec.
func newFaultPlanOf(t *testing.T, device string, ranks, calls, n int, spec Spec, rows Rows) *faultPlan {
	const vocab, hidden = 150, 8
	rng := rand.New(rand.NewPCG(4, 4))
	spec.MaxBatch, spec.Tuning = n, Untuned
	weights := Weights{Source: Matrix{Data: normals(rng, vocab*hidden, 1), Hidden: hidden}, Vocab: vocab, Hidden: hidden}
	cfg := GroupConfig{Devices: make([]string, ranks)}
	for i := range cfg.Devices {
		cfg.Devices[i] = device
	}
	g, err := OpenGroup(t.Context(), cfg)
	require.NoError(t, err)
	head, err := g.LoadHead(t.Context(), weights, nil)
	require.NoError(t, err)
	plan, err := head.Plan(t.Context(), spec)
	require.NoError(t, err)
	p := &faultPlan{simGroupPlan: plan.b.(*simGroupPlan)}
	p.group.patience = 1 << 20 // whoever is missed is missed soon
	p.connect()
	for range calls {
		h := normals(rng, n*hidden, 1)
		b, err := newBatch(spec, head.shape, h, rows)
		require.NoError(t, err)
		p.batches = append(p.batches, b)
		p.want = append(p.want, sampleGroup(t, GroupConfig{Devices: []string{CPU}}, weights, nil, spec, h, rows))
	}
	return p
}

// calls makes all calls, and says what is wrong with them.
func (p *faultPlan) calls(t *testing.T) error {
	all, err := p.run(t.Context(), p.batches)
	if err != nil {
		return err
	}
	for i, ranks := range all {
		for rank, res := range ranks {
			if err := p.differs(p.want[i], res); err != nil {
				return fmt.Errorf("call %d, rank %d: %w", i, rank, err)
			}
		}
	}
	return nil
}

// differs says what of a result is not as it should be.
func (p *faultPlan) differs(want, got *Result) error {
	for _, x := range []struct {
		name      string
		want, got []int32
	}{{"tokens", want.Tokens, got.Tokens}, {"ranks", want.Ranks, got.Ranks}, {"top ids", want.TopIDs, got.TopIDs}} {
		if !slices.Equal(x.want, x.got) {
			return fmt.Errorf("%s are %v, not %v", x.name, x.got, x.want)
		}
	}
	for row, list := range want.ListLogProbs {
		for i, x := range list {
			if y := got.ListLogProbs[row][i]; !(math.Abs(float64(x-y)) < 1e-5) {
				return fmt.Errorf("row %d: listed log-probability %d is %v, not %v", row, i, y, x)
			}
		}
	}
	return nil
}

// TestRanksInAnyOrder: however late ranks come, and whatever order their stores arrive in, all come to the tokens, call by call.
func TestRanksInAnyOrder(t *testing.T) {
	for _, device := range []string{"sim:sm_90", "sim:sm_100"} {
		p := newFaultPlan(t, device, 3, 4)
		rng := rand.New(rand.NewPCG(1, 1))
		p.group.late = func(int) int { return rng.IntN(2) * rng.IntN(300) }
		require.NoError(t, p.calls(t), device)
	}
}

// TestRankDoesNotCome: the others say who it is, give no row a token, and go on saying so.
func TestRankDoesNotCome(t *testing.T) {
	p := newFaultPlan(t, "sim:sm_90", 3, 2)
	p.group.absent = func(rank int) bool { return rank == 1 }
	all, err := p.run(t.Context(), p.batches)
	var missing *PeerError
	require.ErrorAs(t, err, &missing)
	require.Equal(t, &PeerError{Missing: []int{1}, World: 3, Epoch: 1}, missing)
	for _, ranks := range all {
		require.Len(t, ranks, 2)
		for _, res := range ranks {
			for i := range res.Tokens {
				require.EqualValues(t, ir.NoToken, res.Tokens[i])
				require.Equal(t, ir.StatusPeer, res.Status[i])
			}
		}
	}
}

// TestStoresGetLost: stores of one rank to another do not arrive (case I1). That one misses it, and says so.
func TestStoresGetLost(t *testing.T) {
	p := newFaultPlan(t, "sim:sm_100", 2, 1)
	p.group.lost = func(from, to int) bool { return from == 1 && to == 0 }
	all, err := p.run(t.Context(), p.batches)
	var missing *PeerError
	require.ErrorAs(t, err, &missing)
	require.Equal(t, &PeerError{Missing: []int{1}, World: 2, Epoch: 1}, missing)
	require.Equal(t, ir.StatusPeer, all[0][0].Status[0])
	require.Equal(t, p.want[0].Tokens, all[0][1].Tokens)
}

// exchangeFaults are planted in the kernels of all ranks: a pattern, and what stands there instead.
var exchangeFaults = map[string][2]string{
	"flag released to the own GPU only":  {`st\.release\.sys\.`, `st.release.gpu.`},
	"flag not released":                  {`st\.release\.sys\.`, `st.relaxed.sys.`},
	"flag before the records":            {`(send_row_end:\s*)bar\.sync[^;]*;`, `$1`},
	"records read before flags are seen": {`(flag_seen:[^:]*await_flag_end:\s*)bar\.sync[^;]*;`, `$1`},
	"epoch does not count":               {`add\.u32(\s+)%epoch, %epoch, 1;`, `add.u32$1%epoch, %epoch, 0;`},
	"epoch counts two":                   {`add\.u32(\s+)%epoch, %epoch, 1;`, `add.u32$1%epoch, %epoch, 2;`},
	"one half of the inbox":              {`and\.b32(\s+)%half, %epoch, 1;`, `and.b32$1%half, %epoch, 0;`},
	"flag of any epoch":                  {`setp\.eq\.u32(\s+)%flag_up, %flag, %epoch;`, `setp.ne.u32$1%flag_up, %flag, 0;`},
	"flag of another rank":               {`(mad\.wide\.u32\s+%flag_addr, )%own_rank,`, `${1}0,`},
	"records over those of rank 0":       {`add\.u32(\s+%r\d+, %half), %own_rank;`, `add.u32$1, 0;`},
	"no wait":                            {`@!%late bra`, `@%late bra`},
}

// TestExchangeFaultsAreFound plants faults in the exchange: each comes to light within a few runs, as an error or as tokens that are not
// those of one device.
func TestExchangeFaultsAreFound(t *testing.T) {
	const runs = 12
	late := func() func(int) int {
		rng := rand.New(rand.NewPCG(1, 2))
		return func(int) int { return rng.IntN(2) * rng.IntN(100) }
	}
	p := newFaultPlan(t, "sim:sm_90", 3, 4)
	p.group.late = late()
	for range runs / 3 {
		require.NoError(t, p.calls(t))
	}
	for name, fault := range exchangeFaults {
		t.Run(name, func(t *testing.T) {
			p.connect() // whatever the fault before has left
			plant(t, p, regexp.MustCompile(fault[0]), fault[1])
			p.group.late = late()
			for run := range runs {
				if err := p.calls(t); err != nil {
					t.Logf("run %d: %.200v", run, err)
					return
				}
			}
			t.Error("not found")
		})
	}
}

// reportSpec asks for all that is reported of rows, of lists that go in two rounds.
var (
	reportSpec = Spec{Sampler: ir.Greedy, LogProb: ir.ProcessedLogProb, TopN: 20, Rank: true, ListLogProbs: true}
	reportRows = func() Rows {
		list := make([]int32, 70)
		for i := range list {
			list[i] = int32(2 * i)
		}
		return Rows{ListIDs: [][]int32{list}}
	}()
)

// TestReportsInAnyOrder: what is reported comes to the same on all ranks, however late they come, call by call.
func TestReportsInAnyOrder(t *testing.T) {
	p := newFaultPlanOf(t, "sim:sm_100", 2, 3, 4, reportSpec, reportRows)
	rng := rand.New(rand.NewPCG(1, 1))
	p.group.late = func(int) int { return rng.IntN(2) * rng.IntN(300) }
	require.NoError(t, p.calls(t))
}

// TestReportsMissARank: a rank that takes no part in an exchange of reports is missed there, and rows end without a token.
func TestReportsMissARank(t *testing.T) {
	for kind, spec := range map[manifest.StageKind]Spec{
		manifest.TopGatherStage:    {Sampler: ir.Greedy, LogProb: ir.RawLogProb, TopN: 2},
		manifest.ListedGatherStage: {Sampler: ir.Greedy, LogProb: ir.RawLogProb, ListLogProbs: true},
		manifest.RanksGatherStage:  {Sampler: ir.Greedy, LogProb: ir.RawLogProb, Rank: true},
	} {
		rows := Rows{}
		if spec.ListLogProbs {
			rows.ListIDs = [][]int32{{1, 149}}
		}
		p := newFaultPlanOf(t, "sim:sm_90", 2, 2, 3, spec, rows)
		stages := &p.parts[1].stages[0]
		if kind == manifest.RanksGatherStage {
			stages = &p.parts[1].ranksStages
		}
		stages[kind] = nil // of rank 1
		all, err := p.run(t.Context(), p.batches[:1])
		var missing *PeerError
		require.ErrorAs(t, err, &missing, kind)
		require.Equal(t, &PeerError{Missing: []int{1}, World: 2, Epoch: 2}, missing, kind)
		for row, status := range all[0][0].Status {
			require.Equal(t, ir.StatusPeer, status, kind)
			require.EqualValues(t, ir.NoToken, all[0][0].Tokens[row], kind)
		}
		for _, x := range slices.Concat(all[0][0].ListLogProbs...) {
			require.True(t, math.IsNaN(float64(x)))
		}
		for _, x := range all[0][0].TopIDs {
			require.EqualValues(t, ir.NoToken, x)
		}
		for _, x := range all[0][0].Ranks {
			require.Zero(t, x)
		}
	}
}

// TestListsMissARank: a rank that sends no lists is missed, and whatever is launched afterwards says the same of it.
func TestListsMissARank(t *testing.T) {
	p := newFaultPlanOf(t, "sim:sm_90", 2, 2, 3, Spec{Truncation: ir.Truncation{TopP: true}}, Rows{TopP: []float32{0.5}, Seeds: []uint64{1}, Positions: []uint64{2}})
	p.parts[1].stages[0][manifest.GatherStage] = nil
	for range 2 {
		all, err := p.run(t.Context(), p.batches[:1])
		var missing *PeerError
		require.ErrorAs(t, err, &missing)
		require.Equal(t, &PeerError{Missing: []int{1}, World: 2, Epoch: 1}, missing)
		for row, status := range all[0][0].Status {
			require.Equal(t, ir.StatusPeer, status)
			require.EqualValues(t, ir.NoToken, all[0][0].Tokens[row])
		}
	}
}

// reportFaults are planted in the stages that exchange reports.
var reportFaults = map[string][2]string{
	"flag not released":                {`st\.release\.sys\.`, `st.relaxed.sys.`},
	"flag before the words":            {`bar\.sync[^;]*;(\s+mov\.b32\s+%flag_rank, %thread;)`, `$1`},
	"words read before flags are seen": {`bar\.red\.or\.pred[^;]*;`, ``},
	"round does not count":             {`add\.u32(\s+)%epoch, %epoch, 1;(\s+setp\.lt\.u32\s+%more_rounds)`, `add.u32$1%epoch, %epoch, 0;$2`},
	"one half of the inbox":            {`and\.b32(\s+)%half, %epoch, 1;`, `and.b32$1%half, %epoch, 0;`},
	"words over those of rank 0":       {`add\.u32(\s+%r\d+, %half), %own_rank;`, `add.u32$1, 0;`},
	"no wait":                          {`@!%late bra`, `@%late bra`},
}

// TestReportFaultsAreFound plants faults in the exchange of listed log-probabilities: each comes to light within a few runs.
func TestReportFaultsAreFound(t *testing.T) {
	const runs = 12
	p := newFaultPlanOf(t, "sim:sm_90", 3, 3, 2, Spec{Sampler: ir.Greedy, LogProb: ir.RawLogProb, ListLogProbs: true}, reportRows)
	a := p.parts[0].buckets[0].Artifact
	m := a.Manifest.KernelOf(manifest.ListedGatherStage)
	before, stage, _ := strings.Cut(string(a.PTX), ".visible .entry "+m.Entry+"(")
	for name, fault := range reportFaults {
		t.Run(name, func(t *testing.T) {
			text := regexp.MustCompile(fault[0]).ReplaceAllString(stage, fault[1])
			require.False(t, stage == text, "the pattern is not there")
			program, err := sim.Load(before+".visible .entry "+m.Entry+"("+text, m)
			require.NoError(t, err)
			for _, part := range p.parts {
				part.stages[0][manifest.ListedGatherStage] = program
			}
			p.connect() // whatever the fault before has left
			rng := rand.New(rand.NewPCG(1, 2))
			p.group.late = func(int) int { return rng.IntN(2) * rng.IntN(100) }
			for run := range runs {
				if err := p.calls(t); err != nil {
					t.Logf("run %d: %.200v", run, err)
					return
				}
			}
			t.Error("not found")
		})
	}
}

// plant changes the kernels of all ranks, which are the same.
func plant(t *testing.T, p *faultPlan, pattern *regexp.Regexp, to string) {
	require.Len(t, p.parts[0].programs, len(p.parts[0].buckets))
	for i, bucket := range p.parts[0].buckets {
		a := bucket.Artifact
		text := pattern.ReplaceAllString(string(a.PTX), to)
		require.NotEqual(t, string(a.PTX), text, "the pattern is not there")
		program, err := sim.Load(text, a.Manifest)
		require.NoError(t, err)
		for _, part := range p.parts {
			require.Equal(t, a.PTX, part.buckets[i].Artifact.PTX)
			part.programs[i] = program
		}
	}
}
