package layering

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/packages"
)

const (
	module = "github.com/fsgen/fsgen"
	root   = "../.."
	noCUDA = "fsgen_nocuda" // the build tag of an emit-only fsgen
)

// load returns the imports of every package of the module, for code and for tests, under a build tag.
func load(t *testing.T, tag string) (code, tests map[string]imports) {
	t.Helper()
	watch(t)
	code, tests = map[string]imports{}, map[string]imports{}
	for _, p := range loadPackages(t, tag, true, "./...") {
		paths := slices.Sorted(maps.Keys(p.Imports))
		switch {
		case strings.HasSuffix(p.PkgPath, ".test"): // the generated main
		case p.ID == p.PkgPath:
			code[relative(p.PkgPath)] = split(paths)
		default: // "p [p.test]": code and its tests together; or "p_test [p.test]"
			name := strings.TrimSuffix(relative(p.PkgPath), "_test")
			in := split(paths)
			tests[name] = imports{own: append(tests[name].own, in.own...), others: append(tests[name].others, in.others...)}
		}
	}
	require.Contains(t, code, "gen")
	require.Contains(t, tests["gen"].own, "model", "test imports are seen too")
	return code, tests
}

// loadPackages asks the go command, through go/packages, which knows build tags and tells tests from code.
func loadPackages(t *testing.T, tag string, withTests bool, patterns ...string) []*packages.Package {
	t.Helper()
	list, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedImports | packages.NeedDeps, Tests: withTests, Dir: root,
		BuildFlags: []string{"-tags", tag}, Env: append(os.Environ(), "CGO_ENABLED=0"),
	}, patterns...)
	require.NoError(t, err)
	for _, p := range list {
		require.Empty(t, p.Errors, p.ID)
	}
	return list
}

// watch opens every Go file of the module, which tells go test's cache that the result depends on them: what the go command
// reads the cache cannot see.
func watch(t *testing.T) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case !d.IsDir() && filepath.Ext(path) == ".go":
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			return f.Close()
		}
		return nil
	}))
}

func split(paths []string) (in imports) {
	for _, path := range paths {
		if rel := relative(path); rel != path {
			in.own = append(in.own, rel)
		} else {
			in.others = append(in.others, path)
		}
	}
	return in
}

func relative(path string) string { return strings.TrimPrefix(path, module+"/") }

func TestImportsFollowTheTable(t *testing.T) {
	tab, err := parseTable(layersText)
	require.NoError(t, err)
	for _, tag := range []string{"", noCUDA} {
		code, tests := load(t, tag)
		require.Empty(t, tab.check(code, false), "code, tags %q", tag)
		require.Empty(t, tab.check(tests, true), "tests, tags %q", tag)
	}
}

// impure are packages through which the clock, the environment, the network or chance could enter an emitted kernel.
var impure = []string{"os", "net", "time", "math/rand", "crypto/rand", "syscall", "plugin", "hash/maphash", "log", "testing"}

func TestMakingIsPure(t *testing.T) {
	code, _ := load(t, "")
	for _, pkg := range below(code, "gen") {
		for _, path := range code[pkg].others {
			for _, bad := range impure {
				if path == bad || strings.HasPrefix(path, bad+"/") {
					t.Errorf("%s imports %s: gen and everything below it give the same bytes for the same request", pkg, path)
				}
			}
		}
	}
}

// below returns a package and all of our own that it needs, in order.
func below(code map[string]imports, pkg string) []string {
	seen := map[string]bool{}
	var visit func(string)
	visit = func(p string) {
		if !seen[p] {
			seen[p] = true
			for _, own := range code[p].own {
				visit(own)
			}
		}
	}
	visit(pkg)
	return slices.Sorted(maps.Keys(seen))
}

// Outside driver, whatever needs purego stands in files that an emit-only build leaves out.
func TestPuregoStaysBehindTheTag(t *testing.T) {
	code, _ := load(t, noCUDA)
	for pkg, in := range code {
		if pkg != "driver" && slices.Contains(in.others, "github.com/ebitengine/purego") {
			t.Errorf("%s imports purego under the tag %s", pkg, noCUDA)
		}
	}
}

func TestEmitOnlyBuildIsFree(t *testing.T) {
	var deps []string
	packages.Visit(loadPackages(t, noCUDA, false, "./cmd/fsgen"), nil, func(p *packages.Package) { deps = append(deps, p.PkgPath) })
	require.Contains(t, deps, module+"/gen")
	for _, path := range deps {
		if strings.Contains(path, "purego") || path == module+"/driver" {
			t.Errorf("an emit-only fsgen needs %s", path)
		}
	}
}
