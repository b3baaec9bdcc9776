package bench

import (
	"fmt"
	"io"
	"slices"
)

// ColdStart is how long the kernels of a plan took to be ready to launch, in milliseconds.
type ColdStart struct {
	Contender string `json:"contender"`
	// Plan is all kernels as a plan makes them, side by side; Kernels are each by itself.
	Plan    ColdKernel   `json:"plan"`
	Kernels []ColdKernel `json:"kernels"`
}

// ColdKernel is the cold start of a kernel.
type ColdKernel struct {
	Kernel string `json:"kernel"`
	// Whole says that the driver's cache keeps it, and not fsgen's.
	Whole bool `json:"whole,omitempty"`
	// Emit is the time to make PTX of a request, PTX that from there to a loaded kernel with empty caches, Cached the same with
	// what that left in them.
	Emit   float64 `json:"emit_ms"`
	PTX    float64 `json:"from_ptx_ms"`
	Cached float64 `json:"cached_ms"`
}

// writeColdStarts says in a line a contender how long its plan took, and which of its kernels took longest.
func (r *Report) writeColdStarts(w io.Writer) error {
	for i, c := range r.ColdStarts {
		if i == 0 {
			fmt.Fprintln(w)
		}
		p := c.Plan
		text := fmt.Sprintf("cold start of %s: %s kernels, emitted in %.1f ms, ready %.1f ms later from PTX, %.1f ms from the caches", c.Contender, p.Kernel, p.Emit, p.PTX, p.Cached)
		if len(c.Kernels) > 0 {
			slow := slices.MaxFunc(c.Kernels, func(a, b ColdKernel) int { return int(1e6 * (a.PTX - b.PTX)) })
			text += fmt.Sprintf("; %s alone: %.1f, %.1f and %.1f", slow.Kernel, slow.Emit, slow.PTX, slow.Cached)
		}
		if _, err := fmt.Fprintln(w, text); err != nil {
			return err
		}
	}
	return nil
}
