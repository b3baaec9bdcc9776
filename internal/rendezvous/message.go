package rendezvous

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
)

// A message is one packet: a header, a note in JSON for some kinds, and the bytes that a rank gave. Its files travel beside it.
//
//	0  magic "fsrv"     4  version uint16     6  kind uint8     7  operation uint8
//	8  rank uint16     10  files uint16      12  note uint32   16  blob uint32    20  sequence uint64
//
// All little-endian. Magic and version stay where they are in every version to come.
type message struct {
	kind  kind
	op    operation
	rank  int // whose blob it is
	files int // how many descriptors belong to it
	seq   uint64
	note  []byte
	blob  []byte
}

const (
	magic       = "fsrv"
	version     = 1
	headerBytes = 28
	maxNote     = 4 << 10
	maxBlob     = 1 + MaxBlob // a decision is a verdict and a blob
	maxMessage  = headerBytes + maxNote + maxBlob
)

type kind uint8

const (
	kindHello  kind = iota + 1 // a rank introduces itself to rank 0; the note is a hello, the blob and files are its own
	kindMember                 // rank 0 passes on what a rank has brought
	kindGather                 // what a rank gives to an operation
	kindEnd                    // the group ends; the note is an ending
	numKinds
)

type operation uint8

const (
	opJoin operation = iota
	opBarrier
	opGather
	opDecision
	numOperations
)

func (o operation) String() string {
	return [...]string{"join", "barrier", "gather", "decision"}[o]
}

// hello is the note by which a rank introduces itself.
type hello struct {
	Group string `json:"group"`
	World int    `json:"world"`
}

// versionError is a message of another version, of which nothing else can be said.
type versionError struct{ theirs int }

func (e *versionError) Error() string {
	return fmt.Sprintf("rendezvous: protocol version %d, want %d", e.theirs, version)
}

// encode lays a message out. Its sizes are the caller's to keep within the limits.
func (m *message) encode() []byte {
	if len(m.note) > maxNote || len(m.blob) > maxBlob || m.files > MaxFiles {
		panic("BUG: rendezvous: message beyond the limits")
	}
	le := binary.LittleEndian
	b := make([]byte, headerBytes, headerBytes+len(m.note)+len(m.blob))
	copy(b, magic)
	le.PutUint16(b[4:], version)
	b[6], b[7] = byte(m.kind), byte(m.op)
	le.PutUint16(b[8:], uint16(m.rank))
	le.PutUint16(b[10:], uint16(m.files))
	le.PutUint32(b[12:], uint32(len(m.note)))
	le.PutUint32(b[16:], uint32(len(m.blob)))
	le.PutUint64(b[20:], m.seq)
	return append(append(b, m.note...), m.blob...)
}

// decode reads a message. It keeps nothing of b.
func decode(b []byte) (message, error) {
	le := binary.LittleEndian
	if len(b) < 6 || string(b[:4]) != magic {
		return message{}, &ProtocolError{fmt.Sprintf("%d bytes that begin %.8q", len(b), b)}
	}
	if v := le.Uint16(b[4:]); v != version {
		return message{}, &versionError{int(v)}
	}
	if len(b) < headerBytes {
		return message{}, &ProtocolError{fmt.Sprintf("%d bytes, less than a header", len(b))}
	}
	m := message{kind: kind(b[6]), op: operation(b[7]), rank: int(le.Uint16(b[8:])), files: int(le.Uint16(b[10:])), seq: le.Uint64(b[20:])}
	note, blob := uint64(le.Uint32(b[12:])), uint64(le.Uint32(b[16:]))
	switch {
	case m.kind == 0 || m.kind >= numKinds || m.op >= numOperations:
		return message{}, &ProtocolError{fmt.Sprintf("kind %d, operation %d", m.kind, m.op)}
	case m.rank >= MaxWorld || m.files > MaxFiles:
		return message{}, &ProtocolError{fmt.Sprintf("rank %d with %d files", m.rank, m.files)}
	case note > maxNote || blob > maxBlob || headerBytes+note+blob != uint64(len(b)):
		return message{}, &ProtocolError{fmt.Sprintf("%d bytes that speak of %d and %d", len(b), note, blob)}
	}
	m.note = bytes.Clone(b[headerBytes : headerBytes+note])
	m.blob = bytes.Clone(b[headerBytes+note:])
	return m, nil
}

// noted makes the note of a message.
func noted(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("BUG: rendezvous: " + err.Error())
	}
	return b
}

// readNote reads the note of a message.
func (m *message) readNote(v any) error {
	if err := json.Unmarshal(m.note, v); err != nil {
		return &ProtocolError{fmt.Sprintf("a note that is none: %v", err)}
	}
	return nil
}
