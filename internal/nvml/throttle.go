package nvml

import "math/bits"

// Throttle is a set of reasons for clocks below the highest (nvml.h, nvmlClocksEventReasons).
type Throttle uint64

// throttleNames are the reasons by bit, as nvidia-smi calls them.
var throttleNames = [...]string{"gpu idle", "applications clocks setting", "sw power cap", "hw slowdown", "sync boost",
	"sw thermal slowdown", "hw thermal slowdown", "hw power brake", "display clocks setting"}

// Idle is the reason of a GPU without work.
const Idle Throttle = 1

// Names lists the reasons.
func (t Throttle) Names() []string {
	var out []string
	for rest := uint64(t); rest != 0; rest &= rest - 1 {
		bit := bits.TrailingZeros64(rest)
		if bit < len(throttleNames) {
			out = append(out, throttleNames[bit])
		} else {
			out = append(out, "unknown reason")
		}
	}
	return out
}
