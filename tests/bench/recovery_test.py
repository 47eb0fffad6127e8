# ctest: TIMEOUT 600
"""`troupe bench recovery` and `goodput`, tiny: roles are killed and stopped, the
job goes on with the bits of one device and leaves no process, the figures are
written.

TROUPE is the program under test.
"""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

DEADLINE_S = 180


class Recovery(unittest.TestCase):
    def bench(self, *flags):
        return subprocess.run(
            [os.environ["TROUPE"], "bench", "recovery", *flags],
            capture_output=True, text=True, timeout=DEADLINE_S)

    def test_killed_and_stopped_roles_are_measured(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.json"
            done = self.bench("--trials", "2", "--seed", "3", "--kinds",
                              "worker,coordinator,stage,mesh-stage,tensor,"
                              "stopped-shard",
                              "--json", str(path))
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            rows = json.loads(path.read_text())
        self.assertEqual([row["name"] for row in rows],
                         ["recovery, worker", "recovery, coordinator",
                          "recovery, stage", "recovery, mesh-stage",
                          "recovery, tensor", "recovery, stopped-shard"])
        for row in rows:
            self.assertIn("leaves_recomputed", row)
            self.assertEqual(len(row["trials_us"]), 2)
            self.assertGreater(row["ours_us"], 0)
            self.assertEqual(row["worst_us"], max(row["trials_us"]))
            self.assertEqual(row["met"], row["ours_us"] <= row["bar_median_us"]
                             and row["worst_us"] <= row["bar_worst_us"])

    def test_goodput_compares_a_job_with_itself(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.json"
            done = subprocess.run(
                [os.environ["TROUPE"], "bench", "goodput", "--kills", "1",
                 "--every", "2", "--kinds", "worker", "--json", str(path)],
                capture_output=True, text=True, timeout=DEADLINE_S)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            rows = json.loads(path.read_text())
        self.assertEqual([row["name"] for row in rows], ["goodput, worker"])
        self.assertGreater(rows[0]["ours_us"], 0)
        self.assertLess(rows[0]["lost_seconds_a_kill"], 2)
        self.assertAlmostEqual(rows[0]["ratio"],
                               rows[0]["peer_us"] / rows[0]["ours_us"])

    def test_what_is_no_kind_is_a_usage_error(self):
        for flags, expected in ((["--kinds", "worker,wrker"], "wrker: unknown"),
                                (["--trials", "0"], "from 1 to"),
                                (["--shards", "2"], "--shards")):
            done = self.bench(*flags)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(expected, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)


if __name__ == "__main__":
    unittest.main()
