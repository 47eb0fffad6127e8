"""Workers on two hosts, which are network namespaces, by the README's commands
alone: each is reached where the coordinator sees it. Who cannot be reached is
named with the flag that mends it, and the run does not stand still."""
# Symptom: a worker of multi_worker_mirrored announced 127.0.0.1 to the other
# host, and an error was repeated for ever at step 0.
# ctest: TIMEOUT 300

import json
import re
import subprocess
import unittest

from cluster import TROUPE, Run, metrics_address, wait_for
from hosts import Hosts, skip_unless_possible
from own_folder import OwnFolder
from roles import Role

JOB = ["--data", "synthetic:digits?samples=2000", "--model", "mlp:784-48-10",
       "--seed", "7", "--epochs", "2"]
MIRRORED = ["--strategy", "multi_worker_mirrored", "--workers", "2"]
SERVED = ["--strategy", "parameter_server", "--workers", "2", "--ps", "1"]


class ReachableHosts(OwnFolder):
    def setUp(self):
        super().setUp()
        self.hosts = Hosts(2)
        self.addCleanup(self.hosts.close)

    def coordinator(self, *job):
        role = Role(self.addCleanup, "coordinator", "--listen",
                    f"{self.hosts.address(0)}:7000", "--certificates",
                    self.path("certificates"), "--summary",
                    self.path("summary"), *JOB, *job, on=self.hosts.on(0))
        self.address = role.address()
        return role

    def member(self, role, host, *arguments):
        return Role(self.addCleanup, role, "--coordinator", self.address,
                    "--certificates", self.path("certificates"), *arguments,
                    on=self.hosts.on(host))

    def check(self, coordinator, members):
        coordinator.finish()
        for member in members:
            member.finish()
        with open(self.path("summary")) as file:
            summary = json.load(file)
        with Run(*JOB, "--strategy", "one_device") as run:
            self.assertEqual(summary["weights_sha256"],
                             run.finish()["weights_sha256"])

    def test_replicas_reach_one_another_without_a_flag(self):
        coordinator = self.coordinator(*MIRRORED)
        self.check(coordinator, [self.member("worker:0", 0),
                                 self.member("worker:1", 1)])

    def test_a_shard_is_reached_without_a_flag(self):
        coordinator = self.coordinator(*SERVED)
        self.check(coordinator, [self.member("ps:0", 1),
                                 self.member("worker:0", 0),
                                 self.member("worker:1", 1)])

    def test_hosts_are_given_longer_before_silence_counts_as_loss(self):
        """A second of silence, as on one host, is a network's usual hiccup."""
        coordinator = Role(
            self.addCleanup, "coordinator", "--listen",
            f"{self.hosts.address(0)}:0", "--certificates",
            self.path("certificates"), *JOB[:-1], "1000000", *MIRRORED,
            on=self.hosts.on(0))
        self.address = coordinator.address()
        for host in (0, 1):
            self.member(f"worker:{host}", host)
        wait_for(lambda: "epoch 1 " in coordinator.output(), "an epoch")

        def silence():
            done = subprocess.run(
                [*self.hosts.on(0), TROUPE, "status",
                 metrics_address(coordinator)], capture_output=True, text=True,
                timeout=60, check=True)
            return float(re.search(r"silence of (\S+) s counts as loss",
                                   done.stdout).group(1))
        wait_for(lambda: silence() >= 3, "three seconds", 20)
        coordinator.process.terminate()
        coordinator.finish(143)

    def check_named(self, job, members, whom):
        coordinator = self.coordinator(*job)
        for member in members:
            self.member(*member)
        error = coordinator.finish(1, 40)
        self.assertRegex(error, rf"\Atroupe: roles do not reach one another.*"
                         rf"{whom}.*--listen HOST:PORT.*\n\Z")
        self.assertIn(whom, coordinator.output())

    def test_a_replica_that_is_not_reached_is_named_with_the_flag(self):
        self.check_named(MIRRORED,
                         [("worker:0", 0, "--listen", "127.0.0.1:0"),
                          ("worker:1", 1)],
                         "worker:0")

    def test_a_shard_that_is_not_reached_is_named_with_the_flag(self):
        self.check_named(SERVED,
                         [("ps:0", 0, "--listen", "127.0.0.1:0"),
                          ("worker:0", 0), ("worker:1", 1)], "ps:0")


if __name__ == "__main__":
    skip_unless_possible()
    unittest.main()
