//go:build !fsgen_nocuda

package sampler

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/fsgen/fsgen/autotune"
	"github.com/fsgen/fsgen/driver"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
)

// DeviceArgs are the arguments of one launch, all in the GPU's memory: what they point to may change between replays of
// a captured graph. Addresses are plain integers. Arrays hold one value a row, or one for all where One... is set.
type DeviceArgs struct {
	Batch int
	// Hidden is [Batch, hidden] in bf16, a multiple of 16 bytes, rows HiddenLD values apart (a multiple of 8; 0 means the
	// hidden size).
	Hidden   uint64
	HiddenLD int

	// Slots, where the plan has them, says which of SlotCount sets of parameters each row takes: the arrays below then have one
	// value, or row, for each set. A row whose slot is none of them fails (bad-parameter).
	Slots     uint64 // i32
	SlotCount int

	Seeds, Positions     uint64 // u64
	OneSeed, OnePosition bool
	Draw, StreamTag      uint32

	Temperature    uint64 // f32; a negative T, NaN, or one above ir.MaxTemperature fails its row
	OneTemperature bool

	Bias       uint64 // f32, [V] or [Batch, BiasStride]
	BiasStride int

	Mask       uint64 // u32 words; rows MaskStride words apart (0: one mask for all), MaskWords of them count
	MaskStride int
	MaskWords  int

	// What changes single logits, where the plan's chain does (docs/parameters.md, section 6). Addresses may be 0: there is none then.
	BiasLists                                DeviceLists // entries are an id (i32) and a value (f32)
	Repetition, Frequency, Presence          uint64      // f32; off where there are none
	OneRepetition, OneFrequency, OnePresence bool
	CountLists                               DeviceLists // entries are an id (i32) and a count (u32)
	TokenCounts                              uint64      // u32, [V] or [Batch, TokenCountStride]; where there are any, lists of counts are not looked at
	TokenCountStride                         int
	AllowIDs, BanIDs                         DeviceLists // entries are ids (i32)

	TopK                      uint64 // i32
	TopP, MinP                uint64 // f32
	OneTopK, OneTopP, OneMinP bool

	DrawCounts   uint64 // i32, where the plan draws several tokens: 1 to MaxDraws, others fail their row
	OneDrawCount bool

	Tokens, Status uint64 // i32, out
	Passes         uint64 // i32, out: how often a row went over the vocabulary, where the plan truncates or draws several tokens
	Scores         uint64 // f32, out
	LogSumExp      uint64 // f32, out
	LogProbs       uint64 // f32, out
	Draws          uint64 // i32, out: [Batch, MaxDraws], -1 behind a row's last
	DrawScores     uint64 // f32, out, of draws without replacement: NaN behind a row's last

	// Ranks are the ranks of the tokens, where the plan has them; 0 asks for none, and saves the pass over the weights that counts.
	Ranks uint64 // i32, out

	// TopIDs and TopLogProbs [Batch, TopN] are the likeliest tokens of every row, where the plan has them. A row of which too many tokens
	// would not be ruled out in time (logits that rise with the ids, say) has ir.UndecidedToken there; another launch with the same
	// arguments but a TopPass of 1 or more, behind this one and nothing else, goes on where it left off.
	TopIDs      uint64 // i32, out
	TopLogProbs uint64 // f32, out
	TopPass     int

	// ListIDs, where the plan has lists, are ListLength ids of every row (or slot), ListStride ids from list to list (0 means one list
	// for all): -1 for none. Their log-probabilities go to ListLogProbs [Batch, ListLength], NaN for ids out of range. A length of 0
	// asks for nothing.
	ListIDs                uint64 // i32
	ListLogProbs           uint64 // f32, out
	ListLength, ListStride int
}

