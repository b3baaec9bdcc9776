package sampler

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fsgen/fsgen/internal/rendezvous"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
)

const maxRanks = manifest.MaxRanks

// PeerError says which ranks were not heard of in time. No row of the call has a token, and the group cannot go on: its ranks may be
// out of step.
type PeerError struct {
	Missing []int
	World   int
	// Rank is the one that waited, and Epoch its exchange of the plan, counted from 1.
	Rank    int
	Epoch   uint32
	Timeout time.Duration
}

func (e *PeerError) Error() string {
	var names []string
	for _, r := range e.Missing {
		names = append(names, fmt.Sprint(r))
	}
	return fmt.Sprintf("sampler: rank %d of %d waited %v in exchange %d and did not hear of rank %s", e.Rank, e.World, e.Timeout, e.Epoch, strings.Join(names, ", "))
}

// What a group of several processes ends with: MissingError says which ranks had not come when the time was up, LostError whose
// process died, LeftError who closed the group, and MismatchError who did something else than the others.
type (
	MissingError  = rendezvous.MissingError
	LostError     = rendezvous.LostError
	LeftError     = rendezvous.LeftError
	MismatchError = rendezvous.MismatchError
)

// CheckGroupName refuses names that no group can have.
func CheckGroupName(name string) error {
	if rendezvous.CheckName(name) != nil {
		return &InputError{"group name", rendezvous.NameRule, fmt.Sprintf("%.80q", name)}
	}
	return nil
}

// TransportError says why a transport cannot be used.
type TransportError struct {
	Transport Transport
	Err       error
}

func (e *TransportError) Error() string {
	return fmt.Sprintf("sampler: transport %s: %v", e.Transport, e.Err)
}

// Unwrap returns the reason.
func (e *TransportError) Unwrap() error { return e.Err }

// RoomError says that what ranks would exchange for a plan does not fit in their inboxes, beside the group's other plans.
type RoomError struct {
	// Bytes are what the plan needs, Room what there is for all plans (GroupConfig.ExchangeBytes), Others how many others there are.
	Bytes, Room, Others int
	// MaxBatch is a Spec.MaxBatch with which the plan fits, 0 if there is none. Larger batches are sampled in pieces.
	MaxBatch int
}

func (e *RoomError) Error() string {
	text := fmt.Sprintf("sampler: ranks have %d bytes to exchange all plans' records in, and this plan takes %d", e.Room, e.Bytes)
	if e.Others > 0 {
		text += fmt.Sprintf(" beside %d others", e.Others)
	}
	if e.MaxBatch > 0 {
		text += fmt.Sprintf(": a largest batch of %d fits", e.MaxBatch)
	}
	return text
}

// failedPeers reports whether an exchange has failed: of lists, that of some rows may have.
func failedPeers(status []ir.Status) bool { return slices.Contains(status, ir.StatusPeer) }

// peerErrorOf reads in a rank's table whom it missed.
func peerErrorOf(table []byte, timeout time.Duration) *PeerError {
	word := func(at int) uint32 { return binary.LittleEndian.Uint32(table[at:]) }
	e := &PeerError{World: int(word(manifest.PeerWorld)), Rank: int(word(manifest.PeerRank)), Epoch: word(manifest.PeerFailed), Timeout: timeout}
	var words []uint32
	for i := range maxRanks / 32 {
		words = append(words, word(manifest.PeerMissing+4*i))
	}
	e.Missing = missingRanks(words, e.World)
	return e
}

// missingRanks reads the ranks that a table names.
func missingRanks(words []uint32, world int) (ranks []int) {
	for rank := range world {
		if words[rank/32]>>(rank%32)&1 != 0 {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}
