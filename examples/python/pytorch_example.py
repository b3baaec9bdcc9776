"""Samples with a kernel of fsgen's from PyTorch: its tensors, its stream, no copy.

    fsgen emit --arch sm_90 --vocab 5000 --hidden 264 --batch 5 -o kernels
    go run ./examples/inputs inputs
    python3 examples/python/pytorch_example.py kernels/NAME.ptx inputs

PyTorch loads no PTX itself, so the kernel is loaded and launched by libcuda; both work in the primary context. Kernels with
tensor maps by value and with pointers to them will do.
"""

import sys

import torch

from fsgen_artifact import Artifact, print_result, read_inputs


def main(kernel, directory):
    artifact, given = Artifact(kernel), read_inputs(directory)
    torch.cuda.init()
    torch.zeros(1, device="cuda")  # makes PyTorch's context, the primary one, current
    function = artifact.load()
    resident = artifact.prepare(function)

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        def tensor(name, dtype):
            return torch.from_numpy(given[name].view(dtype)).cuda()

        weights = tensor("weights", "int16").view(torch.bfloat16)
        hidden = tensor("hidden", "int16").view(torch.bfloat16)
        seeds, positions, temperature = tensor("seeds", "int64"), tensor("positions", "int64"), tensor("temperature", "float32")
        batch, vocab = hidden.shape[0], weights.shape[0]
        tokens = torch.empty(batch, dtype=torch.int32, device="cuda")
        status = torch.empty_like(tokens)
        workspace = torch.zeros(artifact.workspace_bytes(batch), dtype=torch.uint8, device="cuda")

        maps = {}
        for name, matrix in (("weights", weights), ("hidden", hidden)):
            maps[name] = artifact.encode(name, matrix.data_ptr(), matrix.shape[0], matrix.shape[1], matrix.stride(0))
        if any(p["kind"] == "tensormap_pointer" for p in artifact.params):
            in_memory = {name: torch.frombuffer(bytearray(bytes(m)), dtype=torch.uint8).cuda() for name, m in maps.items()}
            maps = {name: m.data_ptr() for name, m in in_memory.items()}

        values = artifact.values(
            workspace.data_ptr(), **maps, vocab=vocab, hidden_size=weights.shape[1], batch=batch,
            seeds=seeds.data_ptr(), seed_stride=1, positions=positions.data_ptr(), position_stride=1,
            temperature=temperature.data_ptr(), temperature_stride=1, tokens=tokens.data_ptr(), status=status.data_ptr())
        artifact.launch(function, artifact.grid(vocab, batch, resident), stream.cuda_stream, values)
        artifact.launch(function, artifact.grid(vocab, batch, resident), stream.cuda_stream, values, overlap=True)  # the same tokens
    stream.synchronize()
    print_result(artifact, tokens.cpu(), status.cpu())


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: pytorch_example.py KERNEL.ptx INPUTS")
    main(*sys.argv[1:])
