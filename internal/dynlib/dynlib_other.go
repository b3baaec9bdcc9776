//go:build !linux || !(amd64 || arm64) || fsgen_nocuda

package dynlib

// The package compiles everywhere, so that its importers do, but opens nothing here.
func dlopen(string) (uintptr, error)         { return 0, errPlatform }
func dlsym(uintptr, string) (uintptr, error) { return 0, errPlatform }
func call(uintptr, []uintptr) uintptr        { panic("BUG: a call into a library that was not loaded") }
func text(uintptr, int) string               { panic("BUG: a call into a library that was not loaded") }
func bind(any, uintptr)                      { panic("BUG: a function of a library that was not loaded") }
