package reference

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/fsgen/fsgen/ir"
	"github.com/stretchr/testify/require"
)

// requireRow compares one row of two results bit for bit.
func requireRow(t *testing.T, want *Result, wantRow int, got *Result, gotRow int) {
	t.Helper()
	require.Equal(t, want.Tokens[wantRow], got.Tokens[gotRow])
	require.Equal(t, want.Status[wantRow], got.Status[gotRow])
	require.Equal(t, want.Second[wantRow], got.Second[gotRow])
	for _, s := range [][2]float32{
		{want.Scores[wantRow], got.Scores[gotRow]}, {want.Best[wantRow], got.Best[gotRow]},
		{want.SecondScores[wantRow], got.SecondScores[gotRow]},
	} {
		require.Equal(t, math.Float32bits(s[0]), math.Float32bits(s[1]))
	}
	require.Equal(t, want.LogSumExp == nil, got.LogSumExp == nil)
	if want.LogSumExp != nil {
		require.Equal(t, math.Float32bits(want.LogSumExp[wantRow]), math.Float32bits(got.LogSumExp[gotRow]))
	}
}

// computing sets what a request computes.
func computing(c ir.Computation, r *Request) *Request {
	r.Computation = c
	return r
}

// eachSampler runs a test for every sampler that draws noise, with the log-sum-exp.
func eachSampler(t *testing.T, f func(t *testing.T, c ir.Computation)) {
	for _, s := range []ir.Sampler{ir.Gumbel, ir.Grouped} {
		t.Run(s.String(), func(t *testing.T) { f(t, ir.Computation{Sampler: s, LogSumExp: true}) })
	}
}

// requireFailed says that a row has no token, for this reason.
func requireFailed(t *testing.T, res *Result, b int, status ir.Status) {
	t.Helper()
	require.Equal(t, status, res.Status[b])
	require.EqualValues(t, ir.NoToken, res.Tokens[b])
	require.EqualValues(t, ir.NoToken, res.Second[b])
	require.True(t, res.Scores[b] != res.Scores[b])
	require.True(t, res.LogSumExp == nil || res.LogSumExp[b] != res.LogSumExp[b])
}

// Case B1: a row of NaN says so and leaves the others alone.
func TestNaNRow(t *testing.T) { eachSampler(t, testNaNRow) }

func testNaNRow(t *testing.T, c ir.Computation) {
	for _, vocab := range []int{1, 7, 999, 1000, 8192, 20000} {
		for _, temperature := range []float32{0, 1} {
			r := withTemperature(computing(c, randomRequest(8, vocab, 16)), temperature)
			clean := sample(t, r)
			for k := range 16 {
				r.H[3*16+k] = 0x7fc0
			}
			res := sample(t, r)
			for b := range 8 {
				if b == 3 {
					requireFailed(t, res, b, ir.StatusNaN)
				} else {
					requireRow(t, clean, b, res, b)
				}
			}
		}
	}
}

// Case B2: one NaN among the allowed fails the row, a masked one does not; +inf wins, the lowest among equals.
func TestNonFiniteLogits(t *testing.T) { eachSampler(t, testNonFiniteLogits) }

func testNonFiniteLogits(t *testing.T, c ir.Computation) {
	const vocab = 4096
	for _, temperature := range []float32{0, 0.3, 1, 5} {
		for _, v := range []int{0, 2047, 4095} {
			r := withTemperature(computing(c, flat(1, normals(vocab, 1, 3))), temperature)
			r.Logits[v] = nan()
			requireFailed(t, sample(t, r), 0, ir.StatusNaN)
			masked := allowing(withTemperature(computing(c, flat(1, r.Logits)), temperature), (v+1)%vocab)
			require.EqualValues(t, (v+1)%vocab, sample(t, masked).Tokens[0])

			r.Logits[v] = inf()
			res := sample(t, r)
			require.EqualValues(t, v, res.Tokens[0])
			require.True(t, math.IsInf(float64(res.Scores[0]), 1))
			r.Logits[(v+1000)%vocab] = inf()
			require.EqualValues(t, min(v, (v+1000)%vocab), sample(t, r).Tokens[0])
			r.Logits[17] = nan()
			requireFailed(t, sample(t, r), 0, ir.StatusNaN)
		}
	}
}

// The bias can make NaN and -inf too.
func TestNonFiniteBias(t *testing.T) { eachSampler(t, testNonFiniteBias) }

func testNonFiniteBias(t *testing.T, c ir.Computation) {
	r := computing(c, flat(1, []float32{1, inf(), 2}))
	r.Computation.Chain.Bias = ir.BiasVector
	r.Bias = []float32{negInf, negInf, negInf}
	requireFailed(t, sample(t, r), 0, ir.StatusNaN)
	r.Logits = []float32{1, 5, 2}
	requireFailed(t, sample(t, r), 0, ir.StatusEmpty)
	r.Bias[2] = 0
	require.EqualValues(t, 2, sample(t, r).Tokens[0])
}

