package autotune

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/fsgen/fsgen/gen"
)

// GPU is what of a GPU and its driver a measurement depends on.
type GPU struct {
	// Name is the product's, such as "NVIDIA H200".
	Name string `json:"gpu"`
	// Multiprocessors counts them; a part of a GPU has fewer than the whole.
	Multiprocessors int `json:"multiprocessors"`
	// Driver is the driver's version: its compiler makes the machine code.
	Driver string `json:"driver"`
}

// Key is everything that a measurement depends on.
type Key struct {
	GPU
	// Generator is the version of the generator of kernels.
	Generator string `json:"generator"`
	// Vocab and Hidden are the shape of the weights, Weights their layout, such as "rowmajor".
	Vocab   int    `json:"vocab"`
	Hidden  int    `json:"hidden"`
	Weights string `json:"weights"`
	// Transform, Sampler, Score and LogSumExp are the computation's, normalized.
	Transform string `json:"transform"`
	Sampler   string `json:"sampler"`
	Score     bool   `json:"score"`
	LogSumExp bool   `json:"logsumexp,omitempty"`
	// Extras is the rest of the computation (ir.Computation.Extras).
	Extras string `json:"extras,omitempty"`
	// Batch is the bucket: the largest batch size that the kernel serves (tiling.Widths), and the one that was measured.
	Batch int `json:"batch"`
}

// NewKey returns the key of a request for a bucket's kernel, r.Batch being the bucket.
func NewKey(gpu GPU, weights string, r gen.Request) Key {
	c := r.Computation.Normalize()
	return Key{GPU: gpu, Generator: gen.Version, Vocab: r.Shape.Vocab, Hidden: r.Shape.Hidden, Weights: weights,
		Transform: c.Chain.String(), Sampler: c.Sampler.String(), Score: c.Score, LogSumExp: c.LogSumExp, Extras: c.Extras(), Batch: r.Batch}
}

// name is the key as the name of a store's entry: the shape for people, the hash for everything else.
func (k Key) name() string {
	sum := sha256.Sum256(canonical(k))
	return fmt.Sprintf("t%d-v%dd%dn%d-%s", Schema, k.Vocab, k.Hidden, k.Batch, hex.EncodeToString(sum[:16]))
}

// problem is the key without what may differ between the machine that measured a table and the one that asks: a new
// driver or generator rarely turns the order of tiles around, and a table that each of them emptied would be of no use.
func (k Key) problem() Key {
	k.Driver, k.Generator = "", ""
	return k
}

func (k Key) validate() error {
	switch {
	case k.Name == "" || k.Driver == "" || k.Generator == "" || k.Weights == "" || k.Transform == "" || k.Sampler == "":
		return fmt.Errorf("autotune: key %+v has an empty field", k)
	case k.Multiprocessors < 1 || k.Vocab < 1 || k.Hidden < 1 || k.Batch < 1:
		return fmt.Errorf("autotune: key %+v has a number below 1", k)
	}
	return nil
}
