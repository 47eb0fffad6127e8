"""Runs `troupe chaos` and reads what it judges; for the tests beside."""

import json
import os
import subprocess
import tempfile
import unittest

from cluster import TROUPE

# More than any machine makes before the last fault has struck: the job is ended
# then, and what follows is as long as it was.
MANY = ["--steps", "100000000"]
STEPS_AFTER = ["--steps-after", "30"]


class ChaosRuns(unittest.TestCase):
    deadline_s = 180  # of one call

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name, text=None):
        path = os.path.join(self.folder, name)
        if text is not None:
            with open(path, "w") as file:
                file.write(text)
        return path

    def run_chaos(self, flags, job):
        return subprocess.run([TROUPE, "chaos", *flags, "--", "train", *job],
                              capture_output=True, text=True,
                              timeout=self.deadline_s)

    def passed(self, flags, job):
        """The verdict of a call that passed, and what it printed. A job that
        does not say how many steps it makes is ended after the last fault."""
        path = self.path("verdict.json")
        if "--steps" not in job:
            flags, job = [*flags, *STEPS_AFTER], [*job, *MANY]
        done = self.run_chaos([*flags, "--json", path], job)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with open(path) as file:
            return json.load(file), done.stdout
