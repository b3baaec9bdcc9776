package reference

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/fsgen/fsgen/internal/golden"
	"github.com/fsgen/fsgen/ir"
	"github.com/stretchr/testify/require"
)

// The tables of docs/truncation.md and docs/draws.md are what the code computes: -update writes them.
func TestParameterPages(t *testing.T) {
	for page, blocks := range map[string]map[string]string{
		"../docs/truncation.md": {"weights": weightsTable(), "filters": filtersTable()},
		drawsPage:               {"draws": drawsTable(t), "output": drawsOutput(t)},
	} {
		raw, err := os.ReadFile(page)
		require.NoError(t, err)
		text := string(raw)
		for name, content := range blocks {
			require.Len(t, block(name).FindAllString(text, -1), 1, name)
			text = block(name).ReplaceAllString(text, "${1}"+content+"${3}")
		}
		golden.File(t, page, []byte(text))
	}
}

const drawsPage = "../docs/draws.md"

// drawsOutput is what the program on the page of draws prints.
func drawsOutput(t *testing.T) string {
	var out strings.Builder
	line := func(ids []int32) { fmt.Fprintln(&out, strings.Trim(fmt.Sprint(ids), "[]")) }
	for _, c := range []struct {
		z, t  float32
		vocab int
	}{{2, 1, 151936}, {-1.25, 2, 151936}, {-20, 1, 151936}, {2, .75, 20}, {2, 1, ir.MaxVocab}} {
		fmt.Fprintln(&out, weightsAt(c.t, 3, c.vocab).of(c.z))
	}
	for _, c := range []struct {
		k          int32
		p, minP, t float32
	}{{0, .5, 0, 1}, {0, .5, 0, 2}, {3, .5, 0, 1}, {0, 0, 0, 1}, {0, 1, .5, 1}, {5, .9, .5, .5}, {0, .9, 0, 0}} {
		line(keptIDs(withTemperature(truncated(flat(1, pageLogits), c.k, c.p, c.minP), c.t), 0))
	}
	order, repeats := pageDraws(t)
	for b := 1; b < len(pageTemperatures); b++ {
		line(order.Draws[8*b:][:8])
		line(repeats.Draws[8*b:][:8])
	}
	return "```text\n" + out.String() + "```\n"
}

// The program on the page of draws shares no code with this package, and agrees.
func TestDrawsPageProgram(t *testing.T) {
	require.Equal(t, drawsOutput(t), "```text\n"+runPageProgram(t, drawsPage)+"```\n")
}

func bitsOf(x float32) string { return fmt.Sprintf("%08X", math.Float32bits(x)) }

func weightsTable() string {
	var rows []string
	for _, c := range []struct {
		z, top, t float32
		vocab     int
	}{
		{3, 3, 1, 151936}, {2, 3, 1, 151936}, {2, 3, 0, 151936}, {2, 3, .7, 151936}, {-1.25, 3, 2, 151936}, {-20, 3, 1, 151936},
		{-40, 3, 1, 151936}, {2.9999998, 3, 1, 151936}, {0, 1e-45, 1, 151936}, {0, 1e-30, 1e-40, 151936}, {-3e38, 3e38, 1, 151936},
		{2, 3, 1, 1}, {2, 3, 1, 20}, {2, 3, 1, ir.MaxVocab}, {float32(math.Inf(-1)), 3, 1, 20},
	} {
		w := weightsAt(c.t, c.top, c.vocab)
		rows = append(rows, fmt.Sprintf("| %v | %v | %v | %d | %s | %d |", c.z, c.top, c.t, c.vocab, bitsOf(w.scale), w.of(c.z)))
	}
	return table("| z | top | T | V | c | w |", rows...)
}

// filtersTable is the page's logits of noise.md under filters.
func filtersTable() string {
	var rows []string
	for _, c := range []struct {
		k          int32
		p, minP, t float32
		last       bool
	}{
		{0, 1, 0, 1, false}, {3, 1, 0, 1, false}, {2, 1, 0, 1, false}, {0, .5, 0, 1, false}, {0, .5, 0, 2, false}, {0, .5, 0, 2, true},
		{3, .5, 0, 1, false}, {0, 0, 0, 1, false}, {0, 1, .5, 1, false}, {5, .9, .5, .5, false}, {0, .9, 0, 0, false},
	} {
		r := withTemperature(truncated(flat(1, pageLogits), c.k, c.p, c.minP), c.t)
		r.Computation.Truncation.TemperatureLast = c.last
		w := r.row(0)
		all := w.candidates(pageLogits)
		temperature := c.t
		if c.last {
			temperature = 1
		}
		weigh := weightsAt(temperature, all[0].score, len(pageLogits))
		left := all
		if c.k > 0 {
			left = all[:c.k]
		}
		total := weigh.sum(left)
		target := "off"
		if c.p < 1 {
			target = fmt.Sprint(ir.NucleusTarget(total, c.p))
		}
		least := "off"
		if c.minP > 0 {
			least = fmt.Sprint(ir.MinPThreshold(c.minP, len(pageLogits)))
		}
		kept := strings.Trim(fmt.Sprint(keptIDs(r, 0)), "[]")
		rows = append(rows, fmt.Sprintf("| %d | %v | %v | %v | %v | %d | %s | %s | %s |", c.k, c.p, c.minP, c.t, c.last, total, target, least, kept))
	}
	return table("| k | p | min-p | T | temperature-last | W | target | least | kept, in order |", rows...)
}

// pageDraws are 8 draws of each row of the example, without replacement and with.
func pageDraws(t *testing.T) (without, with *Result) {
	r := pageRequest(ir.Gumbel)
	r.Computation.Draws, r.Computation.MaxDraws = ir.WithoutReplacement, 8
	without = sample(t, r)
	r.Computation.Draws = ir.WithReplacement
	return without, sample(t, r)
}

func drawsTable(t *testing.T) string {
	order, repeats := pageDraws(t)
	with := pageRequest(ir.Gumbel)
	var rows []string
	for b := 1; b < with.Batch; b++ {
		w := with.row(b)
		total := weightsAt(w.t, 3, len(pageLogits)).sum(w.candidates(pageLogits))
		for j := 1; j <= 8; j++ {
			at := 8*b + j - 1
			bits, point := "", ""
			if j > 1 {
				x := w.state.Repeat(j)
				bits, point = fmt.Sprintf("%016x", x), fmt.Sprint(ir.RepeatPoint(x, total))
			}
			rows = append(rows, fmt.Sprintf("| %d | %v | %d | %d | %d | %.9g | %s | %s | %d |", b, w.t, total, j, order.Draws[at], order.DrawScores[at], bits, point, repeats.Draws[at]))
		}
	}
	return table("| row | T | W | j | without replacement | score | random bits | point | with replacement |", rows...)
}
