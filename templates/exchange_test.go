package templates_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/gen"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/ptx"
	"github.com/fsgen/fsgen/templates"
)

// exchanges are the kernels that exchange records, for the least and the most that their epilogue does.
func exchanges(t *testing.T) (out []kernel) {
	for _, a := range arch.All() {
		for _, c := range []ir.Computation{{Sampler: ir.Greedy}, {Score: true, LogSumExp: true, LogProb: ir.ProcessedLogProb, Chain: ir.Chain{Temperature: true}},
			{Sampler: ir.Grouped, LogSumExp: true}} {
			c.Shard = ir.ShardExchange
			out = append(out, parse(t, gen.Request{Arch: a, Computation: c, Shape: ir.Shape{Vocab: 1000, Hidden: 64}, Batch: 64}))
		}
	}
	return out
}

// places lists where instructions match, by their place in the code.
func (k kernel) places(pattern string) (at []int) {
	match := regexp.MustCompile(pattern)
	for i, in := range k.code {
		if match.MatchString(in.String()) {
			at = append(at, i)
		}
	}
	return at
}

// between reports whether an instruction of a kind stands between two places.
func (k kernel) between(from, to int, prefix string) bool {
	for _, in := range k.code[from:to] {
		if strings.HasPrefix(mnemonic(in), prefix) {
			return true
		}
	}
	return false
}

// TestFlagsAreOfTheSystem: every flag that crosses to another GPU is stored with release at system scope, behind a barrier behind all
// stores of records; every flag that is looked at is loaded with acquire at system scope, and records are loaded behind a barrier
// behind that, past every cache that is not the system's. No other instruction reaches past the GPU, and none is a multicast one.
func TestFlagsAreOfTheSystem(t *testing.T) {
	for _, k := range exchanges(t) {
		name := k.entry.Name
		flags, polls := k.places(`\bst\.\S*\s+\[%flag_addr`), k.places(`\bld\.\S*\s+%flag,`)
		require.Len(t, flags, 1, name)
		require.Len(t, polls, 1, name)
		flag, poll := flags[0], polls[0]
		require.Regexp(t, `^st\.release\.sys\.global\.b32 +\[%flag_addr\], %epoch;`, k.code[flag].String(), name)
		require.Regexp(t, `^ld\.acquire\.sys\.global\.b32 +%flag, \[%flag_addr_1\];`, k.code[poll].String(), name)
		records := k.places(`\bst\.global\S*\s+\[%record_`)
		require.NotEmpty(t, records, name)
		for _, store := range records {
			require.Less(t, store, flag, name)
		}
		last := records[len(records)-1]
		require.True(t, k.between(last, flag, "bar.sync"), "%s: no barrier between the records and the flag", name)
		require.Less(t, flag, poll, name)
		loads := k.places(`\bld\.\S*\s+.*\[%record_`)
		require.NotEmpty(t, loads, name)
		for _, load := range loads {
			require.True(t, k.between(poll, load, "bar.sync"), "%s: no barrier between a flag and the records", name)
			require.Contains(t, mnemonic(k.code[load]), "ld.relaxed.sys.global", name)
		}
		require.NotContains(t, k.text, "multimem", name)
		require.Len(t, k.places(`\.sys\b`), 2+len(loads), "%s: something else reaches the system", name)
	}
}

// TestWaitsEnd: the wait for a flag looks at the clock each time round, and leaves when the time is up.
func TestWaitsEnd(t *testing.T) {
	for _, k := range exchanges(t) {
		poll := k.places(`\bld\.acquire\.sys`)[0]
		var loop []string
		for _, in := range k.code[poll:] {
			if loop = append(loop, mnemonic(in)+" "+strings.Join(operands(in), " ")); strings.Contains(in.String(), "bra poll_flag") || strings.Contains(in.String(), "bra  poll_flag") {
				break
			}
		}
		text := strings.Join(loop, "\n")
		require.Contains(t, text, "%globaltimer", k.entry.Name)
		require.Contains(t, text, "setp.ge.u64", k.entry.Name)
		require.Less(t, len(loop), 8, "%s: the loop does more than wait:\n%s", k.entry.Name, text)
	}
}

