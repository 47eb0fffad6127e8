"""I7 over the real program: the n-th system call that touches the folder of
checkpoints fails, or the process dies there, for every n; the run that resumes
ends with the bits of one that nobody disturbed."""
# ctest: TIMEOUT 1200

import collections
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
# How often each is called at least, by two checkpoints of two files and a
# manifest each, the older of which is removed: none vanishes unseen.
CALLS = {"open": 12, "write": 31, "fsync": 10, "close": 12, "mkdir": 2,
         "rename": 3, "unlink": 3, "rmdir": 1}


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
        """Resumes a run and lets one call fail. Returns the name of the call,
        None where there were fewer."""
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.before, self.folder)
        if os.path.exists(self.seen):
            os.remove(self.seen)
        done = subprocess.run(
            [TROUPE, "train", *JOB, "--steps", str(LAST), "--resume",
             "--checkpoint-dir", self.folder, "--checkpoint-every", "20",
             "--checkpoint-keep", "1"],
            env={**os.environ, "LD_PRELOAD": SHIM, "FAIL_DIR": self.folder,
                 "FAIL_AT": str(call), "FAIL_HOW": how,
                 "FAIL_SEEN": self.seen},
            capture_output=True, text=True, timeout=60, check=False)
        came = None
        if os.path.exists(self.seen):
            with open(self.seen) as file:
                came = file.read()
        self.assertIn(done.returncode,
                      (0,) if came is None else (-9,) if how == "kill" else (0, 1),
                      f"call {call}: {done.stderr}")
        if done.returncode == 1:
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        return came

    def came_at(self, call, how):
        """Again where a busy machine passed a checkpoint over: such a run has
        fewer calls than there are."""
        for _ in range(20):
            came = self.disturbed(call, how)
            if came or call >= sum(CALLS.values()):
                return came
        return None

    def for_every_call(self, how):
        kinds = collections.Counter()
        while came := self.came_at(call := kinds.total(), how):
            kinds[came] += 1
            with self.subTest(call=call, how=how), \
                    Run(*JOB, "--steps", str(LAST), "--resume",
                        "--checkpoint-dir", self.folder) as run:
                summary = run.finish()
                self.assertIsNotNone(summary["resumed_from"])
                for name in ("weights_sha256", "state_sha256"):
                    self.assertEqual(summary[name], self.wanted[name])
        for name, least in CALLS.items():
            self.assertGreaterEqual(kinds[name], least, kinds)
        self.assertEqual(kinds.keys(), CALLS.keys())

    def test_whichever_call_is_the_last_one_the_run_can_be_resumed(self):
        self.for_every_call("kill")

    def test_whichever_call_finds_the_disk_full_the_run_can_be_resumed(self):
        self.for_every_call("full")

    def test_whichever_call_finds_the_disk_broken_the_run_can_be_resumed(self):
        self.for_every_call("broken")


if __name__ == "__main__":
    unittest.main()