// Cases B3 and D5: rows with no, one and all tokens allowed in one batch.
func TestEmptyRow(t *testing.T) { eachSampler(t, testEmptyRow) }

func testEmptyRow(t *testing.T, c ir.Computation) {
	const vocab, batch = 1000, 16
	r := computing(c, randomRequest(batch, vocab, 8))
	clean := sample(t, r)
	r.Computation.Chain.Mask = true
	r.MaskWords, r.MaskStride = 32, 33
	r.Mask = make([]uint32, batch*r.MaskStride)
	for i := range r.Mask {
		r.Mask[i] = math.MaxUint32 // bits past the vocabulary are ignored
	}
	clear(r.Mask[5*33:][:32])
	clear(r.Mask[9*33:][:32])
	r.Mask[9*33+31] = 1 << 7 // token 999, the last
	res := sample(t, r)
	for b := range batch {
		switch b {
		case 5:
			requireFailed(t, res, b, ir.StatusEmpty)
		case 9:
			require.EqualValues(t, 999, res.Tokens[b])
			require.EqualValues(t, ir.NoToken, res.Second[b])
			require.Equal(t, negInf, res.SecondScores[b])
		default:
			requireRow(t, clean, b, res, b)
		}
	}
	r = computing(c, flat(1, []float32{negInf, negInf, negInf}))
	requireFailed(t, sample(t, r), 0, ir.StatusEmpty)
	r.Logits[1] = -3e38
	require.EqualValues(t, 1, sample(t, r).Tokens[0])
}

// Case B4: the place of the NaN does not matter.
func TestNaNAtEveryPlace(t *testing.T) { eachSampler(t, testNaNAtEveryPlace) }

func testNaNAtEveryPlace(t *testing.T, c ir.Computation) {
	for v := range 129 {
		r := computing(c, flat(1, make([]float32, 129)))
		r.Logits[v] = nan()
		requireFailed(t, sample(t, r), 0, ir.StatusNaN)
	}
}

// Case B5: ties go to the lowest token, and -0 equals +0.
func TestTies(t *testing.T) {
	const vocab = 131073
	rng := rand.New(rand.NewPCG(4, 4))
	logits := make([]float32, vocab)
	for v := range logits {
		logits[v] = float32(math.Copysign(0, rng.Float64()-0.5))
	}
	r := withTemperature(flat(1, logits), 0)
	res := sample(t, r)
	require.EqualValues(t, 0, res.Tokens[0])
	require.EqualValues(t, 1, res.Second[0])
	for _, pair := range [][2]int{{5, 6}, {5, 13}, {3, 67}, {127, 128}, {100, 70000}, {131071, 131072}, {4095, 4096}} {
		logits[pair[0]], logits[pair[1]] = 1, 1
		for _, sampler := range []ir.Sampler{ir.Gumbel, ir.Greedy, ir.Grouped} {
			r.Computation.Sampler = sampler
			res := sample(t, r)
			require.EqualValues(t, pair[0], res.Tokens[0])
			require.EqualValues(t, pair[1], res.Second[0])
		}
		logits[pair[0]], logits[pair[1]] = 0, 0
	}
}

// Case B6: a small temperature overflows nothing.
func TestSmallTemperature(t *testing.T) { eachSampler(t, testSmallTemperature) }

func testSmallTemperature(t *testing.T, c ir.Computation) {
	for _, logits := range [][]float32{{3e38, 2e38, 1}, {11.06, 2.9, 1, 0}, {-2e38, -3e38, -3.3e38}} {
		for _, temperature := range []float32{1e-45, 1e-30, 1e-6, 1e-5, 1e-4, .1, .5} {
			r := withTemperature(computing(c, flat(50, logits)), temperature)
			for b, token := range sample(t, r).Tokens {
				require.Equal(t, ir.StatusOK, sample(t, r).Status[b])
				if token != 0 {
					require.GreaterOrEqual(t, temperature, float32(0.5), "logits %v", logits)
				}
			}
		}
	}
	r := withTemperature(computing(c, flat(1, []float32{3e38, 2e38, 1})), ir.MaxTemperature)
	require.Equal(t, ir.StatusOK, sample(t, r).Status[0])
}

// Case B8: greedy rows in a mixed batch are as greedy rows alone; a bad temperature fails its row only.
func TestMixedTemperatures(t *testing.T) { eachSampler(t, testMixedTemperatures) }

