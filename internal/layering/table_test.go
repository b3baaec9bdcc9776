package layering

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

//go:embed layers.txt
var layersText string

// table is layers.txt.
type table struct {
	code      map[string][]string // package -> own packages that it may import
	tests     map[string][]string // the same for its tests
	libraries map[string][]string // module path -> packages that may import it
}

// parseTable reads the text of a table, paths relative to the module.
func parseTable(text string) (*table, error) {
	t := &table{code: map[string][]string{}, tests: map[string][]string{}, libraries: map[string][]string{}}
	var rows, helpers, testsOnly []string
	libraries := false
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if line == "[libraries]" {
			libraries = true
			continue
		}
		name, rest, ok := strings.Cut(line, ":")
		code, tests, _ := strings.Cut(rest, "|")
		names := strings.Fields(code)
		if unknown := slices.IndexFunc(names, func(n string) bool { return n != "*" && !slices.Contains(rows, n) }); unknown >= 0 {
			return nil, fmt.Errorf("layers.txt:%d: %s is no row above", i+1, names[unknown])
		}
		switch {
		case !ok || t.code[name] != nil || t.libraries[name] != nil:
			return nil, fmt.Errorf("layers.txt:%d: want one row for each name, as in name: names", i+1)
		case libraries:
			t.libraries[name] = names
		case name == "tests":
			helpers = names
		default:
			t.code[name] = expand(names, rows)
			t.tests[name] = slices.Concat(t.code[name], strings.Fields(tests))
			testsOnly = append(testsOnly, strings.Fields(tests)...)
			rows = append(rows, name)
		}
	}
	for _, name := range testsOnly {
		if !slices.Contains(rows, name) {
			return nil, fmt.Errorf("layers.txt: tests import %s, which is no row", name)
		}
	}
	for name := range t.tests {
		t.tests[name] = append(t.tests[name], helpers...)
	}
	return t, nil
}

// expand replaces * by every row above; the result is never nil.
func expand(names, above []string) []string {
	if slices.Contains(names, "*") {
		return slices.Clone(above)
	}
	return append([]string{}, names...)
}

// imports are what one package imports: paths relative to the module for our own, whole paths for others.
type imports struct {
	own, others []string
}

// check compares the imports of packages (code or tests) with a table and returns what is wrong, in order.
func (t *table) check(pkgs map[string]imports, tests bool) []string {
	var wrong []string
	allowed := t.code
	if tests {
		allowed = t.tests
	}
	for pkg, in := range pkgs {
		row, ok := allowed[pkg]
		if !ok {
			wrong = append(wrong, pkg+" has no row in layers.txt")
			continue
		}
		for _, own := range in.own {
			if own != pkg && !slices.Contains(row, own) {
				wrong = append(wrong, fmt.Sprintf("%s imports %s", pkg, own))
			}
		}
		for _, path := range in.others {
			if !tests && !t.mayUse(pkg, path) {
				wrong = append(wrong, fmt.Sprintf("%s imports %s", pkg, path))
			}
		}
	}
	slices.Sort(wrong)
	return wrong
}

// mayUse reports whether a package may import a path that is not ours: the standard library, or a library as its row says.
func (t *table) mayUse(pkg, path string) bool {
	if first, _, _ := strings.Cut(path, "/"); !strings.Contains(first, ".") {
		return true
	}
	for library, users := range t.libraries {
		if path == library || strings.HasPrefix(path, library+"/") {
			return slices.Contains(users, pkg)
		}
	}
	return false
}

func TestTableText(t *testing.T) {
	tab, err := parseTable("a:\nhelp:\ntests: help\nb: a | c # why\nc: * |\n[libraries]\nx.org/lib: b")
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, tab.code["b"])
	require.Equal(t, []string{"a", "help", "b"}, tab.code["c"])
	require.Equal(t, []string{"help"}, tab.tests["a"])
	require.Equal(t, []string{"a", "c", "help"}, tab.tests["b"])
	for _, bad := range []string{"a: b\nb:", "a: | b", "a:\na:", "a", "a: a"} {
		_, err := parseTable(bad)
		require.Error(t, err, bad)
	}
	require.Equal(t, []string{"a imports b", "a imports x.org/lib/sub", "b imports y.org/other", "d has no row in layers.txt"},
		tab.check(map[string]imports{
			"a": {own: []string{"b"}, others: []string{"fmt", "x.org/lib/sub"}},
			"b": {own: []string{"a"}, others: []string{"os", "x.org/lib", "y.org/other"}},
			"d": {},
		}, false))
	require.Equal(t, []string{"a imports c"}, tab.check(map[string]imports{
		"a": {own: []string{"help", "a", "c"}, others: []string{"x.org/any"}}, "b": {own: []string{"help", "c"}},
	}, true))
}
