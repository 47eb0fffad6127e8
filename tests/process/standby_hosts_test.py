"""Two coordinators on two hosts, which are network namespaces, and a voter on a
third: the standby takes over only where a majority can follow it, and one that
has lost the majority steps down."""
# ctest: TIMEOUT 600

import json
import os
import shutil
import subprocess
import tempfile
import unittest

from cluster import ENDLESS, TROUPE, Run, wait_for
from hosts import Hosts, skip_unless_possible
from roles import Role

JOB = ["--data", "synthetic:digits?samples=2000", "--model", "mlp:784-48-10",
       "--seed", "7", "--log-every", "50"]
SERVED = ["--strategy", "parameter_server", "--workers", "2", "--ps", "1"]
CONTROL, VOTE = 7000, 7001


class StandbyHosts(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.hosts = Hosts(4)
        self.addCleanup(self.hosts.close)
        self.voters = ",".join(f"{self.hosts.address(host)}:{VOTE}"
                               for host in range(3))

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def coordinator(self, host):
        return Role(self.addCleanup, "coordinator", "--certificates",
                    self.certificates(host), "--summary",
                    self.path(f"summary-{host}"), "--listen",
                    f"{self.hosts.address(host)}:{CONTROL}", "--voters",
                    self.voters, "--voter", str(host), "--journal",
                    self.path(f"vote-{host}.db"), *JOB, *ENDLESS, *SERVED,
                    on=self.hosts.on(host))

    def certificates(self, host):
        """Each host's own copy of what the first one made."""
        copy = self.path(f"certificates-{host}")
        if host > 0 and not os.path.exists(copy):
            wait_for(lambda: os.path.exists(
                self.path("certificates-0/ca.pem")), "certificates")
            shutil.copytree(self.path("certificates-0"), copy)
        return copy

    def member(self, role, host):
        both = ",".join(f"{self.hosts.address(host)}:{CONTROL}"
                        for host in range(2))
        return Role(self.addCleanup, role, "--coordinator", both,
                    "--certificates", self.certificates(host), "--listen",
                    f"{self.hosts.address(host)}:0", on=self.hosts.on(host))

    def epochs(self, host):
        """What a coordinator's own journal says of epochs, a line each."""
        done = subprocess.run(
            [TROUPE, "events", self.path(f"vote-{host}.db"), "--kind",
             "epoch"], capture_output=True, text=True, timeout=60)
        return [""] + done.stdout.splitlines()

    def test_a_cut_makes_no_second_coordinator_and_a_lost_majority_makes_one(
            self):
        first = self.coordinator(0)
        voter = Role(self.addCleanup, "--listen",
                     f"{self.hosts.address(2)}:{VOTE}", "--journal",
                     self.path("vote-2.db"), "--certificates",
                     self.certificates(2), on=self.hosts.on(2),
                     command="voter")
        voter.address("voter")
        first.address()
        second = self.coordinator(1)
        members = {"ps:0": self.member("ps:0", 2),
                   "worker:0": self.member("worker:0", 3),
                   "worker:1": self.member("worker:1", 2)}

        wait_for(lambda: "epoch 5 " in first.output(), "steps")
        self.hosts.cut(0, 1)  # both reach the workers and the voter
        wait_for(lambda: "epoch 40 " in first.output(), "steps go on")
        self.assertNotIn("listens on", second.output())

        self.hosts.cut(0, 2)  # the first one reaches worker:0 only
        second.address()
        first.finish(75, 30)
        wait_for(lambda: " worker:0 " in self.epochs(1)[-1].split(";")[0],
                 "worker:0 has found the second one")
        second.end()
        for member in members.values():
            member.finish(0, 30)
        with open(self.path("summary-1")) as file:
            summary = json.load(file)
        with Run(*JOB, "--epochs", "0", "--steps", str(summary["steps"]),
                 "--strategy", "one_device") as run:
            expected = run.finish()
        for name in ("weights_sha256", "state_sha256", "steps"):
            self.assertEqual(summary[name], expected[name])
        self.assertEqual(summary["steps_rolled_back"], 0)


if __name__ == "__main__":
    skip_unless_possible()
    unittest.main()
