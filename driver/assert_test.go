package driver

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
)

// check holds the few assertions that the tests use; assert goes on after a failure, require does not.
type check struct{ fatal bool }

var assert, require = check{}, check{fatal: true}

func (c check) that(t testing.TB, ok bool, note []any, format string, args ...any) bool {
	t.Helper()
	if ok {
		return true
	}
	text := fmt.Sprintf(format, args...)
	if len(note) > 0 {
		if f, isText := note[0].(string); isText {
			text += ": " + fmt.Sprintf(f, note[1:]...)
		} else {
			text += ": " + fmt.Sprint(note...)
		}
	}
	if c.fatal {
		t.Fatal(text)
	}
	t.Error(text)
	return false
}

func (c check) True(t testing.TB, ok bool, note ...any) bool {
	t.Helper()
	return c.that(t, ok, note, "is false")
}

func (c check) False(t testing.TB, ok bool, note ...any) bool {
	t.Helper()
	return c.that(t, !ok, note, "is true")
}

func (c check) NoError(t testing.TB, err error, note ...any) bool {
	t.Helper()
	return c.that(t, err == nil, note, "unexpected error: %v", err)
}

func (c check) ErrorIs(t testing.TB, err, target error, note ...any) bool {
	t.Helper()
	return c.that(t, errors.Is(err, target), note, "error %v is not %v", err, target)
}

func (c check) ErrorAs(t testing.TB, err error, target any, note ...any) bool {
	t.Helper()
	return c.that(t, errors.As(err, target), note, "error %v is not a %T", err, target)
}

func (c check) ErrorContains(t testing.TB, err error, part string, note ...any) bool {
	t.Helper()
	return c.that(t, err != nil && strings.Contains(err.Error(), part), note, "error %v does not say %q", err, part)
}

func (c check) Contains(t testing.TB, s any, part string, note ...any) bool {
	t.Helper()
	return c.that(t, strings.Contains(fmt.Sprint(s), part), note, "%q does not contain %q", s, part)
}

func (c check) Equal(t testing.TB, want, got any, note ...any) bool {
	t.Helper()
	return c.that(t, reflect.DeepEqual(want, got), note, "want %v, got %v", want, got)
}

// EqualValues compares numbers of any integer types.
func (c check) EqualValues(t testing.TB, want, got any, note ...any) bool {
	t.Helper()
	return c.that(t, fmt.Sprint(want) == fmt.Sprint(got), note, "want %v, got %v", want, got)
}

func (c check) Len(t testing.TB, list any, n int, note ...any) bool {
	t.Helper()
	return c.that(t, reflect.ValueOf(list).Len() == n, note, "length is not %d: %v", n, list)
}

func (c check) Empty(t testing.TB, list any, note ...any) bool {
	t.Helper()
	return c.Len(t, list, 0, note...)
}

func (c check) FileExists(t testing.TB, path string, note ...any) bool {
	t.Helper()
	_, err := os.Lstat(path)
	return c.NoError(t, err, note...)
}

func (c check) NoFileExists(t testing.TB, path string, note ...any) bool {
	t.Helper()
	_, err := os.Lstat(path)
	return c.ErrorIs(t, err, os.ErrNotExist, note...)
}
