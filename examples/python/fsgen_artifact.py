"""A kernel of fsgen's, read from its .ptx and .json: what a launch needs, over ctypes and libcuda alone.

The examples beside this file show the same kernel in CuPy, cuda.core and PyTorch. They share what is not theirs: the checks of the
manifest, tensor maps, the grid's rule, and the order of the parameters.
"""

import ctypes
import hashlib
import json
import os
import pathlib

SCHEMA = 1  # of manifests

# Numbers of the CUDA driver API (cuda.h).
MAX_DYNAMIC_SHARED, NON_PORTABLE_CLUSTER = 8, 14  # CUfunction_attribute
MULTIPROCESSORS = 16  # CUdevice_attribute
CLUSTER, PROGRAMMATIC = 4, 6  # CUlaunchAttributeID
BFLOAT16, SWIZZLES, PROMOTIONS = 9, {0: 0, 32: 1, 64: 2, 128: 3}, {0: 0, 64: 1, 128: 2, 256: 3}

KEYS_OFFSET = 256  # where a workspace has its keys; the ticket is ahead of them


class CudaError(RuntimeError):
    """An error of the CUDA driver."""


class _Dim3(ctypes.Structure):
    _fields_ = [("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint)]


class _Attribute(ctypes.Structure):  # CUlaunchAttribute
    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_uint * 16)]


class _Config(ctypes.Structure):  # CUlaunchConfig
    _fields_ = [("grid", _Dim3), ("block", _Dim3), ("shared", ctypes.c_uint), ("stream", ctypes.c_void_p),
                ("attributes", ctypes.POINTER(_Attribute)), ("count", ctypes.c_uint)]


class _Libcuda:
    """libcuda, loaded when it is first asked for."""

    def __getattr__(self, name):
        library = ctypes.CDLL(os.environ.get("FSGEN_CUDA_LIB") or "libcuda.so.1")
        function = getattr(library, name)

        def call(*args):
            code = function(*args)
            if code:
                text = ctypes.c_char_p()
                library.cuGetErrorString(code, ctypes.byref(text))
                raise CudaError(f"{name}: {(text.value or b'unknown error').decode()} ({code})")

        setattr(self, name, call)
        return call


cuda = _Libcuda()


class TensorMap:
    """128 bytes that cuTensorMapEncodeTiled has filled in, where it wants them: Python's own objects lie at multiples of 16."""

    def __init__(self):
        self._room = ctypes.create_string_buffer(256)
        self.address = (ctypes.addressof(self._room) + 127) & ~127

    def __bytes__(self):
        return ctypes.string_at(self.address, 128)


