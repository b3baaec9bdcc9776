package templates

import (
	"math"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/ptx"
)

// The kernel that gives the log-probabilities of lists of ids. What a list asks for is a few rows of the weights, which whoever
// multiplies them with everything would have to look for in its accumulators: here a warp fetches one row of the weights and
// multiplies it with one hidden state, in float32 and in a fixed order. The sums of the rows are the first kernel's (writeMass), and
// so is the log-probability of the token that it sampled.
//
// A pair is a row and a place in its list. Any number of CTAs does: warps take pairs in turns.

// Shape of a CTA.
const (
	listedThreads = 256
	listedWarps   = listedThreads / warpSize
)

// listedRounding is how far the logits of this kernel may lie from those of the tensor core, in sizes of a logit: a log-probability
// that comes no nearer to 0 is 0, as that of a token which has all the mass must be. mostRounding bounds it where T is low.
const (
	listedRounding = 0x1p-20
	mostRounding   = 0x1p-12
)

// lister builds the kernel. Of samplers it has what knows a row's parameters: there is no tile. The computation is that whose scores
// are summed.
type lister struct {
	*samplers
	options Options
	product product

	pairs, step   ptx.B32 // in all, and warps of the grid
	pair          ptx.B32
	length        ptx.B32 // of a list
	ids, out      ptx.B64
	idStride      ptx.B32
	masses        ptx.B64
	tokens, state ptx.B64
	logProb       ptx.B64

	narrows              bool // filters narrow rows
	keptRows, candidates ptx.B64
}

// newListed adds the kernel to the module of the kernel that samples.
func newListed(m *ptx.Module, c ir.Computation, o Options, name string) *Stage {
	f := m.Entry(name)
	f.Reqntid(listedThreads, 1, 1)
	narrows := reportsKept(c)
	whole := c.Summed()
	c = whole
	c.Chain = whole.Chain.Unedited()
	k := &skeleton{f: f, c: c, whole: whole, options: o, base: ir.Base(c), sum: newSumGraphs(c, c), sig: &params{signature: signature{f: f, sets: setsOf(c)}}}
	l := &lister{samplers: &samplers{skeleton: k}, options: o, narrows: narrows}
	l.begin()
	f.Comment("A warp for each id of each row.")
	done, past := f.Label("done"), f.Pred("past")
	loop := f.Here("next_pair")
	f.SetpU32(ptx.GE, past, l.pair, l.pairs)
	f.Bra(done).If(past)
	l.tell()
	f.AddU32(l.pair, l.pair, l.step)
	f.Bra(loop)
	f.Place(done)
	f.Ret()
	return &Stage{f, k.sig.finish(), listedThreads, 0}
}

// begin declares and loads the parameters, and gives the warp its first pair.
func (l *lister) begin() {
	f, s := l.f, l.sig
	l.product.declare(s, l.options)
	s.vocab, s.width, s.batch = s.scalar(ParamVocab), s.scalar(ParamHiddenSize), s.scalar(ParamBatch)
	s.addSpan(l.c)
	s.addSlots(l.c)
	if l.c.Chain.Temperature {
		s.temperature, s.temperatureStride = s.rows(ParamTemperature, "f32", ParamTemperatureStride)
	}
	s.addBiasAndMask(l.whole)
	s.addEdits(l.whole.Chain)
	ids, stride := s.rows(ParamListIDs, "i32", ParamListStride)
	length := s.scalar(ParamListLength)
	masses := s.pointer(ParamMasses, "f32", "batch x 2", "scratch")
	tokens, status := s.pointer(ParamTokens, "i32", "batch", "read"), s.pointer(ParamStatus, "i32", "batch", "read")
	logProb := s.pointer(ParamLogProb, "f32", "batch", "read")
	out := s.pointer(ParamListLogProbs, "f32", "batch x list_length", "write")
	var keptRows, candidates ptx.Param
	if l.narrows {
		keptRows, candidates = s.keptRows("scratch"), s.pointer(ParamCandidates, "u32", "batch x 8192 x 4", "scratch")
	}

	l.tid, l.lane, l.pair, l.step = f.B32("thread"), f.B32("lane"), f.B32("pair"), f.B32("warps")
	f.MovB32(l.tid, ptx.TidX)
	f.AndB32(l.lane, l.tid, ptx.Imm(warpSize-1))
	f.GriddepcontrolLaunchDependents()
	f.GriddepcontrolWait()
	l.vocab, l.batch = loadU32(f, s.vocab, "vocab"), loadU32(f, s.batch, "batch")
	rows := l.vocab
	if l.sharded() {
		l.dealShard()
		rows = l.dealt
	}
	l.product.load(f, s, rows)
	l.loadSlots()
	l.loadChain()
	l.ids, l.idStride, l.length = loadPointer(f, ids, "list_ids"), loadU32(f, stride, "list_stride"), loadU32(f, length, "list_length")
	l.masses, l.tokens, l.state = loadPointer(f, masses, "masses"), loadPointer(f, tokens, "tokens"), loadPointer(f, status, "status")
	l.logProb, l.out = loadPointer(f, logProb, "logprob"), loadPointer(f, out, "list_logprobs")
	if l.narrows {
		l.keptRows, l.candidates = loadPointer(f, keptRows, "kept_rows"), loadPointer(f, candidates, "candidates")
	}
	warp, cta := f.B32("warp"), f.B32("cta")
	f.ShrU32(warp, l.tid, ptx.Imm(5))
	f.MovB32(cta, ptx.CtaidX)
	f.MadLoU32(l.pair, cta, ptx.Imm(listedWarps), warp)
	f.MovB32(l.step, ptx.NctaidX)
	f.MulLoU32(l.step, l.step, ptx.Imm(listedWarps))
	l.pairs = f.B32("pairs")
	f.MulLoU32(l.pairs, l.batch, l.length)
}

