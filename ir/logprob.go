package ir

import "fmt"

// LogProb says of which distribution log-probabilities are. T = 0 counts as 1 in all of them. They are float32, never above 0,
// and exactly 0 where the probability is 1; NaN stands only where the row's status is not ok.
type LogProb uint8

const (
	// NoLogProb asks for none.
	NoLogProb LogProb = iota
	// RawLogProb is the log-softmax of the model's logits over the whole vocabulary: scale and softcap, nothing else. A NaN
	// logit of a token that is not allowed counts as -inf.
	RawLogProb
	// TemperatureLogProb is that of the model's logits over T.
	TemperatureLogProb
	// ProcessedLogProb is that of the distribution that is drawn from: bias, penalties, lists, mask, temperature and
	// truncation, over the tokens kept.
	ProcessedLogProb
)

var logProbNames = [...]string{NoLogProb: "none", RawLogProb: "raw", TemperatureLogProb: "temperature", ProcessedLogProb: "processed"}

// String returns the mode's name.
func (m LogProb) String() string { return logProbNames[m] }

// OfModel reports whether the mode's distribution is the model's own, over the whole vocabulary, whatever a row asks for.
func (m LogProb) OfModel() bool { return m == RawLogProb || m == TemperatureLogProb }

// ParseLogProb reads a mode's name; "" is none.
func ParseLogProb(s string) (LogProb, error) {
	if s == "" {
		return NoLogProb, nil
	}
	for i, name := range logProbNames {
		if s == name {
			return LogProb(i), nil
		}
	}
	return 0, fmt.Errorf("ir: unknown mode of log-probabilities %q: want raw, temperature or processed", s)
}

// MaxTopN bounds Computation.TopN.
const MaxTopN = 20

// RankPass is the computation of the kernel that counts the tokens before those of the rows: greedy, by the mode's logits.
func (c Computation) RankPass() Computation {
	s := c.Summed()
	s.Chain.Temperature = false
	return Computation{Chain: s.Chain, Sampler: Greedy, Slots: c.Slots && (s.Chain.Mask || s.Chain.Bias == BiasMatrix || s.Chain.Edits()), Shard: c.Shard}.Normalize()
}

func (c Computation) validateOutputs() error {
	switch {
	case int(c.LogProb) >= len(logProbNames):
		return fmt.Errorf("ir: unknown mode of log-probabilities %d", c.LogProb)
	case c.TopN < 0 || c.TopN > MaxTopN:
		return fmt.Errorf("ir: top log-probabilities are %d: want 0 to %d", c.TopN, MaxTopN)
	case c.LogProb == NoLogProb && (c.Rank || c.TopN > 0 || c.Listed):
		return fmt.Errorf("ir: ranks, top and listed log-probabilities want a mode: raw, temperature or processed")
	}
	return nil
}
