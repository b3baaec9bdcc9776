package bench

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// python runs a program with bench/peers.py imported as peers.
func python(t *testing.T, program string, args ...string) ([]byte, error) {
	t.Helper()
	dir, err := filepath.Abs("../../bench")
	require.NoError(t, err)
	if _, err := os.Stat(filepath.Join(dir, "peers.py")); err != nil {
		t.Skipf("runs in a checkout: %v", err)
	}
	tool, err := exec.LookPath("python3")
	if err != nil {
		t.Skip(err)
	}
	cmd := exec.Command(tool, append([]string{"-c", "import json, sys, peers\n" + program}, args...)...)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+dir, "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		t.Logf("%s", exit.Stderr)
	}
	return out, err
}

// TestPeersShareTheSchema has peers.py file times that a fake took in turn, and reads them as a report.
func TestPeersShareTheSchema(t *testing.T) {
	out, err := python(t, `
args = peers.parse(["--model", "qwen3-8b", "--vocab", "151936", "--hidden", "4096", "--replays", "11", "--launches", "2"])
log = []
def contender(name, ms):
    times = iter(ms)
    return name, lambda: (log.append(name), next(times))[1]
slow = [9.0] + [0.5 + 0.01 * (7 * i % 11) for i in range(11)]
times = peers.interleave([contender("cublas", slow), contender("flashinfer", [0.75] * 12)], 1, 11, 2)
assert log == ["cublas", "flashinfer"] * 12, log
results = [peers.result(8, name, "some", t) for name, t in times.items()]
print(json.dumps(peers.report(args, "NVIDIA H200", "release 1", results, [{"contender": "torch-multinomial", "why": "absent"}])))
`)
	require.NoError(t, err)
	r, err := Decode(out)
	require.NoError(t, err)
	assert.Equal(t, Problem{"qwen3-8b", 151936, 4096, "temperature", "categorical", false, "", ""}, r.Problem)
	assert.Equal(t, Method{2, 11, 5}, r.Method)
	require.Len(t, r.Results, 2)
	x := r.find(8, Cublas)
	assert.Len(t, x.Times, 11, "without the warm-up")
	assert.Equal(t, 275.0, x.Median)
	assert.Equal(t, round(375.0/275, 4), r.find(8, "flashinfer").XCublas)
	again, err := r.Encode()
	require.NoError(t, err)
	assert.JSONEq(t, string(out), string(again), "its statistics are ours")
	_, err = panelsOf([]*Report{r})
	assert.Error(t, err, "there is no floor to draw it over")
}

// TestPeersSayWhatIsMissing runs the script without a GPU or without torch.
func TestPeersSayWhatIsMissing(t *testing.T) {
	_, err := python(t, `
sys.modules["torch"] = None
sys.exit(peers.main(["--vocab", "100", "--hidden", "64"]))`)
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	assert.Equal(t, 3, exit.ExitCode())
	assert.Contains(t, string(exit.Stderr), "peers: nothing to time: import of torch")
	_, err = python(t, `peers.parse(["--vocab", "100", "--hidden", "64", "--peers", "vllm"])`)
	require.ErrorAs(t, err, &exit)
	assert.Contains(t, string(exit.Stderr), "--peers: unknown 'vllm': want some of cublas, torch-multinomial, flashinfer")
	_, err = python(t, `peers.parse(["--vocab", "100", "--hidden", "64", "--batch", "8,x"])`)
	require.ErrorAs(t, err, &exit)
	assert.Contains(t, string(exit.Stderr), "--batch: '8,x': want numbers from 1")
	_, err = python(t, `peers.parse(["--vocab", "100", "--hidden", "64", "--replays", "10"])`)
	require.ErrorAs(t, err, &exit)
	assert.Contains(t, string(exit.Stderr), "--replays: want an odd number of 9 or more")
}

// stubTorch is a torch whose every operation does nothing, and whose replays take 5 ms.
const stubTorch = `
from unittest import mock
torch = mock.MagicMock()
torch.__version__ = "2.9.0"
torch.cuda.is_available.return_value = True
torch.cuda.get_device_name.return_value = "Stub"
torch.cuda.Event.return_value.elapsed_time.return_value = 5.0
sys.modules["torch"] = torch
`

