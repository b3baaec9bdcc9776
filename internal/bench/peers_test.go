package bench

import (
	"errors"
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
	assert.Equal(t, Problem{"qwen3-8b", 151936, 4096, "temperature", "categorical", false}, r.Problem)
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
	_, err = python(t, `peers.parse(["--vocab", "100", "--hidden", "64", "--replays", "10"])`)
	require.ErrorAs(t, err, &exit)
	assert.Contains(t, string(exit.Stderr), "--replays: want an odd number of 9 or more")
}
