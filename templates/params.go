package templates

import (
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/ptx"
	"github.com/fsgen/fsgen/tiling"
)

// Names of the parameters, as manifests carry them.
const (
	ParamWeights           = "weights"
	ParamPackedWeights     = "packed_weights"
	ParamPackedMap         = manifest.PackedMap
	ParamHidden            = "hidden"
	ParamVocab             = "vocab"
	ParamHiddenSize        = "hidden_size"
	ParamBatch             = "batch"
	ParamSlots             = manifest.Slots
	ParamSlotCount         = "slot_count"
	ParamSeeds             = "seeds"
	ParamSeedStride        = "seed_stride"
	ParamPositions         = "positions"
	ParamPositionStride    = "position_stride"
	ParamDraw              = "draw"
	ParamStreamTag         = "stream_tag"
	ParamTemperature       = "temperature"
	ParamTemperatureStride = "temperature_stride"
	ParamBias              = "bias"
	ParamBiasStride        = "bias_stride"
	ParamMask              = "mask"
	ParamMaskStride        = "mask_stride"
	ParamMaskWords         = "mask_words"
	ParamBiasSpans         = "bias_spans"
	ParamBiasSpanStride    = "bias_span_stride"
	ParamBiasEntries       = "bias_entries"
	ParamBiasEntryCount    = "bias_entry_count"
	ParamRepetition        = "repetition"
	ParamRepetitionStride  = "repetition_stride"
	ParamFrequency         = "frequency"
	ParamFrequencyStride   = "frequency_stride"
	ParamPresence          = "presence"
	ParamPresenceStride    = "presence_stride"
	ParamCountSpans        = "count_spans"
	ParamCountSpanStride   = "count_span_stride"
	ParamCountEntries      = "count_entries"
	ParamCountEntryCount   = "count_entry_count"
	ParamTokenCounts       = "token_counts"
	ParamTokenCountStride  = "token_count_stride"
	ParamAllowSpans        = "allow_spans"
	ParamAllowSpanStride   = "allow_span_stride"
	ParamAllowIDs          = "allow_ids"
	ParamAllowIDCount      = "allow_id_count"
	ParamBanSpans          = "ban_spans"
	ParamBanSpanStride     = "ban_span_stride"
	ParamBanIDs            = "ban_ids"
	ParamBanIDCount        = "ban_id_count"
	ParamTokens            = "tokens"
	ParamStatus            = "status"
	ParamScores            = "scores"
	ParamLogSumExp         = manifest.LogSumExp
	ParamPartials          = manifest.Partials
	ParamLogProb           = manifest.LogProb
	ParamTopMarks          = manifest.TopMarks
	ParamTopBounds         = manifest.TopBounds
	ParamTopCounts         = manifest.TopCounts
	ParamTopFloors         = manifest.TopFloors
	ParamTopKeys           = manifest.TopKeys
	ParamSentTopKeys       = manifest.SentTopKeys
	ParamTopPass           = "top_pass"
	ParamTopIDs            = manifest.TopIDs
	ParamTopLogProbs       = manifest.TopLogProbs
	ParamRankKeys          = manifest.RankKeys
	ParamRanks             = manifest.Ranks
	ParamKept              = manifest.Kept
	ParamListIDs           = "list_ids"
	ParamListStride        = "list_stride"
	ParamListLength        = "list_length"
	ParamListLogProbs      = manifest.ListLogProbs
	ParamWeightRows        = "weight_rows"
	ParamWeightStride      = "weight_stride"
	ParamHiddenRows        = "hidden_rows"
	ParamHiddenStride      = "hidden_stride"
	ParamTopK              = "top_k"
	ParamTopKStride        = "top_k_stride"
	ParamTopP              = "top_p"
	ParamTopPStride        = "top_p_stride"
	ParamMinP              = "min_p"
	ParamMinPStride        = "min_p_stride"
	ParamDrawCounts        = "draw_counts"
	ParamDrawCountStride   = "draw_count_stride"
	ParamMaxDraws          = manifest.MaxDraws
	ParamDraws             = manifest.Draws
	ParamDrawScores        = manifest.DrawScores
	ParamMarks             = manifest.Marks
	ParamCounts            = manifest.Counts
	ParamCandidates        = manifest.Candidates
	ParamBounds            = manifest.Bounds
	ParamMasses            = manifest.Masses
	ParamSecondMasses      = manifest.SecondMasses
	ParamArrivals          = manifest.Arrivals
	ParamStates            = manifest.States
	ParamOpen              = manifest.Open
	ParamPivots            = manifest.Pivots
	ParamBins              = manifest.Bins
	ParamPeaks             = manifest.Peaks
	ParamPasses            = "passes"
	ParamShardStart        = "shard_start"
	ParamShardCount        = "shard_count"
	ParamRecords           = manifest.Records
	ParamRecordRows        = "record_rows"
	ParamGathered          = manifest.Gathered
	ParamWorld             = "world"
	ParamPeers             = manifest.Peers
	ParamKeys              = manifest.Keys
	ParamTicket            = manifest.Ticket
)

