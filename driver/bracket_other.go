//go:build !linux || !amd64

package driver

// bracket makes the call with its context current.
func (f *frame) bracket() Code { return f.threeCalls() }
