package reference

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/fsgen/fsgen/internal/golden"
	"github.com/fsgen/fsgen/ir"
	"github.com/stretchr/testify/require"
)

const noisePage = "../docs/noise.md"

// block matches a block of the page; its second group is the content.
func block(name string) *regexp.Regexp {
	return regexp.MustCompile(`(?s)(<!-- begin ` + name + ` -->\n)(.*?)(<!-- end ` + name + ` -->)`)
}

// The tables of docs/noise.md are what the code computes: -update writes them.
func TestNoisePage(t *testing.T) {
	page, err := os.ReadFile(noisePage)
	require.NoError(t, err)
	text := string(page)
	for name, content := range map[string]string{
		"philox": philoxTable(), "bits": bitsTable(), "exponential": exponentialTable(), "noise": noiseTable(),
		"sample": sampleTable(t), "output": output(t), "grouped-blocks": groupedBlocksTable(t), "grouped-tokens": groupedTokensTable(t),
	} {
		require.Len(t, block(name).FindAllString(text, -1), 1, name)
		text = block(name).ReplaceAllStringFunc(text, func(old string) string {
			parts := block(name).FindStringSubmatch(old)
			return parts[1] + content + parts[3]
		})
	}
	golden.File(t, noisePage, []byte(text))
}

func table(header string, rows ...string) string {
	columns := strings.Count(header, "|") - 1
	return header + "\n" + strings.Repeat("| --- ", columns) + "|\n" + strings.Join(rows, "\n") + "\n"
}

func words(w ...uint32) string {
	var s []string
	for _, x := range w {
		s = append(s, fmt.Sprintf("%08x", x))
	}
	return strings.Join(s, " ")
}

