package templates

import (
	"fmt"
	"strings"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/ptx"
	"github.com/fsgen/fsgen/tiling"
)

// Kernel is a kernel in a module, with what a caller must know about its parameters.
type Kernel struct {
	Module *ptx.Module
	Entry  *ptx.Func
	Params []manifest.Param
	// Resolve, if not nil, is to be launched after the kernel, one CTA for each row of the batch.
	Resolve *Stage
	// Top, if not nil, is to be launched after the kernel, one CTA for each row of the batch.
	Top *Stage
	// Listed, if not nil, is to be launched last, where lists of ids ask for something.
	Listed *Stage
	// Join, if not nil, brings the records together that the kernels of all shards have left.
	Join *Stage
	// Gather, if not nil, is to be launched after the kernel and ahead of Resolve, on any grid whose CTAs are all there at once: it brings
	// the lists of all shards together.
	Gather *Stage
	// TopGather, ListedGather and RanksGather, if not nil, are to be launched behind Top, behind Listed and behind a kernel that counts, on
	// any grid whose CTAs are all there at once: they exchange what each shard reports. TopMerge is behind TopGather, one CTA for each row.
	TopGather, TopMerge, ListedGather, RanksGather *Stage
}

// Options are variants of a kernel that compute the same.
type Options struct {
	// Exhaustive computes every score in full, where kernels otherwise skip those that a bound rules out. It is there to
	// be compared with.
	Exhaustive bool
	// Further makes the kernel of the passes that decide the rows that the first pass leaves open, of a computation that collects tokens (ir.Computation.Collects).
	Further bool
	// Ranks makes the kernel that counts the tokens before those of the rows, of a computation's ir.Computation.RankPass.
	Ranks bool
	// Weights is the layout of the weights; "" is row-major.
	Weights manifest.Layout
	// TensorMaps says where the kernel has its tensor maps from; "" is ByParam.
	TensorMaps TensorMaps
}

// TensorMaps is how a kernel is given its tensor maps.
type TensorMaps string

// ByParam has tensor maps among the kernel's parameters, by value. InGlobal has pointers to them: for callers that can pass no
// parameter of 128 bytes.
const (
	ByParam  TensorMaps = "param"
	InGlobal TensorMaps = "global"
)

// ParseTensorMaps reads the name; "" is ByParam.
func ParseTensorMaps(s string) (TensorMaps, error) {
	switch m := TensorMaps(s); m {
	case "":
		return ByParam, nil
	case ByParam, InGlobal:
		return m, nil
	}
	return "", fmt.Errorf("unknown place of tensor maps %q: want param or global", s)
}

// Layout is the layout of the weights by its name.
func (o Options) Layout() manifest.Layout {
	if o.Weights == "" {
		return manifest.RowMajor
	}
	return o.Weights
}

var skeletons = map[string]func(*tiling.Plan, ir.Computation, Options) (*Kernel, error){
	arch.SM90.Name: SM90, arch.SM100.Name: SM100,
}

// Build builds the kernel of a plan for the plan's architecture.
func Build(plan *tiling.Plan, c ir.Computation, o Options) (*Kernel, error) {
	if _, err := manifest.ParseLayout(string(o.Weights)); err != nil {
		return nil, fmt.Errorf("templates: %w", err)
	}
	if _, err := ParseTensorMaps(string(o.TensorMaps)); err != nil {
		return nil, fmt.Errorf("templates: %w", err)
	}
	if err := Supports(c); err != nil {
		return nil, err
	}
	if o.Further && !c.Collects() {
		return nil, fmt.Errorf("templates: further passes are of computations that truncate or draw several tokens")
	}
	if o.Ranks && c.Normalize() != c.RankPass() {
		return nil, fmt.Errorf("templates: ranks are counted by the computation of a pass of their own")
	}
	build, ok := skeletons[plan.Arch.Name]
	if !ok {
		return nil, fmt.Errorf("templates: there is no skeleton for %s", plan.Arch.Name)
	}
	return build(plan, c, o)
}

