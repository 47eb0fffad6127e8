# ctest: TIMEOUT 1200
"""`troupe bench all-reduce` and `null-step`, tiny: all is verified, measured,
written; a peer that says nonsense or dies is an error, not a figure.

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
# A peer that is there everywhere: answers each round, adds nothing.
PEER = """#!/bin/sh
echo "Fake 1.0"
while read bytes iterations; do {answer}; done
"""


class AllReduce(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def bench(self, *flags):
        return subprocess.run(
            [os.environ["TROUPE"], "bench", *flags], capture_output=True,
            text=True, timeout=DEADLINE_S, cwd=self.folder)

    def rows(self, *flags):
        path = self.folder / "rows.json"
        done = self.bench(*flags, "--json", str(path))
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = json.loads(path.read_text())
        for row in rows:
            self.assertEqual(set(row), FIELDS)
            self.assertGreater(row["ours_us"], 0)
        return rows, done.stdout

    def peer(self, answer):
        path = self.folder / "gloo_all_reduce"
        path.write_text(PEER.replace("{answer}", answer))
        path.chmod(0o755)

    def test_every_link_is_measured_without_peers(self):
        rows, output = self.rows(
            "all-reduce", "--members", "1,2,3", "--bytes", "4,20KiB,1MiB",
            "--rounds", "1")
        for link in ("memory", "shm", "tcp"):
            for reduction in ("reproducible", "fast"):
                own = [row for row in rows
                       if row["name"] == f"all-reduce {link} {reduction}"]
                self.assertEqual(
                    [(row["members"], row["bytes"]) for row in own],
                    [(n, size) for n in (1, 2, 3)
                     for size in (4, 20 << 10, 1 << 20)])
                for row in own:
                    self.assertEqual(row["peer"], "Troupe, fast" if
                                     reduction == "reproducible" else None)
        self.assertIn("skipped: build/peers/openmpi_all_reduce", output)

    def test_members_that_are_actors_are_measured(self):
        rows, _ = self.rows("all-reduce", "--members", "1,10,100", "--bytes",
                            "4,100KiB", "--link", "actors", "--rounds", "1")
        self.assertEqual([row["members"] for row in rows],
                         [1, 10, 100, 1, 10, 100])

    def test_the_null_step_is_measured(self):
        rows, output = self.rows("null-step", "--workers", "1,5")
        self.assertEqual([row["members"] for row in rows], [1, 5])
        self.assertIn("p99", output)

    def test_the_null_step_is_measured_for_each_size(self):
        rows, _ = self.rows("null-step", "--workers", "2", "--bytes",
                            "4,2MiB", "--ps", "3")
        self.assertEqual([row["bytes"] for row in rows], [4, 2 << 20])

    def test_a_null_step_beyond_the_memory_is_skipped(self):
        rows, output = self.rows("null-step", "--workers", "1000", "--bytes",
                                 "1GiB")
        self.assertEqual(rows, [])
        self.assertIn("skipped: needs about", output)

    def tcp(self):
        return self.bench("all-reduce", "--members", "2", "--bytes", "1KiB",
                          "--rounds", "1", "--link", "tcp", "--peers", ".")

    def test_a_peer_is_shown_beside_the_own_figures(self):
        self.peer('echo "1000000 slow"')
        done = self.tcp()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Fake 1.0, TCP, slow", done.stdout)

    def test_a_peer_that_fails_is_told_of_and_left_out(self):
        for answer, said in (("echo error rank 1 has not the sum",
                              "rank 1 has not the sum"),
                             ("echo nonsense", "nonsense"),
                             ("exit 3", "it ended")):
            self.peer(answer)
            done = self.tcp()
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout,
                             rf"(?m)^left out from here on: .*{said}")
            self.assertRegex(done.stdout, r"(?m)^tcp +2 +1 KiB reproducible")
            self.assertNotIn("Fake 1.0", done.stdout)

    def test_mistakes_are_usage_errors(self):
        for flags, said in ((("--members", "0"), "--members 0"),
                            (("--members", "65"), "--link actors"),
                            (("--bytes", "6"), "4 bytes each"),
                            (("--bytes", "1MB"), "64KiB"),
                            (("--link", "udp"), "--link udp"),
                            (("--reduction", "slow"), "--reduction slow")):
            done = self.bench("all-reduce", *flags)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(said, done.stderr)


if __name__ == "__main__":
    unittest.main()
