package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir()
}

// makeDir makes the directory that a flag names.
func makeDir(flag, path string) error {
	if isFile(path) {
		return fmt.Errorf("%s: %s is a file: want a directory", flag, path)
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	return nil
}

// file is a file to be written.
type file struct {
	path string
	data []byte
}

// writeFiles writes files that belong together. All are staged before the first takes its name, so that a failure leaves
// what was there.
func writeFiles(files []file) error {
	var staged []string
	defer func() {
		for _, tmp := range staged {
			os.Remove(tmp)
		}
	}()
	for _, f := range files {
		if isDir(f.path) {
			return fmt.Errorf("%s is a directory: want a file", f.path)
		}
		tmp, err := stage(f)
		if err != nil {
			return err
		}
		staged = append(staged, tmp)
	}
	for _, f := range files {
		if err := os.Rename(staged[0], f.path); err != nil {
			return err
		}
		staged = staged[1:]
	}
	return nil
}

// stage writes a file under a temporary name beside its own.
func stage(f file) (name string, err error) {
	tmp, err := os.CreateTemp(filepath.Dir(f.path), "."+filepath.Base(f.path)+".*")
	if err != nil {
		return "", err
	}
	_, err = tmp.Write(f.data)
	if err == nil {
		err = tmp.Chmod(0o644)
	}
	if closeErr := tmp.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		os.Remove(tmp.Name())
		return "", err
	}
	return tmp.Name(), nil
}