func testMixedTemperatures(t *testing.T, c ir.Computation) {
	logits := []float32{1, 1, 0}
	r := withTemperature(computing(c, flat(3, logits)), 0, 1, 0)
	r.Computation.Chain.Mask = true
	r.Mask, r.MaskWords, r.MaskStride = []uint32{6, 7, 7}, 1, 1
	res := sample(t, r)
	require.EqualValues(t, 1, res.Tokens[0])
	require.EqualValues(t, 0, res.Tokens[2])
	require.EqualValues(t, 1, res.Scores[0])
	alone := withTemperature(computing(c, flat(3, logits)), 1)
	requireRow(t, sample(t, alone), 1, res, 1)

	for _, bad := range []float32{-1, -1e-45, nan(), inf(), negInf} {
		r.Temperature[1] = bad
		failed := sample(t, r)
		requireFailed(t, failed, 1, ir.StatusBadTemperature)
		requireRow(t, res, 0, failed, 0)
		requireRow(t, res, 2, failed, 2)
		var field *FieldError
		require.ErrorAs(t, r.Validate(), &field)
		require.Equal(t, "Temperature", field.Field)
		require.Equal(t, 1, field.Row)
	}
	r.Temperature[1] = float32(math.Copysign(0, -1))
	require.NoError(t, r.Validate())
	require.EqualValues(t, 0, sample(t, r).Tokens[1], "-0 is greedy")
}

// A bad temperature outranks a NaN, which outranks an empty row.
func TestStatusPrecedence(t *testing.T) { eachSampler(t, testStatusPrecedence) }

func testStatusPrecedence(t *testing.T, c ir.Computation) {
	r := withTemperature(computing(c, flat(3, nil)), -1, 1, 1)
	r.Shape.Vocab = 2
	r.Logits = []float32{nan(), negInf, nan(), negInf, negInf, negInf}
	res := sample(t, r)
	require.Equal(t, []ir.Status{ir.StatusBadTemperature, ir.StatusNaN, ir.StatusEmpty}, res.Status)
}

// Case B11.
func TestEmptyBatch(t *testing.T) {
	for _, vocab := range []int{128, 163840} {
		r := flat(0, make([]float32, vocab))
		res := sample(t, r)
		require.Empty(t, res.Tokens)
		r = randomRequest(0, 128, 4)
		require.Empty(t, sample(t, r).Tokens)
	}
}

// Cases A2 and D3: masked tokens never come out, whatever their noise and their logits are.
func TestMaskedNeverWins(t *testing.T) { eachSampler(t, testMaskedNeverWins) }

func testMaskedNeverWins(t *testing.T, c ir.Computation) {
	const vocab = 163840
	logits := make([]float32, vocab)
	for v := range logits {
		logits[v] = []float32{0, negInf, inf(), nan(), 100}[v%5]
	}
	logits[99_990] = -50
	r := allowing(computing(c, flat(draws(200, 20_000), logits)), 99_990)
	for _, token := range sample(t, r).Tokens {
		require.EqualValues(t, 99_990, token)
	}
	narrow := computing(c, flat(1, make([]float32, 151936)))
	allowing(narrow, 5)
	narrow.MaskWords = 151669 / 32
	narrow.Mask = narrow.Mask[:narrow.MaskWords]
	require.EqualValues(t, 5, sample(t, narrow).Tokens[0])
	narrow.MaskWords, narrow.Mask = 0, nil
	requireFailed(t, sample(t, narrow), 0, ir.StatusEmpty)
}

// Case A2: infinite injected noise stays away from masked tokens; on -inf it makes NaN, which is said.
func TestInfiniteNoise(t *testing.T) {
	r := allowing(flat(1, []float32{negInf, 0, 0}), 1, 2)
	r.Noise = []float32{inf(), 1, 2}
	require.EqualValues(t, 2, sample(t, r).Tokens[0])
	allowing(r, 0, 1)
	requireFailed(t, sample(t, r), 0, ir.StatusNaN)
}

// Case B16: padded rows of the weights take no part.
func TestPaddedVocabulary(t *testing.T) { eachSampler(t, testPaddedVocabulary) }

func testPaddedVocabulary(t *testing.T, c ir.Computation) {
	const vocab, padded = 1000, 1024
	logits := make([]float32, padded)
	for v := range vocab {
		logits[v] = -20
	}
	for _, temperature := range []float32{0, 1} {
		r := withTemperature(computing(c, planted(300, logits, 8)), temperature)
		r.Shape.Vocab = vocab
		for b, token := range sample(t, r).Tokens {
			require.Less(t, token, int32(vocab), fmt.Sprint("row ", b))
			require.GreaterOrEqual(t, token, int32(0))
		}
	}
}
