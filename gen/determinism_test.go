package gen

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sample is some requests that share little: widths, chains and samplers all differ.
func sample() []Request {
	var rs []Request
	for i, c := range computations {
		r := request(batches[(3*i+1)%len(batches)], "none")
		r.Computation = c
		rs = append(rs, r)
	}
	return append(rs, longest())
}

// digest is the hash of what a request gives: PTX and manifest.
func digest(r Request) (string, error) {
	a, err := Emit(r)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", sha256.Sum256(append(bytes.Clone(a.PTX), a.Manifest.Encode()...))), nil
}

func digests(t *testing.T, rs []Request) []string {
	t.Helper()
	out := make([]string, len(rs))
	for i, r := range rs {
		var err error
		out[i], err = digest(r)
		require.NoError(t, err)
	}
	return out
}

func TestSameBytesFromManyGoroutines(t *testing.T) {
	rs := sample()
	want := digests(t, rs)
	var wg sync.WaitGroup
	for g := range 32 {
		wg.Go(func() {
			for _, i := range rand.New(rand.NewPCG(1, uint64(g))).Perm(len(rs)) {
				got, err := digest(rs[i])
				if !assert.NoError(t, err) || !assert.Equal(t, want[i], got, "request %d from goroutine %d", i, g) {
					return
				}
			}
		})
	}
	wg.Wait()
}

const helperVariable = "FSGEN_TEST_PRINT_DIGESTS"

// TestMain makes the test binary print digests for TestSameBytesFromAnotherProcess, if the variable says so.
func TestMain(m *testing.M) {
	if os.Getenv(helperVariable) == "" {
		os.Exit(m.Run())
	}
	for _, r := range sample() {
		d, err := digest(r)
		if err != nil {
			panic(err)
		}
		fmt.Println(d)
	}
}

// Neither the environment nor the folder nor the seed of Go's maps has a say.
func TestSameBytesFromAnotherProcess(t *testing.T) {
	want := digests(t, sample())
	exe, err := os.Executable()
	require.NoError(t, err)
	for _, env := range [][]string{
		{"GOMAXPROCS=1", "TZ=Asia/Tokyo", "LANG=tr_TR.UTF-8", "HOME=/nonexistent"},
		{"GOMAXPROCS=4", "GOGC=10", "PATH=", "FSGEN_CACHE_DIR=off"},
	} {
		cmd := exec.Command(exe)
		cmd.Dir = t.TempDir()
		cmd.Env = append(env, helperVariable+"=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Equal(t, want, strings.Fields(string(out)), "%v", env)
	}
}
