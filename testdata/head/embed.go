// Package head embeds a small LM head: 1,000 tokens (1,024 rows: 24 of padding), hidden size 64, and four hidden states.
// `fsgen sample` uses it when it is given no model. model/internal/mkhead writes the files.
package head

import _ "embed"

// Config is the head's config.json.
//
//go:embed config.json
var Config []byte

// Weights is the head's model.safetensors.
//
//go:embed model.safetensors
var Weights []byte

// Hidden is hidden.npy: float32 [4, 64].
//
//go:embed hidden.npy
var Hidden []byte
