package verify

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/internal/golden"
)

const simulationPage = "../../docs/simulation.md"

// fill puts content between the marks of a block of a page.
func fill(t *testing.T, page, name, content string) string {
	block := regexp.MustCompile(`(?s)(<!-- begin ` + name + ` -->\n).*?(<!-- end ` + name + ` -->)`)
	require.Len(t, block.FindAllString(page, -1), 1, name)
	return block.ReplaceAllString(page, "${1}"+strings.ReplaceAll(content, "$", "$$")+"${2}")
}

func table(header string, rows ...string) string {
	columns := strings.Count(header, "|") - 1
	return header + "\n" + strings.Repeat("| --- ", columns) + "|\n" + strings.Join(rows, "\n") + "\n"
}

// The tables of docs/simulation.md are what the sources and the recordings say: -update writes them.
func TestSimulationPage(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the corpus on the simulator: not under -short")
	}
	if _, err := os.Stat("../../go.mod"); err != nil {
		t.Skip("not in a checkout: ", err)
	}
	page, err := os.ReadFile(simulationPage)
	require.NoError(t, err)
	text := fill(t, string(page), "findings", findingsTable(t))
	text = fill(t, text, "mutants", mutantsTable(t))
	rec, tiles := heldRecording(t)
	text = fill(t, text, "recorded", recordedTable(rec, tiles))
	text = fill(t, text, "hardware", hardwareTable(t, rec))
	golden.File(t, simulationPage, []byte(text))
}

// findingsTable lists the kinds of findings with their comments in the source.
func findingsTable(t *testing.T) string {
	file, err := parser.ParseFile(token.NewFileSet(), "../../sim/finding.go", nil, parser.ParseComments)
	require.NoError(t, err)
	var rows []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || fmt.Sprint(spec.Type) != "Kind" {
			return true
		}
		name, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		require.NoError(t, err)
		comment := strings.TrimSpace(spec.Comment.Text())
		require.NotEmpty(t, comment, name)
		rows = append(rows, fmt.Sprintf("| %s | %s |", name, comment))
		return false
	})
	require.Greater(t, len(rows), 10)
	return table("| finding | what it is |", rows...)
}

// mutantLine is a line of sim/testdata/mutants.txt.
var mutantLine = regexp.MustCompile(`^  (\S.*?) +(reported: .*|wrong tokens|wrong status|wrong scores|wrong log-sum-exp|wrong log-probabilities|workspace not left zero|refused)$`)

// mutantsTable lists the planted faults of each kernel with what gave them away, and counts them.
func mutantsTable(t *testing.T) string {
	text, err := os.ReadFile("../../sim/testdata/mutants.txt")
	require.NoError(t, err)
	var rows []string
	kernel, reported, refused := "", 0, 0
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		if !strings.HasPrefix(line, " ") {
			kernel = line
			continue
		}
		m := mutantLine.FindStringSubmatch(line)
		require.NotNil(t, m, "a line of another format: %q", line)
		seen, isReport := strings.CutPrefix(m[2], "reported: ")
		switch {
		case isReport:
			reported++
		case seen == "refused":
			refused++
		}
		rows = append(rows, fmt.Sprintf("| %s | %s | %s |", kernel, m[1], seen))
	}
	return fmt.Sprintf("%d faults: %d gave a finding, %d a wrong result, %d were refused when the kernel was loaded.\n\n",
		len(rows), reported, len(rows)-reported-refused, refused) +
		table("| kernel | fault | seen as |", rows...)
}

// recordedTable says how the simulator agrees with a recording, tile by tile.
func recordedTable(rec *recording, tiles map[string]*agreement) string {
	var rows []string
	line := func(name string, a *agreement) {
		status := fmt.Sprintf("%d / %d / %d / %d", a.statuses[0], a.statuses[1], a.statuses[2], a.statuses[3])
		rows = append(rows, fmt.Sprintf("| %s | %d | %d | %s | 0 | %d | %.2f | %d of %d |", name, a.trials, a.rows, status, a.sameBits, a.worst, a.samePTX, a.trials))
	}
	for _, tile := range corpusTiles() {
		line(tile.String(), tiles[tile.String()])
	}
	line("all", total(tiles))
	return fmt.Sprintf("%s, driver %s, %s, against `sim:%s`:\n\n", rec.GPU, rec.Driver, rec.Date, corpusArch.Name) +
		table("| tile | problems | rows | statuses | tokens or statuses that differ | scores equal to the bit | largest difference of scores | PTX as recorded |", rows...)
}

// hardwareTable says what ran on which machine: nothing that is not written down elsewhere.
func hardwareTable(t *testing.T, rec *recording) string {
	makefile, err := os.ReadFile("../../Makefile")
	require.NoError(t, err)
	version := func(name string) string {
		m := regexp.MustCompile(`(?m)^` + name + `_VERSION \?= (\S+)$`).FindSubmatch(makefile)
		require.NotNil(t, m, "Makefile has no %s_VERSION", name)
		return string(m[1])
	}
	return table(fmt.Sprintf("| kernels | %s, driver %s | simulator | ptxas %s | nvdisasm %s |", rec.GPU, rec.Driver, version("PTXAS"), version("NVDISASM")),
		"| sm_90 | run: tests, `fsgen verify`, benchmarks, the table above | run: tests, `--suite quick`, the table above | "+
			"every variant assembles for sm_90a without spills | HGMMA inside the main loop, no local memory |",
		"| sm_100 | not run, nor on any other GPU: no B200 or B300 was at hand | run: tests, `--suite quick`, planted faults | "+
			"every variant assembles for sm_100f without spills | UTCHMMA inside the main loop, no local memory |",
		"| sm_120 | refused by name, on every path | refused | | |")
}
