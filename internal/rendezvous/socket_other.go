//go:build !linux

package rendezvous

import (
	"context"
	"net"
	"os"
	"time"
)

// The package compiles everywhere, so that its importers do; alone in its group a process needs no socket.
type conn struct {
	*net.UnixConn
	rank, pid int
}

const redial = 0

func listen(*Config) (*net.UnixListener, error)               { return nil, ErrUnsupportedPlatform }
func dial(context.Context, *Config) (*conn, error)            { return nil, ErrUnsupportedPlatform }
func identify(*net.UnixConn, int) (*conn, error)              { return nil, ErrUnsupportedPlatform }
func (c *conn) send(message, []*os.File, time.Duration) error { return ErrUnsupportedPlatform }
func (c *conn) receive() (message, []*os.File, error)         { return message{}, nil, ErrUnsupportedPlatform }
func hungUp(error) bool                                       { return false }
