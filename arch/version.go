package arch

import (
	"fmt"
	"strconv"
	"strings"
)

// Version is a PTX ISA version, as written after the .version directive.
type Version struct {
	Major, Minor int
}

// V returns the PTX ISA version major.minor.
func V(major, minor int) Version { return Version{major, minor} }

// ParseVersion reads a version such as "8.0".
func ParseVersion(s string) (Version, error) {
	major, minor, ok := strings.Cut(s, ".")
	a, errA := strconv.Atoi(major)
	b, errB := strconv.Atoi(minor)
	v := Version{a, b}
	if !ok || errA != nil || errB != nil || a < 1 || b < 0 || b > 9 || v.String() != s { // the last refuses +8.0 and 08.0
		return Version{}, fmt.Errorf("arch: bad PTX version %q: want MAJOR.MINOR, for example 8.0", s)
	}
	return v, nil
}

// String returns the version as PTX spells it.
func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// Less reports whether v is older than w.
func (v Version) Less(w Version) bool {
	return v.Major < w.Major || v.Major == w.Major && v.Minor < w.Minor
}

// Max returns the newer of two versions.
func (v Version) Max(w Version) Version {
	if v.Less(w) {
		return w
	}
	return v
}

// MarshalText implements encoding.TextMarshaler.
func (v Version) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (v *Version) UnmarshalText(b []byte) error {
	w, err := ParseVersion(string(b))
	if err == nil {
		*v = w
	}
	return err
}
