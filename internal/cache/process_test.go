//go:build unix

package cache

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// childEnv tells the test binary to act as one of the processes of a test: "hammer DIR ROUNDS" or "die DIR".
const childEnv = "FSGEN_CACHE_TEST_CHILD"

func TestMain(m *testing.M) {
	if role := strings.Fields(os.Getenv(childEnv)); len(role) > 0 {
		os.Exit(child(role))
	}
	os.Exit(m.Run())
}

func child(role []string) int {
	warned := 0
	c := Open(Options{Dir: role[1], Warn: func(s string) { warned++; fmt.Println(s) }})
	if role[0] == "die" {
		midWrite = func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }
		_ = c.Put("k0", contents(0))
		return 1
	}
	for _, err := os.Stat(filepath.Join(role[1], "go")); err != nil; _, err = os.Stat(filepath.Join(role[1], "go")) {
		time.Sleep(time.Millisecond) // every process starts at once
	}
	rounds, _ := strconv.Atoi(role[2])
	for r := range rounds {
		for k := range 8 {
			if err := visit(c, r, k); err != nil {
				fmt.Println(err)
				return 1
			}
		}
	}
	if warned > 0 {
		return 1
	}
	return 0
}

// visit asks for one kernel and now and then removes one, as `fsgen cache rm` beside a running program does.
func visit(c *Cache, r, k int) error {
	got, err := c.GetOrMake(context.Background(), fmt.Sprintf("k%d", k), func(context.Context) ([]byte, error) {
		return contents(k), nil
	})
	if err != nil {
		return err
	}
	if !bytes.Equal(got, contents(k)) {
		return fmt.Errorf("k%d: wrong contents", k)
	}
	if (os.Getpid()+r+k)%5 == 0 {
		_, err = c.Remove(fmt.Sprintf("k%d", (k+3)%8))
	}
	return err
}

// contents is the kernel that belongs to a key, of a length of its own.
func contents(k int) []byte { return bytes.Repeat([]byte{byte('a' + k)}, 5000+1000*k) }

func start(t *testing.T, role string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	cmd, out := exec.Command(self(t), "-test.run=^$"), &bytes.Buffer{}
	cmd.Env = append(os.Environ(), childEnv+"="+role)
	cmd.Stdout, cmd.Stderr = out, out
	require.NoError(t, cmd.Start())
	return cmd, out
}

func TestProcessesRace(t *testing.T) {
	dir, rounds := t.TempDir(), 50
	if testing.Short() {
		rounds = 5
	}
	var children []func()
	for range 16 {
		cmd, out := start(t, fmt.Sprintf("hammer %s %d", dir, rounds))
		children = append(children, func() { assert.NoError(t, cmd.Wait(), "%s", out) })
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
	for _, wait := range children {
		wait()
	}
	left, err := filepath.Glob(filepath.Join(dir, tempPrefix+"*"))
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestKilledInMidWrite(t *testing.T) {
	dir := t.TempDir()
	cmd, _ := start(t, "die "+dir)
	require.ErrorContains(t, cmd.Wait(), "killed")
	left, err := filepath.Glob(filepath.Join(dir, tempPrefix+"*"))
	require.NoError(t, err)
	require.Len(t, left, 1)

	c := Open(Options{Dir: dir, Warn: func(s string) { t.Error(s) }})
	_, ok := c.Get("k0")
	assert.False(t, ok)
	require.NoError(t, c.Put("k0", contents(0)))
	got, ok := c.Get("k0")
	assert.True(t, ok)
	assert.Equal(t, contents(0), got)
}
