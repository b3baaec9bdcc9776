package autotune

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/fsgen/fsgen/gen"
)

// Schema is the version of entries and of the way in which candidates are measured; entries of others are misses.
const Schema = 1

// Entry is what was found for one key.
type Entry struct {
	Schema int `json:"schema"`
	Key
	// Candidate is the winner's name, PTXSHA256 the hash of the kernel that was verified and timed: templates that have
	// changed since make the entry foreign, whatever version they call themselves.
	Candidate string `json:"candidate"`
	PTXSHA256 string `json:"ptx_sha256"`
	// Microseconds is the median of a launch's time in the last round, Spread the median absolute deviation, and Default the
	// default tile's median in the passes of its last round; 0 if that was never timed.
	Microseconds float64 `json:"microseconds"`
	Spread       float64 `json:"spread_microseconds"`
	Default      float64 `json:"default_microseconds"`
}

// newEntry makes the entry of a search's winner.
func newEntry(k Key, r gen.Request, res *Result) (*Entry, error) {
	w := res.Winner()
	e := &Entry{Schema: Schema, Key: k, Candidate: w.Candidate.String(), Microseconds: thousandths(w.Microseconds),
		Spread: thousandths(w.Spread), Default: thousandths(res.Measured[0].Microseconds)}
	a, _, err := e.emit(r)
	if err != nil {
		return nil, err
	}
	e.PTXSHA256 = a.Manifest.PTXSHA256
	return e, e.validate()
}

// thousandths rounds microseconds to nanoseconds.
func thousandths(us float64) float64 { return math.Round(us*1000) / 1000 }

// emit makes the kernel of the entry's candidate for a request.
func (e *Entry) emit(r gen.Request) (*gen.Artifact, Candidate, error) {
	c, err := ParseCandidate(e.Candidate)
	if err != nil {
		return nil, c, err
	}
	r.Tile = c.Tile
	a, err := gen.Emit(r)
	return a, c, err
}

// rank is the place of the entry's tile in the model's order; see Rank.
func (e *Entry) rank(r gen.Request) (rank, of int) {
	c, err := ParseCandidate(e.Candidate)
	if err != nil { // an entry is validated where it is made or read
		panic("BUG: " + err.Error())
	}
	return Rank(r, c)
}

// errOtherKernel says that an entry was measured with a kernel that the generator makes no more.
var errOtherKernel = errors.New("autotune: measured with another version of the kernel")

// current makes the kernel of the entry's candidate, if it is still the one that was measured.
func (e *Entry) current(r gen.Request) (*gen.Artifact, Candidate, error) {
	a, c, err := e.emit(r)
	if err == nil && a.Manifest.PTXSHA256 != e.PTXSHA256 {
		err = errOtherKernel
	}
	return a, c, err
}

func (e *Entry) validate() error {
	if e.Schema != Schema {
		return fmt.Errorf("autotune: entry of schema %d, want %d", e.Schema, Schema)
	}
	if _, err := ParseCandidate(e.Candidate); err != nil {
		return err
	}
	if sum, err := hex.DecodeString(e.PTXSHA256); err != nil || len(sum) != 32 {
		return fmt.Errorf("autotune: entry with ptx_sha256 %q", e.PTXSHA256)
	}
	for _, us := range []float64{e.Microseconds, e.Spread, e.Default} {
		if !(us >= 0) || math.IsInf(us, 1) {
			return fmt.Errorf("autotune: entry with a time of %v microseconds", us)
		}
	}
	if e.Microseconds == 0 {
		return errors.New("autotune: entry without a time")
	}
	return e.Key.validate()
}

// canonical is a value as one line of JSON: the same value, the same bytes.
func canonical(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(fmt.Sprintf("BUG: autotune: %v", err))
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// decodeStrict reads one JSON value and nothing else; fields that it does not know are errors.
func decodeStrict(data []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return fmt.Errorf("autotune: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return errors.New("autotune: something follows the JSON value")
	}
	return nil
}

func decodeEntry(data []byte) (*Entry, error) {
	e := &Entry{}
	if err := decodeStrict(data, e); err != nil {
		return nil, err
	}
	return e, e.validate()
}
