package reference

// candidate is a token with its compared score.
type candidate struct {
	score float32
	id    int32
}

// beats orders candidates: the larger score, then the lower id. -0 equals +0; NaN never gets here.
func (a candidate) beats(b candidate) bool {
	return a.score > b.score || a.score == b.score && a.id < b.id
}

// best holds a row's two best candidates so far, whether an allowed logit was NaN, and the mass of the tokens since it was
// last put away.
type best struct {
	first, second candidate
	nan           bool
	mass          mass
}

func newBest() best {
	none := candidate{negInf, -1}
	return best{first: none, second: none}
}

// add takes a candidate; one at -inf is no candidate.
func (b *best) add(c candidate) {
	switch {
	case c.score == negInf:
	case c.beats(b.first):
		b.first, b.second = c, b.first
	case c.beats(b.second):
		b.second = c
	}
}

// merge takes the candidates of other tokens of the same row; the result does not depend on the order of merges. Masses,
// whose sum would, stay out of it.
func (b *best) merge(o best) {
	b.add(o.first)
	b.add(o.second)
	b.nan = b.nan || o.nan
}
