//go:build fsgen_nocuda

package main

func findDriver() (f finding, gpus int) {
	return finding{"driver", false, "this build has no CUDA support"}, 0
}
