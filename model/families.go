package model

import (
	"encoding/json"
	"slices"
	"strconv"
)

// family is what transformers assumes for one model_type when a key is absent, and what it does to the logits.
type family struct {
	known   bool
	vocab   int // default of vocab_size; 0 if there is none or if versions 4.57 and 5.24 differ
	hidden  int
	tie     Tie
	scale   scaleRule
	softcap softcapRule
	refuse  []string // not empty: why the head cannot be described by a scale and a cap
}

// scaleRule turns one key into a factor on the logits.
type scaleRule struct {
	op  scaleOp
	key string
	def float64 // value of an absent key; 0 if it must be present
}

// softcapRule names the key of the final soft-cap; def is the value of an absent key, 0 for none.
type softcapRule struct {
	key string
	def float64
}

type scaleOp int

const (
	scaleNone  scaleOp = iota
	scaleMul           // logits times the key
	scaleDiv           // logits over the key
	scaleWidth         // the hidden state over (hidden_size over the key), which comes to the same
)

func (op scaleOp) factor(x float64, hidden int) float64 {
	switch op {
	case scaleMul:
		return x
	case scaleDiv:
		return 1 / x
	case scaleWidth:
		return x / float64(hidden)
	}
	return 1
}

// logitKeys are all keys known to change logits in some model. A config with one of them that its family does not
// read is refused.
var logitKeys = []string{
	"final_logit_softcapping", "logits_soft_cap", "output_logit_soft_cap", "final_logits_softcapping", "logit_softcapping",
	"logit_scale", "logits_scaling", "logits_scale", "lm_head_multiplier", "output_multiplier_scale", "output_multiplier",
	"dim_model_base", "mup_width_multiplier", "logits_mup_width_multiplier", "output_logits_scale", "mup_output_alpha",
	"scale_logits", "lm_head_scale",
}

// harmless says whether a value of such a key changes nothing.
func harmless(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case bool:
		return !v
	case json.Number:
		f, err := strconv.ParseFloat(v.String(), 64)
		return err == nil && f == 1
	}
	return false
}

// findFamily goes by model_type, then by architecture for checkpoints whose model_type says nothing.
func findFamily(modelType string, architectures []string) family {
	if f, ok := families[modelType]; ok {
		return f
	}
	for _, a := range architectures {
		if f, ok := archFamilies[a]; ok {
			return f
		}
	}
	return family{}
}

// textTypes is the model_type that a composite model gives a nested language model that does not name its own
// (transformers, the defaults of the composite's configuration class).
var textTypes = map[string]string{
	"gemma3": "gemma3_text", "gemma3n": "gemma3n_text", "gemma4": "gemma4_text", "llama4": "llama4_text",
	"mistral3": "mistral", "llava": "llama", "llava_next": "llama", "paligemma": "gemma",
	"qwen2_vl": "qwen2_vl_text", "qwen2_5_vl": "qwen2_5_vl_text", "qwen3_vl": "qwen3_vl_text",
	"qwen3_vl_moe": "qwen3_vl_moe_text", "minimax_m3_vl": "minimax_m3_vl_text",
}

// refuseNormHead is for Baichuan: version 2 divides each row of the weights by its norm before the product, and
// version 1, which does not, has the same model_type.
const refuseNormHead = "Baichuan 2 heads normalise their weights, which a scale cannot express; name the tensor of a Baichuan 1 file instead"

// known builds the entry of a family with plain logits.
func known(vocab, hidden int, tie Tie) family {
	return family{known: true, vocab: vocab, hidden: hidden, tie: tie}
}

func (f family) scaled(op scaleOp, key string, def float64) family {
	f.scale = scaleRule{op, key, def}
	return f
}

func (f family) capped(key string, def float64) family {
	f.softcap = softcapRule{key, def}
	return f
}

func (f family) refused(why string) family {
	f.refuse = slices.Concat(f.refuse, []string{why})
	return f
}