// tell writes the log-probability of the warp's pair: NaN where the row has no token, or the id is none.
func (l *lister) tell() {
	f := l.f
	row, before, place, log := f.B32("row"), f.B32(), f.B32("place"), f.F32("log_probability")
	f.DivU32(row, l.pair, l.length)
	f.MulLoU32(before, row, l.length)
	f.SubU32(place, l.pair, before)
	f.MovB32(log, ptx.Imm(floatNaN))
	status, failed, write := f.B32("row_status"), f.Pred("failed"), f.Label("write_pair")
	f.LdGlobalB32(status, rowAddr(f, l.state, row))
	f.SetpU32(ptx.NE, failed, status, ptx.Imm(int64(ir.StatusOK)))
	f.Bra(write).If(failed)
	slot := l.slotOf(row).index // a row that has not failed has one
	id, none, index := f.B32("token"), f.Pred("no_token"), f.B32()
	f.MadLoU32(index, slot, l.idStride, place)
	f.LdGlobalB32(id, rowAddr(f, l.ids, index))
	f.SetpU32(ptx.GE, none, id, l.vocab) // a negative one is large
	f.Bra(write).If(none)
	l.notOwned(id, log, write)
	l.sampled(row, id, log, write)
	if l.narrows && l.c.LogProb == ir.ProcessedLogProb {
		l.amongKept(row, slot, id, log, write)
	}
	f.MovF32(log, l.logProbOfID(row, slot, id))
	f.Place(write)
	first := f.Pred("first_lane")
	f.SetpU32(ptx.EQ, first, l.lane, ptx.Imm(0))
	f.StGlobalF32(rowAddr(f, l.out, l.pair), log).If(first)
}

// notOwned ends an id that is another rank's: what is told of it is 0, below what that one tells (reportListed).
func (l *lister) notOwned(id ptx.B32, log ptx.F32, write *ptx.Label) {
	if !l.sharded() {
		return
	}
	f, own, on := l.f, l.f.Pred("own_id"), l.f.Label("own_token")
	l.rowOf(own, id)
	f.Bra(on).If(own)
	f.MovF32(log, ptx.F32Imm(0))
	f.Bra(write)
	f.Place(on)
}

// weightRow is the row of the weights that has an id.
func (l *lister) weightRow(id ptx.B32) ptx.B32 {
	if !l.sharded() {
		return id
	}
	row := l.rowOf(l.f.Pred("own_id"), id)
	if !l.packed() { // which have rows for the lead
		l.leaveLead(row)
	}
	return row
}

// sampled takes the log-probability of the token that was sampled from where the first kernel left it, so that both are the same.
func (l *lister) sampled(row, id ptx.B32, log ptx.F32, write *ptx.Label) {
	f := l.f
	token, is := f.B32("sampled"), f.Pred("is_sampled")
	f.LdGlobalB32(token, rowAddr(f, l.tokens, row))
	f.SetpB32(ptx.EQ, is, token, id)
	f.LdGlobalF32(log, rowAddr(f, l.logProb, row)).If(is)
	f.Bra(write).If(is)
}

