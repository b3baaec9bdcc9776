//go:build !fsgen_nocuda

package sampler

import (
	"context"
	"errors"

	"github.com/fsgen/fsgen/driver"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/templates"
)

// cudaKernel is a loaded kernel. Everything that a launch needs is read from its manifest.
type cudaKernel struct {
	*driver.Kernel
	mod     *driver.Module
	serial  bool // it waits for the end of the kernel before it
	ctas    int  // as tuned; 0: the grid's rule
	weights driver.TensorMap
	stored  *mapStore // of the weights, where the kernel is given addresses of tensor maps; nil otherwise
	place   driver.DevicePtr
	setters []setter
	stages  cudaStages
}

// cudaStages are the stages of a kernel, of its module; nil those that it has not.
type cudaStages [manifest.StageKinds]*cudaKernel

// setter fills in one parameter of a launch.
type setter func(l *Launcher, p *driver.Params, i int, a *DeviceArgs) error

func (h *cudaHead) loadKernel(ctx context.Context, b bucket, serial bool) (*cudaKernel, error) {
	m, k := b.Artifact.Manifest, &cudaKernel{ctas: b.CTAs, serial: serial}
	if err := m.CheckPTX(b.Artifact.PTX); err != nil {
		return nil, err
	}
	if !m.Target.RunsOn(h.dev.dev.ComputeCapability()) { // before it is compiled
		return nil, &InputError{"kernel target", "want one that runs on " + h.dev.dev.Name(), m.Target}
	}
	var err error
	if k.setters, err = settersOf(m); err != nil {
		return nil, err
	}
	if k.mod, err = h.dev.load(ctx, b.Artifact.PTX); err != nil {
		return nil, err
	}
	if err := k.prepare(h, m); err != nil {
		return nil, errors.Join(err, k.close())
	}
	for kind := range manifest.StageKinds {
		if k.stages[kind], err = k.stage(m.KernelOf(kind)); err != nil {
			return nil, errors.Join(err, k.close())
		}
	}
	return k, nil
}

func (k *cudaKernel) close() error { return errors.Join(k.mod.Close(), k.stored.close()) }

func settersOf(m *manifest.Kernel) (list []setter, err error) {
	for _, p := range m.Params {
		set, ok := setters[p.Name]
		if !ok {
			return nil, &InputError{"kernel parameter", "this fsgen does not know it", p.Name}
		}
		list = append(list, set)
	}
	return list, nil
}

// stage finds a further stage of the kernel, if it has one.
func (k *cudaKernel) stage(m *manifest.Kernel) (s *cudaKernel, err error) {
	if m == nil {
		return nil, nil
	}
	s = &cudaKernel{serial: k.serial}
	if s.setters, err = settersOf(m); err != nil {
		return nil, err
	}
	s.Kernel, err = k.mod.Kernel(m)
	return s, err
}

// prepare encodes the weights' tensor map and finds the kernel.
func (k *cudaKernel) prepare(h *cudaHead, m *manifest.Kernel) (err error) {
	p := m.Param(templates.ParamWeights)
	if h.layout == Packed {
		p = m.Param(templates.ParamPackedMap)
	} else if p == nil || p.Map == nil {
		return &InputError{"kernel parameter", "a kernel has a tensor map of the weights", templates.ParamWeights}
	}
	if p != nil && p.Map != nil {
		if k.weights, err = h.encode(&driver.TensorMapSpec{}, p.Map, h.ptr, h.rows(), h.ld); err != nil {
			return err
		}
		if err := k.store(h, p.Kind); err != nil {
			return err
		}
	}
	k.Kernel, err = k.mod.Kernel(m)
	return err
}

// store brings the weights' tensor map to device memory, where the kernel wants it there.
func (k *cudaKernel) store(h *cudaHead, kind manifest.Kind) (err error) {
	if kind != manifest.TensorMapPointer {
		return nil
	}
	if k.stored, err = newMapStore(h.dev.ctx, 1); err != nil {
		return err
	}
	k.place, err = k.stored.place(matrixAt{}, func() (driver.TensorMap, error) { return k.weights, nil })
	return err
}

func scalar(value func(l *Launcher, a *DeviceArgs) int) setter {
	return func(l *Launcher, p *driver.Params, i int, a *DeviceArgs) error {
		p.SetUint32(i, uint32(value(l, a)))
		return nil
	}
}

func pointer(name string, value func(l *Launcher, a *DeviceArgs) uint64) setter {
	return func(l *Launcher, p *driver.Params, i int, a *DeviceArgs) error {
		ptr := value(l, a)
		if ptr == 0 {
			return &InputError{name, "the kernel needs its device address", nil}
		}
		p.SetPtr(i, driver.DevicePtr(ptr))
		return nil
	}
}

