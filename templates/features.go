package templates

import (
	"fmt"

	"github.com/fsgen/fsgen/ir"
)

// features are those that the skeletons build.
var features = map[ir.Feature]bool{ir.FeatureTopK: true, ir.FeatureTopP: true, ir.FeatureMinP: true}

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
	switch c = c.Normalize(); {
	case c.Truncation.Any() && c.Sampler != ir.Gumbel:
		return &UnsupportedError{ir.Feature("truncation with the " + c.Sampler.String() + " sampler")}
	case c.Truncation.Any() && c.LogSumExp:
		return &UnsupportedError{"truncation with the log-sum-exp"}
	}
	return nil
}
