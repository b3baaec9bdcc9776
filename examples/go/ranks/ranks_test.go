package main

import (
	"bytes"
	"io"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// inputs is the folder that examples/inputs writes.
func inputs(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "in")
	out, err := exec.Command("go", "run", "../../inputs", dir).CombinedOutput()
	if err != nil {
		t.Skipf("go run ../../inputs: %v: %s", err, out)
	}
	return dir
}

// want is what fsgen sample and all other examples come to.
const want = `{"tokens":[4066,1515,2916,3894,975]}` + "\n"

func TestRanksInOneProcess(t *testing.T) {
	dir := inputs(t)
	for _, args := range [][]string{{"-ranks", "3", "-devices", "cpu"}, {"-ranks", "2", "-devices", "sim:sm_90"}, {"-ranks", "1", "-devices", "cpu"}} {
		var out bytes.Buffer
		require.NoError(t, run(t.Context(), append(args, "-in", dir), &out, io.Discard), "%v", args)
		require.Equal(t, want, out.String(), "%v", args)
	}
}

func TestBadCommandLines(t *testing.T) {
	for _, args := range [][]string{{}, {"-in", "x", "-ranks", "0"}, {"-in", "x", "-rank", "2"}, {"-in", "x", "-rank", "0"}, {"-in", t.TempDir()}} {
		require.Error(t, run(t.Context(), args, io.Discard, io.Discard), "%v", args)
	}
}
