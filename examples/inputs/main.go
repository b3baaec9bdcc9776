// Command inputs writes one small sampling problem in every form that the examples read, so that all of them, and fsgen sample,
// can be seen to give the same tokens:
//
//	go run ./examples/inputs DIR
//	fsgen sample --weights DIR/weights.safetensors --hidden DIR/hidden.npy --temperature DIR/temperature.npy
//	    --seed DIR/seed.npy --position DIR/position.npy --device cpu --json
//
// shape.txt holds "vocab hidden batch"; the .bin files hold the same values as the others, little-endian and without a header,
// weights and hidden states as the bits of bf16. The bytes are the same on every machine.
package main

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/fsgen/fsgen/model"
)

// The shape: more than a tile of tokens, a last stage that is cut, and rows that fill no tile.
const (
	vocab  = 5000
	hidden = 264
	batch  = 5
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: inputs DIR")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "inputs:", err)
		os.Exit(1)
	}
}

// write makes the directory and its files.
func write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(1, 2))
	w, h := make([]uint16, vocab*hidden), make([]uint16, batch*hidden)
	for i := range w {
		w[i] = bf16(rng, 3./16) // logits spread over a few units
	}
	states := make([]float32, len(h))
	for i := range h {
		h[i] = bf16(rng, 1)
		states[i] = model.BF16(h[i]).Float32()
	}
	seeds, positions, temperatures := make([]uint64, batch), make([]uint64, batch), []float32{1, 0.7, 0, 1.5, 0.25}
	for i := range batch {
		seeds[i], positions[i] = rng.Uint64(), rng.Uint64()>>40
	}
	head := model.BF16Data("lm_head.weight", []int{vocab, hidden}, w)
	if err := model.WriteFile(filepath.Join(dir, "weights.safetensors"), []model.TensorData{head}, nil); err != nil {
		return err
	}
	for _, f := range []func() error{
		func() error {
			return os.WriteFile(filepath.Join(dir, "shape.txt"), fmt.Appendln(nil, vocab, hidden, batch), 0o644)
		},
		func() error { return raw(dir, "weights", w) },
		func() error { return raw(dir, "hidden", h) },
		func() error { return model.WriteNpy(filepath.Join(dir, "hidden.npy"), []int{batch, hidden}, states) },
		func() error { return both(dir, "seed", seeds) },
		func() error { return both(dir, "position", positions) },
		func() error { return both(dir, "temperature", temperatures) },
	} {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// bf16 is the sum of four uniform values, near enough to a normal one, rounded: exact in float64, and so the same everywhere.
func bf16(rng *rand.Rand, scale float64) uint16 {
	sum := 0.
	for range 4 {
		sum += float64(rng.IntN(1<<16)) / (1 << 15)
	}
	return uint16(model.FromFloat64((sum - 4) * scale))
}

// both writes one value a row, with a header for NumPy and without.
func both[T uint64 | float32](dir, name string, v []T) error {
	if err := model.WriteNpy(filepath.Join(dir, name+".npy"), []int{len(v)}, v); err != nil {
		return err
	}
	return raw(dir, name, v)
}

// raw writes values and nothing else.
func raw[T uint16 | uint64 | float32](dir, name string, v []T) error {
	data, err := binary.Append(nil, binary.LittleEndian, v)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+".bin"), data, 0o644)
}