// logProbOfID is the log-probability of a token of a row whose parameters are in a slot.
func (l *lister) logProbOfID(row, slot, id ptx.B32) ptx.F32 {
	f := l.f
	total := pair{f.F32("largest"), f.F32("sum")}
	addr := f.B64()
	f.MadWideU32(addr, row, ptx.Imm(8), l.masses)
	f.LdGlobalV2F32([]ptx.F32{total.largest, total.sum}, addr)
	alpha, tau, scale := l.scalesOf(slot)
	if l.narrows {
		alpha, tau, scale = l.narrowedScales(loadKept(f, l.c, l.keptRows, row, l.temperatureOf(row)), alpha, tau, scale)
	}
	y := l.product.of(f, l.lane, row, l.weightRow(id))
	z := l.baseOf(y, alpha, slot, id)
	log := l.logProbOf(total, tau, scale, z)
	return l.withoutRounding(log, y, alpha, scale)
}

// baseOf is the score without noise of a token whose product is y.
func (l *lister) baseOf(y, alpha ptx.F32, slot, id ptx.B32) ptx.F32 {
	f, in := l.f, newInputs(l.editedLogit(y, slot, id))
	in.f[ir.InAlpha], in.f[ir.InPad] = alpha, f.F32("pad")
	f.MovF32(in.f[ir.InPad], ptx.F32Imm(0))
	l.addInputs(in, slot, id)
	z, isNaN := lower(f, l.base, in), f.Pred("is_nan")
	f.SetpF32(ptx.NAN, isNaN, z, z)
	f.MovB32(z, ptx.Imm(floatMinusInf)).If(isNaN) // of a token that is not allowed
	return z
}

// amongKept is the log-probability of a token of a row that filters narrow among what is kept, -inf of one that is not. What the row's
// list has is told by the first kernel's own logit, as the cut was made; a token that it has not is not kept if the list has all that
// is, and else stands far from the cut, so that the product tells.
func (l *lister) amongKept(row, slot, id ptx.B32, log ptx.F32, write *ptx.Label) {
	f, k, plain := l.f, loadKept(l.f, l.c, l.keptRows, row, l.temperatureOf(row)), l.f.Label("not_narrowed")
	f.Bra(plain).If(k.plain)
	z, found := l.seekListed(k, row, id)
	whole, told := f.Pred("has_all"), f.Label("logit_known")
	f.MovB32(log, ptx.Imm(floatMinusInf))
	f.Bra(told).If(found)
	f.SetpU32(ptx.EQ, whole, k.kind, ptx.Imm(keptList))
	f.Bra(write).If(whole)
	one, y := f.F32("one"), l.product.of(f, l.lane, row, l.weightRow(id))
	f.MovF32(one, ptx.F32Imm(1))
	f.MovF32(z, l.baseOf(y, one, slot, id))
	f.Place(told)
	key, some := f.B64("rank_key"), f.Pred("some_mass")
	rankKey(f, key, z, id)
	kept := k.has(f, l.vocab, z, key)
	f.SetpAndF32(ptx.GT, some, z, ptx.F32Imm(math.Inf(-1)), kept)
	f.MovF32(log, k.logProb(f, z)).If(some)
	f.Bra(write)
	f.Place(plain)
}

