"""A program that is upgraded while it runs: roles that die meanwhile are started
from the image that the run began with, not from what is in its place. It was
"exit status 127" or another build, five restarts in no time and the end, though
all others lived."""
# ctest: TIMEOUT 1200

import os
import shutil
import tempfile
import unittest

from cluster import TROUPE, Run, wait_for

JOB = ["--data", "synthetic:digits?samples=2000", "--model", "mlp:784-48-10",
       "--global-batch", "64", "--virtual-ranks", "4", "--seed", "7",
       "--epochs", "60"]
SERVED = ["--strategy", "parameter_server", "--processes", "--workers", "2",
          "--ps", "2"]


class ReplacedProgram(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with Run(*JOB, "--strategy", "one_device") as run:
            cls.expected = run.finish()["weights_sha256"]

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.program = os.path.join(folder.name, "troupe")
        shutil.copy2(TROUPE, self.program)

    def check(self, upgrade):
        run = Run(*JOB, *SERVED, program=self.program)
        self.addCleanup(run.__exit__)
        run.wait_for_step(20)
        upgrade()
        killed = {role: run.kill(role) for role in ("worker:0", "ps:1")}
        for role, pid in killed.items():
            wait_for(lambda role=role, pid=pid: run.process.poll() is not None
                     or run.children().get(role) not in (None, pid),
                     f"{role} is started again")
        self.assertIsNone(run.process.poll(), run.error())
        run.kill("coordinator")
        summary = run.finish()
        self.assertEqual(summary["weights_sha256"], self.expected)
        self.assertEqual(
            {"worker:0", "ps:1", "coordinator"},
            {recovery["role"] for recovery in summary["recoveries"]})

    def test_roles_come_back_when_its_file_was_removed(self):
        self.check(lambda: os.remove(self.program))

    def test_roles_come_back_when_another_file_is_in_its_place(self):
        def replace():
            other = self.program + ".new"
            with open(other, "w") as file:
                file.write("#!/bin/sh\necho 'another build' >&2\nexit 1\n")
            os.chmod(other, 0o755)
            os.rename(other, self.program)
        self.check(replace)

    def test_roles_come_back_when_a_library_is_whole_again(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        run = Run(*JOB, *SERVED, "--steps", "100000000",
                  environment={"LD_LIBRARY_PATH": folder.name})
        self.addCleanup(run.__exit__)
        run.wait_for_step(20)
        library = os.path.join(folder.name, "libzstd.so.1")
        with open(library, "w") as file:
            file.write("half of an upgrade")
        pid = run.kill("worker:0")
        wait_for(lambda: "exit status 127: its program did not start"
                 in run.error() + run.output(), "told as what it is")
        os.remove(library)
        wait_for(lambda: run.children().get("worker:0") not in (None, pid),
                 "worker:0 is started again")
        summary = run.end()
        with Run(*JOB, "--strategy", "one_device", "--steps",
                 str(summary["steps"])) as run:
            self.assertEqual(run.finish()["weights_sha256"],
                             summary["weights_sha256"])

    def test_processes_keep_their_name_and_command(self):
        run = Run(*JOB, *SERVED, program=self.program)
        self.addCleanup(run.__exit__)
        pid = run.role("worker:0")
        run.wait_for_step(1)
        with open(f"/proc/{pid}/comm") as file:
            self.assertEqual(file.read().strip(), "troupe")
        with open(f"/proc/{pid}/cmdline") as file:
            self.assertEqual(file.read().split("\0")[:3],
                             [self.program, "role", "worker:0"])
        run.finish()


if __name__ == "__main__":
    unittest.main()
