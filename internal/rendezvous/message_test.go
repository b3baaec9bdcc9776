package rendezvous

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Whatever comes over a socket is a message, which is written as it was read, or an error.
func FuzzDecode(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("fsrv"))
	for _, m := range []message{
		{kind: kindHello, rank: 3, files: 2, note: noted(hello{"group", 4}), blob: []byte("blob")},
		{kind: kindGather, op: opDecision, rank: MaxWorld - 1, seq: 1<<64 - 1, blob: make([]byte, maxBlob)},
		{kind: kindEnd, note: noted(ending{Reason: "missing", Missing: []int{1, 3}, Op: "join"})},
	} {
		f.Add(m.encode())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decode(b)
		if err != nil {
			assert.True(t, errors.As(err, new(*ProtocolError)) || errors.As(err, new(*versionError)), "%v", err)
			return
		}
		require.True(t, bytes.Equal(b, m.encode()))
		var h hello
		var e ending
		if m.readNote(&h) == nil && m.readNote(&e) == nil {
			err := e.err(&Config{Group: "g", World: 4})
			require.Error(t, err)
			require.LessOrEqual(t, len(endingOf(err, 1).note()), maxNote, "what is passed on fits a message")
		}
	})
}

func TestEndingsTravel(t *testing.T) {
	c := &Config{Group: "g", World: 4}
	for _, err := range []error{
		&LostError{Group: "g", Rank: 2, PID: 77}, &LostError{Group: "g", Rank: 2, Err: errors.New("reset")}, &LeftError{"g", 3},
		&MissingError{"g", "join", []int{1, 2}, 4, context.DeadlineExceeded}, &MismatchError{"g", 1, "world size", "4", "3"},
	} {
		assert.Equal(t, err, endingOf(err, 0).err(c))
	}
	assert.Equal(t, &LeftError{"g", 2}, endingOf(ErrClosed, 2).err(c))
	assert.Equal(t, &LeftError{"g", 2}, endingOf(&MissingError{"g", "join", nil, 4, context.Canceled}, 2).err(c))
	long := endingOf(&MismatchError{"g", 1, "operation", strings.Repeat("<", 1000), "y"}, 0)
	assert.Equal(t, `{"reason":"mismatch","rank":1}`, string(long.note()), "what does not fit a message is left out")
	assert.EqualError(t, endingOf(&ProtocolError{"nonsense"}, 2).err(c),
		"rendezvous: not a message of the protocol: rank 2 ended the group: protocol nonsense")
}

func TestLimitsOfMessages(t *testing.T) {
	good := message{kind: kindGather, op: opGather, rank: 1, blob: []byte("x")}
	for i, change := range []func(b []byte) []byte{
		func(b []byte) []byte { return b[:27] }, func(b []byte) []byte { return append(b, 0) }, func(b []byte) []byte { return b[:len(b)-1] },
		func(b []byte) []byte { b[0]++; return b }, func(b []byte) []byte { b[6] = 0; return b },
		func(b []byte) []byte { b[6] = byte(numKinds); return b }, func(b []byte) []byte { b[7] = byte(numOperations); return b },
		func(b []byte) []byte { b[9] = 1; return b }, func(b []byte) []byte { b[10] = MaxFiles + 1; return b },
		func(b []byte) []byte { b[12]++; return b }, func(b []byte) []byte { b[19] = 0xff; return b },
	} {
		_, err := decode(change(good.encode()))
		assert.ErrorAs(t, err, new(*ProtocolError), "%d", i)
	}
	assert.Panics(t, func() { (&message{kind: kindHello, blob: make([]byte, maxBlob+1)}).encode() })
}
