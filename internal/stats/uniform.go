package stats

import (
	"fmt"
	"math"
)

// buckets is into how many runs of neighbouring tokens Uniform divides the vocabulary.
const buckets = 64

// moduli are the block lengths within which Uniform looks at a token's position: the tokens of a warp's fragment and of
// a tile.
var moduli = [...]int{16, 128}

// Uniform judges a stream of tokens that should be independent and uniform over a vocabulary: their mean, their
// histogram over runs of neighbouring tokens, their position inside blocks of 16 and of 128, and the correlation of
// each with the one before.
type Uniform struct {
	vocab    int
	n        int64
	outside  int64
	sum      float64 // of centred tokens
	run      *Histogram
	position [len(moduli)]*Histogram
	serial   Serial
}

// NewUniform is for tokens 0 to vocab-1.
func NewUniform(vocab int) *Uniform {
	u := &Uniform{vocab: vocab, run: NewHistogram("buckets of 64", bucketProb(vocab, buckets)), serial: Serial{vocab: vocab}}
	for i, m := range moduli {
		u.position[i] = NewHistogram(fmt.Sprintf("position mod %d", m), residueProb(vocab, m))
	}
	return u
}

// Add takes the next token. A token outside the vocabulary is counted, and fails.
func (u *Uniform) Add(token int32) {
	v := int(token)
	u.n++
	if v < 0 || v >= u.vocab {
		u.outside++
		return
	}
	u.sum += centred(token, u.vocab)
	u.run.Add(v * buckets / u.vocab)
	for i, m := range moduli {
		u.position[i].Add(v % m)
	}
	u.serial.Add(token)
}

// Merge takes what another accumulator for the same vocabulary has seen, as a stream of its own.
func (u *Uniform) Merge(o *Uniform) {
	u.n += o.n
	u.outside += o.outside
	u.sum += o.sum
	u.run.Merge(o.run)
	for i, h := range u.position {
		h.Merge(o.position[i])
	}
	u.serial.Merge(&o.serial)
}

// Results judges the stream so far.
func (u *Uniform) Results() []Result {
	inside := u.n - u.outside
	out := []Result{
		Never("tokens outside the vocabulary", u.n, u.outside),
		u.mean(inside),
		u.run.Result(),
	}
	for _, h := range u.position {
		out = append(out, h.Result())
	}
	return append(out, u.serial.Result())
}

func (u *Uniform) mean(n int64) Result {
	if n == 0 {
		return Result{Name: "mean token"}
	}
	r := Normal("mean token", n, u.sum, 0, math.Sqrt(float64(n)*variance(u.vocab)))
	r.Statistic = u.sum/float64(n) + float64(u.vocab-1)/2
	return r
}

// MeanIndex judges the mean of tokens that should be uniform over a vocabulary.
func MeanIndex(tokens []int32, vocab int) Result {
	u := Uniform{vocab: vocab}
	for _, t := range tokens {
		u.sum += centred(t, vocab)
	}
	return u.mean(int64(len(tokens)))
}

func centred(token int32, vocab int) float64 { return float64(token) - float64(vocab-1)/2 }

// variance is that of a uniform token.
func variance(vocab int) float64 { return (float64(vocab)*float64(vocab) - 1) / 12 }
