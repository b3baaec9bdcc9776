package bench

import "github.com/fsgen/fsgen/ir"

// plain is what a server computes.
var plain = ir.Computation{Chain: ir.Chain{Temperature: true}}

// small is a configuration that takes no time.
func small() Config {
	return Config{Model: "small", Shape: ir.Shape{Vocab: 1003, Hidden: 68}, Computation: plain, Batches: []int{1, 9}, Layouts: []string{RowMajor}, Launches: []string{Overlap},
		Peers: []string{Cublas}, Method: Method{Launches: 4, Replays: 9, WarmUps: 2}}
}
