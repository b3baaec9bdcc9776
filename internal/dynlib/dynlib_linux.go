//go:build linux && (amd64 || arm64) && !fsgen_nocuda

package dynlib

import (
	"runtime"

	"github.com/ebitengine/purego"
)

func dlopen(name string) (uintptr, error) {
	runtime.LockOSThread() // dlerror's text belongs to the thread that failed
	defer runtime.UnlockOSThread()
	return purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_LOCAL)
}

func dlsym(handle uintptr, name string) (uintptr, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return purego.Dlsym(handle, name)
}

func call(f uintptr, args []uintptr) uintptr {
	result, _, _ := purego.SyscallN(f, args...)
	return result
}

func text(f uintptr, n int) string {
	var fn func(int32) string
	purego.RegisterFunc(&fn, f)
	return fn(int32(n))
}

func bind(fn any, f uintptr) { purego.RegisterFunc(fn, f) }
