#!/usr/bin/env python3
"""Tests and measures what a bundle (cmake/bundle) has for GPUs, on this machine.

    python3 first_run.py [--out FOLDER] [--only PHASE,…] [--memory PATTERN]

Phases, in this order: tests (operators and whole models, a process each, so
that one broken kernel spoils one test), memory (the same by compute-sanitizer,
as far as they use the GPU), jobs (whole trainings on the GPU, and one whose
workers are killed), profile (where a step's time goes, by ncu), speed (a step
beside PyTorch's). --memory takes some of that phase's cases. FOLDER (first_run)
gets report.txt and a log for each thing that was run. Status 1 if anything
failed.
"""

import argparse
import concurrent.futures
import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
PHASES = ("tests", "memory", "jobs", "profile", "speed")


class Report:
    def __init__(self, folder, memory=""):
        self.memory = re.compile(memory)
        self.folder = folder
        (folder / "logs").mkdir(parents=True, exist_ok=True)
        self.file = (folder / "report.txt").open("w")
        self.failed = False

    def say(self, text):
        print(text, flush=True)
        self.file.write(text + "\n")
        self.file.flush()

    def fail(self, text):
        self.failed = True
        self.say("FAILED " + text)

    def log(self, name, text):
        name = re.sub(r"[^A-Za-z0-9_.-]", "_", name)
        (self.folder / "logs" / (name + ".log")).write_text(text)


def run(command, seconds):
    """(status, output, seconds); status -9 where the time ran out."""
    began = time.monotonic()
    try:
        done = subprocess.run(
            [str(word) for word in command], stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace",
            timeout=seconds, check=False)
        status, output = done.returncode, done.stdout
    except subprocess.TimeoutExpired as late:
        output = (late.stdout or b"").decode(errors="replace")
        status = -signal.SIGKILL
        output += f"\n(over {seconds} s)"
    return status, output, time.monotonic() - began


def cases_of(program):
    """SUITE/CASE of a Boost.Test program, in its order."""
    _, listed, _ = run([program, "--list_content"], 30)
    path, cases = [], []
    for line in listed.splitlines():
        name = line.strip().rstrip("*")
        if not name or ":" in name:
            continue
        depth = (len(line) - len(line.lstrip())) // 4
        if cases and depth > len(path) - 1 and cases[-1] == "/".join(path):
            cases.pop()
        path = [*path[:depth], name]
        cases.append("/".join(path))
    return cases


def pooled(jobs, seconds, before=()):
    """Runs (program, case) pairs side by side: (status, output, seconds)."""
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        return list(pool.map(
            lambda job: run([*before, job[0], "--run_test=" + job[1],
                             "--log_level=message", "--color_output=no"],
                            seconds), jobs))


def run_tests(report):
    jobs = [(HERE / name, case) for name in ("test_gpu", "test_kernels")
            for case in cases_of(HERE / name)
            if not case.startswith("pjrt_")]  # their plugin is not here
    began = time.monotonic()
    done = pooled(jobs, 90)
    took = time.monotonic() - began
    passed = 0
    for (program, case), (status, output, seconds) in zip(jobs, done):
        report.log(program.name + "." + case, output)
        if status == 0:
            passed += 1
            continue
        lines = [line for line in output.splitlines()
                 if "error" in line or "over " in line]
        report.fail(f"{program.name} {case}: status {status}, "
                    f"{seconds:.1f} s; {len(lines)} errors")
        for line in lines[:2]:
            report.say("    " + line[:300])
    slow = sorted(((seconds, case) for (_, case), (_, _, seconds)
                   in zip(jobs, done)), reverse=True)[:3]
    report.say(f"tests: {passed} of {len(jobs)} passed in {took:.0f} s; slowest "
               + ", ".join(f"{case} {seconds:.1f} s" for seconds, case in slow))


