package sampler

// part is the batch of n rows from a first on.
func (b *batch) part(first, n int) *batch {
	if first == 0 && n == b.rows {
		return b
	}
	p := *b
	p.rows, p.hidden = n, b.hidden[first*b.shape.Hidden:(first+n)*b.shape.Hidden]
	if b.params.Slots != nil { // and nothing else is by rows
		p.params.Slots = b.params.Slots[first : first+n]
		return &p
	}
	p.slots = n
	p.seeds, p.pos, p.temp = few(b.seeds, first, n), few(b.pos, first, n), few(b.temp, first, n)
	p.bias, p.mask = b.bias[min(first*b.biasRow, len(b.bias)):], b.mask[min(first*b.maskRow, len(b.mask)):]
	r := &p.params
	r.Repetition, r.Frequency, r.Presence = few(r.Repetition, first, n), few(r.Frequency, first, n), few(r.Presence, first, n)
	r.TopK, r.TopP, r.MinP = few(r.TopK, first, n), few(r.TopP, first, n), few(r.MinP, first, n)
	r.ListIDs, p.drawCounts = few(r.ListIDs, first, n), few(b.drawCounts, first, n)
	r.Counts = r.Counts[min(first*r.CountStride, len(r.Counts)):]
	r.CountLists, r.BiasLists = few(r.CountLists, first, n), few(r.BiasLists, first, n)
	r.AllowIDs, r.BanIDs = few(r.AllowIDs, first, n), few(r.BanIDs, first, n)
	return &p
}

// few are the values of some rows, of one for each or one for all.
func few[T any](values []T, first, n int) []T {
	if len(values) < 2 {
		return values
	}
	return values[first : first+n]
}

// append adds the rows of another result, of the same plan, but for seeds and passes.
func (r *Result) append(o *Result) {
	r.Tokens, r.Status = append(r.Tokens, o.Tokens...), append(r.Status, o.Status...)
	r.Scores, r.LogSumExp, r.LogProbs = append(r.Scores, o.Scores...), append(r.LogSumExp, o.LogSumExp...), append(r.LogProbs, o.LogProbs...)
	r.Draws, r.DrawScores, r.Ranks = append(r.Draws, o.Draws...), append(r.DrawScores, o.DrawScores...), append(r.Ranks, o.Ranks...)
	r.TopIDs, r.TopLogProbs, r.ListLogProbs = append(r.TopIDs, o.TopIDs...), append(r.TopLogProbs, o.TopLogProbs...), append(r.ListLogProbs, o.ListLogProbs...)
	r.Passes, r.Kernel = append(r.Passes, o.Passes...), o.Kernel
}
