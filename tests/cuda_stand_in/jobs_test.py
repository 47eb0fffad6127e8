"""Whole jobs on devices that are stand-ins: the same weights whichever of them
computed, and in spite of kills and of devices that fail."""
# ctest: TIMEOUT 900

import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "process"))

from cluster import ENDLESS, Run, troupe  # noqa: E402

JOB = ["--data", "synthetic:digits?samples=1994", "--model", "mlp:784-48-10",
       "--eval-fraction", "0.1", "--global-batch", "64", "--virtual-ranks",
       "4", "--seed", "7", "--optimizer", "adam"]
ONE_DEVICE = ["--strategy", "one_device", "--devices", "cuda:0"]
MIRRORED = ["--strategy", "mirrored"]
WORKERS = ["--strategy", "multi_worker_mirrored", "--workers", "2"]
SERVED = ["--strategy", "parameter_server", "--sync", "--workers", "2",
          "--ps", "2", "--processes"]
LAYOUTS = [
    ONE_DEVICE,
    [*MIRRORED, "--devices", "cuda:0,cuda:1"],
    [*MIRRORED, "--devices", "cuda:0*2"],
    [*MIRRORED, "--devices", "cuda:0*2,cuda:1"],
    [*WORKERS, "--devices", "cuda:0"],
    [*WORKERS, "--devices", "cuda:0,cuda:1"],
    [*SERVED, "--devices", "cuda:1"],
]


def stand_in(settings=""):
    return {"CUDA_STAND_IN": "devices=2" + settings}


def digests(*flags, steps=29, settings="", job=JOB):
    with Run(*job, *flags, "--epochs", "0", "--steps", str(steps),
             environment=stand_in(settings)) as run:
        summary = run.finish()
        return summary["weights_sha256"], summary["state_sha256"]


class SameBits(unittest.TestCase):
    def test_every_layout_of_gpus_gives_the_same_weights(self):
        want = digests(*ONE_DEVICE)
        for seed, flags in enumerate(LAYOUTS):
            with self.subTest(" ".join(flags)):
                self.assertEqual(digests(*flags, settings=f",seed={seed}"),
                                 want)

    def test_models_give_the_same_weights_on_one_gpu_and_on_two(self):
        for model, data in (
                ("cnn", "synthetic:digits?samples=200"),
                ("transformer:L1-H2-D32-T16",
                 "synthetic:text?samples=20000")):
            with self.subTest(model):
                job = ["--data", data, "--model", model, "--global-batch", "8",
                       "--virtual-ranks", "2", "--seed", "7",
                       "--eval-fraction", "0.1"]
                self.assertEqual(
                    digests(*ONE_DEVICE, steps=3, job=job),
                    digests(*MIRRORED, "--devices", "cuda:0,cuda:1", steps=3,
                            job=job))

    def test_a_gpu_that_is_not_there_is_refused_in_a_line(self):
        error = troupe("train", *JOB, "--devices", "cuda:2", status=1,
                       environment=stand_in())
        self.assertIn("cuda:2: this machine has 2 usable CUDA devices", error)


class Failures(unittest.TestCase):
    def test_a_killed_worker_of_gpus_is_repaired(self):
        for flags in ([*WORKERS, "--devices", "cuda:0"],
                      [*SERVED, "--devices", "cuda:1"]):
            with self.subTest(" ".join(flags)), \
                    Run(*JOB, *ENDLESS, *flags,
                        environment=stand_in()) as run:
                run.wait_for_step(5)
                run.kill("worker:1")
                run.wait_for_step(run.step() + 10)
                summary = run.end()
                self.assertIn("worker:1", [x["role"] for x in
                                           summary["recoveries"]])
                want = digests(*ONE_DEVICE, steps=summary["steps"])
                self.assertEqual((summary["weights_sha256"],
                                  summary["state_sha256"]), want)

    def test_a_device_that_fails_once_ends_its_role_alone(self):
        want = digests(*ONE_DEVICE)
        for settings in ("fail_launch=100", "fail_malloc=5"):
            with self.subTest(settings), \
                    tempfile.TemporaryDirectory() as folder:
                token = os.path.join(folder, "failed")
                with Run(*JOB, "--epochs", "0", "--steps", "29", *SERVED,
                         "--devices", "cuda:0", environment=stand_in(
                             f",{settings},fault_once={token}")) as run:
                    summary = run.finish()
                    self.assertTrue(os.path.exists(token), "nothing failed")
                    self.assertRegex(run.error() + run.output(),
                                     r"worker:\d died .*cuda:0: .*(unspecified"
                                     r" launch failure|out of memory: )")
                    self.assertEqual((summary["weights_sha256"],
                                      summary["state_sha256"]), want)
                    if settings.startswith("fail_launch"):  # it had joined
                        self.assertGreater(len(summary["recoveries"]), 0)


if __name__ == "__main__":
    unittest.main()
