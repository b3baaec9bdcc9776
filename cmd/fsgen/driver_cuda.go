//go:build !fsgen_nocuda

package main

import (
	"fmt"
	"strings"

	"github.com/fsgen/fsgen/driver"
)

// findDriver describes the GPU driver and counts the GPUs that it gives to this process.
func findDriver() (f finding, gpus int) {
	const name = "driver"
	d, err := driver.Open()
	if err != nil {
		return finding{name, false, strings.TrimPrefix(oneLine(err), "driver: ")}, 0
	}
	detail := fmt.Sprintf("%s: CUDA %s, PTX up to %s", d.Path(), d.Version(), d.Version().PTX())
	if r := d.Release(); r != "" {
		detail += ", release " + r
	}
	gpus, err = d.Count()
	if err != nil {
		return finding{name, false, detail + "; " + oneLine(err)}, 0
	}
	return finding{name, true, fmt.Sprintf("%s, %d GPUs", detail, gpus)}, gpus
}
