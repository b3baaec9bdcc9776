package layering

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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
	dec := json.NewDecoder(bytes.NewReader(goList(t, tag, "-json=ImportPath,Imports,TestImports,XTestImports", "./...")))
	for dec.More() {
		var p struct {
			ImportPath                         string
			Imports, TestImports, XTestImports []string
		}
		require.NoError(t, dec.Decode(&p))
		name := relative(p.ImportPath)
		code[name] = split(p.Imports)
		tests[name] = split(slices.Concat(p.TestImports, p.XTestImports))
	}
	require.Contains(t, code, "gen")
	return code, tests
}

// watch opens every Go file of the module, which tells go test's cache that the result depends on them: what go list reads
// the cache cannot see.
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

// goList runs go list in the module's root. The command is the one source of imports: it knows build tags and tests.
func goList(t *testing.T, tag string, args ...string) []byte {
	t.Helper()
	list := exec.Command("go", append([]string{"list", "-tags", tag}, args...)...)
	list.Dir = root
	list.Env = append(os.Environ(), "CGO_ENABLED=0")
	var errs bytes.Buffer
	list.Stderr = &errs
	out, err := list.Output()
	require.NoError(t, err, "%s", errs.String())
	return out
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
	if files, _ := filepath.Glob(filepath.Join(root, "cmd", "fsgen", "*.go")); len(files) == 0 {
		t.Skip("there is no cmd/fsgen yet")
	}
	deps := strings.Fields(string(goList(t, noCUDA, "-deps", "./cmd/fsgen")))
	require.Contains(t, deps, module+"/gen")
	for _, path := range deps {
		if strings.Contains(path, "purego") || path == module+"/driver" {
			t.Errorf("an emit-only fsgen needs %s", path)
		}
	}
}