// seekListed looks for a token in its row's list, all lanes at once.
func (l *lister) seekListed(k keptRow, row, id ptx.B32) (z ptx.F32, found ptx.Pred) {
	f, i, past, end, lanes, at, addr := l.f, l.f.B32("entry"), l.f.Pred("past"), l.f.Label("list_sought"), l.f.B32("finders"), l.f.B32("finder"), l.f.B64()
	z, found = f.F32("z"), f.Pred("is_listed")
	f.MovF32(z, ptx.F32Imm(0))
	f.MovB32(lanes, ptx.Imm(0))
	f.MovB32(i, ptx.Imm(0))
	loop := f.Here("seek_listed")
	f.SetpU32(ptx.GE, past, i, k.count)
	f.Bra(end).If(past)
	own, there, is, words := f.B32(), f.Pred("has_entry"), f.Pred("is_token"), f.NewB32s("entry", 2)
	f.AddU32(own, i, l.lane)
	f.SetpU32(ptx.LT, there, own, k.count)
	f.MadLoU32(own, row, ptx.Imm(manifest.RowCandidates), own)
	f.MadWideU32(addr, own, ptx.Imm(manifest.CandidateBytes), l.candidates)
	f.MovB32(words[0], ptx.Imm(0))
	f.MovB32(words[1], imm(f, ir.NoToken))
	f.LdGlobalV2B32(words, addr).If(there)
	f.SetpAndU32(ptx.EQ, is, words[1], id, there)
	f.VoteSyncBallotB32(lanes, is, ptx.Imm(fullWarp))
	f.BrevB32(at, lanes)
	f.ClzB32(at, at)
	f.MinU32(at, at, ptx.Imm(warpSize-1))
	f.ShflSyncIdxB32(words[0], words[0], at, ptx.Imm(warpSize-1), ptx.Imm(fullWarp))
	f.MovB32(z, words[0])
	f.AddU32(i, i, ptx.Imm(warpSize))
	f.SetpU32(ptx.EQ, past, lanes, ptx.Imm(0))
	f.Bra(loop).If(past)
	f.Place(end)
	f.SetpU32(ptx.NE, found, lanes, ptx.Imm(0))
	return z, found
}

// scalesOf are the alpha of the row that has its parameters in a slot, and its sums' tau and scale; without a temperature none is set
// but alpha, to 1.
func (c *samplers) scalesOf(slot ptx.B32) (alpha, tau, scale ptx.F32) {
	f := c.f
	alpha = f.F32("alpha")
	f.MovF32(alpha, ptx.F32Imm(1))
	if !c.scaledSums() {
		return alpha, tau, scale
	}
	t, tau := f.F32("temperature"), f.F32("tau")
	if c.c.Chain.Temperature {
		f.LdGlobalF32(t, c.perRow(c.temps, slot, c.tempStride, 4))
	} else {
		f.MovF32(t, ptx.F32Imm(1))
	}
	splitTemperature(f, t, f.Pred("above_one"), alpha, tau)
	tau = c.sumTau(tau)
	return alpha, tau, c.rowScale(tau)
}

// addInputs loads a token's bias and mask bit.
func (l *lister) addInputs(in inputs, slot, id ptx.B32) {
	f := l.f
	if l.c.Chain.Bias != ir.BiasNone {
		addr := rowAddr(f, l.biasBase, id)
		if l.c.Chain.Bias == ir.BiasMatrix {
			f.MadWideU32(addr, slot, l.biasStride, addr)
		}
		in.f[ir.InBias] = f.F32("bias")
		f.LdGlobalF32(in.f[ir.InBias], addr)
	}
	if !l.c.Chain.Mask {
		return
	}
	index, word, there, allowed := f.B32("mask_word_index"), f.B32("mask_word"), f.Pred("has_mask"), f.Pred("allowed")
	f.ShrU32(index, id, ptx.Imm(5))
	f.SetpU32(ptx.LT, there, index, l.maskWords)
	addr := rowAddr(f, l.maskBase, index)
	f.MadWideU32(addr, slot, l.maskStride, addr)
	f.MovB32(word, ptx.Imm(0))
	f.LdGlobalB32(word, addr).If(there)
	f.AndB32(word, word, l.maskBitOf(id))
	f.SetpB32(ptx.NE, allowed, word, ptx.Imm(0))
	in.p[ir.InAllowed] = allowed
}

// withoutRounding is 0 for what is as near to 0 as the rounding of a logit.
func (l *lister) withoutRounding(log, y, alpha, scale ptx.F32) ptx.F32 {
	f := l.f
	factor := float32(listedRounding)
	if s := l.whole.Chain.Scale; s != 0 {
		factor *= float32(math.Abs(float64(s)))
	}
	size, d, near := f.F32("rounding"), f.F32("log_probability"), f.Pred("near_0")
	f.AbsF32(size, y)
	f.MulF32(size, size, ptx.F32Imm(factor), ptx.RN)
	if l.scaledSums() {
		f.MulF32(size, size, alpha, ptx.RN)
		f.MulF32(size, size, scale, ptx.RN)
		f.MulF32(size, size, ptx.F32Imm(math.Ln2), ptx.RN)
	}
	f.MinF32(size, size, ptx.F32Imm(mostRounding))
	f.NegF32(size, size)
	f.SetpF32(ptx.GE, near, log, size)
	f.SelpF32(d, ptx.F32Imm(0), log, near)
	return d
}

