package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// patience is how long work may take before a terminal shows what it is.
const patience = 300 * time.Millisecond

// statusLine is one line of a terminal that is written over, saying what long work is at. Elsewhere it shows nothing.
type statusLine struct {
	w        io.Writer // nil: nobody looks
	patience time.Duration

	mu    sync.Mutex
	text  string
	shown bool
	timer *time.Timer // waits to show the line; nil if nothing is to be shown
}

// status returns a line on standard error, if that is a terminal.
func (e *env) status() *statusLine {
	s := &statusLine{patience: e.patience}
	if e.terminal {
		s.w = e.stderr
	}
	return s
}

// set says what is going on. Work that ends soon shows nothing.
func (s *statusLine) set(text string) {
	if s.w == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = text
	switch {
	case s.shown || s.patience == 0:
		s.draw()
	case s.timer == nil:
		s.timer = time.AfterFunc(s.patience, s.appear)
	}
}

func (s *statusLine) appear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil { // else: cleared meanwhile
		s.draw()
	}
}

func (s *statusLine) draw() {
	s.shown = true
	fmt.Fprint(s.w, "\r\x1b[K"+s.text)
}

// clear takes the line away, before other lines are written.
func (s *statusLine) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	if s.shown {
		s.shown = false
		fmt.Fprint(s.w, "\r\x1b[K")
	}
}

// above has other lines written while the line is away, and puts it back.
func (s *statusLine) above(write func()) {
	s.clear()
	write()
	s.mu.Lock()
	text := s.text
	s.mu.Unlock()
	if text != "" {
		s.set(text)
	}
}
