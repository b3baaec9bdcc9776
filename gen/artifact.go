package gen

import (
	"slices"
	"strings"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
)

// LoadArtifact puts an emitted kernel together again from its two files' contents, and checks that they belong together,
// and that the launch has the shared memory that the kernel stores to.
func LoadArtifact(ptxText, manifestJSON []byte) (*Artifact, error) {
	m, err := manifest.Decode(manifestJSON)
	if err != nil {
		return nil, err
	}
	if err := m.CheckPTX(ptxText); err != nil {
		return nil, err
	}
	a := &Artifact{PTX: ptxText, Manifest: m}
	if err := a.checkShared(); err != nil {
		return nil, err
	}
	return a, nil
}

// Writes reports whether the kernel writes an output: "token", "status", "score", "lse", "logprob", "draws" or "draw_scores".
func (a *Artifact) Writes(output string) bool { return slices.Contains(a.Manifest.Outputs, output) }

// Draws is how rows of the kernel draw several tokens, as ir.Draws spells it.
func (a *Artifact) Draws() string {
	if a.Manifest.Draws == "" {
		return ir.SingleDraw.String()
	}
	return a.Manifest.Draws
}

// Truncation is what the kernel narrows rows by, as ir.Truncation spells it.
func (a *Artifact) Truncation() string {
	if len(a.Manifest.Truncation) == 0 {
		return ir.Truncation{}.String()
	}
	return strings.Join(a.Manifest.Truncation, ",")
}
