//go:build linux

package driver

import (
	"runtime"
	"unsafe"
)

// bracketAddress is where bracket begins (bracket_amd64.s).
var bracketAddress uintptr

// bracket makes the call with its context current. A goroutine stays on its thread while it is in C, so that one crossing
// needs no lock to the thread; it takes half the time of threeCalls (BenchmarkLaunch: 184 ns against 354).
func (f *frame) bracket() Code {
	f.one[0] = uintptr(unsafe.Pointer(&f.call))
	code := invoke(bracketAddress, f.one[:])
	runtime.KeepAlive(f)
	return code
}
