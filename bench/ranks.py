#!/usr/bin/env python3
"""Times what tensor-parallel engines do without fsgen: each rank multiplies with its shard of the head, NCCL gathers the logits on
every rank, and a sampler takes the token. CUDA graphs of 20 launches, replayed in turn by all ranks.

    python3 bench/ranks.py --world 2 --model llama3-70b --vocab 128256 --hidden 8192 --out ranks.json

Contenders, all of torch:

    shard              torch.nn.functional.linear of the rank's shard, its logits alone
    gather             the same, then all_gather_into_tensor
    gather-gumbel      the same, then torch.compile of the logits over T plus Gumbel noise, and the argmax, on every rank
    flashinfer         gather, then flashinfer.sampling.sampling_from_logits, where it is installed

Ranks are processes, one a GPU. Times are of the slowest rank: each replay begins behind a barrier. The data has the schema of
`fsgen bench --json`, without a floor. --dry-run says what would be timed, without importing any of it.
"""

import argparse
import json
import os
import statistics
import sys

import peers

BATCHES = "16,64,256"
CONTENDERS = ["shard", "gather", "gather-gumbel", "flashinfer"]


class Rank:
    """One rank's shard and what is timed on it."""

    def __init__(self, torch, dist, args, rank):
        self.torch, self.dist, self.args, self.rank = torch, dist, args, rank
        torch.cuda.set_device(rank)
        torch.manual_seed(1 + rank)
        torch.set_grad_enabled(False)
        self.rows = -(-args.vocab // args.world)  # the last rank's shard is padded: a gather takes equal parts
        self.weights = torch.empty(self.rows, args.hidden, dtype=torch.bfloat16, device="cuda")
        self.weights.normal_(0, args.hidden**-0.5)
        self.flashinfer, self.missing = peers.optional("flashinfer.sampling")

    def functions(self, batch):
        """Contenders at a batch size: name and the function that launches it once."""
        torch, linear = self.torch, self.torch.nn.functional.linear
        h = torch.randn(batch, self.args.hidden, dtype=torch.bfloat16, device="cuda")
        self.dist.broadcast(h, 0)
        t = 0.7 + 0.2 * (torch.arange(batch, device="cuda") % 5).float().unsqueeze(1)
        every = torch.empty(self.args.world, batch, self.rows, dtype=torch.bfloat16, device="cuda")

        def gather():
            self.dist.all_gather_into_tensor(every, linear(h, self.weights))
            return every.transpose(0, 1).reshape(batch, -1)[:, : self.args.vocab]

        def gumbel(logits):
            noise = -torch.empty_like(logits, dtype=torch.float32).exponential_().log()
            return (logits.float() / t + noise).argmax(-1)

        sample = torch.compile(gumbel, mode="max-autotune-no-cudagraphs", dynamic=False)
        out = {
            "shard": lambda: linear(h, self.weights),
            "gather": gather,
            "gather-gumbel": lambda: sample(gather()),
        }
        if self.flashinfer is not None:
            out["flashinfer"] = lambda: self.flashinfer.sampling_from_logits(gather().float() / t)
        return [(name, out[name]) for name in self.args.contenders if name in out]

    def graph(self, launch):
        """Captures launches; returns what replays them on all ranks at once and gives the slowest rank's milliseconds."""
        torch = self.torch
        graph = peers.capture(torch, launch, self.args.launches)
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        slowest = torch.zeros(1, device="cuda")

        def replay():
            torch.cuda.synchronize()
            self.dist.barrier()
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            slowest.fill_(start.elapsed_time(end))
            self.dist.all_reduce(slowest, op=self.dist.ReduceOp.MAX)
            return slowest.item()

        return replay

    def measure(self, batch):
        self.torch.compiler.reset()
        contenders = [(name, self.graph(launch)) for name, launch in self.functions(batch)]
        times = peers.interleave(contenders, self.args.warm_ups, self.args.replays, self.args.launches)
        kernel = f"torch {self.torch.__version__}, {self.args.world} ranks"
        return [peers.result(batch, name, kernel, times[name]) for name, _ in contenders]


def run(rank, args, results):
    import torch
    import torch.distributed as dist

    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", str(args.port))
    os.environ["NCCL_NVLS_ENABLE"] = "0"  # no multicast objects
    dist.init_process_group("nccl", rank=rank, world_size=args.world)
    try:
        r = Rank(torch, dist, args, rank)
        skipped = [{"contender": "flashinfer", "why": str(r.missing)}] if r.missing else []
        rows = [row for batch in args.batches for row in r.measure(batch)]
        if rank == 0:
            results.put((rows, torch.cuda.get_device_name(), skipped))
    finally:
        dist.destroy_process_group()


def table(rows):
    print("BATCH  CONTENDER          MEDIAN US       P10       P90  X SHARD")
    shard = {r["batch"]: statistics.median(r["times_us"]) for r in rows if r["contender"] == "shard"}
    for r in rows:
        ratio = f"{r['median_us'] / shard[r['batch']]:8.3f}" if r["batch"] in shard else "       -"
        print(f"{r['batch']:<6} {r['contender']:<18} {r['median_us']:9.1f} {r['p10_us']:9.1f} {r['p90_us']:9.1f} {ratio}")


def parse(argv):
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--world", type=int, required=True, help="ranks, one a GPU")
    peers.add_arguments(p, BATCHES)
    p.add_argument("--port", type=int, default=29517, help="on which the ranks meet, on this host")
    p.add_argument("--contenders", default=",".join(CONTENDERS), help="which to time, of " + ", ".join(CONTENDERS))
    args = p.parse_args(argv)
    peers.check_arguments(p, args, BATCHES)
    if args.world < 1:
        p.error("--world: want 1 or more")
    args.contenders = peers.some_of(p, "--contenders", args.contenders, CONTENDERS)
    return args


def dry_run(args):
    shard = -(-args.vocab // args.world)
    print(f"{args.model or 'a head'}: V = {args.vocab}, D = {args.hidden}; {args.world} ranks of {shard} ids, {2 * shard * args.hidden / 1e9:.2f} GB each")
    print(f"batch sizes {', '.join(map(str, args.batches))}: graphs of {args.launches} launches, {args.warm_ups} + {args.replays} replays in turn")
    for b in args.batches:
        print(f"batch {b}: {2 * b * shard * (args.world - 1) / 1e6:.2f} MB of logits come to each rank; fsgen's keys are {8 * b * (args.world - 1)} bytes")
    print(f"contenders {', '.join(args.contenders)}")


def main(argv):
    args = parse(argv)
    if args.dry_run:
        dry_run(args)
        return 0
    torch, why = peers.optional("torch")
    if torch is None or not torch.cuda.is_available() or torch.cuda.device_count() < args.world:
        found = why or f"torch finds {torch.cuda.device_count()} GPUs for {args.world} ranks"
        print(f"ranks: nothing to time: {found}", file=sys.stderr)
        return 3
    import torch.multiprocessing as processes

    results = processes.get_context("spawn").SimpleQueue()
    processes.spawn(run, args=(args, results), nprocs=args.world, join=True)
    rows, device, skipped = results.get()
    if args.out:
        with open(args.out, "w", encoding="ascii") as f:
            json.dump(peers.report(args, device, peers.driver_version(), rows, skipped), f)
            f.write("\n")
    table(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
