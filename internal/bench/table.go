package bench

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// column is one column of the table.
type column struct {
	title string
	text  func(x *Result) string
	seen  func(x *Result) bool // nil: always there
}

var columns = []column{
	{"BATCH", func(x *Result) string { return fmt.Sprint(x.Batch) }, nil},
	{"CONTENDER", func(x *Result) string { return x.Contender }, nil},
	{"LAUNCH", func(x *Result) string { return cmp.Or(x.Launch, "-") }, func(x *Result) bool { return x.Launch != "" }},
	{"MEDIAN US", func(x *Result) string { return fmt.Sprintf("%.1f", x.Median) }, nil},
	{"P10", func(x *Result) string { return fmt.Sprintf("%.1f", x.P10) }, nil},
	{"P90", func(x *Result) string { return fmt.Sprintf("%.1f", x.P90) }, nil},
	{"X FLOOR", func(x *Result) string { return ratioText(x.XFloor) }, func(x *Result) bool { return x.XFloor > 0 }},
	{"X CUBLAS", func(x *Result) string { return ratioText(x.XCublas) }, func(x *Result) bool { return x.XCublas > 0 }},
	{"HOST US", func(x *Result) string { return hostText(x.Host) }, func(x *Result) bool { return x.Host > 0 }},
	{"SM MHZ", clockText(func(c *Clocks) float64 { return c.SMClock }), clockSeen(func(c *Clocks) float64 { return c.SMClock })},
	{"MEM MHZ", clockText(func(c *Clocks) float64 { return c.MemoryClock }), clockSeen(func(c *Clocks) float64 { return c.MemoryClock })},
	{"WATTS", clockText(func(c *Clocks) float64 { return c.Power }), clockSeen(func(c *Clocks) float64 { return c.Power })},
	{"DEG C", clockText(func(c *Clocks) float64 { return float64(c.Temperature) }), clockSeen(func(c *Clocks) float64 { return float64(c.Temperature) })},
	{"HELD DOWN BY", func(x *Result) string { return strings.Join(x.throttle(), ", ") }, func(x *Result) bool { return len(x.throttle()) > 0 }},
	{"KERNEL", func(x *Result) string { return x.Kernel }, func(x *Result) bool { return x.Kernel != "" }},
}

func (x *Result) throttle() []string {
	if x.Clocks == nil {
		return nil
	}
	return x.Clocks.Throttle
}

func hostText(us float64) string {
	if us == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", us)
}

func ratioText(x float64) string {
	if x == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f", x)
}

func clockSeen(value func(*Clocks) float64) func(*Result) bool {
	return func(x *Result) bool { return x.Clocks != nil && value(x.Clocks) > 0 }
}

func clockText(value func(*Clocks) float64) func(*Result) string {
	return func(x *Result) string {
		if !clockSeen(value)(x) {
			return "-"
		}
		return fmt.Sprintf("%.0f", value(x.Clocks))
	}
}

// WriteTable prints the report for people. Columns that nothing fills are left out.
func (r *Report) WriteTable(w io.Writer) error {
	fmt.Fprintf(w, "%s\n\n", r.Title())
	var shown []column
	for _, c := range columns {
		if r.any(c.seen) {
			shown = append(shown, c)
		}
	}
	tab := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	row := func(cell func(column) string) {
		var cells []string
		for _, c := range shown {
			cells = append(cells, cell(c))
		}
		fmt.Fprintln(tab, strings.Join(cells, "\t"))
	}
	row(func(c column) string { return c.title })
	for i := range r.Results {
		row(func(c column) string { return c.text(&r.Results[i]) })
	}
	if err := tab.Flush(); err != nil {
		return err
	}
	return r.writeColdStarts(w)
}

func (r *Report) any(seen func(*Result) bool) bool {
	if seen == nil {
		return true
	}
	for i := range r.Results {
		if seen(&r.Results[i]) {
			return true
		}
	}
	return false
}

// Title says in a line what was measured, where and how.
func (r *Report) Title() string {
	p := r.Problem
	text := fmt.Sprintf("%s, V = %d, D = %d, %s, transform %s; %s, driver %s; %d replays of %d launches, in turn",
		p.Model, p.Vocab, p.Hidden, p.what(), p.Transform, r.Device.Name, r.Device.Driver, r.Method.Replays, r.Method.Launches)
	for i := range r.Results {
		if x := &r.Results[i]; x.Contender == Floor {
			return text + fmt.Sprintf("; floor %.2f GB at %.2f TB/s", p.WeightBytes()/1e9, p.WeightBytes()/x.Median/1e6)
		}
	}
	return text
}
