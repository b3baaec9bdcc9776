package peerprobe

import (
	"context"

	"github.com/fsgen/fsgen/driver"
	"github.com/fsgen/fsgen/internal/closing"
)

// onStream enqueues work on a stream of its own, waits for it as long as ctx lasts, and then looks at the host's memory. If ctx
// ends first, what the work uses is given back when the work is done, however late: the device may still write there.
func onStream(ctx context.Context, c *driver.Context, enqueue func(*driver.Stream, *driver.HostBuffer, *driver.Buffer) error,
	look func([]byte) error) error {
	var scope closing.Scope
	s, host, own, err := open(c, &scope)
	if err == nil {
		err = enqueue(s, host, own)
	}
	if err == nil {
		if err = s.Synchronize(ctx); err != nil && ctx.Err() != nil {
			go func() {
				_ = s.Synchronize(context.Background())
				_ = scope.CloseAll()
			}()
			return err
		}
	}
	if err == nil && look != nil {
		err = look(host.Bytes())
	}
	if closeErr := scope.CloseAll(); err == nil {
		err = closeErr
	}
	return err
}

func open(c *driver.Context, scope *closing.Scope) (s *driver.Stream, host *driver.HostBuffer, own *driver.Buffer, err error) {
	if s, err = c.NewStream(); err != nil {
		return nil, nil, nil, err
	}
	scope.Keep(s)
	if host, err = c.AllocHost(Bytes); err != nil {
		return nil, nil, nil, err
	}
	scope.Keep(host)
	if own, err = c.Alloc(Bytes); err != nil {
		return nil, nil, nil, err
	}
	scope.Keep(own)
	return s, host, own, nil
}
