"""Two coordinators with three voters, each started by hand: what is wrong with
one of them is said while the others go on."""
# ctest: TIMEOUT 300

import os
import time
import unittest

from cluster import wait_for
from own_folder import OwnFolder
from prometheus_test import free_port
from roles import Role

JOB = ["--data", "synthetic:digits?samples=500", "--model", "mlp:784-8-10",
       "--strategy", "parameter_server", "--workers", "1", "--ps", "1"]
LONG = ["--epochs", "1000000"]


class StandbyByHand(OwnFolder):
    def setUp(self):
        super().setUp()
        self.certificates = self.path("certificates")
        self.places = [f"127.0.0.1:{free_port()}" for _ in range(3)]

    def coordinator(self, which, *flags, length=LONG, journal=None,
                    voters=None):
        return Role(self.addCleanup, "coordinator", "--certificates",
                    self.certificates, "--voters",
                    ",".join(voters or self.places), "--voter", str(which),
                    "--journal", journal or self.path(f"vote-{which}.db"),
                    *JOB, *length, *flags)

    def voter(self, which, journal=None):
        return Role(self.addCleanup, "--listen", self.places[which],
                    "--journal", journal or self.path(f"vote-{which}.db"),
                    "--certificates", self.certificates, command="voter")

    def begun(self, which, *flags, **more):
        """The first one, once there are certificates."""
        one = self.coordinator(which, *flags, **more)
        wait_for(lambda: os.path.exists(self.path("certificates", "ca.pem")),
                 "certificates")
        return one

    def led(self):
        """A voter that is nothing else, and the coordinator that leads."""
        first = self.begun(0)
        voter = self.voter(2)
        voter.address("voter")
        second = self.coordinator(1)
        wait_for(lambda: "listens on" in first.output() + second.output(),
                 "one leads")
        leads = "listens on" in first.output()
        return ((first, second, 1) if leads else (second, first, 0)) + (voter,)

    def test_a_standby_of_other_flags_is_refused_at_once(self):
        """It waited without a word, and the job died when it was needed."""
        leader, standby, which, _ = self.led()
        standby.process.terminate()
        standby.finish(143)
        other = self.coordinator(which, length=["--epochs", "60"])
        self.assertRegex(
            other.finish(1, 20),
            r"\Atroupe: the voters' journal: of a job with other flags "
            r"\(--epochs is 1000000 there and 60 here\); give those of its "
            r"run; to begin anew, remove the files of all voters\n\Z")
        again = self.coordinator(which)
        time.sleep(2)
        self.assertIsNone(again.process.poll(), again.error())
        self.assertIsNone(leader.process.poll(), leader.error())


if __name__ == "__main__":
    unittest.main()
