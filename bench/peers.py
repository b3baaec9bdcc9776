#!/usr/bin/env python3
"""Times the Python peers of fsgen on the shapes of `fsgen bench`: CUDA graphs of 20 launches, replayed in turn.

    python3 bench/peers.py --model qwen3-8b --vocab 151936 --hidden 4096 --out bench/results/qwen3-8b-h200-peers.json

Peers, each where its package is installed:

    cublas             torch.nn.functional.linear, the logits alone: what links these times to those of fsgen bench
    torch-multinomial  torch.compile of the logits over T, softmax and torch.multinomial
    flashinfer         the logits over T, then flashinfer.sampling.sampling_from_logits

The data has the schema of `fsgen bench --json`, without a floor. What is missing is said on standard error and in the
data. Times of two processes are compared through the peer that both have: time / cublas.
"""

import argparse
import datetime
import inspect
import json
import statistics
import sys

SCHEMA = 1
BATCHES = "1,8,16,32,64,128,256"


def quantile(values, q):
    """Linear between the two nearest order statistics, as internal/bench.Quantile."""
    s = sorted(values)
    at = q * (len(s) - 1)
    low = int(at)
    high = min(low + 1, len(s) - 1)
    return s[low] + (at - low) * (s[high] - s[low])


def result(batch, contender, kernel, times_us):
    times = [round(t, 3) for t in times_us]
    return {
        "batch": batch,
        "contender": contender,
        "kernel": kernel,
        "times_us": times,
        "median_us": round(statistics.median(times), 3),
        "p10_us": round(quantile(times, 0.1), 3),
        "p90_us": round(quantile(times, 0.9), 3),
    }


def report(args, device, driver, results, skipped):
    over = {r["batch"]: r["median_us"] for r in results if r["contender"] == "cublas"}
    for r in results:
        if r["batch"] in over:
            r["x_cublas"] = round(r["median_us"] / over[r["batch"]], 4)
    return {
        "schema": SCHEMA,
        "tool": "bench/peers.py",
        "time": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "device": {"name": device, "driver": driver},
        "problem": {
            "model": args.model or f"v{args.vocab}d{args.hidden}",
            "vocab": args.vocab,
            "hidden": args.hidden,
            "transform": "temperature",
            "sampler": "categorical",
        },
        "method": {"launches": args.launches, "replays": args.replays, "warm_ups": args.warm_ups},
        "results": results,
        "skipped": skipped,
    }


def interleave(contenders, warm_ups, replays, launches):
    """Replays all contenders in turn; replay() gives milliseconds. Returns microseconds a launch by contender."""
    times = {name: [] for name, _ in contenders}
    for turn in range(warm_ups + replays):
        for name, replay in contenders:
            ms = replay()
            if turn >= warm_ups:
                times[name].append(1e3 * ms / launches)
    return times


