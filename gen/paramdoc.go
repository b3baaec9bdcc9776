package gen

import (
	"fmt"

	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/templates"
)

// paramDocs say what the parameters of kernels mean, for those who read a header or a package instead of a manifest.
var paramDocs = map[string]string{
	templates.ParamWeights:           "weights W [vocab, hidden_size]",
	templates.ParamPackedWeights:     "weights W, packed in panels of 64 columns",
	templates.ParamPackedMap:         "weights W, packed in panels of 64 columns",
	templates.ParamHidden:            "hidden states H [batch, hidden_size]",
	templates.ParamVocab:             "tokens of the vocabulary; rows of W past it are not sampled",
	templates.ParamHiddenSize:        "columns of W and H",
	templates.ParamBatch:             "rows to sample; 0 launches nothing",
	templates.ParamShardStart:        "first id that W has a row of",
	templates.ParamShardCount:        "ids that W has rows of, from the first on",
	templates.ParamRecords:           "where the records of the rows go",
	templates.ParamRecordRows:        "rows that records have room for: a multiple of 16, the same for all ranks",
	templates.ParamGathered:          "records of all ranks, in their order",
	templates.ParamWorld:             "ranks whose records there are",
	templates.ParamPeers:             "table of the ranks (docs/parallel.md)",
	templates.ParamSlots:             "set of parameters that every row takes; a row whose slot is none fails",
	templates.ParamSlotCount:         "sets of parameters",
	templates.ParamSeeds:             "seed of every row",
	templates.ParamSeedStride:        "elements from row to row: 1, or 0 for one that serves all",
	templates.ParamPositions:         "position (step) of every row in its sequence",
	templates.ParamPositionStride:    "elements from row to row: 1, or 0 for one that serves all",
	templates.ParamDraw:              "number of the draw, for several from the same position; 0 otherwise",
	templates.ParamStreamTag:         "separates independent uses of one seed; 0 otherwise",
	templates.ParamTemperature:       "temperature of every row; 0 is greedy, negative or not finite fails the row",
	templates.ParamTemperatureStride: "elements from row to row: 1, or 0 for one that serves all",
	templates.ParamBias:              "added to the logits, after scale and soft-cap",
	templates.ParamBiasStride:        "elements from row to row",
	templates.ParamMask:              "allowed tokens: token v is bit v & 31 of word v >> 5",
	templates.ParamMaskStride:        "words from row to row; 0 for one mask that serves all",
	templates.ParamMaskWords:         "words of a row that are there; tokens past them are not allowed",
	templates.ParamBiasSpans:         "first entry of every row's list of biases and their number, or 2^32 - 1 for no list; address 0 for no lists",
	templates.ParamBiasSpanStride:    "spans from row to row: 1, or 0 for one that serves all",
	templates.ParamCountSpans:        "first entry of every row's list of counts and their number, or 2^32 - 1 for no list; address 0 for no lists",
	templates.ParamCountSpanStride:   "spans from row to row: 1, or 0 for one that serves all",
	templates.ParamAllowSpans:        "first entry of every row's list of allowed ids and their number, or 2^32 - 1 for no list; address 0 for no lists",
	templates.ParamAllowSpanStride:   "spans from row to row: 1, or 0 for one that serves all",
	templates.ParamBanSpans:          "first entry of every row's list of banned ids and their number, or 2^32 - 1 for no list; address 0 for no lists",
	templates.ParamBanSpanStride:     "spans from row to row: 1, or 0 for one that serves all",
	templates.ParamBiasEntries:       "id and bias (f32), ids rising in each list",
	templates.ParamBiasEntryCount:    "entries of all lists of biases",
	templates.ParamCountEntries:      "id and count (output, plus 2^31 for the prompt), ids rising in each list",
	templates.ParamCountEntryCount:   "entries of all lists of counts",
	templates.ParamAllowIDs:          "ids, rising in each list: no other token of the row is allowed",
	templates.ParamAllowIDCount:      "ids of all lists of allowed ids",
	templates.ParamBanIDs:            "ids, rising in each list, that are not allowed",
	templates.ParamBanIDCount:        "ids of all lists of banned ids",
	templates.ParamTokenCounts:       "count of every token (output, plus 2^31 for the prompt), instead of lists; address 0 for none",
	templates.ParamTokenCountStride:  "elements from row to row; 0 for counts that serve all",
	templates.ParamRepetition:        "repetition penalty of every row; address 0 for 1, which is off",
	templates.ParamRepetitionStride:  "elements from row to row: 1, or 0 for one that serves all",
	templates.ParamFrequency:         "frequency penalty of every row; address 0 for 0, which is off",
	templates.ParamFrequencyStride:   "elements from row to row: 1, or 0 for one that serves all",
	templates.ParamPresence:          "presence penalty of every row; address 0 for 0, which is off",
	templates.ParamPresenceStride:    "elements from row to row: 1, or 0 for one that serves all",
	templates.ParamTopK:              "tokens that every row keeps; off at 0 and below and from the vocabulary on",
	templates.ParamTopKStride:        "elements from row to row: 1, or 0 for one that serves all",
	templates.ParamTopP:              "share of the mass that every row keeps; off from 1 on",
	templates.ParamTopPStride:        "elements from row to row: 1, or 0 for one that serves all",
	templates.ParamMinP:              "likelihood, over that of the likeliest, that every row asks of a token; off at 0",
	templates.ParamMinPStride:        "elements from row to row: 1, or 0 for one that serves all",
	templates.ParamDrawCounts:        "tokens that every row draws, 1 to max_draws; others fail the row",
	templates.ParamDrawCountStride:   "elements from row to row: 1, or 0 for one that serves all",
	templates.ParamMaxDraws:          "tokens of a row that there is room for, at most 64",
	templates.ParamDraws:             "drawn tokens of every row in their order, -1 behind the last",
	templates.ParamDrawScores:        "scores of the drawn tokens, NaN behind the last",
	templates.ParamMarks:             "largest logits seen of shares of the vocabulary, for each row",
	templates.ParamCounts:            "tokens listed of every row",
	templates.ParamCandidates:        "likeliest tokens of every row: logit, id, score",
	templates.ParamBounds:            "logit that listed tokens reach, as the high word of a key",
	templates.ParamMasses:            "mass of every row: a reference and a sum",
	templates.ParamSecondMasses:      "the same in the second distribution",
	templates.ParamTokens:            "sampled token of every row, or -1",
	templates.ParamStatus:            "0 sampled, 1 no token is allowed, 2 NaN among the logits, 3 bad temperature, 4 bad parameter, 5 undecided",
	templates.ParamScores:            "winning score of every row",
	templates.ParamLogSumExp:         "log-sum-exp of z/T of every row",
	templates.ParamLogProb:           "log-probability of every row's token, in the mode of the manifest",
	templates.ParamTopMarks:          "largest keys (logit and id) seen of shares of the vocabulary, for each row",
	templates.ParamTopBounds:         "key that the likeliest tokens of every row reach",
	templates.ParamTopCounts:         "keys listed of every row",
	templates.ParamTopFloors:         "key from which a further pass over a row lists",
	templates.ParamTopKeys:           "keys of the likeliest tokens of every row",
	templates.ParamSentTopKeys:       "keys of a rank's likeliest tokens, in falling order, and then of those of all ranks",
	templates.ParamTopPass:           "0; another number for a launch over the same rows again, which goes on where the one before left tokens undecided",
	templates.ParamTopIDs:            "likeliest tokens of every row, in order; -1 for none, -2 for undecided",
	templates.ParamTopLogProbs:       "their log-probabilities, -inf for none",
	templates.ParamRankKeys:          "logit and id of every row's token, as a key; all ones without one",
	templates.ParamRanks:             "ranks of the rows' tokens",
	templates.ParamListIDs:           "ids of every row whose log-probabilities are asked for; -1 for none",
	templates.ParamListStride:        "elements from list to list; 0 for one that serves all",
	templates.ParamListLength:        "ids of a list",
	templates.ParamListLogProbs:      "log-probabilities of the listed ids of every row; NaN for an id that is none",
	templates.ParamWeightRows:        "weights W [vocab, weight_stride]",
	templates.ParamWeightStride:      "elements from row to row of the weights",
	templates.ParamHiddenRows:        "hidden states H [batch, hidden_stride]",
	templates.ParamHiddenStride:      "elements from row to row of the hidden states",
	templates.ParamPartials:          "partial sums of the CTAs, for each row",
	templates.ParamKeys:              "best key of every row",
	templates.ParamArrivals:          "CTAs that have marked their first tile",
	templates.ParamStates:            "state of every row between passes: what it does next, bound, top, scale, floor, passes",
	templates.ParamOpen:              "rows that are open",
	templates.ParamPivots:            "drawn tokens of every row, by rank, and their scores",
	templates.ParamBins:              "weights between the pivots of every row",
	templates.ParamPeaks:             "largest logit of every row",
	templates.ParamPasses:            "passes that every row took",
	templates.ParamTicket:            "CTAs that have finished",
}

