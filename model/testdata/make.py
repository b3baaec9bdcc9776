# Makes the files in this folder with the reference writers: pip install numpy==2.4.6 safetensors==0.8.0 ml_dtypes==0.6.0
import numpy as np, ml_dtypes
from safetensors.numpy import save_file

def npy(name, array, version=None):
    with open(f"npy/{name}.npy", "wb") as f:
        np.lib.format.write_array(f, array, version=version)

ramp = np.arange(6).reshape(2, 3)
for t in "f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8".split():
    npy(f"{t}_little", ramp.astype("<" + t))
    npy(f"{t}_big", ramp.astype(">" + t))
npy("b1", ramp % 2 == 1)
npy("bfloat16", ramp.astype(ml_dtypes.bfloat16))
npy("fortran", np.asfortranarray(ramp.astype("<f4")))
npy("scalar", np.array(1.5, np.float32))
npy("vector", np.arange(5, dtype="<i8"))
npy("empty", np.zeros((0, 3), "<f4"))
npy("version2", ramp.astype("<f4"), (2, 0))
npy("version3", ramp.astype("<f4"), (3, 0))
npy("structured", np.zeros(2, dtype=[("a", "<f4"), ("b", "<i4")]))
npy("three", np.zeros((1, 2, 3), "<f4"))
save_file({
    "bf16": ramp.astype(ml_dtypes.bfloat16), "f16": ramp.astype("<f2"), "f32": ramp.astype("<f4"),
    "f64": ramp.astype("<f8"), "i64": ramp.astype("<i8"), "scalar": np.array(1.5, np.float32), "none": np.zeros((0, 3), "<f4"),
}, "safetensors/reference.safetensors", metadata={"format": "np", "note": "é \"quoted\""})
