package model

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
)

// writeAtomic publishes a file in one step: write fills a temporary file in the same directory, which then takes the
// name. A reader sees the old file or the new one, never a part; a failure leaves the old one and no litter.
func writeAtomic(path string, write func(io.Writer) error) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".tmp*")
	if err != nil {
		return failIO(path, "writing", trimPathError(err))
	}
	defer func() {
		if err != nil {
			tmp.Close()
			os.Remove(tmp.Name())
		}
	}()
	buf := bufio.NewWriterSize(tmp, 1<<20)
	if err = write(buf); err != nil {
		return err
	}
	if err = publish(tmp, buf, path); err != nil {
		return failIO(path, "writing", trimPathError(err))
	}
	return nil
}

// publish flushes, syncs and renames. The sync comes first, so that a crash cannot leave an empty file with the name.
func publish(tmp *os.File, buf *bufio.Writer, path string) error {
	if err := buf.Flush(); err != nil {
		return err
	}
	if err := tmp.Chmod(0o644); err != nil {
		return err
	}
	if err := tmp.Sync(); err != nil {
		return err
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}