// paramDoc is what is to be said of a kernel's parameter in one line.
func paramDoc(m *manifest.Kernel, p *manifest.Param) string {
	doc := paramDocs[p.Name]
	if p.Name == templates.ParamVocab && m.Tile.Weights == manifest.Packed && m.Shard == "" {
		doc = "tokens of the vocabulary, as many as W had rows when it was packed"
	}
	switch p.Kind {
	case manifest.TensorMap:
		return "tensor map of the " + doc
	case manifest.TensorMapPointer:
		return "device address, a multiple of 64, of the tensor map of the " + doc
	case manifest.Pointer:
		return fmt.Sprintf("%s: %s, %s [%s]", p.Access, doc, p.Element, p.Shape)
	}
	return doc
}

// argument is a parameter as it is asked of whoever launches: the workspace is one argument instead of its parts.
type argument struct {
	*manifest.Param
	Index int    // of the kernel's parameter
	Doc   string // one line
}

// arguments lists the parameters that a launch is given.
func arguments(m *manifest.Kernel) (args []argument) {
	for i := range m.Params {
		if p := &m.Params[i]; !inWorkspace(p) {
			args = append(args, argument{p, i, paramDoc(m, p)})
		}
	}
	return args
}

// allArguments are those of all the kernels of a launch, each once.
func allArguments(m *manifest.Kernel) (args []argument) {
	args = arguments(m)
	if stage := m.StageKernel(); stage != nil {
		for _, a := range arguments(stage) {
			if m.Param(a.Name) == nil {
				args = append(args, a)
			}
		}
	}
	return args
}
