package tiling

import "github.com/fsgen/fsgen/arch"

// chart is what a card does in a microsecond, for Cost. Constants marked "fitted" are those with which the model comes closest
// to the times in testdata/measured.tsv (least squares of relative errors); they stand for what they are named after in the
// kernels as they are, not for what a data sheet says.
type chart struct {
	// bandwidth is the weights that a multiprocessor gets from memory if nothing delays it, rowMajor what row-major ones take
	// in place of packed ones (docs/NOTES.md, section 12).
	bandwidth float64 // bytes a microsecond; fitted
	rowMajor  float64
	// l2 is the bytes a microsecond that a multiprocessor gets from the L2 cache.
	l2 float64
	// clock is the tensor core's cycles in a microsecond, under the power limit; a product of productRows by N by 16 takes N/2
	// of them, or what reading its operands from shared memory takes, 128 bytes a cycle. stage is what each stage costs besides.
	clock       float64 // fitted
	productRows float64
	stage       float64 // microseconds; fitted
	// Of the faster one of weights and products the share `clash` is not hidden behind the slower one, and of hidden states
	// the share `reread`.
	clash, reread float64 // fitted
	// column is what a warpgroup samples a column of 64 rows in, with the noise that it draws; first what more it takes where no
	// row has a best score yet, unless logits are held against limits: then next to nothing. Every other warpgroup that samples with it
	// adds the share `crowd`.
	column, first, crowd float64 // microseconds; fitted
	// launch and cluster are the fixed time of a launch and of one with clusters more; spare the share of the rows past a tile in
	// the first stages that memory has to be read for.
	launch, cluster float64 // microseconds; fitted
	spare           float64 // fitted
	// copy is what the copy engine takes for a row of a stage, 128 bytes; missing for one of hidden states that is not there and that it fills
	// with zeros.
	copy, missing float64 // microseconds; fitted
}

// Of an H200 (132 multiprocessors, 4.6 TB/s measured).
var h200 = chart{
	bandwidth: 5.785e6 / 132, rowMajor: 1.035, l2: 12e6 / 132,
	clock: 1553, productRows: wgmmaM, stage: 0.0767, clash: 0.464, reread: 0.010,
	column: 0.0159, first: 0.0723, crowd: 0.198,
	launch: 5.063, cluster: 1.028, spare: 0.28,
	copy: 0.00127, missing: 0.0050,
}

// Of a B200: an H200's, with the ratio of the data sheets' bandwidths (8 TB/s to 4.8) and the twice as tall product of the same
// cycles. Not measured.
var b200 = chart{
	bandwidth: h200.bandwidth * 132 / 148 * 8 / 4.8, rowMajor: h200.rowMajor, l2: h200.l2,
	clock: h200.clock, productRows: 2 * wgmmaM, stage: h200.stage, clash: h200.clash, reread: h200.reread,
	column: h200.column, first: h200.first, crowd: h200.crowd,
	launch: h200.launch, cluster: h200.cluster, spare: h200.spare,
	copy: h200.copy, missing: h200.missing,
}

// charts are the cards by which tiles are ranked.
var charts = map[string]chart{arch.SM90.Name: h200, arch.SM100.Name: b200}

// tile works out what a tile takes.
func (ch chart) tile(p *Plan, s split, packed bool) times {
	t, depth := p.Tile, s.stages*stageK*elementBytes // bytes of a row
	sharers := float64(t.Cluster)
	weights, hidden, missing := s.rows*depth, float64(t.N)*depth, float64(t.N)-s.live
	if t.Split {
		weights /= sharers
	} else {
		hidden /= sharers
		missing /= sharers
	}
	x := times{weights: weights / ch.bandwidth, hidden: hidden / ch.l2, products: ch.products(t, s)}
	if !packed {
		x.weights *= ch.rowMajor
	}
	loads := max(x.weights, s.stages*(ch.copy*(s.rows+s.live)+ch.missing*missing))
	x.stream = max(loads, x.products) + ch.clash*min(x.weights, x.products) + ch.reread*x.hidden
	x.ahead = loads * float64(t.Stages) * float64(t.M) / (s.rows * s.stages)
	x.fill = ch.spare * float64(t.Stages) * (float64(t.M) - s.rows) * swizzleBytes / ch.bandwidth
	x.sampling, x.first = ch.sampling(p, s)
	return x
}

// products is the tensor core's time of a tile.
func (ch chart) products(t Tile, s split) float64 {
	const stepK, sharedBytes = 16, 128 // a product's K, and shared memory's bytes in a cycle
	n := float64(t.N)
	operands := (ch.productRows + n) * stepK * elementBytes / sharedBytes
	cycles := s.rows / ch.productRows * stageK / stepK * max(n/2, operands)
	return s.stages * (cycles/ch.clock + ch.stage)
}

// sampling is the time that a team samples a tile, and what it takes more in its first. The noise is drawn for all M rows, and
// for columns that no batch row fills too; scores are worked out for those that one does.
func (ch chart) sampling(p *Plan, s split) (usual, first float64) {
	groups := float64(p.Pipeline.Team / warpgroup)
	blocks := float64(p.Tile.M) / wgmmaM / groups * (1 + ch.crowd*(groups-1))
	usual = blocks * ch.column * (float64(p.Tile.N) + s.live) / 2
	if !p.Limited() {
		first = blocks * ch.first * s.live
	}
	return usual, first
}
