package manifest

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/arch"
)

// sample is a kernel with one parameter of every kind.
func sample() *Kernel {
	return &Kernel{
		Schema: Schema, Generator: "fsgen test", Entry: "fsgen_sm_90_k", Arch: "sm_90", Target: arch.SM90.Target, PTXVersion: arch.V(8, 0),
		Params: []Param{
			{Name: "weights", Kind: TensorMap, Size: 128, Map: &Map{Tensor: "weights", Rows: "vocab", Element: "bf16",
				Box: []uint32{64, 128}, Swizzle: 128, L2Promote: 256, OOBFill: "zero"}},
			{Name: "vocab", Kind: Scalar, Offset: 128, Size: 4, Element: "u32"},
			{Name: "tokens", Kind: Pointer, Offset: 136, Size: 8, Element: "i32", Shape: "batch", Access: "write"},
		},
		Launch: Launch{
			Grid:    Grid{Unit: "cta", Rule: "persistent", TileM: 128, TileN: 16, Cluster: 2},
			Cluster: [3]int{2, 1, 1}, Block: [3]int{384, 1, 1}, SharedBytes: 80 << 10,
		},
		Problem:   Problem{Vocab: 1000, Hidden: 64, Batch: 16, Specialised: []string{}, RowAlignment: 16},
		Tile:      Tile{Name: "m128n16k64s4c2", M: 128, N: 16, K: 64, Stages: 4, Cluster: 2, Weights: "rowmajor"},
		Transform: "none", Sampler: "greedy", Outputs: []string{"token", "status"},
		PTXSHA256: strings.Repeat("0a", 32),
	}
}

// sums are the parameters of a kernel that writes the log-sum-exp.
var sums = []Param{
	{Name: "lse", Kind: Pointer, Offset: 144, Size: 8, Element: "f32", Shape: "batch", Access: "write"},
	{Name: "lse_partials", Kind: Pointer, Offset: 152, Size: 8, Element: "f32", Shape: "batch x ctas x 2", Access: "scratch"},
}

func TestLogSumExp(t *testing.T) {
	k := sample()
	require.Zero(t, k.PartialsBytes(16, 132))
	k.Params, k.Outputs = append(k.Params, sums...), append(k.Outputs, "lse")
	require.NoError(t, k.Validate())
	require.Equal(t, 8*16*132, k.PartialsBytes(16, 132))
	k.Params[3].Access = "read"
	require.ErrorContains(t, k.Validate(), "outputs is")
}

// TestTensorMapPointers: a map in device memory is an address of 8 bytes with all that a map by value has.
func TestTensorMapPointers(t *testing.T) {
	k := sample()
	k.Params[0].Kind, k.Params[0].Size = TensorMapPointer, 8
	require.NoError(t, k.Validate())
	k.Params[0].Map.Rows = "nobody"
	require.ErrorContains(t, k.Validate(), "params[0].map.rows")
	k.Params[0].Map = nil
	require.ErrorContains(t, k.Validate(), "params[0].map")
}

func TestWorkspace(t *testing.T) {
	require.Equal(t, 0, WorkspaceOffset("ticket"))
	require.Equal(t, KeysOffset, WorkspaceOffset("keys"))
	require.Equal(t, -1, WorkspaceOffset("tokens"))
	require.Equal(t, KeysOffset+8*7, WorkspaceBytes(7))
}

// What docs/artifacts.md says of memory.
func TestMemoryOfARow(t *testing.T) {
	require.Equal(t, 264, WorkspaceBytes(1))
	require.Equal(t, 131_072, RowCandidates*CandidateBytes)
	require.InDelta(t, 6_300, CollectionBytes(1)-RowCandidates*CandidateBytes, 100)
	require.Equal(t, 65_536, 8*RowTopKeys)
	require.InDelta(t, 850, ReportOffset(TopKeys, 1), 10)
	require.Equal(t, []int{8, 12, 24}, []int{PartialBytes(false), PartialBytes(true), SecondPartials(true) + PairBytes})
}

