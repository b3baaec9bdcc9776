"""Samples with a kernel of fsgen's from cuda.core (PyPI: cuda-core), NVIDIA's Python over the driver: its buffers, its stream.

    fsgen emit --arch sm_90 --vocab 5000 --hidden 264 --batch 5 --tensormap global -o kernels
    go run ./examples/inputs inputs
    python3 examples/python/cuda_core.py kernels/NAME.ptx inputs

launch passes pointers and numbers, so the kernel has to be one with tensor maps in global memory. It says its cluster itself
(.reqnctapercluster), which a plain launch keeps to, so that the grid counts CTAs with every version of cuda.core.
"""

import ctypes
import sys

import numpy

try:
    from cuda.core import Device, LaunchConfig, ObjectCode, launch
except ImportError:  # before 0.5
    from cuda.core.experimental import Device, LaunchConfig, ObjectCode, launch

from fsgen_artifact import Artifact, cuda, print_result, read_inputs


def upload(device, stream, array):
    """A buffer of the device that holds an array's bytes, in the order of the stream."""
    array = numpy.ascontiguousarray(array)
    buffer = device.allocate(array.nbytes, stream=stream)
    cuda.cuMemcpyHtoDAsync_v2(ctypes.c_uint64(int(buffer.handle)), ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes),
                              ctypes.c_void_p(int(stream.handle)))
    stream.sync()  # the array may go
    return buffer


def download(stream, buffer, dtype, n):
    """The values of a buffer, when the stream has come so far."""
    out = numpy.empty(n, dtype)
    cuda.cuMemcpyDtoHAsync_v2(ctypes.c_void_p(out.ctypes.data), ctypes.c_uint64(int(buffer.handle)), ctypes.c_size_t(out.nbytes),
                              ctypes.c_void_p(int(stream.handle)))
    stream.sync()
    return out


def function_of(kernel):
    """The CUfunction of a kernel in the current context, as an integer."""
    handle = kernel.handle if hasattr(kernel, "handle") else kernel._handle
    function = ctypes.c_void_p()
    cuda.cuKernelGetFunction(ctypes.byref(function), ctypes.c_void_p(int(handle)))
    return function.value


def main(kernel, directory):
    artifact, given = Artifact(kernel), read_inputs(directory)
    artifact.needs_global_maps("cuda.core")
    device = Device()
    device.set_current()
    stream = device.create_stream()
    code = ObjectCode.from_ptx(artifact.ptx)
    loaded = code.get_kernel(artifact.entry)
    resident = artifact.prepare(function_of(loaded))

    buffers = {name: upload(device, stream, given[name]) for name in ("weights", "hidden", "seeds", "positions", "temperature")}
    vocab, hidden_size, batch = given["vocab"], given["hidden_size"], given["batch"]
    tokens, status = (upload(device, stream, numpy.zeros(batch, numpy.int32)) for _ in range(2))
    workspace = upload(device, stream, numpy.zeros(artifact.workspace_bytes(batch), numpy.uint8))
    maps = {}
    for name, rows in (("weights", vocab), ("hidden", batch)):
        words = artifact.encode(name, int(buffers[name].handle), rows, hidden_size, hidden_size)
        maps[name] = upload(device, stream, numpy.frombuffer(bytes(words), numpy.uint8))

    values = artifact.values(
        int(workspace.handle), **{name: int(m.handle) for name, m in maps.items()}, vocab=vocab, hidden_size=hidden_size, batch=batch,
        seeds=int(buffers["seeds"].handle), seed_stride=1, positions=int(buffers["positions"].handle), position_stride=1,
        temperature=int(buffers["temperature"].handle), temperature_stride=1, tokens=int(tokens.handle), status=int(status.handle))
    types = [numpy.uint32 if p["kind"] == "scalar" else numpy.uint64 for p in artifact.params]
    config = LaunchConfig(grid=artifact.grid(vocab, batch, resident), block=artifact.block, shmem_size=artifact.shared)
    launch(stream, config, loaded, *(t(v) for t, v in zip(types, values, strict=True)))
    print_result(artifact, download(stream, tokens, numpy.int32, batch), download(stream, status, numpy.int32, batch))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: cuda_core.py KERNEL.ptx INPUTS")
    main(*sys.argv[1:])
