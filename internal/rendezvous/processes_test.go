//go:build linux

package rendezvous

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	envGroup = "FSGEN_TEST_RENDEZVOUS" // the group of a process that a test has started
	envRank  = "FSGEN_TEST_RANK"
)

func TestMain(m *testing.M) {
	if group := os.Getenv(envGroup); group != "" {
		os.Exit(process(group))
	}
	os.Exit(m.Run())
}

// process is a rank in a process of its own: it meets the others, says so, and then waits to hear of their end.
func process(group string) int {
	rank, err := strconv.Atoi(os.Getenv(envRank))
	if err != nil {
		return 2
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	g, err := Join(ctx, Config{Group: group, Rank: rank, World: processes, Blob: fmt.Append(nil, os.Getpid())})
	if err != nil {
		fmt.Println("join:", err)
		return 1
	}
	all, err := g.AllGather(ctx, g.Members()[rank].Blob)
	fmt.Printf("met %s %v\n", all, err)
	<-g.Done()
	var lost *LostError
	if errors.As(g.Err(), &lost) {
		fmt.Printf("lost %d %d\n", lost.Rank, lost.PID)
	}
	_ = g.Close()
	return 0
}

const processes = 3

// TestKilledRank kills each of three processes in turn: the other two hear whom they lost, at once.
func TestKilledRank(t *testing.T) {
	for killed := range processes {
		cmds, lines := make([]*exec.Cmd, processes), make([]*bufio.Scanner, processes)
		for rank := range cmds {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", fmt.Sprintf("%s=killed-%d-%d", envGroup, os.Getpid(), killed), fmt.Sprintf("%s=%d", envRank, rank))
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			t.Cleanup(func() { _ = cmd.Process.Kill() })
			cmds[rank], lines[rank] = cmd, bufio.NewScanner(out)
		}
		for rank, l := range lines {
			require.True(t, l.Scan(), "rank %d", rank)
			assert.Equal(t, fmt.Sprintf("met [%d %d %d] <nil>", cmds[0].Process.Pid, cmds[1].Process.Pid, cmds[2].Process.Pid), l.Text())
		}
		start := time.Now()
		require.NoError(t, cmds[killed].Process.Kill())
		for rank, l := range lines {
			if rank != killed {
				require.True(t, l.Scan(), "rank %d", rank)
				assert.Equal(t, fmt.Sprintf("lost %d %d", killed, cmds[killed].Process.Pid), l.Text())
			}
		}
		assert.Less(t, time.Since(start), 2*time.Second)
		for rank, cmd := range cmds {
			err := cmd.Wait()
			assert.Equal(t, rank == killed, err != nil && strings.Contains(err.Error(), "killed"), "%v", err)
		}
	}
}
