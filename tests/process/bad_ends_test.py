"""Runs that end badly, or early: one line on standard error that says what and
where, the right status, and neither a process nor a folder left behind."""
# ctest: TIMEOUT 1200

import os
import re
import signal
import socket
import time
import unittest

from cluster import Run, wait_for
from own_folder import OwnFolder
from processes import holds_back, processes_of

DATA = ["--data", "synthetic:digits?samples=2000"]
OPTIONS = ["--model", "mlp:784-48-10", "--eval-fraction", "0.1",
           "--global-batch", "64", "--virtual-ranks", "4", "--seed", "7"]
JOB = [*DATA, *OPTIONS]
ONE_DEVICE = ["--strategy", "one_device"]
MIRRORED = ["--strategy", "mirrored", "--devices", "cpu:2"]
PROCESSES = ["--strategy", "parameter_server", "--processes", "--workers", "2",
             "--ps", "2"]
IN_PROCESS = ["--strategy", "parameter_server", "--in-process", "--workers",
              "2", "--ps", "2"]
EVERY_WAY = (ONE_DEVICE, MIRRORED, IN_PROCESS, PROCESSES)
ENDLESS = ["--epochs", "1000000"]
# The first update makes numbers whose products are not finite.
DIVERGING = ["--optimizer", "sgd", "--lr", "1e30"]


