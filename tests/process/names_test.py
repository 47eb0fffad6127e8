"""A role's name is one process's at a time: a second one of that name is
refused, with the host and the process of the first, and nothing is undone."""
# Symptom: a second `troupe role ps:0` displaced the live one: 173 steps were
# undone; a second worker:1 likewise. Cause: whoever came last had the name.
# ctest: TIMEOUT 600

import json
import os
import signal
import socket
import subprocess
import tempfile
import unittest

from cluster import ENDLESS, TROUPE, Run, wait_for
from roles import Role

JOB = ["--data", "synthetic:digits?samples=2000", "--model", "mlp:784-48-10",
       "--global-batch", "64", "--seed", "7"]
SERVED = ["--strategy", "parameter_server", "--workers", "2", "--ps", "1"]
MEMBERS = ["ps:0", "worker:0", "worker:1"]


class Names(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.certificates = self.path("certificates")

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def coordinator(self, *arguments):
        return Role(self.addCleanup, "coordinator", "--certificates",
                    self.certificates, "--summary", self.path("summary.json"),
                    *JOB, *ENDLESS, *SERVED, *arguments)

    def member(self, role, address):
        return Role(self.addCleanup, role, "--coordinator", address,
                    "--certificates", self.certificates)

    def check_refused(self, second, role, holder):
        error = second.finish(1, 15)
        self.assertRegex(error, rf"\Atroupe: {role}: the coordinator refused: "
                         rf"{role} is there already: process {holder} on "
                         rf"{socket.gethostname()} .*\n\Z")

    def check_bits(self, summary):
        with Run(*JOB, "--epochs", "0", "--steps", str(summary["steps"]),
                 "--strategy", "one_device") as run:
            expected = run.finish()
        self.assertEqual(summary["weights_sha256"], expected["weights_sha256"])
        self.assertEqual(summary["steps_rolled_back"], 0)

    def check(self, summary, recoveries):
        self.check_bits(summary)
        self.assertEqual([x["kind"] for x in summary["recoveries"]],
                         recoveries)

    def test_a_second_process_of_a_live_role_is_refused(self):
        coordinator = self.coordinator()
        address = coordinator.address()
        members = {name: self.member(name, address) for name in MEMBERS}
        wait_for(lambda: "epoch 1 " in coordinator.output(), "an epoch's end")
        seconds = {name: self.member(name, address)
                   for name in ("ps:0", "worker:1")}
        for name, second in seconds.items():
            self.check_refused(second, name, members[name].process.pid)
        coordinator.end()
        for member in members.values():
            member.finish(0, 10)
        with open(self.path("summary.json")) as file:
            self.check(json.load(file), [])

    def test_one_that_is_starting_has_the_name_as_well(self):
        coordinator = self.coordinator("--join-deadline-ms", "60000")
        address = coordinator.address()
        both = [self.member("ps:0", address) for _ in range(2)]
        wait_for(lambda: any(one.process.poll() is not None for one in both),
                 "one of the two is refused", 15)
        refused, first = sorted(both, key=lambda x: x.process.poll() is None)
        self.check_refused(refused, "ps:0", first.process.pid)
        for name in ("worker:0", "worker:1"):
            self.member(name, address)
        coordinator.end()
        with open(self.path("summary.json")) as file:
            self.check(json.load(file), [])

    def test_a_role_without_a_supervisor_frees_its_name_when_it_is_lost(self):
        journal = self.path("run.db")
        coordinator = self.coordinator("--journal", journal)
        address = coordinator.address()
        members = {name: self.member(name, address) for name in MEMBERS}
        wait_for(lambda: "epoch 1 " in coordinator.output(), "an epoch's end")
        members["worker:1"].process.send_signal(signal.SIGSTOP)
        members["worker:1"] = self.member("worker:1", address)
        members["worker:0"].process.kill()  # lost at once
        members["worker:0"] = self.member("worker:0", address)

        def both_are_back():
            told = subprocess.run([TROUPE, "events", journal, "--kind", "epoch"],
                                  capture_output=True, text=True, timeout=60)
            _, *others = told.stdout.splitlines()
            return others and set(MEMBERS) <= set(others[-1].split())

        wait_for(both_are_back, "both are back")
        coordinator.end()
        for member in members.values():
            member.finish(0, 10)
        with open(self.path("summary.json")) as file:
            summary = json.load(file)
        self.assertEqual({x["role"] for x in summary["recoveries"]},
                         {"worker:0", "worker:1"})
        self.check_bits(summary)

    def test_a_supervised_role_is_refused_until_its_death_is_announced(self):
        with Run(*JOB, *ENDLESS, *SERVED, "--processes", "--certificates",
                 self.certificates) as run:
            run.wait_for_step(20)
            holder, words = next((pid, words)
                                 for pid, words in run.role_processes()
                                 if words[2] == "worker:1")
            address = words[words.index("--coordinator") + 1]
            self.check_refused(self.member("worker:1", address), "worker:1",
                               holder)
            run.kill_and_wait("worker:1", 2)
            summary = run.end()
        # The other worker may have gone on before it was back.
        kinds = [x["kind"] for x in summary["recoveries"]]
        self.assertIn(kinds, [["worker_restarted"], ["ranks_taken_over"]])
        self.check(summary, kinds)


if __name__ == "__main__":
    unittest.main()
