package model

import (
	"fmt"
	"slices"
	"strings"
)

// hiddenKeys are the names of D over the families of transformers.
var hiddenKeys = []string{"hidden_size", "n_embd", "d_model"}

// readHidden reads D. Several names may be given if they agree.
func (k *configKeys) readHidden(c *Config) error {
	for _, key := range hiddenKeys {
		v, path, ok := k.lookup(key)
		if !ok || v == nil {
			continue
		}
		n, err := k.size(path, v)
		if err != nil {
			return err
		}
		if c.HiddenSize != 0 && c.HiddenSize != n {
			return fail(ErrMismatch, k.file, "hidden size is said twice", "%s is %d, %s is %d", c.From.HiddenSize, c.HiddenSize, path, n)
		}
		if c.HiddenSize == 0 {
			c.HiddenSize, c.From.HiddenSize = n, path
		}
	}
	if c.HiddenSize == 0 && k.text != nil && k.family.hidden > 0 {
		c.HiddenSize, c.From.HiddenSize = k.family.hidden, k.defaultOf(k.family.hidden)
	}
	if c.HiddenSize == 0 {
		return k.missing(hiddenKeys...)
	}
	return nil
}

// readVocab reads V. Where a nested config leaves it out, transformers takes the nested family's default and ignores
// the top; so a top-level value that says otherwise is refused.
func (k *configKeys) readVocab(c *Config) error {
	v, path, ok := k.lookup("vocab_size")
	ok = ok && v != nil
	if ok {
		n, err := k.size(path, v)
		if err != nil {
			return err
		}
		c.VocabSize, c.From.VocabSize = n, path
	}
	if k.text == nil || k.text["vocab_size"] != nil || k.family.vocab == 0 {
		if !ok {
			return k.missing("vocab_size")
		}
		return nil
	}
	if ok && c.VocabSize != k.family.vocab {
		return fail(ErrAmbiguous, k.file, k.textPath+" leaves vocab_size out, and its family's default differs from the top",
			"default %d of model_type %s, top-level %d", k.family.vocab, k.modelType, c.VocabSize)
	}
	c.VocabSize, c.From.VocabSize = k.family.vocab, k.defaultOf(k.family.vocab)
	return nil
}

// readTie reads tie_word_embeddings. transformers 4 goes by the nested config, transformers 5 by the top; if both say
// something and disagree, the answer is unknown and the weights have to tell.
func (k *configKeys) readTie(c *Config) error {
	const key = "tie_word_embeddings"
	inner, err := k.tie(k.text, join(k.textPath, key))
	if err != nil {
		return err
	}
	outer, err := k.tie(k.top, key)
	if err != nil {
		return err
	}
	switch {
	case inner != TieUnknown && outer != TieUnknown && inner != outer:
		c.From.Tie = fmt.Sprintf("%s and the top-level %s disagree", join(k.textPath, key), key)
	case inner != TieUnknown:
		c.Tie, c.From.Tie = inner, join(k.textPath, key)
	case outer != TieUnknown:
		c.Tie, c.From.Tie = outer, key
	case k.family.tie != TieUnknown:
		c.Tie, c.From.Tie = k.family.tie, k.defaultOf(k.family.tie)
	default:
		c.From.Tie = fmt.Sprintf("not said, and no default is known for model_type %q", k.modelType)
	}
	return nil
}

func (k *configKeys) tie(o jsonObject, path string) (Tie, error) {
	v, ok := o["tie_word_embeddings"]
	if !ok {
		return TieUnknown, nil
	}
	switch v {
	case true:
		return Tied, nil
	case false:
		return Untied, nil
	}
	return TieUnknown, fail(ErrMalformed, k.file, "want true or false", "%s is %s", path, describe(v))
}

func (k *configKeys) readDType(c *Config) error {
	for _, key := range []string{"torch_dtype", "dtype"} {
		v, path, ok := k.lookup(key)
		if !ok || v == nil {
			continue
		}
		s, ok := v.(string)
		if !ok {
			return fail(ErrMalformed, k.file, "want a string", "%s is %s", path, describe(v))
		}
		if c.DType == "" {
			c.DType = strings.TrimPrefix(s, "torch.")
		}
	}
	return nil
}

// readSoftcap reads the family's soft-cap key. A model of unknown family may use the one common name.
func (k *configKeys) readSoftcap(c *Config) error {
	rule := k.family.softcap
	if !k.family.known {
		rule.key = "final_logit_softcapping"
	}
	if rule.key == "" {
		c.From.Softcap = "none in model_type " + k.modelType
		return nil
	}
	v, path, ok := k.lookup(rule.key)
	switch {
	case !ok && rule.def != 0:
		c.Softcap, c.From.Softcap = rule.def, k.defaultOf(rule.def)
	case !ok:
		c.From.Softcap = "no " + rule.key
	case v == nil:
		c.From.Softcap = path + " is null"
	default:
		cap, err := k.factor(path, v)
		if err != nil {
			return err
		}
		c.Softcap, c.From.Softcap = cap, path
	}
	return nil
}

// readScale reads the family's scale key and turns it into the factor that multiplies the logits.
func (k *configKeys) readScale(c *Config) error {
	rule := k.family.scale
	c.Scale = 1
	if rule.op == scaleNone {
		c.From.Scale = "none in model_type " + k.modelType
		return nil
	}
	v, path, ok := k.lookup(rule.key)
	x := rule.def
	c.From.Scale = path
	switch {
	case ok && v == nil:
		c.From.Scale = path + " is null"
		return nil
	case ok:
		var err error
		if x, err = k.factor(path, v); err != nil {
			return err
		}
	case x == 0:
		return k.missing(rule.key)
	default:
		c.From.Scale = k.defaultOf(x)
	}
	c.Scale = rule.op.factor(x, c.HiddenSize)
	if !inFloat32(c.Scale) {
		return fail(ErrMalformed, k.file, "scale of the logits must fit float32", "%s is %v, which comes to %v", c.From.Scale, x, c.Scale)
	}
	return nil
}

// refuseForeign refuses a key that scales or caps logits somewhere but is not one that this family reads: ignoring it
// may sample from another distribution, and obeying it may too (logits_scaling divides in Granite and multiplies in
// HyperCLOVA X). Values that change nothing pass.
func (k *configKeys) refuseForeign(*Config) error {
	own := []string{k.family.softcap.key, k.family.scale.key}
	if !k.family.known {
		own = append(own, "final_logit_softcapping")
	}
	for _, key := range logitKeys {
		v, path, ok := k.lookup(key)
		if !ok || slices.Contains(own, key) || harmless(v) {
			continue
		}
		return fail(ErrUnsupported, k.file, "key changes logits in a way that is not known for this model_type",
			"%s is %s, model_type is %q", path, describe(v), k.modelType)
	}
	for _, why := range k.family.refuse {
		return fail(ErrUnsupported, k.file, why, "model_type is %q", k.modelType)
	}
	return nil
}