// DeviceLists are lists of the rows, or slots, in one array. Spans are 2 u32 for each: its first entry and their number, or 2^32 - 1
// for no list. Entries have 4 bytes, or 8 where they are pairs, and rise by id. A row with a list that leaves the array or the
// vocabulary, or that does not rise, fails (bad-parameter).
type DeviceLists struct {
	Spans   uint64
	One     bool // one span serves every row
	Entries uint64
	Count   int // of all entries
}

// Launcher launches a plan's kernels on streams of the caller's. It owns the workspace, so that launches of one Launcher
// must be ordered one after the other (one stream, or streams that wait); take one Launcher for each that is not.
type Launcher struct {
	mu      sync.Mutex
	plan    *cudaPlan
	space   *driver.Buffer
	rows    int         // that the workspace holds
	laid    []*laidOut  // by kernel
	further *laidOut    // of the further passes; nil for none
	ranks   *laidOut    // of the pass that counts, likewise
	kernel  *cudaKernel // being laid out
	ready   *laidOut    // its launch
	hidden  driver.TensorMapSpec
	channel *rankChannel // of a rank's plan; nil for others
	group   *cudaGroup   // that the channel is to be given back to; nil where somebody else does
	open    lifetime
}

// laidOut is a launch of one kernel, parameters and all. A server samples from the same memory step after step: what was
// laid out for one step is then launched for the next as it is.
type laidOut struct {
	params *driver.Params
	cfg    driver.LaunchConfig
	stages [manifest.StageKinds]*stageLaunch // of the kernel's stages
	asked  DeviceArgs                        // that it was laid out for
	args   DeviceArgs                        // the same, defaults filled in
	valid  bool

	maps [hiddenMaps]hiddenMap
	next int // to be replaced

	stored *mapStore // instead, where the kernel is given addresses of tensor maps
}

// hiddenMap is the tensor map of hidden states of some rows at a place. hiddenMaps of them are kept, for servers that take
// turns with a few buffers: the driver takes longer to encode one than all else of a launch that is ours.
type hiddenMap struct {
	ptr      uint64
	rows, ld int
	words    driver.TensorMap
}

const hiddenMaps = 4

// hiddenMap returns the tensor map of a launch's hidden states.
func (r *laidOut) hiddenMap(l *Launcher, m *manifest.Map, a *DeviceArgs) (*driver.TensorMap, error) {
	for i := range r.maps {
		if h := &r.maps[i]; h.ptr == a.Hidden && h.rows == a.Batch && h.ld == a.HiddenLD { // an address is never 0
			return &h.words, nil
		}
	}
	words, err := l.plan.head.encode(&l.hidden, m, driver.DevicePtr(a.Hidden), a.Batch, a.HiddenLD)
	if err != nil {
		return nil, err
	}
	h := &r.maps[r.next]
	*h = hiddenMap{a.Hidden, a.Batch, a.HiddenLD, words}
	r.next = (r.next + 1) % hiddenMaps
	return &h.words, nil
}

// hiddenPlace returns where in device memory the tensor map of a launch's hidden states lies.
func (r *laidOut) hiddenPlace(l *Launcher, m *manifest.Map, a *DeviceArgs) (driver.DevicePtr, error) {
	return r.stored.place(matrixAt{a.Hidden, a.Batch, a.HiddenLD}, func() (driver.TensorMap, error) {
		return l.plan.head.encode(&l.hidden, m, driver.DevicePtr(a.Hidden), a.Batch, a.HiddenLD)
	})
}

// stageLaunch is the launch of a kernel's further stage.
type stageLaunch struct {
	params *driver.Params
	cfg    driver.LaunchConfig
}

// newStageLaunch makes room for the launch of a stage, if there is one.
func newStageLaunch(k *cudaKernel) (s *stageLaunch, err error) {
	if k == nil {
		return nil, nil
	}
	s = &stageLaunch{}
	s.params, err = driver.NewParams(k.Manifest.ParamSizes()...)
	return s, err
}

