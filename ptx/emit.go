package ptx

import "github.com/fsgen/fsgen/internal/isa"

//go:generate go run github.com/fsgen/fsgen/ptx/internal/gen/write

// byCount finds the alternative of a slot that counts n; 0 (no choice, reported by check) if there is none.
func byCount(row *isa.Row, slot, n int) uint8 {
	for i, a := range row.Slots[slot].Alts {
		if a.N == n {
			return uint8(i + 1)
		}
	}
	return 0
}

// byText finds the alternative of a slot by its spelling; 0 if there is none.
func byText(row *isa.Row, slot int, text string) uint8 {
	for i, a := range row.Slots[slot].Alts {
		if a.Text == text {
			return uint8(i + 1)
		}
	}
	return 0
}

func special(text string) Special {
	s, ok := isa.SpecialByText(text)
	if !ok {
		panic("BUG: ptx: no special register " + text)
	}
	return Special{s}
}
