package model

import (
	"encoding/json"
	"fmt"
)

// jsonObject is a JSON object whose keys are unique; values are string, bool, json.Number, nil, jsonObject or []any.
type jsonObject map[string]any

// maxJSONDepth bounds the recursion over a hostile text.
const maxJSONDepth = 64

// tree reads a whole object with the reader's strictness.
func (p *jsonReader) tree(where string, depth int) (jsonObject, error) {
	if depth > maxJSONDepth {
		return nil, p.fail("nested too deep", "%q", where)
	}
	o := jsonObject{}
	err := p.object(where, func(key string) (err error) {
		o[key], err = p.value(join(where, key), depth+1)
		return err
	})
	return o, err
}

// value reads any value. Objects and arrays come as a delimiter first, which object and array expect to read
// themselves, so the first byte is peeked at.
func (p *jsonReader) value(where string, depth int) (any, error) {
	switch p.peek() {
	case '{':
		return p.tree(where, depth)
	case '[':
		if depth > maxJSONDepth {
			return nil, p.fail("nested too deep", "%q", where)
		}
		list := []any{}
		err := p.array(where, func() error {
			v, err := p.value(where, depth+1)
			list = append(list, v)
			return err
		})
		return list, err
	}
	return p.token()
}

// peek gives the first byte of the next value, past white space and the separator before it. The decoder offers no
// peeking, but it keeps its place in the text.
func (p *jsonReader) peek() byte {
	for _, c := range p.text[p.dec.InputOffset():] {
		switch c {
		case ' ', '\t', '\r', '\n', ':', ',':
		default:
			return c
		}
	}
	return 0
}

// describe names a JSON value in an error.
func describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return fmt.Sprintf("%q", v)
	case json.Number:
		return v.String()
	case bool:
		return fmt.Sprint(v)
	case jsonObject:
		return "an object"
	}
	return "an array"
}
