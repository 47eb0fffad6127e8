"""Sparse tables on shards: the bits of dense ones whatever computes them, kills
included (I3), where a rule leaves rows without a gradient alone."""
# ctest: TIMEOUT 1200

import os
import re
import tempfile
import unittest

from clicks import (SERVED, counting, job, same, train, train_on_under,
                    train_under, with_steps)
from cluster import Run

LAYOUTS = [
    ["--in-process", "--workers", "1", "--ps", "1"],
    ["--in-process", "--workers", "3", "--ps", "2"],
    ["--processes", "--workers", "2", "--ps", "2"],
]


class Tables(unittest.TestCase):
    def test_sparse_tables_have_the_bits_of_dense_ones(self):
        for model in ("dlrm", "wide_deep", "logreg"):
            for optimizer in ("adagrad", "sgd"):
                arguments = job(model, optimizer)
                expected = train(*arguments, "--strategy", "one_device")
                for layout in LAYOUTS:
                    with self.subTest(model=model, optimizer=optimizer,
                                      layout=" ".join(layout)):
                        same(self, train(*arguments, *SERVED, *layout),
                                  expected)

    def test_other_rules_give_one_hash_for_any_layout(self):
        for optimizer in ("adam", "ftrl", "momentum"):
            arguments = [*job(optimizer=optimizer), *SERVED, "--tables",
                         "sparse", "--table-idle-steps", "8"]
            expected = train(*arguments, *LAYOUTS[0])
            for layout in LAYOUTS[1:]:
                with self.subTest(optimizer=optimizer, layout=layout):
                    same(self, train(*arguments, *layout), expected)

    def test_norms_over_rows_and_layers_have_one_hash_for_any_layout(self):
        for rule in (["adagrad", "--clip-norm", "0.05"], ["lamb"],
                     ["lamb", "--clip-norm", "0.05", "--weight-decay", "0.1"]):
            arguments = [*job(optimizer=rule[0]), *rule[1:], *SERVED,
                         "--tables", "sparse"]
            expected = train(*arguments, *LAYOUTS[0])
            for layout in (*LAYOUTS[1:], [*LAYOUTS[2], "--chain", "2"]):
                with self.subTest(rule=rule, layout=layout):
                    same(self, train(*arguments, *layout), expected)

    def check_undisturbed(self, summary):
        """It has the bits of a run that nobody disturbed; returns that one's."""
        expected = train(*job(steps=str(summary["steps"])), "--strategy",
                         "one_device")
        same(self, summary, expected)
        return expected

    def test_norms_keep_their_bits_whoever_dies(self):
        arguments = [*job(optimizer="lamb"), "--clip-norm", "0.05", *SERVED,
                     "--tables", "sparse"]
        summary = train_under(*arguments, "--processes", "--workers", "2",
                              "--ps", "2", "--chain", "2",
                              deaths=("ps:0", "worker:0", "ps:3"))
        same(self, summary, train(*with_steps(arguments, summary["steps"]),
                                  *LAYOUTS[0]))
        self.assertEqual(summary["steps_rolled_back"], 0)

    def test_evaluations_on_the_way_read_the_same_rows(self):
        # 43 steps a data epoch: checkpoints fall on evaluations, and do not.
        arguments = [*job()[:-6], "--epochs", "4", "--seed", "3"]

        def evaluations(*more):
            with Run(*arguments, *more) as run:
                summary = run.finish()
                return re.findall(r"epoch (\d) .*(eval loss.*auc \S+)",
                                  run.output()), summary

        expected, undisturbed = evaluations("--strategy", "one_device")
        self.assertEqual(len(expected), 4)
        for layout, every in zip(LAYOUTS, ("43", "20", "43")):
            with (self.subTest(layout=" ".join(layout)),
                  tempfile.TemporaryDirectory() as folder):
                found, summary = evaluations(
                    *SERVED, "--tables", "sparse", *layout,
                    "--checkpoint-dir", folder, "--checkpoint-every", every)
                self.assertEqual(found, expected)
                same(self, summary, undisturbed)
                self.assertTrue(summary["checkpoints"])

    def test_a_killed_shard_comes_back_with_its_rows(self):
        summary = train_under(*job(), *SERVED, "--processes", "--workers",
                              "2", "--ps", "2", deaths=("ps:0", "ps:1"))
        self.check_undisturbed(summary)
        self.assertEqual(summary["steps_rolled_back"], 0)
        kinds = [x["kind"] for x in summary["recoveries"]]
        self.assertEqual(kinds.count("shard_restored"), 2, kinds)

    def test_a_killed_worker_changes_nothing(self):
        summary = train_under(*job(), *SERVED, "--processes", "--workers",
                              "2", "--ps", "2", deaths=("worker:1",))
        self.check_undisturbed(summary)

    def test_chains_of_tables_keep_the_bits_whoever_dies(self):
        chained = [*job(), *SERVED, "--tables", "sparse", "--chain", "2",
                   "--workers", "2", "--ps", "2"]
        summary = train_under(*chained, "--processes",
                              deaths=("ps:0", "ps:3", "ps:2", "ps:1"))
        expected = self.check_undisturbed(summary)
        same(self, train(*with_steps(chained, summary["steps"]),
                         "--in-process"), expected)
        self.assertEqual(summary["steps_rolled_back"], 0)
        self.assertEqual(len(summary["recoveries"]), 4)

    def test_rows_of_a_chain_count_each_lease_once_whoever_dies(self):
        arguments = [*counting("count:2ms-4", "300"), *SERVED, "--async"]
        expected = train(*arguments, "--in-process", "--workers", "1", "--ps",
                         "1")
        self.assertGreater(expected["tables"]["rows"], 800)
        summary = train_on_under(*arguments, "--processes", "--workers", "2",
                                 "--ps", "2", "--chain", "2",
                                 deaths=(("ps:0", 40), ("ps:2", 120)))
        self.assertEqual(summary["weights_sha256"], expected["weights_sha256"])
        self.assertEqual(len(summary["recoveries"]), 2)

    def test_rows_are_pushed_asynchronously(self):
        for layout in LAYOUTS[1:]:
            # Without a schedule the last steps are noisy: 0.57 to 0.72.
            summary = train(*job(steps="100"), *SERVED, "--async",
                            "--lr-schedule", "cosine", *layout)
            self.assertEqual(summary["steps"], 100)
            self.assertGreater(summary["eval"]["auc"], 0.6)

    def test_rows_that_are_there_from_the_beginning_change_nothing(self):
        expected = train(*job(), *SERVED, "--in-process")
        self.assertLess(expected["tables"]["rows"], 26 * 2000)
        filled = train(*job(), *SERVED, "--in-process", "--table-fill")
        same(self, filled, expected)
        self.assertEqual(filled["tables"]["rows"], 26 * 2000)

    # Blocks of each of some fifty sizes had a slab of their own in each part:
    # 57 MB were kept for 2 MB of rows.
    def test_a_limit_bounds_the_memory_that_rows_take(self):
        arguments = ["--data", "synthetic:clicks?samples=20000&buckets=40000",
                     "--model", "dlrm", "--optimizer", "adam", "--steps",
                     "150"]
        limit = 2_000_000
        tables = train(*arguments, *SERVED, "--in-process", "--ps", "2",
                       "--table-bytes", str(limit))["tables"]
        self.assertGreater(tables["rows"], 7000)
        self.assertLess(tables["bytes"], 4 * limit)

    def test_saved_weights_have_all_rows(self):
        with Run(*job()) as run:
            path = run.path("weights.safetensors")
            run.finish()
            summary = train(*job(), *SERVED, "--in-process", "--save", path)
            self.assertGreater(os.path.getsize(path), 26 * 2000 * 16 * 4)
            self.assertIsNotNone(summary["weights_sha256"])

    def test_tables_that_cannot_be_sparse_are_refused_in_one_line(self):
        with Run("--data", "synthetic:digits?samples=100", *SERVED, "--tables",
                 "sparse") as run:
            run.finish(status=2)
            self.assertIn("--tables dense", run.error())
        with Run("--data", "synthetic:digits?samples=100", "--tables",
                 "sparse") as run:
            run.finish(status=2)
            self.assertIn("parameter_server", run.error())


if __name__ == "__main__":
    unittest.main()
