// Command mkhead writes the small LM head that tests and examples use: testdata/head.
//
//	go run ./model/internal/mkhead testdata/head
//
// The bytes are the same on every machine: all arithmetic is on integers and powers of two.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/fsgen/fsgen/model"
)

// The shape: 1000 tokens in 1024 rows, so that padding is exercised.
const (
	vocab  = 1000
	rows   = 1024
	hidden = 64
	batch  = 4
)

const config = `{
  "architectures": ["LlamaForCausalLM"],
  "hidden_size": 64,
  "model_type": "llama",
  "tie_word_embeddings": false,
  "torch_dtype": "bfloat16",
  "vocab_size": 1000
}
`

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: mkhead DIR")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "mkhead:", err)
		os.Exit(1)
	}
}

// write makes DIR/config.json, DIR/model.safetensors and DIR/hidden.npy.
func write(dir string) error {
	rng := splitmix(1)
	w := make([]uint16, 0, rows*hidden)
	for range vocab * hidden {
		w = append(w, uint16(model.FromFloat64(rng.normal()/8))) // variance 1/64 = 1/D
	}
	h := make([]float32, batch*hidden)
	for i := range h {
		h[i] = model.FromFloat64(rng.normal()).Float32()
	}
	w = appendPadding(w, h)
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o644); err != nil {
		return err
	}
	head := model.BF16Data("lm_head.weight", []int{rows, hidden}, w)
	if err := model.WriteFile(filepath.Join(dir, "model.safetensors"), []model.TensorData{head}, map[string]string{"format": "pt"}); err != nil {
		return err
	}
	return model.WriteNpy(filepath.Join(dir, "hidden.npy"), []int{batch, hidden}, h)
}

// appendPadding fills the rows past the vocabulary with the hidden states themselves. Their logits, near 64 where the
// real ones are near 1, would win every draw: a sampler that looks at padding cannot pass unnoticed.
func appendPadding(w []uint16, h []float32) []uint16 {
	for r := vocab; r < rows; r++ {
		for k := range hidden {
			w = append(w, uint16(model.FromFloat32(h[r%batch*hidden+k])))
		}
	}
	return w
}

// splitmix is SplitMix64 (Steele, Lea, Flood 2014).
type splitmix uint64

func (s *splitmix) next() uint64 {
	*s += 0x9e3779b97f4a7c15
	z := uint64(*s)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// normal is nearly N(0,1): the sum of 12 uniform values less 6 (Irwin-Hall), exact in integers. Logarithms and cosines
// would differ in the last bit between machines.
func (s *splitmix) normal() float64 {
	sum := int64(0)
	for range 12 {
		sum += int64(s.next() >> 32)
	}
	return float64(sum-6<<32) / (1 << 32)
}
