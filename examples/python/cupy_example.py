"""Samples with a kernel of fsgen's from CuPy: its arrays, its stream, its RawModule.

    fsgen emit --arch sm_90 --vocab 5000 --hidden 264 --batch 5 --tensormap global -o kernels
    go run ./examples/inputs inputs
    python3 examples/python/cupy_example.py kernels/NAME.ptx inputs

RawModule passes pointers and numbers, so the kernel has to be one with tensor maps in global memory. It says its cluster itself
(.reqnctapercluster), which a plain launch keeps to.
"""

import sys

import cupy
import numpy

from fsgen_artifact import Artifact, print_result, read_inputs


def main(kernel, directory):
    artifact, given = Artifact(kernel), read_inputs(directory)
    artifact.needs_global_maps("CuPy")
    function = cupy.RawModule(path=kernel).get_function(artifact.entry)
    function.max_dynamic_shared_size_bytes = artifact.shared
    resident = artifact.prepare(function.kernel.ptr)

    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        arrays = {name: cupy.asarray(given[name]) for name in ("weights", "hidden", "seeds", "positions", "temperature")}
        weights, hidden = arrays["weights"], arrays["hidden"]
        batch, vocab = hidden.shape[0], weights.shape[0]
        tokens, status = cupy.empty(batch, numpy.int32), cupy.empty(batch, numpy.int32)
        workspace = cupy.zeros(artifact.workspace_bytes(batch), numpy.uint8)

        maps = {}
        for name, matrix in (("weights", weights), ("hidden", hidden)):
            words = artifact.encode(name, matrix.data.ptr, matrix.shape[0], matrix.shape[1], matrix.strides[0] // 2)
            maps[name] = cupy.asarray(numpy.frombuffer(bytes(words), numpy.uint8))

        values = artifact.values(
            workspace.data.ptr, **{name: m.data.ptr for name, m in maps.items()}, vocab=vocab, hidden_size=weights.shape[1],
            batch=batch, seeds=arrays["seeds"].data.ptr, seed_stride=1, positions=arrays["positions"].data.ptr, position_stride=1,
            temperature=arrays["temperature"].data.ptr, temperature_stride=1, tokens=tokens.data.ptr, status=status.data.ptr)
        types = [numpy.uint32 if p["kind"] == "scalar" else numpy.uint64 for p in artifact.params]
        function((artifact.grid(vocab, batch, resident),), (artifact.block,), tuple(t(v) for t, v in zip(types, values, strict=True)),
                 shared_mem=artifact.shared)
    stream.synchronize()
    print_result(artifact, tokens.get(), status.get())


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: cupy_example.py KERNEL.ptx INPUTS")
    main(*sys.argv[1:])
