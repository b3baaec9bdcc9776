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
//
// What it leaves out: the weaker orders that the memory model allows between CTAs (global memory is sequentially consistent
// here, so that a missing fence.acq_rel.gpu is not found) and between grids (a run is one launch, so that griddepcontrol.wait has
// nothing to wait for); the fences of tcgen05 around the allocation of tensor memory, whose address travels by a barrier; products of wgmma and tcgen05 are computed when they are issued,
// and only the rules about what may be touched before they are known to be done are checked; races between ordinary accesses
// to shared memory are sought between warps, and between the lanes of one, but what a lane sends to another warp counts as
// sent by its warp as a whole; barrier without .aligned takes a warp as a whole; of tcgen05 the forms that no kernel here uses
// are refused when a kernel is loaded (see the test of forms). Approximate instructions give
// the correctly rounded value, so that scores differ from a GPU's within the documented bounds.
package sim
