package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"github.com/fsgen/fsgen/internal/cache"
)

var cacheCommand = &command{
	name: "cache", args: "ls | rm [PREFIX] | path", short: "list or remove compiled kernels",
	examples: "  fsgen cache ls\n  fsgen cache rm          # all kernels\n",
	setup:    func(*pflag.FlagSet) func(context.Context, *env, []string) error { return runCache },
}

func runCache(_ context.Context, e *env, args []string) error {
	if len(args) == 0 || len(args) > 2 || len(args) == 2 && args[0] != "rm" {
		return usagef("cache: want ls, rm [PREFIX] or path")
	}
	prefix := ""
	if len(args) == 2 {
		if prefix = args[1]; prefix == "" {
			return usagef("cache rm: the prefix is empty: leave it out to remove all kernels")
		}
	}
	action := map[string]func(*env, *cache.Cache, string) error{"path": cachePath, "ls": cacheList, "rm": cacheRemove}[args[0]]
	if action == nil {
		return usagef("cache: unknown action %q%s: want ls, rm [PREFIX] or path", args[0], suggest(args[0], []string{"ls", "rm", "path"}))
	}
	c, err := openCache()
	if err != nil {
		return err
	}
	return action(e, c, prefix)
}

// openCache opens the cache of compiled kernels. What is a warning elsewhere is an error to who asks for the cache.
func openCache() (*cache.Cache, error) {
	var err error
	c := cache.Open(cache.Options{Warn: func(s string) { err = errors.New(s) }})
	return c, err
}

func cachePath(e *env, c *cache.Cache, _ string) error {
	if !c.Enabled() {
		return fmt.Errorf("the kernel cache is off (%s)", cache.EnvDir)
	}
	if e.json {
		return json.NewEncoder(e.stdout).Encode(map[string]string{"dir": c.Dir()})
	}
	fmt.Fprintln(e.stdout, c.Dir())
	return nil
}

func cacheList(e *env, c *cache.Cache, _ string) error {
	if !c.Enabled() {
		e.note("the kernel cache is off (%s)", cache.EnvDir)
	}
	entries, err := c.List()
	if err != nil {
		return err
	}
	return printEntries(e, entries)
}

func cacheRemove(e *env, c *cache.Cache, prefix string) error {
	gone, err := c.Remove(prefix)
	if err != nil {
		return err
	}
	e.note("%d entries removed", len(gone))
	return printEntries(e, gone)
}

func printEntries(e *env, entries []cache.Entry) error {
	if e.json {
		return printLines(e, entries)
	}
	w := tabwriter.NewWriter(e.stdout, 0, 8, 2, ' ', 0)
	for _, x := range entries {
		fmt.Fprintf(w, "%s\t%d\t%s\n", x.Key, x.Size, x.Used.Format("2006-01-02 15:04:05"))
	}
	return w.Flush()
}
