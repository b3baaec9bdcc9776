package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/internal/bench"
	"github.com/fsgen/fsgen/internal/verify"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/model"
)

var completionCommand = &command{
	name: "completion", args: "bash|zsh|fish", short: "print a completion script", noJSON: true,
	examples: "  source <(fsgen completion bash)\n  source <(fsgen completion zsh)      # after compinit\n" +
		"  fsgen completion fish > ~/.config/fish/completions/fsgen.fish\n",
	setup: func(*pflag.FlagSet) func(context.Context, *env, []string) error {
		return func(_ context.Context, e *env, args []string) error {
			if len(args) != 1 {
				return usagef("completion: want bash, zsh or fish")
			}
			switch args[0] {
			case "bash":
				fmt.Fprint(e.stdout, bashCompletion())
			case "zsh":
				fmt.Fprint(e.stdout, zshCompletion())
			case "fish":
				fmt.Fprint(e.stdout, fishCompletion())
			default:
				return usagef("completion: unknown shell %q: want bash, zsh or fish", args[0])
			}
			return nil
		}
	},
}

// flagWords lists a command's flags as they are typed.
func flagWords(c *command) []string {
	var words []string
	flags, _ := c.flagSet(&env{})
	flags.VisitAll(func(f *pflag.Flag) { words = append(words, "--"+f.Name) })
	return words
}

func modelNames() string {
	var names []string
	for _, p := range model.All() {
		names = append(names, p.Name)
	}
	return strings.Join(names, " ")
}

func archNames() string {
	var names []string
	for _, a := range arch.All() {
		names = append(names, a.Name)
	}
	return strings.Join(names, " ")
}

// choice is what may stand after a word.
type choice struct{ after, words string }

// flagValue are the words that complete a flag's value, for one command or for every one that has the flag.
type flagValue struct{ command, flag, words string }

// flagValues lists those of one command before those of all. What is a path is left to the shell.
func flagValues() []flagValue {
	return []flagValue{
		{"emit", "--model", modelNames()},
		{"emit", "--format", "ptx json h go ptx,json ptx,json,h,go"},
		{"emit", "--tensormap", "param global"},
		{"emit", "--draws", ir.WithReplacement.String() + " " + ir.WithoutReplacement.String()},
		{"emit", "--shard", "exchange records"},
		{"bench", "--model", modelNames()},
		{"bench", "--format", "table gobench"},
		{"bench", "--weights", strings.Join(bench.LayoutNames, " ")},
		{"bench", "--launch", "overlap serial both"},
		{"bench", "--peers", strings.Join(bench.PeerNames, " ") + " none"},
		{"bench", "--device", "cuda"},
		{"tune", "--model", allModels + " " + modelNames()},
		{"tune", "--weights", strings.Join(bench.LayoutNames, " ")},
		{"tiles", "--model", modelNames()},
		{"tiles", "--weights", strings.Join(bench.LayoutNames, " ")},
		{"emit", "--weights", strings.Join(bench.LayoutNames, " ")},
		{"emit", "--draws", "with-replacement without-replacement"},
		{"tiles", "--draws", "with-replacement without-replacement"},
		{"", "--layout", strings.Join(bench.LayoutNames, " ")},
		{"tune", "--device", "cuda"},
		{"", "--device", "auto cpu cuda sim:" + strings.ReplaceAll(archNames(), " ", " sim:")},
		{"", "--arch", archNames()},
		{"", "--sampler", "gumbel grouped greedy"},
		{"", "--transform", "none temperature temperature,bias temperature,mask temperature,bias,mask temperature,bias=sparse,penalties,ids"},
		{"", "--truncation", "top-k top-p min-p top-k,top-p top-k,top-p,min-p top-k,top-p,temperature-last"},
		{"", "--tp-transport", "peer nccl host"},
		{"", "--logprobs", "raw temperature processed"},
		{"", "--suite", strings.Join(verify.Suites(), " ")},
	}
}

// ownValues are the flags of a command whose values are the user's own, paths and numbers, as they are typed: after them the
// shell completes.
func ownValues(c *command) (words []string) {
	offered := map[string]bool{}
	for _, v := range flagValues() {
		if v.command == "" || v.command == c.name {
			offered[v.flag] = true
		}
	}
	flags, _ := c.flagSet(&env{})
	flags.VisitAll(func(f *pflag.Flag) {
		if f.NoOptDefVal != "" || offered["--"+f.Name] { // a switch, or one of known words
			return
		}
		words = append(words, "--"+f.Name)
		if f.Shorthand != "" {
			words = append(words, "-"+f.Shorthand)
		}
	})
	return words
}

