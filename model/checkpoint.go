package model

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

const indexName = "model.safetensors.index.json"

// Checkpoint is a set of named tensors in one or more safetensors files. Files are opened when a tensor of theirs is
// asked for, so a directory that holds only some shards serves what it has.
type Checkpoint struct {
	source string            // what names the tensors: the index file, or the one weights file
	dir    string            // of the shards
	shard  map[string]string // tensor -> file name within dir; nil if there is one file
	mu     sync.Mutex
	open   map[string]*File
}

// OpenCheckpoint opens a safetensors file, or the weights in a directory: model.safetensors if it is there (as
// transformers prefers it), else the shards of model.safetensors.index.json, else the only .safetensors file.
func OpenCheckpoint(path string) (*Checkpoint, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, failOpen(path, trimPathError(err))
	}
	if !st.IsDir() {
		return openSingle(path)
	}
	if single := filepath.Join(path, "model.safetensors"); exists(single) {
		return openSingle(single)
	}
	if index := filepath.Join(path, indexName); exists(index) {
		return openIndex(path, index)
	}
	return openOnly(path)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func openSingle(path string) (*Checkpoint, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	return &Checkpoint{source: path, open: map[string]*File{path: f}}, nil
}

// openOnly takes the one .safetensors file of a directory and says what is there if it is not one.
func openOnly(dir string) (*Checkpoint, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, failOpen(dir, err)
	}
	var weights, others []string
	for _, e := range entries {
		switch name := e.Name(); filepath.Ext(name) {
		case ".safetensors":
			weights = append(weights, name)
		case ".bin", ".pt", ".pth", ".gguf", ".onnx", ".h5", ".msgpack":
			others = append(others, name)
		}
	}
	switch {
	case len(weights) == 1:
		return openSingle(filepath.Join(dir, weights[0]))
	case len(weights) > 1:
		return nil, fail(ErrAmbiguous, dir, "several .safetensors files and no "+indexName, "%s", list(weights))
	case len(others) > 0:
		return nil, fail(ErrUnsupported, dir, "only safetensors weights are read; convert these", "%s", list(others))
	}
	return nil, fail(ErrMissing, dir, "no .safetensors file in the directory", "")
}

// openIndex reads {"metadata": ..., "weight_map": {tensor: file}}.
func openIndex(dir, index string) (*Checkpoint, error) {
	text, err := readSmall(index, maxHeaderBytes)
	if err != nil {
		return nil, err
	}
	shard, err := parseIndex(index, text)
	if err != nil {
		return nil, err
	}
	return &Checkpoint{source: index, dir: dir, shard: shard, open: map[string]*File{}}, nil
}

func parseIndex(index string, text []byte) (map[string]string, error) {
	p := newJSONReader(index, "index", text)
	shard := map[string]string{}
	err := p.object("", func(key string) error {
		if key != "weight_map" {
			_, err := p.value(key, 1) // metadata and whatever else: read over
			return err
		}
		return p.object(key, func(tensor string) error {
			file, err := p.string(tensor)
			if err == nil && !plainFile(file) {
				err = p.fail("a shard must be a .safetensors file in the same directory", "%q is in %q", tensor, file)
			}
			shard[tensor] = file
			return err
		})
	})
	if err == nil {
		err = p.end()
	}
	if err == nil && len(shard) == 0 {
		err = p.fail("weight_map must name tensors", "none")
	}
	return shard, err
}

// plainFile holds a name from an index to the directory: no separators of any system, no "..", no drive.
func plainFile(name string) bool {
	return strings.HasSuffix(name, ".safetensors") && filepath.IsLocal(name) && !strings.ContainsAny(name, `/\:`)
}

// Source is the file that names the tensors: the index, or the only weights file.
func (c *Checkpoint) Source() string { return c.source }

// Names lists all tensor names, sorted.
func (c *Checkpoint) Names() []string {
	var names []string
	for n := range c.shard {
		names = append(names, n)
	}
	if c.shard == nil {
		for _, t := range c.open[c.source].tensors {
			names = append(names, t.Name)
		}
	}
	slices.Sort(names)
	return names
}

// Has says whether a tensor is named; its file is not opened.
func (c *Checkpoint) Has(name string) bool {
	if c.shard == nil {
		return c.open[c.source].byName[name] != nil
	}
	_, ok := c.shard[name]
	return ok
}

// Tensor opens the file that holds a tensor, if it is not open yet, and finds the tensor in it.
func (c *Checkpoint) Tensor(name string) (*Tensor, error) {
	if c.shard == nil {
		return c.open[c.source].Tensor(name)
	}
	file, ok := c.shard[name]
	if !ok {
		return nil, fail(ErrMissing, c.source, "no such tensor in weight_map", "%q", name)
	}
	f, err := c.openShard(file)
	if err != nil {
		return nil, err
	}
	t := f.byName[name]
	if t == nil {
		return nil, fail(ErrMismatch, c.source, "a shard must hold the tensors that weight_map places in it", "%q is not in %s", name, file)
	}
	return t, nil
}

func (c *Checkpoint) openShard(name string) (*File, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.open[name]; f != nil {
		return f, nil
	}
	f, err := Open(filepath.Join(c.dir, name))
	if err != nil {
		return nil, err
	}
	c.open[name] = f
	return f, nil
}

// Verify opens every shard and finds every tensor, in the order of their names.
func (c *Checkpoint) Verify() error {
	for _, n := range c.Names() {
		if _, err := c.Tensor(n); err != nil {
			return err
		}
	}
	return nil
}

// Close closes all files.
func (c *Checkpoint) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var first error
	for _, f := range c.open {
		if err := f.Close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// list joins names for an error, the first eight and how many more.
func list(names []string) string {
	const most = 8
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:most], ", ") + " and " + plural(len(names)-most)
}
