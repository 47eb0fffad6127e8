#!/usr/bin/env python3
"""Troupe beside PyTorch on one thread: the same models, data and batches.

    one_thread.py [--mnist DIR] [--text FILE] [--only NAME]...
                  [--python INTERPRETER]... [--rounds 3] [--steps-percent 100]
                  [--precision float32] [--json FILE]

Multi-layer perceptron and convolutional network on MNIST with SGD, a character
transformer on a text with AdamW. Runs alternate; a side's figure is the median
of its runs: samples over wall time from step 11 to the end of the last step,
gathering of batches and updates included, evaluation not.

Nothing is printed for a side that did not learn: the loss on the held-out part
must fall well below chance, and the two sides' losses must agree roughly.

Each --python is a peer (default: TROUPE_PEER_PYTHON, several separated by
colons, or python3). Status 77 where none of them has a usable PyTorch, or no
data is given.
"""

import dataclasses
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import ddp

WORKER = Path(__file__).resolve().with_name("torch_worker.py")


@dataclasses.dataclass
class Case:
    name: str
    model: str
    batch: int
    steps: int
    rate: float
    optimizer: str = "sgd"
    data: str = "mnist"
    held_out: float = 0.15
    chance: float = math.log(10)
    bar: float = 1.0


MLP = "mlp:784-512-256-10"
CASES = [
    Case("mlp-256", MLP, 256, 300, 0.1, bar=1.2),
    Case("mlp-64", MLP, 64, 900, 0.1, bar=1.7),
    Case("cnn-64", "cnn", 64, 300, 0.1),
    Case("cnn-256", "cnn", 256, 100, 0.1),
    Case("transformer-12", "transformer:L4-H4-D128-T64", 12, 150, 1e-3,
         "adamw", "text", 0.02, math.log(65)),
]


# --- the two sides ------------------------------------------------------------

class Troupe:
    name = "troupe"

    def __init__(self, program, arguments):
        self.program = program
        self.arguments = arguments
        self.summary = {}

    def run(self, case):
        given = self.arguments
        data = f"mnist:{given.mnist}?eval=tail" if case.data == "mnist" else \
            f"text:{given.text}"
        command = [
            str(self.program), "train", "--strategy", "one_device",
            "--devices", "cpu:1", "--threads-per-device", "1",
            "--virtual-ranks", "1", "--model", case.model, "--data", data,
            "--eval-fraction", str(case.held_out), "--eval-every", "1000",
            "--global-batch", str(case.batch), "--steps", str(case.steps),
            "--epochs", "1000", "--optimizer", case.optimizer,
            "--lr", str(case.rate), "--precision", given.precision, "--quiet"]
        if case.optimizer == "adamw":
            command += ["--weight-decay", "0.01"]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "summary.json"
            done = subprocess.run([*command, "--summary", str(path)],
                                  capture_output=True, text=True,
                                  timeout=ddp.DEADLINE_S)
            if done.returncode:
                raise ddp.Wrong(f"troupe: status {done.returncode}: "
                                f"{done.stderr.strip()}")
            self.summary = json.loads(path.read_text())
        if self.summary["steps"] != case.steps:
            raise ddp.Wrong(f"troupe: {self.summary['steps']} steps, "
                            f"not {case.steps}")
        return self.summary["samples_per_second"], self.summary["eval"]["loss"]

    def describe(self):
        return (f"troupe {self.summary['version']}, {self.summary['isa']}, "
                f"{self.arguments.precision}, {self.summary['libraries']}")


class Torch(ddp.Torch):
    """A PyTorch; ddp.Torch finds out whether it can be used."""

    def __init__(self, python, arguments):
        super().__init__(python, 0)
        self.arguments = arguments

    def run(self, case):
        command = [self.python, str(WORKER), "--model", case.model,
                   "--batch", str(case.batch), "--steps", str(case.steps),
                   "--warm-up", str(ddp.WARM_UP), "--rate", str(case.rate),
                   "--optimizer", case.optimizer]
        for name in ("mnist", "text"):
            if getattr(self.arguments, name):
                command += [f"--{name}", str(getattr(self.arguments, name))]
        done = subprocess.run(command, capture_output=True, text=True,
                              env=ddp.peer_environment(),
                              timeout=ddp.DEADLINE_S)
        if done.returncode:
            raise ddp.Wrong(f"{self.name}: status {done.returncode}: "
                            f"{done.stderr.strip()[-400:]}")
        line = json.loads(done.stdout.splitlines()[-1])
        return ((case.steps - ddp.WARM_UP) * case.batch / line["seconds"],
                line["loss"])