class BadEnds(OwnFolder):
    def setUp(self):
        super().setUp()
        self.scratch = os.path.join(self.folder, "scratch")
        os.mkdir(self.scratch)

    def start(self, *arguments):
        """A run whose temporary files and processes are told from others."""
        data = [] if "--data" in arguments else DATA
        run = Run(*data, *OPTIONS, *arguments,
                  environment={"TMPDIR": self.scratch,
                               "XDG_STATE_HOME": self.path("state")})
        self.addCleanup(run.__exit__)
        return run

    def check_nothing_is_left(self, but=r"$"):
        self.assertEqual(os.listdir(self.scratch), [])
        own = self.path("state/troupe")
        self.assertEqual([x for x in (os.listdir(own) if os.path.exists(own)
                                      else []) if not re.match(but, x)], [])
        self.assertEqual(processes_of(self.scratch), [])

    def check_failure(self, pattern, *arguments):
        """Status 1 and one line, loud or quiet; returns the line."""
        for quiet in ([], ["--quiet"]):
            run = self.start(*arguments, *quiet)
            self.assertIsNone(run.finish(1), "a summary of a failed run")
            self.assertRegex(run.error(), r"\Atroupe: [^\n]+\n\Z")
            self.assertRegex(run.error(), pattern)
            if quiet:
                self.assertEqual(run.output(), "")
            self.check_nothing_is_left("flight-")  # of what it failed in
        return run.error()

    # --- failures -------------------------------------------------------------

    def test_a_loss_that_is_not_finite_names_step_and_virtual_rank(self):
        steps = set()
        for strategy in EVERY_WAY:
            with self.subTest(strategy=strategy):
                saved = self.path("diverged.safetensors")
                line = self.check_failure(
                    r"NaN loss at step \d+ in virtual rank [0-3]\b",
                    *strategy, *DIVERGING, "--save", saved)
                steps.add(re.search(r"step (\d+)", line).group(1))
                self.assertFalse(os.path.exists(saved))
        self.assertEqual(len(steps), 1, steps)

    # Symptom: where the last update made the weights useless, no loss was
    # computed any more that could end the run: it ended with `eval loss -`.
    def test_weights_that_give_no_finite_loss_get_a_line(self):
        for strategy in EVERY_WAY:
            with self.subTest(strategy=strategy):
                run = self.start(*strategy, *DIVERGING, "--steps", "1")
                summary = run.finish()
                self.assertIsNone(summary["eval"]["loss"])
                self.assertEqual(len(re.findall(
                    r"the loss on held-out samples is not finite after step 1: "
                    r"lower --lr", run.output())), 1, run.output())

    # Symptom: a run that was refused left empty folders that it had made.
    def test_a_refused_run_leaves_no_folder_that_it_made(self):
        there = self.path("there")
        os.mkdir(there)
        made = self.path("made")
        folders = ["--flight", f"{made}/deep/flight", "--checkpoint-dir",
                   f"{made}/kept"]
        for strategy in (ONE_DEVICE, MIRRORED, IN_PROCESS):
            with self.subTest(strategy=strategy):
                self.check_failure("none.csv", "--data", "csv:none.csv",
                                   *strategy, *folders, "--log-dir",
                                   f"{made}/logs")
                self.assertFalse(os.path.exists(made))
        # What a coordinator said of it stays.
        self.check_failure("none.csv", "--data", "csv:none.csv", *PROCESSES,
                           *folders, "--log-dir", self.path("logs"))
        self.assertFalse(os.path.exists(made))
        self.check_failure("none.csv", "--data", "csv:none.csv", *PROCESSES,
                           "--checkpoint-dir", there, "--flight",
                           f"{there}/flight")
        self.assertEqual(os.listdir(there), [])
        # Its weights cannot be those that the run begins with.
        with open(self.path("bad"), "w") as file:
            file.write("x")
        for strategy in EVERY_WAY:
            with self.subTest(strategy=strategy):
                self.check_failure("bad", *strategy, *folders,
                                   "--initial-weights", self.path("bad"))
                self.assertFalse(os.path.exists(made))

    def test_a_port_in_use_for_metrics_is_named(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            for strategy in EVERY_WAY:
                with self.subTest(strategy=strategy):
                    self.check_failure(re.escape(address), *strategy,
                                       "--metrics-address", address)

    def test_a_port_in_use_for_roles_is_named(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            self.check_failure(re.escape(address), *PROCESSES, "--listen",
                               address)

    def test_missing_and_broken_data_is_named(self):
        broken = self.path("broken")
        os.mkdir(broken)
        for kind in ("images-idx3", "labels-idx1"):
            with open(f"{broken}/train-{kind}-ubyte", "wb") as file:
                file.write(b"\0\0\x08\x03\0")
        for strategy in EVERY_WAY:
            for folder in (self.path("nowhere"), broken):
                with self.subTest(strategy=strategy, folder=folder):
                    self.check_failure(re.escape(folder), *strategy, "--data",
                                       f"mnist:{folder}")

    # --- signals --------------------------------------------------------------

    def stop(self, run, how, within_s=2):
        """Sends the signal and returns the summary."""
        begin = time.monotonic()
        run.process.send_signal(how)
        summary = run.finish(128 + how, 30)
        self.assertLess(time.monotonic() - begin, within_s)
        return summary

    def check_stopped(self, run, how, saved):
        summary = self.stop(run, how)
        self.check_nothing_is_left()
        self.assertIsNotNone(summary, run.error())
        word = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
        self.assertRegex(run.error(), rf"\Atroupe: {word[how]} after step "
                         rf"{summary['steps']} of \d+: weights saved to "
                         rf"{re.escape(saved)}\n\Z")
        self.assertTrue(os.path.exists(saved))
        os.remove(saved)
        if summary["steps"] == 0:
            return
        with Run(*JOB, *ONE_DEVICE, "--steps", str(summary["steps"])) as same:
            self.assertEqual(same.finish()["weights_sha256"],
                             summary["weights_sha256"])

    def test_ctrl_c_and_sigterm_end_every_kind_of_run_and_save(self):
        saved = self.path("weights.safetensors")
        for strategy in EVERY_WAY:
            for how in (signal.SIGINT, signal.SIGTERM):
                with self.subTest(strategy=strategy, how=how.name):
                    run = self.start(*strategy, *ENDLESS, "--save", saved)
                    run.wait_for_step(20)
                    self.check_stopped(run, how, saved)

    def test_ctrl_c_before_the_first_step_ends_and_saves_too(self):
        # A stop before the first epoch was lost: workers that still connected
        # to the shards dropped it, and went on until the deadline.
        saved = self.path("weights.safetensors")
        for role in ("ps:0", "ps:1", "worker:0", "worker:1"):
            with self.subTest(role=role):
                run = self.start(*PROCESSES, *ENDLESS, "--save", saved)
                run.role(role)
                self.check_stopped(run, signal.SIGINT, saved)

    def test_ctrl_c_while_a_role_comes_back_saves_too(self):
        saved = self.path("weights.safetensors")
        for role in ("worker:0", "ps:0"):
            with self.subTest(role=role):
                run = self.start(*PROCESSES, *ENDLESS, "--save", saved)
                run.wait_for_step(20)
                run.kill(role)
                self.check_stopped(run, signal.SIGINT, saved)

    def test_ctrl_c_quietly_prints_its_line_alone(self):
        for strategy in (MIRRORED, PROCESSES):
            with self.subTest(strategy=strategy):
                run = self.start(*strategy, *ENDLESS, "--quiet", "--save",
                                 self.path("quiet.safetensors"))
                # Nothing is printed by which to know: all roles run.
                wait_for(lambda: len(processes_of(self.scratch))
                         == (6 if strategy is PROCESSES else 1)
                         and holds_back(run.process.pid, signal.SIGINT), "the run runs")
                self.stop(run, signal.SIGINT)
                self.assertEqual(run.output(), "")
                self.assertRegex(run.error(),
                                 r"\Atroupe: interrupted [^\n]+\n\Z")
                self.check_nothing_is_left()

    def test_nothing_to_save_is_said(self):
        for strategy in (MIRRORED, PROCESSES):
            with self.subTest(strategy=strategy):
                run = self.start(*strategy, *ENDLESS)
                run.wait_for_step(1)
                self.stop(run, signal.SIGINT)
                self.assertRegex(run.error(), r"\Atroupe: interrupted after "
                                 r"step \d+ of \d+: nothing was saved .*\n\Z")

    # --- what does not end badly ----------------------------------------------

    def test_quiet_prints_nothing_and_success_leaves_nothing(self):
        for strategy in EVERY_WAY:
            with self.subTest(strategy=strategy):
                for quiet in ([], ["--quiet"]):
                    run = self.start(*strategy, *quiet)
                    run.finish()
                    self.assertEqual(run.error(), "")
                    self.assertEqual(run.output() == "", quiet != [])
                    self.check_nothing_is_left()

    def test_two_runs_at_a_time_do_not_disturb_each_other(self):
        job = ["--epochs", "30"]
        with Run(*JOB, *ONE_DEVICE, *job) as run:
            expected = run.finish()["weights_sha256"]
        with Run(*JOB, *ONE_DEVICE, *job[:-1], "31") as run:
            other = run.finish()
        self.assertNotEqual(other["weights_sha256"], expected)
        runs = [self.start(*PROCESSES, *job),
                self.start(*PROCESSES, *job[:-1], "31"),
                self.start(*MIRRORED, *job)]
        summaries = [run.finish() for run in runs]
        self.assertEqual([x["weights_sha256"] for x in summaries],
                         [expected, other["weights_sha256"], expected])
        self.assertEqual([x["recoveries"] for x in summaries], [[], [], []])
        self.check_nothing_is_left()

    def test_the_end_of_one_run_is_not_the_end_of_another(self):
        job = ["--epochs", "100"]
        with Run(*JOB, *ONE_DEVICE, *job) as run:
            expected = run.finish()["weights_sha256"]
        staying = self.start(*PROCESSES, *job)
        leaving = [self.start(*PROCESSES, *ENDLESS) for _ in range(2)]
        for run in leaving:
            run.wait_for_step(1)
        self.stop(leaving[0], signal.SIGINT, 10)
        leaving[1].process.kill()
        leaving[1].process.wait()
        self.assertIsNone(staying.process.poll(), "too early for the test")
        self.assertEqual(staying.finish()["weights_sha256"], expected)


if __name__ == "__main__":
    unittest.main()
