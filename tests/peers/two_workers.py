#!/usr/bin/env python3
"""Troupe's two-worker strategies beside PyTorch DDP with Gloo.

    two_workers.py [--python INTERPRETER] [--rounds 3] [--steps-percent 100]
                   [--case NAME]... [--json FILE]

Two workers of one thread on both sides: Troupe as mirrored (two devices of
one process) and as multi_worker_mirrored (two processes), PyTorch in two
processes over loopback. Models and batches as in CASES; SGD; the runs
alternate, a side's figure is the median of its runs. A run's figure is
samples over wall time from the start of step 11 to the end of the last step.

The bars are for reproducible sums with one virtual rank a worker (V = 2).
Beside it: V = 8, --reduction fast, and one device with the same job, for the
scaling from one to two devices. What this build refuses is said and left out.

Nothing is printed for a run that did not train: the loss must fall, weights of
equal jobs must be equal whatever the strategy, and the peer's in both
processes. Status 77 where there is no usable PyTorch.
"""

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import ddp


@dataclass
class Case:
    name: str
    model: str
    per_worker: int
    steps: int
    mirrored: float         # bars: times the peer's samples/s
    multi_worker: float
    wide: bool = False      # the bars of V = 8 and of scaling hold

    @property
    def batch(self):
        return 2 * self.per_worker


CASES = [
    Case("small 64", "784-512-256-10", 64, 610, 4.0, 3.0),
    Case("small 256", "784-512-256-10", 256, 310, 1.9, 1.6),
    Case("wide 256", "784-2048-2048-10", 256, 60, 1.5, 1.4, True),
]
EIGHT_BAR = 1.3             # step time of V = 8 over that of V = 2
SCALING_BAR = 1.85          # samples/s of two devices over one

MIRRORED = ["--strategy", "mirrored", "--devices", "cpu:2"]
PROCESSES = ["--strategy", "multi_worker_mirrored", "--workers", "2",
             "--processes"]
ONE = ["--strategy", "one_device", "--devices", "cpu:1"]
FAST = ["--reduction", "fast"]


class Refused(Exception):
    """What this build does not have yet."""


