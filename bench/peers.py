#!/usr/bin/env python3
"""Times the Python peers of fsgen on the shapes of `fsgen bench`: CUDA graphs of 20 launches, replayed in turn.

    python3 bench/peers.py --model qwen3-8b --vocab 151936 --hidden 4096 --out bench/results/qwen3-8b-h200-peers.json

Peers, each where its package is installed:

    cublas             torch.nn.functional.linear, the logits alone: what links these times to those of fsgen bench
    torch-multinomial  torch.compile of the logits over T, softmax and torch.multinomial
    flashinfer         the logits over T, then flashinfer.sampling.sampling_from_logits

The data has the schema of `fsgen bench --json`, without a floor. What is missing is said on standard error and in the
data. Times of two processes are compared through the peer that both have: time / cublas. --dry-run says what would be
timed, and what is installed for it, without importing any of it.
"""

import argparse
import datetime
import importlib
import importlib.metadata
import importlib.util
import inspect
import json
import statistics
import sys

SCHEMA = 2
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


def optional(name):
    """A module and why it is not there: packages of GPUs fail to import in more ways than by not being installed."""
    try:
        return importlib.import_module(name), None
    except Exception as err:
        return None, err


def installed(module, package):
    """The version of an installed package, without importing it; None if there is none."""
    try:
        if importlib.util.find_spec(module) is None:
            return None
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "of unknown version"
    except (ImportError, ValueError):
        return None