// truncating is a kernel that narrows rows, and its second stage.
func truncating() *Kernel {
	k := sample()
	k.Params = append(k.Params, Param{Name: "marks", Kind: Pointer, Offset: 144, Size: 8, Element: "u32", Shape: "batch x 1024", Access: "workspace"})
	k.Truncation = []string{"top-k", "min-p", "temperature-last"}
	k.Resolve = &Stage{Entry: "fsgen_sm_90_k_resolve", Rule: RowsRule, Block: [3]int{512, 1, 1}, SharedBytes: 80 << 10, Programmatic: true,
		Params: []Param{
			{Name: "vocab", Kind: Scalar, Size: 4, Element: "u32"},
			{Name: "tokens", Kind: Pointer, Offset: 8, Size: 8, Element: "i32", Shape: "batch", Access: "write"},
		}}
	return k
}

// drawing is a kernel whose rows draw several tokens.
func drawing() *Kernel {
	k := truncating()
	k.Truncation, k.Draws, k.Outputs = nil, "without-replacement", append(k.Outputs, Draws, DrawScores)
	k.Resolve.Params = append(k.Resolve.Params,
		Param{Name: Draws, Kind: Pointer, Offset: 16, Size: 8, Element: "i32", Shape: "batch x max_draws", Access: "write"},
		Param{Name: DrawScores, Kind: Pointer, Offset: 24, Size: 8, Element: "f32", Shape: "batch x max_draws", Access: "write"})
	return k
}

// TestDraws: several draws are written by the further stage.
func TestDraws(t *testing.T) {
	k := drawing()
	back, err := Decode(k.Encode())
	require.NoError(t, err)
	require.Equal(t, k, back)
	for field, change := range map[string]func(*Kernel){
		`draws is "some": want with-replacement`: func(k *Kernel) { k.Draws = "some" },
		`draws is "": several draws come with`:   func(k *Kernel) { k.Draws, k.Truncation = "", []string{"top-k"} },
		`draws is "with-replacement": several`:   func(k *Kernel) { k.Draws = "with-replacement" },
		"truncation is []":                       func(k *Kernel) { k.Resolve = nil },
		`draws is "without-replacement"`:         func(k *Kernel) { k.Outputs = k.Outputs[:len(k.Outputs)-1] },
	} {
		k := drawing()
		change(k)
		require.ErrorContains(t, k.Validate(), "manifest: "+field, field)
	}
	k = drawing()
	k.Resolve.Params[3].Access = "scratch"
	require.ErrorContains(t, k.Validate(), "pointers of resolve")
}

