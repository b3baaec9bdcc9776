package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/internal/verify"
	"github.com/fsgen/fsgen/model"
)

var completionCommand = &command{
	name: "completion", args: "bash|zsh|fish", short: "print a completion script", noJSON: true,
	examples: "  source <(fsgen completion bash)\n",
	setup: func(*pflag.FlagSet) func(context.Context, *env, []string) error {
		return func(_ context.Context, e *env, args []string) error {
			if len(args) != 1 {
				return usagef("completion: want bash, zsh or fish")
			}
			switch args[0] {
			case "bash":
				fmt.Fprint(e.stdout, bashCompletion())
			case "zsh":
				fmt.Fprint(e.stdout, "#compdef fsgen\nautoload -U +X bashcompinit && bashcompinit\n"+bashCompletion())
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

// choice is what may stand after a word.
type choice struct{ after, words string }

// flagValues are the words that complete a flag's value. What is a path is left to the shell.
func flagValues() []choice {
	var archs []string
	for _, a := range arch.All() {
		archs = append(archs, a.Name)
	}
	return []choice{
		{"--device", "auto cpu cuda sim:" + strings.Join(archs, " sim:")},
		{"--arch", strings.Join(archs, " ")},
		{"--sampler", "gumbel greedy"},
		{"--suite", strings.Join(verify.Suites(), " ")},
		{"--format", "ptx json ptx,json"},
	}
}

// arguments are the words that complete what stands after a command.
func arguments() []choice {
	return []choice{
		{"cache", "ls rm path"}, {"completion", "bash zsh fish"}, {"models", modelNames()}, {"help", strings.Join(commandNames(), " ")},
	}
}

// bashCompletion completes commands, then flags and arguments of the command, and values after a flag.
func bashCompletion() string {
	var b strings.Builder
	b.WriteString("_fsgen() {\n\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev= command=${COMP_WORDS[1]} words=\n\tCOMPREPLY=()\n")
	b.WriteString("\t((COMP_CWORD > 0)) && prev=${COMP_WORDS[COMP_CWORD-1]}\n\tcase $prev in\n")
	for _, v := range flagValues() {
		fmt.Fprintf(&b, "\t%s) words=%q ;;\n", v.after, v.words)
	}
	fmt.Fprintf(&b, "\t--model) if [[ $command == emit ]]; then words=%q; else return; fi ;;\n", modelNames())
	b.WriteString("\t--weights|--hidden|--mask|--bias|--kernel|--output|-o) return ;;\n\tesac\n")
	fmt.Fprintf(&b, "\tif [[ -z $words ]] && ((COMP_CWORD == 1)); then words=%q\n", strings.Join(commandNames(), " ")+" help")
	b.WriteString("\tfi\n\tif [[ -z $words && $cur != -* ]] && ((COMP_CWORD == 2)); then\n\t\tcase $command in\n")
	for _, a := range arguments() {
		fmt.Fprintf(&b, "\t\t%s) words=%q ;;\n", a.after, a.words)
	}
	b.WriteString("\t\tesac\n\tfi\n\tif [[ -z $words ]]; then\n\t\tcase $command in\n")
	for _, c := range commands() {
		fmt.Fprintf(&b, "\t\t%s) words=%q ;;\n", c.name, strings.Join(flagWords(c), " "))
	}
	b.WriteString("\t\tesac\n\tfi\n\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n}\ncomplete -o default -F _fsgen fsgen\n")
	return b.String()
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
		fmt.Fprintf(&b, "complete -c fsgen -l %s -x -a %q\n", strings.TrimPrefix(v.after, "--"), v.words)
	}
	for _, a := range arguments() {
		fmt.Fprintf(&b, "complete -c fsgen -n '__fish_seen_subcommand_from %s' -f -a %q\n", a.after, a.words)
	}
	fmt.Fprintf(&b, "complete -c fsgen -n '__fish_seen_subcommand_from emit' -l model -x -a %q\n", modelNames())
	return b.String()
}
