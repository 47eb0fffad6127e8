"""A role that cannot join says within three seconds what stands in the way, and
so does the coordinator where it is the certificates: a host that is not known,
one where nobody listens, one that does not answer, certificates of another
job."""
# Symptom: for half a minute nothing, then one line for all of these.
# ctest: TIMEOUT 300

import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
import unittest

from cluster import TROUPE, wait_for
from roles import Role

JOB = ["--data", "synthetic:digits?samples=2000", "--model", "mlp:784-48-10",
       "--seed", "7"]
SERVED = ["--strategy", "parameter_server", "--workers", "1", "--ps", "1"]
TOLD_S = 3
# Of a process to begin, on a busy machine.
SLACK_S = 3


class Joining(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        for name in ("own", "other"):
            Role(cls.addClassCleanup, "coordinator", "--certificates",
                 cls.path(name), *JOB, "--join-deadline-ms", "1").finish(1)

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder, name)

    def member(self, role, address, certificates="own"):
        return Role(self.addCleanup, role, "--coordinator", address,
                    "--certificates", self.path(certificates))

    def coordinator(self):
        return Role(self.addCleanup, "coordinator", "--certificates",
                    self.path("own"), *JOB, *SERVED)

    def ends_with(self, role, words):
        error = role.finish(1, TOLD_S + SLACK_S)
        self.assertRegex(error, rf"\Atroupe: .*{words}.*\n\Z")

    def waits_with(self, role, words):
        begin = time.monotonic()
        wait_for(lambda: words in role.output(), words, TOLD_S + SLACK_S)
        self.assertLess(time.monotonic() - begin, TOLD_S + SLACK_S)
        self.assertIsNone(role.process.poll(), role.error())
        self.assertEqual(role.output().count(words), 1)

    @staticmethod
    def turns_away(coordinator):
        wait_for(lambda: re.search(r"^coordinator: control: 127\.0\.0\.1\S* .*"
                                   "certificate", coordinator.error(), re.M),
                 "the coordinator's line", TOLD_S)

    def test_a_host_that_is_not_known_is_said_at_once(self):
        self.ends_with(self.member("worker:0", "no-such-host.invalid:7000"),
                       r"no-such-host\.invalid is not known")

    def test_one_waits_where_nobody_listens_and_says_so(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"127.0.0.1:{taken.getsockname()[1]}"
        worker = self.member("worker:0", address)
        self.waits_with(worker, f"nobody listens at {address}")
        coordinator = Role(self.addCleanup, "coordinator", "--certificates",
                           self.path("own"), "--listen", address, *JOB,
                           *SERVED)
        self.member("ps:0", coordinator.address())
        coordinator.finish()
        worker.finish()

    def test_one_waits_for_a_host_that_does_not_answer_and_says_so(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            address = f"127.0.0.1:{silent.getsockname()[1]}"
            self.waits_with(self.member("worker:0", address),
                            f"{address} takes connections and does not answer")

    def test_certificates_of_another_job_are_said_on_both_sides(self):
        coordinator = self.coordinator()
        address = coordinator.address()
        self.ends_with(self.member("worker:0", address, "other"),
                       rf"{address} shows a certificate that is not of this "
                       r"job .*copy the folder")
        self.turns_away(coordinator)
        for role in ("ps:0", "worker:0"):
            self.member(role, address)
        coordinator.finish()

    def test_a_certificate_that_the_coordinator_does_not_take_is_said(self):
        coordinator = self.coordinator()
        subprocess.run([TROUPE, "certificates", "new", "worker:0",
                        "--certificates", self.path("other"), "--out",
                        self.path("half")], check=True, timeout=60,
                       stdout=subprocess.DEVNULL)
        shutil.copy(self.path("own/ca.pem"), self.path("half/ca.pem"))
        self.ends_with(
            self.member("worker:0", coordinator.address(), "half"),
            rf"{coordinator.address()} does not take the certificates")
        self.turns_away(coordinator)


if __name__ == "__main__":
    unittest.main()
