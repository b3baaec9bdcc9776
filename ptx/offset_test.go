package ptx_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/internal/ptxas"
	"github.com/fsgen/fsgen/ptx"
)

// Offsets below zero read back as they were, and ptxas takes them.
func TestNegativeOffsets(t *testing.T) {
	m := ptx.NewModule(arch.SM90.Target)
	f := m.Entry("back")
	addr, smem, x := f.B64("addr"), f.Shared("words", 8, 16), f.B32("x")
	f.LdParamB64(addr, f.ParamU64("out"))
	f.LdGlobalB32(x, addr.Off(-8))
	f.StSharedB32(smem.Off(8).Off(-4), x)
	f.StGlobalB32(addr.Off(-2147483648), x)
	f.Ret()
	text := m.String()
	require.Contains(t, text, "[%addr+-8]")
	back, err := ptx.Parse(text)
	require.NoError(t, err)
	require.Equal(t, text, back.String())
	_, err = ptxas.ForTest(t).Assemble(t.Context(), text, arch.SM90.Target, ptxas.Options{})
	require.NoError(t, err)
}
