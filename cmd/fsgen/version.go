package main

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/pflag"

	"github.com/fsgen/fsgen/gen"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
)

var versionCommand = &command{
	name: "version", short: "print versions", examples: "  fsgen version --json\n",
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