// TestResolve: the further stage of a kernel that truncates is launched by a rule of its own, and held to what a kernel is.
func TestResolve(t *testing.T) {
	require.Nil(t, sample().StageKernel())
	k := truncating()
	back, err := Decode(k.Encode())
	require.NoError(t, err)
	require.Equal(t, k, back)
	s := back.StageKernel()
	require.Equal(t, k.Resolve.Params, s.Params)
	require.Equal(t, "fsgen_sm_90_k_resolve", s.Entry)
	require.Equal(t, [3]int{512, 1, 1}, s.Launch.Block)
	require.True(t, s.Launch.Programmatic)
	for batch, ctas := range map[int]int{-1: 0, 0: 0, 1: 1, 300: 300} {
		require.Equal(t, ctas, s.Launch.Grid.CTAs(151936, batch, 132), "a CTA a row, resident or not")
	}
	require.Equal(t, "fsgen_sm_90_k", k.Entry, "the kernel itself stays what it is")
	for field, change := range map[string]func(*Kernel){
		"truncation[0] is \"top-q\"":               func(k *Kernel) { k.Truncation[0] = "top-q" },
		"truncation[1] is \"top-k\"":               func(k *Kernel) { k.Truncation[1] = "top-k" },
		"truncation[1] is \"top-p\"":               func(k *Kernel) { k.Truncation = []string{"min-p", "top-p"} },
		"truncation[0] is \"temperature-last\"":    func(k *Kernel) { k.Truncation = k.Truncation[2:] },
		"truncation is []":                         func(k *Kernel) { k.Truncation = nil },
		"truncation is [top-k":                     func(k *Kernel) { k.Resolve = nil },
		"resolve.entry is \"\"":                    func(k *Kernel) { k.Resolve.Entry = "" },
		"resolve.entry is \"fsgen_sm_90_k\"":       func(k *Kernel) { k.Resolve.Entry = k.Entry },
		"resolve.entry is \"../x\"":                func(k *Kernel) { k.Resolve.Entry = "../x" },
		"resolve: manifest: params[1].offset":      func(k *Kernel) { k.Resolve.Params[1].Offset = 4 },
		"resolve: manifest: params[1].access":      func(k *Kernel) { k.Resolve.Params[1].Access = "workspace" },
		"resolve: manifest: params[0].size":        func(k *Kernel) { k.Resolve.Params[0].Size = 8 },
		"resolve: manifest: launch.grid":           func(k *Kernel) { k.Resolve.Rule = PersistentRule },
		"resolve: manifest: launch.block is [0":    func(k *Kernel) { k.Resolve.Block[0] = 0 },
		"resolve: manifest: launch.block is [512":  func(k *Kernel) { k.Resolve.Block[2] = 2 },
		"resolve: manifest: launch.shared_bytes":   func(k *Kernel) { k.Resolve.SharedBytes = 1 << 30 },
		"resolve.params[1] is tokens, pointer u32": func(k *Kernel) { k.Resolve.Params[1].Element = "u32" },
		"resolve.params[0] is vocab, pointer u32": func(k *Kernel) {
			k.Resolve.Params[0] = Param{Name: "vocab", Kind: Pointer, Size: 8, Element: "u32"}
		},
		"launch.grid": func(k *Kernel) { k.Launch.Grid.Rule = RowsRule },
	} {
		k := truncating()
		change(k)
		err := k.Validate()
		var e *Error
		require.ErrorAs(t, err, &e, field)
		require.ErrorContains(t, err, field)
		back, err := Decode(k.Encode())
		require.Error(t, err, field)
		require.Nil(t, back)
	}
}

// What kernels that truncate leave for their second stage lies in one run of memory: zeroed parts first, and no two overlap.
func TestCollection(t *testing.T) {
	const batch = 7
	sizes := map[string]int{Counts: 4 * batch, Marks: 4 * RowMarks * batch, Candidates: RowCandidates * CandidateBytes * batch, Bounds: 4 * batch, Masses: 8 * batch}
	end := 0
	for _, name := range []string{Counts, Marks, Candidates, Bounds, Masses} {
		at := CollectionOffset(name, batch)
		require.GreaterOrEqual(t, at, end, name)
		require.Zero(t, at%8, "%s is read eight bytes at a time", name)
		end = at + sizes[name]
	}
	require.Zero(t, CollectionOffset(Candidates, batch)%16, "candidates are read sixteen bytes at a time")
	require.GreaterOrEqual(t, CollectionBytes(batch), end)
	require.Equal(t, -1, CollectionOffset("tokens", batch))
}

// logProbs is the parameter of a kernel that writes log-probabilities.
var logProbs = Param{Name: "logprob", Kind: Pointer, Offset: 160, Size: 8, Element: "f32", Shape: "batch", Access: "write"}

func TestLogProbs(t *testing.T) {
	k := sample()
	noted := slices.Clone(sums)
	noted[1].Shape = "batch x ctas x 4"
	k.Params, k.Outputs, k.LogProbMode = append(append(k.Params, noted...), logProbs), append(k.Outputs, "lse", "logprob"), "raw"
	require.NoError(t, k.Validate())
	require.Equal(t, 12*16*132, k.PartialsBytes(16, 132), "beside the pair, a score")
	k.Params[5].Access = "read"
	require.ErrorContains(t, k.Validate(), "outputs is")
}

