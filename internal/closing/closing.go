// Package closing keeps what has to be closed together.
package closing

import (
	"errors"
	"io"
	"slices"
)

// Scope closes what was opened in it, last first.
type Scope []io.Closer

// Keep adds what CloseAll shall close.
func (s *Scope) Keep(c io.Closer) { *s = append(*s, c) }

// CloseAll closes what was kept, last first, and forgets it. It returns all errors.
func (s *Scope) CloseAll() error {
	var errs []error
	for _, c := range slices.Backward(*s) {
		errs = append(errs, c.Close())
	}
	*s = nil
	return errors.Join(errs...)
}