// optional is a pointer that may be 0.
func optional(value func(a *DeviceArgs) uint64) setter {
	return func(_ *Launcher, p *driver.Params, i int, a *DeviceArgs) error {
		p.SetPtr(i, driver.DevicePtr(value(a)))
		return nil
	}
}

// inWorkspace and inCollection set a parameter to its place in the launcher's memory.
func inWorkspace(param string) setter {
	return pointer(param, func(l *Launcher, _ *DeviceArgs) uint64 { return uint64(l.workspace(param)) })
}

func inCollection(array string) setter {
	return pointer(array, func(l *Launcher, _ *DeviceArgs) uint64 { return uint64(l.collection(array)) })
}

func inReports(array string) setter {
	return pointer(array, func(l *Launcher, _ *DeviceArgs) uint64 { return uint64(l.reports(array)) })
}

func stride(perRow func(a *DeviceArgs) bool) setter {
	return scalar(func(_ *Launcher, a *DeviceArgs) int {
		if perRow(a) {
			return 1
		}
		return 0
	})
}

// weightsMap sets the tensor map of the weights, or where it lies.
func weightsMap(l *Launcher, p *driver.Params, i int, _ *DeviceArgs) error {
	if l.kernel.stored == nil {
		p.SetTensorMap(i, &l.kernel.weights)
		return nil
	}
	p.SetPtr(i, l.kernel.place)
	return nil
}

