package sampler

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// countGPUs is set by the CUDA backend, where it is built in.
var countGPUs func() (int, error)

// GroupDevices names devices for a number of ranks (GroupConfig.Devices): for "cpu", "sim:ARCH" and "cuda:N" that one for all of them,
// for "cuda" the GPUs of the host in turn. Auto takes GPUs if there are any, else the CPU, and then says why in fallback.
func GroupDevices(device string, ranks int) (names []string, fallback, err error) {
	if ranks < 1 || ranks > maxRanks {
		return nil, nil, &InputError{"ranks", fmt.Sprintf("want 1 to %d", maxRanks), ranks}
	}
	if device == CPU || strings.Contains(device, ":") {
		return slices.Repeat([]string{device}, ranks), nil, nil
	}
	if device != Auto && device != CUDA {
		return nil, nil, unknownDevice(device)
	}
	n, err := 0, errors.New("this build has no CUDA support")
	if countGPUs != nil {
		n, err = countGPUs()
	}
	switch {
	case n > 0:
		for i := range ranks {
			names = append(names, fmt.Sprintf("%s:%d", CUDA, i%n))
		}
		return names, nil, nil
	case device == Auto:
		return slices.Repeat([]string{CPU}, ranks), &NoGPUError{CUDA, err}, nil
	}
	return nil, nil, &NoGPUError{device, err}
}
