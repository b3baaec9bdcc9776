package ptx

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/fsgen/fsgen/ptx/internal/gen"
)

// TestGenerated generates the z files in memory: a stale one, or one that is generated no more, fails.
func TestGenerated(t *testing.T) {
	want, err := gen.Files()
	if err != nil {
		t.Fatal(err)
	}
	have, _ := filepath.Glob("z*.go")
	if len(have) != len(want) {
		t.Errorf("%d generated files are here, %d are generated", len(have), len(want))
	}
	for name, text := range want {
		old, err := os.ReadFile(name)
		if err != nil || !bytes.Equal(old, text) {
			t.Errorf("%s is stale (%v): run go generate ./ptx", name, err)
		}
	}
}
