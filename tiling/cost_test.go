package tiling

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/ir"
)

// contest is the tiles that were measured for some work, and their times in microseconds.
type contest struct {
	work  Work
	times map[Tile]float64
}

// best is the fastest tile and its time.
func (c contest) best() (tile Tile, us float64) {
	us = math.Inf(1)
	for t, x := range c.times {
		if x < us {
			tile, us = t, x
		}
	}
	return tile, us
}

// measured reads testdata/measured.tsv, which says where its times are from.
func measured(t *testing.T) (list []contest) {
	t.Helper()
	f, err := os.Open("testdata/measured.tsv")
	require.NoError(t, err)
	defer f.Close()
	at := map[Work]int{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		var w Work
		var layout, name string
		var us float64
		_, err := fmt.Sscan(lines.Text(), &w.Shape.Vocab, &w.Shape.Hidden, &layout, &w.Batch, &name, &us)
		require.NoError(t, err, lines.Text())
		w.Packed = layout == "packed"
		tile, err := ParseTile(name)
		require.NoError(t, err)
		i, known := at[w]
		if !known {
			i, at[w] = len(list), len(list)
			list = append(list, contest{w, map[Tile]float64{}})
		}
		list[i].times[tile] = us
	}
	return list
}

func tempered(t *testing.T) ir.Computation { return computation(t, ir.Gumbel, "temperature") }

func costOf(t *testing.T, tile Tile, w Work) float64 {
	t.Helper()
	p, err := NewPlan(arch.SM90, tile, tempered(t))
	require.NoError(t, err)
	return p.Cost(w).Total
}

// TestCostAgainstTheMeasured bounds what the model errs by. Times are of different cards and temperatures, which differ by up
// to 9% for one kernel themselves.
func TestCostAgainstTheMeasured(t *testing.T) {
	var squares, worst float64
	n := 0
	for _, c := range measured(t) {
		for tile, us := range c.times {
			e := math.Log(costOf(t, tile, c.work) / us)
			squares, worst, n = squares+e*e, max(worst, math.Abs(e)), n+1
		}
	}
	require.Greater(t, n, 320)
	t.Logf("%d times, root mean square %.1f%%, at most %.1f%%", n, 100*math.Sqrt(squares/float64(n)), 100*worst)
	assert.Less(t, math.Sqrt(squares/float64(n)), 0.055)
	assert.Less(t, worst, 0.22, "m64n96k64s10c1p, in which a third of the rows are missing")
}

// TestDefaultsAreNearTheBest holds the default tile to within 3% of the best that was measured, but where small row-major heads have
// 16 rows: a tile that is lower than the default's gains more there than the model sees, 1 us in 20. Where the default was not measured
// itself the model has to say so.
func TestDefaultsAreNearTheBest(t *testing.T) {
	list, unmeasured := measured(t), 0
	for _, c := range list {
		p, err := Default(arch.SM90, tempered(t), c.work)
		require.NoError(t, err)
		tile, best := c.best()
		us, ok := c.times[p.Tile]
		if !ok {
			unmeasured++
			best, us = costOf(t, tile, c.work), p.Cost(c.work).Total
		}
		off := 1.03
		if c.work == (Work{Shape: ir.Shape{Vocab: 32000, Hidden: 1024}, Batch: 16}) {
			off = 1.06
		}
		assert.LessOrEqual(t, us, off*best, "%+v: %s against %s", c.work, p.Tile, tile)
	}
	assert.Len(t, list, 33)
	assert.LessOrEqual(t, unmeasured, 1)
}

// TestModelFindsWhatTheTableMisses names the heads whose best tile is far from the shape that large ones like.
func TestModelFindsWhatTheTableMisses(t *testing.T) {
	small := ir.Shape{Vocab: 32000, Hidden: 1024}
	for batch, want := range map[int]string{32: "m128n32k64s10c1", 64: "m128n64k64s8c1p", 96: "m128n96k64s7c1p"} {
		p, err := Default(arch.SM90, tempered(t), Work{Shape: small, Batch: batch})
		require.NoError(t, err)
		assert.Equal(t, want, p.Tile.String())
		p, err = Default(arch.SM90, tempered(t), Work{Batch: batch})
		require.NoError(t, err)
		assert.NotEqual(t, want, p.Tile.String())
	}
}