func TestRoundTrip(t *testing.T) {
	k := sample()
	text := k.Encode()
	require.True(t, bytes.HasSuffix(text, []byte("}\n")))
	back, err := Decode(text)
	require.NoError(t, err)
	require.Equal(t, k, back)
	require.Equal(t, text, back.Encode())
	require.Equal(t, []int{128, 4, 8}, back.ParamSizes())
	require.Equal(t, 136, back.Param("tokens").Offset)
	require.Nil(t, back.Param("nobody"))
}

func TestDecodeRefusesForeignText(t *testing.T) {
	good := string(sample().Encode())
	for name, c := range map[string]struct{ text, want string }{
		"empty":        {"", "not a kernel manifest"},
		"null":         {"null", "schema"},
		"array":        {"[]", "not a kernel manifest"},
		"cut":          {good[:len(good)/2], "not a kernel manifest"},
		"trailing":     {good + "{}", "something follows"},
		"unknown":      {strings.Replace(good, `"schema"`, `"colour": 3, "schema"`, 1), "colour"},
		"deep unknown": {strings.Replace(good, `"tile_m"`, `"tile_q": 3, "tile_m"`, 1), "tile_q"},
		"type":         {strings.Replace(good, `"schema": 1`, `"schema": "1"`, 1), "schema"},
		"huge":         {strings.Replace(good, `"offset": 136`, `"offset": 1e300`, 1), "offset"},
		"target":       {strings.Replace(good, `sm_90a`, `sm_90x`, 1), "bad target"},
		"no target":    {strings.Replace(good, `"target": "sm_90a",`, "", 1), "target"},
		"version":      {strings.Replace(good, `"8.0"`, `"99"`, 1), "bad PTX version"},
	} {
		require.NotEqual(t, good, c.text, name)
		k, err := Decode([]byte(c.text))
		require.ErrorContains(t, err, c.want, name)
		require.Nil(t, k, name)
	}
}

