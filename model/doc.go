// Package model brings models in: bf16, safetensors files (sharded too), .npy arrays, Hugging Face config.json, and the
// shapes of well-known models.
//
// The way of one model through the package:
//
//	path -> Checkpoint (which file holds which tensor) -> Config (vocabulary, scale, soft-cap, tying)
//	     -> Head (the LM-head weights W [Rows, D] and what the logits go through)
//
// Nothing is read before it is checked: a header is compared with the size of its file, shapes are multiplied with
// overflow in mind, and no allocation follows a number that the file's own length does not back. Nothing is guessed
// silently: every value of a Config says where it comes from, and what has two meanings is refused.
//
// bf16 values in bulk are []uint16, the raw bits, because that is what a device takes; BF16 is the same bits as a
// number. Everything exported is safe for concurrent use unless its comment says otherwise.
package model

//go:generate go run ./internal/mkhead ../testdata/head
