//go:build race

package sampler

// raceEnabled says that the race detector is on: simulations take twenty times as long.
const raceEnabled = true
