package rendezvous

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// conn is a connection that carries whole messages: a Unix socket of packets, so that the kernel keeps their borders and
// files stay with the message that they were sent with.
type conn struct {
	*net.UnixConn
	rank int // who is at the other end
	pid  int

	writing sync.Mutex
}

const (
	network = "unixpacket"
	redial  = 20 * time.Millisecond
)

// address is where the ranks of a configuration meet.
func (c *Config) address() (*net.UnixAddr, error) {
	if c.Dir == "" {
		return &net.UnixAddr{Name: fmt.Sprintf("@fsgen/%d/%s", os.Geteuid(), c.Group), Net: network}, nil
	}
	path := filepath.Join(c.Dir, c.Group+".sock")
	if len(path) > 107 { // sun_path, less the NUL
		return nil, &ConfigError{fmt.Sprintf("socket path %s: %d bytes, want at most 107", path, len(path))}
	}
	return &net.UnixAddr{Name: path, Net: network}, nil
}

// checkDir refuses a folder in which somebody else could put a socket of theirs.
func checkDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("rendezvous: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("rendezvous: %w", err)
	}
	owner := info.Sys().(*syscall.Stat_t).Uid
	if !info.IsDir() || info.Mode().Perm()&0o022 != 0 || int(owner) != os.Geteuid() {
		return &ConfigError{fmt.Sprintf("%s: %v of user %d: want a folder of user %d that nobody else may write to",
			dir, info.Mode(), owner, os.Geteuid())}
	}
	return nil
}

// place is where the group meets, in a folder that nobody else may write to if it is a file.
func (c *Config) place() (*net.UnixAddr, error) {
	addr, err := c.address()
	if err == nil && c.Dir != "" {
		err = checkDir(c.Dir)
	}
	return addr, err
}

// listen opens rank 0's socket. One that a process which was killed has left behind is replaced.
func listen(cfg *Config) (*net.UnixListener, error) {
	addr, err := cfg.place()
	if err != nil {
		return nil, err
	}
	l, err := net.ListenUnix(network, addr)
	if errors.Is(err, unix.EADDRINUSE) && cfg.Dir != "" {
		if !isSocket(addr) { // the user's: it refuses connections as an abandoned socket does
			return nil, fmt.Errorf("rendezvous: %s is there, and no socket", addr.Name)
		}
		if abandoned(addr) {
			if err := os.Remove(addr.Name); err != nil {
				return nil, fmt.Errorf("rendezvous: %w", err)
			}
			l, err = net.ListenUnix(network, addr)
		}
	}
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return nil, &MismatchError{cfg.Group, 0, "process", "one that is waiting already", strconv.Itoa(os.Getpid())}
	case err != nil:
		return nil, fmt.Errorf("rendezvous: %w", err)
	}
	return l, nil
}

// abandoned reports whether nobody listens at a socket file.
func abandoned(addr *net.UnixAddr) bool {
	c, err := net.DialUnix(network, nil, addr)
	if err == nil {
		_ = c.Close()
	}
	return errors.Is(err, unix.ECONNREFUSED)
}

func isSocket(addr *net.UnixAddr) bool {
	info, err := os.Lstat(addr.Name)
	return err == nil && info.Mode()&os.ModeSocket != 0
}

// dial connects to rank 0, which may not be there yet, until ctx ends.
func dial(ctx context.Context, cfg *Config) (*conn, error) {
	addr, err := cfg.place()
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(redial)
	defer tick.Stop()
	for {
		c, err := net.DialUnix(network, nil, addr)
		switch {
		case err == nil:
			return identify(c, 0)
		case !errors.Is(err, unix.ECONNREFUSED) && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EAGAIN):
			return nil, fmt.Errorf("rendezvous: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}

// identify asks the kernel who is at the other end, and closes the connection unless it is the same user.
func identify(c *net.UnixConn, rank int) (*conn, error) {
	var cred *unix.Ucred
	raw, err := c.SyscallConn()
	if err == nil {
		controlErr := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
		err = errors.Join(err, controlErr)
	}
	if err == nil && int(cred.Uid) != os.Geteuid() {
		err = &ForeignError{int(cred.Uid)}
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return &conn{UnixConn: c, rank: rank, pid: int(cred.Pid)}, nil
}

// send writes a message and its files, if the other end makes room in time.
func (c *conn) send(m message, files []*os.File, within time.Duration) error {
	m.files = len(files)
	return withDescriptors(files, nil, func(fds []int) error {
		var rights []byte
		if len(fds) > 0 {
			rights = unix.UnixRights(fds...)
		}
		c.writing.Lock()
		defer c.writing.Unlock()
		if err := c.SetWriteDeadline(time.Now().Add(within)); err != nil {
			return err
		}
		_, _, err := c.WriteMsgUnix(m.encode(), rights, nil)
		return err
	})
}

// hungUp reports whether a message could not be sent because the other end has closed, or this one.
func hungUp(err error) bool {
	return errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) || errors.Is(err, net.ErrClosed)
}

// withDescriptors calls use while nobody can close the files.
func withDescriptors(files []*os.File, fds []int, use func([]int) error) error {
	if len(files) == 0 {
		return use(fds)
	}
	raw, err := files[0].SyscallConn()
	if err != nil {
		return &ConfigError{fmt.Sprintf("file %d: %v", len(fds), err)}
	}
	var useErr error
	if err := raw.Control(func(fd uintptr) { useErr = withDescriptors(files[1:], append(fds, int(fd)), use) }); err != nil {
		return &ConfigError{fmt.Sprintf("file %d: %v", len(fds), err)}
	}
	return useErr
}

// receive reads a message and its files, which are the caller's. It returns io.EOF where the other end has closed.
func (c *conn) receive() (message, []*os.File, error) {
	b, rights := make([]byte, maxMessage+1), make([]byte, unix.CmsgSpace(4*MaxFiles))
	n, nr, flags, _, err := c.ReadMsgUnix(b, rights)
	if errors.Is(err, unix.ECONNRESET) { // it closed with something unread; what it sent before is still here
		n, nr, flags, _, err = c.ReadMsgUnix(b, rights)
	}
	if err != nil {
		return message{}, nil, err
	}
	files := received(rights[:nr])
	if n == 0 && len(files) == 0 {
		return message{}, nil, io.EOF
	}
	m, err := decode(b[:n])
	switch {
	case flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0:
		err = &ProtocolError{"a message beyond the limits"}
	case err == nil && m.files != len(files):
		err = &ProtocolError{fmt.Sprintf("%d files, and a message that speaks of %d", len(files), m.files)}
	}
	if err != nil {
		closeFiles(files)
		return message{}, nil, err
	}
	return m, files, nil
}

// received makes files of the descriptors that came with a message. The kernel has made them already: all have to be taken.
func received(rights []byte) (files []*os.File) {
	list, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return nil
	}
	for i := range list {
		fds, err := unix.ParseUnixRights(&list[i])
		if err != nil {
			continue
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "received"))
		}
	}
	return files
}
