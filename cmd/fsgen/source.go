package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/spf13/pflag"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/model"
	"github.com/fsgen/fsgen/sampler"
	"github.com/fsgen/fsgen/testdata/head"
)

// source is where weights and hidden states come from.
type source struct {
	model, weights, hidden string
	vocab                  int
}

func (s *source) flags(f *pflag.FlagSet) {
	f.StringVar(&s.model, "model", "", "directory of a Hugging Face checkpoint (or DIR:TENSOR)")
	f.StringVar(&s.weights, "weights", "", "FILE.safetensors, or FILE.safetensors:TENSOR")
	f.StringVar(&s.hidden, "hidden", "", "FILE.npy: hidden states [B, D] or [D], floating point")
	f.IntVar(&s.vocab, "vocab", 0, "sample below this id only; the model's vocabulary if absent")
}

// opened is a source, ready to sample from.
type opened struct {
	weights      sampler.RowReader
	vocab, width int
	own          ir.Chain
	hidden       []uint16
	rows         int
	embedded     bool
	close        func()
}

// rowReader adapts a tensor of the embedded head.
type rowReader struct{ t *model.Tensor }

func (r rowReader) ReadRows(ctx context.Context, dst []uint16, first, n int) error {
	return r.t.ReadRows(ctx, dst, first, n, nil)
}

// watched says how far the weights are loaded.
type watched struct {
	sampler.RowReader
	line  *statusLine
	rows  int
	bytes int64 // of the loaded weights
}

func (o *opened) watch(line *statusLine) sampler.RowReader {
	return watched{o.weights, line, o.vocab, 2 * int64(o.vocab) * int64(o.width)}
}

func (w watched) ReadRows(ctx context.Context, dst []uint16, first, n int) error {
	err := w.RowReader.ReadRows(ctx, dst, first, n)
	w.line.set(fmt.Sprintf("loading weights: %d%% of %.1f GB", 100*(first+n)/w.rows, float64(w.bytes)/1e9))
	return err
}

func (s *source) open(ctx context.Context, e *env) (*opened, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if s.model == "" && s.weights == "" {
		return s.openEmbedded(e)
	}
	h, err := model.LoadHead(ctx, s.model+s.weights, model.HeadOptions{Vocab: s.vocab})
	if err != nil {
		return nil, err
	}
	for _, n := range h.Notes {
		e.note("%s", n)
	}
	if h.Bias != nil {
		e.note("the head has a bias of its own (%s), which is not added: give it as --bias", h.Bias.Name)
	}
	o := &opened{weights: h, vocab: h.V, width: h.D, own: ownChain(h.Scale, h.Softcap), close: func() { h.Close() }}
	a, err := model.ReadNpy(s.hidden)
	if err == nil {
		err = o.setHidden(a)
	}
	if err != nil {
		h.Close()
		return nil, err
	}
	return o, nil
}

// check refuses sources that do not go together.
func (s *source) check() error {
	named := s.model != "" || s.weights != ""
	switch {
	case s.model != "" && s.weights != "":
		return usagef("--model and --weights exclude each other")
	case !named && s.hidden != "":
		return usagef("--hidden needs --model or --weights")
	case named && s.hidden == "":
		return usagef("want --hidden FILE.npy beside the weights")
	}
	if path := s.model + s.weights; strings.HasSuffix(path, ":") && !isFile(path) && !isDir(path) {
		return usagef("--%s: %q names no tensor after the colon", map[bool]string{true: "model", false: "weights"}[s.model != ""], path)
	}
	return s.refusePreset()
}

// refusePreset tells a preset's name, which emit takes, from a checkpoint that is not there.
func (s *source) refusePreset() error {
	if s.model == "" || isDir(s.model) || isFile(s.model) {
		return nil
	}
	if p, err := model.Lookup(s.model); err == nil {
		return usagef("--model: %s is a preset, which has no weights: want the directory of a checkpoint", p.Name)
	}
	return nil
}

// openEmbedded opens the head that is part of the program.
func (s *source) openEmbedded(e *env) (*opened, error) {
	const name = "embedded head"
	config, err := model.ParseConfig(name, head.Config)
	if err != nil {
		return nil, err
	}
	file, err := model.NewFile(name, bytes.NewReader(head.Weights), int64(len(head.Weights)))
	if err != nil {
		return nil, err
	}
	vocab := config.VocabSize
	if s.vocab != 0 {
		if s.vocab > vocab {
			return nil, usagef("--vocab is %d: the embedded head has %d tokens", s.vocab, vocab)
		}
		vocab = s.vocab
	}
	a, err := model.DecodeNpy(name, bytes.NewReader(head.Hidden), int64(len(head.Hidden)))
	if err != nil {
		return nil, err
	}
	o := &opened{weights: rowReader{file.Tensors()[0]}, vocab: vocab, width: config.HiddenSize, own: ownChain(config.Scale, config.Softcap),
		embedded: true, close: func() { file.Close() }}
	e.note("no model given: sampling from the embedded head (%d tokens, hidden size %d)", vocab, o.width)
	return o, o.setHidden(a)
}

// setHidden takes hidden states [B, D] or [D].
func (o *opened) setHidden(a *model.Array) error {
	shape := a.Shape()
	if len(shape) == 1 {
		shape = []int{1, shape[0]}
	}
	if len(shape) != 2 || shape[1] != o.width {
		return fmt.Errorf("%s: hidden states have shape %v: want [B, %d]", a.Name(), a.Shape(), o.width)
	}
	h, err := a.BF16s()
	if err != nil {
		return err
	}
	o.hidden, o.rows = h, shape[0]
	return nil
}

// numbers reads a .npy of float32 values without NaN. Booleans are a mask in the wrong place.
func numbers(a *model.Array, what string) ([]float32, error) {
	if a.DType() == "b1" {
		return nil, fmt.Errorf("%s: %s is boolean: want floating point", a.Name(), what)
	}
	v, err := a.Float32s()
	if err != nil {
		return nil, err
	}
	for i, x := range v {
		if math.IsNaN(float64(x)) {
			return nil, fmt.Errorf("%s: %s %d is NaN", a.Name(), what, i)
		}
	}
	return v, nil
}
