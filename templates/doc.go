// Package templates holds the kernel skeletons, one for each architecture: the only place where what is computed (ir) and
// how big (tiling) become instructions (ptx).
//
// A skeleton owns barriers, phases and rings; the arithmetic of the epilogue comes from ir as a graph and is lowered
// node by node.
package templates
