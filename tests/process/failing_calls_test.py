"""I7 over the real program: the n-th system call that touches the folder of
checkpoints fails, or the process dies there, for every n; the run that resumes
ends with the bits of one that nobody disturbed."""
# ctest: TIMEOUT 1200

import os
import shutil
import subprocess
import tempfile
import unittest

from cluster import TROUPE, Run

SHIM = os.path.join(os.path.dirname(os.path.abspath(TROUPE)), "..", "tests",
                    "libfailing_calls.so")
JOB = ["--data", "synthetic:digits?samples=400", "--model", "mlp:784-8-10",
       "--global-batch", "64", "--strategy", "one_device", "--seed", "3",
       "--quiet"]
FIRST, LAST = 20, 60


class FailingCallsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.before = os.path.join(folder.name, "before")
        self.folder = os.path.join(folder.name, "kept")
        self.seen = os.path.join(folder.name, "seen")
        with Run(*JOB, "--steps", str(FIRST), "--checkpoint-dir",
                 self.before) as run:
            run.finish()
        with Run(*JOB, "--steps", str(LAST)) as run:
            self.wanted = run.finish()

    def disturbed(self, call, how):
        """Resumes a run and lets one call fail. Returns whether it came."""
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.before, self.folder)
        if os.path.exists(self.seen):
            os.remove(self.seen)
        done = subprocess.run(
            [TROUPE, "train", *JOB, "--steps", str(LAST), "--resume",
             "--checkpoint-dir", self.folder, "--checkpoint-every", "20",
             "--checkpoint-keep", "2"],
            env={**os.environ, "LD_PRELOAD": SHIM, "FAIL_DIR": self.folder,
                 "FAIL_AT": str(call), "FAIL_HOW": how,
                 "FAIL_SEEN": self.seen},
            capture_output=True, text=True, timeout=60, check=False)
        came = os.path.exists(self.seen)
        self.assertIn(done.returncode,
                      (0,) if not came else (-9,) if how == "kill" else (0, 1),
                      f"call {call}: {done.stderr}")
        if done.returncode == 1:
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        return came

    def for_every_call(self, how):
        call = 0
        while self.disturbed(call, how):
            with self.subTest(call=call, how=how), \
                    Run(*JOB, "--steps", str(LAST), "--resume",
                        "--checkpoint-dir", self.folder) as run:
                summary = run.finish()
                self.assertIsNotNone(summary["resumed_from"])
                for name in ("weights_sha256", "state_sha256"):
                    self.assertEqual(summary[name], self.wanted[name])
            call += 1
        self.assertGreaterEqual(call, 35)

    def test_whichever_call_is_the_last_one_the_run_can_be_resumed(self):
        self.for_every_call("kill")

    def test_whichever_call_finds_the_disk_full_the_run_can_be_resumed(self):
        self.for_every_call("full")

    def test_whichever_call_finds_the_disk_broken_the_run_can_be_resumed(self):
        self.for_every_call("broken")


if __name__ == "__main__":
    unittest.main()
