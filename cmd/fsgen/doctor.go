package main

import (
	"context"
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
	examples: "  fsgen doctor\n  fsgen doctor --require-gpu --json     # for scripts: exit code 3 without a GPU\n",
	setup: func(f *pflag.FlagSet) func(context.Context, *env, []string) error {
		require := f.Bool("require-gpu", false, "exit with 3 if no GPU can be used")
		return func(ctx context.Context, e *env, args []string) error {
			if err := noArgs("doctor", args); err != nil {
				return err
			}
			return runDoctor(ctx, e, *require)
		}
	},
}

// finding is one line of doctor.
type finding struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

func runDoctor(ctx context.Context, e *env, requireGPU bool) error {
	findings := []finding{{"platform", true, runtime.GOOS + "/" + runtime.GOARCH + ", " + runtime.Version()}}
	gpus, gpuErr := findGPUs()
	findings = append(append(findings, gpus...), findCache(), findPTXAS(ctx))
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

// findGPUs describes the driver and every GPU. The error says why no GPU can be used, if none can.
func findGPUs() (found []finding, err error) {
	driver, n := findDriver()
	found = []finding{driver}
	if !driver.OK {
		_, err = findGPU(sampler.CUDA)
		return append(found, finding{"gpu", false, "no usable GPU, for want of a driver"}), err
	}
	for i := range max(n, 1) { // of none, the sampler says why the first cannot be had
		gpu, openErr := findGPU(fmt.Sprintf("%s:%d", sampler.CUDA, i))
		if i == 0 || openErr == nil { // one that can be used is enough
			err = openErr
		}
		found = append(found, gpu)
	}
	return found, err
}

func findGPU(device string) (finding, error) {
	dev, err := sampler.Open(device)
	if err != nil {
		return finding{"gpu", false, trimmed(err)}, err
	}
	defer dev.Close()
	i := dev.Info()
	return finding{"gpu", true, fmt.Sprintf("%s: %s, kernels for %s, %s", i.Name, i.Product, i.Arch, i.UUID)}, nil
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

func findPTXAS(ctx context.Context) finding {
	const name = "ptxas"
	tool, err := ptxas.Find()
	if errors.Is(err, ptxas.ErrNotFound) {
		return finding{name, false, "not found; only tests and emitted resource counts need it (make tools)"}
	}
	version := ""
	if err == nil {
		version, err = tool.Version(ctx)
	}
	if err != nil {
		return finding{name, false, oneLine(err)}
	}
	return finding{name, true, tool.Path + ", " + version}
}

func printFindings(e *env, findings []finding) error {
	if e.json {
		return printLines(e, findings)
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