# --- the figures --------------------------------------------------------------

def check(case, losses):
    """Losses by side: each has learnt, and about as much as the first."""
    ours = losses["troupe"]
    for name, loss in losses.items():
        if not (math.isfinite(loss) and loss < 0.8 * case.chance):
            raise ddp.Wrong(f"{case.name}: {name} did not learn: {loss}")
        if abs(loss - ours) > 0.25 * max(loss, ours) + 0.05:
            raise ddp.Wrong(f"{case.name}: {name} learnt something else: "
                            f"{loss:.3f} rather than {ours:.3f}")


def measure(case, sides, arguments):
    """Runs by side, with the others' share of the machine told on the way."""
    runs = {side.name: [] for side in sides}
    losses = {}
    for _ in range(arguments.rounds):
        for side in sides:
            ddp.wait_for_quiet(arguments.wait)
            with ddp.Others() as others:
                rate, losses[side.name] = side.run(case)
            runs[side.name].append(rate)
            print(f"  {case.name}: {side.name} {rate:.0f} samples/s, others "
                  f"took {others.share:.0%} of the machine", file=sys.stderr)
    check(case, losses)
    return runs, losses


def report(case, runs, losses):
    print(f"{case.name}: {case.model}, {case.optimizer}, batch {case.batch}, "
          f"{case.steps} steps, the first {ddp.WARM_UP} not counted")
    ours = statistics.median(runs["troupe"])
    for name, values in runs.items():
        median = statistics.median(values)
        ratio = "" if name == "troupe" else (
            f"  {ours / median:.2f} x, the bar of {case.bar} is "
            f"{'met' if ours >= case.bar * median else 'missed'}")
        print(f"  {name:<19}{median:>9.0f} samples/s, spread "
              f"{ddp.spread(values):.1%}, loss {losses[name]:.3f}{ratio}",
              flush=True)


def rows(case, runs, sides):
    rate = statistics.median(runs["troupe"])
    return [{"name": f"one thread {case.name}", "members": 1, "bytes": 0,
             "ours_us": case.batch / rate * 1e6,
             "spread": ddp.spread(runs["troupe"]), "peer": "PyTorch",
             "peer_version": side.probe["version"],
             "peer_us": case.batch / statistics.median(runs[side.name]) * 1e6,
             "ratio": rate / statistics.median(runs[side.name]),
             "limit_share": None} for side in sides[1:]]


def parse():
    parser = ddp.flags(__doc__, "steps-percent", "wait", pythons="several")
    parser.add_argument("--mnist", type=Path, metavar="DIR")
    parser.add_argument("--text", type=Path, metavar="FILE")
    parser.add_argument("--only", action="append", metavar="NAME",
                        choices=[case.name for case in CASES])
    parser.add_argument("--precision", default="float32",
                        help="of Troupe; the peer's is float32")
    arguments = parser.parse_args()
    arguments.python = arguments.python or ddp.known_pythons()
    return arguments


def chosen(arguments):
    for case in CASES:
        if arguments.only and case.name not in arguments.only:
            continue
        if getattr(arguments, case.data) is None:
            print(f"skipped: {case.name}: give --{case.data}")
            continue
        steps = max(2 * ddp.WARM_UP, case.steps * arguments.steps_percent
                    // 100)
        yield dataclasses.replace(case, steps=steps)


def main():
    arguments = parse()
    program = Path(os.environ.get("TROUPE",
                                  ddp.ROOT / "build/release/apps/troupe"))
    if not program.exists():
        print(f"{program} is missing: build it, or set TROUPE",
              file=sys.stderr)
        return 1
    sides = [Troupe(program, arguments)]
    for python in arguments.python:
        try:
            sides.append(Torch(python, arguments))
        except ddp.Unusable as reason:
            print(f"skipped: {reason}")
    cases = list(chosen(arguments))
    if len(sides) == 1 or not cases:
        print("skipped: no PyTorch to compare with, or no data")
        return ddp.SKIP
    print(f"{ddp.machine()}, load {os.getloadavg()[0]:.2f}")
    for side in sides[1:]:
        print(side.describe(), flush=True)
    lines, failed = [], False
    for case in cases:
        try:
            runs, losses = measure(case, sides, arguments)
        except ddp.Wrong as reason:
            print(f"not measured: {reason}", flush=True)
            failed = True
            continue
        report(case, runs, losses)
        lines += rows(case, runs, sides)
    print(sides[0].describe() if sides[0].summary else "")
    if arguments.json:
        arguments.json.write_text(json.dumps(lines, indent=2) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
