package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

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

func bashCompletion() string {
	var b strings.Builder
	b.WriteString("_fsgen() {\n\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words=\n")
	fmt.Fprintf(&b, "\tcase $prev in\n\t--model|models) words=%q ;;\n\t--device) words=\"auto cpu cuda sim:sm_90 sim:sm_100\" ;;\n\t--arch) words=\"sm_90 sm_100\" ;;\n", modelNames())
	b.WriteString("\tcache) words=\"ls rm path\" ;;\n\tcompletion) words=\"bash zsh fish\" ;;\n\tesac\n")
	fmt.Fprintf(&b, "\tif [[ -z $words ]]; then\n\t\tif ((COMP_CWORD == 1)); then words=%q\n\t\telse case ${COMP_WORDS[1]} in\n", strings.Join(commandNames(), " ")+" help")
	for _, c := range commands() {
		fmt.Fprintf(&b, "\t\t%s) words=%q ;;\n", c.name, strings.Join(flagWords(c), " "))
	}
	b.WriteString("\t\tesac; fi\n\tfi\n\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n}\ncomplete -o default -F _fsgen fsgen\n")
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
	fmt.Fprintf(&b, "complete -c fsgen -n '__fish_seen_subcommand_from emit' -l model -x -a %q\n", modelNames())
	return b.String()
}
