package ir

import "errors"

// MaxTemperature is the largest temperature. Two logits whose difference is past float32 are then still far more octaves apart than any
// sum can tell: a difference of infinity is as good as the true one.
const MaxTemperature = 0x1p100

// ValidTemperature reports a temperature that has no meaning.
func ValidTemperature(t float32) error {
	if !(t >= 0 && t <= MaxTemperature) {
		return errors.New("a number from 0 to 2^100 (0 is greedy)")
	}
	return nil
}
