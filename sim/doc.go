// Package sim runs PTX modules on the CPU: threads, warps, CTAs, clusters and a persistent grid, with their registers and
// memories, the async proxy, and the tensor cores. It reads the PTX text and its manifest and nothing else, so that what it
// finds is a property of the text, not of the program that wrote it.
//
// Every instruction form of internal/isa has a semantics, chosen once when a kernel is loaded: a closure over register slots
// that works on the active lanes of a warp. A run steps the warps of each cluster in a seeded random order; clusters run in
// rounds, side by side, and what they write to global memory is applied between rounds, so that a seed reproduces a run
// whatever the number of processors.
//
// Beside results a run yields findings: what a GPU would hide or hang on. See [Kind].
package sim
