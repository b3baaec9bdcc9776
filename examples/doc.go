// Package examples has no code of its own: its folders are programs in Go, Python and C++ that launch emitted kernels, and its tests run
// what of them runs without a GPU.
package examples
