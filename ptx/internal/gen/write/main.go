// Command write regenerates the z*.go files of package ptx. It runs in the package's folder, by go generate.
package main

import (
	"fmt"
	"os"

	"github.com/fsgen/fsgen/ptx/internal/gen"
)

func main() {
	files, err := gen.Files()
	if err == nil {
		for name, text := range files {
			if err = os.WriteFile(name, text, 0o644); err != nil {
				break
			}
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
