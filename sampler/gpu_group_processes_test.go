//go:build !fsgen_nocuda && !race

package sampler

import (
	"bufio"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/internal/cfake"
	"github.com/fsgen/fsgen/ir"
)

// envGroupChild is what a process that a test has started is to be: name of the group, transport, world and rank.
const envGroupChild = "FSGEN_TEST_GROUP"

// childConfig is the group of this process, if a test has started it to be in one.
func childConfig(t *testing.T) GroupConfig {
	text := os.Getenv(envGroupChild)
	if text == "" {
		t.Skip("it is for processes that other tests start")
	}
	cfg := GroupConfig{ExchangeBytes: 1 << 30}
	_, err := fmt.Sscan(text, &cfg.Name, &cfg.Transport, &cfg.World, &cfg.Rank)
	require.NoError(t, err)
	cfg.Devices = ranksOn(t, cfg.World)[cfg.Rank:][:1]
	return cfg
}

// child is a process with a rank.
type child struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

// startChildren starts a process for each rank, which runs a test.
func startChildren(t *testing.T, test string, world int, transport Transport) (all []*child) {
	for rank := range world {
		cmd := exec.Command(os.Args[0], "-test.run=^"+test+"$", "-test.v")
		group := fmt.Sprintf("%s=fsgen-test-%d-%s-%d %s %d %d", envGroupChild, os.Getpid(), transport, world, transport, world, rank)
		cmd.Env = append(os.Environ(), group, cfake.RequireEnv+"=")
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
		all = append(all, &child{cmd, bufio.NewScanner(out)})
	}
	return all
}

// next is the next line with a prefix.
func (c *child) next(prefix string) (string, error) {
	for c.lines.Scan() {
		if line := c.lines.Text(); strings.HasPrefix(line, prefix) {
			return strings.TrimPrefix(line, prefix+" "), nil
		} else if strings.HasPrefix(line, "error") || strings.Contains(line, "Error:") {
			return "", errors.New(line)
		}
	}
	return "", fmt.Errorf("the process ended before %q: %v", prefix, c.lines.Err())
}

// childProblem is what ranks sample that tests kill.
func childProblem() (Weights, []uint16, Rows, Spec) {
	const vocab, hidden, batch = 8192, 64, 32
	rng := rand.New(rand.NewPCG(1, 11))
	weights := Weights{Source: Matrix{Data: normals(rng, vocab*hidden, 0.3), Hidden: hidden}, Vocab: vocab, Hidden: hidden}
	return weights, normals(rng, batch*hidden, 1), seeded(rng, batch), Spec{Chain: ir.Chain{Temperature: true}, MaxBatch: batch}
}

// TestGPUGroupChild is a rank in a process that another test has started: it samples until it is killed, or its group ends.
func TestGPUGroupChild(t *testing.T) {
	cfg := childConfig(t)
	cfg.Timeout = 3 * time.Second
	weights, h, rows, spec := childProblem()
	g := gpuGroup(t, cfg, weights, nil, spec)
	fmt.Println("transport", g.h.g.Info().Transport, g.h.g.Info().Why)
	for {
		res, err := g.Sample(t.Context(), h, rows)
		if err != nil {
			fmt.Println("error", strings.ReplaceAll(err.Error(), "\n", " "))
			os.Exit(0) // the group is of no use any more
		}
		fmt.Println("tokens", res.Tokens)
	}
}

