package model

import (
	"context"
	"fmt"
	"slices"
)

// headNames are the names of an output matrix over the families of transformers and the original checkpoints.
var headNames = []string{
	"lm_head.weight",
	"language_model.lm_head.weight",       // Gemma 3, Mistral 3, Llama 4, LLaVA
	"model.language_model.lm_head.weight", //
	"model.lm_head.weight",                //
	"thinker.lm_head.weight",              // Qwen omni
	"embed_out.weight",                    // GPT-NeoX
	"output.weight",                       // Mistral's and Meta's own checkpoints, InternLM 2
	"language_model.output.weight",        //
	"transformer.output_layer.weight",     // ChatGLM
	"head.weight",                         // RWKV, DeepSeek's own checkpoints
	"lm_head.linear.weight",               // Phi-1
}

// embedNames are the names of a token embedding, which is the head where the two are tied.
var embedNames = []string{
	"model.embed_tokens.weight",
	"language_model.model.embed_tokens.weight",
	"model.language_model.embed_tokens.weight",
	"model.text_model.embed_tokens.weight", // Idefics, SmolVLM
	"thinker.model.embed_tokens.weight",
	"model.decoder.embed_tokens.weight", // OPT
	"decoder.embed_tokens.weight",
	"embed_tokens.weight",
	"transformer.wte.weight", // GPT-2, MPT
	"wte.weight",
	"gpt_neox.embed_in.weight",
	"transformer.word_embeddings.weight", // Falcon, BLOOM
	"word_embeddings.weight",
	"backbone.embeddings.weight", // Mamba
	"backbone.embedding.weight",
	"tok_embeddings.weight",
	"model.tok_embeddings.weight",
	"transformer.embedding.word_embeddings.weight",
	"transformer.w.weight", // CTRL
	"embeddings.word_embeddings.weight",
	"bert.embeddings.word_embeddings.weight",
	"roberta.embeddings.word_embeddings.weight",
}

// headFinder holds one search for a head.
type headFinder struct {
	ctx    context.Context
	path   string
	ckpt   *Checkpoint
	tensor string // named by the caller, or empty
}

func (f *headFinder) find(dir bool) (*Head, error) {
	if !dir {
		return f.bare()
	}
	cfg, err := ReadConfig(f.path)
	if err != nil {
		return nil, err
	}
	h := &Head{Config: cfg, ckpt: f.ckpt}
	if f.tensor != "" {
		return f.named(h)
	}
	head, err := f.one(headNames)
	if err != nil {
		return nil, err
	}
	embed, err := f.one(embedNames)
	if err != nil {
		return nil, err
	}
	return h, f.choose(h, head, embed)
}

// named takes the tensor that the caller asked for.
func (f *headFinder) named(h *Head) (*Head, error) {
	var err error
	h.W, err = f.ckpt.Tensor(f.tensor)
	h.Tied = slices.Contains(embedNames, f.tensor)
	return h, err
}

// one finds which of the names there is; two of them are one too many. It is nil if there is none.
func (f *headFinder) one(names []string) (*Tensor, error) {
	var found []string
	for _, n := range names {
		if f.ckpt.Has(n) {
			found = append(found, n)
		}
	}
	switch len(found) {
	case 0:
		return nil, nil
	case 1:
		return f.ckpt.Tensor(found[0])
	}
	return nil, fail(ErrAmbiguous, f.ckpt.Source(), "several tensors could be the LM head; name one as PATH:TENSOR", "%s", list(found))
}

// choose decides between a head and an embedding by what config.json says of tying.
func (f *headFinder) choose(h *Head, head, embed *Tensor) error {
	c := h.Config
	switch {
	case head == nil && embed == nil:
		return fail(ErrMissing, f.ckpt.Source(), "no LM head or token embedding by a known name; name one as PATH:TENSOR",
			"%s", list(f.ckpt.Names()))
	case c.Tie == Tied && head != nil && embed != nil:
		h.W, h.Tied = embed, true
		return f.mustEqual(c, head, embed)
	case c.Tie == Tied && embed == nil:
		// Tying is symmetric: a writer that stores shared tensors once may keep either name.
		h.W, h.Tied = head, true
	case c.Tie == Tied:
		h.W, h.Tied = embed, true
	case head != nil:
		h.W = head
		if c.Tie == TieUnknown {
			h.note(fmt.Sprintf("tie_word_embeddings: %s; the weights have %s, which was taken", c.From.Tie, head.Name))
		}
	default:
		return fail(ErrMissing, f.ckpt.Source(), "no LM head, and config.json does not say that it is tied; name a tensor as PATH:TENSOR",
			"there is %s; tie_word_embeddings is %s (%s)", embed.Name, c.Tie, c.From.Tie)
	}
	return nil
}

// mustEqual compares a pair that config.json ties. If they differ, transformers 4 takes the embedding and 5 the head.
func (f *headFinder) mustEqual(c *Config, head, embed *Tensor) error {
	same, err := head.equal(f.ctx, embed)
	if err == nil && !same {
		err = fail(ErrMismatch, f.ckpt.Source(), "tied weights must be equal; name one as PATH:TENSOR",
			"%s and %s differ, tie_word_embeddings is true (%s)", head.Name, embed.Name, c.From.Tie)
	}
	return err
}

// bare finds the head of a file without a config.
func (f *headFinder) bare() (h *Head, err error) {
	h = &Head{ckpt: f.ckpt}
	if f.tensor != "" {
		return f.named(h)
	}
	var all, heads []string
	for _, n := range f.ckpt.Names() {
		t, err := f.ckpt.Tensor(n)
		if err != nil {
			return nil, err
		}
		if len(t.Shape) == 2 && t.DType.Float() {
			all = append(all, n)
			if slices.Contains(headNames, n) {
				heads = append(heads, n)
			}
		}
	}
	pick := all
	if len(all) > 1 && len(heads) == 1 {
		pick = heads
	}
	switch len(pick) {
	case 0:
		return nil, fail(ErrMissing, f.path, "no 2-D tensor of BF16, F16, F32 or F64", "%s", list(f.ckpt.Names()))
	case 1:
		h.W, err = f.ckpt.Tensor(pick[0])
		return h, err
	}
	return nil, fail(ErrAmbiguous, f.path, "several 2-D tensors; name one as FILE:TENSOR", "%s", list(f.candidates(all)))
}

// candidates puts what is likely meant first, known names before the rest, and adds the shapes.
func (f *headFinder) candidates(names []string) []string {
	likely := slices.Concat(headNames, embedNames)
	var first, rest []string
	for _, n := range names {
		t, err := f.ckpt.Tensor(n)
		if err != nil {
			continue
		}
		text := fmt.Sprintf("%s %v", n, t.Shape)
		if slices.Contains(likely, n) {
			first = append(first, text)
		} else {
			rest = append(rest, text)
		}
	}
	return append(first, rest...)
}
