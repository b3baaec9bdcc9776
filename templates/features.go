package templates

import (
	"fmt"

	"github.com/fsgen/fsgen/ir"
)

// features are those that the skeletons build.
var features = map[ir.Feature]bool{}

// UnsupportedError names a feature that no kernel has.
type UnsupportedError struct {
	Feature ir.Feature
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("templates: no kernel does %s yet", e.Feature)
}

// Supports returns nil, or an *UnsupportedError for the first feature of a computation that no kernel has.
func Supports(c ir.Computation) error {
	for _, f := range c.Features() {
		if !features[f] {
			return &UnsupportedError{f}
		}
	}
	return nil
}