// TestModelIsNotAskedBeyondWhatWasMeasured takes the family's own shape for heads of other sizes, whatever the model says.
func TestModelIsNotAskedBeyondWhatWasMeasured(t *testing.T) {
	for _, s := range []ir.Shape{{Vocab: 1000, Hidden: 64}, {Vocab: 128256, Hidden: 16384}} {
		asked := 0
		for _, batch := range Widths(arch.SM90, 256) {
			w := Work{Shape: s, Batch: batch}
			p, err := Default(arch.SM90, tempered(t), w)
			require.NoError(t, err)
			own := sm90Tile(batch)
			own.Stages = p.Tile.Stages
			assert.Equal(t, own, p.Tile, "%+v", w)
			plans, _ := Candidates(arch.SM90, tempered(t), batch)
			if Ranked(plans, w)[0].Cost(w).Total < p.Cost(w).Total*(1-costError) {
				asked++
			}
		}
		assert.Positive(t, asked, "%+v: the model would have it otherwise", s)
	}
}

// TestRankedPutsTheBestAhead counts the pairs of measured tiles, told apart by 5% or more, that the model has the right way
// round.
func TestRankedPutsTheBestAhead(t *testing.T) {
	right, all := 0, 0
	for _, c := range measured(t) {
		for a, x := range c.times {
			for b, y := range c.times {
				if x*1.05 < y {
					all++
					if costOf(t, a, c.work) < costOf(t, b, c.work) {
						right++
					}
				}
			}
		}
	}
	require.Greater(t, all, 400)
	t.Logf("%d of %d", right, all)
	assert.Greater(t, float64(right), 0.88*float64(all))
}

// TestCostGrowsWithTheWork holds the model to what cannot be otherwise.
func TestCostGrowsWithTheWork(t *testing.T) {
	for _, a := range arch.All() {
		for _, batch := range []int{1, 16, 64, 96, 256, 1000} {
			plans, _ := Candidates(a, tempered(t), batch)
			for _, p := range plans {
				w := Work{Shape: ir.Shape{Vocab: 128256, Hidden: 4096}, Batch: batch, Packed: true}
				c := p.Cost(w)
				assert.Greater(t, c.Total, c.Launch+max(c.Weights, c.Products), "%s %s", a.Name, p.Tile)
				for name, more := range map[string]func(*Work){
					"vocabulary": func(w *Work) { w.Shape.Vocab *= 2 }, "hidden size": func(w *Work) { w.Shape.Hidden *= 2 },
					"batch": func(w *Work) { w.Batch += p.Tile.Width() }, "row-major": func(w *Work) { w.Packed = false },
				} {
					x := w
					more(&x)
					assert.GreaterOrEqual(t, p.Cost(x).Total, c.Total, "%s %s: %s", a.Name, p.Tile, name)
				}
			}
		}
	}
}

// TestCostOfAnything asks for work of every size that a request can have.
func TestCostOfAnything(t *testing.T) {
	for _, a := range arch.All() {
		for _, v := range []int{-1, 0, 1, 63, 1000, 151936, ir.MaxVocab} {
			for _, d := range []int{-1, 0, 1, 64, 65, 1 << 20} {
				for _, batch := range []int{-1, 0, 1, 17, 257, 1 << 20} {
					w := Work{Shape: ir.Shape{Vocab: v, Hidden: d}, Batch: batch}
					p, err := Default(a, tempered(t), w)
					require.NoError(t, err)
					c := p.Cost(w).Total
					require.True(t, c > 0 && !math.IsInf(c, 0), "%s %s %+v: %v", a.Name, p.Tile, w, c)
				}
			}
		}
	}
	p, err := Default(arch.SM90, tempered(t), Work{})
	require.NoError(t, err)
	assert.Equal(t, p.Cost(Work{Shape: usualShape, Batch: 1}), p.Cost(Work{}), "no shape is a usual one")
}

// TestEveryArchitectureHasAChart holds charts and families to the same names.
func TestEveryArchitectureHasAChart(t *testing.T) {
	for name := range families {
		assert.Positive(t, charts[name].bandwidth, name)
	}
	assert.Len(t, charts, len(families))
}