// product multiplies a row of the weights with one of the hidden states. Lanes take units of 8 columns in turns, four at a time.
type product struct {
	packed                                            bool
	weightsAt, weightStrideAt, hiddenAt, hiddenStride ptx.Param

	weights, hidden ptx.B64
	weightStride    ptx.B64 // bytes from row to row, or from panel to panel
	hiddenBytes     ptx.B32 // from row to row
	width           ptx.B32
}

const (
	unitColumns = 8
	unitBytes   = 2 * unitColumns
	unitsAtOnce = 4
)

// declare declares the matrices.
func (p *product) declare(s *params, o Options) {
	if p.packed = o.Layout() == manifest.Packed; p.packed {
		p.weightsAt = s.pointer(ParamPackedWeights, "bf16", "vocab x hidden_size, packed", "read")
	} else {
		p.weightsAt = s.pointer(ParamWeightRows, "bf16", "vocab x weight_stride, hidden_size of each", "read")
		p.weightStrideAt = s.scalar(ParamWeightStride)
	}
	p.hiddenAt = s.pointer(ParamHiddenRows, "bf16", "batch x hidden_stride, hidden_size of each", "read")
	p.hiddenStride = s.scalar(ParamHiddenStride)
}

// load loads them; the weights have so many rows.
func (p *product) load(f *ptx.Func, s *params, all ptx.B32) {
	p.weights, p.hidden = loadPointer(f, p.weightsAt, "weights"), loadPointer(f, p.hiddenAt, "hidden")
	p.width, p.hiddenBytes, p.weightStride = loadU32(f, s.width, "hidden_size"), loadU32(f, p.hiddenStride, "hidden_stride"), f.B64("weight_bytes")
	f.ShlB32(p.hiddenBytes, p.hiddenBytes, ptx.Imm(1))
	if !p.packed {
		f.MulWideU32(p.weightStride, loadU32(f, p.weightStrideAt, "weight_stride"), ptx.Imm(2))
		return
	}
	rows := f.B32("panel_rows")
	f.AddU32(rows, all, ptx.Imm(manifest.PackedRows-1))
	divideBy(f, rows, rows, manifest.PackedRows)
	f.MulWideU32(p.weightStride, rows, ptx.Imm(manifest.PackedRows*manifest.PackedRowBytes))
}

// of is the product of a row of hidden states with a row of the weights, in every lane of a warp.
func (p *product) of(f *ptx.Func, lane, row, weight ptx.B32) ptx.F32 {
	w, step := p.start(f, lane, weight)
	h := f.B64("hidden_addr")
	f.MulWideU32(h, row, p.hiddenBytes)
	f.AddU64(h, h, p.hidden)
	f.MadWideU32(h, lane, ptx.Imm(unitBytes), h)
	units, unit, sums := f.B32("units"), f.B32("unit"), f.NewF32s("sum", unitsAtOnce)
	f.AddU32(units, p.width, ptx.Imm(unitColumns-1))
	f.ShrU32(units, units, ptx.Imm(3))
	f.MovB32(unit, lane)
	for _, s := range sums {
		f.MovF32(s, ptx.F32Imm(0))
	}
	past, done := f.Pred("past"), f.Label("multiplied")
	loop := f.Here("multiply_units")
	f.SetpU32(ptx.GE, past, unit, units)
	f.Bra(done).If(past)
	p.multiplyUnits(f, sums, unit, units, w, h, step)
	f.Bra(loop)
	f.Place(done)
	f.BarWarpSync(ptx.Imm(fullWarp))
	return joinLanes(f, sums)
}

