"""A job over four hosts, which are network namespaces: each role listens on and
announces its host's address, and the weights are those of one process (I3)."""
# ctest: TIMEOUT 1200

import json
import os
import tempfile
import unittest

from cluster import Run, wait_for
from hosts import Hosts, certificates_on, skip_unless_possible
from roles import Role

JOB = ["--data", "synthetic:digits?samples=2000", "--model", "mlp:784-48-10",
       "--eval-fraction", "0.1", "--global-batch", "64", "--virtual-ranks",
       "4", "--seed", "7"]
LONG_JOB = [*JOB, "--epochs", "60"]
SERVED = ["--strategy", "parameter_server", "--workers", "2", "--ps", "2"]
# Beside the coordinator on host 0.
PLACES = {"ps:0": 1, "ps:1": 2, "worker:0": 2, "worker:1": 3}
# How a frame of a link begins: "TRLK" and the version.
FRAME = b"TRLK\x01\x00"
MIRRORED = ["--strategy", "multi_worker_mirrored", "--workers", "4"]
# Two hosts share no memory; two workers of one host do, and all use streams.
MIRRORED_PLACES = {"worker:0": 1, "worker:1": 2, "worker:2": 2, "worker:3": 3}
DIGESTS = ("weights_sha256", "state_sha256", "steps")


class LinkHosts(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.hosts = Hosts(4)
        self.addCleanup(self.hosts.close)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def coordinator(self, *arguments, listen="{}:0"):
        return Role(self.addCleanup, "coordinator", "--certificates",
                    self.path("certificates-0"), "--summary",
                    self.path("summary"), "--listen",
                    listen.format(self.hosts.address(0)), *arguments,
                    on=self.hosts.on(0))

    def member(self, role, host, address, listen="{}:0"):
        return Role(self.addCleanup, role, "--coordinator", address,
                    "--certificates", certificates_on(host, self.folder.name),
                    "--listen",
                    listen.format(self.hosts.address(host)),
                    on=self.hosts.on(host))

    def expected(self, *job):
        with Run(*job, "--strategy", "one_device") as run:
            return run.finish()

    def summary(self):
        with open(self.path("summary")) as file:
            return json.load(file)

    def check_digests(self, job):
        summary, expected = self.summary(), self.expected(*job)
        for name in DIGESTS:
            self.assertEqual(summary[name], expected[name])
        return summary

    def check_strategy(self, flags, places):
        coordinator = self.coordinator(*JOB, *flags)
        address = coordinator.address()
        self.assertTrue(address.startswith(self.hosts.address(0) + ":"))
        members = [self.member(role, host, address)
                   for role, host in places.items()]
        coordinator.finish()
        for member in members:
            member.finish(0, 10)
        summary = self.check_digests(JOB)
        self.assertEqual(summary["recoveries"], [])
        self.assertEqual(coordinator.error(), "")

    def test_a_parameter_server_over_hosts_makes_the_same_weights(self):
        self.check_strategy(SERVED, PLACES)

    def test_mirrored_workers_over_hosts_speak_under_tls(self):
        with self.hosts.wire(FRAME) as wire:
            self.check_strategy(MIRRORED, MIRRORED_PLACES)
        self.assertGreater(wire.packets, 1000)
        self.assertEqual(wire.found, 0)

    def test_mirrored_workers_speak_plainly_when_told_to(self):
        with self.hosts.wire(FRAME) as wire:
            self.check_strategy([*MIRRORED, "--link-encryption", "off"],
                                MIRRORED_PLACES)
        self.assertGreater(wire.found, 10)

    def check_shared_memory_is_refused(self, flags, places):
        coordinator = self.coordinator(*JOB, *flags, "--link", "shm")
        address = coordinator.address()
        for role, host in places.items():
            self.member(role, host, address)
        self.assertRegex(coordinator.finish(1),
                         r"\Atroupe: .*different hosts.*\n\Z")

    def test_mirrored_shared_memory_between_hosts_is_refused_in_one_line(self):
        self.check_shared_memory_is_refused(MIRRORED, MIRRORED_PLACES)

    def test_served_shared_memory_between_hosts_is_refused_in_one_line(self):
        self.check_shared_memory_is_refused(SERVED, PLACES)

    def test_who_listens_everywhere_is_reached_by_its_hosts_address(self):
        coordinator = self.coordinator(*JOB, *SERVED, listen="0.0.0.0:0")
        port = coordinator.address().rsplit(":", 1)[1]
        address = f"{self.hosts.address(0)}:{port}"
        members = [self.member(role, host, address, listen="0.0.0.0:0")
                   for role, host in PLACES.items()]
        coordinator.finish()
        for member in members:
            member.finish(0, 10)
        self.check_digests(JOB)

    def check_cut(self, flags, places, lost):
        """The weights stay although a worker's host is cut off in the middle;
        another host takes its place."""
        coordinator = self.coordinator(*LONG_JOB, *flags)
        address = coordinator.address()
        members = {role: self.member(role, host, address)
                   for role, host in places.items()}
        wait_for(lambda: "epoch 1 " in coordinator.output(), "an epoch's end")
        self.hosts.unplug(places[lost])
        wait_for(lambda: f"{lost} is left out" in coordinator.output(),
                 "its silence is noticed")
        members[lost] = self.member(lost, 1, address)
        coordinator.finish()
        for member in members.values():
            member.finish(0, 10)
        summary = self.check_digests(LONG_JOB)
        self.assertIn(lost, [one["role"] for one in summary["recoveries"]])

    def test_a_served_worker_that_is_cut_off_is_replaced_on_another_host(self):
        self.check_cut(SERVED, PLACES, "worker:1")

    def test_a_mirrored_worker_that_is_cut_off_is_replaced_too(self):
        self.check_cut(MIRRORED, MIRRORED_PLACES, "worker:3")

    def test_nothing_is_left_of_the_hosts(self):
        keepers = [keeper.pid for keeper in self.hosts.keepers]
        self.assertEqual(len(keepers), 5)
        self.hosts.close()
        for keeper in keepers:
            self.assertFalse(os.path.exists(f"/proc/{keeper}"))


if __name__ == "__main__":
    skip_unless_possible()
    unittest.main()
