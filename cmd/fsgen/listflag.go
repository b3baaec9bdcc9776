package main

import "github.com/spf13/pflag"

// listVar adds a flag whose value is a list with commas. Given twice its lists are one, as those of pflag's own slices are: the first would
// be lost without a word otherwise.
func listVar(f *pflag.FlagSet, p *string, name, value, usage string) {
	*p = value
	f.Var(&list{text: p}, name, usage)
}

// list is the value of such a flag.
type list struct {
	text  *string
	given bool
}

func (l *list) String() string {
	if l.text == nil { // pflag asks a zero value what it would print
		return ""
	}
	return *l.text
}

// Type is what the usage calls a value.
func (l *list) Type() string { return "string" }

// Set takes the place of the default, and joins what was given before.
func (l *list) Set(s string) error {
	if l.given {
		s = *l.text + "," + s
	}
	*l.text, l.given = s, true
	return nil
}