// start is the address of the lane's first unit of a row of the weights, and the bytes from a unit of the lane to its next.
func (p *product) start(f *ptx.Func, lane, weight ptx.B32) (addr, step ptx.B64) {
	addr, step = f.B64("weights_addr"), f.B64("unit_step")
	if !p.packed {
		wide := f.B64()
		f.CvtU64U32(wide, weight)
		f.MulLoU64(addr, wide, p.weightStride)
		f.AddU64(addr, addr, p.weights)
		f.MadWideU32(addr, lane, ptx.Imm(unitBytes), addr)
		f.MovB64(step, ptx.Imm(warpSize*unitBytes))
		return addr, step
	}
	const panelUnits = manifest.PackedCols / unitColumns
	panel, unit, wide := f.B32("panel"), f.B32("unit_in_row"), f.B64()
	f.ShrU32(panel, lane, ptx.Imm(3))
	f.XorB32(unit, lane, weight)
	f.AndB32(unit, unit, ptx.Imm(panelUnits-1))
	f.CvtU64U32(wide, panel)
	f.MulLoU64(addr, wide, p.weightStride)
	f.AddU64(addr, addr, p.weights)
	f.MadWideU32(addr, weight, ptx.Imm(manifest.PackedRowBytes), addr)
	f.MadWideU32(addr, unit, ptx.Imm(unitBytes), addr)
	f.ShlB64(step, p.weightStride, ptx.Imm(2)) // the lanes take four panels at a time
	return addr, step
}

// multiplyUnits adds up the lane's next four units, those that there are, and moves on.
func (p *product) multiplyUnits(f *ptx.Func, sums []ptx.F32, unit, units ptx.B32, w, h, step ptx.B64) {
	var ws, hs [unitsAtOnce][]ptx.B32
	for i := range sums {
		ws[i], hs[i] = f.NewB32s("weights", 4), f.NewB32s("hidden", 4)
		for j := range ws[i] {
			f.MovB32(ws[i][j], ptx.Imm(0))
			f.MovB32(hs[i][j], ptx.Imm(0))
		}
		there := f.Pred("has_unit")
		f.SetpU32(ptx.LT, there, unit, units)
		f.LdGlobalV4B32(ws[i], w).If(there)
		f.LdGlobalV4B32(hs[i], h).If(there)
		p.dropPast(f, unit, ws[i], hs[i])
		f.AddU32(unit, unit, ptx.Imm(warpSize))
		f.AddU64(w, w, step)
		f.AddU64(h, h, ptx.Imm(warpSize*unitBytes))
	}
	for i, sum := range sums {
		for j := range ws[i] {
			f.FmaRnF32(sum, lowBF16(f, ws[i][j]), lowBF16(f, hs[i][j]), sum)
			f.FmaRnF32(sum, highBF16(f, ws[i][j]), highBF16(f, hs[i][j]), sum)
		}
	}
}

// dropPast clears what stands past the hidden size in the last unit: anything may.
func (p *product) dropPast(f *ptx.Func, unit ptx.B32, words ...[]ptx.B32) {
	whole, last, rest, most := f.B32(), f.Pred("last_unit"), f.B32("columns_left"), f.Label("unit_loaded")
	f.ShrU32(whole, p.width, ptx.Imm(3))
	f.SetpU32(ptx.EQ, last, unit, whole)
	f.Bra(most).IfNot(last)
	f.AndB32(rest, p.width, ptx.Imm(unitColumns-1))
	for j := range 4 {
		first, second := f.Pred("has_first"), f.Pred("has_second")
		f.SetpU32(ptx.LE, first, rest, ptx.Imm(2*j))
		f.SetpU32(ptx.EQ, second, rest, ptx.Imm(2*j+1))
		for _, w := range words {
			f.MovB32(w[j], ptx.Imm(0)).If(first)
			f.AndB32(w[j], w[j], ptx.Imm(0xFFFF)).If(second)
		}
	}
	f.Place(most)
}

func lowBF16(f *ptx.Func, word ptx.B32) ptx.F32 {
	bits, x := f.B32(), f.F32()
	f.ShlB32(bits, word, ptx.Imm(16))
	f.MovB32(x, bits)
	return x
}

func highBF16(f *ptx.Func, word ptx.B32) ptx.F32 {
	bits, x := f.B32(), f.F32()
	f.AndB32(bits, word, ptx.Imm(0xFFFF0000))
	f.MovB32(x, bits)
	return x
}

// joinLanes adds up what the lanes of a warp have.
func joinLanes(f *ptx.Func, sums []ptx.F32) ptx.F32 {
	sum := joined(f, "product", sums, func(d, x, y ptx.F32) { f.AddF32(d, x, y, ptx.RN) })
	for step := warpSize / 2; step > 0; step /= 2 {
		other, next := f.F32(), f.F32("product")
		f.ShflSyncBflyB32(other, sum, ptx.Imm(step), ptx.Imm(warpSize-1), ptx.Imm(fullWarp))
		f.AddF32(next, sum, other, ptx.RN)
		sum = next
	}
	return sum
}
