// Package dynlib loads C libraries while the program runs, without cgo. It is for libraries that a program can do
// without: what is not there is an error to be reported, and nothing is linked against.
//
// Package driver, which has to be quick and is needed first, has its own way to libcuda.
package dynlib

import (
	"errors"
	"fmt"
	"strings"
)

// ErrNotFound is what errors.Is finds when none of the names is there, or the platform loads no libraries.
var ErrNotFound = errors.New("not found")

// LoadError says that no library of the names could be loaded.
type LoadError struct {
	// Name is the library that the error speaks of: one that is there and unfit if there is such, else the first.
	Name string
	// Err is the loader's message.
	Err error
}

func (e *LoadError) Error() string { return fmt.Sprintf("%s cannot be loaded: %v", e.Name, e.Err) }

// Unwrap returns the loader's error.
func (e *LoadError) Unwrap() error { return e.Err }

// Is makes a missing library match ErrNotFound. The loader has no codes, only glibc's words.
func (e *LoadError) Is(target error) bool {
	return target == ErrNotFound && (errors.Is(e.Err, errPlatform) || strings.Contains(e.Err.Error(), "No such file"))
}

var errPlatform = errors.New("this build loads no libraries")

// SymbolError says that a library lacks a function.
type SymbolError struct {
	Library, Symbol string
}

func (e *SymbolError) Error() string { return fmt.Sprintf("%s has no %s", e.Library, e.Symbol) }

// Library is a loaded library. It stays loaded.
type Library struct {
	name   string
	handle uintptr
}

// Name returns the path or name by which the library was found.
func (l *Library) Name() string { return l.name }

// Open loads the first of the names that can be loaded: paths, or names where the system's loader finds them.
func Open(names ...string) (*Library, error) {
	first := &LoadError{Name: "a library without a name", Err: errPlatform}
	for i, name := range names {
		handle, err := dlopen(name)
		if err == nil {
			return &Library{name, handle}, nil
		}
		failure := &LoadError{name, err}
		// A library that is there but unfit explains more than one that is not there.
		if i == 0 || errors.Is(first, ErrNotFound) && !errors.Is(failure, ErrNotFound) {
			first = failure
		}
	}
	return nil, first
}

// Func is a C function.
type Func uintptr

// Func looks a function up.
func (l *Library) Func(name string) (Func, error) {
	f, err := dlsym(l.handle, name)
	if err != nil || f == 0 {
		return 0, &SymbolError{l.name, name}
	}
	return Func(f), nil
}

// Call calls a function of integers and pointers and returns the word that it returns. What a pointer in args points to
// stays alive, and where it is, during the call, if the argument is written uintptr(unsafe.Pointer(p)).
//
//go:uintptrescapes
func (f Func) Call(args ...uintptr) uintptr { return call(uintptr(f), args) }

// Text calls a function that takes a number and returns a string that lives on, such as a library's error texts.
func (f Func) Text(n int) string { return text(uintptr(f), n) }

// Bind makes *fn, a variable of a function type, call a function of the library: for what Call cannot pass, such as structures by
// value. Parameters and results are those of the C function in Go's types (see purego.RegisterFunc); a type that cannot be passed
// is the programmer's error, and panics. It is slower than Call.
func (l *Library) Bind(fn any, name string) error {
	f, err := l.Func(name)
	if err == nil {
		bind(fn, uintptr(f))
	}
	return err
}