class Artifact:
    """A kernel and its manifest, as fsgen emit wrote them."""

    def __init__(self, ptx_path):
        path = pathlib.Path(ptx_path)
        self.ptx = path.read_bytes()
        self.path = path
        self.manifest = json.loads(path.with_suffix(".json").read_text())
        if self.manifest["schema"] != SCHEMA:
            raise ValueError(f"{path}: the manifest has schema {self.manifest['schema']}, this reads {SCHEMA}")
        if hashlib.sha256(self.ptx).hexdigest() != self.manifest["ptx_sha256"]:
            raise ValueError(f"{path} is not the PTX that its manifest describes")
        launch = self.manifest["launch"]
        self.entry, self.params = self.manifest["entry"], self.manifest["params"]
        self.block, self.cluster, self.shared = launch["block"][0], launch["cluster"][0], launch["shared_bytes"]
        self.programmatic = launch.get("programmatic", False)
        if self.manifest["tile"]["weights"] != "rowmajor":
            raise ValueError(f"{path}: the examples have row-major weights, the kernel wants {self.manifest['tile']['weights']}")

    def needs_global_maps(self, who):
        """Says how to get a kernel for a launcher that passes no parameter of 128 bytes."""
        if any(p["kind"] == "tensormap" for p in self.params):
            raise ValueError(f"{who} passes pointers and numbers: emit the kernel with --tensormap global")

    def encode(self, param, address, rows, cols, ld):
        """The tensor map of a bf16 matrix [rows, cols] at a device address, rows ld elements apart."""
        how = next(p for p in self.params if p["name"] == param)["map"]
        out = TensorMap()
        u64, u32 = ctypes.c_uint64, ctypes.c_uint32
        cuda.cuTensorMapEncodeTiled(
            ctypes.c_void_p(out.address), BFLOAT16, 2, ctypes.c_void_p(address), (u64 * 2)(cols, rows), (u64 * 1)(2 * ld),
            (u32 * 2)(*how["box"]), (u32 * 2)(1, 1), 0, SWIZZLES[how["swizzle"]], PROMOTIONS[how["l2_promotion"]], 0)
        return out

    def workspace_bytes(self, batch):
        """Memory that is zeroed once; every launch leaves it zero."""
        return KEYS_OFFSET + 8 * batch

    def grid(self, vocab, batch, resident):
        """CTAs for a problem, of which `resident` fit on the device at once: all, or as many as there are tiles."""
        rule = self.manifest["launch"]["grid"]
        down, across = rule["tile_m"] * rule["cluster"], rule["tile_n"]
        if rule.get("split"):
            down, across = rule["tile_m"], rule["tile_n"] * rule["cluster"]
        tiles = -(-vocab // down) * -(-batch // across)
        return min(resident // rule["cluster"], tiles) * rule["cluster"]

    def values(self, workspace, **given):
        """The values of the parameters in the kernel's order: TensorMap, or int. What is not given has to be a number, and is 0."""
        given.update(ticket=workspace, keys=workspace + KEYS_OFFSET)
        out = []
        for p in self.params:
            if p["name"] not in given and p["kind"] != "scalar":
                raise TypeError(f"the kernel needs {p['name']}: {p.get('shape', p['kind'])}")
            out.append(given.pop(p["name"], 0))
        return out

    # What follows launches by libcuda itself. The current context is the caller's.

    def prepare(self, function):
        """Allows a CUfunction its shared memory and cluster, and returns how many of its CTAs fit on the current device."""
        function = ctypes.c_void_p(int(function))
        cuda.cuFuncSetAttribute(function, MAX_DYNAMIC_SHARED, self.shared)
        if self.cluster > 8:
            cuda.cuFuncSetAttribute(function, NON_PORTABLE_CLUSTER, 1)
        device, sms, fit = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        cuda.cuCtxGetDevice(ctypes.byref(device))
        cuda.cuDeviceGetAttribute(ctypes.byref(sms), MULTIPROCESSORS, device)
        if self.cluster == 1:
            cuda.cuOccupancyMaxActiveBlocksPerMultiprocessor(ctypes.byref(fit), function, self.block, ctypes.c_size_t(self.shared))
            return fit.value * sms.value
        config = self._config(sms.value // self.cluster * self.cluster, 0, False)
        cuda.cuOccupancyMaxActiveClusters(ctypes.byref(fit), function, ctypes.byref(config))
        return fit.value * self.cluster

    def load(self):
        """Compiles the PTX into the current context: a CUfunction as an integer."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        cuda.cuModuleLoadDataEx(ctypes.byref(module), ctypes.c_char_p(self.ptx), 0, None, None)
        cuda.cuModuleGetFunction(ctypes.byref(function), module, self.entry.encode())
        return function.value

    def launch(self, function, ctas, stream, values, overlap=False):
        """Enqueues a launch on a stream (an integer). With overlap it may begin while the kernel ahead of it ends, which must not
        write the weights."""
        holders, pointers = [], (ctypes.c_void_p * len(values))()
        for i, (p, v) in enumerate(zip(self.params, values, strict=True)):
            if p["kind"] == "tensormap":
                pointers[i] = v.address
                continue
            holders.append(ctypes.c_uint32(v) if p["kind"] == "scalar" else ctypes.c_uint64(v))
            pointers[i] = ctypes.addressof(holders[-1])
        config = self._config(ctas, stream, overlap and self.programmatic)
        cuda.cuLaunchKernelEx(ctypes.byref(config), ctypes.c_void_p(function), pointers, None)

    def _config(self, ctas, stream, overlap):
        attributes = (_Attribute * 2)()
        n = 0
        if self.cluster > 1:
            attributes[n].id, attributes[n].value[:3], n = CLUSTER, (self.cluster, 1, 1), n + 1
        if overlap:
            attributes[n].id, attributes[n].value[0], n = PROGRAMMATIC, 1, n + 1
        config = _Config(_Dim3(ctas, 1, 1), _Dim3(self.block, 1, 1), self.shared, stream, attributes, n)
        config.keep = attributes  # as long as the configuration
        return config


def read_inputs(directory):
    """The problem that `go run ./examples/inputs DIR` writes, as NumPy arrays: bf16 by its bits."""
    import numpy

    directory = pathlib.Path(directory)
    vocab, hidden, batch = map(int, (directory / "shape.txt").read_text().split())
    return {
        "vocab": vocab, "hidden_size": hidden, "batch": batch,
        "weights": numpy.fromfile(directory / "weights.bin", "<u2").reshape(vocab, hidden),
        "hidden": numpy.fromfile(directory / "hidden.bin", "<u2").reshape(batch, hidden),
        "seeds": numpy.load(directory / "seed.npy"), "positions": numpy.load(directory / "position.npy"),
        "temperature": numpy.load(directory / "temperature.npy"),
    }


def print_result(artifact, tokens, status):
    """What every example prints: one JSON object."""
    print(json.dumps({"kernel": artifact.entry, "tokens": [int(t) for t in tokens], "status": [int(s) for s in status]}))