// params are the parameters of the skeleton. A stride of 0 makes one value serve every row; strides count elements.
type params struct {
	signature
	weights, hidden     ptx.Param
	vocab, width, batch ptx.Param
	slots, slotCount    ptx.Param

	seeds, seedStride         ptx.Param
	positions, positionStride ptx.Param
	draw, tag                 ptx.Param

	temperature, temperatureStride ptx.Param
	bias, biasStride               ptx.Param
	mask, maskStride, maskWords    ptx.Param

	edits                                     editParams
	filters                                   filterParams
	several                                   drawParams
	marks, counts, candidates, bounds, masses ptx.Param
	secondMasses                              ptx.Param
	states, open, pivots, bins, peaks         ptx.Param
	topParams
	rankKeys, ranks ptx.Param
	arrivals        ptx.Param

	tokens, status, scores ptx.Param
	logSumExp, logProb     ptx.Param
	partials               ptx.Param
	keys, ticket           ptx.Param
	shard                  shardParams
}

func newParams(f *ptx.Func, plan *tiling.Plan, c ir.Computation, o Options) *params {
	s := &params{signature: signature{f: f, sets: setsOf(c)}}
	switch {
	case o.Layout() != manifest.Packed:
		s.weights = s.weightsMap(ParamWeights, rowsOf(c), copyRows(plan.Tile), o.TensorMaps)
	case plan.Tile.Split:
		s.weights = s.weightsMap(ParamPackedMap, rowsOf(c), copyRows(plan.Tile), o.TensorMaps)
	default:
		s.weights = s.pointer(ParamPackedWeights, "bf16", "vocab x hidden_size, packed", "read")
	}
	s.hidden = s.tensorMap(ParamHidden, ParamBatch, hiddenShare(plan.Tile), o.TensorMaps)
	s.vocab, s.width, s.batch = s.scalar(ParamVocab), s.scalar(ParamHiddenSize), s.scalar(ParamBatch)
	s.addShard(c, o)
	s.addSlots(c)
	if c.Sampler.Random() {
		s.seeds, s.seedStride = s.rows(ParamSeeds, "u64", ParamSeedStride)
		s.positions, s.positionStride = s.rows(ParamPositions, "u64", ParamPositionStride)
		s.draw, s.tag = s.scalar(ParamDraw), s.scalar(ParamStreamTag)
	}
	if c.Chain.Temperature {
		s.temperature, s.temperatureStride = s.rows(ParamTemperature, "f32", ParamTemperatureStride)
	}
	s.addBiasAndMask(c)
	s.addEdits(c.Chain)
	if o.Ranks {
		s.addRankKeys()
		return s
	}
	s.addFilters(c)
	s.several = s.drawParams(c)
	if c.Shard == ir.ShardRecords || gathers(c) {
		s.addRecords()
	} else {
		s.addOutputs(c)
	}
	s.addPartials(c)
	if c.Collects() {
		s.addCollection(c, o)
	}
	if !o.Further { // whose stage alone has more to report
		s.addReports(c)
	}
	s.keys = s.pointer(ParamKeys, "u64", "batch", "workspace")
	s.ticket = s.pointer(ParamTicket, "u32", "1", "workspace")
	return s
}

