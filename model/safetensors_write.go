package model

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
)

// TensorData is a tensor to be written: little-endian bytes, rows contiguous.
type TensorData struct {
	Name  string
	DType DType
	Shape []int
	Data  []byte // exactly the size of the shape
}

// BF16Data makes a BF16 tensor of bf16 bits.
func BF16Data(name string, shape []int, v []uint16) TensorData {
	data := make([]byte, 0, 2*len(v))
	for _, b := range v {
		data = binary.LittleEndian.AppendUint16(data, b)
	}
	return TensorData{Name: name, DType: BF16Type, Shape: shape, Data: data}
}

// F16Data makes an F16 tensor of binary16 bits.
func F16Data(name string, shape []int, v []uint16) TensorData {
	t := BF16Data(name, shape, v)
	t.DType = F16
	return t
}

// F32Data makes an F32 tensor.
func F32Data(name string, shape []int, v []float32) TensorData {
	data := make([]byte, 0, 4*len(v))
	for _, f := range v {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(f))
	}
	return TensorData{Name: name, DType: F32, Shape: shape, Data: data}
}

// F64Data makes an F64 tensor.
func F64Data(name string, shape []int, v []float64) TensorData {
	data := make([]byte, 0, 8*len(v))
	for _, f := range v {
		data = binary.LittleEndian.AppendUint64(data, math.Float64bits(f))
	}
	return TensorData{Name: name, DType: F64, Shape: shape, Data: data}
}

// WriteFile writes a safetensors file atomically. The bytes depend on the arguments alone: tensors keep their order,
// metadata is sorted, and the header is padded so that the data is aligned to 64 bytes for a reader that maps it.
func WriteFile(path string, tensors []TensorData, metadata map[string]string) error {
	head, err := encodeHeader(path, tensors, metadata)
	if err != nil {
		return err
	}
	return writeAtomic(path, func(w io.Writer) error {
		if _, err := w.Write(head); err != nil {
			return failIO(path, "writing", err)
		}
		for _, t := range tensors {
			if _, err := w.Write(t.Data); err != nil {
				return failIO(path, "writing", err)
			}
		}
		return nil
	})
}

// encodeHeader makes the length word and the JSON, and holds it to what the reader demands, so that nothing is written
// that could not be read back.
func encodeHeader(path string, tensors []TensorData, metadata map[string]string) ([]byte, error) {
	var js bytes.Buffer
	js.WriteByte('{')
	if len(metadata) > 0 {
		js.WriteString(`"__metadata__":{`)
		for i, k := range slices.Sorted(maps.Keys(metadata)) {
			fmt.Fprintf(&js, "%s%s:%s", comma(i), quote(k), quote(metadata[k]))
		}
		js.WriteByte('}')
		if len(tensors) > 0 {
			js.WriteByte(',')
		}
	}
	at := 0
	for i, t := range tensors {
		shape, _ := json.Marshal(append([]int{}, t.Shape...))
		fmt.Fprintf(&js, `%s%s:{"dtype":%s,"shape":%s,"data_offsets":[%d,%d]}`,
			comma(i), quote(t.Name), quote(string(t.DType)), shape, at, at+len(t.Data))
		at += len(t.Data)
	}
	js.WriteByte('}')
	for (8+js.Len())%64 != 0 {
		js.WriteByte(' ')
	}
	if _, err := parseHeader(path, js.Bytes(), int64(at)); err != nil {
		return nil, err
	}
	return append(binary.LittleEndian.AppendUint64(nil, uint64(js.Len())), js.Bytes()...), nil
}

func comma(i int) string {
	if i == 0 {
		return ""
	}
	return ","
}

// quote is s as JSON; marshalling a string cannot fail.
func quote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}