def run_memory(report):
    """Accesses out of bounds in all tests of whole models, and in those of
    operators; races between the threads of a block in the latter."""
    operators = [case for case in cases_of(HERE / "test_kernels")
                 if re.match("(attention|batch_norm|convolution|dense|elementwise|embedding"
                             "|interaction|layer_norm|loss|movement|pool"
                             "|softmax)_test/", case)]
    whole = [(HERE / "test_gpu", case) for case in cases_of(HERE / "test_gpu")]
    for tool, jobs in (
            ("memcheck", whole + [(HERE / "test_kernels", case)
                                  for case in operators]),
            ("racecheck", [(HERE / "test_kernels", case)
                           for case in operators])):
        jobs = [job for job in jobs if report.memory.search(job[1])]
        done = pooled(jobs, 90, ["compute-sanitizer", "--tool", tool,
                                 "--print-limit", "5", "--report-api-errors",
                                 "no", "--error-exitcode", "99"])
        bad = late = 0
        for (program, case), (status, output, _) in zip(jobs, done):
            report.log(tool + "." + program.name + "." + case, output)
            lines = [line for line in output.splitlines()
                     if line.startswith("=========")]
            if status < 0:
                late += 1
            elif status == 99:
                bad += 1
                report.fail(f"{tool} {case}")
                for line in lines[1:6]:
                    report.say("    " + line[:160])
        report.say(f"{tool}: {len(jobs) - bad - late} of {len(jobs)} clean, "
                   f"{late} not done in time")


SPEEDS = (
    ("mlp", "gpu_mlp.py", ["--steps", "200"]),
    ("large_mlp", "gpu_mlp.py",
     ["--model", "mlp:8192-8192-8192-8192-1024", "--batch", "8192",
      "--precision", "bfloat16", "--variants", "eager,compiled"]),
    ("transformer", "gpu_transformer.py", []),
)


def run_speed(report):
    for name, script, more in SPEEDS:
        status, output, seconds = run(
            [sys.executable, HERE / "peers" / script, "--program",
             HERE / "gpu_step", "--rounds", "1", "--json",
             report.folder / (name + ".json"), *more], 300)
        report.log(name, output)
        report.say(f"speed {name}, {seconds:.0f} s\n{output.rstrip()}")
        if status != 0:
            report.fail(f"{name}: status {status}")


def train(report, name, words, seconds=90, kill=None):
    """A training's summary, or None; `kill` is a pattern of roles' commands."""
    summary = report.folder / (name + ".json")
    command = [HERE / "troupe", "train", *words, "--quiet", "--summary",
               summary]
    if kill is None:
        status, output, took = run(command, seconds)
    else:
        began = time.monotonic()
        log = report.folder / "logs" / (name + ".out")
        with log.open("w") as out:
            process = subprocess.Popen([str(w) for w in command], stdout=out,
                                       stderr=subprocess.STDOUT)
            kills = 0
            while process.poll() is None:
                time.sleep(0.7)
                if time.monotonic() - began > seconds:
                    process.kill()
                found = subprocess.run(
                    ["pgrep", "-f", "-P", str(process.pid), kill],
                    capture_output=True, text=True, check=False).stdout.split()
                if found and kills < 5 and process.poll() is None:
                    os.kill(int(found[kills % len(found)]), signal.SIGKILL)
                    kills += 1
            status = process.returncode
        output = log.read_text() + f"\n{kills} killed"
        took = time.monotonic() - began
    report.log(name, output)
    if status != 0 or not summary.exists():
        tail = output.strip().splitlines()[-3:]
        report.fail(f"job {name}: status {status}: " + " | ".join(tail))
        return None
    read = json.loads(summary.read_text())
    step = read["step_ms"]
    report.say(f"job {name}: {took:.1f} s, {read['steps']} steps, "
               f"{read['samples_per_second']:.0f} samples/s, step {step}, "
               f"loss {read['final_loss']:.5f}, "
               f"{len(read['recoveries'])} recoveries, "
               f"{read['weights_sha256'][:12]}")
    return read["weights_sha256"]


ALONE = ["--devices", "cuda:0"]
TWO = ["--strategy", "multi_worker_mirrored", "--workers", "2", *ALONE]
LAYOUTS = {
    "again": ALONE,
    "one": ALONE,
    "mirrored": ["--devices", "cuda:0*2"],
    "processes": TWO,
    "pipeline": ["--strategy", "pipeline", "--stages", "2", *ALONE],
    "sharded": ["--strategy", "fully_sharded", "--workers", "2", *ALONE],
    "servers": ["--strategy", "parameter_server", "--workers", "2", "--ps", "2",
                "--processes", *ALONE],
}
DIGITS = ["--data", "synthetic:digits?samples=20000", "--global-batch", "256",
          "--virtual-ranks", "2"]
