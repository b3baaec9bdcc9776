package model

import (
	"strconv"
	"strings"
)

// dictReader reads the Python literal in a .npy header: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }.
type dictReader struct {
	name, all, s string
}

func parseNpyDict(name, text string) (h npyHeader, err error) {
	p := &dictReader{name: name, all: text, s: text}
	if err := p.want('{'); err != nil {
		return h, err
	}
	seen := map[string]bool{}
	for !p.accept('}') {
		key, err := p.string()
		if err == nil {
			err = p.want(':')
		}
		if err == nil && seen[key] {
			err = fail(ErrMalformed, name, "npy header key must not occur twice", "%q", key)
		}
		seen[key] = true
		if err == nil {
			err = p.value(&h, key)
		}
		if err != nil {
			return h, err
		}
		if !p.accept(',') {
			if err := p.want('}'); err != nil {
				return h, err
			}
			break
		}
	}
	if len(seen) != 3 {
		return h, fail(ErrMalformed, name, "npy header needs descr, fortran_order and shape", "%q", text)
	}
	if p.space(); p.s != "" {
		return h, fail(ErrMalformed, name, "nothing may follow the npy header's dictionary", "%q", p.s)
	}
	return h, nil
}

func (p *dictReader) value(h *npyHeader, key string) (err error) {
	switch key {
	case "descr":
		var descr string
		if p.space(); strings.HasPrefix(p.s, "[") {
			return fail(ErrUnsupported, p.name, "structured npy dtypes are not read", "%q", p.s)
		}
		if descr, err = p.string(); err == nil {
			h.kind, h.order, err = parseNpyDescr(p.name, descr)
		}
	case "fortran_order":
		h.fortran, err = p.bool()
	case "shape":
		h.shape, err = p.tuple()
	default:
		err = fail(ErrMalformed, p.name, "npy header keys are descr, fortran_order and shape", "%q", key)
	}
	return err
}

func (p *dictReader) space() { p.s = strings.TrimLeft(p.s, " \t\r\n") }

func (p *dictReader) accept(c byte) bool {
	p.space()
	if p.s == "" || p.s[0] != c {
		return false
	}
	p.s = p.s[1:]
	return true
}

func (p *dictReader) want(c byte) error {
	if p.accept(c) {
		return nil
	}
	return fail(ErrMalformed, p.name, "npy header must be a Python dictionary", "want %q at byte %d of %q", c, len(p.all)-len(p.s), p.all)
}

// string reads a quoted string. numpy never escapes in these values, so a backslash is refused.
func (p *dictReader) string() (string, error) {
	if p.space(); p.s != "" && (p.s[0] == '\'' || p.s[0] == '"') {
		if end := strings.IndexByte(p.s[1:], p.s[0]); end > 0 && !strings.Contains(p.s[1:1+end], `\`) {
			v := p.s[1 : 1+end]
			p.s = p.s[end+2:]
			return v, nil
		}
	}
	return "", fail(ErrMalformed, p.name, "npy header needs a quoted string", "at byte %d of %q", len(p.all)-len(p.s), p.all)
}

func (p *dictReader) bool() (bool, error) {
	p.space()
	for _, word := range []string{"True", "False"} {
		if rest, ok := strings.CutPrefix(p.s, word); ok {
			p.s = rest
			return word == "True", nil
		}
	}
	return false, fail(ErrMalformed, p.name, "npy fortran_order must be True or False", "at byte %d of %q", len(p.all)-len(p.s), p.all)
}

// tuple reads (), (3,) or (3, 4). Python 2 wrote long integers as 3L.
func (p *dictReader) tuple() ([]int64, error) {
	shape := []int64{}
	if err := p.want('('); err != nil {
		return nil, err
	}
	for !p.accept(')') {
		digits := p.digits()
		v, err := strconv.ParseUint(digits, 10, 63)
		if err != nil {
			return nil, fail(ErrMalformed, p.name, "npy shape must be a tuple of integers in [0, 2^63)", "%q", p.all)
		}
		if shape = append(shape, int64(v)); len(shape) > maxDims {
			return nil, fail(ErrUnsupported, p.name, "arrays of at most 2 dimensions are read", "%q", p.all)
		}
		if !p.accept(',') {
			if err := p.want(')'); err != nil {
				return nil, err
			}
			if len(shape) == 1 {
				return nil, fail(ErrMalformed, p.name, "npy shape must be a tuple", "%q", p.all)
			}
			break
		}
	}
	return shape, nil
}

func (p *dictReader) digits() string {
	p.space()
	n := 0
	for n < len(p.s) && p.s[n] >= '0' && p.s[n] <= '9' {
		n++
	}
	d := p.s[:n]
	p.s = strings.TrimPrefix(p.s[n:], "L")
	return d
}
