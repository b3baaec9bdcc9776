//go:build !fsgen_nocuda

package sampler

import (
	"github.com/fsgen/fsgen/driver"
	"github.com/fsgen/fsgen/manifest"
)

// mapStore keeps tensor maps in device memory, for kernels that are given addresses of them: every matrix has a place that stays
// its own, since captured graphs name it.
type mapStore struct {
	buf    *driver.Buffer
	places map[matrixAt]driver.DevicePtr
}

// matrixAt is a matrix in device memory.
type matrixAt struct {
	ptr      uint64
	rows, ld int
}

// storedMaps is how many matrices a store knows: batches of every size up to 256 in four buffers.
const storedMaps = 1024

func newMapStore(ctx *driver.Context, maps int) (*mapStore, error) {
	buf, err := ctx.Alloc(uint64(maps * driver.TensorMapBytes))
	if err != nil {
		return nil, err
	}
	return &mapStore{buf, map[matrixAt]driver.DevicePtr{}}, nil
}

// place returns where the tensor map of a matrix lies, and brings it there if it is new.
func (s *mapStore) place(m matrixAt, encode func() (driver.TensorMap, error)) (driver.DevicePtr, error) {
	if at, ok := s.places[m]; ok {
		return at, nil
	}
	offset := uint64(len(s.places) * driver.TensorMapBytes)
	if offset >= s.buf.Size() {
		return 0, &InputError{"hidden states", "a launcher of kernels with tensor maps in global memory knows so many places and batch sizes",
			len(s.places)}
	}
	words, err := encode()
	if err != nil {
		return 0, err
	}
	data := words.Bytes()
	if err := s.buf.Upload(offset, data[:]); err != nil {
		return 0, err
	}
	s.places[m] = s.buf.Ptr() + driver.DevicePtr(offset)
	return s.places[m], nil
}

// forget makes room once the store is full. Nothing may be running that was given a place.
func (s *mapStore) forget() {
	if s != nil && len(s.places) >= storedMaps {
		clear(s.places)
	}
}

func (s *mapStore) close() error {
	if s == nil {
		return nil
	}
	return s.buf.Close()
}

// pointsToMaps reports whether a kernel is given the address of its tensor maps.
func pointsToMaps(m *manifest.Kernel) bool {
	for _, p := range m.Params {
		if p.Kind == manifest.TensorMapPointer {
			return true
		}
	}
	return false
}
