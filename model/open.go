package model

import (
	"errors"
	"os"
)

// openRegular opens a regular file and returns its size; the error is a *FileError.
func openRegular(path string) (*os.File, int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, failOpen(path, err)
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	if err != nil {
		f.Close()
		return nil, 0, failOpen(path, err)
	}
	return f, st.Size(), nil
}
