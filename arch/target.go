package arch

import (
	"fmt"
	"strconv"
	"strings"
)

// Variant says how far a PTX target travels to other GPUs (PTX ISA, section "PTX Module Directives: .target").
type Variant byte

const (
	// Portable targets (sm_90) run on every later GPU.
	Portable Variant = 0
	// ArchSpecific targets (sm_90a) run on exactly that compute capability.
	ArchSpecific Variant = 'a'
	// FamilySpecific targets (sm_100f) run on the compute capabilities of one family.
	FamilySpecific Variant = 'f'
)

// Target is a PTX target such as sm_90a. Targets are compared as numbers, never as text: "sm_100" < "sm_90" as text.
type Target struct {
	SM      int // compute capability times ten: 90, 100, 103
	Variant Variant
}

// ParseTarget reads a target such as "sm_90a".
func ParseTarget(s string) (Target, error) {
	digits, ok := strings.CutPrefix(s, "sm_")
	variant := Portable
	if n := len(digits); n > 0 && (digits[n-1] == 'a' || digits[n-1] == 'f') {
		variant, digits = Variant(digits[n-1]), digits[:n-1]
	}
	sm, err := strconv.Atoi(digits)
	t := Target{sm, variant}
	if !ok || err != nil || sm < 10 || sm > 999 || t.String() != s { // the last refuses sm_+90 and sm_090
		return Target{}, fmt.Errorf("arch: bad target %q: want sm_NN, sm_NNa or sm_NNf", s)
	}
	return t, nil
}

// String returns the target as PTX spells it.
func (t Target) String() string {
	s := "sm_" + strconv.Itoa(t.SM)
	if t.Variant != Portable {
		s += string(rune(t.Variant))
	}
	return s
}

// MarshalText implements encoding.TextMarshaler.
func (t Target) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *Target) UnmarshalText(b []byte) error {
	u, err := ParseTarget(string(b))
	if err == nil {
		*t = u
	}
	return err
}

// RunsOn reports whether code for the target loads on a GPU of the given compute capability.
func (t Target) RunsOn(cc ComputeCapability) bool {
	switch t.Variant {
	case ArchSpecific:
		return cc.SM() == t.SM
	case FamilySpecific:
		return cc.Major == t.SM/10 && cc.SM() >= t.SM
	default:
		return cc.SM() >= t.SM
	}
}

// Req is what an instruction form asks of a target. The zero value asks nothing.
type Req struct {
	// MinSM is the lowest compute capability, times ten.
	MinSM int
	// Special, if not empty, lists the compute capabilities (times ten) whose 'a' targets have the form: an
	// architecture-specific instruction is in no other target.
	Special []int
	// Family says that the 'f' targets of the capabilities in Special have the form too.
	Family bool
}

// Allows reports whether a module for target t may hold a form that asks r.
func (r Req) Allows(t Target) bool {
	if t.SM < r.MinSM {
		return false
	}
	if len(r.Special) == 0 {
		return true
	}
	switch t.Variant {
	case ArchSpecific:
		for _, sm := range r.Special {
			if sm == t.SM || r.Family && sm/10 == t.SM/10 && t.SM >= sm {
				return true
			}
		}
	case FamilySpecific:
		for _, sm := range r.Special {
			if r.Family && sm/10 == t.SM/10 && t.SM >= sm {
				return true
			}
		}
	}
	return false
}

// String names what is asked, for messages: "sm_90 or later", "sm_90a", "sm_100a, sm_100f".
func (r Req) String() string {
	if len(r.Special) == 0 {
		if r.MinSM == 0 {
			return "any target"
		}
		return fmt.Sprintf("sm_%d or later", r.MinSM)
	}
	var names []string
	for _, sm := range r.Special {
		names = append(names, Target{sm, ArchSpecific}.String())
		if r.Family {
			names = append(names, Target{sm, FamilySpecific}.String())
		}
	}
	return strings.Join(names, ", ")
}
