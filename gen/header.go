package gen

import (
	"bytes"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"text/template"

	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/templates"
)

//go:embed header.h.tmpl
var headerText string

var headerTemplate = template.Must(template.New("header").Parse(headerText))

// Header is a C header that holds the kernel and launches it over the CUDA driver API: plain C99 and C++11, nothing but cuda.h
// and the standard library.
func Header(a *Artifact) ([]byte, error) {
	if err := noReports(a.Manifest); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := headerTemplate.Execute(&b, newHeader(a)); err != nil {
		panic(fmt.Sprintf("BUG: gen: header: %v", err))
	}
	return b.Bytes(), nil
}

// noReports refuses kernels with stages that report of rows: what is emitted to launch kernels launches none of those.
func noReports(m *manifest.Kernel) error {
	if m.Top != nil || m.Listed != nil || slices.Contains(m.Outputs, manifest.Ranks) {
		return &RequestError{"format", "a kernel that reports likeliest tokens, listed ids or ranks has stages that headers and packages " +
			"do not launch; use the PTX and its manifest", "h or go"}
	}
	if m.Join != nil || m.Gather != nil {
		return &RequestError{"format", "a kernel of a shard that leaves its records to another stage takes what headers and packages do not launch; use the PTX and its manifest", "h or go"}
	}
	return nil
}

// header is what the template is filled in with.
type header struct {
	M                          *manifest.Kernel
	Name, Guard                string
	PTX                        string // literals, a piece a line
	Args                       []headerArg
	Maps                       []headerArg
	Workspace                  []workspaceParam // of all stages
	Stages                     []stage
	Cluster, Down, Across      int // CTAs; rows of weights and of hidden states of a cluster's item
	KeysOffset                 int
	Partials                   string // the parameter, if there is one
	PartialBytes               int    // of a row and CTA
	Packed, GlobalMaps         bool
	PackedRows, PackedCols     int
	PackedRowBytes, PackedTail int
	Peers                      *headerPeers // nil for kernels of the whole vocabulary
	Functions                  []string
}

// headerPeers is the layout of what ranks exchange by.
type headerPeers struct{ Rank, Timeout, Rows, Inboxes, FlagBytes, RecordBytes int }

// headerArg is a member of the arguments' struct.
type headerArg struct{ argument }

// CType is the member's type, as it stands before its name.
func (a headerArg) CType() string {
	switch a.Kind {
	case manifest.TensorMap:
		return "const CUtensorMap *"
	case manifest.Scalar:
		return "uint32_t "
	}
	return "CUdeviceptr "
}

// Required reports whether the argument is an address that must not be missing.
func (a headerArg) Required() bool { return a.Kind != manifest.Scalar && !templates.Optional(a.Name) }

// Zero is how a missing address is written.
func (a headerArg) Zero() string {
	if a.Kind == manifest.TensorMap {
		return "NULL"
	}
	return "0"
}

// Value is where the driver finds the value: a tensor map where the caller has it, others in the arguments.
func (a headerArg) Value() string {
	if a.Kind == manifest.TensorMap {
		return "args->" + a.Name
	}
	return "&args->" + a.Name
}

// Matrix is what a tensor map is of.
func (a headerArg) Matrix() string { return paramDocs[a.Name] }

// Upper is the name in capitals.
func (a headerArg) Upper() string { return strings.ToUpper(a.Name) }

// stage is a kernel that a launch enqueues.
type stage struct {
	*manifest.Kernel
	Args      []headerArg
	Workspace []workspaceParam
}

// Resolves reports whether the stage follows the first one.
func (h *header) Resolves() bool { return len(h.Stages) > 1 }

// Last is the second stage.
func (h *header) Last() stage { return h.Stages[1] }

// RowZeroed and RowBytes are what each row of the workspace's capacity adds to it in lists, zeroed once and in all.
func (h *header) RowZeroed() int { return manifest.CollectionOffset(manifest.Candidates, 1) }
func (h *header) RowBytes() int  { return manifest.CollectionBytes(1) }

// workspaceParam is a parameter that points into the workspace: Offset bytes behind its beginning, or behind that of the rows' lists for
// each row that it holds.
type workspaceParam struct {
	*manifest.Param
	Index, Offset int
	Listed        bool
}

