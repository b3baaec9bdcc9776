package sampler

import "strings"

// refused is an *InputError to those who ask by type, and says and is what found the fault.
type refused struct {
	input *InputError
	err   error
}

// refuse makes an *InputError of the error of a package below, which keeps its text. No error stays none.
func refuse(field string, err error) error {
	if err == nil {
		return nil
	}
	rule := err.Error()
	if _, rest, ok := strings.Cut(rule, ": "); ok { // the package's name
		rule = rest
	}
	return &refused{&InputError{field, rule, nil}, err}
}

func (r *refused) Error() string { return r.err.Error() }

// Unwrap gives both.
func (r *refused) Unwrap() []error { return []error{r.input, r.err} }
