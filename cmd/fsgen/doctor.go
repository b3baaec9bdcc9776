package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/internal/ptxas"
	"github.com/fsgen/fsgen/sampler"
)

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
	var kernels []string
	for _, a := range arch.All() {
		kernels = append(kernels, a.Name+" ("+a.Target.String()+")")
	}
	findings = append(findings, finding{"architectures", true, strings.Join(kernels, ", ")})
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
	const name = "kernel cache"
	c, err := openCache()
	if err != nil {
		return finding{name, false, oneLine(err)}
	}
	if !c.Enabled() {
		return finding{name, false, "off"}
	}
	probe, err := os.CreateTemp(c.Dir(), ".doctor-*")
	if err != nil {
		return finding{name, false, "read only: " + oneLine(err)}
	}
	probe.Close()
	os.Remove(probe.Name())
	return finding{name, true, c.Dir()}
}

func findPTXAS() finding {
	tool, err := ptxas.Find()
	if err != nil && !errors.Is(err, ptxas.ErrNotFound) {
		return finding{"ptxas", false, oneLine(err)}
	}
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