// setters know every parameter that fsgen's kernels have.
var setters = map[string]setter{
	templates.ParamWeights:       weightsMap,
	templates.ParamPackedMap:     weightsMap,
	templates.ParamPackedWeights: pointer("packed weights", func(l *Launcher, _ *DeviceArgs) uint64 { return uint64(l.plan.head.ptr) }),
	templates.ParamHidden: func(l *Launcher, p *driver.Params, i int, a *DeviceArgs) error {
		if l.ready.stored != nil {
			at, err := l.ready.hiddenPlace(l, l.kernel.Manifest.Params[i].Map, a)
			p.SetPtr(i, at)
			return err
		}
		m, err := l.ready.hiddenMap(l, l.kernel.Manifest.Params[i].Map, a)
		if err == nil {
			p.SetTensorMap(i, m)
		}
		return err
	},
	templates.ParamVocab:             scalar(func(l *Launcher, _ *DeviceArgs) int { return l.plan.head.shape.Vocab }),
	templates.ParamHiddenSize:        scalar(func(l *Launcher, _ *DeviceArgs) int { return l.plan.head.shape.Hidden }),
	templates.ParamBatch:             scalar(func(_ *Launcher, a *DeviceArgs) int { return a.Batch }),
	templates.ParamShardStart:        scalar(func(l *Launcher, _ *DeviceArgs) int { return l.plan.head.span.Start }),
	templates.ParamShardCount:        scalar(func(l *Launcher, _ *DeviceArgs) int { return l.plan.head.span.Count }),
	templates.ParamPeers:             pointer("table of ranks", func(l *Launcher, _ *DeviceArgs) uint64 { return uint64(l.channel.table()) }),
	templates.ParamRecords:           pointer("records", func(l *Launcher, _ *DeviceArgs) uint64 { return uint64(l.channel.records()) }),
	templates.ParamGathered:          pointer("gathered records", func(l *Launcher, _ *DeviceArgs) uint64 { return uint64(l.channel.gathered()) }),
	templates.ParamRecordRows:        scalar(func(l *Launcher, _ *DeviceArgs) int { return l.channel.rows }),
	templates.ParamWorld:             scalar(func(l *Launcher, _ *DeviceArgs) int { return l.channel.world }),
	templates.ParamSlots:             pointer("slots", func(_ *Launcher, a *DeviceArgs) uint64 { return a.Slots }),
	templates.ParamSlotCount:         scalar(func(_ *Launcher, a *DeviceArgs) int { return a.SlotCount }),
	templates.ParamSeeds:             pointer("seeds", func(_ *Launcher, a *DeviceArgs) uint64 { return a.Seeds }),
	templates.ParamSeedStride:        stride(func(a *DeviceArgs) bool { return !a.OneSeed }),
	templates.ParamPositions:         pointer("positions", func(_ *Launcher, a *DeviceArgs) uint64 { return a.Positions }),
	templates.ParamPositionStride:    stride(func(a *DeviceArgs) bool { return !a.OnePosition }),
	templates.ParamDraw:              scalar(func(_ *Launcher, a *DeviceArgs) int { return int(a.Draw) }),
	templates.ParamStreamTag:         scalar(func(_ *Launcher, a *DeviceArgs) int { return int(a.StreamTag) }),
	templates.ParamTemperature:       pointer("temperature", func(_ *Launcher, a *DeviceArgs) uint64 { return a.Temperature }),
	templates.ParamTemperatureStride: stride(func(a *DeviceArgs) bool { return !a.OneTemperature }),
	templates.ParamBias:              pointer("bias", func(_ *Launcher, a *DeviceArgs) uint64 { return a.Bias }),
	templates.ParamBiasStride:        scalar(func(_ *Launcher, a *DeviceArgs) int { return a.BiasStride }),
	templates.ParamMask:              pointer("mask", func(_ *Launcher, a *DeviceArgs) uint64 { return a.Mask }),
	templates.ParamMaskStride:        scalar(func(_ *Launcher, a *DeviceArgs) int { return a.MaskStride }),
	templates.ParamMaskWords:         scalar(func(_ *Launcher, a *DeviceArgs) int { return a.MaskWords }),
	templates.ParamBiasSpans:         optional(func(a *DeviceArgs) uint64 { return a.BiasLists.Spans }),
	templates.ParamBiasSpanStride:    stride(func(a *DeviceArgs) bool { return !a.BiasLists.One }),
	templates.ParamBiasEntries:       optional(func(a *DeviceArgs) uint64 { return a.BiasLists.Entries }),
	templates.ParamBiasEntryCount:    scalar(func(_ *Launcher, a *DeviceArgs) int { return a.BiasLists.Count }),
	templates.ParamCountSpans:        optional(func(a *DeviceArgs) uint64 { return a.CountLists.Spans }),
	templates.ParamCountSpanStride:   stride(func(a *DeviceArgs) bool { return !a.CountLists.One }),
	templates.ParamCountEntries:      optional(func(a *DeviceArgs) uint64 { return a.CountLists.Entries }),
	templates.ParamCountEntryCount:   scalar(func(_ *Launcher, a *DeviceArgs) int { return a.CountLists.Count }),
	templates.ParamAllowSpans:        optional(func(a *DeviceArgs) uint64 { return a.AllowIDs.Spans }),
	templates.ParamAllowSpanStride:   stride(func(a *DeviceArgs) bool { return !a.AllowIDs.One }),
	templates.ParamAllowIDs:          optional(func(a *DeviceArgs) uint64 { return a.AllowIDs.Entries }),
	templates.ParamAllowIDCount:      scalar(func(_ *Launcher, a *DeviceArgs) int { return a.AllowIDs.Count }),
	templates.ParamBanSpans:          optional(func(a *DeviceArgs) uint64 { return a.BanIDs.Spans }),
	templates.ParamBanSpanStride:     stride(func(a *DeviceArgs) bool { return !a.BanIDs.One }),
	templates.ParamBanIDs:            optional(func(a *DeviceArgs) uint64 { return a.BanIDs.Entries }),
	templates.ParamBanIDCount:        scalar(func(_ *Launcher, a *DeviceArgs) int { return a.BanIDs.Count }),
	templates.ParamRepetition:        optional(func(a *DeviceArgs) uint64 { return a.Repetition }),
	templates.ParamRepetitionStride:  stride(func(a *DeviceArgs) bool { return !a.OneRepetition }),
	templates.ParamFrequency:         optional(func(a *DeviceArgs) uint64 { return a.Frequency }),
	templates.ParamFrequencyStride:   stride(func(a *DeviceArgs) bool { return !a.OneFrequency }),
	templates.ParamPresence:          optional(func(a *DeviceArgs) uint64 { return a.Presence }),
	templates.ParamPresenceStride:    stride(func(a *DeviceArgs) bool { return !a.OnePresence }),
	templates.ParamTokenCounts:       optional(func(a *DeviceArgs) uint64 { return a.TokenCounts }),
	templates.ParamTokenCountStride:  scalar(func(_ *Launcher, a *DeviceArgs) int { return a.TokenCountStride }),
	templates.ParamTopK:              pointer("top-k", func(_ *Launcher, a *DeviceArgs) uint64 { return a.TopK }),
	templates.ParamTopKStride:        stride(func(a *DeviceArgs) bool { return !a.OneTopK }),
	templates.ParamTopP:              pointer("top-p", func(_ *Launcher, a *DeviceArgs) uint64 { return a.TopP }),
	templates.ParamTopPStride:        stride(func(a *DeviceArgs) bool { return !a.OneTopP }),
	templates.ParamMinP:              pointer("min-p", func(_ *Launcher, a *DeviceArgs) uint64 { return a.MinP }),
	templates.ParamMinPStride:        stride(func(a *DeviceArgs) bool { return !a.OneMinP }),
	templates.ParamDrawCounts:        pointer("draw counts", func(_ *Launcher, a *DeviceArgs) uint64 { return a.DrawCounts }),
	templates.ParamDrawCountStride:   stride(func(a *DeviceArgs) bool { return !a.OneDrawCount }),
	templates.ParamMaxDraws:          scalar(func(l *Launcher, _ *DeviceArgs) int { return l.plan.spec.MaxDraws }),
	templates.ParamDraws:             pointer("draws", func(_ *Launcher, a *DeviceArgs) uint64 { return a.Draws }),
	templates.ParamDrawScores:        pointer("draw scores", func(_ *Launcher, a *DeviceArgs) uint64 { return a.DrawScores }),
	templates.ParamMarks:             inCollection(manifest.Marks),
	templates.ParamArrivals:          inWorkspace(manifest.Arrivals),
	templates.ParamStates:            inCollection(manifest.States),
	templates.ParamOpen:              inWorkspace(manifest.Open),
	templates.ParamPivots:            inCollection(manifest.Pivots),
	templates.ParamBins:              inCollection(manifest.Bins),
	templates.ParamPeaks:             inCollection(manifest.Peaks),
	templates.ParamPasses:            pointer("passes", func(_ *Launcher, a *DeviceArgs) uint64 { return a.Passes }),
	templates.ParamCounts:            inCollection(manifest.Counts),
	templates.ParamCandidates:        inCollection(manifest.Candidates),
	templates.ParamBounds:            inCollection(manifest.Bounds),
	templates.ParamMasses:            pointer(manifest.Masses, func(l *Launcher, _ *DeviceArgs) uint64 { return uint64(l.masses()) }),
	templates.ParamSecondMasses:      inCollection(manifest.SecondMasses),
	templates.ParamTopMarks:          inReports(manifest.TopMarks),
	templates.ParamTopBounds:         inReports(manifest.TopBounds),
	templates.ParamTopCounts:         inReports(manifest.TopCounts),
	templates.ParamTopFloors:         inReports(manifest.TopFloors),
	templates.ParamTopKeys:           inReports(manifest.TopKeys),
	templates.ParamSentTopKeys:       inReports(manifest.SentTopKeys),
	templates.ParamRankKeys:          inReports(manifest.RankKeys),
	templates.ParamKept:              inReports(manifest.Kept),
	templates.ParamRanks: func(_ *Launcher, p *driver.Params, i int, a *DeviceArgs) error {
		p.SetPtr(i, driver.DevicePtr(a.Ranks)) // 0 asks for none
		return nil
	},
	templates.ParamTopPass:      scalar(func(_ *Launcher, a *DeviceArgs) int { return a.TopPass }),
	templates.ParamTopIDs:       pointer("top ids", func(_ *Launcher, a *DeviceArgs) uint64 { return a.TopIDs }),
	templates.ParamTopLogProbs:  pointer("top log-probabilities", func(_ *Launcher, a *DeviceArgs) uint64 { return a.TopLogProbs }),
	templates.ParamListIDs:      pointer("listed ids", func(_ *Launcher, a *DeviceArgs) uint64 { return a.ListIDs }),
	templates.ParamListStride:   scalar(func(_ *Launcher, a *DeviceArgs) int { return a.ListStride }),
	templates.ParamListLength:   scalar(func(_ *Launcher, a *DeviceArgs) int { return a.ListLength }),
	templates.ParamListLogProbs: pointer("listed log-probabilities", func(_ *Launcher, a *DeviceArgs) uint64 { return a.ListLogProbs }),
	templates.ParamWeightRows:   pointer("weights", func(l *Launcher, _ *DeviceArgs) uint64 { return uint64(l.plan.head.ptr) }),
	templates.ParamWeightStride: scalar(func(l *Launcher, _ *DeviceArgs) int { return l.plan.head.ld }),
	templates.ParamHiddenRows:   pointer("hidden states", func(_ *Launcher, a *DeviceArgs) uint64 { return a.Hidden }),
	templates.ParamHiddenStride: scalar(func(_ *Launcher, a *DeviceArgs) int { return a.HiddenLD }),
	templates.ParamTokens:       pointer("tokens", func(_ *Launcher, a *DeviceArgs) uint64 { return a.Tokens }),
	templates.ParamStatus:       pointer("status", func(_ *Launcher, a *DeviceArgs) uint64 { return a.Status }),
	templates.ParamScores:       pointer("scores", func(_ *Launcher, a *DeviceArgs) uint64 { return a.Scores }),
	templates.ParamLogSumExp:    pointer("log-sum-exp", func(_ *Launcher, a *DeviceArgs) uint64 { return a.LogSumExp }),
	templates.ParamLogProb:      pointer("log-probabilities", func(_ *Launcher, a *DeviceArgs) uint64 { return a.LogProbs }),
	templates.ParamKeys:         inWorkspace(manifest.Keys),
	templates.ParamPartials:     pointer("partial sums", func(l *Launcher, _ *DeviceArgs) uint64 { return uint64(l.partials()) }),
	templates.ParamTicket:       inWorkspace(manifest.Ticket),
}
