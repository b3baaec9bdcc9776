//go:build !fsgen_nocuda

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/model"
)

// The stand-in's kernels do nothing, so that tokens are what its memory is filled with: what is tested is all around them.
const unwritten = "-1431655766\n"

func TestSampleOnRanksOfGPUs(t *testing.T) {
	library, cache := fakeLibcuda(t, "90", "90"), t.TempDir()
	for args, want := range map[string]string{
		"--tp 1": "1 rank on cuda:0: transport none", "--tp 2": "2 ranks on cuda:0, cuda:1: transport peer", "--tp 3 --device cuda:1": "3 ranks on cuda:1 (3)",
		"--tp 2 --tp-transport host": "transport host (asked for)", "--tp 48 --top-p 0.9": "48 ranks",
	} {
		cmd := onGPUs(library, cache, append([]string{"sample"}, strings.Fields(args)...)...)
		var notes bytes.Buffer
		cmd.Stderr = &notes
		out, err := cmd.Output()
		require.NoError(t, err, "%s: %s", args, &notes)
		assert.Equal(t, strings.Repeat(unwritten, 4), string(out), args)
		assert.Contains(t, notes.String(), want)
	}
}

// Rows that need more to exchange their lists in than ranks have are sampled in pieces.
func TestRanksNarrowManyRows(t *testing.T) {
	hidden, weights := filepath.Join(t.TempDir(), "hidden.npy"), filepath.Join(t.TempDir(), "head.safetensors")
	require.NoError(t, os.WriteFile(hidden, npyFile("<f4", false, "300, 64, ", make([]byte, 4*300*64)), 0o600))
	require.NoError(t, model.WriteFile(weights, []model.TensorData{model.F32Data("lm_head.weight", []int{300, 64}, make([]float32, 300*64))}, nil))
	cmd := onGPUs(fakeLibcuda(t, "90", "90"), t.TempDir(), "sample", "--tp", "8", "--top-p", "0.9", "--weights", weights, "--hidden", hidden, "--seed", "1", "--position", "0")
	var notes bytes.Buffer
	cmd.Stderr = &notes
	out, err := cmd.Output()
	require.NoError(t, err, "%s", &notes)
	assert.Equal(t, 300, bytes.Count(out, []byte("\n")), "a line for each row")
}

// Processes that were started with different flags all say so.
func TestProcessesOfRanksAreStartedAlike(t *testing.T) {
	library, cache := fakeLibcuda(t, "90", "90"), t.TempDir()
	for i, c := range []struct{ args, want string }{
		{"", ""}, {"--seed 2 --position 0", "rank 1 has Seeds"}, {"--vocab 900", "rank 1 has vocabulary 900, where others have 1000"},
		{"--sampler grouped", "rank 1 has sampler grouped, where others have gumbel"}, {"--top-k 5", "rank 1 has extras top-k, where others have none"},
		{"--tp-transport host", "asks for"},
	} {
		var cmds []*exec.Cmd
		var outs [2]bytes.Buffer
		for rank := range 2 {
			args := []string{"sample", "--tp", "2", "--tp-rank", fmt.Sprint(rank), "--tp-group", fmt.Sprintf("alike-%d-%d", os.Getpid(), i)}
			if rank == 1 {
				args = append(args, strings.Fields(c.args)...)
			}
			cmd := onGPUs(library, cache, args...)
			cmd.Stdout, cmd.Stderr = &outs[rank], &outs[rank]
			require.NoError(t, cmd.Start())
			cmds = append(cmds, cmd)
		}
		for rank, cmd := range cmds {
			err := cmd.Wait()
			assert.Equal(t, c.want == "", err == nil, "%s: rank %d: %s", c.args, rank, &outs[rank])
			assert.Contains(t, outs[rank].String(), c.want, c.args)
		}
	}
}

func TestRanksSayThatTheyWait(t *testing.T) {
	cmd := onGPUs(fakeLibcuda(t, "90", "90"), t.TempDir(), "sample", "--tp", "3", "--tp-rank", "1", "--tp-group", fmt.Sprintf("waits-%d", os.Getpid()))
	notes, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(notes).ReadString('\n')
	require.NoError(t, err)
	assert.Regexp(t, `^fsgen: rank 1 of 3 waits for the others of group waits-\d+, a minute at most\n$`, line)
	require.NoError(t, cmd.Process.Kill())
	assert.Error(t, cmd.Wait())
}
