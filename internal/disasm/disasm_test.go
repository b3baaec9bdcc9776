package disasm_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/internal/disasm"
	"github.com/fsgen/fsgen/tiling"
)

func sass(t *testing.T) string {
	text, err := os.ReadFile("testdata/sm_100.sass")
	require.NoError(t, err)
	return string(text)
}

// faulty are changes to a kernel's code, each with a word of what must be said of it.
var faulty = []struct{ name, from, to, says string }{
	{"no tensor core", "UTCHMMA", "FFMA", "no UTCHMMA"},
	{"an instruction of like name", "UTCHMMA", "UTCHMMA2", "no UTCHMMA"},
	{"products by the other tensor core", "UTCHMMA", "HGMMA", "no UTCHMMA"},
	{"no loop over blocks of k", "@!P1 BRA `(.L_x_3)", "NOP", "outermost loop"},
	{"a product after the loop", "@!P1 BRA `(.L_x_3) ;", "@!P1 BRA `(.L_x_3) ;\n/*0118*/ UTCHMMA gdesc[UR6] ;", "is in an outermost loop"},
	{"a product before all loops", "/*0010*/", "/*0008*/ UTCHMMA gdesc[UR6] ;\n/*0010*/", "is in no loop"},
	{"products after all loops", "EXIT ;\n.L_x_8", "UTCHMMA gdesc[UR6] ;\n/*0158*/ EXIT ;\n.L_x_8", "in no loop"},
	{"a loop that waits for nothing", "SYNCS.PHASECHK", "NOP", "in no loop"},
	{"no stage given back", "UTCBAR [UR5], URZ ;\n        /*0110*/", "NOP ;\n        /*0110*/", "no UTCBAR"},
	{"a product less", "UTCHMMA gdesc[UR12], gdesc[UR14], tmem[UR20], tmem[UR18], idesc[UR19], UPT ;\n        /*00d0*/", "NOP ;\n        /*00d0*/", "3 products"},
	{"a spill", "ERRBAR;", "STL.64 [R1+0x8], R4 ;", "local memory"},
	{"a reload", "NOP;", "LDL R4, [R1+0x8] ;", "local memory"},
	{"a branch to nowhere", "BRA `(.L_x_0)", "BRA `(.L_x_33)", "no label .L_x_33"},
	{"an indirect branch to nobody knows where", `(*"BRANCH_TARGETS .L_x_1,.L_x_2"*)`, "", "no target"},
	{"a branch without a target", "BRA `(.L_x_0)", "BRA 0x20", "no target"},
	{"a line of another format", "ERRBAR;", "{ 2 errors }", "is no instruction"},
}

func TestCheckSeesFaults(t *testing.T) {
	check := func(text string) error {
		p, err := disasm.Parse(text)
		if err != nil {
			return err
		}
		return machines[1].check(p, tiling.Tile{M: 128, N: 64, K: 64})
	}
	require.NoError(t, check(sass(t)))
	for _, f := range faulty {
		text := strings.ReplaceAll(sass(t), f.from, f.to)
		require.NotEqual(t, sass(t), text, f.name)
		require.ErrorContains(t, check(text), f.says, f.name)
	}
	require.ErrorContains(t, check("\t.target\tsm_100f\n"), "no instructions")
}

func TestCheckSeesShape(t *testing.T) {
	text := strings.NewReplacer("UTCHMMA", "HGMMA.64x32x16.F32.BF16", "UTCBAR", "SYNCS.ARRIVE.TRANS64").Replace(sass(t))
	p, err := disasm.Parse(text)
	require.NoError(t, err)
	require.NoError(t, machines[0].check(p, tiling.Tile{M: 64, N: 32, K: 64}))
	require.ErrorContains(t, machines[0].check(p, tiling.Tile{M: 64, N: 16, K: 64}), "want HGMMA.64x16x16")
}

func TestLoops(t *testing.T) {
	p, err := disasm.Parse(sass(t))
	require.NoError(t, err)
	require.Equal(t, `/*0050*/ @!UP0 UIADD3 UR5, UR5, 0x1, URZ`, p.Instrs[5].String())
	loops, err := p.Loops()
	require.NoError(t, err)
	var got [][2]int
	for _, l := range loops {
		got = append(got, [2]int{16 * l.Head, len(l.Body)})
	}
	require.Equal(t, [][2]int{{0x160, 2}, {0x90, 3}, {0x60, 15}, {0x20, 21}}, got, "heads and sizes; code that is never reached has none")
	require.Equal(t, loops[2], loops[0].Parent, "the wait out of line is part of the loop that it returns to")
	require.Equal(t, loops[3], loops[2].Parent)
	require.Nil(t, loops[3].Parent)
	require.True(t, loops[2].Has(0x180/16))
	require.False(t, loops[2].Has(0x130/16))
}
