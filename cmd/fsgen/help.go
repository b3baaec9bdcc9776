package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/term"
)

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

func help(e *env, args []string) error {
	if len(args) > 1 {
		return usagef("help: unexpected argument %q", args[1])
	}
	if len(args) > 0 && args[0] != "help" {
		c := find(args[0])
		if c == nil {
			return usagef("unknown command %q%s: try fsgen help", args[0], suggest(args[0], commandNames()))
		}
		return c.help(e)
	}
	fmt.Fprint(e.stdout, "fsgen writes fused LM-head sampling kernels, runs them and checks them.\n\nUsage: fsgen COMMAND [flags]\n\n")
	for _, c := range commands() {
		fmt.Fprintf(e.stdout, "  %-11s %s\n", c.name, c.short)
	}
	fmt.Fprint(e.stdout, `
fsgen COMMAND --help tells more. Data goes to standard output, words to standard error.
Exit codes: 0 ok, 1 failure, 2 usage (a flag that is wrong, or flags that ask for what no kernel does), 3 no usable GPU,
4 verification failed. Rows that have no token (-1) are no failure: sample says which and why, and exits with 0.
Environment: FSGEN_CACHE_DIR (compiled kernels and tunings; off disables), FSGEN_CUDA_LIB (another libcuda), FSGEN_DUMP
(keeps the PTX of a GPU's kernels and the compiler's logs in a directory; simulators write none), FSGEN_PTXAS (the assembler
that fills in a manifest's register counts), FSGEN_CUBLASLT_LIB and FSGEN_NVML_LIB (other libraries for bench), FSGEN_NCCL_LIB
(another libnccl, by which ranks may exchange what they found), FSGEN_GROUP_DIR (where the processes of a group meet, instead of
by a name without a file).
`)
	return nil
}

func (c *command) help(e *env) error {
	flags, _ := c.flagSet(&env{})
	line := "fsgen " + c.name
	if c.args != "" {
		line += " " + c.args
	}
	fmt.Fprintf(e.stdout, "%s\n\nUsage: %s\n", c.short, line)
	if flags.HasFlags() {
		fmt.Fprintf(e.stdout, "\nFlags:\n%s", flags.FlagUsagesWrapped(100))
	}
	if c.examples != "" {
		fmt.Fprintf(e.stdout, "\nExamples:\n%s", c.examples)
	}
	return nil
}

// suggest names the nearest of the known words, if one is near.
func suggest(word string, known []string) string {
	best, distance := "", 3
	for _, k := range known {
		if d := editDistance(word, k); d < distance && 2*d <= len(strings.TrimLeft(word, "-")) {
			best, distance = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", best)
}

// suggestFlag names the flag that was meant: --ouput, or -output with one dash too few.
func suggestFlag(err error, flags *pflag.FlagSet) string {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return ""
	}
	word := unknown.GetSpecifiedName()
	if short := unknown.GetSpecifiedShortnames(); short != "" {
		word = short
	}
	word, _, _ = strings.Cut(word, "=")
	var names []string
	flags.VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
	return suggest("--"+word, names)
}

// editDistance counts insertions, deletions and replacements (Levenshtein).
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(row[j+1]+1, row[j]+1, cost)
		}
	}
	return row[len(b)]
}