func philoxTable() string {
	var rows []string
	for _, c := range []struct {
		counter [4]uint32
		key     [2]uint32
	}{
		{},
		{[4]uint32{1<<32 - 1, 1<<32 - 1, 1<<32 - 1, 1<<32 - 1}, [2]uint32{1<<32 - 1, 1<<32 - 1}},
		{[4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, [2]uint32{0xa4093822, 0x299f31d0}},
	} {
		out := Philox(c.counter, c.key)
		rows = append(rows, fmt.Sprintf("| %s | %s | %s |", words(c.counter[:]...), words(c.key[:]...), words(out[:]...)))
	}
	return table("| counter | key | result |", rows...)
}

func bitsTable() string {
	var rows []string
	for _, c := range []struct {
		seed, position uint64
		draw, tag      uint32
		ids            []int
	}{
		{0, 0, 0, 0, []int{0, 1, 8, 15, 18, 151935}},
		{42, 7, 0, 0, []int{0, 4, 12}},
		{0xfedcba9876543210, 0x123456789, 3, 1, []int{5, 11, 13, 1<<31 - 2}},
	} {
		state := Row(c.seed, c.position, c.draw, c.tag)
		for _, id := range c.ids {
			s := state.Words()
			block, place := state.Block(id)
			rows = append(rows, fmt.Sprintf("| %#x | %#x | %d | %d | %s | %d | %016x | %d | %016x | %.9g |", c.seed, c.position, c.draw,
				c.tag, words(s[:]...), id, block, place, state.Token(id), state.Bits(id).Gumbel()))
		}
	}
	return table("| seed | position | draw | tag | s0 s1 s2 | id | xb | first | x | g |", rows...)
}

func exponentialTable() string {
	var rows []string
	for _, x := range []uint64{0, 1, 1 << 31, 1<<32 - 1, 1 << 32, 1 << 52, 1 << 61, 1<<63 - 1, 1 << 63, 0xa1d2a7274e654719,
		3 << 62, 1<<64 - 1<<32, 1<<64 - 2, 1<<64 - 1} {
		w, complement := Uniform(x)
		rows = append(rows, fmt.Sprintf("| %016x | %.9g | %.9g | %.9g |", x, w, complement, Exponential(x)))
	}
	return table("| x | w | 1 - w | e(x) |", rows...)
}

func noiseTable() string {
	const all = 1<<64 - 1
	var rows []string
	for _, x := range []Bits{
		{0, 0, true}, {1, 0, true}, {1 << 32, 0, true}, {1 << 63, 0, true}, {all, 0, true},
		{0, 0, false}, {0, 1, false}, {0, all, false}, {1 << 32, 1 << 28, false}, {1 << 52, 1 << 61, false}, {1 << 63, 1 << 63, false},
		{1 << 63, 1, false}, {0xa1d2a7274e654719, 3 << 62, false}, {all, 0, false}, {all, all, false},
	} {
		token := fmt.Sprintf("%016x", x.Token)
		if x.First {
			token = "is the first"
		}
		rows = append(rows, fmt.Sprintf("| %016x | %s | %.9g | %.9g | %.9g |", x.Block, token, leastOf(x.Block), x.Exponential(), x.Gumbel()))
	}
	return table("| xb | x | M | E | g |", rows...)
}

// The page's example: a row for each temperature.
var (
	pageLogits       = []float32{1.5, -0.25, 0, 3, 2.5, -4, 0.5, 1, 2, -1, 3, 0.125, 1.75, -2, 0, 2.25, 1, -0.5, 0.75, 2.875}
	pageTemperatures = []float32{0, 0.5, 1, 2}
)

func pageRequest(sampler ir.Sampler) *Request {
	r := computing(ir.Computation{Sampler: sampler, LogSumExp: true}, flat(len(pageTemperatures), pageLogits))
	withTemperature(r, pageTemperatures...)
	r.Seeds, r.Positions = []uint64{1000, 1001, 1002, 1003}, []uint64{5}
	return r
}

func sampleTable(t *testing.T) string {
	logits, temperatures := pageLogits, pageTemperatures
	r := pageRequest(ir.Gumbel)
	res := sample(t, r)
	rows := make([]string, len(logits))
	for v, z := range logits {
		rows[v] = fmt.Sprintf("| %d | %v |", v, z)
		for b := range temperatures {
			w := r.row(b)
			g := float32(Row(r.Seeds[b], 5, 0, 0).Bits(v).Gumbel())
			s := z
			if !w.greedy {
				s = w.addNoise(z, g)
			}
			rows[v] += fmt.Sprintf(" %.9g | %.9g |", g, s)
		}
	}
	header := "| id | z |"
	token, score := "| **token** | |", "| **score** | |"
	for b, temperature := range temperatures {
		header += fmt.Sprintf(" g, row %d | s, T = %v |", b, temperature)
		token += fmt.Sprintf(" | **%d** |", res.Tokens[b])
		score += fmt.Sprintf(" | **%.9g** |", res.Scores[b])
	}
	return table(header, append(rows, token, score)...)
}

// eachPageBlock calls f with the blocks of the page's example whose rows draw noise.
func eachPageBlock(t *testing.T, f func(w *row, res *Result, b int, g *group)) {
	r := pageRequest(ir.Grouped)
	res := sample(t, r)
	for b := 1; b < r.Batch; b++ {
		w := r.row(b)
		for first := 0; first < len(pageLogits); first += blockTokens {
			var g group
			all := newBest()
			w.logits(&all, &g, first, pageLogits[first:min(first+blockTokens, len(pageLogits))])
			f(&w, res, b, &g)
		}
	}
}

func groupedBlocksTable(t *testing.T) string {
	var rows []string
	eachPageBlock(t, func(w *row, res *Result, b int, g *group) {
		x, _ := w.state.Block(g.first)
		e, own := Exponential(x), w.ownBits(g.first)
		line := fmt.Sprintf("| %d | %v | %d | %016x | %.9g | %v | %.9g | %.9g | %d |", b, w.t, g.first/blockTokens, x, e, w.scaled(g.top),
			math.Exp(w.logMass(g)), w.blockScore(g, math.Log(e)), w.race(g, &own))
		if int(res.Tokens[b])/blockTokens == g.first/blockTokens {
			line += fmt.Sprintf(" **%d** | **%.9g** | %.9g |", res.Tokens[b], res.Scores[b], res.LogSumExp[b])
		} else {
			line += " | | |"
		}
		rows = append(rows, line)
	})
	return table("| row | T | block | xb | E | top | S | score | inside | token | reported | lse |", rows...)
}

func groupedTokensTable(t *testing.T) string {
	var rows []string
	eachPageBlock(t, func(w *row, res *Result, b int, g *group) {
		if b != len(pageTemperatures)-1 || int(res.Tokens[b])/blockTokens != g.first/blockTokens {
			return
		}
		own := w.ownBits(g.first)
		for i, z := range g.z[:g.n] {
			noise := float32(-math.Log(Exponential(own[i])))
			id := fmt.Sprint(g.first + i)
			if g.first+i == int(res.Tokens[b]) {
				id = "**" + id + "**"
			}
			rows = append(rows, fmt.Sprintf("| %s | %016x | %v | %.9g | %.9g |", id, own[i], w.scaled(z), noise, w.addNoise(z, noise)))
		}
	})
	return table("| id | x | a | -log e(x) | race |", rows...)
}

// output is what the program on the page prints.
func output(t *testing.T) string {
	out := "```text\n"
	for _, c := range []struct {
		seed, position uint64
		draw, tag      uint32
		id             int
	}{{0, 0, 0, 0, 0}, {42, 7, 0, 0, 12}, {1<<64 - 1, 1 << 40, 3, 1, 151935}} {
		x := Row(c.seed, c.position, c.draw, c.tag).Bits(c.id)
		first := 0
		if x.First {
			first = 1
		}
		out += fmt.Sprintln(c.seed, c.position, c.draw, c.tag, c.id, fmt.Sprintf("%016x %d %016x %.9g", x.Block, first, x.Token, x.Gumbel()))
	}
	res := sample(t, pageRequest(ir.Grouped))
	for b, temperature := range pageTemperatures[1:] {
		out += fmt.Sprintln(temperature, 1001+b, fmt.Sprintf("%d %.6g %.6g", res.Tokens[b+1], res.Scores[b+1], res.LogSumExp[b+1]))
	}
	return out + "```\n"
}

// The program on the page shares no code with this package, and agrees.
func TestNoisePageProgram(t *testing.T) {
	require.Equal(t, output(t), "```text\n"+runPageProgram(t, noisePage)+"```\n")
}

// runPageProgram runs the Python program of a page and returns what it prints.
func runPageProgram(t *testing.T, page string) string {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 to run the page's program with: ", err)
	}
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	program := block("python").FindStringSubmatch(string(text))[2]
	program = strings.TrimSuffix(strings.TrimPrefix(program, "```python\n"), "```\n")
	out, err := exec.Command(python, "-c", program).Output()
	require.NoError(t, err)
	return string(out)
}
