# ctest: TIMEOUT 400 RUN_SERIAL TRUE
"""Switching a running job with `troupe ctl`, and steps without their
stragglers, while shards and workers are killed."""

import re
import subprocess
import unittest

from cluster import DEADLINE_S, TROUPE, Run, wait_for

# Waits instead of computing, but its gradients are real: bits show what is
# lost or applied twice.
JOB = ["--data", "synthetic:digits?samples=2000", "--model", "sleep:2ms-5000",
       "--partitioner", "fixed:5", "--optimizer", "adam", "--eval-every", "0",
       "--epochs", "0", "--global-batch", "50"]
SERVED = [*JOB, "--strategy", "parameter_server", "--ps", "2"]


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
    def test_switches_and_kills_together_do_not_change_the_bits(self):
        job = ["--virtual-ranks", "1", "--steps", "1500"]
        with Run(*JOB, *job, "--strategy", "one_device") as undisturbed:
            expected = undisturbed.finish()
        with Run(*SERVED, *job, "--workers", "1") as run:
            run.wait_for_step(20)
            self.switch(run, "staleness:0")
            for role in ("ps:1", "worker:0"):
                self.kill(run, role)
            self.switch(run, "sync")
            for role in ("ps:0", "worker:0"):
                self.kill(run, role)
            self.switch(run, "staleness:0")
            summary = run.finish()
        self.assertEqual(len(summary["recoveries"]), 4)
        self.assertEqual([x["mode"] for x in summary["consistency"]["switches"]],
                         ["staleness:0", "sync", "staleness:0"])
        self.assertEqual(summary["steps_rolled_back"], 0)
        self.assertEqual(summary["samples"], expected["samples"])
        self.assertEqual(summary["weights_sha256"], expected["weights_sha256"])
        self.assertEqual(summary["state_sha256"], expected["state_sha256"])

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

    def test_what_cannot_be_switched_is_refused_with_one_line(self):
        with Run(*SERVED, "--workers", "2", "--steps", "2000") as run:
            run.wait_for_step(5)
            self.assertIn("already", switch(run, "sync").stdout)
            done = switch(run, "fast")
            self.assertEqual(done.returncode, 2)
            self.assertRegex(done.stderr, r"^troupe: .*staleness:N.*\n$")
            run.process.terminate()


class Stragglers(unittest.TestCase):
    # The shard that decides dies, too: what it decided is in its memory.
    def test_kills_do_not_undo_what_a_step_is_made_of(self):
        with Run(*SERVED, "--workers", "3", "--steps", "600", "--reduction",
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
