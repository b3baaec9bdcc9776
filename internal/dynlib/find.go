package dynlib

import (
	"os"
	"path/filepath"
	"slices"
)

// folders are where CUDA's installers, distributions and Python packages put the library without telling the loader. The
// loader itself knows LD_LIBRARY_PATH and the system's folders.
var folders = []string{
	"/usr/local/cuda/lib64",
	"/usr/local/cuda/targets/*/lib",
	"/usr/local/cuda-*/lib64",
	"/usr/local/cuda-*/targets/*/lib",
	"/opt/cuda/lib64",
	"/usr/local/lib/python3*/*-packages/nvidia/*/lib",
	"/usr/lib/python3*/*-packages/nvidia/*/lib",
	"/opt/*/lib/python3*/site-packages/nvidia/*/lib",
}

// homes are environment variables that name an installation of CUDA or a Python environment, and where the library
// lies in it.
var homes = []struct{ env, folder string }{
	{"CUDA_HOME", "lib64"},
	{"CUDA_PATH", "lib64"},
	{"CONDA_PREFIX", "lib"},
	{"VIRTUAL_ENV", "lib/python3*/site-packages/nvidia/*/lib"},
}

// Candidates are the names to try for a library of NVIDIA's: the one that an environment variable names, alone; or for each of
// its sonames, the best first, the loader's and then those in the usual folders.
func Candidates(env string, sonames ...string) []string {
	return candidates(os.Getenv, globFiles, env, sonames)
}

func candidates(getenv func(string) string, glob func(string) []string, env string, sonames []string) []string {
	if name := getenv(env); name != "" {
		return []string{name}
	}
	var places []string
	for _, h := range homes {
		if home := getenv(h.env); home != "" {
			places = append(places, filepath.Join(home, h.folder))
		}
	}
	places = append(places, folders...)
	var out []string
	for _, soname := range sonames {
		out = append(out, soname)
		for _, place := range places {
			found := glob(filepath.Join(place, soname))
			slices.Sort(found)
			slices.Reverse(found) // the newest of several installations
			out = append(out, found...)
		}
	}
	return out
}

func globFiles(pattern string) []string {
	found, err := filepath.Glob(pattern)
	if err != nil {
		return nil // a variable with a bracket in it
	}
	return found
}
