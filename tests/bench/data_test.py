"""`troupe bench data`, tiny: samples that are held and samples that are left in
their files are measured, and the figures are written.

TROUPE is the program under test.
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "fuzz"))
import seeds  # noqa: E402: the writers of such files

DEADLINE_S = 200


class Data(unittest.TestCase):
    def measured(self, *words):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.json"
            done = subprocess.run(
                [os.environ["TROUPE"], "bench", "data", *words, "--seconds",
                 "1", "--threads", "1,2", "--json", str(path)],
                capture_output=True, text=True, timeout=DEADLINE_S)
            self.assertEqual(done.returncode, 0, done.stderr)
            rows = json.loads(path.read_text())
        self.assertEqual([x["members"] for x in rows], [1, 2])
        for row in rows:
            self.assertGreater(row["samples_per_second"], 0)
            # Two threads at most: no more than their time.
            self.assertGreater(row["samples_per_processor_second"],
                               row["samples_per_second"] / 3)
        return rows

    def test_what_is_held_is_measured(self):
        rows = self.measured("--data", "synthetic:digits?samples=500")
        self.assertEqual(rows[0]["file_bytes_per_second"], 0)
        self.measured("--data", "synthetic:text?samples=5000")
        self.measured("--data", "synthetic:clicks?samples=500")

    def test_what_is_left_in_its_files_is_measured(self):
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(f"{folder}/set/a")
            for i in range(3):
                Path(f"{folder}/set/a/{i}.png").write_bytes(
                    seeds.png(12, 9, bytes(range(108)), 0))
            rows = self.measured(
                "--data", f"images:{folder}/set?augment="
                "random_resized_crop:8,flip,colour:0.4,normalise:imagenet")
        self.assertGreater(rows[0]["file_bytes_per_second"], 0)

    def test_without_data_there_is_a_line(self):
        done = subprocess.run([os.environ["TROUPE"], "bench", "data"],
                              capture_output=True, text=True,
                              timeout=DEADLINE_S)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("--data", done.stderr)


if __name__ == "__main__":
    unittest.main()
