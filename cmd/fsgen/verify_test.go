package main

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A suite that nobody reads ends with its first check.
func TestVerifyEndsWithItsReader(t *testing.T) {
	var errs bytes.Buffer
	writes := 0
	out := writerFunc(func([]byte) (int, error) {
		writes++
		return 0, errors.New("nobody reads this")
	})
	require.Equal(t, 1, run(t.Context(), &env{stdout: out, stderr: &errs}, []string{"verify", "--device", "cpu", "--run", "random heads: greedy"}))
	require.Contains(t, errs.String(), "nobody reads this")
	require.LessOrEqual(t, writes, 3)
}

// While checks come out one after the other, a terminal still shows what runs.
func TestVerifyShowsWhatRuns(t *testing.T) {
	var out, errs bytes.Buffer
	e := &env{stdout: &out, stderr: &errs, terminal: true, patience: time.Nanosecond}
	require.Zero(t, run(t.Context(), e, []string{"verify", "--device", "cpu", "--run", "random heads: greedy, (none|mask)$"}))
	require.Contains(t, errs.String(), "/2 random heads: greedy")
}
