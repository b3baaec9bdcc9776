package rendezvous

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"time"
)

// Join meets the other ranks and returns when all of them have come. Alone (World 1) it opens nothing. Errors are a
// *ConfigError, a *MissingError when time is up, a *LostError or *LeftError for a rank that went while others were still
// awaited, a *MismatchError for ranks that were started differently, or a *ForeignError.
func Join(ctx context.Context, cfg Config) (*Group, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	g := newGroup(cfg)
	if cfg.World == 1 {
		close(g.full)
		return g, nil
	}
	meeting, cancel := context.WithTimeout(ctx, cfg.timeout())
	defer cancel()
	var err error
	if cfg.Rank == 0 {
		err = g.host(meeting, cfg.Files)
	} else {
		err = g.visit(meeting, cfg.Blob, cfg.Files)
	}
	if err != nil {
		g.end(err)
		_ = g.Close()
		return nil, err
	}
	return g, nil
}

// visit is Join for a rank other than 0.
func (g *Group) visit(ctx context.Context, blob []byte, files []*os.File) error {
	c, err := dial(ctx, &g.cfg)
	if err != nil {
		if ctx.Err() != nil {
			err = &MissingError{Group: g.cfg.Group, Op: opJoin.String(), Missing: []int{0}, World: g.cfg.World, Err: ctx.Err()}
		}
		return err
	}
	m := message{kind: kindHello, rank: g.cfg.Rank, note: noted(hello{g.cfg.Group, g.cfg.World}), blob: blob}
	if err := c.send(m, files, sendDeadline); err != nil && !hungUp(err) { // if rank 0 hung up, it said why
		_ = c.Close()
		return err
	}
	g.attach(c)
	return g.wait(ctx, opJoin, g.full)
}

// attach makes a connection one of the group's.
func (g *Group) attach(c *conn) {
	g.mu.Lock()
	g.conns[c.rank] = c
	g.mu.Unlock()
	g.readers.Go(func() { g.read(c) })
}

// host is Join for rank 0.
func (g *Group) host(ctx context.Context, files []*os.File) error {
	l, err := listen(&g.cfg)
	if err != nil {
		return err
	}
	var greeters sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		if g.Err() == nil {
			_ = l.Close()
		}
		cancel() // if the group is not to be, those who have just dialled hear why
		greeters.Wait()
		_ = l.Close()
	}()
	greeters.Go(func() { g.open(ctx, l, files, &greeters) })
	return g.wait(ctx, opJoin, g.full)
}

// open lets whoever comes in, until ctx ends or the listener is closed.
func (g *Group) open(ctx context.Context, l *net.UnixListener, files []*os.File, greeters *sync.WaitGroup) {
	defer context.AfterFunc(ctx, func() { _ = l.SetDeadline(time.Now().Add(linger)) })()
	for {
		socket, err := l.AcceptUnix()
		switch {
		case err == nil:
			greeters.Go(func() { g.greet(ctx, socket, files) })
		case ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			return
		default: // out of descriptors, for a while
			time.Sleep(redial)
		}
	}
}

const (
	patience = 5 * time.Second       // how long one who has connected may take to say who he is
	linger   = 10 * time.Millisecond // how long a meeting that has failed still answers
)

// greet finds out who has come, and admits him or says why not. Whoever does not speak the protocol is left standing.
func (g *Group) greet(ctx context.Context, socket *net.UnixConn, files []*os.File) {
	c, err := identify(socket, -1)
	if err != nil {
		return
	}
	m, theirs, err := g.hear(ctx, c)
	if err == nil {
		err = g.admit(c, m, files, theirs)
	}
	if err != nil {
		closeFiles(theirs)
		_ = c.send(message{kind: kindEnd, note: endingOf(err, 0).note()}, nil, goodbye)
		_ = c.Close()
		if !errors.As(err, new(*ProtocolError)) {
			g.end(err)
		}
	}
}

// hear waits for a visitor's hello, or for the end of the meeting.
func (g *Group) hear(ctx context.Context, c *conn) (message, []*os.File, error) {
	_ = c.SetReadDeadline(time.Now().Add(patience))
	stop := context.AfterFunc(ctx, func() { _ = c.SetReadDeadline(time.Now()) })
	m, files, err := c.receive()
	stopped := stop()
	_ = c.SetReadDeadline(time.Time{})
	var other *versionError
	switch {
	case g.Err() != nil:
		err = g.Err()
	case errors.As(err, &other):
		err = g.mismatch(-1, "protocol version", version, other.theirs)
	case !stopped && g.wait(ctx, opJoin, g.full) != nil:
		err = g.Err()
	case err != nil || !stopped:
		err = &ProtocolError{fmt.Sprintf("no hello: %v", err)}
	case m.kind != kindHello:
		err = &ProtocolError{fmt.Sprintf("kind %d for a hello", m.kind)}
	}
	return m, files, err
}

// admit makes a rank that has introduced itself a member, tells it who is there, and the others of it.
func (g *Group) admit(c *conn, m message, mine, theirs []*os.File) error {
	if err := g.agrees(m); err != nil {
		return err
	}
	g.passing.Lock()
	defer g.passing.Unlock()
	if err := g.Err(); err != nil {
		return err
	}
	if was := g.member(m.rank); was != nil {
		return g.mismatch(m.rank, "process", strconv.Itoa(was.PID), c.pid)
	}
	c.rank = m.rank
	if err := g.introduce(c, mine); err != nil {
		return err
	}
	for _, to := range g.others(nil) {
		if err := g.send(to, message{kind: kindMember, rank: m.rank, blob: m.blob}, theirs); err != nil {
			return err
		}
	}
	g.attach(c)
	g.enter(m.rank, &Member{PID: c.pid, Blob: m.blob, Files: theirs})
	return nil
}

// agrees compares what a visitor says of the group with what rank 0 knows.
func (g *Group) agrees(m message) error {
	var h hello
	if err := m.readNote(&h); err != nil {
		return err
	}
	switch {
	case h.Group != g.cfg.Group:
		return g.mismatch(m.rank, "group name", g.cfg.Group, fmt.Sprintf("%.64q", h.Group))
	case h.World != g.cfg.World:
		return g.mismatch(m.rank, "world size", g.cfg.World, h.World)
	case m.rank == 0 || m.rank >= g.cfg.World:
		return &ProtocolError{fmt.Sprintf("a visitor of rank %d", m.rank)}
	}
	return nil
}

// introduce tells a rank who has come before it. Rank 0's own files are the caller's.
func (g *Group) introduce(c *conn, mine []*os.File) error {
	for rank := range g.cfg.World {
		was := g.member(rank)
		if was == nil {
			continue
		}
		files := was.Files
		if rank == 0 {
			files = mine
		}
		if err := g.send(c, message{kind: kindMember, rank: rank, blob: was.Blob}, files); err != nil {
			return err
		}
	}
	return nil
}
