package model

import (
	"io"
	"os"
	"path/filepath"
)

// maxConfigBytes bounds a config.json; real ones are under 100 KB.
const maxConfigBytes = 4 << 20

// Tie says whether the LM head shares its weights with the token embedding.
type Tie int

// The answers of a config: TieUnknown where it is silent and the model's family has no single default.
const (
	TieUnknown Tie = iota
	Untied
	Tied
)

// String is "tied", "untied" or "unknown".
func (t Tie) String() string { return [...]string{"unknown", "untied", "tied"}[t] }

// Config is what a Hugging Face config.json says about the LM head.
type Config struct {
	File          string
	ModelType     string   // of the language model: text_config's where there is one
	Architectures []string // as given, may be empty
	VocabSize     int      // V, at least 1; may itself count unused ids that pad the vocabulary
	HiddenSize    int      // D, at least 1
	Tie           Tie
	Scale         float64 // the logits are multiplied by this first; 1 if there is none
	Softcap       float64 // then c tanh(y/c); 0 if there is none
	DType         string  // torch_dtype or dtype, such as "bfloat16"; empty if not said
	Known         bool    // the family is in this package's table, so absent keys have known defaults

	// From says where each value comes from: a key's path, or the default and whose.
	From Origins
}

// Origins says where the values of a Config come from, in words for people.
type Origins struct {
	VocabSize, HiddenSize, Tie, Scale, Softcap string
}

// ReadConfig reads a config.json, or the one in a directory. Errors are *FileError and name the key and the value.
func ReadConfig(path string) (*Config, error) {
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		path = filepath.Join(path, "config.json")
	}
	text, err := readSmall(path, maxConfigBytes)
	if err != nil {
		return nil, err
	}
	return ParseConfig(path, text)
}

// readSmall reads a regular file of at most max bytes.
func readSmall(path string, max int64) ([]byte, error) {
	f, size, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > max {
		return nil, fail(ErrMalformed, path, "file is too large to be this", "%d bytes, at most %d", size, max)
	}
	text, err := io.ReadAll(io.LimitReader(f, max))
	if err != nil {
		return nil, failIO(path, "reading", trimPathError(err))
	}
	return text, nil
}

// ParseConfig is ReadConfig of a text already in memory; file is used in errors.
//
// Nested language models (text_config, llm_config, language_config, thinker_config.text_config) are followed, and
// their keys come before the outer ones. An absent tie_word_embeddings, soft-cap or scale takes the default of the
// model's family in transformers. An absent vocab_size or hidden_size takes one only inside a nested config:
// transformers writes those as differences from the defaults, while at the top both are always written, so their
// absence there is an error.
func ParseConfig(file string, text []byte) (*Config, error) {
	p := newJSONReader(file, "config.json", plainJSON(text))
	top, err := p.tree("", 0)
	if err != nil {
		return nil, err
	}
	if err := p.end(); err != nil {
		return nil, err
	}
	k, err := newConfigKeys(file, top)
	if err != nil {
		return nil, err
	}
	c := &Config{File: file, ModelType: k.modelType, Architectures: k.architectures, Known: k.family.known}
	for _, read := range []func(*Config) error{k.readHidden, k.readVocab, k.readTie, k.readDType, k.readSoftcap, k.readScale, k.refuseForeign} {
		if err := read(c); err != nil {
			return nil, err
		}
	}
	return c, nil
}
