package dynlib

import (
	"maps"
	"path"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestCandidates(t *testing.T) {
	files := []string{"/usr/local/cuda/lib64/libcublasLt.so.12", "/usr/local/cuda-12.4/lib64/libcublasLt.so.12",
		"/usr/local/cuda-12.9/lib64/libcublasLt.so.12", "/usr/local/cuda/targets/x86_64-linux/lib/libcublasLt.so.13",
		"/usr/local/lib/python3.12/dist-packages/nvidia/cu13/lib/libcublasLt.so.13", "/env/lib/libcublasLt.so.13"}
	glob := func(pattern string) (found []string) {
		for _, f := range files {
			if ok, _ := path.Match(pattern, f); ok {
				found = append(found, f)
			}
		}
		return found
	}
	env := map[string]string{"CONDA_PREFIX": "/env"}
	sonames := []string{"libcublasLt.so.13", "libcublasLt.so.12"}
	get := func(name string) string { return env[name] }
	assert.Equal(t, []string{
		"libcublasLt.so.13", "/env/lib/libcublasLt.so.13", "/usr/local/cuda/targets/x86_64-linux/lib/libcublasLt.so.13",
		"/usr/local/lib/python3.12/dist-packages/nvidia/cu13/lib/libcublasLt.so.13",
		"libcublasLt.so.12", "/usr/local/cuda/lib64/libcublasLt.so.12", "/usr/local/cuda-12.9/lib64/libcublasLt.so.12",
		"/usr/local/cuda-12.4/lib64/libcublasLt.so.12",
	}, candidates(get, glob, "FSGEN_ANY_LIB", sonames))
	maps.Copy(env, map[string]string{"FSGEN_ANY_LIB": "/mine.so"})
	assert.Equal(t, []string{"/mine.so"}, candidates(get, glob, "FSGEN_ANY_LIB", sonames), "a library that was named is the only one tried")
	assert.Empty(t, globFiles("/[nowhere"))
	t.Setenv("FSGEN_ANY_LIB", "")
	assert.Contains(t, Candidates("FSGEN_ANY_LIB", "libany.so.1"), "libany.so.1")
}
