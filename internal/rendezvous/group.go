package rendezvous

import (
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"time"
)

// Member is what a rank has brought.
type Member struct {
	// PID is its process, 0 where it is not known: ranks know that of whom they are connected with.
	PID  int
	Blob []byte
	// Files are descriptors of this process for the files that the rank has given; none for the rank itself. Close them when
	// they are used; Group.Close closes what is left.
	Files []*os.File
}

// Group is the ranks that have met. All methods may be called from any goroutine.
type Group struct {
	cfg     Config
	stall   time.Duration // how long a rank may read nothing
	readers sync.WaitGroup
	full    chan struct{} // closed when all members are known
	done    chan struct{} // closed when the group has ended and the others have been told

	operation sync.Mutex // held by the operation in flight
	passing   sync.Mutex // held by who passes something on, so that all see it before whatever follows, an ending above all

	mu      sync.Mutex
	err     error   // why the group has ended
	conns   []*conn // rank 0: by rank, nil for itself and those who have not come; others: rank 0's alone
	members []*Member
	next    uint64 // the sequence number of the next operation
	rounds  map[uint64]*round
}

const (
	sendDeadline = 2 * time.Second        // a rank that reads nothing for so long is as good as dead
	goodbye      = 200 * time.Millisecond // how long a rank may take to hear that the group has ended
)

func newGroup(cfg Config) *Group {
	g := &Group{
		cfg: cfg, stall: sendDeadline, full: make(chan struct{}), done: make(chan struct{}),
		conns: make([]*conn, cfg.World), members: make([]*Member, cfg.World), rounds: map[uint64]*round{},
	}
	g.members[cfg.Rank] = &Member{PID: os.Getpid(), Blob: slices.Clone(cfg.Blob)}
	g.cfg.Blob, g.cfg.Files = nil, nil
	return g
}

// Rank returns this process's rank.
func (g *Group) Rank() int { return g.cfg.Rank }

// World returns the number of ranks.
func (g *Group) World() int { return g.cfg.World }

// Members returns what each rank has brought, by rank.
func (g *Group) Members() []Member {
	list := make([]Member, len(g.members))
	for i, m := range g.members {
		list[i] = *m
	}
	return list
}

// Done is closed when the group has ended, for whatever reason, and the other ranks have been told; Err says which.
func (g *Group) Done() <-chan struct{} { return g.done }

// Err returns why the group has ended: a *LostError, *LeftError, *MissingError, *MismatchError, *ProtocolError, or ErrClosed;
// nil while it is open.
func (g *Group) Err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// Close ends the group for all ranks and gives back everything that Join took, received files included. It waits for nobody.
// A rank that others may still have something to ask of goes through a Barrier first.
func (g *Group) Close() error {
	g.end(ErrClosed)
	g.readers.Wait()
	for i, m := range g.members {
		if m != nil && i != g.cfg.Rank {
			closeFiles(m.Files)
		}
	}
	return nil
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // which the user may have done
	}
}

// end ends the group with an error, unless it has ended, and tells the others. Whoever waits here hears of it after them: a process
// may exit on that, and must not be what they lose first.
func (g *Group) end(err error) {
	g.mu.Lock()
	if g.err != nil {
		g.mu.Unlock()
		<-g.done
		return
	}
	g.err = err
	g.mu.Unlock()
	defer close(g.done)
	g.passing.Lock()
	defer g.passing.Unlock()
	conns := g.others(nil)
	m := message{kind: kindEnd, rank: g.cfg.Rank, note: endingOf(err, g.cfg.Rank).note()}
	for _, c := range conns {
		_ = c.send(m, nil, goodbye) // one that cannot be told sees the connection close
		_ = c.Close()
	}
}

// others are the connections apart from one, which may be nil.
func (g *Group) others(but *conn) []*conn {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(g.conns), func(c *conn) bool { return c == nil || c == but })
}

// read takes what comes over a connection until it ends.
func (g *Group) read(c *conn) {
	for {
		m, files, err := c.receive()
		if err != nil {
			err = g.connectionError(c, err)
		} else {
			err = g.take(c, m, files)
		}
		if err != nil {
			g.end(err)
			return
		}
	}
}

// connectionError is what the end of a connection means.
func (g *Group) connectionError(c *conn, err error) error {
	var (
		netErr *net.OpError
		other  *versionError
	)
	switch {
	case errors.Is(err, io.EOF):
		return &LostError{Group: g.cfg.Group, Rank: c.rank, PID: c.pid}
	case errors.As(err, &netErr):
		return &LostError{Group: g.cfg.Group, Rank: c.rank, PID: c.pid, Err: netErr.Err}
	case errors.As(err, &other):
		return g.mismatch(c.rank, "protocol version", version, other.theirs)
	}
	return err
}
