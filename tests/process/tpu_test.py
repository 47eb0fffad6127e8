"""Devices of a PJRT plugin, here one that interprets programs: losses are a
CPU's, what is saved is read back, and a device that fails costs no step. Against
XLA itself: tests/peers/pjrt.py."""
# ctest: TIMEOUT 900

import json
import os
import re
import subprocess
import unittest

from cluster import TROUPE, Run, findings
from own_folder import OwnFolder

PLUGIN = "pjrt:" + os.path.abspath(
    os.path.join(os.path.dirname(os.path.abspath(TROUPE)), "..", "tests",
                 "libpjrt_stand_in.so"))
DIGITS = ["--data", "synthetic:digits?samples=300", "--eval-fraction", "0.1",
          "--model", "mlp:784-12-10", "--global-batch", "32", "--seed", "5"]
CLICKS = ["--data", "synthetic:clicks?samples=300", "--model", "wide_deep",
          "--global-batch", "32", "--optimizer", "adagrad", "--seed", "5"]
ONE = ["--strategy", "tpu", "--devices", PLUGIN]
TWO = ["--strategy", "tpu", "--devices", PLUGIN + ":2"]
CPU = ["--strategy", "one_device", "--devices", "cpu:1"]


def summary(*arguments, environment=None):
    with Run(*arguments, environment=environment) as run:
        return run.finish()


