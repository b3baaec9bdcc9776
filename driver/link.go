package driver

import "runtime"

// Image is machine code for one device architecture.
type Image struct {
	// Cubin is the code, for LoadImage.
	Cubin []byte
	// Log is the compiler's information log.
	Log string
}

const linkInputPTX = 1 // CU_JIT_INPUT_PTX

// CompilePTX compiles PTX to machine code for the device without loading it, so that it can be kept: see ImageKey. An
// error carries the compiler's log.
func (c *Context) CompilePTX(ptx []byte, o JITOptions) (*Image, error) {
	if err := checkPTX(ptx); err != nil {
		return nil, err
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	if err := c.use(); err != nil {
		return nil, err
	}
	defer c.done()
	j, err := newJITSession(o)
	if err != nil {
		return nil, err
	}
	defer j.close() // after the linker, which may write to the logs until it is destroyed
	cubin, err := c.primary.linkOnThread(j, ptx)
	path := dump(ptx, j.infoLog, j.errLog)
	if err != nil {
		return nil, c.dev.drv.compileError(err, j.errLog, ptx, path)
	}
	return &Image{Cubin: cubin, Log: j.infoLog}, nil
}

// linkOnThread has a compilation on one thread from beginning to end: the linker keeps part of its state with the thread that called
// it. A goroutine may change threads between two calls, and the driver (580.159.04) crashes in the second, or in a later compilation
// on the first thread (docs/NOTES.md, section 13). Compilations side by side, each on its thread, are fine.
func (p *primary) linkOnThread(j *jitSession, ptx []byte) ([]byte, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return p.link(j, ptx)
}

// link runs the linker over one PTX input and copies out its result, which dies with the linker.
func (p *primary) link(j *jitSession, ptx []byte) (cubin []byte, err error) {
	text, length, err := ptxBlock(ptx)
	if err != nil {
		return nil, err
	}
	defer freeBlock(text)
	f := getFrame()
	defer putFrame(f)
	n, options, values := j.args()
	if err = p.call(f, cuLinkCreate, n, options, values, f.out(0)); err != nil {
		return nil, err
	}
	state := f.handle(0)
	defer func() {
		j.readLogs() // the linker may clear them
		if destroyErr := p.call(f, cuLinkDestroy, state); err == nil {
			err = destroyErr
		}
	}()
	name := f.mem[frameSpace:]
	clear(name)
	copy(name, "kernel.ptx")
	err = p.call(f, cuLinkAddData, state, linkInputPTX, address(text), uintptr(length), address(name), 0, 0, 0)
	if err != nil {
		return nil, err
	}
	if err = p.call(f, cuLinkComplete, state, f.out(0), f.out(1)); err != nil {
		return nil, err
	}
	return append([]byte(nil), f.cBytes(0, int(f.word(1)))...), nil
}
