"""--workers MIN:MAX and SIGTERM: a job begins with the workers that are there,
takes in those that come, lets those go that are told to, and ends in one line
when too few are left; the bits do not change. `troupe status` tells who
supervises whom and who holds up a step."""
# ctest: TIMEOUT 1200

import json
import os
import re
import signal
import subprocess
import unittest

from cluster import ENDLESS, TROUPE, Run, wait_for
from own_folder import OwnFolder
from roles import Role

JOB = ["--data", "synthetic:digits?samples=2000", "--model", "mlp:784-64-10",
       "--seed", "5", "--eval-every", "0"]
SERVED = ["--strategy", "parameter_server", "--ps", "1"]
REPLICAS = ["--strategy", "multi_worker_mirrored", "--processes"]
FAULTY_DISK = os.path.abspath(os.path.join(
    os.path.dirname(TROUPE), "..", "tests", "libfaulty_disk.so"))
DIGESTS = ("weights_sha256", "state_sha256")


def status(run):
    address = re.search(r"metrics: http://(\S+)/metrics", run.output())
    done = subprocess.run([TROUPE, "status", address.group(1)],
                          capture_output=True, text=True, timeout=20,
                          check=False)
    return done.stdout


class Elastic(OwnFolder):
    def coordinator(self, *arguments, **how):
        self.summary_path = os.path.join(self.folder, "summary.json")
        self.certificates = os.path.join(self.folder, "certificates")
        return Role(self.addCleanup, "coordinator", "--certificates",
                    self.certificates, "--summary", self.summary_path,
                    *JOB, *SERVED, *arguments, **how)

    def member(self, role, coordinator):
        return Role(self.addCleanup, role, "--coordinator",
                    coordinator.address(), "--certificates",
                    self.certificates)

    def check_bits(self, summary):
        with Run(*JOB, "--epochs", "0", "--steps", str(summary["steps"]),
                 "--strategy", "one_device") as run:
            expected = run.finish()
        for digest in DIGESTS:
            self.assertEqual(summary[digest], expected[digest])
        self.assertEqual(summary["steps_rolled_back"], 0)

    def test_a_job_begins_with_the_least_and_takes_in_who_comes(self):
        coordinator = self.coordinator(*ENDLESS, "--workers", "1:3")
        members = [self.member(role, coordinator)
                   for role in ("ps:0", "worker:1")]
        wait_for(lambda: "epoch 1 " in coordinator.output(), "steps of one")
        members.append(self.member("worker:0", coordinator))
        wait_for(lambda: "3 expected, 3 present" in status(coordinator),
                 "it is there")
        epochs = coordinator.output().count("\nepoch ")
        wait_for(lambda: coordinator.output().count("\nepoch ") > epochs + 1,
                 "steps of two")
        coordinator.process.send_signal(signal.SIGTERM)
        coordinator.finish(143)
        for member in members:
            member.finish(0, 10)
        with open(self.summary_path) as file:
            summary = json.load(file)
        self.check_bits(summary)
        self.assertEqual(summary["recoveries"], [])

    def test_a_job_with_too_few_workers_ends_in_one_line(self):
        coordinator = self.coordinator(*ENDLESS, "--workers", "2:3",
                                       "--join-deadline-ms", "2000")
        members = [self.member(role, coordinator)
                   for role in ("ps:0", "worker:1", "worker:2")]
        wait_for(lambda: "epoch 1 " in coordinator.output(), "steps of two")
        members[1].stop()
        error = coordinator.finish(1)
        self.assertRegex(error, r"^troupe: .*worker:1.* did not join .*\n$")

    def test_a_replica_that_is_told_to_leave_hands_over_and_ends_well(self):
        with Run(*JOB, *REPLICAS, *ENDLESS, "--workers", "2:4") as run:
            run.wait_for_step(50)
            run.kill("worker:3", signal.SIGTERM)
            wait_for(lambda: "worker:3" not in run.children(), "it has left")
            summary = run.end(100)
        self.check_bits(summary)
        self.assertEqual(summary["recoveries"], [])
        self.assertEqual([x["change"] for x in summary["changes"]],
                         ["workers remove worker:3"])

    def test_a_role_that_leaves_is_not_asked_back_by_a_slow_disk(self):
        # Symptom, once in 200 endings: a shard that was told to leave said that
        # it was left out and joined again, and lost the coordinator. Cause: it
        # goes once that is written down; until then it showed a sign of life,
        # and the answer was that another one had taken its place.
        switch = os.path.join(self.folder, "slow")
        coordinator = self.coordinator(
            *ENDLESS, "--workers", "1:2", "--journal",
            os.path.join(self.folder, "run.db"),
            environment={"FAULT_DIR": self.folder, "FAULT_HOW": "slow",
                         "FAULT_WHILE": switch, "FAULT_MS": "1500",
                         "LD_PRELOAD": FAULTY_DISK})
        members = [self.member(role, coordinator)
                   for role in ("ps:0", "worker:0", "worker:1")]
        wait_for(lambda: "epoch 1 " in coordinator.output(), "steps of two")
        with open(switch, "w"):
            members[2].process.send_signal(signal.SIGTERM)
            self.assertEqual(members[2].finish(0, 20), "")
        os.remove(switch)
        coordinator.process.send_signal(signal.SIGTERM)
        coordinator.finish(143)
        for member in members[:2]:
            member.finish(0, 10)

    def test_status_shows_who_supervises_whom_and_who_is_waited_for(self):
        with Run("--data", "synthetic:digits?samples=2000", *SERVED,
                 "--processes", "--workers", "2", "--model", "sleep:20ms",
                 "--slow-worker", "1:50", "--steps", "100000") as run:
            run.metrics_address()
            for pattern in (r"role supervisor: 5 of 5 restarts left.*\n"
                            r"    ps:0 +restarted 0 times\n"
                            r"    worker:0 +restarted 0 times\n"
                            r"    worker:1 +restarted 0 times\n",
                            r"ps:0 waits for worker:1: its gradient",
                            r"worker:0 waits for ps:0: the next version"):
                wait_for(lambda: re.search(
                    pattern, status(run)), pattern)
            wait_for(lambda: "is late: worker:1 computes" in run.output(),
                     "the culprit's name")


if __name__ == "__main__":
    unittest.main()