// operands are an instruction's, as its text has them.
func operands(in *ptx.Instr) []string { return strings.Fields(in.String())[1:] }

// TestStagesWaitForFlags: the stages that bring lists and reports together keep to the same rules: all that they store to others comes ahead
// of a barrier, which is ahead of the one flag, and what others have stored is loaded behind a barrier behind the wait.
func TestStagesWaitForFlags(t *testing.T) {
	lists := ir.Computation{Truncation: ir.Truncation{TopP: true}, Shard: ir.ShardExchange}
	reports := ir.Computation{LogProb: ir.RawLogProb, TopN: 5, Rank: true, Listed: true, Shard: ir.ShardExchange}
	for _, a := range arch.All() {
		for _, x := range []struct {
			c       ir.Computation
			options templates.Options
			stages  []manifest.StageKind
		}{
			{lists, templates.Options{}, []manifest.StageKind{manifest.GatherStage}}, {lists, templates.Options{Further: true}, []manifest.StageKind{manifest.GatherStage}},
			{reports, templates.Options{}, []manifest.StageKind{manifest.TopGatherStage, manifest.ListedGatherStage}},
			{reports.RankPass(), templates.Options{Ranks: true}, []manifest.StageKind{manifest.RanksGatherStage}},
		} {
			k := parse(t, gen.Request{Arch: a, Computation: x.c, Shape: ir.Shape{Vocab: 1000, Hidden: 64}, Batch: 16, Options: x.options})
			for _, kind := range x.stages {
				requireWaits(t, stageOf(t, k, kind))
			}
		}
	}
}

func requireWaits(t *testing.T, k kernel) {
	t.Helper()
	name := k.entry.Name
	flags, polls := k.places(`\bst\.\S*\s+\[%flag_addr`), k.places(`\bld\.\S*\s+%flag,`)
	require.Len(t, flags, 1, name)
	require.Len(t, polls, 1, name)
	require.Regexp(t, `^st\.release\.sys\.global\.b32 `, k.code[flags[0]].String(), name)
	require.Regexp(t, `^ld\.acquire\.sys\.global\.b32 `, k.code[polls[0]].String(), name)
	sent := k.places(`\bst\.global\S*\s+\[%record_`)
	require.NotEmpty(t, sent, name)
	for _, store := range sent {
		require.Less(t, store, flags[0], name)
	}
	require.True(t, k.between(sent[len(sent)-1], flags[0], "bar.sync"), name)
	require.True(t, k.between(polls[0], polls[0]+40, "bar.red"), "%s: no barrier behind the wait", name)
	loads := 0
	for _, load := range k.places(`\bld\.\S*\s+.*\[%record_`) {
		if load > polls[0] {
			loads++
			require.Contains(t, mnemonic(k.code[load]), "ld.relaxed.sys.global", name)
		}
	}
	require.Positive(t, loads, name)
	require.Len(t, k.places(`\bst\.\S*\.sys\b`), 1, name)
	require.NotContains(t, k.text, "multimem", name)
	requireOneDeadline(t, k)
}

// requireOneDeadline: the time that a stage waits is not begun again for each row, or a missing rank would cost it as often.
func requireOneDeadline(t *testing.T, k kernel) {
	t.Helper()
	ahead, set := map[string]bool{}, false
	for _, s := range k.entry.Body {
		switch s := s.(type) {
		case *ptx.Label:
			ahead[s.Name] = ahead[s.Name] || !set
		case *ptx.Instr:
			text := s.String()
			set = set || strings.Contains(text, "%globaltimer")
			if _, to, branch := strings.Cut(text, "bra "); branch && set {
				require.False(t, ahead[strings.Trim(to, " ;")], "%s: %s goes back ahead of the deadline", k.entry.Name, text)
			}
		}
	}
	require.True(t, set, k.entry.Name)
}

// stageOf is a stage of a kernel.
func stageOf(t *testing.T, k kernel, kind manifest.StageKind) kernel {
	m, err := ptx.Parse(k.text)
	require.NoError(t, err)
	k.entry, k.code = m.Func((*k.manifest.StageOf(kind)).Entry), nil
	for _, s := range k.entry.Body {
		if in, ok := s.(*ptx.Instr); ok {
			k.code = append(k.code, in)
		}
	}
	return k
}
