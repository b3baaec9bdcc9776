package arch

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func target(t *testing.T, s string) Target {
	t.Helper()
	got, err := ParseTarget(s)
	require.NoError(t, err)
	return got
}

func TestTargetText(t *testing.T) {
	for s, want := range map[string]Target{
		"sm_75": {75, Portable}, "sm_90": {90, Portable}, "sm_90a": {90, ArchSpecific},
		"sm_100": {100, Portable}, "sm_100f": {100, FamilySpecific}, "sm_103a": {103, ArchSpecific},
	} {
		require.Equal(t, want, target(t, s))
		require.Equal(t, s, want.String())
		b, err := json.Marshal(want)
		require.NoError(t, err)
		var back Target
		require.NoError(t, json.Unmarshal(b, &back))
		require.Equal(t, want, back)
	}
	for _, bad := range []string{"", "sm_", "sm_a", "sm_9", "sm_1000", "90a", "sm90", "SM_90", "compute_90", "sm_90b", "sm_90aa",
		"sm_+90", "sm_090", "sm_-90", "sm_ 90", "sm_90 ", "sm_9_0"} {
		_, err := ParseTarget(bad)
		require.ErrorContains(t, err, "want sm_NN", bad)
		kept := Target{90, ArchSpecific}
		require.Error(t, kept.UnmarshalText([]byte(bad)))
		require.Equal(t, Target{90, ArchSpecific}, kept, "a refused text changes nothing")
	}
}

// As text "sm_100" is less than "sm_90", and "10.0" than "9.0".
func TestNumbersNotText(t *testing.T) {
	require.Less(t, target(t, "sm_90").SM, target(t, "sm_100").SM)
	require.True(t, target(t, "sm_90").RunsOn(ComputeCapability{10, 0}))
	require.False(t, target(t, "sm_100").RunsOn(ComputeCapability{9, 0}))
	require.True(t, Req{MinSM: 90}.Allows(target(t, "sm_100")))
	require.False(t, Req{MinSM: 100}.Allows(target(t, "sm_90")))
	require.True(t, V(8, 0).Less(V(10, 0)))
	require.Equal(t, V(10, 0), V(9, 2).Max(V(10, 0)))
	require.Equal(t, V(10, 0), V(10, 0).Max(V(9, 2)))
}

func TestRunsOn(t *testing.T) {
	devices := []ComputeCapability{{7, 5}, {8, 0}, {8, 6}, {8, 9}, {9, 0}, {10, 0}, {10, 3}, {12, 0}, {12, 1}}
	// One letter a device, in order: y if code for the target loads there.
	for name, want := range map[string]string{
		"sm_75":   "yyyyyyyyy",
		"sm_80":   "-yyyyyyyy",
		"sm_89":   "---yyyyyy",
		"sm_90":   "----yyyyy",
		"sm_90a":  "----y----",
		"sm_100":  "-----yyyy",
		"sm_100a": "-----y---",
		"sm_100f": "-----yy--",
		"sm_103a": "------y--",
		"sm_103f": "------y--",
		"sm_120a": "-------y-",
		"sm_120f": "-------yy",
		"sm_121f": "--------y",
	} {
		for i, cc := range devices {
			assert.Equal(t, want[i] == 'y', target(t, name).RunsOn(cc), "%s on %s", name, cc)
		}
	}
}

func TestForDevice(t *testing.T) {
	paths := map[ComputeCapability]string{{9, 0}: "sm_90", {10, 0}: "sm_100", {10, 3}: "sm_100"}
	for _, cc := range []ComputeCapability{{7, 5}, {8, 0}, {8, 6}, {8, 9}, {9, 0}, {10, 0}, {10, 3}, {12, 0}, {12, 1}} {
		a, err := ForDevice("NVIDIA Example GPU", cc)
		if want, known := Lookup(paths[cc]); known == nil {
			require.NoError(t, err)
			require.Equal(t, want, a, "%s", cc)
			continue
		}
		var refused *UnsupportedError
		require.ErrorAs(t, err, &refused, "%s", cc)
		require.Equal(t, cc, refused.Capability)
		for _, part := range []string{"NVIDIA Example GPU", cc.String(), "sm_90a"} {
			require.ErrorContains(t, err, part, "the GPU, what it is, and what would do")
		}
	}
}

