package ir

import "fmt"

// TokenBias is an entry of a sparse bias: Value is added to the logit of the token ID.
type TokenBias struct {
	ID    int32
	Value float32
}

// TokenCount is an entry of sparse counts: Count holds CountPrompt and the count of the output.
type TokenCount struct {
	ID    int32
	Count uint32
}

// IDError says which id of a list is wrong, and what the list wants.
type IDError struct {
	ID   int32
	Rule string
}

func (e *IDError) Error() string { return fmt.Sprintf("ir: id %d: want %s", e.ID, e.Rule) }

// ValidIDs reports the first id outside a vocabulary, as the other checks of lists do by an *IDError.
func ValidIDs(ids []int32, vocab int) *IDError {
	for _, id := range ids {
		if id < 0 || int(id) >= vocab {
			return &IDError{id, fmt.Sprintf("ids from 0 to %d", vocab-1)}
		}
	}
	return nil
}

// ValidBias reports the first entry of a sparse bias with an id outside the vocabulary or named before, or that is no number.
func ValidBias(list []TokenBias, vocab int) *IDError {
	ids := make([]int32, len(list))
	for i, e := range list {
		ids[i] = e.ID
		if e.Value != e.Value {
			return &IDError{e.ID, "a bias other than NaN"}
		}
	}
	return validDistinct(ids, vocab)
}

// ValidCounts reports the first entry of sparse counts with an id outside the vocabulary or named before.
func ValidCounts(list []TokenCount, vocab int) *IDError {
	ids := make([]int32, len(list))
	for i, e := range list {
		ids[i] = e.ID
	}
	return validDistinct(ids, vocab)
}

func validDistinct(ids []int32, vocab int) *IDError {
	if err := ValidIDs(ids, vocab); err != nil {
		return err
	}
	seen := make(map[int32]bool, len(ids))
	for _, id := range ids {
		if seen[id] {
			return &IDError{id, "every id once"}
		}
		seen[id] = true
	}
	return nil
}

// ValidSlots reports the first slot outside [0, slots).
func ValidSlots(rows []int32, slots int) (row int, err error) {
	for i, s := range rows {
		if s < 0 || int(s) >= slots {
			return i, fmt.Errorf("0 to %d", slots-1)
		}
	}
	return 0, nil
}

// ValidDraws reports a number of draws that a row cannot have.
func ValidDraws(n, most int) error {
	if n < 1 || n > most {
		return fmt.Errorf("1 to %d", most)
	}
	return nil
}
