package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/model"
	"github.com/fsgen/fsgen/sampler"
)

// First seed, and position, of the embedded head, so that the first run of anybody prints the same tokens.
const (
	embeddedSeed     = 42
	embeddedPosition = 0
)

// setNoise reads seeds and positions.
func (o *sampling) setNoise(e *env, in *opened, spec *sampler.Spec, rows *sampler.Rows) error {
	if !spec.Sampler.Random() {
		return o.refuseNoise()
	}
	rows.Draw, rows.StreamTag = o.draw, o.tag
	if in.embedded && o.seed == "" && o.position == "" {
		embeddedNoise(e, in, rows)
		return nil
	}
	if o.seed != "" && o.position == "" {
		return usagef("--seed needs --position: the step of the sequence, without which every step would repeat one draw")
	}
	var err error
	if o.seed != "" {
		if rows.Seeds, err = uint64Flag("--seed", o.seed, in.rows); err != nil {
			return err
		}
		if len(rows.Seeds) == 1 && len(rows.Seeds) < in.rows {
			e.note("one seed for %d rows: they share their noise; --seed FILE.npy gives each its own", in.rows)
		}
	} else {
		e.note("seeds drawn from the operating system (--json reports them)")
	}
	if o.position != "" {
		rows.Positions, err = uint64Flag("--position", o.position, in.rows)
	}
	return err
}

func embeddedNoise(e *env, in *opened, rows *sampler.Rows) {
	for i := range in.rows {
		rows.Seeds = append(rows.Seeds, uint64(embeddedSeed+i))
	}
	rows.Positions = []uint64{embeddedPosition}
	e.note("seeds %d to %d, position %d (--seed and --position choose others)", embeddedSeed, embeddedSeed+in.rows-1, embeddedPosition)
}

// greedyFlag is how greedy sampling was asked for.
func (o *sampling) greedyFlag() string {
	if o.greedy {
		return "--greedy"
	}
	return "--sampler greedy"
}

// refuseNoise refuses what a greedy sampler would ignore.
func (o *sampling) refuseNoise() error {
	for _, name := range []string{"seed", "position", "draw", "stream-tag"} {
		if o.changed(name) {
			return usagef("%s and --%s exclude each other: a greedy sampler draws nothing", o.greedyFlag(), name)
		}
	}
	return nil
}

// uint64Flag reads a number, or a .npy with one number or one a row.
func uint64Flag(flag, text string, rows int) ([]uint64, error) {
	if !isNpy(text) {
		n, err := parseUint64(text)
		if err != nil {
			return nil, usagef("%s: %q: want a number from 0 to 2^64-1 (0x for hexadecimal), or FILE.npy", flag, text)
		}
		return []uint64{n}, nil
	}
	return integerFile(flag, text, rows, (*model.Array).Uint64s)
}

// integerFile reads a .npy with one integer or one a row.
func integerFile[T int64 | uint64](flag, path string, rows int, read func(*model.Array) ([]T, error)) ([]T, error) {
	a, err := model.ReadNpy(path)
	if err != nil {
		return nil, err
	}
	if a.DType() == "b1" {
		return nil, fmt.Errorf("%s: %s is boolean: want integers", a.Name(), strings.TrimPrefix(flag, "--"))
	}
	v, err := read(a)
	if err != nil {
		return nil, err
	}
	return v, onePerRow(a, len(v), rows)
}

// parseUint64 reads decimal or, after 0x, hexadecimal digits. 010 is ten, not Go's eight.
func parseUint64(text string) (uint64, error) {
	if hex, ok := strings.CutPrefix(strings.ToLower(text), "0x"); ok {
		return strconv.ParseUint(hex, 16, 64)
	}
	return strconv.ParseUint(text, 10, 64)
}

func isNpy(text string) bool { return strings.HasSuffix(text, ".npy") }

