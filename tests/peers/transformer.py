#!/usr/bin/env python3
"""A character transformer: Troupe beside PyTorch, on the same cores.

    transformer.py --text FILE [--threads 2] [--steps 2000] [--rounds 1]
                   [--python INTERPRETER]... [--json FILE]

Both sides train transformer:L4-H4-D128-T64 on batches of 12 windows with AdamW
(beta2 0.99, decay 0.1 of matrices, clipped at a norm of 1, warm-up and cosine
from 1e-3 to 1e-4) and are judged on the last tenth of the text, cut into
windows that do not overlap. Troupe: mirrored on as many CPU devices as threads,
four virtual ranks (one thread: one device, one rank). PyTorch: that many
threads. The runs alternate; a side's figure is the median over its runs of a
run's median time of a step, the batch and the update included.

Nothing is printed for a run that did not learn. Bars: with 2,000 steps a
validation loss of 1.91 at most, and 3 times PyTorch's steps on two threads, 1
time on one.

Each --python is a peer (default: TROUPE_PEER_PYTHON, several separated by
colons, or python3). Status 77 where none of them has a usable PyTorch.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import ddp

WORKER = Path(__file__).resolve().with_name("torch_transformer_worker.py")
MODEL = "transformer:L4-H4-D128-T64"
BATCH = 12
HELD_OUT = 0.1
LOSS_BAR = 1.91
DEADLINE_S = 3600


def warm_up(steps):
    return min(100, steps // 4)


def check_losses(name, steps, first, final, held_out):
    """What a character costs falls from ln 65 = 4.17 to 2.5 by frequencies of
    pairs alone."""
    if not final < first or not held_out < (2.7 if steps >= 100 else 4.1):
        raise ddp.Wrong(f"{name} did not learn: {first:.3f} to {final:.3f}, "
                        f"held out {held_out:.3f}")


class Troupe:
    def __init__(self, program, arguments):
        self.name = "troupe"
        self.runs = []
        self.losses = []
        self.summary = {}
        self.steps = arguments.steps
        threads = arguments.threads
        self.command = [
            str(program), "train", "--strategy",
            "mirrored" if threads > 1 else "one_device",
            "--devices", f"cpu:{threads}", "--threads-per-device", "1",
            "--virtual-ranks", "4" if threads > 1 else "1",
            "--model", MODEL, "--data", f"text:{arguments.text}",
            "--eval-fraction", str(HELD_OUT), "--global-batch", str(BATCH),
            "--steps", str(self.steps), "--optimizer", "adamw",
            "--beta2", "0.99", "--weight-decay", "0.1", "--clip-norm", "1",
            "--lr", "1e-3", "--min-lr", "1e-4", "--lr-schedule", "cosine",
            "--warmup-steps", str(warm_up(self.steps)), "--quiet"]

    def run(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "summary.json")
            done = subprocess.run([*self.command, "--summary", path],
                                  capture_output=True, text=True,
                                  timeout=DEADLINE_S)
            if done.returncode:
                raise ddp.Wrong(f"troupe: status {done.returncode}: "
                                f"{done.stderr.strip()}")
            self.summary = json.loads(Path(path).read_text())
        if self.summary["steps"] != self.steps:
            raise ddp.Wrong(f"troupe: {self.summary['steps']} steps, "
                            f"not {self.steps}")
        held_out = self.summary["eval"]["loss"]
        check_losses("troupe", self.steps, 4.17, self.summary["final_loss"],
                     held_out)
        self.losses.append(held_out)
        self.runs.append(self.summary["step_ms"]["p50"])

    def describe(self):
        return (f"troupe {self.summary['version']}, {self.summary['isa']}, "
                f"{self.summary['libraries']}")


class Torch:
    def __init__(self, python, arguments):
        self.python = python
        self.arguments = arguments
        self.runs = []
        self.losses = []
        try:
            self.probe = self.launch("--probe")
        except OSError as error:
            raise ddp.Unusable(f"{python}: {error.strerror}") from error
        except ddp.Wrong as error:
            raise ddp.Unusable(f"{python}: {error}") from error
        self.name = f"torch {self.probe['version']}"
        if "blas/libblas" in self.probe["blas"].split():
            raise ddp.Unusable(f"{python}: {self.name} runs the reference "
                               "BLAS: install libopenblas0-pthread")

    def launch(self, *flags):
        threads = str(self.arguments.threads)
        environment = {**ddp.peer_environment(), "OMP_NUM_THREADS": threads,
                       "MKL_NUM_THREADS": threads,
                       "OPENBLAS_NUM_THREADS": threads}
        done = subprocess.run(
            [self.python, str(WORKER), "--threads", threads, *flags],
            capture_output=True, text=True, env=environment,
            timeout=DEADLINE_S)
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["no message"]
            raise ddp.Wrong(f"status {done.returncode}: {lines[-1]}")
        return json.loads(done.stdout.splitlines()[-1])

    def run(self):
        steps = self.arguments.steps
        line = self.launch(
            "--text", str(self.arguments.text), "--model", MODEL,
            "--batch", str(BATCH), "--steps", str(steps),
            "--warm-up", str(warm_up(steps)), "--evaluate",
            "--eval-fraction", str(HELD_OUT), "--seed", str(len(self.runs)))
        check_losses(self.name, steps, line["first_loss"], line["final_loss"],
                     line["eval_loss"])
        self.losses.append(line["eval_loss"])
        self.runs.append(line["step_ms"])

    def describe(self):
        return (f"{self.name}, BLAS {self.probe['blas']}, "
                f"{self.probe['capability']} kernels")


def report(ours, peers, arguments):
    for side in (ours, *peers):
        print(side.describe())
    print(f"{MODEL}, batch {BATCH}, {arguments.steps} steps, "
          f"{arguments.threads} threads")
    print(f"{'':<19}{'step, ms':>10}{'spread':>8}{'held out':>10}{'ratio':>8}"
          "   runs, ms")
    median = statistics.median
    for side in (ours, *peers):
        ratio = ("" if side is ours
                 else f"{median(side.runs) / median(ours.runs):.2f}")
        print(f"{side.name:<19}{median(side.runs):>10.1f}"
              f"{ddp.spread(side.runs):>8.1%}{median(side.losses):>10.3f}"
              f"{ratio:>8}   " + " ".join(f"{run:.1f}" for run in side.runs))
    if arguments.steps == 2000:
        worst = max(ours.losses)
        print(f"validation loss {worst:.3f}: the bar of {LOSS_BAR} is "
              f"{'met' if worst <= LOSS_BAR else 'missed'}")
    bar = 3.0 if arguments.threads > 1 else 1.0
    for peer in peers:
        ratio = median(peer.runs) / median(ours.runs)
        print(f"{ratio:.2f} x {peer.name}: the bar of {bar} is "
              f"{'met' if ratio >= bar else 'missed'}")


def rows(ours, peers, arguments):
    median = statistics.median
    return [{"name": MODEL, "members": arguments.threads, "bytes": 0,
             "ours_us": 1e3 * median(ours.runs),
             "spread": ddp.spread(ours.runs), "peer": "PyTorch",
             "peer_version": peer.probe["version"],
             "peer_us": 1e3 * median(peer.runs),
             "ratio": median(peer.runs) / median(ours.runs),
             "limit_share": None} for peer in peers]


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--wait", type=float, default=0, metavar="SECONDS",
                        help="before each run, for a quiet machine (0)")
    parser.add_argument("--python", action="append", metavar="INTERPRETER")
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    if arguments.steps < 20 or arguments.rounds < 1:
        parser.error("at least 20 steps and 1 round are needed")
    arguments.python = arguments.python or os.environ.get(
        "TROUPE_PEER_PYTHON", "python3").split(":")
    return arguments


def main():
    arguments = parse()
    program = ddp.find_program(arguments.text)
    if program is None:
        return 1
    peers = []
    for python in arguments.python:
        try:
            peers.append(Torch(python, arguments))
        except ddp.Unusable as reason:
            print(f"skipped: {reason}")
    if not peers:
        print("skipped: no PyTorch to compare with")
        return ddp.SKIP
    ours = Troupe(program, arguments)
    print(f"{ddp.machine()}, load {os.getloadavg()[0]:.2f}", flush=True)
    try:
        for number in range(1, arguments.rounds + 1):
            for side in (ours, *peers):
                ddp.wait_for_quiet(arguments.wait)
                with ddp.Others() as others:
                    side.run()
                print(f"round {number}: {side.name:<19}{side.runs[-1]:>8.1f} "
                      f"ms a step, held out {side.losses[-1]:.3f}, others "
                      f"took {others.share:.0%} of the machine", flush=True)
    except ddp.Wrong as reason:
        print(f"nothing is measured: {reason}", file=sys.stderr)
        return 1
    report(ours, peers, arguments)
    if arguments.json:
        arguments.json.write_text(
            json.dumps(rows(ours, peers, arguments), indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