func TestLookup(t *testing.T) {
	for _, name := range []string{"sm_90", "sm_90a"} {
		a, err := Lookup(name)
		require.NoError(t, err)
		require.Equal(t, "sm_90", a.Name)
	}
	for _, name := range []string{"", "sm_80", "sm_9", "sm_90f", "hopper"} {
		_, err := Lookup(name)
		require.ErrorContains(t, err, "fsgen knows sm_90", name)
	}
}

func TestReqAllows(t *testing.T) {
	for _, c := range []struct {
		req      Req
		text     string
		yes, not []string
	}{
		{Req{}, "any target", []string{"sm_75", "sm_90a", "sm_100f"}, nil},
		{Req{MinSM: 80}, "sm_80 or later", []string{"sm_80", "sm_90", "sm_90a", "sm_100", "sm_100f"}, []string{"sm_75"}},
		{Req{MinSM: 90, Special: []int{90}}, "sm_90a", []string{"sm_90a"},
			[]string{"sm_80", "sm_90", "sm_100", "sm_100a", "sm_100f", "sm_120a"}},
		{Req{MinSM: 100, Special: []int{100, 103}}, "sm_100a, sm_103a", []string{"sm_100a", "sm_103a"},
			[]string{"sm_90a", "sm_100", "sm_100f", "sm_103f", "sm_120a"}},
		{Req{MinSM: 100, Special: []int{100}, Family: true}, "sm_100a, sm_100f",
			[]string{"sm_100a", "sm_100f", "sm_103a", "sm_103f"}, []string{"sm_90a", "sm_100", "sm_103", "sm_110f", "sm_120f"}},
		{Req{MinSM: 100, Special: []int{103}, Family: true}, "sm_103a, sm_103f",
			[]string{"sm_103a", "sm_103f"}, []string{"sm_100a", "sm_100f", "sm_110a"}},
	} {
		require.Equal(t, c.text, c.req.String())
		for _, name := range c.yes {
			assert.True(t, c.req.Allows(target(t, name)), "%s allows %s", c.text, name)
		}
		for _, name := range c.not {
			assert.False(t, c.req.Allows(target(t, name)), "%s allows %s", c.text, name)
		}
	}
}

func TestVersionText(t *testing.T) {
	for s, want := range map[string]Version{"8.0": {8, 0}, "8.8": {8, 8}, "10.1": {10, 1}} {
		got, err := ParseVersion(s)
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Equal(t, s, got.String())
	}
	for _, bad := range []string{"", "8", "8.", ".0", "8.0.1", "v8.0", "0.9", "-8.0", "8.-1", "8.10", "+8.0", "08.0", "8.00", "8.+1"} {
		_, err := ParseVersion(bad)
		require.ErrorContains(t, err, "MAJOR.MINOR", bad)
		kept := V(8, 0)
		require.Error(t, kept.UnmarshalText([]byte(bad)))
		require.Equal(t, V(8, 0), kept)
	}
}

// The facts that the tile arithmetic leans on.
func TestFacts(t *testing.T) {
	last := 0
	for _, a := range All() {
		require.Equal(t, a.Target.SM, target(t, a.Name).SM, a.Name)
		require.Greater(t, a.Target.SM, last, "oldest first")
		last = a.Target.SM
		require.LessOrEqual(t, a.MaxSharedPerCTA+a.ReservedShared, 228<<10, "of a multiprocessor's shared memory")
		require.Zero(t, a.Registers%(a.RegisterUnit*32), "registers are given out by the warp")
		require.Positive(t, a.MaxCluster)
		require.Positive(t, a.Multiprocessors)
	}
}