// Each change makes one field that no kernel could have; the error names the field.
func TestValidateNamesTheField(t *testing.T) {
	for field, change := range map[string]func(*Kernel){
		"schema":               func(k *Kernel) { k.Schema = 2 },
		"entry":                func(k *Kernel) { k.Entry = "" },
		"entry is \"../../x\"": func(k *Kernel) { k.Entry = "../../x" },
		"entry is \"9k\"":      func(k *Kernel) { k.Entry = "9k" },
		"entry is \"kkkk":      func(k *Kernel) { k.Entry = strings.Repeat("k", 256) },
		"target":               func(k *Kernel) { k.Target = arch.Target{} },
		"ptx_version":          func(k *Kernel) { k.PTXVersion = arch.Version{} },
		"ptx_sha256":           func(k *Kernel) { k.PTXSHA256 = "00" },
		"params is":            func(k *Kernel) { k.Params = make([]Param, 97) },
		"transform is \"none\"": func(k *Kernel) {
			k.Transform, k.Params = "none", append(k.Params, Param{Name: "temperature", Kind: Pointer, Offset: 1024, Size: 8})
		},
		"shape of lse_partials": func(k *Kernel) {
			k.Params, k.Outputs = append(k.Params, sums...), append(k.Outputs, "lse")
			for i := range k.Params {
				if k.Params[i].Name == Partials {
					k.Params[i].Shape = "batch x ctas x 1"
				}
			}
		},
		"params[1].name":               func(k *Kernel) { k.Params[1].Name = "weights" },
		"params[2].name":               func(k *Kernel) { k.Params[2].Name = "a b" },
		"params[1].kind":               func(k *Kernel) { k.Params[1].Kind = "double" },
		"params[1].size":               func(k *Kernel) { k.Params[1].Size = 8 },
		"params[2].size":               func(k *Kernel) { k.Params[2].Size = -8 },
		"params[2].offset is 132":      func(k *Kernel) { k.Params[2].Offset = 132 },
		"params[2].offset is 128":      func(k *Kernel) { k.Params[2].Offset = 128 },
		"params[0].offset":             func(k *Kernel) { k.Params[0].Offset = -64 },
		"params[2].offset is 4352":     func(k *Kernel) { k.Params[2].Offset = 4352 },
		"params[2].offset is 92233720": func(k *Kernel) { k.Params[2].Offset = math.MaxInt - 7 },
		"params[2].access":             func(k *Kernel) { k.Params[2].Access = "borrow" },
		"params[2].access is \"tokens": func(k *Kernel) { k.Params[2].Access = "workspace" },
		"params[2].map":                func(k *Kernel) { k.Params[2].Kind = TensorMapPointer },
		"outputs[2] is \"logits\"":     func(k *Kernel) { k.Outputs = append(k.Outputs, "logits") },
		"outputs[2] is \"token\"":      func(k *Kernel) { k.Outputs = append(k.Outputs, "token") },
		"outputs is [token status lse": func(k *Kernel) { k.Outputs = append(k.Outputs, "lse") },
		"outputs is [token status]":    func(k *Kernel) { k.Params = append(k.Params, sums...) },
		"outputs is [token status log": func(k *Kernel) { k.Outputs, k.LogProbMode = append(k.Outputs, "logprob"), "raw" },
		"logprob_mode is \"raw\"":      func(k *Kernel) { k.LogProbMode = "raw" },
		"logprob_mode is \"\"": func(k *Kernel) {
			k.Outputs, k.Params = append(k.Outputs, "lse", "logprob"), append(k.Params, sums...)
			k.Params = append(k.Params, logProbs)
		},
		"logprob_mode is \"best\"": func(k *Kernel) {
			k.Outputs, k.Params, k.LogProbMode = append(k.Outputs, "lse", "logprob"), append(k.Params, sums...), "best"
			k.Params = append(k.Params, logProbs)
		},
		"params[0].map":                func(k *Kernel) { k.Params[0].Map = nil },
		"params[1].map":                func(k *Kernel) { k.Params[1].Map = k.Params[0].Map },
		"params[0].map.tensor":         func(k *Kernel) { k.Params[0].Map.Tensor = "hidden" },
		"params[0].map.packed is true": func(k *Kernel) { k.Params[0].Map.Packed, k.Params[0].Map.Swizzle, k.Tile.Weights = true, 0, Packed },
		"params[0].map.packed is false": func(k *Kernel) {
			k.Params[0].Name, k.Params[0].Map.Tensor, k.Tile.Weights = PackedMap, PackedMap, Packed
		},
		"params[0].map is bf16, zero, 0": func(k *Kernel) { k.Params[0].Map.Swizzle = 0 },
		"params[0].map.box is [64]":      func(k *Kernel) { k.Params[0].Map.Box = []uint32{64} },
		"params[0].map.box is [64 257":   func(k *Kernel) { k.Params[0].Map.Box[1] = 257 },
		"params[0].map.box is [0 128":    func(k *Kernel) { k.Params[0].Map.Box[0] = 0 },
		"params[0].map is":               func(k *Kernel) { k.Params[0].Map.Element = "fp8" },
		"params[0].map.l2_promotion":     func(k *Kernel) { k.Params[0].Map.L2Promote = 3 },
		"params[0].map.rows":             func(k *Kernel) { k.Params[0].Map.Rows = "tokens" },
		"launch.block is [0":             func(k *Kernel) { k.Launch.Block[0] = 0 },
		"launch.block is [1025":          func(k *Kernel) { k.Launch.Block[0] = 1025 },
		"launch.block is [384 2":         func(k *Kernel) { k.Launch.Block[1] = 2 },
		"launch.cluster":                 func(k *Kernel) { k.Launch.Cluster[0] = 17 },
		"launch.shared_bytes is -1":      func(k *Kernel) { k.Launch.SharedBytes = -1 },
		"launch.shared_bytes":            func(k *Kernel) { k.Launch.SharedBytes = 1 << 40 },
		"launch.shared_bytes is 10: the": func(k *Kernel) { k.Launch.SharedBytes = 10 },
		"launch.grid is warp":            func(k *Kernel) { k.Launch.Grid.Unit = "warp" },
		"launch.grid":                    func(k *Kernel) { k.Launch.Grid.TileN = 0 },
		"tile":                           func(k *Kernel) { k.Tile.M = 64 },
		"tile.name":                      func(k *Kernel) { k.Tile.Name = "m128n16k64s4c2p" },
		"problem":                        func(k *Kernel) { k.Problem.Vocab = -1 },
		"problem.row_alignment":          func(k *Kernel) { k.Problem.RowAlignment = 3 },
	} {
		k := sample()
		change(k)
		err := k.Validate()
		var e *Error
		require.ErrorAs(t, err, &e, field)
		require.ErrorContains(t, err, "manifest: "+field)
		// What does not validate does not come back from JSON either.
		back, err := Decode(k.Encode())
		require.Error(t, err, field)
		require.Nil(t, back)
	}
}

