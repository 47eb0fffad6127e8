"""What gpu_mlp.py and gpu_transformer.py share: both sides train on one fixed
batch that stays on the GPU, from the same parameters; PyTorch in a process of
its own, so that neither side holds the other's memory.

Nothing is measured before the losses of the first steps agree. The processes
alternate; a side's figure is the median over them of each one's median time of
a step, from runs of several steps with one wait at the end.
"""

import argparse
import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

SKIP = 77
DEADLINE_S = 400


class Failed(Exception):
    """A side that does not run, or does not compute the same."""


def read_start(path):
    """The tensors of a safetensors file of float32, by name."""
    import torch
    raw = Path(path).read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + size])
    header.pop("__metadata__", None)
    values = memoryview(bytearray(raw[8 + size:]))
    return {name: torch.frombuffer(
        values[slice(*entry["data_offsets"])],
        dtype=torch.float32).reshape(entry["shape"]).clone()
        for name, entry in header.items()}


def time_steps(step, arguments):
    """Runs step() (which returns its loss) as gpu_step.cpp does: checked,
    skipped, then timed steps. Returns what the driver wants of a side."""
    import time

    import torch
    losses = [float(step()) for _ in range(arguments.checked)]
    for _ in range(arguments.skipped):
        step()
    torch.cuda.synchronize()
    times = []
    for _ in range(arguments.runs):
        began = time.monotonic()
        for _ in range(arguments.steps):
            step()
        torch.cuda.synchronize()
        times.append(1e3 * (time.monotonic() - began) / arguments.steps)
    return {"losses": losses, "step_ms": statistics.median(times),
            "step_ms_all": sorted(times), "version": "PyTorch "
            + torch.__version__}


def run(command, what):
    done = subprocess.run(command, capture_output=True, text=True,
                          timeout=DEADLINE_S, check=False)
    if done.returncode != 0:
        tail = (done.stderr.strip() or "no message").splitlines()[-3:]
        raise Failed(f"{what}: " + " | ".join(tail))
    return json.loads(done.stdout.strip().splitlines()[-1])


def check_losses(ours, theirs, tolerance, what):
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if not abs(a - b) <= tolerance * abs(b):
            raise Failed(f"losses of step {i + 1} differ: troupe {a:.6f}, "
                         f"{what} {b:.6f}; nothing is measured")


def parser(description):
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--program", default=os.environ.get("TROUPE_GPU_STEP"),
                      help="the program gpu_step")
    made.add_argument("--python", default=sys.executable)
    made.add_argument("--rounds", type=int, default=3)
    made.add_argument("--variants", help="of PyTorch's, with commas between "
                      "them (all)")
    made.add_argument("--checked", type=int, default=5)
    made.add_argument("--skipped", type=int, default=10)
    made.add_argument("--steps", type=int, default=20)
    made.add_argument("--runs", type=int, default=5)
    made.add_argument("--json", type=Path)
    made.add_argument("--worker", help="PyTorch's side: eager, compiled")
    made.add_argument("--start", help="of a worker")
    return made


def drive(script, arguments, flags, variants, tolerance, forwarded=()):
    """Measures gpu_step with `flags` beside the variants of the script's
    worker, prints a table; returns the exit status."""
    counts = [word for name in ("checked", "skipped", "steps", "runs")
              for word in (f"--{name}", str(getattr(arguments, name)))]
    probe = subprocess.run(
        [arguments.python, "-c",
         "import torch, sys; sys.exit(not torch.cuda.is_available())"],
        capture_output=True, check=False)
    if probe.returncode != 0 or not arguments.program:
        print("no PyTorch with a GPU here" if probe.returncode
              else "--program: where is gpu_step?", file=sys.stderr)
        return SKIP
    results = {"troupe": []}
    with tempfile.TemporaryDirectory() as folder:
        def ours(*extra):
            return run([arguments.program, *flags, *counts, *extra], "troupe")

        def theirs(variant):
            return run([arguments.python, script, "--worker", variant,
                        "--start", f"{folder}/start.safetensors", *counts,
                        *forwarded], variant)

        first = ours("--dump", folder)
        if arguments.variants:
            variants = arguments.variants.split(",")
        for variant in variants:
            try:
                check_losses(first["losses"], theirs(variant)["losses"],
                             tolerance, variant)
                results[variant] = []
            except (Failed, subprocess.TimeoutExpired) as failure:
                print(f"{variant}: left out: {failure}", flush=True)
        for _ in range(arguments.rounds):
            for name, figures in results.items():
                figures.append(ours() if name == "troupe" else theirs(name))
    return report(arguments, results, first)


def report(arguments, results, first):
    medians = {name: statistics.median(f["step_ms"] for f in figures)
               for name, figures in results.items()}
    mine = medians["troupe"]
    print(f"{'':12} {'ms a step':>10} {'spread':>8} {'TFLOP/s':>9} "
          f"{'peer/troupe':>12}")
    for name, figures in results.items():
        times = [t for f in figures for t in f["step_ms_all"]]
        print(f"{name:12} {medians[name]:10.3f} "
              f"{(max(times) - min(times)) / medians[name]:8.1%} "
              f"{first['flops'] / medians[name] / 1e9:9.1f} "
              f"{medians[name] / mine:12.2f}  {figures[0]['version']}")
    if arguments.json:
        arguments.json.write_text(json.dumps(
            {"median_ms": medians, "results": results}, indent=2) + "\n")
    return 0 if len(results) > 1 else 1
