package reference

import "context"

// Kept returns how many tokens a row's filters keep, of those that are allowed and above -inf: the fewest and the most that they
// may, where the mass that top-p takes its share of is off by the given share of itself. Kernels that draw from lists know that
// mass from a sum in float32, unless top-k has left them all of it (docs/truncation.md). With 0 both are what the row keeps.
func (r *Request) Kept(ctx context.Context, b int, share float64) (least, most int, err error) {
	y := r.logitsOf(ctx, r.widen(), b, 1)
	if err := ctx.Err(); err != nil {
		return 0, 0, err
	}
	w := r.row(b)
	all := w.candidates(y[0])
	if len(all) == 0 {
		return 0, 0, nil
	}
	t := r.Computation.Truncation
	if w.topK > 0 && w.topK < len(all) {
		share = 0
	}
	return len(w.truncateAt(t, all, len(y[0]), 1-share)), len(w.truncateAt(t, all, len(y[0]), 1+share)), nil
}
