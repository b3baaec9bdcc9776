//go:build race

package main

// raceEnabled says that the race detector makes this binary some twenty times slower.
const raceEnabled = true
