#!/usr/bin/env python3
"""Troupe's mirrored strategy beside PyTorch DDP with Gloo, on two CPU cores.

    ddp.py [--python INTERPRETER]... [--rounds 3] [--steps 310] [--json FILE]

Both sides train the same MLP with SGD on batches of 512: Troupe on two CPU
devices of one thread, PyTorch in two processes of one thread, 256 samples
each, over loopback. The runs alternate; a side's figure is the median of its
runs. A run's figure is samples over wall time from the start of step 11 to
the end of the last step, as CLI's samples_per_second: gathering the batch,
reduction and update included.

Nothing is printed for a run that did not train: the loss must fall, Troupe's
weights must be the same in every run, and the peer's in both processes.

Each --python is a peer (default: TROUPE_PEER_PYTHON, several separated by
colons, or python3). Status 77 where none of them has a usable PyTorch.
On Debian: apt-get install --no-install-recommends python3-torch \\
    libopenblas0-pthread    (without the latter it runs the reference BLAS)
"""

import argparse
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORKER = Path(__file__).resolve().with_name("torch_ddp_worker.py")
MODEL = "784-512-256-10"
SAMPLES = 60000
BATCH = 512
WARM_UP = 10  # as samples_per_second leaves out
RATE = 0.1
BAR = 1.5
DEADLINE_S = 300
# One thread each. OpenBLAS does not know every AVX-512 machine and falls back
# to a kernel of a quarter of the speed: SkylakeX is its best one there.
PEER_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo",
    "CUDA_VISIBLE_DEVICES": ""}
SKIP = 77


class Unusable(Exception):
    """A peer that cannot be measured here, and why."""


class Wrong(Exception):
    """A run whose result is not what training gives."""


def peer_environment():
    environment = {**os.environ, **PEER_ENVIRONMENT}
    if "avx512f" in Path("/proc/cpuinfo").read_text():
        environment.setdefault("OPENBLAS_CORETYPE", "SkylakeX")
    return environment


# --- the two sides ------------------------------------------------------------

class Troupe:
    def __init__(self, program, steps):
        self.name = "troupe"
        self.runs = []
        self.sha256 = None
        self.summary = {}
        epochs = steps // (SAMPLES // BATCH) + 1
        self.command = [
            str(program), "train", "--strategy", "mirrored",
            "--devices", "cpu:2", "--threads-per-device", "1",
            "--model", f"mlp:{MODEL}", "--virtual-ranks", "2",
            "--global-batch", str(BATCH), "--optimizer", "sgd",
            "--lr", str(RATE), "--data", "synthetic:digits",
            "--epochs", str(epochs), "--steps", str(steps), "--quiet"]
        self.steps = steps

    def run(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "summary.json")
            done = subprocess.run([*self.command, "--summary", path],
                                  capture_output=True, text=True,
                                  timeout=DEADLINE_S)
            if done.returncode:
                raise Wrong(f"troupe: status {done.returncode}: "
                            f"{done.stderr.strip()}")
            self.summary = json.loads(Path(path).read_text())
        if self.summary["steps"] != self.steps:
            raise Wrong(f"troupe: {self.summary['steps']} steps, "
                        f"not {self.steps}")
        check_loss("troupe", self.summary["final_loss"])
        self.sha256 = self.sha256 or self.summary["weights_sha256"]
        if self.summary["weights_sha256"] != self.sha256:
            raise Wrong("troupe: the same seed gave other weights")
        self.runs.append(self.summary["samples_per_second"])

    def describe(self):
        return (f"troupe {self.summary['version']}, {self.summary['isa']}, "
                f"{self.summary['libraries']}")


