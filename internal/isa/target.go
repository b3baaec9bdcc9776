package isa

import (
	"maps"
	"slices"

	"github.com/fsgen/fsgen/arch"
)

// targetMin lists the lowest PTX version that knows each target (PTX ISA, "Release Notes").
var targetMin = map[arch.Target]arch.Version{
	{SM: 75}: v(6, 3), {SM: 80}: v(7, 0), {SM: 86}: v(7, 1), {SM: 87}: v(7, 4), {SM: 89}: v(7, 8),
	{SM: 90}: v(7, 8), {SM: 90, Variant: 'a'}: v(8, 0),
	{SM: 100}: v(8, 6), {SM: 100, Variant: 'a'}: v(8, 6), {SM: 100, Variant: 'f'}: v(8, 8),
	{SM: 103}: v(8, 8), {SM: 103, Variant: 'a'}: v(8, 8), {SM: 103, Variant: 'f'}: v(8, 8),
	{SM: 120}: v(8, 7), {SM: 120, Variant: 'a'}: v(8, 7), {SM: 120, Variant: 'f'}: v(8, 8),
}

// TargetVersion returns the lowest PTX version that knows a target. Of a target that is not listed it says 9.0.
func TargetVersion(t arch.Target) arch.Version {
	if min, ok := targetMin[t]; ok {
		return min
	}
	return v(9, 0)
}

// Targets lists the targets whose lowest PTX version is known, oldest first.
func Targets() []arch.Target {
	return slices.SortedFunc(maps.Keys(targetMin), func(a, b arch.Target) int {
		if a.SM != b.SM {
			return a.SM - b.SM
		}
		return int(a.Variant) - int(b.Variant)
	})
}
