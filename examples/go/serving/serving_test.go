package main

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/sampler"
)

func serve(t *testing.T, o options) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := run(t.Context(), o, &out)
	return out.String(), err
}

func TestOnTheCPU(t *testing.T) {
	out, err := serve(t, options{sampler.CPU, 500, 64, 12, 5})
	require.NoError(t, err)
	assert.Contains(t, out, "12 of 12 requests have the tokens that they have alone")
	assert.Regexp(t, `(?m)^ +5 +[1-9]`, out, "the largest bucket was used")
}

func TestOnTheSimulator(t *testing.T) {
	out, err := serve(t, options{"sim:sm_90", 70, 8, 3, 3})
	require.NoError(t, err)
	assert.Contains(t, out, "3 of 3 requests")
}

func TestGPU(t *testing.T) {
	out, err := serve(t, options{sampler.CUDA, 4000, 128, 24, 8})
	var none *sampler.NoGPUError
	if errors.As(err, &none) && os.Getenv("FSGEN_REQUIRE_GPU") == "" {
		t.Skip(err)
	}
	require.NoError(t, err)
	assert.Contains(t, out, "a captured graph for each bucket")
	assert.Contains(t, out, "24 of 24 requests")
}

// TestADifferenceIsAFailure: a request whose tokens are not those that it has alone.
func TestADifferenceIsAFailure(t *testing.T) {
	r := &request{length: 2, tokens: []int32{1, 2}}
	var out bytes.Buffer
	err := report(&out, sampler.Info{}, plainStepper{}, &server{}, []*request{r}, [][]int32{{1, 3}})
	require.ErrorContains(t, err, "1 requests have other tokens than alone")
	assert.Contains(t, out.String(), "request 0: [1 2] in the batch, [1 3] alone")
	require.NoError(t, report(&out, sampler.Info{}, plainStepper{}, &server{}, []*request{r}, [][]int32{{1, 2}}))
}

func TestBuckets(t *testing.T) {
	assert.Equal(t, []int{1}, bucketsFor(1))
	assert.Equal(t, []int{1, 2, 4, 5}, bucketsFor(5))
	assert.Equal(t, []int{1, 2, 4, 8}, bucketsFor(8))
	_, err := serve(t, options{sampler.CPU, 500, 64, 0, 5})
	require.ErrorContains(t, err, "sizes are 1 or more")
}
