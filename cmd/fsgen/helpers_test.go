package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/internal/verify"
)

func TestSuggestNamesOnlyWhatIsNear(t *testing.T) {
	assert.Equal(t, " (did you mean emit?)", suggest("emti", commandNames()))
	assert.Empty(t, suggest("frobnicate", commandNames()))
	assert.Empty(t, suggest("", commandNames()))
	assert.Empty(t, suggest("ab", []string{"ls", "rm"}), "every word of two letters is near another")
	assert.Equal(t, 3, editDistance("", "abc"))
	assert.Equal(t, 3, editDistance("abc", ""))
	assert.Equal(t, 3, editDistance("kitten", "sitting"))
}

func TestParseUint64(t *testing.T) {
	for text, want := range map[string]uint64{"0": 0, "010": 10, "0x10": 16, "0XfF": 255, "18446744073709551615": 1<<64 - 1,
		"0xffffffffffffffff": 1<<64 - 1} {
		n, err := parseUint64(text)
		assert.NoError(t, err, text)
		assert.Equal(t, want, n, text)
	}
	for _, text := range []string{"", "-1", "+1", "1.0", "1e3", "0b1", "0x", "0x0x1", "1_0", " 1", "18446744073709551616", "0x10000000000000000"} {
		_, err := parseUint64(text)
		assert.Error(t, err, text)
	}
}

func TestParseFormats(t *testing.T) {
	for text, want := range map[string]string{"ptx": "ptx", "json": "json", "json,ptx": "ptx json", "ptx, ptx": "ptx"} {
		got, err := parseFormats(text)
		assert.NoError(t, err, text)
		assert.Equal(t, want, strings.Join(got, " "), text)
	}
	_, err := parseFormats("ptx,,json")
	assert.Error(t, err)
}

func TestReasonDropsPackageNames(t *testing.T) {
	assert.Equal(t, "scale is 0", reason(errors.New("ir: scale is 0")))
	assert.Equal(t, "fire: hot", reason(errors.New("fire: hot")))
}

func TestWriteFilesWritesAllOrNone(t *testing.T) {
	dir := t.TempDir()
	a, b, c := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "none", "c")
	require.NoError(t, writeFiles([]file{{a, []byte("1")}, {b, []byte("2")}}))
	assert.Error(t, writeFiles([]file{{a, []byte("new")}, {c, []byte("3")}}))
	for path, want := range map[string]string{a: "1", b: "2"} {
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, want, string(got))
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, entries, 2, "no temporary file is left")
	info, err := os.Stat(a)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o644), info.Mode().Perm())
}

func TestEveryCommandHasHelp(t *testing.T) {
	for _, c := range commands() {
		code, out, errs := runIn(t.Context(), "help", c.name)
		assert.Equal(t, exitOK, code, c.name)
		assert.Empty(t, errs, c.name)
		assert.Contains(t, out, "Usage: fsgen "+c.name, c.name)
		for _, w := range flagWords(c) {
			assert.Contains(t, out, w, c.name)
		}
	}
}

func TestReportSaysWhatFailed(t *testing.T) {
	rep := &verify.Report{Suite: "quick", Device: "cpu", Seed: 3, Passed: 1, Failed: 1, Checks: []verify.Check{
		{Name: "fine", OK: true, Rows: 10, Undecided: 3}, {Name: "broken", Rows: 5, NearTies: 2, Detail: "row 4 is 7, want 8"}}}
	var out bytes.Buffer
	for _, c := range rep.Checks {
		printCheck(&env{stdout: &out}, c)
	}
	require.NoError(t, printReport(&env{stdout: &out}, rep))
	assert.Equal(t, "ok   fine: 10 rows, 0 near ties, 3 undecided\nFAIL broken: 5 rows, 2 near ties; row 4 is 7, want 8\n"+
		"1 passed, 1 failed (suite quick, device cpu, seed 3)\n", out.String())
	out.Reset()
	require.NoError(t, printReport(&env{stdout: &out, json: true}, rep))
	assert.Contains(t, out.String(), `"failed":1`)
}
