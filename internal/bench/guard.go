package bench

import (
	"fmt"

	"github.com/fsgen/fsgen/ir"
)

// poison fills a kernel's outputs before it runs: neither a token nor a status, nor ir.NoToken.
const poison = -0x5A5A5A5B

// checkTokens holds what a kernel wrote, onto poison, to what any sample of any row is: it judges whether the kernel ran,
// not whether it is right, which fsgen verify does.
func checkTokens(tokens, status []int32, vocab int) error {
	for row, t := range tokens {
		switch {
		case t == poison || status[row] == poison:
			return fmt.Errorf("row %d was not written", row)
		case ir.Status(status[row]) != ir.StatusOK:
			return fmt.Errorf("row %d was not sampled: status %s", row, ir.Status(status[row]))
		case t < 0 || int(t) >= vocab:
			return fmt.Errorf("row %d has token %d of a vocabulary of %d", row, t, vocab)
		}
	}
	return nil
}

// sameTokens compares the tokens of two runs on the same inputs.
func sameTokens(want, got []int32) error {
	if len(want) != len(got) {
		return fmt.Errorf("%d tokens: want %d", len(got), len(want))
	}
	for row := range want {
		if want[row] != got[row] {
			return fmt.Errorf("row %d has token %d, and %d in another run on the same inputs", row, got[row], want[row])
		}
	}
	return nil
}
