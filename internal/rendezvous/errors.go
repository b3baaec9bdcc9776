package rendezvous

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// ErrClosed is what operations return after Group.Close.
var ErrClosed = errors.New("rendezvous: the group is closed")

// ErrUnsupportedPlatform is what errors.Is finds where processes cannot meet: it takes Linux.
var ErrUnsupportedPlatform = errors.New("rendezvous: groups of several processes need Linux")

// MissingError says which ranks had not come when the time was up, or when ctx ended for another reason.
type MissingError struct {
	Group string
	// Op is what they did not come to: "join", "barrier", "gather", "decision".
	Op      string
	Missing []int
	World   int
	// Err is context.DeadlineExceeded, or what else ended the context.
	Err error
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("rendezvous: group %s: %s of %d did not come to the %s: %v", e.Group, ranks(e.Missing), e.World, e.Op, e.Err)
}

// Unwrap returns what ended the wait.
func (e *MissingError) Unwrap() error { return e.Err }

func ranks(list []int) string {
	word := "ranks"
	if len(list) == 1 {
		word = "rank"
	}
	return word + " " + strings.Trim(strings.ReplaceAll(fmt.Sprint(list), " ", ", "), "[]")
}

// LostError says that a rank died: its connection ended without a word.
type LostError struct {
	Group string
	Rank  int
	// PID is the rank's process, 0 where it is not known.
	PID int
	// Err is what the connection met, nil if it was closed.
	Err error
}

func (e *LostError) Error() string {
	text := fmt.Sprintf("rendezvous: group %s: rank %d (process %d) is gone", e.Group, e.Rank, e.PID)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns what the connection met.
func (e *LostError) Unwrap() error { return e.Err }

// LeftError says that another rank closed the group.
type LeftError struct {
	Group string
	Rank  int
}

func (e *LeftError) Error() string {
	return fmt.Sprintf("rendezvous: group %s: rank %d has closed the group", e.Group, e.Rank)
}

// whatOperation is the MismatchError.What of ranks that do not do the same.
const whatOperation = "operation"

// MismatchError says that two ranks do not agree on what they do together.
type MismatchError struct {
	Group string
	// Rank is the one that differs, -1 if it cannot be read which that is.
	Rank int
	// What is "group name", "world size", "protocol version", "operation", or "process" where two came as one rank.
	What string
	// Want is what the others have, Has what the rank has.
	Want, Has string
}

func (e *MismatchError) Error() string {
	who := fmt.Sprintf("rank %d", e.Rank)
	if e.Rank < 0 {
		who = "a visitor"
	}
	text := fmt.Sprintf("rendezvous: group %s: %s has %s %s, where others have %s", e.Group, who, e.What, e.Has, e.Want)
	if e.What == whatOperation {
		text += ": ranks must be started alike, and make the same calls"
	}
	return text
}

// ProtocolError is a message that this package did not write.
type ProtocolError struct{ Reason string }

func (e *ProtocolError) Error() string {
	return "rendezvous: not a message of the protocol: " + e.Reason
}

// ForeignError says that the socket belongs to another user.
type ForeignError struct{ UID int }

func (e *ForeignError) Error() string {
	return fmt.Sprintf("rendezvous: the socket is user %d's: use another group name or a folder of your own", e.UID)
}

// DecisionError is why rank 0 could not decide, as the other ranks hear of it.
type DecisionError struct {
	Group, Reason string
}

func (e *DecisionError) Error() string {
	return fmt.Sprintf("rendezvous: group %s: rank 0 could not decide: %s", e.Group, e.Reason)
}

// ending is how an error that ends a group travels to other ranks.
type ending struct {
	Reason  string `json:"reason"` // lost, left, missing, mismatch or protocol
	Rank    int    `json:"rank"`
	PID     int    `json:"pid,omitempty"`
	Op      string `json:"op,omitempty"`
	Missing []int  `json:"missing,omitempty"`
	What    string `json:"what,omitempty"`
	Want    string `json:"want,omitempty"`
	Has     string `json:"has,omitempty"`
	Text    string `json:"text,omitempty"`
}

// endingOf is what rank me tells the others of the error that ended its group.
func endingOf(err error, me int) ending {
	var (
		lost     *LostError
		left     *LeftError
		missing  *MissingError
		mismatch *MismatchError
		protocol *ProtocolError
	)
	switch {
	case errors.As(err, &missing) && missing.Op == opJoin.String() && errors.Is(err, context.DeadlineExceeded):
		return ending{Reason: "missing", Rank: me, Op: missing.Op, Missing: missing.Missing}
	case errors.As(err, &lost):
		e := ending{Reason: "lost", Rank: lost.Rank, PID: lost.PID}
		if lost.Err != nil {
			e.Text = fmt.Sprintf("%.500s", lost.Err)
		}
		return e
	case errors.As(err, &left):
		return ending{Reason: "left", Rank: left.Rank}
	case errors.As(err, &mismatch):
		return ending{Reason: "mismatch", Rank: mismatch.Rank, What: mismatch.What, Want: mismatch.Want, Has: mismatch.Has}
	}
	if errors.As(err, &protocol) {
		return ending{Reason: "protocol", Rank: me, Text: fmt.Sprintf("%.500s", protocol.Reason)}
	}
	return ending{Reason: "left", Rank: me}
}

// note is the ending as it travels: bare where another rank's words are too long to be passed on.
func (e ending) note() []byte {
	if b := noted(e); len(b) <= maxNote {
		return b
	}
	return noted(ending{Reason: e.Reason, Rank: e.Rank})
}

// err is the error that an ending stands for, in a group.
func (e ending) err(c *Config) error {
	switch e.Reason {
	case "lost":
		lost := &LostError{Group: c.Group, Rank: e.Rank, PID: e.PID}
		if e.Text != "" {
			lost.Err = errors.New(e.Text)
		}
		return lost
	case "left":
		return &LeftError{c.Group, e.Rank}
	case "missing":
		return &MissingError{Group: c.Group, Op: e.Op, Missing: e.Missing, World: c.World, Err: context.DeadlineExceeded}
	case "mismatch":
		return &MismatchError{Group: c.Group, Rank: e.Rank, What: e.What, Want: e.Want, Has: e.Has}
	}
	return &ProtocolError{fmt.Sprintf("rank %d ended the group: %s %s", e.Rank, e.Reason, e.Text)}
}
