package main

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/model"
)

// TestFormsAgree: what is written for NumPy and what is written without a header are the same values, on every machine.
func TestFormsAgree(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, write(dir))
	data, err := os.ReadFile(filepath.Join(dir, "hidden.bin"))
	require.NoError(t, err)
	a, err := model.ReadNpy(filepath.Join(dir, "hidden.npy"))
	require.NoError(t, err)
	states, err := a.Float32s()
	require.NoError(t, err)
	require.Len(t, states, batch*hidden)
	for i, x := range states {
		require.Equal(t, binary.LittleEndian.Uint16(data[2*i:]), uint16(model.FromFloat32(x)))
	}
	sum := sha256.New()
	for _, name := range []string{"weights.bin", "hidden.bin", "seed.bin", "position.bin", "temperature.bin", "shape.txt"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		sum.Write(data)
	}
	require.Equal(t, "945eae997385141f9a816ca99d9ebac674628238b9e1cc12eb92b334832960f4", hex.EncodeToString(sum.Sum(nil)))
}
