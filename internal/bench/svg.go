package bench

import (
	"fmt"
	"html"
	"io"
	"math"
	"strings"
)

// Sizes of the figure, in pixels.
const (
	panelWidth, panelHeight = 400, 250
	marginLeft, marginRight = 58, 18
	marginTop, marginBottom = 92, 52
)

// Colours that stand out from a white page and from a black one alike, since the page may be either: a picture that is
// embedded as a file is not told which.
const (
	inkColour  = "#747c85"
	gridColour = "#8b949e"
)

// look is how a contender is drawn. Shapes tell them apart where colours do not.
type look struct {
	contender, label, colour string
	marker                   func(x, y float64) string // a path
}

var looks = []look{
	{"fsgen-rowmajor", "fsgen, row-major weights", "#2f81f7", func(x, y float64) string {
		return fmt.Sprintf("M%.1f %.1fa4 4 0 1 0 8 0a4 4 0 1 0 -8 0z", x-4, y)
	}},
	{"fsgen-packed", "fsgen, packed weights", "#1f9d57", func(x, y float64) string { return fmt.Sprintf("M%.1f %.1fh7v7h-7z", x-3.5, y-3.5) }},
	{Cublas, "cuBLAS, the logits alone", "#d4700f", func(x, y float64) string { return fmt.Sprintf("M%.1f %.1fl4.6 8h-9.2z", x, y-5) }},
}

// svg is a figure being written.
type svg struct {
	b         strings.Builder
	low, high float64 // of the vertical axis
	step      float64
}

// WriteFigure draws runs as one figure: time over the floor by batch size, a panel for each problem. The same data gives the
// same bytes.
func WriteFigure(w io.Writer, reports []*Report) error {
	panels, err := panelsOf(reports)
	if err != nil {
		return err
	}
	g := &svg{step: 0.25}
	g.low, g.high = bounds(panels, g.step)
	width := marginRight + len(panels)*(marginLeft+panelWidth)
	g.open(width, marginTop+panelHeight+marginBottom)
	g.legend(panels)
	for i, p := range panels {
		g.panel(p, float64(marginLeft+i*(marginLeft+panelWidth)), i == 0)
	}
	g.line("</svg>")
	_, err = io.WriteString(w, g.b.String())
	return err
}

func (g *svg) line(format string, args ...any) { fmt.Fprintf(&g.b, format+"\n", args...) }

func (g *svg) open(width, height int) {
	g.line(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" font-family="system-ui, sans-serif" font-size="13">`,
		width, height, width, height)
	g.line(`<title>Time of a launch over the memory floor, by batch size</title>`)
	g.line(`<desc>Medians of ratios of graph replays, contenders in turn; bars from the 10th to the 90th percentile. 1 is the time of reading the weights once.</desc>`)
}

// text writes a label; anchor is start, middle or end.
func (g *svg) text(x, y float64, anchor, extra, text string) {
	g.line(`<text x="%.1f" y="%.1f" text-anchor="%s" fill="%s"%s>%s</text>`, x, y, anchor, inkColour, extra, html.EscapeString(text))
}

// legend names the contenders that are there.
func (g *svg) legend(panels []*panel) {
	x := float64(marginLeft)
	for _, l := range looks {
		there := false
		for _, p := range panels {
			there = there || p.points[l.contender] != nil
		}
		if !there {
			continue
		}
		g.line(`<path d="M%.1f 20h22" stroke="%s" stroke-width="2" fill="none"/>`, x, l.colour)
		g.line(`<path d="%s" fill="%s"/>`, l.marker(x+11, 20), l.colour)
		g.text(x+28, 24.5, "start", "", l.label)
		x += 52 + 6.9*float64(len(l.label))
	}
}

// y places a value; x places the i-th of n batch sizes.
func (g *svg) y(value float64) float64 {
	return marginTop + panelHeight*(g.high-value)/(g.high-g.low)
}

func placeBatch(left float64, i, n int) float64 { return left + panelWidth*(float64(i)+0.5)/float64(n) }

func (g *svg) panel(p *panel, left float64, first bool) {
	g.text(left, marginTop-34, "start", ` font-weight="600"`, p.title)
	g.text(left, marginTop-15, "start", "", p.subtitle)
	g.grid(left)
	for i, b := range p.batches {
		g.text(placeBatch(left, i, len(p.batches)), marginTop+panelHeight+20, "middle", "", fmt.Sprint(b))
	}
	g.text(left+panelWidth/2, marginTop+panelHeight+42, "middle", "", "batch size")
	if first {
		x, y := left-44, float64(marginTop+panelHeight/2)
		g.text(x, y, "middle", fmt.Sprintf(` transform="rotate(-90 %.1f %.1f)"`, x, y), "time / memory floor")
	}
	for _, l := range looks {
		if points := p.points[l.contender]; points != nil {
			g.contender(l, p.batches, points, left)
		}
	}
}

// grid draws the horizontal lines, that of the floor stronger.
func (g *svg) grid(left float64) {
	for n := range int(math.Round((g.high-g.low)/g.step)) + 1 {
		value := g.low + float64(n)*g.step
		style := `stroke-opacity="0.35"`
		if math.Abs(value-1) < 1e-9 {
			style = `stroke-width="1.5" stroke-dasharray="5 4"`
		}
		g.line(`<path d="M%.1f %.1fh%d" stroke="%s" %s fill="none"/>`, left, g.y(value), panelWidth, gridColour, style)
		g.text(left-7, g.y(value)+4.5, "end", "", fmt.Sprintf("%.2f", value))
	}
}

func (g *svg) contender(l look, batches []int, points map[int]point, left float64) {
	var path, bars, markers strings.Builder
	command := "M"
	for i, b := range batches {
		p, there := points[b]
		if !there {
			command = "M" // a gap, where a batch size was not run
			continue
		}
		x := placeBatch(left, i, len(batches))
		fmt.Fprintf(&path, "%s%.1f %.1f", command, x, g.y(p.middle))
		fmt.Fprintf(&bars, "M%.1f %.1fV%.1f", x, g.y(p.low), g.y(p.high))
		markers.WriteString(l.marker(x, g.y(p.middle)))
		command = "L"
	}
	g.line(`<path d="%s" stroke="%s" stroke-width="2" fill="none"/>`, path.String(), l.colour)
	g.line(`<path d="%s" stroke="%s" stroke-width="1.5" fill="none"/>`, bars.String(), l.colour)
	g.line(`<path d="%s" fill="%s"/>`, markers.String(), l.colour)
}
