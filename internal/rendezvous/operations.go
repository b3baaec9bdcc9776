package rendezvous

import (
	"context"
	"errors"
	"fmt"
)

// round is one operation as far as it is known here.
type round struct {
	op    operation
	blobs [][]byte
	has   []bool
	left  int
	done  chan struct{}
}

// Barrier returns when all ranks have called it.
func (g *Group) Barrier(ctx context.Context) error {
	_, err := g.exchange(ctx, opBarrier, nil)
	return err
}

// AllGather gives a blob of at most MaxBlob bytes to all ranks and returns everybody's, by rank. All ranks call it. What it
// returns is the caller's.
func (g *Group) AllGather(ctx context.Context, blob []byte) ([][]byte, error) {
	if len(blob) > MaxBlob {
		return nil, &ConfigError{fmt.Sprintf("%d bytes to a gather: want at most %d", len(blob), MaxBlob)}
	}
	return g.exchange(ctx, opGather, blob)
}

// Decide has rank 0 decide something, in at most MaxBlob bytes, and returns it on every rank. All ranks call it; decide is
// called on rank 0 alone, and may be nil elsewhere. If rank 0 fails, it returns its error, and all others a *DecisionError: the
// group lives on.
func (g *Group) Decide(ctx context.Context, decide func() ([]byte, error)) ([]byte, error) {
	var mine []byte
	var failure error
	if g.cfg.Rank == 0 {
		var blob []byte
		if blob, failure = decide(); failure == nil && len(blob) > MaxBlob {
			failure = &ConfigError{fmt.Sprintf("a decision of %d bytes: want at most %d", len(blob), MaxBlob)}
		}
		mine = append([]byte{1}, blob...)
		if failure != nil {
			mine = fmt.Appendf([]byte{0}, "%.4000s", failure.Error())
		}
	}
	all, err := g.exchange(ctx, opDecision, mine)
	switch {
	case failure != nil:
		return nil, failure
	case err != nil:
		return nil, err
	case len(all[0]) == 0:
		return nil, &ProtocolError{"a decision without a verdict"}
	case all[0][0] == 0:
		return nil, &DecisionError{g.cfg.Group, string(all[0][1:])}
	}
	return all[0][1:], nil
}

// exchange is one operation: every rank gives a blob and gets all.
func (g *Group) exchange(ctx context.Context, op operation, blob []byte) ([][]byte, error) {
	g.operation.Lock()
	defer g.operation.Unlock()
	if err := g.Err(); err != nil {
		<-g.done
		return nil, err
	}
	g.mu.Lock()
	m := message{kind: kindGather, op: op, rank: g.cfg.Rank, seq: g.next, blob: append([]byte{}, blob...)}
	r := g.roundAt(m.seq)
	g.next++
	g.mu.Unlock()
	if err := g.contribute(nil, m); err != nil {
		g.end(err)
		return nil, g.Err()
	}
	err := g.wait(ctx, op, r.done)
	g.mu.Lock()
	delete(g.rounds, m.seq)
	g.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return r.blobs, nil
}

// roundAt is the round of a sequence number, new if nobody has spoken of it. The caller holds mu.
func (g *Group) roundAt(seq uint64) *round {
	r := g.rounds[seq]
	if r == nil {
		n := g.cfg.World
		r = &round{op: numOperations, blobs: make([][]byte, n), has: make([]bool, n), left: n, done: make(chan struct{})}
		g.rounds[seq] = r
	}
	return r
}

// contribute records what a rank gives to an operation, and passes it on: rank 0 to all that do not have it, others their own
// to rank 0.
func (g *Group) contribute(from *conn, m message) error {
	g.passing.Lock()
	defer g.passing.Unlock()
	last, err := g.record(m)
	if err != nil {
		return err
	}
	var errs []error
	if g.cfg.Rank == 0 || from == nil {
		for _, c := range g.others(from) {
			errs = append(errs, g.send(c, m, nil))
		}
	}
	if last != nil {
		close(last.done)
	}
	return errors.Join(errs...)
}

// record returns the round if it is whole now. Nobody can be ahead by more than one: a round is whole only with everybody in it.
func (g *Group) record(m message) (*round, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.rounds[m.seq] == nil && m.seq != g.next {
		return nil, &ProtocolError{fmt.Sprintf("operation %d from rank %d, at %d", m.seq, m.rank, g.next)}
	}
	r := g.roundAt(m.seq)
	switch {
	case r.op == numOperations:
		r.op = m.op
	case r.op != m.op:
		return nil, g.mismatch(m.rank, whatOperation, r.op, m.op)
	}
	if r.has[m.rank] {
		return nil, &ProtocolError{fmt.Sprintf("rank %d gives to operation %d twice", m.rank, m.seq)}
	}
	r.has[m.rank], r.blobs[m.rank] = true, m.blob
	if r.left--; r.left == 0 {
		return r, nil
	}
	return nil, nil
}

// wait waits for a channel that is closed when everybody has come to an operation. What was whole before the group ended
// counts.
func (g *Group) wait(ctx context.Context, op operation, whole <-chan struct{}) error {
	select {
	case <-whole:
		return nil
	case <-g.done:
	case <-ctx.Done():
	}
	select {
	case <-whole:
		return nil
	default:
	}
	if ctx.Err() != nil {
		g.end(&MissingError{Group: g.cfg.Group, Op: op.String(), Missing: g.missing(op), World: g.cfg.World, Err: ctx.Err()})
	}
	return g.Err()
}

// missing are the ranks that have not come to the operation in flight.
func (g *Group) missing(op operation) (list []int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if op == opJoin {
		return g.absent()
	}
	for rank, has := range g.roundAt(g.next - 1).has {
		if !has {
			list = append(list, rank)
		}
	}
	return list
}
