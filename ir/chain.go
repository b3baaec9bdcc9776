package ir

import (
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
)

// Chain is the pointwise transform of the logits, in the fixed order scale, softcap, bias, mask, temperature.
// The zero value leaves the logits alone.
type Chain struct {
	// Scale multiplies the raw logits; 0 means 1.
	Scale float32
	// Softcap c replaces y by c tanh(y/c); 0 means none.
	Softcap float32
	// Bias is the additive bias.
	Bias Bias
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
	case "mask", "temperature":
		if hasValue {
			return fmt.Errorf("%s takes no value: the values are given at launch", name)
		}
		c.Mask = c.Mask || name == "mask"
		c.Temperature = c.Temperature || name == "temperature"
		return nil
	default:
		return fmt.Errorf("unknown transform %q: want scale=F, softcap=F, bias, bias=rows, mask or temperature", name)
	}
}

func (c *Chain) setBias(value string) error {
	switch value {
	case "", "vocab":
		c.Bias = BiasVector
	case "rows":
		c.Bias = BiasMatrix
	default:
		return fmt.Errorf("bias=%q: want bias (one [V] vector) or bias=rows ([B, V])", value)
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
	switch c.Bias {
	case BiasVector:
		items = append(items, "bias")
	case BiasMatrix:
		items = append(items, "bias=rows")
	}
	if c.Mask {
		items = append(items, "mask")
	}
	if c.Temperature {
		items = append(items, "temperature")
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
	if c.Bias > BiasMatrix {
		return fmt.Errorf("ir: unknown kind of bias %d", c.Bias)
	}
	return nil
}

func finite(x float32) bool { return !math.IsNaN(float64(x)) && !math.IsInf(float64(x), 0) }
