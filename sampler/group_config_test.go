package sampler

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is wrong with a group is said of the field that it is in.
func TestGroupConfigsAreChecked(t *testing.T) {
	for text, cfg := range map[string]GroupConfig{
		"group world is -1":                   {Devices: []string{CPU}, World: -1},
		"group world is 0":                    {Devices: []string{CPU}, Rank: 1},
		"group world is 257":                  {Devices: []string{CPU}, World: 257},
		"group rank is 2: want 0 to 1":        {Devices: []string{CPU}, World: 2, Rank: 2, Name: "g"},
		`group name is "": want 1 to 64`:      {Devices: []string{CPU}, World: 2, Rank: 1},
		`group name is "a/b": want 1 to 64`:   {Devices: []string{CPU}, World: 2, Rank: 1, Name: "a/b"},
		"group devices: want one for each":    {},
		`group transport is "smoke"`:          {Devices: []string{CPU, CPU}, Transport: "smoke"},
		"group timeout is -1ns: want 0 or":    {Devices: []string{CPU, CPU}, Timeout: -1},
		"group exchange bytes is -1: want 0 ": {Devices: []string{CPU, CPU}, ExchangeBytes: -1},
	} {
		_, err := OpenGroup(t.Context(), cfg)
		var bad *InputError
		require.ErrorAs(t, err, &bad, text)
		require.ErrorContains(t, err, text)
	}
	_, _, err := GroupDevices("nope", 2)
	require.ErrorContains(t, err, `unknown device "nope"`)

	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = OpenGroup(over, GroupConfig{Devices: []string{CPU, CPU}})
	require.ErrorIs(t, err, context.Canceled)
}
