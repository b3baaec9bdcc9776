package ptx

import (
	"fmt"
	"strings"

	"github.com/fsgen/fsgen/internal/isa"
)

// names is a set of identifiers that share a scope.
type names struct {
	outer *names // of the module, around those of a function
	used  map[string]bool
	next  map[string]int // the suffix to try first after a base name
}

// declare adds a name and says what is wrong with it, or "".
func (n *names) declare(name string) string {
	if n.used == nil {
		n.used = map[string]bool{}
	}
	switch {
	case !validName(name):
		return fmt.Sprintf("%q is no PTX identifier", name)
	case isa.Reserved(name):
		return fmt.Sprintf("name %q is reserved by PTX", name)
	case n.used[name]:
		return fmt.Sprintf("name %q is declared twice", name)
	case n.outer != nil && n.outer.used[name]:
		return fmt.Sprintf("name %q is declared at the top of the module", name)
	}
	n.used[name] = true
	return ""
}

func (n *names) free(name string) bool {
	return !n.used[name] && !isa.Reserved(name) && (n.outer == nil || !n.outer.used[name])
}

// fresh returns base, or base_1, base_2, ... if it is taken, and declares it.
func (n *names) fresh(base string) string {
	name := base
	if n.next == nil {
		n.next = map[string]int{}
	}
	for i := max(n.next[base], 1); !n.free(name) || isAnonymous(name); i++ {
		name = fmt.Sprintf("%s_%d", base, i)
		n.next[base] = i + 1
	}
	n.declare(name)
	return name
}

// isAnonymous reports whether a name looks like one that reg would give an anonymous register.
func isAnonymous(name string) bool {
	for c := isa.NoClass + 1; c < isa.NumClasses; c++ {
		if digits, ok := strings.CutPrefix(name, "%"+c.Prefix()); ok && allDigits(digits) {
			return true
		}
	}
	return false
}

func allDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// validName follows the manual's section "Identifiers".
func validName(s string) bool {
	if s == "" || len(s) > maxName {
		return false
	}
	rest := s[1:]
	if !isLetter(s[0]) && (rest == "" || s[0] != '%' && s[0] != '_' && s[0] != '$') {
		return false
	}
	for i := range len(rest) {
		if !isNameByte(rest[i]) {
			return false
		}
	}
	return true
}

// maxName bounds identifiers; the manual asks for 1,024 at least.
const maxName = 1024

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

func isNameByte(c byte) bool { return isLetter(c) || c >= '0' && c <= '9' || c == '_' || c == '$' }

// cleanName makes an identifier of a hint.
func cleanName(hint string) string {
	b := []byte(hint)
	for i, c := range b {
		if !isNameByte(c) {
			b[i] = '_'
		}
	}
	if len(b) == 0 || !isLetter(b[0]) {
		b = append([]byte("x"), b...)
	}
	if len(b) > maxName/2 {
		b = b[:maxName/2]
	}
	return string(b)
}

// commentLines splits a text into lines that a comment can hold.
func commentLines(text string) []string {
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })
	for i, l := range lines {
		lines[i] = cleanComment(l)
	}
	return lines
}

// cleanComment replaces what would not survive printing and reading back.
func cleanComment(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\ufffd' {
			return ' '
		}
		return r
	}, s)
	return strings.TrimSpace(s)
}

// validPragma accepts printable ASCII without quotes and backslashes.
func validPragma(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' || s[i] == '"' || s[i] == '\\' {
			return false
		}
	}
	return s != ""
}