TEXT = ["--data", f"text:{HERE}/first_run.py"]
MODELS = {
    "mlp": ["--model", "mlp:784-512-256-10", *DIGITS, "--clip-norm", "0.5"],
    "cnn": ["--model", "cnn", *DIGITS],
    "resnet": ["--model", "resnet8", *DIGITS, "--optimizer", "momentum"],
    "llama": ["--model", "llama:L2-H4-K2-D128-T64", *TEXT, "--global-batch",
              "16", "--virtual-ranks", "2", "--precision", "bfloat16"],
}


def run_jobs(report):
    for model, words in MODELS.items():
        hashes = {layout: train(report, f"{model}_{layout}",
                                [*words, "--steps", "200", *more])
                  for layout, more in LAYOUTS.items()}
        if len(set(hashes.values())) != 1:
            report.fail(f"{model}: hashes differ by layout: {hashes}")
    words = [*MODELS["mlp"], "--steps", "2000", *TWO]
    killed = train(report, "mlp_killed", words, 60, "role worker")
    if killed is None or killed != train(report, "mlp_not_killed", words, 60):
        report.fail("mlp: other weights after kills")
    train(report, "transformer",
          ["--model", "transformer:L12-H12-D768-T1024", *TEXT, "--global-batch",
           "8", "--virtual-ranks", "1", "--precision", "bfloat16",
           "--optimizer", "adamw", "--clip-norm", "1", "--steps", "60", *ALONE])


PROFILED = {
    "transformer": (["--model", "transformer:L12-H12-D768-T1024", "--batch",
                     "8", "--precision", "bfloat16", "--optimizer", "adamw"],
                    "900"),
    "mlp": ([], "200"),
    "cnn": (["--model", "cnn"], "200"),
    "resnet20": (["--model", "resnet20", "--batch", "128"], "700"),
}


def run_profile(report):
    for name, (words, launches) in PROFILED.items():
        status, output, seconds = run([HERE / "gpu_step", *words], 60)
        report.log("step_" + name, output)
        try:
            read = json.loads(output.strip().splitlines()[-1])
            report.say(f"step {name}: {read['step_ms']:.3f} ms, "
                       f"{read['flops'] / read['step_ms'] / 1e9:.1f} TFLOP/s, "
                       f"losses {read['losses'][:3]} {read['version']}")
        except (ValueError, IndexError):
            report.fail(f"step {name}: status {status}: {output[-300:]}")
        status, output, seconds = run(
            ["ncu", "--csv", "--metrics", "gpu__time_duration.sum",
             "--clock-control", "none", "--launch-count", launches,
             HERE / "gpu_step", *words, "--checked", "1", "--skipped", "1",
             "--steps", "1", "--runs", "1"], 150)
        report.log("profile_" + name, output)
        begin = output.find('"ID"')
        if status != 0 or begin < 0:
            report.fail(f"profile {name}: status {status}: {output[-300:]}")
            continue
        total = {}
        for row in csv.DictReader(io.StringIO(output[begin:])):
            value = row.get("Metric Value")
            if not value:
                continue
            scale = {"ns": 1e-6, "us": 1e-3, "ms": 1}.get(
                row["Metric Unit"].replace("second", "s"), 1e-6)
            key = re.sub(r"\(.*", "", row["Kernel Name"])[:90]
            entry = total.setdefault(key, [0, 0.0])
            entry[0] += 1
            entry[1] += float(value.replace(",", "")) * scale
        report.say(f"profile {name}, {seconds:.0f} s: kernels of all steps")
        for key, (count, ms) in sorted(total.items(),
                                       key=lambda item: -item[1][1])[:28]:
            report.say(f"    {ms:9.3f} ms {count:5d}  {key}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("first_run"))
    parser.add_argument("--only", default=",".join(PHASES))
    parser.add_argument("--memory", default="", metavar="PATTERN")
    arguments = parser.parse_args()
    phases = arguments.only.split(",")
    if unknown := set(phases) - set(PHASES):
        parser.error(f"--only: no phase {min(unknown)}; there are "
                     + ", ".join(PHASES))
    report = Report(arguments.out, arguments.memory)
    _, output, _ = run(["nvidia-smi", "--query-gpu=name,driver_version,"
                        "memory.total,clocks.sm", "--format=csv,noheader"], 30)
    report.say("machine: " + output.strip())
    began = time.monotonic()
    for phase in phases:
        globals()["run_" + phase](report)
        report.say(f"-- {phase} done at {time.monotonic() - began:.0f} s")
    return report.failed


if __name__ == "__main__":
    sys.exit(main())
