package main

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/gen"
	"github.com/fsgen/fsgen/internal/cache"
	"github.com/fsgen/fsgen/internal/ptxas"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/sampler"
)

var versionCommand = &command{
	name: "version", short: "print versions",
	setup: func(*pflag.FlagSet) func(context.Context, *env, []string) error {
		return func(_ context.Context, e *env, args []string) error {
			if err := noArgs("version", args); err != nil {
				return err
			}
			module := "devel"
			if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
				module = info.Main.Version
			}
			if e.json {
				return json.NewEncoder(e.stdout).Encode(map[string]any{"module": module, "generator": gen.Version, "noise": ir.NoiseName,
					"manifest_schema": manifest.Schema, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH})
			}
			fmt.Fprintf(e.stdout, "fsgen %s, generator %s, noise %s, manifest schema %d, %s %s/%s\n", module, gen.Version, ir.NoiseName,
				manifest.Schema, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return nil
		}
	},
}

var cacheCommand = &command{
	name: "cache", args: "ls | rm [PREFIX] | path", short: "list or remove compiled kernels",
	setup: func(*pflag.FlagSet) func(context.Context, *env, []string) error { return runCache },
}

func runCache(_ context.Context, e *env, args []string) error {
	if len(args) == 0 || len(args) > 2 || len(args) == 2 && args[0] != "rm" {
		return usagef("cache: want ls, rm [PREFIX] or path")
	}
	c := cache.Open(cache.Options{Warn: func(s string) { e.note("%s", s) }})
	switch args[0] {
	case "path":
		if !c.Enabled() {
			return fmt.Errorf("the cache is off")
		}
		fmt.Fprintln(e.stdout, c.Dir())
		return nil
	case "ls":
		return listCache(e, c)
	case "rm":
		prefix := ""
		if len(args) == 2 {
			prefix = args[1]
		}
		n, err := c.Remove(prefix)
		if err != nil {
			return err
		}
		e.note("%d entries removed", len(n))
		return nil
	}
	return usagef("cache: unknown action %q%s: want ls, rm [PREFIX] or path", args[0], suggest(args[0], []string{"ls", "rm", "path"}))
}

func listCache(e *env, c *cache.Cache) error {
	entries, err := c.List()
	if err != nil {
		return err
	}
	if e.json {
		enc := json.NewEncoder(e.stdout)
		for _, x := range entries {
			if err := enc.Encode(x); err != nil {
				return err
			}
		}
		return nil
	}
	w := tabwriter.NewWriter(e.stdout, 0, 8, 2, ' ', 0)
	for _, x := range entries {
		fmt.Fprintf(w, "%s\t%d\t%s\n", x.Key, x.Size, x.Used.Format("2006-01-02 15:04:05"))
	}
	return w.Flush()
}

var doctorCommand = &command{
	name: "doctor", args: "[--require-gpu]", short: "say what fsgen finds on this machine",
	setup: func(f *pflag.FlagSet) func(context.Context, *env, []string) error {
		require := f.Bool("require-gpu", false, "exit with 3 if no GPU can be used")
		return func(_ context.Context, e *env, args []string) error {
			if err := noArgs("doctor", args); err != nil {
				return err
			}
			return runDoctor(e, *require)
		}
	},
}

// finding is one line of doctor.
type finding struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

func runDoctor(e *env, requireGPU bool) error {
	gpu, gpuErr := findGPU()
	findings := []finding{{"platform", true, runtime.GOOS + "/" + runtime.GOARCH + ", " + runtime.Version()}, gpu, findCache(), findPTXAS()}
	var kernels string
	for _, a := range arch.All() {
		kernels += a.Name + " (" + a.Target.String() + ") "
	}
	findings = append(findings, finding{"architectures", true, kernels})
	if err := printFindings(e, findings); err != nil {
		return err
	}
	if requireGPU {
		return gpuErr
	}
	return nil
}

func findGPU() (finding, error) {
	dev, err := sampler.Open(sampler.CUDA)
	if err != nil {
		return finding{"gpu", false, oneLine(err)}, err
	}
	defer dev.Close()
	i := dev.Info()
	return finding{"gpu", true, fmt.Sprintf("%s: %s, kernels for %s, driver %s, %s", i.Name, i.Product, i.Arch, i.Driver, i.UUID)}, nil
}

func findCache() finding {
	c := cache.Open(cache.Options{Warn: func(string) {}})
	if !c.Enabled() {
		return finding{"kernel cache", false, "off"}
	}
	return finding{"kernel cache", true, c.Dir()}
}

func findPTXAS() finding {
	tool, err := ptxas.Find()
	if err != nil {
		return finding{"ptxas", false, "not found; only tests and emitted resource counts need it (make tools)"}
	}
	return finding{"ptxas", true, tool.Path}
}

func printFindings(e *env, findings []finding) error {
	if e.json {
		return json.NewEncoder(e.stdout).Encode(findings)
	}
	w := tabwriter.NewWriter(e.stdout, 0, 8, 2, ' ', 0)
	for _, f := range findings {
		mark := "ok"
		if !f.OK {
			mark = "--"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", mark, f.Name, f.Detail)
	}
	return w.Flush()
}
