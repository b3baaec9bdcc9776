package bench

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/internal/golden"
)

// runs are two problems, one of them in two runs, with a layout that is ahead of the floor and a batch size that a peer lacks.
func runs() []*Report {
	make := func(model string, v, d int, batches []int, us map[string][]float64) *Report {
		r := &Report{Schema: Schema, Device: Device{Name: "Fake <GPU>"}, Problem: Problem{model, v, d, "temperature", "gumbel", false, "", ""}, Method: Method{20, 9, 3}}
		for i, b := range batches {
			var list []Contender
			var series []Series
			for _, name := range []string{Floor, "fsgen-rowmajor", "fsgen-packed", Cublas} {
				if len(us[name]) <= i || us[name][i] == 0 {
					continue
				}
				x := us[name][i]
				list, series = append(list, Contender{Name: name}), append(series, Series{Times: []float64{0.98 * x, x, 1.03 * x}})
			}
			r.add(b, list, series)
		}
		return r
	}
	return []*Report{
		make("qwen3-8b", 151936, 4096, []int{1, 16, 256}, map[string][]float64{Floor: {100, 100, 100}, "fsgen-rowmajor": {150, 106, 214}, Cublas: {110, 0, 180}}),
		make("llama3-70b", 128256, 8192, []int{1, 16}, map[string][]float64{Floor: {400, 410}, "fsgen-rowmajor": {420, 430}}),
		make("qwen3-8b", 151936, 4096, []int{16, 1}, map[string][]float64{Floor: {50, 50}, "fsgen-packed": {49.5, 49}, "fsgen-rowmajor": {0, 54}}),
	}
}

func TestPanels(t *testing.T) {
	panels, err := panelsOf(runs())
	require.NoError(t, err)
	require.Len(t, panels, 2)
	p := panels[0]
	assert.Equal(t, "qwen3-8b: V = 151,936, D = 4,096", p.title)
	assert.Equal(t, []int{1, 16, 256}, p.batches)
	assert.InDelta(t, 1.08, p.points["fsgen-rowmajor"][1].middle, 1e-9, "the later run's, over its own floor")
	assert.InDelta(t, 1.06, p.points["fsgen-rowmajor"][16].middle, 1e-9)
	assert.InDelta(t, 0.98, p.points["fsgen-packed"][1].middle, 1e-9)
	assert.NotContains(t, p.points[Cublas], 16)
	assert.NotContains(t, p.points, Floor)
	low, high := bounds(panels, 0.25)
	assert.Equal(t, []float64{0.75, 2.25}, []float64{low, high})

	_, err = panelsOf([]*Report{{Results: []Result{{Batch: 1, Contender: Cublas, Times: []float64{1}}}}})
	assert.ErrorContains(t, err, "nothing to draw")
	assert.Equal(t, []string{"7", "100", "1,000", "1,234,567"}, []string{thousands(7), thousands(100), thousands(1000), thousands(1234567)})
}

func TestFigure(t *testing.T) {
	var b, again bytes.Buffer
	require.NoError(t, WriteFigure(&b, runs()))
	require.NoError(t, WriteFigure(&again, runs()))
	assert.Equal(t, b.String(), again.String())
	golden.File(t, "testdata/figure.svg", b.Bytes())
	dec := xml.NewDecoder(bytes.NewReader(b.Bytes()))
	for {
		if _, err := dec.Token(); errors.Is(err, io.EOF) {
			break
		} else {
			require.NoError(t, err)
		}
	}
	assert.Contains(t, b.String(), "Fake &lt;GPU&gt;")
	assert.Equal(t, 1, strings.Count(b.String(), "fsgen, packed weights"))
}

// luminance is the relative luminance of a colour (WCAG 2.2).
func luminance(t *testing.T, colour string) float64 {
	n, err := strconv.ParseUint(strings.TrimPrefix(colour, "#"), 16, 32)
	require.NoError(t, err)
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		c := float64(n>>(16-8*i)&0xff) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}

func contrast(t *testing.T, a, b string) float64 {
	x, y := luminance(t, a), luminance(t, b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// TestColoursAreLegibleOnAnyPage: lines with 3 to 1, as WCAG asks of graphics, and text with all that a white and a black
// page leave to one colour (the root of 18.9, GitHub's contrast of white and its dark background, is 4.3).
func TestColoursAreLegibleOnAnyPage(t *testing.T) {
	for _, page := range []string{"#ffffff", "#0d1117"} {
		assert.Greater(t, contrast(t, inkColour, page), 4.2, page)
		for _, l := range looks {
			assert.Greater(t, contrast(t, l.colour, page), 3.0, "%s on %s", l.colour, page)
		}
	}
}
