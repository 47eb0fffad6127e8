# ctest: TIMEOUT 1200
"""`troupe bench null-step`, tiny: runs end with equal weights, full tables give
those of tables whose rows are made on first use, the figures are written.

TROUPE is the program under test.
"""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

DEADLINE_S = 200


class NullStep(unittest.TestCase):
    def test_scalars_and_full_tables_are_measured(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.json"
            done = subprocess.run(
                [os.environ["TROUPE"], "bench", "null-step", "--workers",
                 "1,3", "--ps", "2", "--filled", "1MiB", "--json", str(path)],
                capture_output=True, text=True, timeout=DEADLINE_S)
            self.assertEqual(done.returncode, 0, done.stderr)
            rows = json.loads(path.read_text())
        self.assertEqual([(x["bytes"], x["members"]) for x in rows],
                         [(4, 1), (4, 3), (1 << 20, 1), (1 << 20, 3)])
        for row in rows:
            self.assertGreater(row["ours_us"], 0)

    def test_a_size_that_is_none_is_a_usage_error(self):
        done = subprocess.run(
            [os.environ["TROUPE"], "bench", "null-step", "--filled", "6"],
            capture_output=True, text=True, timeout=DEADLINE_S)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("4 bytes each", done.stderr)


if __name__ == "__main__":
    unittest.main()
