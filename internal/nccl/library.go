package nccl

import (
	"fmt"
	"unsafe"

	"github.com/fsgen/fsgen/internal/dynlib"
)

// EnvLibrary names the environment variable that names another libnccl.
const EnvLibrary = "FSGEN_NCCL_LIB"

// function is one function of NCCL.
type function int

const (
	fnGetUniqueID function = iota
	fnAllGather
	fnAsyncError
	fnFinalize
	fnDestroy
	fnAbort
	fnErrorString
	numFunctions
	fnInit // called by its bound form
)

var functionNames = [...]string{
	fnGetUniqueID: "ncclGetUniqueId",
	fnAllGather:   "ncclAllGather",
	fnAsyncError:  "ncclCommGetAsyncError",
	fnFinalize:    "ncclCommFinalize",
	fnDestroy:     "ncclCommDestroy",
	fnAbort:       "ncclCommAbort",
	fnErrorString: "ncclGetErrorString",
	fnInit:        "ncclCommInitRankConfig",
}

// Library is a loaded libnccl.
type Library struct {
	lib     *dynlib.Library
	version Version
	fn      [numFunctions]dynlib.Func
	last    dynlib.Func // ncclGetLastError, 0 where the library has none
	init    func(comm unsafe.Pointer, world int32, id uniqueID, rank int32, config unsafe.Pointer) int32
}

// Version is an NCCL version as the library codes it: 22005 is 2.20.5.
type Version int

// minVersion is the first that has communicators which do not block, and their configuration.
const minVersion Version = 21400

// Major, Minor and Patch are the parts of 2.20.5. Up to 2.8 the code had a digit less (nccl.h, NCCL_VERSION).
func (v Version) Major() int { return int(v) / v.unit() }

// Minor returns 20 of 2.20.5.
func (v Version) Minor() int { return int(v) % v.unit() / 100 }

// Patch returns 5 of 2.20.5.
func (v Version) Patch() int { return int(v) % 100 }

func (v Version) unit() int {
	if v < 10000 {
		return 1000
	}
	return 10000
}

func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v.Major(), v.Minor(), v.Patch()) }

// Open loads NCCL: the library that FSGEN_NCCL_LIB names, else libnccl.so.2 where the loader or the usual folders have it.
// Errors are a *LoadError or a *VersionError.
func Open() (*Library, error) {
	lib, err := dynlib.Open(dynlib.Candidates(EnvLibrary, "libnccl.so.2")...)
	if err != nil {
		return nil, &LoadError{err}
	}
	l := &Library{lib: lib}
	if err := l.checkVersion(); err != nil {
		return nil, err
	}
	for i := range l.fn {
		if l.fn[i], err = lib.Func(functionNames[i]); err != nil {
			return nil, &LoadError{err}
		}
	}
	if err := lib.Bind(&l.init, functionNames[fnInit]); err != nil {
		return nil, &LoadError{err}
	}
	l.last, _ = lib.Func("ncclGetLastError")
	return l, nil
}

// checkVersion comes first: a library of another version may lack functions, which says less.
func (l *Library) checkVersion() error {
	get, err := l.lib.Func("ncclGetVersion")
	if err != nil {
		return &LoadError{err}
	}
	var v int32
	if r := Result(int32(uint32(get.Call(uintptr(unsafe.Pointer(&v)))))); r != success {
		return &Error{Result: r, Call: "ncclGetVersion", Text: "no version"}
	}
	l.version = Version(v)
	if l.version < minVersion || l.version.Major() != minVersion.Major() {
		return &VersionError{l.lib.Name(), l.version, minVersion}
	}
	return nil
}

// Path returns the library's path or name.
func (l *Library) Path() string { return l.lib.Name() }

// Version returns the library's version.
func (l *Library) Version() Version { return l.version }

// UniqueID is what the ranks of one communicator share. Rank 0 makes it, and has to live until all have come: NCCL listens there.
type UniqueID [128]byte

// uniqueID is ncclUniqueId as C takes it: by value.
type uniqueID struct{ words [16]uint64 }

// UniqueID makes an identity for a communicator, for one use.
func (l *Library) UniqueID() (UniqueID, error) {
	var id UniqueID
	r := l.fn[fnGetUniqueID].Call(uintptr(unsafe.Pointer(&id)))
	return id, l.check(fnGetUniqueID, resultOf(r), "")
}

// resultOf reads a result. Only the low half of the word that C returned is the enumeration.
func resultOf(word uintptr) Result { return Result(int32(uint32(word))) }

// check makes a result an error.
func (l *Library) check(f function, r Result, detail string) error {
	if r == success {
		return nil
	}
	e := &Error{Result: r, Call: functionNames[f], Text: l.fn[fnErrorString].Text(int(r)), Detail: detail}
	if l.last != 0 {
		e.Last = l.last.Text(0) // of any communicator: NCCL ignores which
	}
	return e
}
