package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// bash runs a script and gives its output; without bash the test is skipped.
func bash(t *testing.T, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("bash is not here")
	}
	out, err := exec.Command("bash", args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

func TestBashCompletionParses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "fsgen.bash")
	require.NoError(t, os.WriteFile(file, []byte(bashCompletion()), 0o600))
	assert.Empty(t, bash(t, "-n", file))
	assert.Empty(t, bash(t, file))
}

// TestCompletionParsesInOtherShells needs zsh and fish, which few machines have.
func TestCompletionParsesInOtherShells(t *testing.T) {
	for shell, script := range map[string]string{"zsh": zshCompletion(), "fish": fishCompletion()} {
		t.Run(shell, func(t *testing.T) {
			if _, err := exec.LookPath(shell); err != nil {
				t.Skipf("%s is not here", shell)
			}
			file := filepath.Join(t.TempDir(), "fsgen."+shell)
			require.NoError(t, os.WriteFile(file, []byte(script), 0o600))
			out, err := exec.Command(shell, "-n", file).CombinedOutput()
			assert.NoError(t, err)
			assert.Empty(t, string(out))
		})
	}
}

// complete gives what bash offers for the last word.
func complete(t *testing.T, words ...string) []string {
	t.Helper()
	script := bashCompletion() + "\nCOMP_WORDS=(\"$@\")\nCOMP_CWORD=$(($# - 1))\n_fsgen\necho \"${COMPREPLY[@]}\"\n"
	return strings.Fields(bash(t, append([]string{"-c", script, "-", "fsgen"}, words...)...))
}

func TestBashCompletes(t *testing.T) {
	for _, c := range []struct {
		words []string
		want  []string
	}{
		{[]string{"em"}, []string{"emit"}},
		{[]string{"c"}, []string{"cache", "completion"}},
		{[]string{"help", "sam"}, []string{"sample"}},
		{[]string{"cache", ""}, []string{"ls", "rm", "path"}},
		{[]string{"completion", "z"}, []string{"zsh"}},
		{[]string{"models", "qwen3-8"}, []string{"qwen3-8b"}},
		{[]string{"cache", "--"}, []string{"--json"}},
		{[]string{"sample", "--temp"}, []string{"--temperature", "--temperature-last"}},
		{[]string{"sample", "--device", "cu"}, []string{"cuda"}},
		{[]string{"sample", "--device", "cpu", "--gre"}, []string{"--greedy"}},
		{[]string{"emit", "--model", "qwen3-8"}, []string{"qwen3-8b"}},
		{[]string{"emit", "--arch", "sm_9"}, []string{"sm_90"}},
		{[]string{"verify", "--suite", "deg"}, []string{"degenerate"}},
		{[]string{"sample", "--sampler", "gr"}, []string{"grouped", "greedy"}},
		{[]string{"bench", "--model", "qwen3-8"}, []string{"qwen3-8b"}},
		{[]string{"bench", "--format", ""}, []string{"table", "gobench"}},
		{[]string{"emit", "--format", "p"}, []string{"ptx", "ptx,json", "ptx,json,h,go"}},
		{[]string{"emit", "--tensormap", ""}, []string{"param", "global"}},
		{[]string{"bench", "--weights", ""}, []string{"rowmajor", "packed"}},
		{[]string{"bench", "--weights", "=", "p"}, []string{"packed"}},
		{[]string{"bench", "--peers", "cu"}, []string{"cublas"}},
		{[]string{"bench", "--device", ""}, []string{"cuda"}},
		{[]string{"bench", "--device", "cuda", ":"}, nil},
		{[]string{"bench", "--out", ""}, nil},
		{[]string{"sample", "--weights", "row"}, nil},
		{[]string{"sample", "--model", "qwen"}, nil}, // a directory: the shell's own completion
		{[]string{"emit", "-o", ""}, nil},
		{[]string{"nonsense", ""}, nil},
		{[]string{"emit", "--draws", ""}, []string{"with-replacement", "without-replacement"}},
		{[]string{"sample", "--draws", ""}, nil},
		{[]string{"emit", "--truncation", "min"}, []string{"min-p"}},
		{[]string{"emit", "--transform", "=", "no"}, []string{"none"}},
		{[]string{"emit", "--further", "--shard", "r"}, []string{"records"}},
		// As bash splits --device=cu, --device=, --device sim:sm_9, --device sim: and --weights w.safetensors:l.
		{[]string{"sample", "--device", "=", "cu"}, []string{"cuda"}},
		{[]string{"sample", "--device", "="}, []string{"auto", "cpu", "cuda", "sim:sm_90", "sim:sm_100"}},
		{[]string{"sample", "--device", "sim", ":", "sm_9"}, []string{"sm_90"}},
		{[]string{"sample", "--device", "sim", ":"}, []string{"sm_90", "sm_100"}},
		{[]string{"sample", "--weights", "w.safetensors", ":", "l"}, nil},
		{[]string{"sample", "--weights", "w.safetensors", ":"}, nil},
		{[]string{"sample", "--weights", "=", "w"}, nil},
	} {
		assert.ElementsMatch(t, c.want, complete(t, c.words...), "%q", c.words)
	}
	assert.Subset(t, complete(t, ""), append(commandNames(), "help"))
}

func TestCompletionKnowsEveryFlag(t *testing.T) {
	for _, c := range commands() {
		assert.ElementsMatch(t, flagWords(c), complete(t, c.name, "--"), c.name)
		for _, w := range flagWords(c) {
			assert.Contains(t, fishCompletion(), "__fish_seen_subcommand_from "+c.name+"' -l "+strings.TrimPrefix(w, "--")+"\n")
		}
	}
}

// TestCompletionOffersNoFlagAsValue goes through every flag that takes a value.
func TestCompletionOffersNoFlagAsValue(t *testing.T) {
	var lines []string
	for _, c := range commands() {
		flags, _ := c.flagSet(&env{})
		flags.VisitAll(func(f *pflag.Flag) {
			if f.NoOptDefVal == "" {
				lines = append(lines, c.name+" --"+f.Name)
			}
		})
	}
	require.NotEmpty(t, lines)
	script := bashCompletion() + `
for line; do
	for cur in "" -- =; do
		COMP_WORDS=(fsgen $line "$cur")
		COMP_CWORD=3
		_fsgen
		[[ "${COMPREPLY[*]}" != *--* ]] || echo "$line $cur: ${COMPREPLY[*]}"
	done
done
`
	assert.Empty(t, bash(t, append([]string{"-c", script, "-"}, lines...)...))
}