// TestPeersRun goes the way of a run over a stub of torch: what fails is left out, at one batch size or from there on.
func TestPeersRun(t *testing.T) {
	dir := t.TempDir()
	args := `["--vocab", "100", "--hidden", "64", "--batch", "1,8", "--out", sys.argv[1]]`
	run := func(faults string) *Report {
		path := filepath.Join(dir, "run.json")
		_, err := python(t, stubTorch+faults+"\nsys.exit(peers.main("+args+"))", path)
		require.NoError(t, err)
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		r, err := Decode(data)
		require.NoError(t, err)
		return r
	}
	names := func(r *Report) (out []string) {
		for _, x := range r.Results {
			out = append(out, fmt.Sprint(x.Batch, " ", x.Contender))
		}
		return out
	}
	r := run(`sys.modules["flashinfer"] = None`)
	assert.Equal(t, []string{"1 cublas", "1 torch-multinomial", "8 cublas", "8 torch-multinomial"}, names(r))
	assert.Equal(t, 250.0, r.Results[0].Median)
	require.Len(t, r.Skipped, 1)
	assert.Contains(t, r.Skipped[0].Why, "flashinfer")

	r = run(`
flashinfer = mock.MagicMock()
flashinfer.sampling.sampling_from_logits = lambda logits, deterministic=True, generator=None: (mock.MagicMock(), None)
sys.modules.update({"flashinfer": flashinfer, "flashinfer.sampling": flashinfer.sampling})
torch.compile.side_effect = [RuntimeError("no compiler"), lambda *a: mock.MagicMock(), lambda *a: mock.MagicMock(), lambda *a: mock.MagicMock()]`)
	assert.Equal(t, []string{"1 cublas", "1 flashinfer", "8 cublas", "8 torch-multinomial", "8 flashinfer"}, names(r))
	assert.Equal(t, []Skipped{{"torch-multinomial at batch 1", "no compiler"}}, r.Skipped)

	r = run(`
sys.modules["flashinfer"] = None
torch.compile.side_effect = [lambda *a: mock.MagicMock(), RuntimeError("illegal address")]
torch.cuda.synchronize.side_effect = RuntimeError("illegal address")`)
	assert.Equal(t, []string{"1 cublas", "1 torch-multinomial"}, names(r))
	assert.Equal(t, "the rest from batch 8 on", r.Skipped[len(r.Skipped)-1].Contender)
}

func TestPeersDryRun(t *testing.T) {
	out, err := python(t, `
sys.modules["torch"] = None
sys.exit(peers.main(["--model", "qwen3-8b", "--vocab", "151936", "--hidden", "4096", "--batch", "1,256", "--dry-run"]))`)
	require.NoError(t, err)
	assert.Contains(t, string(out), "qwen3-8b: V = 151936, D = 4096, 1.24 GB of weights")
	assert.Contains(t, string(out), "batch sizes 1, 256: graphs of 20 launches")
	assert.Regexp(t, `(?m)^flashinfer +torch .*, flashinfer-python .*$`, string(out))
}

// TestPeersOfSeveralRanks goes the way of one rank over a stub of torch, and says what is missing without.
func TestPeersOfSeveralRanks(t *testing.T) {
	out, err := python(t, stubTorch+`
import ranks
args = ranks.parse(["--world", "2", "--vocab", "101", "--hidden", "64", "--batch", "4,8", "--contenders", "shard,gather-gumbel"])
dist, rows = mock.MagicMock(), []
torch.zeros.return_value.item.return_value = 7.0 # the slowest rank's
r = ranks.Rank(torch, dist, args, 1)
assert r.rows == 51, "the last shard is padded"
for batch in args.batches:
    rows += r.measure(batch)
assert dist.barrier.called and dist.all_gather_into_tensor.called
print(json.dumps(peers.report(args, "Stub", "release 1", rows, [])))`)
	require.NoError(t, err)
	r, err := Decode(out)
	require.NoError(t, err)
	require.Len(t, r.Results, 4)
	assert.Equal(t, 350.0, r.find(8, "gather-gumbel").Median, "of 20 launches")

	out, err = python(t, `
import ranks
sys.exit(ranks.main(["--world", "2", "--vocab", "128256", "--hidden", "8192", "--dry-run"]))`)
	require.NoError(t, err)
	assert.Contains(t, string(out), "batch 64: 8.21 MB of logits come to each rank; fsgen's keys are 512 bytes")
	_, err = python(t, `
sys.modules["torch"] = None
import ranks
sys.exit(ranks.main(["--world", "2", "--vocab", "100", "--hidden", "64"]))`)
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	assert.Equal(t, 3, exit.ExitCode())
	assert.Contains(t, string(exit.Stderr), "ranks: nothing to time: import of torch")
}
