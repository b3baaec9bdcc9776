package model

import (
	"context"
	"os"
	"strconv"
	"strings"
)

// Head is an LM head found in a model: where W is, and what its logits go through. The logits of a row of hidden
// states h [D] are, in this order, y = W h (+ Bias), times Scale, and if Softcap is not 0, Softcap*tanh(y/Softcap);
// only the ids below V are tokens.
type Head struct {
	W           *Tensor // [Rows, D], rows contiguous, of a type that ReadBF16 converts
	Bias        *Tensor // [Rows], added to the product; nil if there is none, as in nearly all models
	V           int     // real vocabulary, at most Rows
	Rows        int     // rows of W; the rows from V on are padding and are never sampled
	D           int
	Scale       float64 // 1 if there is none
	Softcap     float64 // 0 if there is none
	Tied        bool    // W is the token embedding
	TensorName  string
	SourceDType DType
	Config      *Config  // nil for a bare file
	Notes       []string // what a person should know, a sentence each; often empty

	ckpt *Checkpoint
}

// HeadOptions changes how LoadHead reads a model. The zero value is good.
type HeadOptions struct {
	// Vocab overrides the vocabulary, such as the tokenizer's when config.json's counts padding; 0 keeps it.
	Vocab int
}

// LoadHead finds the LM head of a model. The path is
//
//	DIR                          a Hugging Face model: config.json and safetensors, sharded or not
//	DIR:TENSOR                   the same, with the head named
//	FILE.safetensors             bare weights: the only 2-D float tensor, or the only one with a usual head's name
//	FILE.safetensors:TENSOR      bare weights, with the head named
//
// Policy. V is config.json's vocab_size (a bare file's rows); rows of W beyond it are padding, and fewer rows than
// that are an error. A head that config.json says is tied is the embedding; if both are in the weights they must be
// equal. Where config.json leaves tying open, a head in the weights decides. For bare files config.json is not read.
//
// The weights themselves are not read, except to compare a tied pair; ctx bounds that. Close the head when its weights
// are no longer read. Errors are *FileError, or those of ctx.
func LoadHead(ctx context.Context, path string, opt HeadOptions) (*Head, error) {
	base, tensor := splitTensor(path)
	ckpt, err := OpenCheckpoint(base)
	if err != nil {
		return nil, err
	}
	f := &headFinder{ctx: ctx, path: base, ckpt: ckpt, tensor: tensor}
	h, err := f.find(isDir(base))
	if err == nil {
		err = h.finish(opt)
	}
	if err != nil {
		ckpt.Close()
		return nil, err
	}
	return h, nil
}

// splitTensor splits "path:TENSOR". A path that exists as it stands is not split, so that names with colons work.
func splitTensor(path string) (base, tensor string) {
	i := strings.LastIndexByte(path, ':')
	if i <= 0 || exists(path) || !exists(path[:i]) {
		return path, ""
	}
	return path[:i], path[i+1:]
}

func isDir(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}

// finish checks W against what is known of it and fills the fields that follow.
func (h *Head) finish(opt HeadOptions) error {
	w := h.W
	if len(w.Shape) != 2 || w.Shape[0] < 1 || w.Shape[1] < 1 {
		return fail(ErrMismatch, w.File(), "LM-head weights must be 2-D [rows, hidden]", "tensor %q is %v", w.Name, w.Shape)
	}
	if err := w.readable(); err != nil {
		return err
	}
	h.Rows, h.D, h.TensorName, h.SourceDType = w.Shape[0], w.Shape[1], w.Name, w.DType
	if h.Config == nil {
		h.V, h.Scale = h.Rows, 1
	} else if err := h.obeyConfig(); err != nil {
		return err
	}
	if opt.Vocab != 0 {
		if opt.Vocab < 1 || opt.Vocab > h.Rows {
			return fail(ErrRange, w.File(), "vocabulary must be from 1 to the rows of the weights", "%d of %d rows", opt.Vocab, h.Rows)
		}
		h.V = opt.Vocab
	}
	return h.findBias()
}

func (h *Head) obeyConfig() error {
	c, w := h.Config, h.W
	h.V, h.Scale, h.Softcap = c.VocabSize, c.Scale, c.Softcap
	if h.D != c.HiddenSize {
		return fail(ErrMismatch, w.File(), "weights must have config.json's hidden size",
			"tensor %q is %v, %s is %d", w.Name, w.Shape, c.From.HiddenSize, c.HiddenSize)
	}
	if h.Rows < c.VocabSize {
		return fail(ErrMismatch, w.File(), "weights must have a row for every token",
			"tensor %q has %d rows, %s is %d", w.Name, h.Rows, c.From.VocabSize, c.VocabSize)
	}
	if !c.Known {
		h.note("model_type " + strconv.Quote(c.ModelType) + " is not in the table: no scale is assumed, and a soft-cap only if config.json names one")
	}
	return nil
}

// findBias takes the bias beside the weights, NAME.bias for NAME.weight.
func (h *Head) findBias() error {
	base, ok := strings.CutSuffix(h.TensorName, ".weight")
	if !ok || !h.ckpt.Has(base+".bias") {
		return nil
	}
	b, err := h.ckpt.Tensor(base + ".bias")
	if err != nil {
		return err
	}
	if len(b.Shape) != 1 || b.Shape[0] != h.Rows {
		return fail(ErrMismatch, b.File(), "bias must have one value for each row of the weights", "tensor %q is %v for %d rows", b.Name, b.Shape, h.Rows)
	}
	h.Bias = b
	return b.readable()
}

func (h *Head) note(s string) { h.Notes = append(h.Notes, s) }

// ReadRows reads n rows of W from row first on, as Tensor.ReadRows does: a head is a sampler.RowReader.
func (h *Head) ReadRows(ctx context.Context, dst []uint16, first, n int) error {
	return h.W.ReadRows(ctx, dst, first, n, nil)
}

// Close closes the files of the weights.
func (h *Head) Close() error { return h.ckpt.Close() }

func plural(n int) string { return strconv.Itoa(n) + " more" }
