package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"unicode/utf8"
)

// jsonReader walks a JSON text strictly: UTF-8 only, no key twice in one object, nothing after the value, exact types.
// It goes token by token, so that what it allocates is bounded by what the caller keeps. encoding/json's own decoding
// into structs would match keys in any letter case and let the last duplicate win.
type jsonReader struct {
	file, what string
	text       []byte
	dec        *json.Decoder
	badUTF8    bool
}

func newJSONReader(file, what string, text []byte) *jsonReader {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	return &jsonReader{file: file, what: what, text: text, dec: dec, badUTF8: !utf8.Valid(text)}
}

// fail is a format error in this text.
func (p *jsonReader) fail(rule, format string, args ...any) error {
	return fail(ErrMalformed, p.file, p.what+": "+rule, format, args...)
}

// token gives the next token, or an error that says where.
func (p *jsonReader) token() (json.Token, error) {
	if p.badUTF8 {
		return nil, p.fail("must be UTF-8", "")
	}
	tok, err := p.dec.Token()
	if err == nil {
		return tok, nil
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	e := fail(ErrMalformed, p.file, p.what+": must be JSON", "byte %d", p.dec.InputOffset())
	e.Err = err
	return nil, e
}

// object reads an object and calls member for each key, which must read exactly the value. Where names the object in
// errors; empty for the outermost.
func (p *jsonReader) object(where string, member func(key string) error) error {
	if err := p.delim('{', where, "an object"); err != nil {
		return err
	}
	seen := map[string]struct{}{}
	for p.dec.More() {
		tok, err := p.token()
		if err != nil {
			return err
		}
		key, ok := tok.(string)
		if !ok { // the decoder itself refuses other keys; this keeps a change there from becoming a panic here
			return p.fail("keys must be strings", "%v", tok)
		}
		if _, dup := seen[key]; dup {
			return p.fail("a key must not occur twice", "%q", join(where, key))
		}
		seen[key] = struct{}{}
		if err := member(key); err != nil {
			return err
		}
	}
	_, err := p.token() // the closing brace, or the syntax error that ended the loop
	return err
}

// array reads an array and calls element before each element.
func (p *jsonReader) array(where string, element func() error) error {
	if err := p.delim('[', where, "an array"); err != nil {
		return err
	}
	for p.dec.More() {
		if err := element(); err != nil {
			return err
		}
	}
	_, err := p.token()
	return err
}

func (p *jsonReader) delim(want json.Delim, where, kind string) error {
	tok, err := p.token()
	if err == nil && tok != want {
		err = p.fail("want "+kind, "%q is %v", where, tok)
	}
	return err
}

// string reads a string value.
func (p *jsonReader) string(where string) (string, error) {
	tok, err := p.token()
	if err != nil {
		return "", err
	}
	s, ok := tok.(string)
	if !ok {
		return "", p.fail("want a string", "%q is %v", where, tok)
	}
	return s, nil
}

// naturals reads an array of at most max integers in [0, 2^63).
func (p *jsonReader) naturals(where string, max int) (list []int64, err error) {
	list = []int64{}
	err = p.array(where, func() error {
		tok, err := p.token()
		if err != nil {
			return err
		}
		num, ok := tok.(json.Number)
		if !ok {
			return p.fail("want a non-negative integer", "%q holds %v", where, tok)
		}
		v, ok := natural(num)
		if !ok {
			return p.fail("want an integer in [0, 2^63)", "%q holds %s", where, num)
		}
		if len(list) == max {
			return p.fail("too many numbers", "%q holds more than %d", where, max)
		}
		list = append(list, v)
		return nil
	})
	return list, err
}

// end refuses anything but white space after the value.
func (p *jsonReader) end() error {
	tok, err := p.dec.Token()
	if err == io.EOF {
		return nil
	}
	if err == nil {
		return p.fail("nothing may follow the closing brace", "%v", tok)
	}
	return p.fail("nothing may follow the closing brace", "byte %d", p.dec.InputOffset())
}

// join makes the path of a key. Paths are for errors alone and are cut short: a long key with many members below it
// would be copied for each of them.
func join(where, key string) string {
	const most = 200
	key = key[:min(len(key), most)]
	if where == "" {
		return key
	}
	return where[:min(len(where), most)] + "." + key
}
