package rendezvous

import (
	"errors"
	"fmt"
	"os"
)

func (g *Group) member(rank int) *Member {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.members[rank]
}

// enter makes a rank known. The last one fills the group.
func (g *Group) enter(rank int, m *Member) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.members[rank] = m
	if len(g.absent()) == 0 {
		close(g.full)
	}
}

// absent are the ranks that have not come. The caller holds mu.
func (g *Group) absent() (list []int) {
	for rank, m := range g.members {
		if m == nil {
			list = append(list, rank)
		}
	}
	return list
}

func (g *Group) mismatch(rank int, what string, want, has any) error {
	return &MismatchError{g.cfg.Group, rank, what, fmt.Sprint(want), fmt.Sprint(has)}
}

// take is what a message does. Its files are taken or closed.
func (g *Group) take(c *conn, m message, files []*os.File) error {
	if m.kind == kindMember && c.rank == 0 && g.cfg.Rank != 0 && m.rank < g.cfg.World && g.member(m.rank) == nil {
		member := &Member{Blob: m.blob, Files: files}
		if m.rank == 0 {
			member.PID = c.pid
		}
		g.enter(m.rank, member)
		return nil
	}
	closeFiles(files)
	switch {
	case m.kind == kindEnd:
		var e ending
		if err := m.readNote(&e); err != nil {
			return err
		}
		return e.err(&g.cfg)
	case m.kind == kindGather && m.rank != g.cfg.Rank && m.rank < g.cfg.World && (g.cfg.Rank != 0 || m.rank == c.rank):
		return g.contribute(c, m)
	}
	return &ProtocolError{fmt.Sprintf("kind %d from rank %d in the name of rank %d", m.kind, c.rank, m.rank)}
}

// send sends to a rank; an error is a reason to end the group. One that has hung up is its reader's to find: what it said last
// is still to be read.
func (g *Group) send(c *conn, m message, files []*os.File) error {
	err := c.send(m, files, g.stall)
	var config *ConfigError
	switch {
	case err == nil || hungUp(err):
		return nil
	case errors.As(err, &config): // a file of the caller's that is closed
		return err
	}
	return &LostError{Group: g.cfg.Group, Rank: c.rank, PID: c.pid, Err: err}
}
