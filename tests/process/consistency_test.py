# ctest: TIMEOUT 1200
"""Switching a running job with `troupe ctl`, and steps without their
stragglers, while shards and workers are killed."""

import re
import subprocess
import unittest

from cluster import DEADLINE_S, ENDLESS, TROUPE, Run, wait_for

# Waits instead of computing, but its gradients are real: bits show what is
# lost or applied twice.
JOB = ["--data", "synthetic:digits?samples=2000", "--model", "sleep:2ms-5000",
       "--partitioner", "fixed:5", "--optimizer", "adam", "--eval-every", "0",
       "--epochs", "0", "--global-batch", "50"]
SERVED = [*JOB, "--strategy", "parameter_server", "--ps", "2"]
# The same of a table's rows, and of layers beside it.
ROWS = ["--data", "synthetic:rows?samples=400&ids=8&vocabulary=900", "--model",
        "sleep:2ms-4-3", "--optimizer", "adam", "--eval-every", "0", "--epochs",
        "0", "--global-batch", "8", "--strategy", "parameter_server"]


def switch(run, mode):
    """Asks the run's coordinator; returns the finished process."""
    found = wait_for(lambda: re.search(
        r"coordinator: (\S+), certificates (\S+)", run.output()),
        "the coordinator's address")
    return subprocess.run(
        [TROUPE, "ctl", "consistency", mode, "--coordinator", found.group(1),
         "--certificates", found.group(2)],
        capture_output=True, text=True, timeout=DEADLINE_S, check=False)


class Switching(unittest.TestCase):
    def switch(self, run, mode):
        done = switch(run, mode)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(mode, done.stdout)

    def kill(self, run, role):
        """And waits until the run goes on without the dead process."""
        pid = run.kill(role)
        wait_for(lambda: run.children().get(role) not in (None, pid),
                 f"{role} is back")
        run.wait_for_step(run.step() + 20)

    # One virtual rank in lockstep: every lease is computed on the newest
    # parameters, as a synchronous step is. So the bits must not change.
    def keeps_bits(self, served, undisturbed, free=(), in_steps=()):
        # So one that is ended has whole steps, too.
        job = ["--virtual-ranks", "1", "--steps"]
        with Run(*served, *job, ENDLESS[-1]) as run:
            run.wait_for_step(20)
            self.switch(run, "staleness:0")
            for role in free:
                self.kill(run, role)
            self.switch(run, "sync")
            for role in in_steps:
                self.kill(run, role)
            self.switch(run, "staleness:0")
            summary = run.end(50)
        with Run(*undisturbed, *job, str(summary["steps"])) as run:
            expected = run.finish()
        self.assertEqual(len(summary["recoveries"]), len(free + in_steps))
        self.assertEqual([x["mode"] for x in summary["consistency"]["switches"]],
                         ["staleness:0", "sync", "staleness:0"])
        self.assertEqual(summary["steps_rolled_back"], 0)
        self.assertEqual(summary["samples"], expected["samples"])
        self.assertEqual(summary["weights_sha256"], expected["weights_sha256"])
        self.assertEqual(summary["state_sha256"], expected["state_sha256"])

    def test_switches_and_kills_together_do_not_change_the_bits(self):
        self.keeps_bits([*SERVED, "--workers", "1"],
                        [*JOB, "--strategy", "one_device"],
                        ("ps:1", "worker:0"), ("ps:0", "worker:0"))

    def test_rows_of_tables_keep_theirs_as_well(self):
        once = [*ROWS, "--in-process", "--workers", "1"]
        self.keeps_bits([*ROWS, "--workers", "1", "--ps", "2"], once,
                        ("ps:1", "worker:0"), ("ps:0", "worker:0"))
        self.keeps_bits([*ROWS, "--workers", "1", "--ps", "2", "--chain", "2"],
                        once, ("ps:3", "worker:0"), ("ps:0", "ps:1"))

    # The lone worker has the layers, so it must not die. While rows run free a
    # push that is lost is computed again with newer layers.
    def test_rows_beside_layers_are_let_run_free_and_taken_back(self):
        reduced = [*ROWS, "--workers", "1", "--dense", "all_reduced"]
        self.keeps_bits([*reduced, "--ps", "2", "--chain", "2"],
                        [*reduced, "--in-process"],
                        in_steps=("ps:3", "ps:1", "ps:0", "ps:2"))

    def test_many_workers_switch_and_lose_no_sample(self):
        with Run(*SERVED, "--workers", "3", "--steps", "1000") as run:
            for mode in ("async", "sync", "staleness:2"):
                run.wait_for_step(run.step() + 20)
                self.switch(run, mode)
                self.kill(run, "worker:1")
            summary = run.finish()
        self.assertEqual(len(summary["consistency"]["switches"]), 3)
        self.assertEqual(summary["steps"], 1000)
        self.assertEqual(summary["steps_rolled_back"], 0)

    def test_many_workers_with_tables_switch_and_lose_no_sample(self):
        for dense in ("shards", "all_reduced"):
            with self.subTest(dense=dense), \
                    Run(*ROWS, "--workers", "3", "--ps", "2", "--steps", "1000",
                        "--dense", dense) as run:
                for mode in ("async", "sync", "staleness:2", "staleness:4"):
                    run.wait_for_step(run.step() + 20)
                    self.switch(run, mode)
                    self.kill(run, "worker:1")
                summary = run.finish()
                self.assertEqual(len(summary["consistency"]["switches"]), 4)
                self.assertEqual(summary["steps"], 1000)
                self.assertEqual(summary["samples"], 8000)
                self.assertEqual(summary["steps_rolled_back"], 0)

    def test_what_cannot_be_switched_is_refused_with_one_line(self):
        with Run(*SERVED, "--workers", "2", "--steps", "2000") as run:
            run.wait_for_step(5)
            self.assertIn("already", switch(run, "sync").stdout)
            done = switch(run, "fast")
            self.assertEqual(done.returncode, 2)
            self.assertRegex(done.stderr, r"^troupe: .*staleness:N.*\n$")
            run.process.terminate()
        # Rows make up updates by the rates of steps.
        with Run(*ROWS, "--workers", "2", "--steps", "2000", "--tables",
                 "sparse", "--sparse-updates", "exact") as run:
            run.wait_for_step(5)
            done = switch(run, "staleness:2")
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr,
                             r"^troupe: .*--sparse-updates exact.*\n$")
            run.process.terminate()


class Stragglers(unittest.TestCase):
    # The shard that decides dies, too: what it decided is in its memory.
    def test_kills_do_not_undo_what_a_step_is_made_of(self):
        self.goes_on(*SERVED)

    def test_rows_of_stragglers_are_left_out_as_well(self):
        self.goes_on(*ROWS, "--tables", "sparse", "--ps", "2")

    def goes_on(self, *served):
        with Run(*served, "--workers", "3", "--steps", "600", "--reduction",
                 "fast", "--backup-workers", "1", "--slow-worker",
                 "2:10") as run:
            for role in ("ps:0", "worker:0", "ps:1", "worker:2"):
                run.wait_for_step(run.step() + 20)
                run.kill(role)
            summary = run.finish()
        self.assertEqual(len(summary["recoveries"]), 4)
        self.assertEqual(summary["steps"], 600)
        self.assertEqual(summary["steps_rolled_back"], 0)
        self.assertGreater(summary["consistency"]["late_gradients_dropped"], 0)


if __name__ == "__main__":
    unittest.main()
