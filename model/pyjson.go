package model

import "bytes"

// pythonNumbers are what Python's json module writes for floats that JSON has no word for; published config.json files
// have them ("time_step_limit": [0.0, Infinity]).
var pythonNumbers = [][]byte{[]byte("-Infinity"), []byte("Infinity"), []byte("NaN")}

// plainJSON puts Python's words for non-finite numbers in quotes, so that the text is JSON and the words are still
// seen where a number is wanted. Strings are left as they are.
func plainJSON(text []byte) []byte {
	if !bytes.Contains(text, []byte("Infinity")) && !bytes.Contains(text, []byte("NaN")) {
		return text
	}
	out := make([]byte, 0, len(text)+64)
	for i := 0; i < len(text); {
		n := stringLen(text[i:])
		if n == 0 {
			if n = wordLen(text[i:]); n > 0 {
				out = append(append(append(out, '"'), text[i:i+n]...), '"')
				i += n
				continue
			}
			n = 1
		}
		out = append(out, text[i:i+n]...)
		i += n
	}
	return out
}

// stringLen is the length of the JSON string that s begins with, quotes included; 0 if it does not begin with one.
func stringLen(s []byte) int {
	if s[0] != '"' {
		return 0
	}
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(s)
}

func wordLen(s []byte) int {
	for _, w := range pythonNumbers {
		if bytes.HasPrefix(s, w) {
			return len(w)
		}
	}
	return 0
}
