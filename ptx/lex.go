package ptx

import "strings"

// tokenKind is a kind of token.
type tokenKind uint8

const (
	tokEOF    tokenKind = iota
	tokWord             // a name, a mnemonic with its modifiers, a directive, %tid.x: letters, digits, dots and :: run together
	tokNumber           // an integer or float literal, without sign
	tokString           // between quotes, without them
	tokPunct            // one character
	tokBad              // a character that PTX does not use, or a string or comment without end
)

type token struct {
	kind      tokenKind
	text      string
	line, col int32
}

// comment is a // comment, with whether something stands before it on its line.
type comment struct {
	text string
	line int32
}

// lexer splits PTX text into tokens. It gathers // comments on the way; /* */ comments are skipped.
type lexer struct {
	src       string
	pos       int
	line      int32
	lineStart int
	comments  []comment
}

func (l *lexer) next() token {
	if bad := l.skipSpace(); bad {
		return l.token(tokBad, "unterminated comment")
	}
	if l.pos >= len(l.src) {
		return l.token(tokEOF, "")
	}
	c := l.src[l.pos]
	switch {
	case c >= '0' && c <= '9':
		return l.take(tokNumber, l.numberEnd())
	case isWordStart(c):
		return l.take(tokWord, l.wordEnd())
	case c == '.' && l.pos+1 < len(l.src) && isNameByte(l.src[l.pos+1]):
		return l.take(tokWord, l.wordEnd())
	case c == '"':
		return l.quoted()
	case strings.IndexByte(",;:{}[]()|@!+-=<>", c) >= 0:
		return l.take(tokPunct, l.pos+1)
	}
	return l.token(tokBad, l.src[l.pos:l.pos+1])
}

func (l *lexer) token(k tokenKind, text string) token {
	return token{k, text, l.line, int32(l.pos-l.lineStart) + 1}
}

func (l *lexer) take(k tokenKind, end int) token {
	t := l.token(k, l.src[l.pos:end])
	l.pos = end
	return t
}

func isWordStart(c byte) bool { return isLetter(c) || c == '_' || c == '$' || c == '%' }

// wordEnd finds the end of a word: name bytes, and dots or double colons between them.
func (l *lexer) wordEnd() int {
	i := l.pos + 1
	for i < len(l.src) {
		c := l.src[i]
		switch {
		case isNameByte(c):
			i++
		case c == '.' && i+1 < len(l.src) && isNameByte(l.src[i+1]):
			i += 2
		case c == ':' && i+2 < len(l.src) && l.src[i+1] == ':' && isNameByte(l.src[i+2]):
			i += 3
		default:
			return i
		}
	}
	return i
}

// numberEnd finds the end of a literal: digits, letters (0x.., 0f.., U), one dot, an exponent with its sign.
func (l *lexer) numberEnd() int {
	i := l.pos + 1
	decimal := !strings.HasPrefix(l.src[l.pos:], "0x") && !strings.HasPrefix(l.src[l.pos:], "0X")
	for i < len(l.src) {
		c := l.src[i]
		exponent := decimal && (c == '+' || c == '-') && (l.src[i-1] == 'e' || l.src[i-1] == 'E') && allFloat(l.src[l.pos:i-1])
		if !isNameByte(c) && c != '.' && !exponent {
			return i
		}
		i++
	}
	return i
}

// allFloat reports whether s is the mantissa of a decimal float.
func allFloat(s string) bool {
	for i := range len(s) {
		if s[i] != '.' && (s[i] < '0' || s[i] > '9') {
			return false
		}
	}
	return true
}

func (l *lexer) quoted() token {
	end := strings.IndexAny(l.src[l.pos+1:], "\"\n")
	if end < 0 || l.src[l.pos+1+end] == '\n' {
		return l.token(tokBad, "unterminated string")
	}
	t := l.token(tokString, l.src[l.pos+1:l.pos+1+end])
	l.pos += end + 2
	return t
}

// skipSpace moves to the next token and gathers comments. It reports a /* that never ends.
func (l *lexer) skipSpace() (bad bool) {
	for l.pos < len(l.src) {
		rest := l.src[l.pos:]
		switch c := rest[0]; {
		case c == '\n':
			l.pos++
			l.line++
			l.lineStart = l.pos
		case c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v':
			l.pos++
		case strings.HasPrefix(rest, "//"):
			end := strings.IndexByte(rest, '\n')
			if end < 0 {
				end = len(rest)
			}
			l.comments = append(l.comments, comment{cleanComment(rest[2:end]), l.line})
			l.pos += end
		case strings.HasPrefix(rest, "/*"):
			end := strings.Index(rest[2:], "*/")
			if end < 0 {
				return true
			}
			l.skipBlock(end + 4)
		default:
			return false
		}
	}
	return false
}

func (l *lexer) skipBlock(n int) {
	for range n {
		if l.src[l.pos] == '\n' {
			l.line++
			l.lineStart = l.pos + 1
		}
		l.pos++
	}
}
