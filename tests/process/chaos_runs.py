"""Runs `troupe chaos` and reads what it judges; for the tests beside."""

import json
import os
import subprocess
import tempfile
import unittest

from cluster import TROUPE


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
        """The verdict of a call that passed, and what it printed."""
        path = self.path("verdict.json")
        done = self.run_chaos([*flags, "--json", path], job)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with open(path) as file:
            return json.load(file), done.stdout
