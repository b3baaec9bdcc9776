package ir

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Bias says which bias is added to the logits.
type Bias uint8

const (
	// BiasNone adds nothing.
	BiasNone Bias = iota
	// BiasVector adds one float32 a token: [V].
	BiasVector
	// BiasMatrix adds one float32 a row and token: [B, V].
	BiasMatrix
	// BiasSparse adds a float32 to each token of a row's list of (id, value).
	BiasSparse
)

// biasItems are the kinds of bias as chains spell them.
var biasItems = [...]string{BiasVector: "bias", BiasMatrix: "bias=rows", BiasSparse: "bias=sparse"}

// Chain is the pointwise transform of the logits, in the fixed order scale, softcap, bias, penalties, lists of ids and mask,
// temperature. The zero value leaves the logits alone.
type Chain struct {
	// Scale multiplies the raw logits; 0 means 1.
	Scale float32
	// Softcap c replaces y by c tanh(y/c); 0 means none.
	Softcap float32
	// Bias is the additive bias.
	Bias Bias
	// Penalties lowers tokens that the row's sequence has had (Penalty).
	Penalties bool
	// BiasLast adds the bias after the penalties instead of before them.
	BiasLast bool
	// IDs drops tokens by lists of ids, each row's own: those that are banned, or all but those that are allowed.
	IDs bool
	// Mask drops tokens whose bit is clear.
	Mask bool
	// Temperature divides by each row's T.
	Temperature bool
}

// ParseChain reads a chain such as "softcap=30,bias,mask,temperature"; "" and "none" are the empty chain. The order in
// the text does not matter: the order of application is fixed.
func ParseChain(s string) (Chain, error) {
	var c Chain
	if s == "" || s == "none" {
		return c, nil
	}
	seen := map[string]bool{}
	for _, item := range strings.Split(s, ",") {
		name, value, hasValue := strings.Cut(strings.TrimSpace(item), "=")
		if seen[name] {
			return Chain{}, fmt.Errorf("ir: transform %q: %s is named twice", s, name)
		}
		seen[name] = true
		if err := c.set(name, value, hasValue); err != nil {
			return Chain{}, fmt.Errorf("ir: transform %q: %w", s, err)
		}
	}
	return c, c.Validate()
}

func (c *Chain) set(name, value string, hasValue bool) error {
	switch name {
	case "scale", "softcap":
		x, err := strconv.ParseFloat(value, 32)
		if errors.Is(err, strconv.ErrRange) {
			return fmt.Errorf("%s of %s is no float32", name, value)
		}
		if err != nil || x == 0 {
			return fmt.Errorf("%s wants a number other than 0, as in %s=30, not %q", name, name, value)
		}
		if name == "scale" {
			c.Scale = float32(x)
		} else {
			c.Softcap = float32(x)
		}
		return nil
	case "bias":
		return c.setBias(value)
	}
	flag := c.flag(name)
	if flag == nil {
		return fmt.Errorf("unknown transform %q: want scale=F, softcap=F, bias, bias=rows, bias=sparse, penalties, bias-last, ids, mask or temperature", name)
	}
	if hasValue {
		return fmt.Errorf("%s takes no value: the values are given at launch", name)
	}
	*flag = true
	return nil
}

// flag is the field of an item that is there or not; nil for no such item.
func (c *Chain) flag(name string) *bool {
	switch name {
	case "penalties":
		return &c.Penalties
	case "bias-last":
		return &c.BiasLast
	case "ids":
		return &c.IDs
	case "mask":
		return &c.Mask
	case "temperature":
		return &c.Temperature
	}
	return nil
}

func (c *Chain) setBias(value string) error {
	switch value {
	case "", "vocab":
		c.Bias = BiasVector
	case "rows":
		c.Bias = BiasMatrix
	case "sparse":
		c.Bias = BiasSparse
	default:
		return fmt.Errorf("bias=%q: want bias (one [V] vector), bias=rows ([B, V]) or bias=sparse (lists of ids and values)", value)
	}
	return nil
}

// String returns the canonical text of the chain, which ParseChain reads back; "none" for the empty one.
func (c Chain) String() string {
	var items []string
	if c.scaled() {
		items = append(items, "scale="+formatFloat(c.Scale))
	}
	if c.Softcap != 0 {
		items = append(items, "softcap="+formatFloat(c.Softcap))
	}
	if c.Bias != BiasNone {
		items = append(items, biasItems[c.Bias])
	}
	for _, name := range []string{"penalties", "bias-last", "ids", "mask", "temperature"} {
		if *c.flag(name) {
			items = append(items, name)
		}
	}
	if len(items) == 0 {
		return "none"
	}
	return strings.Join(items, ",")
}

func (c Chain) scaled() bool { return c.Scale != 0 && c.Scale != 1 }

func formatFloat(x float32) string { return strconv.FormatFloat(float64(x), 'g', -1, 32) }

// Validate reports a chain that no sampler can honour.
func (c Chain) Validate() error {
	if !finite(c.Scale) {
		return fmt.Errorf("ir: scale is %v: want a finite number", c.Scale)
	}
	if !finite(c.Softcap) || c.Softcap < 0 {
		return fmt.Errorf("ir: softcap is %v: want a finite number above 0", c.Softcap)
	}
	if c.Softcap != 0 && (c.Softcap < 1e-30 || c.Softcap > 1e30) {
		return fmt.Errorf("ir: softcap is %v: want a number between 1e-30 and 1e30", c.Softcap)
	}
	if c.Bias > BiasSparse {
		return fmt.Errorf("ir: unknown kind of bias %d", c.Bias)
	}
	if c.BiasLast && (c.Bias == BiasNone || !c.Penalties) {
		return errors.New("ir: bias-last says that the bias follows the penalties: want both in the chain")
	}
	return nil
}

func finite(x float32) bool { return !math.IsNaN(float64(x)) && !math.IsInf(float64(x), 0) }