// EntryName names the kernel of a tile and computation, as an identifier of PTX and C.
func EntryName(archName string, t tiling.Tile, c ir.Computation, o Options) string {
	c = c.Normalize()
	text := fmt.Sprintf("fsgen_%s_%s_%s", archName, t, c.Sampler)
	if chain := c.Chain.String(); chain != "none" {
		text += "_" + chain
	}
	for _, item := range c.Truncation.Items() {
		text += "_" + item
	}
	if c.Draws != ir.SingleDraw {
		text += "_draws_" + c.Draws.String()
	}
	if c.Score {
		text += "_score"
	}
	if c.LogSumExp {
		text += "_lse"
	}
	if c.LogProb != ir.NoLogProb {
		text += "_logprob_" + c.LogProb.String()
	}
	if c.TopN > 0 {
		text += fmt.Sprintf("_top%d", c.TopN)
	}
	if c.Rank {
		text += "_rank"
	}
	if c.Listed {
		text += "_listed"
	}
	if c.Slots {
		text += "_slots"
	}
	if c.Shard != ir.Whole {
		text += "_" + c.Shard.String()
	}
	if o.Layout() != manifest.RowMajor {
		text += "_" + string(o.Layout())
	}
	if o.TensorMaps == InGlobal {
		text += "_globalmap"
	}
	if o.Further {
		text += "_further"
	}
	if o.Ranks {
		text += "_ranks"
	}
	if o.Exhaustive {
		text += "_exhaustive"
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '_':
			return r
		case r == '=', r == '+': // scale=1e+20 is scale1e20, scale=1e-20 scale1e_20
			return -1
		}
		return '_'
	}, text)
}

// signature declares parameters in order, in the PTX and in the manifest at once.
type signature struct {
	f      *ptx.Func
	params []manifest.Param
	sets   string // what says how many sets of rows' parameters there are
}

func (s *signature) add(p manifest.Param) { s.params = append(s.params, p) }

func (s *signature) pointer(name, element, shape, access string) ptx.Param {
	s.add(manifest.Param{Name: name, Kind: manifest.Pointer, Size: 8, Element: element, Shape: shape, Access: access})
	return s.f.ParamU64(name)
}

func (s *signature) scalar(name string) ptx.Param {
	s.add(manifest.Param{Name: name, Kind: manifest.Scalar, Size: 4, Element: "u32"})
	return s.f.ParamU32(name)
}

// weightsMap declares the tensor map of weights. L2 fetches no more than a row of a box: what lies behind it, of row-major weights the
// next stage's, comes in its own time, and asking for it ahead costs memory 4% (docs/NOTES.md, section 18).
func (s *signature) weightsMap(name, rows string, boxRows int, where TensorMaps) ptx.Param {
	p := s.tensorMap(name, rows, boxRows, where)
	m := s.params[len(s.params)-1].Map
	m.L2Promote = 128
	if name == ParamPackedMap {
		m.Packed, m.Swizzle = true, 0
	}
	return p
}

func (s *signature) tensorMap(name, rows string, boxRows int, where TensorMaps) ptx.Param {
	p := manifest.Param{Name: name, Kind: manifest.TensorMap, Size: 128, Map: &manifest.Map{
		Tensor: name, Rows: rows, Element: "bf16", Box: []uint32{64, uint32(boxRows)}, Swizzle: 128,
		L2Promote: 256, OOBFill: "zero",
	}}
	if where == InGlobal {
		p.Kind, p.Size, p.Access = manifest.TensorMapPointer, 8, "read"
		s.add(p)
		return s.f.ParamU64(name)
	}
	s.add(p)
	return s.f.ParamTensorMap(name)
}

// finish fills in the offsets: parameters stand one after the other, each aligned to its size, tensor maps to 64.
func (s *signature) finish() []manifest.Param {
	end := 0
	for i := range s.params {
		p := &s.params[i]
		align := min(p.Size, 64)
		p.Offset = (end + align - 1) / align * align
		end = p.Offset + p.Size
	}
	return s.params
}

// loadU32 reads a scalar parameter.
func loadU32(f *ptx.Func, p ptx.Param, name string) ptx.B32 {
	r := f.B32(name)
	f.LdParamB32(r, p)
	return r
}

// loadPointer reads a pointer parameter as a global address.
func loadPointer(f *ptx.Func, p ptx.Param, name string) ptx.B64 {
	r := f.B64(name)
	f.LdParamB64(r, p)
	f.CvtaToGlobalU64(r, r)
	return r
}

// lut is the look-up table of lop3 for a function of three bits (PTX ISA, section "lop3").
func lut(fn func(a, b, c uint8) uint8) int { return int(fn(0xF0, 0xCC, 0xAA)) }

var xor3 = lut(func(a, b, c uint8) uint8 { return a ^ b ^ c })