func newHeader(a *Artifact) *header {
	m := a.Manifest
	h := &header{
		M: m, Name: m.Entry, Guard: strings.ToUpper(m.Entry) + "_H", PTX: literals(string(a.PTX)), Workspace: allWorkspaceParams(m),
		Cluster: m.Launch.Cluster[0], KeysOffset: manifest.KeysOffset, Packed: m.Tile.Weights == manifest.Packed,
		PackedRows: manifest.PackedRows, PackedCols: manifest.PackedCols,
		PackedRowBytes: manifest.PackedRowBytes, PackedTail: manifest.PackedTail,
		Functions: []string{"error", "load", "unload", "grid", "workspace_bytes", "workspace_zero", "launch"},
	}
	h.Down, h.Across = m.Launch.Grid.Item()
	h.Stages = stagesOf(m)
	if h.Resolves() {
		h.Functions = append(h.Functions, "lists", "resolve_config")
	}
	for _, arg := range allArguments(m) {
		h.Args = append(h.Args, headerArg{arg})
		if arg.Kind.IsMap() {
			h.GlobalMaps = arg.Kind == manifest.TensorMapPointer
			h.Maps = append(h.Maps, headerArg{arg})
			h.Functions = append(h.Functions, "encode_"+arg.Name)
		}
	}
	if m.Param(manifest.Partials) != nil {
		h.Partials, h.PartialBytes = manifest.Partials, m.PartialsBytes(1, 1)
		h.Functions = append(h.Functions, manifest.Partials+"_bytes")
	}
	if m.Shard != "" {
		h.Peers = &headerPeers{manifest.PeerRank, manifest.PeerTimeout, manifest.PeerRows, manifest.PeerInboxes, manifest.PeerFlagBytes, m.RecordBytes(1)}
		h.Functions = append(h.Functions, "peer_table_bytes", "inbox_bytes", "peer_table")
	}
	if h.Packed {
		h.Functions = append(h.Functions, "packed_bytes", "pack")
	}
	return h
}

// stagesOf are the kernels of a launch.
func stagesOf(m *manifest.Kernel) (out []stage) {
	for _, k := range []*manifest.Kernel{m, m.StageKernel()} {
		if k == nil {
			continue
		}
		s := stage{Kernel: k, Workspace: workspaceParams(k)}
		for _, a := range arguments(k) {
			s.Args = append(s.Args, headerArg{a})
		}
		out = append(out, s)
	}
	return out
}

// inWorkspace reports whether a parameter points into the workspace: the scratch of kernels that truncate lies there too.
func inWorkspace(p *manifest.Param) bool {
	return p.Access == "workspace" || manifest.CollectionOffset(p.Name, 1) >= 0
}

// workspaceParams are the parameters that point into the workspace.
func workspaceParams(m *manifest.Kernel) (out []workspaceParam) {
	for i := range m.Params {
		p := &m.Params[i]
		if !inWorkspace(p) {
			continue
		}
		w := workspaceParam{p, i, manifest.WorkspaceOffset(p.Name), false}
		if at := manifest.CollectionOffset(p.Name, 1); at >= 0 {
			w.Offset, w.Listed = at, true
		}
		out = append(out, w)
	}
	return out
}

// allWorkspaceParams are those of all stages, each name once.
func allWorkspaceParams(m *manifest.Kernel) (out []workspaceParam) {
	for _, s := range stagesOf(m) {
		for _, w := range s.Workspace {
			if !slices.ContainsFunc(out, func(x workspaceParam) bool { return x.Name == w.Name }) {
				out = append(out, w)
			}
		}
	}
	return out
}

// literalBytes is the longest string that every C compiler takes (C99, 5.2.4.1), less the end of a line.
const literalBytes = 4000

// literals writes a text as string literals of C, a line each; a comma ends those that have become long enough together.
func literals(text string) string {
	var b strings.Builder
	n := 0
	for line := range strings.Lines(text) {
		if n > 0 && n+len(line) > literalBytes {
			b.WriteString(",")
			n = 0
		}
		if b.Len() > 0 {
			b.WriteString("\n")
		}
		n += len(line)
		b.WriteString("\t" + quoteC(line))
	}
	return b.String() + ",\n"
}

// quoteC quotes printable ASCII, tabs and newlines for C. No two question marks stay together: they may begin a trigraph.
func quoteC(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`, "?", `\?`).Replace(s) + `"`
}