func onePerRow(a *model.Array, n, rows int) error {
	if len(a.Shape()) > 1 {
		return fmt.Errorf("%s: shape %v: want %s, one for each hidden state", a.Name(), a.Shape(), oneOr(rows, "[%d]"))
	}
	if n != 1 && n != rows {
		return fmt.Errorf("%s: %s: want %s, one for each hidden state", a.Name(), valueCount(n), oneOr(rows, "%d"))
	}
	return nil
}

// oneOr names the two numbers that there may be of something, each in a format, where they are two; none go without.
func oneOr(n int, format string) string {
	switch n {
	case 0:
		return fmt.Sprintf(format+" or none", 1)
	case 1:
		return fmt.Sprintf(format, 1)
	}
	return fmt.Sprintf(format+" or "+format, 1, n)
}

func valueCount(n int) string {
	if n == 1 {
		return "1 value"
	}
	return fmt.Sprintf("%d values", n)
}

func (o *sampling) setTemperature(_ *env, in *opened, spec *sampler.Spec, rows *sampler.Rows) error {
	if !spec.Sampler.Random() {
		if o.changed("temperature") {
			return usagef("%s and --temperature exclude each other: a greedy sampler has no temperature", o.greedyFlag())
		}
		return nil
	}
	spec.Chain.Temperature = true
	var err error
	rows.Temperature, err = float32Flag("--temperature", o.temperature, in.rows, ir.ValidTemperature)
	return err
}

func (o *sampling) setBias(_ *env, in *opened, spec *sampler.Spec, rows *sampler.Rows) error {
	if o.bias == "" {
		return nil
	}
	a, err := model.ReadNpy(o.bias)
	if err != nil {
		return err
	}
	shape := a.Shape()
	switch {
	case len(shape) == 1 && shape[0] == in.vocab:
		spec.Chain.Bias = ir.BiasVector
	case len(shape) == 2 && shape[0] == in.rows && shape[1] == in.vocab:
		spec.Chain.Bias = ir.BiasMatrix
	default:
		return fmt.Errorf("%s: bias has shape %v: want [%d] or [%d, %d]", a.Name(), shape, in.vocab, in.rows, in.vocab)
	}
	rows.Bias, err = numbers(a, "bias")
	return err
}

func (o *sampling) setMask(e *env, in *opened, spec *sampler.Spec, rows *sampler.Rows) error {
	if o.mask == "" {
		return nil
	}
	a, err := model.ReadNpy(o.mask)
	if err != nil {
		return err
	}
	shape := a.Shape()
	if len(shape) == 1 {
		shape = []int{1, shape[0]}
	}
	if len(shape) != 2 || shape[0] != 1 && shape[0] != in.rows {
		return fmt.Errorf("%s: mask has shape %v: want %s rows", a.Name(), a.Shape(), oneOr(in.rows, "%d"))
	}
	spec.Chain.Mask = true
	if a.DType() == "b1" {
		if shape[1] != in.vocab {
			return fmt.Errorf("%s: boolean mask has %d columns: want %d, one a token", a.Name(), shape[1], in.vocab)
		}
		return packMask(a, shape, rows)
	}
	if rows.Mask, err = a.Words32(); err != nil {
		return err
	}
	if want := (in.vocab + 31) / 32; shape[1] < 1 || shape[1] > want {
		return fmt.Errorf("%s: mask has %d words a row: want 1 to %d, for %d tokens", a.Name(), shape[1], want, in.vocab)
	}
	if rows.MaskWords = shape[1]; shape[1]*32 < in.vocab {
		e.note("%s ends at token %d of %d: the rest is not allowed", a.Name(), shape[1]*32, in.vocab)
	}
	return nil
}

// packMask turns booleans into words: token v is bit v&31 of word v>>5.
func packMask(a *model.Array, shape []int, rows *sampler.Rows) error {
	allowed, err := a.Uint32s()
	if err != nil {
		return err
	}
	rows.MaskWords = (shape[1] + 31) / 32
	rows.Mask = make([]uint32, shape[0]*rows.MaskWords)
	for i, x := range allowed {
		row, v := i/shape[1], i%shape[1]
		rows.Mask[row*rows.MaskWords+v>>5] |= (x & 1) << (v & 31)
	}
	return nil
}
