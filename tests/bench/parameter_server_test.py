# ctest: TIMEOUT 1200
"""`troupe bench parameter-server`, tiny: the processes are started, their
weights compared, the figures written; a peer that fails is left out.

TROUPE is the program under test.
"""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

DEADLINE_S = 120
FIELDS = {"name", "members", "bytes", "ours_us", "spread", "peer",
          "peer_version", "peer_us", "ratio", "limit_share"}
PEER = """#!/bin/sh
echo "Fake 1.0"
while read bytes iterations; do {answer}; done
"""


class ParameterServer(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def bench(self, *flags):
        return subprocess.run(
            [os.environ["TROUPE"], "bench", "parameter-server", *flags],
            capture_output=True, text=True, timeout=DEADLINE_S,
            cwd=self.folder)

    def rows(self, answer=None):
        if answer:
            path = self.folder / "ps_lite_push_pull"
            path.write_text(PEER.replace("{answer}", answer))
            path.chmod(0o755)
        path = self.folder / "rows.json"
        done = self.bench("--rounds", "1", "--bytes", "3MiB", "--pairs",
                          "100000", "--peers", ".", "--json", str(path))
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = json.loads(path.read_text())
        for row in rows:
            self.assertEqual(set(row), FIELDS)
            self.assertGreater(row["ours_us"], 0)
            self.assertIn(row["bytes"], (3 << 20, 400_000))
        return rows, done.stdout

    def test_it_is_measured_without_a_peer(self):
        rows, output = self.rows()
        self.assertEqual([row["peer"] for row in rows], [None] * 3)
        self.assertEqual(rows[1]["name"], "pairs, keys in a row")
        self.assertIn("skipped: ", output)

    def test_a_peer_is_shown_beside_the_own_figures(self):
        rows, _ = self.rows('echo "1000000 slow"')
        for row in rows:
            self.assertEqual(row["peer_version"], "Fake 1.0")
            self.assertAlmostEqual(row["ratio"], 1e6 / row["ours_us"])

    def test_a_peer_that_fails_is_told_of_and_left_out(self):
        rows, output = self.rows("echo error not what was pushed")
        self.assertEqual([row["peer"] for row in rows], [None] * 3)
        self.assertRegex(output, "left out from here on: .*not what was pushed")

    def test_mistakes_are_usage_errors(self):
        for flags, said in ((("--bytes", "6"), "4 bytes each"),
                            (("--bytes", "4,8"), "one size"),
                            (("--rounds", "0"), "--rounds 0")):
            done = self.bench(*flags)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(said, done.stderr)


if __name__ == "__main__":
    unittest.main()