// workspace is where a parameter of the workspace of all kernels points to.
func (l *Launcher) workspace(param string) driver.DevicePtr {
	return l.space.Ptr() + driver.DevicePtr(manifest.WorkspaceOffset(param))
}

// collection is where an array of the rows' lists lies, behind the workspace of all kernels; the scratch follows.
func (l *Launcher) collection(array string) driver.DevicePtr {
	return l.space.Ptr() + driver.DevicePtr(manifest.WorkspacePlace(array, l.rows))
}

// aligned rounds up to what an allocation is aligned to: kernels read and write 16 bytes at a time.
func aligned(bytes int) int { return (bytes + 255) &^ 255 }

// spaceBytes are the bytes of the workspace for a number of rows but for the partial sums: those that are zero between launches,
// and all.
func (p *cudaPlan) spaceBytes(rows int) (zeroed, all int) {
	start := p.reportStart(rows)
	zeroed = manifest.WorkspaceBytes(rows)
	switch {
	case p.spec.Computation().Collects():
		zeroed = manifest.CollectionStart(rows) + manifest.CollectionOffset(manifest.Candidates, rows)
	case p.keeps(manifest.TopKeys):
		zeroed = start + manifest.ReportOffset(manifest.Masses, rows)
	}
	switch {
	case p.keeps(manifest.TopKeys):
		return zeroed, aligned(start + manifest.ReportBytes(rows))
	case p.spec.ListLogProbs || p.keeps(manifest.RankKeys):
		return zeroed, aligned(start + manifest.ReportOffset(manifest.TopKeys, rows))
	}
	return zeroed, start
}

// reportStart is where the arrays of what is reported of rows begin: behind those of their lists, where they have any.
func (p *cudaPlan) reportStart(rows int) int {
	start := manifest.CollectionStart(rows)
	if p.spec.Computation().Collects() {
		return aligned(start + manifest.CollectionBytes(rows))
	}
	return start
}

// zero zeroes what is zero between launches.
func (p *cudaPlan) zero(space *driver.Buffer, rows int) error {
	zeroed, _ := p.spaceBytes(rows)
	if err := space.Upload(0, make([]byte, zeroed)); err != nil || !p.keeps(manifest.TopKeys) || !p.spec.Computation().Collects() {
		return err
	}
	return space.Upload(uint64(p.reportStart(rows)), make([]byte, manifest.ReportOffset(manifest.Masses, rows)))
}

// reports is where an array of what is reported of rows lies.
func (l *Launcher) reports(array string) driver.DevicePtr {
	return l.space.Ptr() + driver.DevicePtr(l.plan.reportStart(l.rows)+manifest.ReportOffset(array, l.rows))
}

// masses is where the sums of rows lie that the kernel leaves for a stage.
func (l *Launcher) masses() driver.DevicePtr {
	if l.plan.spec.Computation().Collects() {
		return l.collection(manifest.Masses)
	}
	return l.reports(manifest.Masses)
}

func (l *Launcher) partials() driver.DevicePtr {
	_, all := l.plan.spaceBytes(l.rows)
	return l.space.Ptr() + driver.DevicePtr(all)
}

func (p *cudaPlan) newLauncher(rows int) (*Launcher, error) { return p.newRankLauncher(rows, nil) }

