//go:build !linux || !(amd64 || arm64)

package driver

import (
	"errors"
	"time"
)

// The package compiles everywhere, so that its importers do, but opens nothing here: see platformError.
var libraryNames []string

var errPlatform = errors.New("no dynamic loading on this platform")

func dlopen(string) (uintptr, error)         { return 0, errPlatform }
func dlsym(uintptr, string) (uintptr, error) { return 0, errPlatform }
func invoke(uintptr, []uintptr) Code         { panic("BUG: driver call without a driver") }
func mmap(n int) ([]byte, error)             { return make([]byte, n), nil }
func munmap([]byte) error                    { return nil }
func nap(d time.Duration)                    { time.Sleep(d) }
func closeOnExec(int)                        {}
func newHostFile(int) (int, error)           { return 0, platformError{} }
func mapFile(uintptr, int) ([]byte, error)   { return nil, platformError{} }