// gridHolds checks the contract of Grid.CTAs for one problem.
func gridHolds(t *testing.T, g Grid, vocab, batch, resident int) {
	t.Helper()
	n := g.CTAs(vocab, batch, resident)
	if vocab <= 0 || batch <= 0 || resident < g.Cluster {
		require.Zero(t, n)
		return
	}
	require.Positive(t, n)
	require.LessOrEqual(t, n, resident, "more CTAs than are resident at once")
	require.Zero(t, n%g.Cluster, "whole clusters")

	perItem := g.TileM * g.Cluster // vocabulary rows of one cluster's item
	items := (vocab + perItem - 1) / perItem * ((batch + g.TileN - 1) / g.TileN)
	require.Equal(t, min(items, resident/g.Cluster), n/g.Cluster, "all clusters, and none without work")
}

func TestGridCTAs(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		g := Grid{TileM: 64 * (1 + rng.IntN(3)), TileN: 8 * (1 + rng.IntN(32)), Cluster: 1 << rng.IntN(4)}
		gridHolds(t, g, rng.IntN(300000), rng.IntN(2000), rng.IntN(300))
	}
	g := Grid{TileM: 128, TileN: 16, Cluster: 1}
	for vocab := range 600 {
		for resident := range 7 {
			gridHolds(t, g, vocab, 17, resident)
		}
	}
	gridHolds(t, g, math.MaxInt32, 1<<20, 132)
	require.Equal(t, 132, g.CTAs(128256, 16, 132))
}

func FuzzDecode(f *testing.F) {
	good := sample().Encode()
	f.Add(good)
	f.Add(truncating().Encode())
	f.Add([]byte(`{"schema":1}`))
	f.Add(bytes.Replace(good, []byte("136"), []byte("9223372036854775800"), 1))
	f.Add(bytes.Replace(good, []byte(`"box"`), []byte(`"box": null, "Box"`), 1))
	f.Fuzz(func(t *testing.T, data []byte) {
		k, err := Decode(data)
		if err != nil {
			require.Nil(t, k)
			return
		}
		text := k.Encode()
		require.True(t, json.Valid(text))
		back, err := Decode(text)
		require.NoError(t, err)
		require.Equal(t, text, back.Encode())
		gridHolds(t, k.Launch.Grid, 151936, 100, 132)
		for _, p := range k.Params {
			require.LessOrEqual(t, p.Offset+p.Size, maxParamBytes)
		}
	})
}
