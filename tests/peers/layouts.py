#!/usr/bin/env python3
"""Models over two members: Troupe's layouts beside PyTorch's, over Gloo.

    layouts.py --text FILE [--python INTERPRETER] [--rounds 3] [--case NAME]...
               [--layout NAME]... [--mirrored] [--json FILE]

A pipeline of two stages (torch.distributed.pipelining), two tensor members
(parallelize_module over DTensor) and two fully sharded workers (fully_shard);
on both sides two processes of one thread, with Adam. Models and batches as in
CASES. Runs alternate; a side's figure is the median over its runs of a run's
median time of a step, and a ratio is the median over the rounds.

Before anything is measured losses are compared: from the same weights, on a
text of as many windows as the batch has, step by step.

--mirrored: Troupe alone, a pipeline of two and two tensor members beside
`mirrored --devices cpu:2`, the large model, batch 16 and V = 8.

Status 77 where there is no usable PyTorch.
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

WORKER = Path(__file__).resolve().with_name("torch_layouts_worker.py")
SKIPPED = 10        # first steps, not timed
COMPARED = 6        # steps whose losses are compared
CLOSE = 2e-4        # so far two losses may differ
DEADLINE_S = 900
# With as many micro-batches, virtual slices and ranks as do best there.
LAYOUTS = {
    "pipeline": ["--strategy", "pipeline", "--stages", "2",
                 "--virtual-ranks", "4"],
    "tensor": ["--strategy", "tensor", "--tensor", "2", "--virtual-slices",
               "2", "--virtual-ranks", "1"],
    "fully_sharded": ["--strategy", "fully_sharded", "--workers", "2",
                      "--virtual-ranks", "2"],
}
SLICED = ["--virtual-slices", "2"]
# Name: flags, and the share of what mirrored makes.
BESIDE_MIRRORED = {
    "mirrored": (["--strategy", "mirrored", "--devices", "cpu:2"], None),
    "pipeline": (["--strategy", "pipeline", "--stages", "2"], 0.85),
    "tensor": (["--strategy", "tensor", "--tensor", "2", *SLICED], 0.75),
}


@dataclass
class Case:
    name: str
    model: str
    batch: int
    steps: int
    bar: float  # times the peer's samples/s


CASES = [
    Case("small", "transformer:L4-H4-D128-T64", 12, 110, 2.0),
    Case("large", "transformer:L8-H8-D512-T256", 4, 25, 1.3),
]
WIDE = Case("wide", "transformer:L8-H8-D512-T256", 16, 20, 0)


class Troupe:
    def __init__(self, program, case, name, flags, text):
        self.name = name
        self.case = case
        self.runs = []
        self.command = [
            str(program), "train", *flags, "--threads-per-device", "1",
            "--model", case.model, "--global-batch", str(case.batch),
            "--epochs", "0", "--eval-every", "0", "--optimizer", "adam",
            "--lr", "1e-3"]
        self.text = text

    def launch(self, text, steps, *flags):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "summary.json"
            more = (["--checkpoint-dir", os.path.join(folder, "kept")]
                    if "--initial-weights" in flags else [])
            done = subprocess.run(
                [*self.command, "--data", f"text:{text}", "--steps",
                 str(steps), *flags, *more, "--summary", str(path)],
                capture_output=True, text=True, timeout=DEADLINE_S)
            if done.returncode:
                raise ddp.Wrong(f"troupe, {self.name}: status "
                                f"{done.returncode}: {done.stderr.strip()}")
            return json.loads(path.read_text()), done.stdout

    def losses(self, text, weights):
        said = self.launch(text, COMPARED, "--log-every", "1",
                           "--initial-weights", str(weights))[1]
        return [float(x) for x in re.findall(r"(?m)^epoch .* loss (\S+)", said)]

    def run(self):
        summary, _ = self.launch(self.text, self.case.steps, "--quiet")
        self.runs.append(summary["step_ms"]["p50"])


class Torch:
    def __init__(self, python, case, name, text):
        self.python = python
        self.case = case
        self.layout = name
        self.name = f"{name}, torch"
        self.text = text
        self.runs = []

    def launch(self, text, steps, *flags):
        with tempfile.TemporaryDirectory() as folder:
            workers = [subprocess.Popen(
                [self.python, str(WORKER), "--layout", self.layout,
                 "--rank", str(rank), "--rendezvous",
                 os.path.join(folder, "rendezvous"), "--text", str(text),
                 "--model", self.case.model, "--batch", str(self.case.batch),
                 "--steps", str(steps), "--skipped",
                 str(min(SKIPPED, steps - 1)), *flags],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                env=ddp.peer_environment()) for rank in range(2)]
            return ddp.answers_of(workers, self.name, DEADLINE_S)

    def losses(self, text, weights):
        """By step: the mean of those that have one."""
        lines = self.launch(text, COMPARED, "--weights", str(weights))
        return [statistics.mean(x for x in step if x is not None)
                for step in zip(*(line["losses"] for line in lines))]

    def run(self):
        lines = self.launch(self.text, self.case.steps)
        self.runs.append(max(line["step_ms"] for line in lines))


def compare_losses(ours, peer):
    """The peer draws the weights."""
    text = peer.text.read_text()
    size = int(re.search(r"-T(\d+)", ours.case.model)[1]) + ours.case.batch
    with tempfile.TemporaryDirectory() as folder:
        few = Path(folder) / "few.txt"
        few.write_text(text[:size])
        weights = Path(folder) / "weights.safetensors"
        theirs = peer.losses(few, weights)
        found = ours.losses(few, weights)
    if len(found) != COMPARED or theirs[-1] > theirs[0] or any(
            abs(a - b) > CLOSE for a, b in zip(found, theirs)):
        raise ddp.Wrong(f"{ours.case.name}, {ours.name}: losses differ: "
                        f"{found}, {theirs}")
    print(f"{ours.case.name}, {ours.name}: losses of {COMPARED} steps "
          f"{found[0]:.4f} to {found[-1]:.4f}, of torch {theirs[0]:.4f} to "
          f"{theirs[-1]:.4f}", flush=True)


def measure(sides, arguments, what):
    for number in range(1, arguments.rounds + 1):
        for side in sides:
            with ddp.Others() as others:
                side.run()
            print(f"{what}, round {number}: {side.name:<22}"
                  f"{side.runs[-1]:>9.1f} ms a step, others took "
                  f"{others.share:.0%} of the machine", flush=True)


def paired(over, under):
    """The median over the rounds: what disturbs a round disturbs both."""
    return statistics.median(a / b for a, b in zip(over.runs, under.runs))


def megaflop_a_sample(program, case):
    shown = subprocess.run(
        [str(program), "model", "show", case.model, "--data", "synthetic:text"],
        capture_output=True, text=True, timeout=60, check=True).stdout
    return int(re.search(r"forward and backward: (\d+)", shown)[1]) / 1e6


def probe(python):
    """Errors: Unusable."""
    try:
        done = subprocess.run([python, str(ddp.WORKER), "--probe"],
                              capture_output=True, text=True,
                              env=ddp.peer_environment(), timeout=DEADLINE_S)
    except OSError as error:
        raise ddp.Unusable(f"{python}: {error.strerror}") from error
    if done.returncode:
        raise ddp.Unusable(f"{python}: "
                           f"{(done.stderr.strip() or 'no message')[-200:]}")
    return json.loads(done.stdout.splitlines()[-1])


def beside_peers(case, program, about, arguments):
    rows = []
    pairs = [(Troupe(program, case, name, [*LAYOUTS[name], "--processes"],
                     arguments.text),
              Torch(arguments.python, case, name, arguments.text))
             for name in arguments.layout or LAYOUTS]
    for ours, peer in pairs:
        compare_losses(ours, peer)
    measure([side for pair in pairs for side in pair], arguments, case.name)
    flops = megaflop_a_sample(program, case)
    limit = 2e3 * about["gflops"] / flops
    print(f"\n{case.model}, batch {case.batch}, {case.steps} steps, the first "
          f"{SKIPPED} not counted; samples/s; limit: {limit:.1f}, the best "
          f"GEMM of torch's BLAS on two cores at {flops:.0f} MFLOP a sample")
    for ours, peer in pairs:
        rates = [1e3 * case.batch / statistics.median(side.runs)
                 for side in (ours, peer)]
        ratio = paired(peer, ours)
        share = rates[0] / limit
        met = ratio >= case.bar or (case.name == "large" and share >= 0.85)
        print(f"{ours.name:<14}{rates[0]:>8.1f} (spread "
              f"{ddp.spread(ours.runs):.0%}, {share:.0%} of the limit), torch "
              f"{rates[1]:.1f} ({ddp.spread(peer.runs):.0%}): ratio "
              f"{ratio:.2f}, bar {case.bar}: {'met' if met else 'missed'}",
              flush=True)
        rows.append({"name": f"{ours.name} {case.model} batch {case.batch}",
                     "members": 2, "bytes": None,
                     "ours_us": 1e3 * statistics.median(ours.runs),
                     "spread": ddp.spread(ours.runs), "peer": "PyTorch, Gloo",
                     "peer_version": about["version"],
                     "peer_us": 1e3 * statistics.median(peer.runs),
                     "ratio": ratio, "limit_share": share})
    return rows


def beside_mirrored(program, arguments):
    """Troupe's layouts by what they make of two devices' rate."""
    sides = [Troupe(program, WIDE, name,
                    [*flags, "--virtual-ranks", "8",
                     *([] if name == "mirrored" else ["--processes"])],
                    arguments.text)
             for name, (flags, _) in BESIDE_MIRRORED.items()]
    measure(sides, arguments, "V = 8")
    print(f"\n{WIDE.model}, batch {WIDE.batch}, V = 8; samples/s")
    for side in sides:
        rate = 1e3 * WIDE.batch / statistics.median(side.runs)
        bar = BESIDE_MIRRORED[side.name][1]
        share = paired(sides[0], side)
        print(f"{side.name:<14}{rate:>8.2f} (spread "
              f"{ddp.spread(side.runs):.0%})"
              + (f": {share:.2f} of mirrored, bar {bar}: "
                 f"{'met' if share >= bar else 'missed'}" if bar else ""))


def parse():
    parser = ddp.flags(__doc__)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--case", action="append",
                        choices=[case.name for case in CASES])
    parser.add_argument("--layout", action="append", choices=list(LAYOUTS))
    parser.add_argument("--mirrored", action="store_true")
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error("at least 1 round is needed")
    return arguments


def main():
    arguments = parse()
    program = ddp.find_program(arguments.text)
    if program is None:
        return 1
    print(f"{ddp.machine()}, load {os.getloadavg()[0]:.2f}", flush=True)
    rows = []
    try:
        if arguments.mirrored:
            beside_mirrored(program, arguments)
            return 0
        about = probe(arguments.python)
        print(f"torch {about['version']}, {about['capability']} kernels, "
              f"{about['gflops']:.0f} GFLOP/s on one core", flush=True)
        for case in CASES:
            if not arguments.case or case.name in arguments.case:
                rows += beside_peers(case, program, about, arguments)
    except ddp.Unusable as reason:
        print(f"skipped: {reason}")
        return ddp.SKIP
    except ddp.Wrong as reason:
        print(f"nothing is measured: {reason}", file=sys.stderr)
        return 1
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