// addOutputs declares what rows come to.
func (s *params) addOutputs(c ir.Computation) {
	s.tokens = s.pointer(ParamTokens, "i32", "batch", "write")
	s.status = s.pointer(ParamStatus, "i32", "batch", "write")
	if c.Score {
		s.scores = s.pointer(ParamScores, "f32", "batch", "write")
	}
	if c.LogSumExp {
		s.logSumExp = s.pointer(ParamLogSumExp, "f32", "batch", "write")
	}
	if c.LogProb != ir.NoLogProb {
		s.logProb = s.pointer(ParamLogProb, "f32", "batch", "write")
	}
}

// addPartials declares where CTAs leave what they add up.
func (s *params) addPartials(c ir.Computation) {
	if !c.AddsUp() {
		return
	}
	element := "f32"
	if c.LogProb != ir.NoLogProb {
		element = "u32"
	}
	_, two := c.SecondSum()
	s.partials = s.pointer(ParamPartials, element, manifest.PartialsShape(c.LogProb != ir.NoLogProb, two), "scratch")
}

// addReports declares what the kernel leaves for the stages that report of rows.
func (s *params) addReports(c ir.Computation) {
	s.addTops(c)
	if c.Rank {
		s.addRankKeys()
	}
	if reportsSums(c) && !keepsMass(c) {
		s.masses = s.pointer(ParamMasses, "f32", "batch x 2", "scratch")
	}
}

// reportsSums reports whether a stage tells log-probabilities by the sums of rows.
func reportsSums(c ir.Computation) bool { return c.Listed || c.TopN > 0 }

// setsOf is the scalar that says how many sets of rows' parameters there are.
func setsOf(c ir.Computation) string {
	if c.Slots {
		return ParamSlotCount
	}
	return ParamBatch
}

// hiddenShare is the rows of hidden states that a CTA fetches for a stage: what the cluster shares is fetched in parts, by
// multicast.
func hiddenShare(t tiling.Tile) int {
	if t.Split {
		return t.N
	}
	return t.N / t.Cluster
}

// rows declares a pointer to one value a row, or slot, and its stride.
func (s *signature) rows(name, element, stride string) (pointer, strideParam ptx.Param) {
	return s.pointer(name, element, s.sets+" x "+stride, "read"), s.scalar(stride)
}

func (s *params) addSlots(c ir.Computation) {
	if c.Slots {
		s.slots, s.slotCount = s.pointer(ParamSlots, "i32", "batch", "read"), s.scalar(ParamSlotCount)
	}
}

func (s *params) addBiasAndMask(c ir.Computation) {
	switch c.Chain.Bias {
	case ir.BiasVector:
		s.bias = s.pointer(ParamBias, "f32", "vocab", "read")
	case ir.BiasMatrix:
		s.bias = s.pointer(ParamBias, "f32", s.sets+" x bias_stride, vocab of each", "read")
		s.biasStride = s.scalar(ParamBiasStride)
	}
	if c.Chain.Mask {
		s.mask = s.pointer(ParamMask, "u32", s.sets+" x mask_stride, mask_words of each", "read")
		s.maskStride, s.maskWords = s.scalar(ParamMaskStride), s.scalar(ParamMaskWords)
	}
}

// optionalParams are addresses that may be 0: no row has lists of the kind, or the penalty (docs/parameters.md, section 6).
var optionalParams = map[string]bool{
	ParamBiasSpans: true, ParamBiasEntries: true, ParamCountSpans: true, ParamCountEntries: true, ParamAllowSpans: true, ParamAllowIDs: true,
	ParamBanSpans: true, ParamBanIDs: true, ParamTokenCounts: true, ParamRepetition: true, ParamFrequency: true, ParamPresence: true,
}

// Optional reports whether a parameter is an address that may be 0.
func Optional(param string) bool { return optionalParams[param] }
