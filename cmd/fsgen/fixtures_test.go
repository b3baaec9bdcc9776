package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/fsgen/fsgen/model"
)

// cmdNpy is "npy FILE DESCR SHAPE VALUE...": an array whose values repeat. SHAPE is as in 4x64; DESCR is numpy's, with F
// after it for Fortran order.
func cmdNpy(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 4 {
		ts.Fatalf("usage: npy FILE DESCR SHAPE VALUE...")
	}
	descr, fortran := strings.CutSuffix(args[1], "F")
	count, shape := 1, ""
	for _, d := range strings.Split(args[2], "x") {
		if d == "" {
			continue
		}
		n, err := strconv.Atoi(d)
		ts.Check(err)
		count *= n
		shape += d + ", "
	}
	var values []byte
	for i := range count {
		values = append(values, element(ts, descr, args[3+i%(len(args)-3)])...)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), npyFile(descr, fortran, shape, values), 0o600))
}

// npyFile is an array as numpy saves it. The shape is as in "4, 64, ".
func npyFile(descr string, fortran bool, shape string, values []byte) []byte {
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': %s, 'shape': (%s), }\n", descr, map[bool]string{true: "True", false: "False"}[fortran], shape)
	file := binary.LittleEndian.AppendUint16([]byte("\x93NUMPY\x01\x00"), uint16(len(header)))
	return append(append(file, header...), values...)
}

// element encodes one value; of a type that is not read, zeros.
func element(ts *testscript.TestScript, descr, text string) []byte {
	var order binary.AppendByteOrder = binary.LittleEndian
	if descr[0] == '>' {
		order = binary.BigEndian
	}
	size, err := strconv.Atoi(descr[2:])
	ts.Check(err)
	bits := uint64(0)
	switch descr[1] {
	case 'f':
		x, err := strconv.ParseFloat(text, 64)
		ts.Check(err)
		if bits = math.Float64bits(x); size == 4 {
			bits = uint64(math.Float32bits(float32(x)))
		}
	case 'i', 'u', 'b':
		if n, err := strconv.ParseInt(text, 0, 64); err == nil {
			bits = uint64(n)
		} else if bits, err = strconv.ParseUint(text, 0, 64); err != nil {
			ts.Fatalf("%v", err)
		}
	}
	switch size {
	case 1:
		return []byte{byte(bits)}
	case 2:
		return order.AppendUint16(nil, uint16(bits))
	case 4:
		return order.AppendUint32(nil, uint32(bits))
	}
	return order.AppendUint64(nil, bits)
}

// cmdWeights is "weights FILE NAME=ROWSxCOLS[@LAST]...": safetensors of float32 in a fixed pattern, the last value another.
func cmdWeights(ts *testscript.TestScript, _ bool, args []string) {
	var tensors []model.TensorData
	for _, arg := range args[1:] {
		name, dims, _ := strings.Cut(arg, "=")
		dims, last, other := strings.Cut(dims, "@")
		var shape []int
		count := 1
		for _, d := range strings.Split(dims, "x") {
			n, err := strconv.Atoi(d)
			ts.Check(err)
			shape, count = append(shape, n), count*n
		}
		v := make([]float32, count)
		for i := range v {
			v[i] = float32(i*7%13)/8 - 0.75
		}
		if other {
			x, err := strconv.ParseFloat(last, 32)
			ts.Check(err)
			v[count-1] = float32(x)
		}
		tensors = append(tensors, model.F32Data(name, shape, v))
	}
	ts.Check(model.WriteFile(ts.MkAbs(args[0]), tensors, nil))
}

// cmdCut is "cut FROM TO N": a copy without its last N bytes, or with N more where N is negative.
func cmdCut(ts *testscript.TestScript, _ bool, args []string) {
	data := []byte(ts.ReadFile(args[0]))
	n, err := strconv.Atoi(args[2])
	ts.Check(err)
	if n < 0 {
		data, n = append(data, make([]byte, -n)...), 0
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), data[:len(data)-n], 0o600))
}

// cmdPatch is "patch FROM TO OLD NEW": a copy with the first OLD replaced.
func cmdPatch(ts *testscript.TestScript, _ bool, args []string) {
	text := ts.ReadFile(args[0])
	if !strings.Contains(text, args[2]) {
		ts.Fatalf("%s has no %q", args[0], args[2])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(strings.Replace(text, args[2], args[3], 1)), 0o600))
}
