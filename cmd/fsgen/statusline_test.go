package main

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fsgen/fsgen/sampler"
)

func TestStatusLineWaitsForLongWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		s := &statusLine{w: &out, patience: patience}
		s.set("short")
		time.Sleep(patience / 2)
		s.clear()
		time.Sleep(2 * patience)
		synctest.Wait()
		assert.Empty(t, out.String(), "work that ends soon shows nothing")

		s.set("one")
		s.set("two")
		time.Sleep(2 * patience)
		synctest.Wait()
		assert.Equal(t, "\r\x1b[Ktwo", out.String())
		s.set("three")
		s.clear()
		s.clear()
		assert.Equal(t, "\r\x1b[Ktwo\r\x1b[Kthree\r\x1b[K", out.String())
	})
}

func TestStatusLineIsForTerminals(t *testing.T) {
	var out bytes.Buffer
	s := (&env{stderr: &out}).status()
	s.set("work")
	s.clear()
	assert.Empty(t, out.String())
}

func TestLoadingSaysHowFar(t *testing.T) {
	var out bytes.Buffer
	s := &statusLine{w: &out}
	r := watched{sampler.Matrix{Data: make([]uint16, 8), Hidden: 2}, s, 4, 4 << 30}
	assert.NoError(t, r.ReadRows(context.Background(), make([]uint16, 2), 2, 1))
	assert.Equal(t, "\r\x1b[Kloading weights: 75% of 4.3 GB", out.String())
}

func TestSampleOnATerminalShowsItsWorkAndClearsIt(t *testing.T) {
	var out, errs bytes.Buffer
	code := run(t.Context(), &env{stdout: &out, stderr: &errs, terminal: true}, []string{"sample", "--device", "cpu"})
	assert.Equal(t, exitOK, code)
	assert.Equal(t, "643\n176\n929\n326\n", out.String())
	for _, stage := range []string{"loading weights: 100% of 0.0 GB", "preparing kernels", "sampling 4 rows"} {
		assert.Contains(t, errs.String(), "\r\x1b[K"+stage+"\r\x1b[K")
	}
}
