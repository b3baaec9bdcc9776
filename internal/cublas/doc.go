// Package cublas multiplies on a GPU by NVIDIA's cuBLASLt, found at run time, as a peer to measure against: the logits
// [B, V] of hidden states [B, D] and weights [V, D], all bf16 with float32 sums, by the best of the algorithms that
// cuBLASLt's heuristic proposes.
//
// The library is dynlib's to find; where there is none, [Open] says so and nothing else is missed. Every call but Open
// and Version must be made with the CUDA context current: inside driver.Context.Do. Nothing here waits for the device,
// and Matmul.Enqueue may be captured in a graph.
package cublas
