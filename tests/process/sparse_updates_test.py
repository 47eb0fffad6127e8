"""What an update of a table means belongs to the optimizer, not to who keeps the
table: lazy and exact, one hash each over the strategies, kills and resumed runs
included (I3)."""
# ctest: TIMEOUT 1200

import os
import random
import subprocess
import tempfile
import unittest

from clicks import SERVED, same, train, train_under, with_steps
from cluster import TROUPE

CLICKS = ["--data", "synthetic:clicks?samples=3000&buckets=2000", "--model"]
RULES = [["--optimizer", "adam", "--weight-decay", "0.01"],
         ["--optimizer", "adamw", "--weight-decay", "0.1"],
         ["--optimizer", "momentum", "--lr-schedule", "cosine"]]
TWO = ["--workers", "2", "--ps", "2"]
REPLICAS = [
    ["--strategy", "mirrored", "--devices", "cpu:3"],
    ["--strategy", "central_storage", "--devices", "cpu:2"],
    ["--strategy", "multi_worker_mirrored", "--workers", "2"],
    # Slices that cut rows in two.
    [*SERVED, "--in-process", *TWO, "--tables", "dense", "--partitioner",
     "max_size:16384"],
]
SPARSE = [
    [*SERVED, *TWO, "--tables", "sparse"],
    [*SERVED, "--in-process", *TWO, "--tables", "sparse", "--table-fill"],
    [*SERVED, *TWO, "--tables", "sparse", "--dense", "all_reduced"],
]
EXACT = ["--sparse-updates", "exact"]
# Rows make up the updates that they missed.
EXACT_ROWS = [
    [*SERVED, "--in-process", "--tables", "sparse", "--workers", "1", "--ps",
     "1"],
    [*SERVED, *TWO, "--tables", "sparse"],
    [*SERVED, "--in-process", "--tables", "sparse", "--workers", "2", "--ps",
     "3"],
    [*SERVED, *TWO, "--tables", "sparse", "--chain", "2"],
    [*SERVED, *TWO, "--tables", "sparse", "--dense", "all_reduced"],
]


