// Package bench times fsgen's kernels against the memory floor and against peers, on one GPU in one process.
//
// A contender is a CUDA graph of some launches. At each batch size all contenders replay their graphs in turn, A B A B,
// so that clocks, temperature and the power cap meet all of them alike; what is compared are ratios of one run. See
// docs/benchmark.md.
//
// What needs a GPU stands in the files gpu_*.go, which an emit-only build leaves out; all else is arithmetic on times.
package bench
