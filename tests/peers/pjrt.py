#!/usr/bin/env python3
"""Holds devices of PJRT plugins to XLA itself: a plugin for CPUs trains the
models as Troupe's own kernels do. The unit tests of devices of plugins run on
it, then whole jobs: the loss of the first step within 1e-5 of the CPU's,
relative, and of the 50th within 1e-3 (resnet8, whose norms are over few samples
and steps go their own ways: 2e-2); two devices in one program, and two workers, have the bits
of one. PyPI has such a plugin, with
OpenXLA's header beside it, whose layouts are compared with those of
kernels/pjrt/c_api.hpp:

    python3 -m venv build/pjrt && build/pjrt/bin/pip install xla-cpu-pjrt
    at=$(echo build/pjrt/lib/python3*/site-packages/xla_plugins/xla_cpu_pjrt)
    tests/peers/pjrt.py build/release $at/xla_cpu_pjrt.so \
      --header $at/include/pjrt_c_api.h

Status: 0 as close as that, 1 not.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent

JOBS = {
    "mlp": ["--data", "synthetic:digits", "--model", "mlp:784-512-256-10"],
    "cnn": ["--data", "synthetic:digits", "--model", "cnn"],
    "resnet8": ["--data", "synthetic:digits", "--model", "resnet8"],
    "transformer": ["--data", "synthetic:text", "--model",
                    "transformer:L2-H4-D64-T32"],
    "llama": ["--data", "synthetic:text", "--model",
              "llama:L2-H4-K2-D64-T32"],
    "gpt2": ["--data", "synthetic:text", "--model", "gpt2:L2-H4-D64-T32"],
    "dlrm": ["--data", "synthetic:clicks", "--model", "dlrm"],
}


def final_loss(troupe, folder, *arguments):
    path = os.path.join(folder, "summary.json")
    subprocess.run([troupe, "train", "--quiet", "--summary", path, *arguments],
                   check=True, stdout=subprocess.DEVNULL, timeout=1800)
    with open(path) as file:
        return json.load(file)


def compare_jobs(build, plugin, names):
    troupe = str(build / "apps" / "troupe")
    ok = True
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            far = 2e-2 if name == "resnet8" else 1e-3
            for steps, bound in ((1, 1e-5), (50, far)):
                job = [*JOBS[name], "--global-batch", "64", "--steps",
                       str(steps), "--seed", "3"]
                want, found, both, two = (
                    final_loss(troupe, folder, *job, *where) for where in (
                        ["--strategy", "one_device", "--devices", "cpu:1"],
                        ["--strategy", "tpu", "--devices", f"pjrt:{plugin}"],
                        ["--strategy", "tpu", "--devices", f"pjrt:{plugin}:2"],
                        ["--strategy", "multi_worker_mirrored", "--workers",
                         "2", "--devices", f"pjrt:{plugin}"]))
                off = max(abs(x["final_loss"] - want["final_loss"])
                          / want["final_loss"] for x in (found, both, two))
                same = (found["weights_sha256"] == both["weights_sha256"]
                        == two["weights_sha256"])
                ok = ok and off <= bound and same
                print(f"{name:12} {steps:3} steps  cpu {want['final_loss']:.6f}"
                      f"  plugin {found['final_loss']:.6f}  two devices, "
                      f"and two workers {'the same bits' if same else 'OTHER'}"
                      f"  off {off:.1e}"
                      f"{'' if off <= bound else '  TOO FAR'}", flush=True)
    return ok


def compare_layouts(header):
    """peers/build compiles and runs what does it."""
    with tempfile.TemporaryDirectory() as folder:
        built = subprocess.run([HERE / "build", folder], check=False,
                               env={**os.environ, "PJRT_HEADER": header},
                               capture_output=True, text=True)
    print(*(line for line in built.stdout.splitlines() if "layouts" in line))
    return built.returncode == 0


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("plugin")
    parser.add_argument("--header")
    parser.add_argument("--models", default=",".join(JOBS))
    given = parser.parse_args()
    plugin = os.path.abspath(given.plugin)
    ok = True
    if given.header:
        ok = compare_layouts(os.path.abspath(given.header))
    units = subprocess.run(
        [given.build / "tests" / "test_kernels", "--run_test=pjrt_replica_test",
         "--catch_system_errors=no"],
        env={**os.environ, "TROUPE_PJRT_PLUGIN": plugin}, check=False)
    ok = ok and units.returncode == 0
    ok = compare_jobs(given.build, plugin, given.models.split(",")) and ok
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
