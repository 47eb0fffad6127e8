# ctest: TIMEOUT 600
"""`troupe bench pipeline`, tiny: the stages have the weights of one device,
their waits are those of the schedule, the figures are written.

TROUPE is the program under test.
"""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

DEADLINE_S = 200


def bench(*flags):
    return subprocess.run(
        [os.environ["TROUPE"], "bench", "pipeline", *flags],
        capture_output=True, text=True, timeout=DEADLINE_S)


class Pipeline(unittest.TestCase):
    def test_each_schedule_is_measured_beside_what_it_says(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.json"
            done = bench("--stages", "2", "--micro-batches", "2,4", "--steps",
                         "5", "--pass-ms", "10", "--json", str(path))
            self.assertEqual(done.returncode, 0, done.stderr)
            rows = json.loads(path.read_text())
        self.assertEqual([(x["name"], x["micro_batches"]) for x in rows],
                         [(f"pipeline, {name}", m)
                          for name in ("gpipe", "1f1b", "interleaved",
                                       "zero_bubble")
                          for m in (2, 4)])
        idle = [round(x["idle_of_schedule"], 3) for x in rows]
        self.assertEqual(idle[:4], [0.333, 0.2, 0.333, 0.2])
        self.assertEqual(idle[6:], [0.143, 0.077])
        self.assertLess(idle[5], 0.2)  # more chunks, shorter waits
        self.assertEqual([x["stash_peak"] for x in rows],
                         [[2, 2], [4, 4], [2, 1], [2, 1], [4, 3], [5, 3],
                          [2, 2], [2, 2]])
        for row in rows:  # stages that wait never do so for less
            self.assertGreater(row["idle"], row["idle_of_schedule"] - 0.03)
            self.assertLess(row["idle"], 1)
        self.assertIn("held", done.stdout)

    def test_stages_may_take_unlike_times(self):
        done = bench("--stages", "2", "--micro-batches", "2", "--steps", "3",
                     "--schedule", "1f1b", "--pass-ms", "1,3")
        self.assertEqual(done.returncode, 0, done.stderr)
        # 2 x 3 x 4 ms of 2 x 21 ms are passes.
        self.assertRegex(done.stdout, r"1f1b +2 +2 .* 42\.9 %")

    def test_some_layers_may_be_computed_again(self):
        done = bench("--stages", "2", "--micro-batches", "2", "--steps", "3",
                     "--schedule", "gpipe", "--recompute", "wait_1")
        self.assertEqual(done.returncode, 0, done.stderr)
        # 2 x (3 + 4) x 5 ms of 2 x 55 ms are passes.
        self.assertRegex(done.stdout, r"gpipe +2 +2 .* 36\.4 %")
        done = bench("--stages", "2", "--recompute", "wait_2")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertRegex(done.stderr,
                         r"\Atroupe: --recompute wait_2: .* no operator.*\n\Z")

    def test_a_schedule_that_is_none_is_a_usage_error(self):
        done = bench("--schedule", "1f1b,best")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("unknown", done.stderr)


if __name__ == "__main__":
    unittest.main()
