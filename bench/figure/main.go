// Command figure draws the data of fsgen bench as one SVG: figure -o FILE.svg RUN.json...
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"

	"github.com/fsgen/fsgen/internal/bench"
)

func main() {
	out := flag.String("o", "", "file to write, instead of standard output")
	flag.Parse()
	if err := run(*out, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "figure:", err)
		os.Exit(1)
	}
}

func run(out string, runs []string) error {
	picture, err := draw(runs)
	if err != nil {
		return err
	}
	if out == "" {
		_, err = os.Stdout.Write(picture)
		return err
	}
	return os.WriteFile(out, picture, 0o644)
}

// draw reads the runs and draws them in their order.
func draw(runs []string) ([]byte, error) {
	var reports []*bench.Report
	for _, path := range runs {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		r, err := bench.Decode(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		reports = append(reports, r)
	}
	var picture bytes.Buffer
	err := bench.WriteFigure(&picture, reports)
	return picture.Bytes(), err
}
