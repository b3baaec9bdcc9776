"""Tests of fsgen_artifact against driver's stand-in for libcuda: fsgen_artifact_test.py FAKE KERNEL.ptx GRID.

The Go test beside the examples runs it. GRID holds lines of "vocab batch resident ctas" that the manifest's rule in Go gives.
"""

import ctypes
import pathlib
import sys

from fsgen_artifact import Artifact, CudaError, cuda


class Launch(ctypes.Structure):
    """What the fake remembers of a launch."""

    _fields_ = [("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint), ("cluster", ctypes.c_uint * 3),
                ("programmatic", ctypes.c_uint), ("nparams", ctypes.c_uint), ("aligned", ctypes.c_uint), ("entry_len", ctypes.c_uint),
                ("stream", ctypes.c_ulonglong), ("params", ctypes.c_ubyte * 2048)]


def refuses(kind, words, call):
    try:
        call()
    except kind as e:
        assert words in str(e), e
    else:
        raise AssertionError(f"want {kind.__name__}: {words}")


def launch(artifact, function, overlap):
    """Launches with a value of its own for every parameter, and returns those values and what the fake was given."""
    expected, given = [], {}
    for i, p in enumerate(artifact.params):
        if p["kind"] == "tensormap":
            given[p["name"]] = artifact.encode(p["name"], (i + 1) << 20, 7, 64, 72)
            expected.append(bytes(given[p["name"]]))
        elif p["access" if "access" in p else "kind"] == "workspace":
            expected.append(((99 << 20) + (256 if p["name"] == "keys" else 0)).to_bytes(8, "little"))
        else:
            given[p["name"]] = (i + 1) << (20 if p["size"] == 8 else 0)
            expected.append(given[p["name"]].to_bytes(p["size"], "little"))
    artifact.launch(function, 2 * artifact.cluster, 0, artifact.values(99 << 20, **given), overlap)
    last = Launch()
    ctypes.CDLL(sys.argv[1]).fake_last_launch(ctypes.byref(last))
    return b"".join(expected), last


def main(path, grid):
    artifact = Artifact(path)
    assert cuda.cuInit(0) is None
    context = ctypes.c_void_p()
    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    cuda.cuCtxPushCurrent_v2(context)
    function = artifact.load()
    assert artifact.prepare(function) >= 128
    for overlap in (False, True):
        expected, last = launch(artifact, function, overlap)
        assert bytes(last.params)[:len(expected)] == expected
        assert last.nparams == len(artifact.params) and last.aligned == 1
        assert list(last.grid) == [2 * artifact.cluster, 1, 1] and list(last.block) == [artifact.block, 1, 1]
        assert last.shared == artifact.shared and last.programmatic == overlap
        assert last.cluster[0] == (artifact.cluster if artifact.cluster > 1 else 0)
    for line in pathlib.Path(grid).read_text().splitlines():
        vocab, batch, resident, ctas = map(int, line.split())
        assert artifact.grid(vocab, batch, resident) == ctas, line
    refuses(TypeError, "the kernel needs", lambda: artifact.values(99 << 20))
    refuses(CudaError, "cuModuleGetFunction: named symbol not found", lambda: (setattr(artifact, "entry", "nobody"), artifact.load()))
    other = pathlib.Path(path).with_name("other.ptx")
    other.write_bytes(artifact.ptx + b"\n")
    other.with_suffix(".json").write_text(pathlib.Path(path).with_suffix(".json").read_text())
    refuses(ValueError, "is not the PTX that its manifest describes", lambda: Artifact(other))
    if any(p["kind"] == "tensormap" for p in artifact.params):
        refuses(ValueError, "emit the kernel with --tensormap global", lambda: artifact.needs_global_maps("CuPy"))
    else:
        artifact.needs_global_maps("CuPy")


if __name__ == "__main__":
    main(*sys.argv[2:])
