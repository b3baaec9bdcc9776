package sampler

import (
	"errors"
	"slices"
	"sync"
)

// lifetime lets calls overlap and closing wait for them. What is made of something, as plans of a head, is closed with it: a plan whose head
// is gone would sample from memory that is somebody else's by then.
type lifetime struct {
	mu     sync.RWMutex
	closed bool
	from   *lifetime    // of what this was made of; nil for none
	end    func() error // frees it

	kin  sync.Mutex
	made []*lifetime // what was made of this and is open
}

// begin is the birth of something that was made of another, in a call of the other's, or of nothing.
func (l *lifetime) begin(from *lifetime, end func() error) {
	l.end = end
	if from != nil {
		l.of(from)
	}
}

// of has it closed with another, in a call of that one's.
func (l *lifetime) of(from *lifetime) {
	l.from = from
	from.kin.Lock()
	defer from.kin.Unlock()
	from.made = append(from.made, l)
}

// enter begins a call; leave ends it.
func (l *lifetime) enter() error {
	l.mu.RLock()
	if l.closed {
		l.mu.RUnlock()
		return ErrClosed
	}
	return nil
}

func (l *lifetime) leave() { l.mu.RUnlock() }

// healthy is what f says of something that is open.
func (l *lifetime) healthy(f func() error) error {
	if err := l.enter(); err != nil {
		return err
	}
	defer l.leave()
	return f()
}

// close closes what was made of this, the last first, and frees it, once no call is under way; later calls wait for the first, and do nothing.
func (l *lifetime) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true // and so nothing more is made of it
	var errs []error
	for _, child := range slices.Backward(l.open()) {
		errs = append(errs, child.close())
	}
	errs = append(errs, l.end())
	if l.from != nil {
		l.from.forget(l)
	}
	return errors.Join(errs...)
}

func (l *lifetime) open() []*lifetime {
	l.kin.Lock()
	defer l.kin.Unlock()
	return slices.Clone(l.made)
}

func (l *lifetime) forget(child *lifetime) {
	l.kin.Lock()
	defer l.kin.Unlock()
	l.made = slices.DeleteFunc(l.made, func(x *lifetime) bool { return x == child })
}