class Troupe:
    """One way to run a case's job."""

    def __init__(self, name, program, case, ranks, flags, mnist):
        self.name = name
        self.runs = []
        self.case = case
        self.ranks = ranks
        self.reproducible = "fast" not in flags
        self.sha256 = None
        self.command = [
            str(program), "train", *flags, "--threads-per-device", "1",
            "--model", f"mlp:{case.model}", "--virtual-ranks", str(ranks),
            "--global-batch", str(case.batch), "--optimizer", "sgd",
            "--lr", str(ddp.RATE), "--data",
            f"mnist:{mnist}" if mnist else "synthetic:digits",
            "--steps", str(case.steps), "--quiet"]

    def run(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "summary.json"
            done = subprocess.run([*self.command, "--summary", str(path)],
                                  capture_output=True, text=True,
                                  timeout=ddp.DEADLINE_S)
            said = done.stderr.strip()
            if done.returncode == 2 and re.search("not available|unknown",
                                                  said):
                raise Refused(said)
            if done.returncode:
                raise ddp.Wrong(f"{self.name}: status {done.returncode}: "
                                f"{said}")
            summary = json.loads(path.read_text())
        if summary["steps"] != self.case.steps:
            raise ddp.Wrong(f"{self.name}: {summary['steps']} steps, not "
                            f"{self.case.steps}")
        ddp.check_loss(self.name, summary["final_loss"])
        self.sha256 = summary["weights_sha256"]
        self.runs.append(summary["samples_per_second"])

    @property
    def median(self):
        return statistics.median(self.runs)


class Torch(ddp.Torch):
    def __init__(self, python, case, mnist):
        super().__init__(python, case.steps, case.model)
        self.mnist = mnist
        self.case = case

    def run(self):
        self.runs.append(self.launch(2, self.case.per_worker))

    @property
    def median(self):
        return statistics.median(self.runs)


def sides_of(case, program, mnist):
    ways = [("mirrored", 2, MIRRORED), ("processes", 2, PROCESSES),
            ("mirrored, V = 8", 8, MIRRORED),
            ("processes, V = 8", 8, PROCESSES),
            ("mirrored, fast", 2, MIRRORED + FAST),
            ("processes, fast", 2, PROCESSES + FAST),
            ("one device", 2, ONE)]
    return [Troupe(name, program, case, ranks, flags, mnist)
            for name, ranks, flags in ways]


def check_equal_weights(sides):
    """Reproducible runs of one job have one hash."""
    known = {}
    for side in sides:
        if side.reproducible and side.runs:
            first = known.setdefault(side.ranks, side)
            if side.sha256 != first.sha256:
                raise ddp.Wrong(f"{side.name} has other weights than "
                                f"{first.name}")


def measure(case, sides, peer, arguments):
    """Runs all sides in turn; returns those that this build has."""
    refused = set()
    for number in range(1, arguments.rounds + 1):
        for side in (*sides, peer):
            if side.name in refused:
                continue
            ddp.wait_for_quiet(arguments.wait)
            with ddp.Others() as others:
                try:
                    side.run()
                except Refused as reason:
                    refused.add(side.name)
                    print(f"not measured: {side.name}: {reason}")
                    continue
            print(f"{case.name}, round {number}: {side.name:<18}"
                  f"{side.runs[-1]:>9.0f} samples/s, others took "
                  f"{others.share:.0%} of the machine", flush=True)
        check_equal_weights(sides)
    return [side for side in sides if side.runs]


def verdict(value, bar, at_most=False):
    met = value <= bar if at_most else value >= bar
    return f"{value:.2f}, bar {bar}: {'met' if met else 'missed'}"


def paired(over, under):
    """The median over the rounds: what disturbs a round disturbs both."""
    return statistics.median(a / b for a, b in zip(over.runs, under.runs))


def report(case, sides, peer):
    limit = 2e3 * peer.probe["gflops"] / ddp.megaflop_a_sample(case.model)
    print(f"\nMLP {case.model}, SGD, batch {case.batch} = 2 x "
          f"{case.per_worker}, {case.steps} steps, the first {ddp.WARM_UP} not "
          "counted; samples/s; losses and weights checked")
    print(f"{'':<19}{'median':>9}{'spread':>8}{'of limit':>10}{'ratio':>8}"
          "   runs")
    for side in (*sides, peer):
        ratio = "" if side is peer else f"{paired(side, peer):.2f}"
        print(f"{side.name:<19}{side.median:>9.0f}{ddp.spread(side.runs):>8.1%}"
              f"{side.median / limit:>10.0%}{ratio:>8}   "
              + " ".join(f"{run:.0f}" for run in side.runs))
    print(f"limit: {limit:.0f} samples/s, the best GEMM of the peer's BLAS on "
          f"two cores at {ddp.megaflop_a_sample(case.model):.2f} MFLOP a sample")
    by_name = {side.name: side for side in sides}
    for name, bar in (("mirrored", case.mirrored),
                      ("processes", case.multi_worker)):
        if name in by_name:
            print(f"{name} against {peer.name}: "
                  + verdict(paired(by_name[name], peer), bar))
    if not case.wide:
        return
    for name in ("mirrored", "processes"):
        if name in by_name and f"{name}, V = 8" in by_name:
            print(f"{name}, step time of V = 8 over V = 2: " + verdict(
                paired(by_name[name], by_name[f"{name}, V = 8"]), EIGHT_BAR,
                at_most=True))
    if "mirrored" in by_name and "one device" in by_name:
        print("one to two devices: " + verdict(
            paired(by_name["mirrored"], by_name["one device"]), SCALING_BAR))


def rows(case, sides, peer):
    limit = 2e3 * peer.probe["gflops"] / ddp.megaflop_a_sample(case.model)
    return [{"name": f"{side.name} mlp:{case.model} 2 x {case.per_worker}",
             "members": 1 if side.name == "one device" else 2,
             "bytes": ddp.parameter_bytes(case.model),
             "ours_us": case.batch / side.median * 1e6,
             "spread": ddp.spread(side.runs), "peer": "PyTorch DDP, Gloo",
             "peer_version": peer.probe["version"],
             "peer_us": case.batch / peer.median * 1e6,
             "ratio": paired(side, peer),
             "limit_share": side.median / limit} for side in sides]


def parse():
    parser = ddp.flags(__doc__, "steps-percent", "wait")
    parser.add_argument("--case", action="append",
                        choices=[case.name for case in CASES],
                        help="only this one; several may be named")
    parser.add_argument("--mnist", type=Path, metavar="DIR",
                        help="train on MNIST's files instead of made-up digits")
    arguments = parser.parse_args()
    if arguments.rounds < 1 or arguments.steps_percent < 1:
        parser.error("at least one round and one percent are needed")
    return arguments


def main():
    arguments = parse()
    program = Path(os.environ.get("TROUPE",
                                  ddp.ROOT / "build/release/apps/troupe"))
    if not program.exists():
        print(f"{program} is missing: build it, or set TROUPE",
              file=sys.stderr)
        return 1
    print(f"{ddp.machine()}, load {os.getloadavg()[0]:.2f}", flush=True)
    lines, failed = [], False
    for case in CASES:
        if arguments.case and case.name not in arguments.case:
            continue
        case.steps = max(2 * ddp.WARM_UP,
                         case.steps * arguments.steps_percent // 100)
        try:
            peer = Torch(arguments.python, case, arguments.mnist)
        except ddp.Unusable as reason:
            print(f"skipped: {reason}")
            return ddp.SKIP
        if not lines:
            print(peer.describe(), flush=True)
        try:
            sides = measure(case, sides_of(case, program, arguments.mnist),
                            peer, arguments)
        except ddp.Wrong as reason:
            print(f"{case.name}: nothing is measured: {reason}",
                  file=sys.stderr)
            failed = True
            continue
        report(case, sides, peer)
        lines += rows(case, sides, peer)
    if arguments.json:
        arguments.json.write_text(json.dumps(lines, indent=2) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