// TestGPUGroupProcesses has three processes sample together, over one another's memory and over the host, and then kills one: the others
// say which, in time.
func TestGPUGroupProcesses(t *testing.T) {
	gpu(t)
	for _, transport := range []Transport{TransportPeer, TransportHost} {
		all := startChildren(t, "TestGPUGroupChild", 3, transport)
		weights, h, rows, spec := childProblem()
		want, err := gpuGroup(t, GroupConfig{Devices: ranksOn(t, 1)}, weights, nil, spec).Sample(t.Context(), h, rows)
		require.NoError(t, err)
		for rank, c := range all {
			line, err := c.next("transport")
			require.NoError(t, err, "rank %d", rank)
			t.Log("rank", rank, line)
			for range 5 {
				line, err := c.next("tokens")
				require.NoError(t, err, "rank %d", rank)
				require.Equal(t, fmt.Sprint(want.Tokens), line, "rank %d", rank)
			}
		}
		require.NoError(t, all[1].cmd.Process.Kill())
		killed := time.Now()
		for _, rank := range []int{0, 2} {
			for {
				if _, err := all[rank].next("tokens"); err != nil {
					t.Logf("rank %d after %v: %v", rank, time.Since(killed), err)
					require.Regexp(t, "rank 1", err.Error())
					break
				}
			}
			require.Less(t, time.Since(killed), 20*time.Second)
		}
	}
}

// digests samples rows of all samplers in a group and hears of each call what came: tokens, statuses, draws and scores, to the bit.
func digests(t *testing.T, cfg GroupConfig, hear func(string)) {
	const vocab, hidden, batch = 32001, 64, 1024 // few calls: processes that share a GPU take turns, milliseconds each, in every exchange
	g, err := OpenGroup(t.Context(), cfg)
	require.NoError(t, err)
	defer g.Close()
	rng := rand.New(rand.NewPCG(5, 8))
	head, err := g.LoadHead(t.Context(), Weights{Source: Matrix{Data: normals(rng, vocab*hidden, 0.3), Hidden: hidden}, Vocab: vocab, Hidden: hidden}, nil)
	require.NoError(t, err)
	defer head.Close()
	calls := max(fromEnv(t, "FSGEN_GROUP_ROWS", 100_000)/batch/(len(shardCases)-1), 1)
	for _, name := range slices.Sorted(maps.Keys(shardCases)) {
		c := shardCases[name]
		if c.spec.Chain.Bias == ir.BiasMatrix { // which takes longer to copy than all else
			continue
		}
		c.spec.MaxBatch = batch
		plan, err := head.Plan(t.Context(), c.spec)
		require.NoError(t, err)
		for call := range calls {
			res, err := plan.Sample(t.Context(), normals(rng, batch*hidden, 1), c.rows(rng, vocab, batch))
			require.NoError(t, err)
			sum := fnv.New64a()
			fmt.Fprint(sum, res.Tokens, res.Status, res.Draws, res.Scores)
			hear(fmt.Sprintf("%s %d %x", name, call, sum.Sum64()))
		}
		require.NoError(t, plan.Close())
	}
}

// TestGPUGroupChildDigests is a rank in a process that TestGPUProcessesGiveTheWhole has started.
func TestGPUGroupChildDigests(t *testing.T) {
	digests(t, childConfig(t), func(digest string) { fmt.Println("digest", digest) })
}

// TestGPUProcessesGiveTheWhole holds ranks in processes of their own, on one GPU or on several, to one GPU alone, over FSGEN_GROUP_ROWS rows
// (100,000) of all samplers for each number of ranks.
func TestGPUProcessesGiveTheWhole(t *testing.T) {
	gpu(t)
	var want []string
	digests(t, GroupConfig{Devices: ranksOn(t, 1)}, func(digest string) { want = append(want, digest) })
	require.NotEmpty(t, want)
	for _, n := range []int{2, 3, 4, 8} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			begin := time.Now()
			all := startChildren(t, "TestGPUGroupChildDigests", n, TransportPeer)
			for i, digest := range want {
				for rank, c := range all {
					line, err := c.next("digest")
					require.NoError(t, err, "rank %d", rank)
					require.Equal(t, digest, line, "rank %d", rank)
				}
				if i%10 == 9 || i+1 == len(want) {
					t.Logf("%d of %d calls by %v: %s", i+1, len(want), time.Since(begin), digest)
				}
			}
		})
	}
}
