//go:build fsgen_nocuda

package tune

import (
	"errors"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
)

// openStopwatch cannot be reached: no device of this build is a GPU.
func openStopwatch(*sampler.Device, ir.Computation, ir.Shape) (stopwatch, error) {
	return nil, errors.New("this build has no CUDA support")
}