def capture(torch, launch, launches, check=lambda out: None):
    """A graph of launches, after a few that compile, connect and allocate, and whose output check sees."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            out = launch()
    torch.cuda.current_stream().wait_stream(side)
    check(out)
    del out
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(launches):
            launch()
    return graph


# What each peer needs: module and package names.
TORCH, FLASHINFER = ("torch", "torch"), ("flashinfer", "flashinfer-python")
PEERS = {"cublas": [TORCH], "torch-multinomial": [TORCH], "flashinfer": [TORCH, FLASHINFER]}


class Peers:
    """The peers over one head on the current GPU."""

    def __init__(self, torch, args):
        self.torch = torch
        self.args = args
        self.skipped = []
        self.flashinfer = None
        if "flashinfer" in args.peers:
            self.flashinfer, why = optional("flashinfer.sampling")
            if why is not None:
                self.skip("flashinfer", why)
        torch.manual_seed(1)
        torch.set_grad_enabled(False)
        self.weights = torch.empty(args.vocab, args.hidden, dtype=torch.bfloat16, device="cuda")
        self.weights.normal_(0, args.hidden**-0.5)

    def skip(self, contender, why):
        text = "; ".join(str(why).splitlines()[:2]) or type(why).__name__
        print(f"peers: {contender} was skipped: {text}", file=sys.stderr)
        self.skipped.append({"contender": contender, "why": text})

    def functions(self, batch):
        """The peers at a batch size: name, description, and what makes the function that launches it once."""
        torch = self.torch
        linear = torch.nn.functional.linear
        w = self.weights
        h = torch.randn(batch, self.args.hidden, dtype=torch.bfloat16, device="cuda")
        t = 0.7 + 0.2 * (torch.arange(batch, device="cuda") % 5).float().unsqueeze(1)

        def compiled(f):
            # A graph is captured here for every peer alike, so that torch.compile is not to make its own.
            return torch.compile(f, mode="max-autotune-no-cudagraphs", dynamic=False)

        def multinomial():
            f = compiled(lambda h, w, t: torch.multinomial(torch.softmax(linear(h, w).float() / t, dim=-1), 1))
            return lambda: f(h, w, t)

        def gumbel():
            scaled = compiled(lambda h, w, t: linear(h, w).float() / t)
            sample = self.flashinfer.sampling_from_logits
            # A seed of our own where the version takes one: reading the generator's state is not allowed in a capture.
            known = inspect.signature(sample).parameters
            seed = {"seed": 1, "offset": 0} if "seed" in known and "offset" in known else {}
            return lambda: sample(scaled(h, w, t), **seed)

        version = installed(*FLASHINFER)
        return [
            ("cublas", f"torch {torch.__version__}, linear", lambda: lambda: linear(h, w)),
            ("torch-multinomial", f"torch {torch.__version__}, torch.compile, softmax, multinomial", multinomial),
        ] + [("flashinfer", f"flashinfer {version}, sampling_from_logits", gumbel)] * (self.flashinfer is not None)

    def graph(self, launch):
        """Captures launches in a graph; returns what replays it and gives milliseconds."""
        graph = capture(self.torch, launch, self.args.launches, self.check)
        start, end = self.torch.cuda.Event(enable_timing=True), self.torch.cuda.Event(enable_timing=True)

        def replay():
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            return start.elapsed_time(end)

        return replay

    def check(self, out):
        """Tokens lie in the vocabulary; logits are finite."""
        if isinstance(out, (tuple, list)):  # some versions give a status too
            out = out[0]
        if out.is_floating_point():
            ok = bool(self.torch.isfinite(out).all())
        else:
            ok = bool(((out >= 0) & (out < self.args.vocab)).all())
        if not ok:
            raise RuntimeError("the outputs are neither tokens nor finite logits")

    def measure(self, batch):
        # The compiler counts what it made of one function, over all batch sizes, and gives up beyond eight, silently.
        reset = getattr(getattr(self.torch, "compiler", None), "reset", None)
        if reset is not None:
            reset()
        names, contenders = {}, []
        for name, kernel, make in self.functions(batch):
            if name not in self.args.peers:
                continue
            try:
                contenders.append((name, self.graph(make())))
                names[name] = kernel
            except Exception as err:  # one peer that does not work leaves the others
                self.skip(f"{name} at batch {batch}", err)
                self.torch.cuda.synchronize()  # unless it has taken the device along: this raises then
        times = interleave(contenders, self.args.warm_ups, self.args.replays, self.args.launches)
        results = [result(batch, name, names[name], times[name]) for name, _ in contenders]
        contenders.clear()  # and with the graphs their memory
        self.torch.cuda.empty_cache()
        return results


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


def add_arguments(p, batches):
    """The flags that scripts of peers share."""
    p.add_argument("--model", default="", help="a name for the shape")
    p.add_argument("--vocab", type=int, required=True)
    p.add_argument("--hidden", type=int, required=True)
    p.add_argument("--batch", default=batches)
    p.add_argument("--launches", type=int, default=20)
    p.add_argument("--replays", type=int, default=21)
    p.add_argument("--warm-ups", type=int, default=5)
    p.add_argument("--out", default="", help="file for the data, as JSON")
    p.add_argument("--dry-run", action="store_true", help="print the plan; needs neither torch nor a GPU")


def check_arguments(p, args, batches):
    """Refuses what cannot be timed, and reads the batch sizes."""
    if args.replays < 9 or args.replays % 2 == 0:
        p.error("--replays: want an odd number of 9 or more")
    if min(args.vocab, args.hidden, args.launches) < 1 or args.warm_ups < 0:
        p.error("--vocab, --hidden, --launches: want 1 or more; --warm-ups: 0 or more")
    try:
        args.batches = [int(b) for b in args.batch.split(",")]
    except ValueError:
        args.batches = []
    if not args.batches or min(args.batches) < 1 or len(set(args.batches)) < len(args.batches):
        p.error(f"--batch: {args.batch!r}: want numbers from 1, each once, such as {batches}")


def some_of(p, flag, text, known):
    """The names of a list, all of them known."""
    names = text.split(",")
    for name in names:
        if name not in known:
            p.error(f"{flag}: unknown {name!r}: want some of {', '.join(known)}")
    return names


def parse(argv):
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(p, BATCHES)
    p.add_argument("--peers", default=",".join(PEERS), help="which to time, of " + ", ".join(PEERS))
    args = p.parse_args(argv)
    check_arguments(p, args, BATCHES)
    args.peers = some_of(p, "--peers", args.peers, PEERS)
    return args


def dry_run(args):
    """Prints what would be timed, how, and what is there for it."""
    weights = 2 * args.vocab * args.hidden / 1e9
    print(f"{args.model or 'a head'}: V = {args.vocab}, D = {args.hidden}, {weights:.2f} GB of weights in bf16")
    rounds = f"{args.warm_ups} rounds to warm up and {args.replays} that count"
    print(f"batch sizes {', '.join(map(str, args.batches))}: graphs of {args.launches} launches, in turn, {rounds}")
    logits = 4 * max(args.batches) * args.vocab / 1e9
    print(f"{weights + 4 * logits:.1f} GB of device memory or more: the weights, and some logits of {logits:.2f} GB in float32")
    for name in args.peers:
        versions = [(package, installed(module, package)) for module, package in PEERS[name]]
        print(f"{name:<18} " + ", ".join(f"{package} {v or 'is missing'}" for package, v in versions))
    if args.out:
        print(f"data to {args.out}")


def main(argv):
    args = parse(argv)
    if args.dry_run:
        dry_run(args)
        return 0
    torch, why = optional("torch")
    if torch is None:
        print(f"peers: nothing to time: {why}", file=sys.stderr)
        return 3
    if not torch.cuda.is_available():
        print("peers: nothing to time: torch finds no GPU", file=sys.stderr)
        return 3
    peers = Peers(torch, args)
    results = []
    try:
        for batch in args.batches:
            results += peers.measure(batch)
    except Exception as err:  # the device is gone; what has been timed before stands
        peers.skip(f"the rest from batch {batch} on", err)
    if not results:
        print("peers: nothing was timed", file=sys.stderr)
        return 1
    rep = report(args, torch.cuda.get_device_name(), driver_version(), results, peers.skipped)
    if args.out:
        with open(args.out, "w", encoding="ascii") as f:
            json.dump(rep, f)
            f.write("\n")
    table(rep)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