// newRankLauncher is newLauncher of a rank, whose launches use a channel.
func (p *cudaPlan) newRankLauncher(rows int, c *rankChannel) (*Launcher, error) {
	l := &Launcher{plan: p, channel: c}
	l.open.begin(nil, l.free)
	for _, k := range p.list {
		if err := l.add(k); err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	if p.further != nil {
		if err := l.add(p.further); err != nil {
			return nil, errors.Join(err, l.Close())
		}
		l.further = l.laid[len(p.list)]
	}
	if p.ranks != nil {
		if err := l.add(p.ranks); err != nil {
			return nil, errors.Join(err, l.Close())
		}
		l.ranks = l.laid[len(l.laid)-1]
	}
	if err := l.grow(rows); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// add makes room for the launch of a kernel.
func (l *Launcher) add(k *cudaKernel) (err error) {
	r := &laidOut{}
	l.laid = append(l.laid, r)
	if r.params, err = driver.NewParams(k.Manifest.ParamSizes()...); err == nil && pointsToMaps(k.Manifest) {
		r.stored, err = newMapStore(l.plan.head.dev.ctx, storedMaps)
	}
	for kind, stage := range k.stages {
		if err == nil {
			r.stages[kind], err = newStageLaunch(stage)
		}
	}
	return err
}

// grow makes the workspace hold a number of rows: ticket and keys, zeroed, and the scratch of the partial sums behind them.
func (l *Launcher) grow(rows int) error {
	if rows <= l.rows {
		return nil
	}
	_, all := l.plan.spaceBytes(rows)
	space, err := l.plan.head.dev.ctx.Alloc(uint64(all + l.plan.partialsBytes(rows)))
	if err != nil {
		return err
	}
	if err := l.plan.zero(space, rows); err != nil {
		space.Close()
		return err
	}
	if l.space != nil {
		l.space.Close()
	}
	l.space, l.rows = space, rows
	for _, r := range l.laid {
		r.valid = false // it names the old workspace
	}
	return nil
}

// Reset zeroes the workspace after a launch that was cut short. Nothing may be running on it.
func (l *Launcher) Reset() error {
	if err := l.open.enter(); err != nil {
		return err
	}
	defer l.open.leave()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.plan.zero(l.space, l.rows)
}

// Close frees the workspace. Nothing may be running on it.
func (l *Launcher) Close() error { return l.open.close() }

func (l *Launcher) free() error {
	var errs []error
	if l.space != nil {
		errs = append(errs, l.space.Close())
	}
	for _, r := range l.laid {
		errs = append(errs, r.stored.close())
	}
	if l.group != nil {
		errs = append(errs, l.group.closeChannels([]*rankChannel{l.channel}))
		l.group = nil
	}
	return errors.Join(errs...)
}

// NewLauncher makes a launcher for batches of up to rows rows. It is closed with the plan, if not before.
func (p *Plan) NewLauncher(rows int) (*Launcher, error) {
	if err := p.open.enter(); err != nil {
		return nil, err
	}
	defer p.open.leave()
	c, ok := p.b.(*cudaPlan)
	if !ok {
		return nil, &InputError{"device", "device launches need a cuda device", nil}
	}
	if rows < 1 {
		return nil, &InputError{"rows", "want 1 or more", rows}
	}
	l, err := c.newLauncher(rows)
	if err != nil {
		return nil, err
	}
	l.open.of(&p.open)
	return l, nil
}

// Launch enqueues one launch on a stream (a CUstream as an integer, 0 for the default stream). It allocates nothing and
// waits for nothing, and may be captured in a graph. A batch of 0 launches nothing. Where the kernel of an artifact has its tensor
// maps in global memory, the first launch over some rows at a place copies a map and waits for that, so that it must not be a
// captured one; a Launcher takes 1,024 of these.
//
// Unless Spec.SerialLaunch is set, the launch may begin while the kernel before it in the stream is ending. It reads nothing
// but the weights before that has ended, and everything that follows in the stream waits for both: only who writes weights
// has to care. The driver allows it between kernels alone ("Programmatic Dependent Launch"; CUgraphEdgeData: "only kernel
// nodes define non-zero ports"), so that copies and fills before and after order as ever. Every CTA waits before it ends, so
// that the end of a launch is the end of all before it, however many of them began early.
func (l *Launcher) Launch(stream uintptr, a *DeviceArgs) error {
	if a.Batch == 0 {
		return nil
	}
	return l.passes(stream, a, true, l.plan.spec.furtherPasses())
}

// passes enqueues the first pass, or goes on behind it, and a number of further ones, for the rows that those before have left
// undecided; behind a first pass and its further ones what reports of the rows.
func (l *Launcher) passes(stream uintptr, a *DeviceArgs, first bool, further int) error {
	if err := l.open.enter(); err != nil {
		return err
	}
	defer l.open.leave()
	l.mu.Lock()
	defer l.mu.Unlock()
	i := l.plan.widths.choose(a.Batch)
	if first {
		if err := l.launch(stream, l.plan.list[i], l.laid[i], a); err != nil {
			return err
		}
	}
	for range further {
		if err := l.launch(stream, l.plan.further, l.further, a); err != nil {
			return err
		}
	}
	if !first {
		return nil
	}
	for step := range reportSteps {
		if err := l.report(stream, a, step); err != nil {
			return err
		}
	}
	return nil
}

// reported are the stages that report of the rows of a kernel, in order.
var reported = [...]manifest.StageKind{manifest.TopStage, manifest.TopGatherStage, manifest.TopMergeStage, manifest.ListedStage, manifest.ListedGatherStage}

// reportSteps are these, and behind them the pass that counts and the exchange of what it has counted.
const reportSteps = len(reported) + 2

// report enqueues one of the steps behind a first pass and its further ones, if it is asked for.
func (l *Launcher) report(stream uintptr, a *DeviceArgs, step int) error {
	if step < len(reported) {
		i, kind := l.plan.widths.choose(a.Batch), reported[step]
		if ofLists(kind) && a.ListLength == 0 {
			return nil
		}
		return l.plan.list[i].launchStage(stream, l.laid[i], kind)
	}
	switch {
	case l.ranks == nil || a.Ranks == 0:
		return nil
	case step == len(reported):
		return l.launch(stream, l.plan.ranks, l.ranks, a)
	}
	return l.plan.ranks.launchStage(stream, l.ranks, manifest.RanksGatherStage)
}

// launch enqueues one kernel, and the stage that draws from its lists.
func (l *Launcher) launch(stream uintptr, k *cudaKernel, r *laidOut, a *DeviceArgs) error {
	if err := l.prepare(k, r, a); err != nil {
		return err
	}
	for step := range launchSteps {
		if err := k.step(stream, r, step); err != nil {
			return err
		}
	}
	return nil
}

// prepare lays a launch out, unless it is.
func (l *Launcher) prepare(k *cudaKernel, r *laidOut, a *DeviceArgs) error {
	if r.valid && r.asked == *a {
		return nil
	}
	return l.layOut(k, r, a)
}

// launchSteps are the kernel, the stage that brings its lists and those of other ranks together, and the one that draws from them.
const launchSteps = 3

// step enqueues one of a launch's steps, if the kernel has it.
func (k *cudaKernel) step(stream uintptr, r *laidOut, step int) error {
	switch step {
	case 0:
		return k.LaunchOn(stream, r.cfg, r.params)
	case 1:
		return k.launchStage(stream, r, manifest.GatherStage)
	}
	return k.launchStage(stream, r, manifest.ResolveStage)
}

// launchStage enqueues a stage, if the kernel has it.
func (k *cudaKernel) launchStage(stream uintptr, r *laidOut, kind manifest.StageKind) error {
	s := r.stages[kind]
	if s == nil {
		return nil
	}
	return k.stages[kind].LaunchOn(stream, s.cfg, s.params)
}

// rankStep enqueues a step of a pass, the first or a further one. Ranks in one process take steps together: where streams share a queue of
// the GPU, what waits for other ranks must not be ahead of what they have still to do.
func (l *Launcher) rankStep(stream uintptr, a *DeviceArgs, first bool, step int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	k, r := l.plan.further, l.further
	if first {
		i := l.plan.widths.choose(a.Batch)
		k, r = l.plan.list[i], l.laid[i]
	}
	if err := l.prepare(k, r, a); err != nil {
		return err
	}
	return k.step(stream, r, step)
}

// reportStep is report for ranks that take steps together.
func (l *Launcher) reportStep(stream uintptr, a *DeviceArgs, step int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.report(stream, a, step)
}

// layOut checks the arguments of a launch and fills in its parameters.
func (l *Launcher) layOut(k *cudaKernel, r *laidOut, a *DeviceArgs) error {
	r.valid, r.asked, r.args = false, *a, *a
	if err := l.check(&r.args); err != nil {
		return err
	}
	l.kernel, l.ready = k, r
	if err := l.fill(k, r.params, &r.args); err != nil {
		return err
	}
	ctas := l.plan.grid(k, a.Batch)
	r.cfg = k.Config(ctas, !k.serial)
	for i, s := range r.stages {
		kind := manifest.StageKind(i)
		if s == nil || ofLists(kind) && a.ListLength == 0 {
			continue
		}
		if err := l.fill(k.stages[kind], s.params, &r.args); err != nil {
			return err
		}
		s.cfg = k.stages[kind].Config(l.plan.stageGrid(k.stages[kind], kind, a), !k.serial)
	}
	r.valid = true
	return nil
}

// ofLists reports whether a stage has nothing to do where no ids are listed.
func ofLists(kind manifest.StageKind) bool {
	return kind == manifest.ListedStage || kind == manifest.ListedGatherStage
}

// stageGrid is the CTAs of a stage.
func (p *cudaPlan) stageGrid(k *cudaKernel, kind manifest.StageKind, a *DeviceArgs) int {
	switch {
	case kind == manifest.ListedStage:
		return listedCTAs(k.Manifest, a.Batch, a.ListLength)
	case kind == manifest.JoinStage:
		return min(a.Batch, mostJoinCTAs)
	case kind.Waits():
		return min(a.Batch, p.waiting(k))
	}
	return a.Batch
}

// waiting is the CTAs of a stage that may wait for other ranks: all must be there at once. Of ranks that share the GPU each has its part of
// the multiprocessors, so that none keeps another's kernel from those that are left.
func (p *cudaPlan) waiting(k *cudaKernel) int {
	if p.share > 1 {
		return max(p.head.dev.sms()/p.share, 1)
	}
	return k.Resident()
}

// mostJoinCTAs have a thread for each row of any batch that is not huge.
const mostJoinCTAs = 64

// grid is the CTAs of a launch. A rank that shares the GPU with others leaves them their part: all must run side by side. A further pass
// that seldom has anything to do takes half of what there is, so that those who wait for its end have multiprocessors meanwhile: with all
// of them it holds up the launch behind it, for as long as a CTA takes to come and go (docs/NOTES.md, section 25).
func (p *cudaPlan) grid(k *cudaKernel, batch int) int {
	g, resident := k.Manifest.Launch.Grid, k.Resident()
	if p.share > 1 {
		resident = max(resident/p.share/g.Cluster, 1) * g.Cluster
	}
	if k == p.further && p.spec.CTAs == 0 && p.spec.seldomOpen() {
		resident = max(resident/2/g.Cluster, 1) * g.Cluster
	}
	return autotune.Grid(g, workOf(p.head.shape, p.head.span).Vocab, batch, resident, k.ctas)
}

// fill sets every parameter of a kernel.
func (l *Launcher) fill(k *cudaKernel, p *driver.Params, a *DeviceArgs) error {
	for i, set := range k.setters {
		if err := set(l, p, i, a); err != nil {
			return err
		}
	}
	return nil
}

// check holds the arguments to what kernels take, and fills in the default leading dimension.
func (l *Launcher) check(a *DeviceArgs) error {
	if a.Batch < 0 || a.Batch > l.rows {
		return &InputError{"batch", fmt.Sprintf("the launcher holds %d rows", l.rows), a.Batch}
	}
	if a.HiddenLD == 0 {
		a.HiddenLD = l.plan.head.shape.Hidden
	}
	if err := checkRows("hidden states", a.Hidden, a.HiddenLD, l.plan.head.shape.Hidden); err != nil {
		return err
	}
	if err := checkStride("bias stride", a.BiasStride); err != nil {
		return err
	}
	if err := checkStride("mask stride", a.MaskStride); err != nil {
		return err
	}
	if err := checkLists(a); err != nil {
		return err
	}
	if err := ir.ValidStreamTag(a.StreamTag); err != nil {
		return &InputError{"stream tag", "want " + err.Error(), a.StreamTag}
	}
	if err := l.checkListed(a); err != nil {
		return err
	}
	if a.SlotCount < 0 || a.SlotCount > math.MaxInt32 {
		return &InputError{"slot count", fmt.Sprintf("want 0 to %d", math.MaxInt32), a.SlotCount}
	}
	c := l.plan.spec.Chain
	if c.Mask && (a.MaskWords < 0 || a.MaskStride != 0 && a.MaskStride < a.MaskWords) {
		return &InputError{"mask stride", "want 0 or the words of a row", a.MaskStride}
	}
	return nil
}

// checkLists holds what changes single logits to what kernels take.
func checkLists(a *DeviceArgs) error {
	for _, l := range []struct {
		name  string
		lists *DeviceLists
		align uint64
	}{{"bias lists", &a.BiasLists, 8}, {"count lists", &a.CountLists, 8}, {"allowed ids", &a.AllowIDs, 4}, {"banned ids", &a.BanIDs, 4}} {
		switch {
		case l.lists.Count < 0 || int64(l.lists.Count) > math.MaxUint32:
			return &InputError{l.name, fmt.Sprintf("want 0 to %d entries", uint32(math.MaxUint32)), l.lists.Count}
		case l.lists.Count > 0 && l.lists.Entries == 0:
			return &InputError{l.name, "the entries have no device address", nil}
		case l.lists.Spans%8 != 0 || l.lists.Entries%l.align != 0:
			return &InputError{l.name, fmt.Sprintf("want spans at a multiple of 8 bytes, and entries at one of %d", l.align), fmt.Sprintf("%#x and %#x", l.lists.Spans, l.lists.Entries)}
		}
	}
	return checkStride("token count stride", a.TokenCountStride)
}

// checkListed holds lists of ids to what 32 bits count.
func (l *Launcher) checkListed(a *DeviceArgs) error {
	if a.ListLength < 0 || a.Batch > 0 && a.ListLength > maxStride/a.Batch {
		return &InputError{"list length", fmt.Sprintf("want 0 or more, and no more than %d ids of all rows", maxStride), a.ListLength}
	}
	if a.ListStride != 0 && (a.ListStride < a.ListLength || a.ListStride > maxStride/max(a.Batch, a.SlotCount, 1)) {
		return &InputError{"list stride", "want 0 or the ids of a list, and no more than 32 bits count over all", a.ListStride}
	}
	return nil
}

// maxStride keeps a row's distance in bytes within the kernels' 32 bits.
const maxStride = 1<<30 - 1

func checkStride(field string, stride int) error {
	if stride < 0 || stride > maxStride {
		return &InputError{field, fmt.Sprintf("want 0 to %d elements", maxStride), stride}
	}
	return nil
}

// encode makes a tensor map of a bf16 matrix [rows, hidden] at an address, with the box that a kernel wants. It fills in
// spec, which the driver's call keeps from the stack: launches bring their own, and allocate nothing.
func (h *cudaHead) encode(spec *driver.TensorMapSpec, m *manifest.Map, addr driver.DevicePtr, rows, ld int) (driver.TensorMap, error) {
	spec.MatrixMap(m, addr, rows, h.shape.Hidden, ld)
	return h.dev.ctx.EncodeTiled(spec)
}
