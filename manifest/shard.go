package manifest

import (
	"encoding/binary"
	"slices"
)

// Parameters of kernels that have a part of the vocabulary: where they leave their records; the records of all ranks, which the stage
// Join joins; and the table by which ranks exchange them.
const (
	Records  = "records"
	Gathered = "gathered"
	Peers    = "peers"
)

// The records of a rank are one run of memory: a key for each row that there is room for, u64, and behind the keys, if the kernel's
// records have facts, four f32 for each: the reference and the sum of the shard's log-sum-exp, the score without noise of its best
// token, and the temperature.
const (
	RecordKeyBytes  = 8
	RecordFactBytes = 16
)

// RecordBytes is the size of the records of a rank with room for some rows.
func RecordBytes(facts bool, rows int) int {
	if facts {
		return (RecordKeyBytes + RecordFactBytes) * rows
	}
	return RecordKeyBytes * rows
}

// RecordBytes is the size of the records of one launch with room for some rows.
func (k *Kernel) RecordBytes(rows int) int { return RecordBytes(k.Facts, rows) }

// The table of a rank, in its own device memory: where things lie in it, in bytes. Its kernel counts the epochs (PeerEpoch), and
// notes the first that failed (PeerFailed, 0 for none) and the ranks that were missed (PeerMissing, a bit each). To reset a group,
// all three are zeroed, and the flags of all inboxes, on all ranks, while nothing runs.
const (
	PeerWorld   = 0  // u32: ranks
	PeerRank    = 4  // u32: the rank that has the table
	PeerTimeout = 8  // u64: nanoseconds that it waits for others
	PeerRows    = 16 // u32: rows that records have room for; a multiple of 16, the same on all ranks
	PeerEpoch   = 20 // u32: launches that have exchanged
	PeerFailed  = 24 // u32
	PeerTicket  = 28 // u32: rows that Gather is done with
	PeerMissing = 32 // u32 x MaxRanks/32
	PeerInboxes = 64 // u64 x world: addresses of all ranks' inboxes, as this rank's device reaches them
)

// MaxRanks bounds the ranks of a group.
const MaxRanks = 256

// PeerReports is where the table of one of some ranks says where in every inbox reports begin, in bytes: a u64, behind the inboxes.
func PeerReports(world int) int { return PeerInboxes + 8*world }

// PeerTableBytes is the size of a rank's table.
func PeerTableBytes(world int) int { return PeerReports(world) + 8 }

// PeerTable is what a rank's table holds at first.
type PeerTable struct {
	World, Rank int
	Rows        int      // PeerRows
	Timeout     uint64   // PeerTimeout, nanoseconds
	Inboxes     []uint64 // of all ranks
	Reports     int      // PeerReports: Kernel.ReportStart, or 0 where nothing is reported
}

// Encode lays the table out, for the rank's device memory.
func (t PeerTable) Encode() []byte {
	raw, le := make([]byte, PeerTableBytes(t.World)), binary.LittleEndian
	le.PutUint32(raw[PeerWorld:], uint32(t.World))
	le.PutUint32(raw[PeerRank:], uint32(t.Rank))
	le.PutUint64(raw[PeerTimeout:], t.Timeout)
	le.PutUint32(raw[PeerRows:], uint32(t.Rows))
	for i, inbox := range t.Inboxes {
		le.PutUint64(raw[PeerInboxes+8*i:], inbox)
	}
	le.PutUint64(raw[PeerReports(t.World):], uint64(t.Reports))
	return raw
}

// PeerFlagBytes is a flag, a u32 in a line of memory of its own.
const PeerFlagBytes = 128

// An inbox has flags and records for even epochs, of all ranks, and the same for odd ones: first all flags, then all records. It is
// zero at first, and aligned to 256 bytes.

// PeerFlag is where the flag of a rank stands in an inbox.
func PeerFlag(world, rank int, epoch uint32) int {
	return (int(epoch&1)*world + rank) * PeerFlagBytes
}

// PeerRecords is where the records of a rank begin in an inbox, of records with room for some rows.
func PeerRecords(facts bool, rows, world, rank int, epoch uint32) int {
	return PeerFlag(world, 0, 0) + 2*world*PeerFlagBytes + (int(epoch&1)*world+rank)*RecordBytes(facts, rows)
}

// InboxBytes is the size of an inbox.
func InboxBytes(facts bool, rows, world int) int {
	return 2 * world * (PeerFlagBytes + RecordBytes(facts, rows))
}

// A kernel that collects tokens leaves its records to the stage Gather, and ranks send one another lists beside them. Its inbox has
// flags of every row, then records, then lists: for even epochs of all ranks, and the same for odd ones, each. The list of a row is a
// u32, the tokens listed, at SentPeak its largest logit where the kernel finds it, its marks from SentMarks on, from SentBins on what a survey has counted, u64, and from SentEntries on the
// first SentCandidates tokens.
const (
	SentCandidates = 2048
	SentPeak       = 4
	SentMarks      = 16
	SentBins       = SentMarks + 4*RowMarks
	SentEntries    = SentBins + 8*RowPivots + 16
	SentListBytes  = SentEntries + CandidateBytes*SentCandidates
)

// GatherInboxBytes is the size of an inbox of Gather.
func GatherInboxBytes(facts bool, rows, world int) int {
	return 2 * world * (rows*(PeerFlagBytes+SentListBytes) + RecordBytes(facts, rows))
}

// Stages that report of rows exchange words, ReportWords of a row at a time. Their part of an inbox begins behind the rest, at a multiple of
// 256 bytes, and has flags of every row, then words: for even epochs of all ranks, and the same for odd ones, each. What ranks send of the
// likeliest tokens are SentTops keys of a row, in falling order.
const (
	ReportWords = 64
	SentTops    = ReportWords / 2
)

// SentTopKeys is the parameter where a rank leaves the keys of its likeliest tokens, and finds those of all.
const SentTopKeys = "sent_top_keys"

// ReportInboxBytes is the size of that part.
func ReportInboxBytes(rows, world int) int {
	return 2 * world * rows * (PeerFlagBytes + 4*ReportWords)
}

// ReportStart is where it begins, in an inbox of records with room for some rows.
func (k *Kernel) ReportStart(rows, world int) int {
	bytes := InboxBytes(k.Facts, rows, world)
	if k.Gather != nil {
		bytes = GatherInboxBytes(k.Facts, rows, world)
	}
	return (bytes + 255) &^ 255
}

// InboxBytes is the size of a rank's inbox, of records with room for some rows.
func (k *Kernel) InboxBytes(rows, world int) int {
	if k.TopN > 0 || k.Listed != nil || slices.Contains(k.Outputs, Ranks) {
		return k.ReportStart(rows, world) + ReportInboxBytes(rows, world)
	}
	return k.ReportStart(rows, world)
}
