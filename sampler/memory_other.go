//go:build !linux

package sampler

// totalMemory is the machine's memory in bytes; 0 where it is not known.
func totalMemory() int64 { return 0 }