class Torch:
    def __init__(self, python, steps, model=MODEL):
        self.python = python
        self.steps = steps
        self.model = model
        self.mnist = None  # a folder: its samples instead of made-up ones
        self.runs = []
        try:
            done = subprocess.run([python, str(WORKER), "--probe"],
                                  capture_output=True, text=True,
                                  env=peer_environment(), timeout=DEADLINE_S)
        except OSError as error:
            raise Unusable(f"{python}: {error.strerror}") from error
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["no message"]
            raise Unusable(f"{python}: {lines[-1]}")
        self.probe = json.loads(done.stdout.splitlines()[-1])
        self.name = f"torch {self.probe['version']}"
        if not self.probe["gloo"]:
            raise Unusable(f"{python}: {self.name} has no Gloo")
        if "blas/libblas" in self.probe["blas"].split():
            raise Unusable(f"{python}: {self.name} runs the reference BLAS, "
                           "no fair peer: install libopenblas0-pthread")

    def launch(self, world, batch):
        """The workers' lines of one run, by rank."""
        with tempfile.TemporaryDirectory() as folder:
            workers = [subprocess.Popen(
                [self.python, str(WORKER), "--rank", str(rank),
                 "--world", str(world), "--model", self.model,
                 "--rendezvous", os.path.join(folder, "rendezvous"),
                 "--samples", str(SAMPLES), "--batch", str(batch),
                 "--steps", str(self.steps), "--warm-up", str(WARM_UP),
                 "--rate", str(RATE),
                 *(["--mnist", str(self.mnist)] if self.mnist else [])],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                env=peer_environment()) for rank in range(world)]
            lines = answers_of(workers, self.name)
        for line in lines:
            check_loss(self.name, line["final_loss"], line["first_loss"])
            if line["digest"] != lines[0]["digest"]:
                raise Wrong(f"{self.name}: the processes' weights differ")
        # One clock for all processes of a machine (CLOCK_MONOTONIC).
        seconds = (max(line["ended"] for line in lines)
                   - min(line["began"] for line in lines))
        return (self.steps - WARM_UP) * world * batch / seconds

    def run(self):
        self.runs.append(self.launch(2, BATCH // 2))

    def describe(self):
        probe = self.probe
        return (f"{self.name}, Python {probe['python']}, BLAS {probe['blas']} "
                f"({probe['gflops']:.0f} GFLOP/s on one core), "
                f"{probe['capability']} kernels, "
                f"{'fused' if probe['fused_sgd'] else 'plain'} SGD, numpy "
                + ("loaded by torch, not used" if probe["numpy"] else "absent"))


def check_loss(name, final, first=math.log(10)):
    """Training ten classes starts near ln 10, and must get below."""
    if not (math.isfinite(final) and final < min(first, math.log(10))):
        raise Wrong(f"{name}: the loss did not fall: {final}")


# --- the machine --------------------------------------------------------------

def busy_seconds():
    """CPU seconds that anyone used since boot, this process's too."""
    with open("/proc/stat") as file:
        ticks = [int(word) for word in file.readline().split()[1:]]
    idle = ticks[3] + ticks[4]
    return (sum(ticks[:8]) - idle) / os.sysconf("SC_CLK_TCK")


def own_seconds():
    return sum(usage.ru_utime + usage.ru_stime for usage in
               (resource.getrusage(resource.RUSAGE_CHILDREN),
                resource.getrusage(resource.RUSAGE_SELF)))


class Others:
    """The share of the machine that others took while a run lasted. `ours`:
    seconds that processes of this run took which do not end with it."""

    def __enter__(self):
        self.ours = 0.0
        self.start = (time.monotonic(), busy_seconds() - own_seconds())
        return self

    def __exit__(self, *_):
        wall = time.monotonic() - self.start[0]
        used = busy_seconds() - own_seconds() - self.start[1] - self.ours
        self.share = max(0.0, used / wall / os.cpu_count())


def wait_for_quiet(seconds):
    """Waits until others leave the machine alone for two seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with Others() as others:
            time.sleep(2)
        if others.share < 0.05:
            return
    if seconds:
        print("note: the machine did not become quiet", file=sys.stderr)


def answers_of(workers, name, deadline_s=DEADLINE_S):
    """The last line of each process, which none outlives."""
    lines = []
    try:
        for worker in workers:
            output, error = worker.communicate(timeout=deadline_s)
            if worker.returncode == SKIP:
                raise Unusable(error.strip().splitlines()[-1])
            if worker.returncode:
                raise Wrong(f"{name}: status {worker.returncode}: "
                            f"{error.strip()[-400:]}")
            lines.append(json.loads(output.splitlines()[-1]))
    finally:
        for worker in workers:
            if worker.poll() is None:
                worker.kill()
                worker.wait()
    return lines


def find_program(*files):
    """None, and what is missing is said, where it or a file is not there."""
    program = Path(os.environ.get("TROUPE",
                                  ROOT / "build/release/apps/troupe"))
    for path in (program, *files):
        if not path.exists():
            print(f"{path} is missing", file=sys.stderr)
            return None
    return program


def machine():
    model = next((line.split(":", 1)[1].strip() for line in
                  Path("/proc/cpuinfo").read_text().splitlines()
                  if line.startswith("model name")), "unknown processor")
    return f"{model}, {os.cpu_count()} cores"


# --- the figures --------------------------------------------------------------

def megaflop_a_sample(model=MODEL):
    """Forward, weights' gradients and, but for the first layer, inputs'."""
    widths = [int(width) for width in model.split("-")]
    products = [a * b for a, b in zip(widths, widths[1:])]
    return (6 * sum(products) - 2 * products[0]) / 1e6


def parameter_bytes(model=MODEL):
    widths = [int(width) for width in model.split("-")]
    return 4 * sum((a + 1) * b for a, b in zip(widths, widths[1:]))


def spread(runs):
    return (max(runs) - min(runs)) / statistics.median(runs)


def report(ours, peers, limit):
    for side in (ours, *peers):
        print(side.describe())
    print(f"MLP {MODEL}, SGD, batch {BATCH} = 2 x {BATCH // 2}, {ours.steps} "
          f"steps, the first {WARM_UP} not counted; samples/s; losses and "
          "weights checked")
    print(f"{'':<19}{'median':>9}{'spread':>8}{'of limit':>10}{'ratio':>8}"
          "   runs")
    for side in (ours, *peers):
        median = statistics.median(side.runs)
        ratio = ("" if side is ours else
                 f"{statistics.median(ours.runs) / median:.2f}")
        print(f"{side.name:<19}{median:>9.0f}{spread(side.runs):>8.1%}"
              f"{median / limit:>10.0%}{ratio:>8}   "
              + " ".join(f"{run:.0f}" for run in side.runs))
    print(f"limit: {limit:.0f} samples/s, the best GEMM of the peers' BLAS on "
          f"two cores at {megaflop_a_sample():.2f} MFLOP a sample")
    for peer in peers:
        ratio = statistics.median(ours.runs) / statistics.median(peer.runs)
        print(f"{ratio:.2f} x {peer.name}: the bar of {BAR} is "
              f"{'met' if ratio >= BAR else 'missed'}")


def rows(ours, peers, limit):
    rate = statistics.median(ours.runs)
    return [{"name": f"mirrored mlp:{MODEL}", "members": 2,
             "bytes": parameter_bytes(), "ours_us": BATCH / rate * 1e6,
             "spread": spread(ours.runs), "peer": "PyTorch DDP, Gloo",
             "peer_version": peer.probe["version"],
             "peer_us": BATCH / statistics.median(peer.runs) * 1e6,
             "ratio": rate / statistics.median(peer.runs),
             "limit_share": rate / limit} for peer in peers]


def measure(arguments, ours, peers):
    for number in range(1, arguments.rounds + 1):
        for side in (ours, *peers):
            wait_for_quiet(arguments.wait)
            with Others() as others:
                side.run()
            print(f"round {number}: {side.name:<19}{side.runs[-1]:>9.0f} "
                  f"samples/s, others took {others.share:.0%} of the machine")
    # For the record only: PyTorch in one process, without DDP.
    for peer in peers if arguments.alone else ():
        for batch in (64, 256):
            runs = [peer.launch(1, batch) for _ in range(arguments.rounds)]
            print(f"alone: {peer.name}, one process, batch {batch}: "
                  f"{statistics.median(runs):.0f} samples/s ("
                  + " ".join(f"{run:.0f}" for run in runs) + ")")


def known_pythons():
    return os.environ.get("TROUPE_PEER_PYTHON", "python3").split(":")


def flags(description, *more, pythons="one"):
    """A parser of what scripts beside take in common; more: "steps-percent",
    "wait"."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawTextHelpFormatter)
    how = ({"action": "append"} if pythons == "several"
           else {"default": known_pythons()[0]})
    parser.add_argument("--python", metavar="INTERPRETER", **how)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, metavar="FILE")
    if "steps-percent" in more:
        parser.add_argument("--steps-percent", type=int, default=100,
                            help="of each case's steps (100)")
    if "wait" in more:
        parser.add_argument("--wait", type=float, default=0, metavar="SECONDS",
                            help="before each run, for a quiet machine (0)")
    return parser


def parse():
    parser = flags(__doc__, "wait", pythons="several")
    parser.add_argument("--steps", type=int, default=310,
                        help="of each run, the first 10 not counted (310)")
    parser.add_argument("--alone", action="store_true",
                        help="also PyTorch in one process, batch 64 and 256")
    arguments = parser.parse_args()
    if arguments.steps <= WARM_UP or arguments.rounds < 1:
        parser.error(f"more than {WARM_UP} steps and 1 round are needed")
    arguments.python = arguments.python or known_pythons()
    return arguments


def main():
    arguments = parse()
    program = Path(os.environ.get("TROUPE",
                                  ROOT / "build/release/apps/troupe"))
    if not program.exists():
        print(f"{program} is missing: build it, or set TROUPE",
              file=sys.stderr)
        return 1
    peers = []
    for python in arguments.python:
        try:
            peers.append(Torch(python, arguments.steps))
        except Unusable as reason:
            print(f"skipped: {reason}")
    if not peers:
        print("skipped: no PyTorch to compare with; on Debian: apt-get "
              "install --no-install-recommends python3-torch "
              "libopenblas0-pthread")
        return SKIP
    ours = Troupe(program, arguments.steps)
    limit = (2e3 * max(peer.probe["gflops"] for peer in peers)
             / megaflop_a_sample())
    print(f"{machine()}, load {os.getloadavg()[0]:.2f}", flush=True)
    try:
        measure(arguments, ours, peers)
    except Wrong as reason:
        print(f"nothing is measured: {reason}", file=sys.stderr)
        return 1
    report(ours, peers, limit)
    if arguments.json:
        arguments.json.write_text(
            json.dumps(rows(ours, peers, limit), indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
