// Package tiling turns a tile shape into numbers: what every byte of shared memory holds, how many registers each role
// gets, how many threads there are. Each struct is derived from the one before (shape, layout, pipeline, launch), and
// every candidate that cannot run is rejected with its reason.
//
// A tile is M vocabulary rows by N batch rows by K hidden columns. Vocabulary stands on M, since the tensor core's M is
// fixed at 64 a warpgroup while N goes down to 8: a batch of one wastes nothing that matters.
package tiling