class SparseUpdates(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.text = os.path.join(folder.name, "text.txt")
        draw = random.Random(3)
        with open(cls.text, "w") as file:
            file.write("".join(draw.choice("abcdefgh ij\n")
                               for _ in range(4000)))

    def jobs(self):
        for model in ("dlrm", "wide_deep"):
            for rule in RULES:
                yield [*CLICKS, model, *rule, "--lr", "0.01",
                       "--eval-fraction", "0.1", *self.steps(20)]

    @staticmethod
    def steps(count):
        return ["--epochs", "0", "--steps", str(count), "--seed", "3"]

    # dlrm with adam and weight decay ended at another loss under
    # parameter_server, whose rows without a gradient did not decay.
    def test_one_hash_of_each_kind_over_all_strategies(self):
        for job in self.jobs():
            found = []
            for kind, layouts in (([], REPLICAS + SPARSE),
                                  (EXACT, [*REPLICAS, [*SERVED, *TWO],
                                           *EXACT_ROWS])):
                expected = train(*job, *kind, "--strategy", "one_device")
                found.append(expected["weights_sha256"])
                for layout in layouts:
                    with self.subTest(job=job[3:8], kind=kind, layout=layout):
                        same(self, train(*job, *kind, *layout), expected)
            self.assertNotEqual(*found)

    # Its logits read the tokens' table, too: every row has a gradient.
    def test_a_transformer_has_no_table_that_only_ids_read(self):
        job = ["--data", f"text:{self.text}", "--model",
               "transformer:L1-H2-D16-T16", *RULES[1], *self.steps(12)]
        expected = train(*job, "--strategy", "one_device")
        for layout in (*REPLICAS, [*SERVED, *TWO]):
            with self.subTest(layout=layout):
                same(self, train(*job, *layout), expected)
        done = subprocess.run([TROUPE, "train", *job, *EXACT],
                              capture_output=True, text=True, timeout=60,
                              check=False)
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"\Atroupe: --sparse-updates exact is of "
                                      r"tables .* has none; drop it\n\Z")

    def test_neither_changes_whoever_dies(self):
        deaths = ("ps:0", "worker:0", "ps:1")
        for kind, rule, layout in (
                ([], RULES[0], [*SERVED, *TWO]),
                (EXACT, RULES[0], [*SERVED, *TWO]),
                (EXACT, RULES[0], EXACT_ROWS[1]),
                (EXACT, ["--optimizer", "momentum", "--lr-schedule",
                         "inverse_sqrt"], EXACT_ROWS[3])):
            job = [*CLICKS, "dlrm", *rule, "--eval-fraction", "0.1",
                   *self.steps(400)]
            with self.subTest(kind=kind, layout=layout):
                summary = train_under(*job, *kind, *layout, deaths=deaths)
                same(self, summary,
                     train(*with_steps(job, summary["steps"]), *kind,
                           "--strategy", "one_device"))
                self.assertEqual(len(summary["recoveries"]), len(deaths))

    def test_neither_changes_across_a_checkpoint(self):
        job = [*CLICKS, "wide_deep", *RULES[0], "--epochs", "0", "--seed", "3"]
        for kind, first, second in (
                ([], REPLICAS[0], REPLICAS[2]),
                ([], SPARSE[0], REPLICAS[0]),
                ([], SPARSE[0], SPARSE[2]),
                (EXACT, EXACT_ROWS[1], REPLICAS[0]),
                (EXACT, EXACT_ROWS[1], EXACT_ROWS[3]),
                (EXACT, [*SERVED, *TWO], REPLICAS[1]),
                (EXACT, REPLICAS[2], [*SERVED, *TWO])):
            expected = train(*job, "--steps", "30", *kind, "--strategy",
                             "one_device")
            with (self.subTest(kind=kind, first=first, second=second),
                  tempfile.TemporaryDirectory() as folder):
                kept = ["--checkpoint-dir", folder]
                train(*job, *kind, *first, *kept, "--steps", "13")
                summary = train(*job, *kind, *second, *kept, "--resume",
                                "--steps", "30")
                self.assertEqual(summary["resumed_from"]["step"], 13)
                same(self, summary, expected)

    # Without decay zero gradients leave a row that nobody had as it is.
    def test_rows_that_nobody_had_are_made_where_they_decay(self):
        for decay in ("0", "0.01"):
            job = [*CLICKS, "dlrm", "--optimizer", "adam", "--weight-decay",
                   decay, *EXACT, *self.steps(20)]
            with (self.subTest(decay=decay),
                  tempfile.TemporaryDirectory() as folder):
                kept = ["--checkpoint-dir", folder]
                found = train(*with_steps(job, 7), *EXACT_ROWS[1], *kept)
                rows = found["tables"]["rows"]
                if decay == "0":
                    self.assertLess(rows, 26 * 2000)
                else:
                    self.assertEqual(rows, 26 * 2000)
                expected = train(*job, "--strategy", "one_device")
                for layout in (EXACT_ROWS[3], REPLICAS[2]):
                    same(self, train(*job, *layout, *kept, "--resume"),
                         expected)

    # Of a lazy run, whose checkpoint lacks rows that decay from then on.
    def test_a_lazy_checkpoint_goes_on_exactly(self):
        job = [*CLICKS, "dlrm", *RULES[0], *self.steps(20)]
        ended = []
        for layout in (EXACT_ROWS[1], REPLICAS[0]):
            with tempfile.TemporaryDirectory() as folder:
                kept = ["--checkpoint-dir", folder]
                train(*with_steps(job, 5), *SPARSE[0], *kept)
                judged = subprocess.run(
                    [TROUPE, "evaluate", *CLICKS[:2], "--checkpoint", folder],
                    capture_output=True, text=True, timeout=60, check=False)
                self.assertEqual(judged.returncode, 1, judged.stdout)
                self.assertRegex(judged.stderr, r"by rows, on shards, and not "
                                 r"whole; resume it with --save FILE")
                ended.append(train(*job, *EXACT, *layout, *kept, "--resume"))
        same(self, *ended)

    def test_another_kind_than_the_checkpoints_is_said(self):
        job = [*CLICKS, "dlrm", *self.steps(5), "--strategy", "one_device"]
        with tempfile.TemporaryDirectory() as folder:
            kept = ["--checkpoint-dir", folder]
            train(*job, *kept)
            done = subprocess.run(
                [TROUPE, "train", *job, *kept, "--resume", *EXACT],
                capture_output=True, text=True, timeout=60, check=False)
        self.assertIn("--sparse-updates exact (lazy in the checkpoint)",
                      done.stdout)

    def test_what_cannot_be_exact_is_refused(self):
        for flags, line in (
                (["--tables", "sparse", "--async", *SERVED], "--async"),
                (["--tables", "sparse", "--clip-norm", "1", *SERVED],
                 "--clip-norm"),
                (["--tables", "sparse", "--optimizer", "lamb", *SERVED],
                 "lamb"),
                (["--table-bytes", "1000", *SERVED], "gives no row up"),
                (["--dense", "all_reduced", *SERVED], "--sparse-updates")):
            done = subprocess.run(
                [TROUPE, "train", *CLICKS, "dlrm", *EXACT, *flags],
                capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertRegex(done.stderr, rf"\Atroupe: [^\n]*{line}[^\n]*\n\Z")


if __name__ == "__main__":
    unittest.main()