class Peers:
    """The peers over one head on the current GPU."""

    def __init__(self, torch, args):
        self.torch = torch
        self.args = args
        self.skipped = []
        torch.manual_seed(1)
        self.weights = torch.empty(args.vocab, args.hidden, dtype=torch.bfloat16, device="cuda")
        self.weights.normal_(0, args.hidden**-0.5)

    def skip(self, contender, why):
        text = "; ".join(str(why).splitlines()[:2]) or type(why).__name__
        print(f"peers: {contender} was skipped: {text}", file=sys.stderr)
        self.skipped.append({"contender": contender, "why": text})

    def functions(self, batch):
        """The peers at a batch size: name, description, and what launches it once."""
        torch = self.torch
        linear = torch.nn.functional.linear
        w = self.weights
        h = torch.randn(batch, self.args.hidden, dtype=torch.bfloat16, device="cuda")
        t = 0.7 + 0.2 * (torch.arange(batch, device="cuda") % 5).float().unsqueeze(1)

        def multinomial(h, w, t):
            return torch.multinomial(torch.softmax(linear(h, w).float() / t, dim=-1), 1)

        # A graph is captured here for every peer alike, so that torch.compile is not to make its own.
        compiled = torch.compile(multinomial, mode="max-autotune-no-cudagraphs", dynamic=False)
        yield "cublas", f"torch {torch.__version__}, linear", lambda: linear(h, w)
        yield "torch-multinomial", f"torch {torch.__version__}, torch.compile, softmax, multinomial", lambda: compiled(h, w, t)
        try:
            import flashinfer
        except ImportError:
            return
        scaled = torch.compile(lambda h, w, t: linear(h, w).float() / t, mode="max-autotune-no-cudagraphs", dynamic=False)
        sample = flashinfer.sampling.sampling_from_logits
        # A seed of our own where the version takes one: reading the generator's state is not allowed in a capture.
        known = inspect.signature(sample).parameters
        seed = {"seed": 1, "offset": 0} if "seed" in known and "offset" in known else {}
        yield "flashinfer", f"flashinfer {flashinfer.__version__}, sampling_from_logits", lambda: sample(scaled(h, w, t), **seed)

    def graph(self, launch):
        """Captures launches in a graph; returns what replays it and gives milliseconds."""
        torch = self.torch
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # compiles, tunes and allocates before the capture
            for _ in range(3):
                out = launch()
        torch.cuda.current_stream().wait_stream(side)
        self.check(out)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(self.args.launches):
                launch()
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

        def replay():
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            return start.elapsed_time(end)

        return replay

    def check(self, out):
        """Tokens lie in the vocabulary; logits are finite."""
        if out.is_floating_point():
            ok = bool(self.torch.isfinite(out).all())
        else:
            ok = bool(((out >= 0) & (out < self.args.vocab)).all())
        if not ok:
            raise RuntimeError("the outputs are neither tokens nor finite logits")

    def measure(self, batch):
        names, contenders = {}, []
        for name, kernel, launch in self.functions(batch):
            try:
                contenders.append((name, self.graph(launch)))
                names[name] = kernel
            except Exception as err:  # one peer that does not work leaves the others
                self.skip(f"{name} at batch {batch}", err)
        times = interleave(contenders, self.args.warm_ups, self.args.replays, self.args.launches)
        return [result(batch, name, names[name], times[name]) for name, _ in contenders]


def driver_version():
    try:
        with open("/sys/module/nvidia/version", encoding="ascii") as f:
            return "release " + f.read().strip()
    except OSError:
        return "unknown"


def table(rep):
    print("BATCH  CONTENDER          MEDIAN US       P10       P90  X CUBLAS")
    for r in rep["results"]:
        ratio = f"{r['x_cublas']:9.3f}" if "x_cublas" in r else "        -"
        print(f"{r['batch']:<6} {r['contender']:<18} {r['median_us']:9.1f} {r['p10_us']:9.1f} {r['p90_us']:9.1f} {ratio}")


def parse(argv):
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", default="", help="a name for the shape")
    p.add_argument("--vocab", type=int, required=True)
    p.add_argument("--hidden", type=int, required=True)
    p.add_argument("--batch", default=BATCHES)
    p.add_argument("--launches", type=int, default=20)
    p.add_argument("--replays", type=int, default=21)
    p.add_argument("--warm-ups", type=int, default=5)
    p.add_argument("--out", default="", help="file for the data, as JSON")
    args = p.parse_args(argv)
    if args.replays < 9 or args.replays % 2 == 0:
        p.error("--replays: want an odd number of 9 or more")
    args.batches = [int(b) for b in args.batch.split(",")]
    return args


def main(argv):
    args = parse(argv)
    try:
        import torch
    except ImportError as err:
        print(f"peers: nothing to time: {err}", file=sys.stderr)
        return 3
    if not torch.cuda.is_available():
        print("peers: nothing to time: torch finds no GPU", file=sys.stderr)
        return 3
    peers = Peers(torch, args)
    try:
        import flashinfer  # noqa: F401
    except ImportError as err:
        peers.skip("flashinfer", err)
    results = []
    for batch in args.batches:
        results += peers.measure(batch)
    rep = report(args, torch.cuda.get_device_name(), driver_version(), results, peers.skipped)
    if args.out:
        with open(args.out, "w", encoding="ascii") as f:
            json.dump(rep, f)
            f.write("\n")
    table(rep)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
