package driver

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sync"
)

// Module is code loaded into a context.
type Module struct {
	resource
	handle uintptr
	log    string

	mu    sync.Mutex
	funcs map[string]*Function
}

// LoadPTX compiles PTX for the device and loads it. An error carries the compiler's log, with the lines it names.
func (c *Context) LoadPTX(ptx []byte, o JITOptions) (*Module, error) {
	if err := checkPTX(ptx); err != nil {
		return nil, err
	}
	block, _, err := ptxBlock(ptx)
	if err != nil {
		return nil, err
	}
	defer freeBlock(block)
	m, info, errs, err := c.load(block, o)
	path := dump(ptx, info, errs)
	if err != nil {
		return nil, c.dev.drv.compileError(err, errs, ptx, path)
	}
	return m, nil
}

// LoadImage loads a cubin or fatbin, such as CompilePTX returns.
func (c *Context) LoadImage(image []byte) (*Module, error) {
	if err := checkImage(image); err != nil {
		return nil, err
	}
	block, err := newBlock(len(image) + pageBytes) // zeros behind it, should the image be short
	if err != nil {
		return nil, err
	}
	defer freeBlock(block)
	copy(block, image)
	m, _, errs, err := c.load(block, JITOptions{})
	if e, ok := err.(*Error); ok {
		e.Log = errs
	}
	if err != nil {
		return nil, withDetail(err, "loading an image of %d bytes on %v", len(image), c.dev)
	}
	return m, nil
}

func (c *Context) load(image []byte, o JITOptions) (m *Module, info, errs string, err error) {
	if err = o.check(); err != nil {
		return nil, "", "", err
	}
	if err = c.use(); err != nil {
		return nil, "", "", err
	}
	defer c.done()
	j, err := newJITSession(o)
	if err != nil {
		return nil, "", "", err
	}
	defer j.close()
	f := getFrame()
	defer putFrame(f)
	n, options, values := j.args()
	err = c.primary.call(f, cuModuleLoadDataEx, f.out(0), address(image), n, options, values)
	j.readLogs()
	if err == nil {
		m = &Module{handle: f.handle(0), log: j.infoLog, funcs: map[string]*Function{}}
		track(m, &m.resource, c.primary, "module")
	}
	return m, j.infoLog, j.errLog, err
}

// ImageError says that bytes are no image that could be loaded.
type ImageError struct{ Reason string }

func (e *ImageError) Error() string { return "driver: not a cubin or fatbin: " + e.Reason }

// checkImage refuses what would make the driver read beyond the end: it is told where an image begins, not how long
// it is, and trusts the lengths inside.
func checkImage(image []byte) error {
	const fatbinMagic, fatbinHeader = 0xba55ed50, 16
	le := binary.LittleEndian
	have := uint64(len(image))
	switch {
	case have >= 64 && bytes.HasPrefix(image, []byte("\x7fELF\x02\x01")):
		// Section and program headers end an ELF file, or lie within (System V ABI, "ELF Header").
		sections, programs := le.Uint64(image[40:]), le.Uint64(image[32:])
		end := max(sections, programs)
		if end < have {
			sections += uint64(le.Uint16(image[58:])) * uint64(le.Uint16(image[60:]))
			programs += uint64(le.Uint16(image[54:])) * uint64(le.Uint16(image[56:]))
			end = max(sections, programs)
		}
		if end > have || end < 64 {
			return &ImageError{fmt.Sprintf("its headers end at byte %d, of %d", end, have)}
		}
		return nil
	case have >= fatbinHeader && le.Uint32(image) == fatbinMagic:
		header, body := uint64(le.Uint16(image[6:])), le.Uint64(image[8:])
		if header < fatbinHeader || header > have || body > have-header {
			return &ImageError{fmt.Sprintf("its header says %d and %d bytes, of %d", header, body, have)}
		}
		return nil
	}
	return &ImageError{fmt.Sprintf("%d bytes that begin %.8q", len(image), image)}
}

// Log returns the compiler's information log: registers and spills if JITOptions.Verbose was set.
func (m *Module) Log() string { return m.log }

// Close unloads the code. The work that uses it must be done, and graphs that hold it closed.
func (m *Module) Close() error { return m.destroy(cuModuleUnload, m.handle) }

// Function returns a kernel by its entry name, loaded and ready to launch; errors.Is finds ErrNotFound if there is none.
func (m *Module) Function(name string) (*Function, error) {
	if err := m.use(); err != nil {
		return nil, err
	}
	defer m.done()
	m.mu.Lock()
	defer m.mu.Unlock()
	if fn := m.funcs[name]; fn != nil {
		return fn, nil
	}
	text, err := newBlock(len(name) + 1)
	if err != nil {
		return nil, err
	}
	defer freeBlock(text)
	copy(text, name)
	f := getFrame()
	defer putFrame(f)
	if err := m.primary.call(f, cuModuleGetFunction, f.out(0), m.handle, address(text)); err != nil {
		return nil, withDetail(err, "kernel %q", name)
	}
	fn := &Function{mod: m, name: name, handle: f.handle(0)}
	if err := fn.preload(f); err != nil {
		return nil, withDetail(err, "kernel %q", name)
	}
	m.funcs[name] = fn
	return fn, nil
}
