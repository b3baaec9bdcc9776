package driver

import (
	"runtime"
)

// Graph is captured work. The memory and modules that it uses must stay while it, or a GraphExec of it, may run.
type Graph struct {
	resource
	handle uintptr
}

// GraphExec is a graph ready to run.
type GraphExec struct {
	resource
	handle uintptr
}

const captureThreadLocal = 1 // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL

// Capture records the work that f enqueues on the stream, instead of running it, and returns it as a graph. f runs on
// one locked thread, which a capture must begin and end on; other threads may go on allocating and synchronizing
// meanwhile, since the capture is thread-local. If f fails, its error is returned and the recording dropped.
func (s *Stream) Capture(f func() error) (*Graph, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := s.call(cuStreamBeginCapture, s.handle, captureThreadLocal); err != nil {
		return nil, err
	}
	ended := false
	defer func() {
		if !ended { // f panicked
			if g, err := s.endCapture(); err == nil {
				_ = g.Close()
			}
		}
	}()
	workErr := f()
	ended = true
	g, err := s.endCapture()
	if workErr != nil {
		if err == nil {
			_ = g.Close()
		}
		return nil, workErr
	}
	return g, err
}

func (s *Stream) endCapture() (*Graph, error) {
	if err := s.use(); err != nil {
		return nil, err
	}
	defer s.done()
	f := getFrame()
	defer putFrame(f)
	if err := s.primary.call(f, cuStreamEndCapture, s.handle, f.out(0)); err != nil {
		return nil, err
	}
	g := &Graph{handle: f.handle(0)}
	track(g, &g.resource, s.primary, "graph")
	return g, nil
}

// IsCapturing reports whether the stream is being captured, by whomever. Work that must not be captured, such as
// tuning and allocation, asks first.
func (s *Stream) IsCapturing() (bool, error) {
	if err := s.use(); err != nil {
		return false, err
	}
	defer s.done()
	f := getFrame()
	defer putFrame(f)
	if err := s.primary.call(f, cuStreamIsCapturing, s.handle, f.out(0)); err != nil {
		return false, err
	}
	return f.int(0) != 0, nil // active, or invalidated and not yet ended
}

// Instantiate makes the graph ready to run. The graph may be closed afterwards.
func (g *Graph) Instantiate() (*GraphExec, error) {
	if err := g.use(); err != nil {
		return nil, err
	}
	defer g.done()
	f := getFrame()
	defer putFrame(f)
	if err := g.primary.call(f, cuGraphInstantiateWithFlags, f.out(0), g.handle, 0); err != nil {
		return nil, err
	}
	e := &GraphExec{handle: f.handle(0)}
	track(e, &e.resource, g.primary, "executable graph")
	return e, nil
}

// Close destroys the graph.
func (g *Graph) Close() error { return g.destroy(cuGraphDestroy, g.handle) }

// Launch enqueues the graph on a stream. It allocates nothing. Runs of one GraphExec follow each other, also on
// different streams.
func (e *GraphExec) Launch(s *Stream) error {
	if err := s.use(); err != nil {
		return err
	}
	defer s.done()
	return e.call(cuGraphLaunch, e.handle, s.handle)
}

// Close destroys the executable graph. It must not be running.
func (e *GraphExec) Close() error { return e.destroy(cuGraphExecDestroy, e.handle) }
