package ptx

import (
	"math"
	"strconv"
	"strings"

	"github.com/fsgen/fsgen/internal/isa"
)

// floatKind says how a literal writes a float.
type floatKind uint8

const (
	notFloat   floatKind = iota
	singleBits           // 0f and eight digits
	doubleBits           // 0d and sixteen digits
	decimal              // 1.5, 2e-3: of the type that is wanted
)

// literal is a number as written, without sign.
type literal struct {
	bits  uint64
	float floatKind
}

// parseNumber reads an integer (decimal, 0x, 0 octal, 0b, with or without U) or a float (0f, 0d, decimal).
func parseNumber(s string) (literal, bool) {
	lower := strings.ToLower(s)
	if digits, ok := strings.CutPrefix(lower, "0f"); ok {
		bits, err := strconv.ParseUint(digits, 16, 32)
		return literal{bits, singleBits}, err == nil && len(digits) == 8
	}
	if digits, ok := strings.CutPrefix(lower, "0d"); ok {
		bits, err := strconv.ParseUint(digits, 16, 64)
		return literal{bits, doubleBits}, err == nil && len(digits) == 16
	}
	if !strings.HasPrefix(lower, "0x") && strings.ContainsAny(lower, ".e") {
		x, err := strconv.ParseFloat(lower, 64)
		return literal{math.Float64bits(x), decimal}, err == nil && !strings.ContainsAny(lower, "_xpin")
	}
	lower = strings.TrimSuffix(lower, "u")
	base := 10
	switch {
	case strings.HasPrefix(lower, "0x"):
		base, lower = 16, lower[2:]
	case strings.HasPrefix(lower, "0b"):
		base, lower = 2, lower[2:]
	case len(lower) > 1 && lower[0] == '0':
		base = 8
	}
	bits, err := strconv.ParseUint(lower, base, 64)
	return literal{bits, notFloat}, err == nil
}

// signed is a number with its sign, where it was written.
type signed struct {
	literal
	negative bool
	tok      token
}

// signedNumber reads a number with an optional sign.
func (p *parser) signedNumber() signed {
	n := signed{tok: p.tok}
	if p.accept("-") {
		n.negative = true
	} else {
		p.accept("+")
	}
	lit, ok := parseNumber(p.tok.text)
	if p.tok.kind != tokNumber || !ok {
		p.fail("got %s, want a number", p.got())
	}
	n.literal = lit
	p.advance()
	return n
}

// as makes the number an operand of a type, or nil if it cannot be one.
func (n signed) as(t isa.Type) Operand {
	switch n.float {
	case singleBits:
		return n.single(math.Float32frombits(uint32(n.bits)))
	case doubleBits:
		return n.double(math.Float64frombits(n.bits))
	case decimal:
		x := math.Float64frombits(n.bits)
		if t == isa.F32 || t == isa.B32 {
			return n.single(float32(x))
		}
		return n.double(x)
	}
	if t == isa.F32 || t == isa.F64 {
		return nil
	}
	return n.integer()
}

func (n signed) single(x float32) Operand {
	if n.negative {
		x = -x
	}
	return F32Imm(x)
}

func (n signed) double(x float64) Operand {
	if n.negative {
		x = -x
	}
	return F64Imm(x)
}

// integer returns the value; nil if it is a float or a negative number below the smallest int64.
func (n signed) integer() Operand {
	switch {
	case n.float != notFloat || n.negative && n.bits > 1<<63:
		return nil
	case n.negative:
		return Imm(-int64(n.bits))
	}
	return Imm(int64(n.bits))
}