class Tpu(OwnFolder):
    def test_losses_are_those_of_a_cpu(self):
        for job in (DIGITS, CLICKS):
            for steps, places in ((1, 1e-5), (12, 1e-3)):
                steps = ["--steps", str(steps)]
                want = summary(*job, *steps, *CPU)["final_loss"]
                for where in (ONE, TWO, ["--strategy", "mirrored", *TWO[2:]],
                              ["--strategy", "one_device", *ONE[2:]]):
                    found = summary(*job, *steps, *where)["final_loss"]
                    self.assertLess(abs(found - want), places * want, where)

    def one_hash(self, job, places, devices=4):
        found = [summary(*job, *place,
                         environment={"STAND_IN_DEVICES": str(devices)})
                 for place in places]
        for name in ("weights_sha256", "state_sha256", "final_loss"):
            self.assertEqual(len({one[name] for one in found}), 1,
                             [one[name] for one in found])
        return found[0]["weights_sha256"]

    def test_who_updates_on_devices_decides_no_bit(self):
        # Of 261 samples the ninth step has five.
        digits = ["--data", "synthetic:digits?samples=290", *DIGITS[2:]]
        for job in (["--clip-norm", "1"],
                    ["--virtual-ranks", "8", "--optimizer", "lamb"]):
            self.one_hash(
                [*digits, "--steps", "10", *job],
                [["--strategy", "tpu", "--devices", f"{PLUGIN}:{count}"]
                 for count in (1, 2, 3, 4)]
                + [["--strategy", "one_device", "--devices", PLUGIN],
                   ["--strategy", "mirrored", "--devices", f"{PLUGIN}:3"],
                   ["--strategy", "multi_worker_mirrored", "--workers", "2",
                    "--devices", f"{PLUGIN}:2"]])
        self.one_hash([*CLICKS, "--steps", "6", "--virtual-ranks", "5"],
                      [["--strategy", "tpu", "--devices", f"{PLUGIN}:{count}"]
                       for count in (1, 3)])

    def test_who_updates_on_the_host_decides_no_bit(self):
        job = [*DIGITS, "--steps", "6"]
        host = self.one_hash(
            job,
            [["--strategy", "central_storage", "--devices", f"{PLUGIN}:{count}"]
             for count in (1, 2)]
            + [["--strategy", "parameter_server", "--workers", "2", "--ps",
                "2", "--devices", PLUGIN]])
        # Else none of these tests would know who did.
        self.assertNotEqual(host, self.one_hash(job, [ONE, TWO]))

    def test_devices_may_sum_in_an_order_of_their_own(self):
        job = [*DIGITS, "--steps", "6", "--strategy", "tpu", "--reduction",
               "fast", "--devices"]
        found = [summary(*job, f"{PLUGIN}:{count}",
                         environment={"STAND_IN_DEVICES": "4"})["final_loss"]
                 for count in ("1", "4")]
        self.assertLess(abs(found[0] - found[1]), 1e-3 * found[0])

    def test_a_worker_with_several_devices_is_started_again(self):
        kept = ["--steps", "12", "--checkpoint-every", "4", "--checkpoint-dir"]
        calm = summary(*DIGITS, *TWO, *kept, self.path("calm"))
        for name, where in (
                ("alone", TWO),
                ("beside", ["--strategy", "multi_worker_mirrored", "--workers",
                            "2", *TWO[2:]])):
            marker = self.path(name + "_failed")
            failed = summary(*DIGITS, *where, *kept, self.path(name),
                             environment={"STAND_IN_FAILS": f"25:{marker}"})
            self.assertTrue(os.path.exists(marker))
            self.assertEqual(len(failed["recoveries"]), 1)
            self.assertEqual(failed["weights_sha256"], calm["weights_sha256"])

    def test_a_plan_shows_devices_that_are_one_worker(self):
        plan = subprocess.run([TROUPE, "plan", *DIGITS, *TWO],
                              capture_output=True, text=True, timeout=60,
                              check=True).stdout
        self.assertRegex(plan, r"worker:0 +pjrt:\S+:0-1 ")
        self.assertNotIn("worker:1", plan)
        self.assertIn("on the devices, fixed tree", plan)
        need, of, everything, of_all = re.search(
            r"worker:0 needs about ([\d.]+) (\w+) .* on each of 2 devices\n"
            r"  all: ([\d.]+) (\w+)", plan).groups()
        units = {"bytes": 1, "KiB": 2 ** 10, "MiB": 2 ** 20}
        self.assertAlmostEqual(float(everything) * units[of_all]
                               / (float(need) * units[of]), 2, places=1)

    def test_a_run_goes_on_from_a_checkpoint_and_its_weights_are_used(self):
        kept = ["--checkpoint-dir", self.path("kept"), "--checkpoint-every",
                "4", "--optimizer", "adam", "--clip-norm", "1"]
        whole = summary(*DIGITS, *ONE, *kept[4:], "--steps", "12", "--save",
                        self.path("w.safetensors"))
        summary(*DIGITS, *ONE, *kept, "--steps", "8")
        rest = summary(*DIGITS, *ONE, *kept, "--steps", "12", "--resume")
        for name in ("weights_sha256", "state_sha256"):
            self.assertEqual(rest[name], whole[name])
        found = []
        for devices in ("cpu:1", PLUGIN):
            done = subprocess.run(
                [TROUPE, "evaluate", *DIGITS[:2], "--model", DIGITS[5],
                 "--checkpoint", self.path("w.safetensors"), "--devices",
                 devices, "--summary", self.path("scores.json")],
                capture_output=True, text=True, timeout=300, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(self.path("scores.json")) as file:
                found.append(json.load(file)["eval"])
        self.assertEqual(found[0]["accuracy"], found[1]["accuracy"])
        self.assertLess(abs(found[0]["loss"] - found[1]["loss"]), 1e-4)

    def test_a_device_that_fails_is_repaired(self):
        job = [*DIGITS, "--steps", "12", "--devices", PLUGIN, "--strategy",
               "multi_worker_mirrored", "--workers", "2"]
        calm = summary(*job)
        for how in ("", "late "):  # at once, and where results are read
            marker = self.path(f"{how}failed")
            failed = summary(
                *job, environment={"STAND_IN_FAILS": f"{how}13:{marker}"})
            self.assertTrue(os.path.exists(marker))
            self.assertEqual(len(failed["recoveries"]), 1)
            self.assertEqual(failed["weights_sha256"], calm["weights_sha256"])

    def test_what_was_not_tried_is_said(self):
        with Run(*DIGITS, *ONE, "--steps", "2") as run:
            run.finish()
            self.assertRegex(run.output(), r"not on a TPU.*docs/tpu\.md")

    def test_what_a_plugin_cannot_do_is_a_line(self):
        for settings, devices, why in (
                ({"STAND_IN_VERSION": "1.2"}, PLUGIN, r"version 1\.2"),
                ({"STAND_IN_FAILS": "client"}, PLUGIN, "no chip is free"),
                ({}, PLUGIN + ":3", "has 2 devices"),
                ({"STAND_IN_FAULTY": "1"}, PLUGIN + ":2",
                 r":1 has other bits of the gradient of .* faulty"),
                ({"STAND_IN_FAILS": "compile"}, PLUGIN, "too large")):
            with Run(*DIGITS, "--strategy", "tpu", "--devices", devices,
                     environment=settings) as run:
                run.finish(status=1)
                lines = [line for line in run.error().splitlines()
                         if re.search(why, line)]
                self.assertEqual(len(lines), 1, run.error())

    def test_the_doctor_tries_it(self):
        for settings, devices, found in (
                ({}, PLUGIN + ":2", r"^ok +--devices .*as on a processor; PJRT"),
                ({"STAND_IN_FAILS": "client"}, PLUGIN,
                 "^WRONG +--devices .*no chip is free"),
                ({"STAND_IN_FAULTY": "1"}, PLUGIN + ":2",
                 "^WRONG +--devices .*faulty"),
                ({"STAND_IN_FAILS": "3:" + self.path("failed")}, PLUGIN,
                 "^WRONG +--devices .*uncorrectable memory error"),
                ({"STAND_IN_FAILS": "late 3:" + self.path("late")}, PLUGIN,
                 "^WRONG +--devices .*a download: uncorrectable memory error"),
                ({}, PLUGIN + ":3", "^WRONG +--devices .*has 2 devices; use")):
            self.assertRegex(findings("--devices", devices,
                                      environment=settings), "(?m)" + found)

    def test_strategies_that_need_parts_of_a_graph_are_refused(self):
        for strategy in (["pipeline"], ["tensor"],
                         ["fully_sharded", "--workers", "2"]):
            with Run(*DIGITS, "--devices", PLUGIN, "--strategy",
                     *strategy) as run:
                run.finish(status=2)
                self.assertIn("CPUs and GPUs only", run.error())


if __name__ == "__main__":
    unittest.main()
