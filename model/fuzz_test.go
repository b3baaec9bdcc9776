package model

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tidy holds any error of a parser to the house form: typed and one short line.
func tidy(t *testing.T, err error) {
	var fe *FileError
	if !errors.As(err, &fe) {
		t.Fatalf("error of type %T: %v", err, err)
	}
	if msg := err.Error(); strings.ContainsAny(msg, "\n\r\x1b\x00") || len(msg) > 1000 || fe.Kind == nil || fe.Rule == "" {
		t.Fatalf("error is not one tidy line: %q", msg)
	}
}

func FuzzSafetensors(f *testing.F) {
	for _, file := range []string{"testdata/safetensors/reference.safetensors"} {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[8:8+binary.LittleEndian.Uint64(b)], len(b)-8-int(binary.LittleEndian.Uint64(b)))
	}
	f.Add([]byte(`{}`), 0)
	f.Add([]byte(`{"a":{"dtype":"F4","shape":[4],"data_offsets":[0,2]}}  `), 2)
	f.Add([]byte(`{"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"__metadata__":{"k":"v"}}`), 4)
	f.Add([]byte(`{"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`), 0)
	f.Fuzz(func(t *testing.T, header []byte, data int) {
		if data < 0 || data > 1<<16 {
			return
		}
		raw := rawFile(string(header), make([]byte, data)...)
		file, err := openBytes(raw)
		if err != nil {
			tidy(t, err)
			return
		}
		fuzzTensors(t, file, int64(data))
		fuzzWriter(t, file)
	})
}

// fuzzTensors holds what was accepted to the format: the tensors fill the data exactly, and all are readable.
func fuzzTensors(t *testing.T, file *File, data int64) {
	var sum int64
	for _, ten := range file.Tensors() {
		sum += ten.Bytes()
		v, err := ten.BF16(t.Context(), nil)
		if err != nil {
			tidy(t, err)
		} else if int64(len(v))*ten.DType.size() != ten.Bytes() {
			t.Fatalf("%d values of %d bytes", len(v), ten.Bytes())
		}
	}
	if sum != data {
		t.Fatalf("tensors of %d bytes in %d", sum, data)
	}
}

// fuzzWriter writes what was read and holds the copy to be the same.
func fuzzWriter(t *testing.T, file *File) {
	var all []TensorData
	for _, ten := range file.Tensors() {
		all = append(all, TensorData{Name: ten.Name, DType: ten.DType, Shape: ten.Shape, Data: make([]byte, ten.Bytes())})
	}
	head, err := encodeHeader("copy", all, file.meta)
	if err != nil {
		t.Fatalf("what was read cannot be written: %v", err)
	}
	for _, ten := range all {
		head = append(head, ten.Data...)
	}
	again, err := openBytes(head)
	if err != nil {
		t.Fatalf("what was written cannot be read: %v", err)
	}
	if len(again.tensors) != len(all) || len(again.meta) != len(file.meta) {
		t.Fatal("copy differs")
	}
}

func FuzzNpy(f *testing.F) {
	files, err := filepath.Glob("testdata/npy/*.npy")
	if err != nil || len(files) == 0 {
		f.Fatal("no seeds", err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add(rawNpy(dictOf("<f4", "True", "(4611686018427387904, 0)")))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := decodeNpy(b)
		if err != nil {
			tidy(t, err)
			return
		}
		lengths := map[string]int{}
		note := func(name string, n int, err error) {
			if err != nil {
				tidy(t, err)
				return
			}
			lengths[name] = n
		}
		f32, err := a.Float32s()
		note("Float32s", len(f32), err)
		bf, err := a.BF16s()
		note("BF16s", len(bf), err)
		i64, err := a.Int64s()
		note("Int64s", len(i64), err)
		u64, err := a.Uint64s()
		note("Uint64s", len(u64), err)
		i32, err := a.Int32s()
		note("Int32s", len(i32), err)
		u32, err := a.Uint32s()
		note("Uint32s", len(u32), err)
		w32, err := a.Words32()
		note("Words32", len(w32), err)
		for name, n := range lengths {
			if n != a.Len() {
				t.Fatalf("%s gave %d of %d", name, n, a.Len())
			}
		}
		if f32 != nil {
			var buf bytes.Buffer
			if err := EncodeNpy(&buf, "copy", a.Shape(), f32); err != nil && len(f32) > 0 {
				t.Fatal(err)
			}
		}
	})
}

func FuzzConfig(f *testing.F) {
	files, err := filepath.Glob("../testdata/hf/*/config.json")
	if err != nil || len(files) == 0 {
		f.Fatal("no seeds", err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(flat("granite", `,"logits_scaling":8,"x":[Infinity,-Infinity,NaN,"NaN"]`)))
	f.Add([]byte(`{"thinker_config":{"text_config":{"model_type":"xlstm","d_model":1,"vocab_size":1}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := ParseConfig("config.json", b)
		if err != nil {
			tidy(t, err)
			return
		}
		if c.VocabSize < 1 || c.HiddenSize < 1 || !(c.Scale > 0) || !(c.Softcap >= 0) || c.Scale*0 != 0 || c.Softcap*0 != 0 {
			t.Fatalf("accepted %+v", c)
		}
		if c.From.VocabSize == "" || c.From.HiddenSize == "" || c.From.Tie == "" || c.From.Scale == "" || c.From.Softcap == "" {
			t.Fatalf("a value without its origin: %+v", c)
		}
	})
}

// FuzzIndex is the index of shards.
func FuzzIndex(f *testing.F) {
	f.Add([]byte(`{"metadata":{"total_size":1},"weight_map":{"a":"x.safetensors"}}`))
	f.Add([]byte(`{"weight_map":{"a":"../x.safetensors"}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parseIndex("index.json", b)
		if err != nil {
			tidy(t, err)
			return
		}
		for _, file := range m {
			if filepath.Base(file) != file || file == ".." {
				t.Fatalf("%q leaves the directory", file)
			}
		}
	})
}
