# ctest: TIMEOUT 1200
"""`troupe bench kernels`, tiny: every kernel is verified, measured, written.

TROUPE is the program under test.
"""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

DEADLINE_S = 240
FIELDS = {"name", "members", "bytes", "ours_us", "spread", "peer",
          "peer_version", "peer_us", "ratio", "limit_share"}
FAMILIES = ("dense", "conv2d", "attention", "layer_norm", "softmax",
            "embedding", "adam", "lamb", "ftrl", "squares", "int8 compress",
            "topk:0.01 add")


class Kernels(unittest.TestCase):
    def test_every_family_is_measured_and_written(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "kernels.json"
            done = subprocess.run(
                [os.environ["TROUPE"], "bench", "kernels", "--repetitions", "1",
                 "--json", str(path)],
                capture_output=True, text=True, timeout=DEADLINE_S)
            self.assertEqual(done.returncode, 0, done.stderr)
            rows = json.loads(path.read_text())
        for row in rows:
            self.assertEqual(set(row), FIELDS)
            self.assertGreater(row["bytes"], 0)
            self.assertGreater(row["ours_us"], 0)
            self.assertGreater(row["limit_share"], 0)
        names = [row["name"] for row in rows]
        self.assertEqual(len(names), len(set(names)))
        for family in FAMILIES:
            self.assertTrue(any(name.startswith(family) for name in names),
                            family)
        # a line each, after the head
        self.assertGreaterEqual(len(done.stdout.splitlines()), len(rows))


if __name__ == "__main__":
    unittest.main()