// arguments are the words that complete what stands after a command.
func arguments() []choice {
	return []choice{
		{"cache", "ls rm path"}, {"tune", "ls"}, {"completion", "bash zsh fish"}, {"models", modelNames()}, {"help", strings.Join(commandNames(), " ")},
	}
}

// pattern is a pattern of bash for the command and the word before the cursor.
func (v flagValue) pattern() string {
	if v.command == "" {
		return fmt.Sprintf(`*" %s"`, v.flag)
	}
	return fmt.Sprintf("%q", v.command+" "+v.flag)
}

// bashHead finds the word under the cursor and the one before it. Bash splits words at = and :, so that --device=cpu and
// sim:sm_90 are three.
const bashHead = `_fsgen() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev= command=${COMP_WORDS[1]} list=
	COMPREPLY=()
	((COMP_CWORD > 0)) && prev=${COMP_WORDS[COMP_CWORD-1]}
	if [[ $cur == "=" || $cur == ":" ]]; then
		prev+=$cur cur=
	elif [[ $prev == "=" || $prev == ":" ]] && ((COMP_CWORD > 1)); then
		prev=${COMP_WORDS[COMP_CWORD-2]}$prev
	fi
	case "$command ${prev%=}" in
`

const bashTail = `		esac
	fi
	COMPREPLY=($(compgen -W "$list" -- "$cur"))
}
complete -o default -F _fsgen fsgen
`

// bashCompletion completes commands, then flags and arguments of the command, and values after a flag. The script runs in
// zsh too, where the name "words" is taken.
func bashCompletion() string {
	var b strings.Builder
	b.WriteString(bashHead)
	for _, v := range flagValues() {
		fmt.Fprintf(&b, "\t%s) list=%q ;;\n", v.pattern(), v.words)
	}
	fmt.Fprintf(&b, "\t*\" sim:\") list=%q ;;\n\t*:) return ;;\n", archNames())
	for _, c := range commands() {
		for _, w := range ownValues(c) {
			fmt.Fprintf(&b, "\t%s) return ;;\n", flagValue{command: c.name, flag: w}.pattern())
		}
	}
	b.WriteString("\tesac\n")
	fmt.Fprintf(&b, "\tif [[ -z $list ]] && ((COMP_CWORD == 1)); then list=%q\n", strings.Join(commandNames(), " ")+" help")
	b.WriteString("\tfi\n\tif [[ -z $list && $cur != -* ]] && ((COMP_CWORD == 2)); then\n\t\tcase $command in\n")
	for _, a := range arguments() {
		fmt.Fprintf(&b, "\t\t%s) list=%q ;;\n", a.after, a.words)
	}
	b.WriteString("\t\tesac\n\tfi\n\tif [[ -z $list ]]; then\n\t\tcase $command in\n")
	for _, c := range commands() {
		fmt.Fprintf(&b, "\t\t%s) list=%q ;;\n", c.name, strings.Join(flagWords(c), " "))
	}
	b.WriteString(bashTail)
	return b.String()
}

// zshCompletion is bash's, through zsh's own emulation.
func zshCompletion() string {
	return "#compdef fsgen\nautoload -U +X bashcompinit && bashcompinit\n" + bashCompletion()
}

func fishCompletion() string {
	var b strings.Builder
	for _, c := range commands() {
		fmt.Fprintf(&b, "complete -c fsgen -n __fish_use_subcommand -f -a %s -d %q\n", c.name, c.short)
		for _, w := range flagWords(c) {
			fmt.Fprintf(&b, "complete -c fsgen -n '__fish_seen_subcommand_from %s' -l %s\n", c.name, strings.TrimPrefix(w, "--"))
		}
	}
	for _, v := range flagValues() {
		b.WriteString("complete -c fsgen")
		if v.command != "" {
			fmt.Fprintf(&b, " -n '__fish_seen_subcommand_from %s'", v.command)
		}
		fmt.Fprintf(&b, " -l %s -x -a %q\n", strings.TrimPrefix(v.flag, "--"), v.words)
	}
	for _, a := range arguments() {
		fmt.Fprintf(&b, "complete -c fsgen -n '__fish_seen_subcommand_from %s' -f -a %q\n", a.after, a.words)
	}
	return b.String()
}
