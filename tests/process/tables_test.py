"""Sparse tables on shards: the bits of dense ones whatever computes them, kills
included (I3), where a rule leaves rows without a gradient alone."""
# ctest: TIMEOUT 300 RUN_SERIAL TRUE

import os
import re
import signal
import tempfile
import unittest

from cluster import Run

DIGESTS = ("weights_sha256", "state_sha256")
SERVED = ["--strategy", "parameter_server"]
LAYOUTS = [
    ["--in-process", "--workers", "1", "--ps", "1"],
    ["--in-process", "--workers", "3", "--ps", "2"],
    ["--processes", "--workers", "2", "--ps", "2"],
]


def job(model="dlrm", optimizer="adagrad", steps="20"):
    return ["--data", "synthetic:clicks?samples=3000&buckets=2000", "--model",
            model, "--optimizer", optimizer, "--lr", "0.05", "--eval-fraction",
            "0.1", "--epochs", "0", "--steps", steps, "--seed", "3"]


def train(*arguments, **options):
    with Run(*arguments) as run:
        return run.finish(**options)


class Tables(unittest.TestCase):
    def same(self, summary, expected):
        for name in DIGESTS:
            self.assertEqual(summary[name], expected[name], name)
        self.assertEqual(summary["eval"], expected["eval"])

    def test_sparse_tables_have_the_bits_of_dense_ones(self):
        for model in ("dlrm", "wide_deep", "logreg"):
            for optimizer in ("adagrad", "sgd"):
                arguments = job(model, optimizer)
                expected = train(*arguments, "--strategy", "one_device")
                for layout in LAYOUTS:
                    with self.subTest(model=model, optimizer=optimizer,
                                      layout=" ".join(layout)):
                        self.same(train(*arguments, *SERVED, *layout),
                                  expected)

    def test_other_rules_give_one_hash_for_any_layout(self):
        for optimizer in ("adam", "ftrl", "momentum"):
            arguments = [*job(optimizer=optimizer), *SERVED, "--tables",
                         "sparse", "--table-idle-steps", "8"]
            expected = train(*arguments, *LAYOUTS[0])
            for layout in LAYOUTS[1:]:
                with self.subTest(optimizer=optimizer, layout=layout):
                    self.same(train(*arguments, *layout), expected)

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
                self.same(summary, undisturbed)
                self.assertTrue(summary["checkpoints"])

    def test_a_killed_shard_comes_back_with_its_rows(self):
        arguments = job(steps="600")
        expected = train(*arguments, "--strategy", "one_device")
        with Run(*arguments, *SERVED, "--processes", "--workers", "2", "--ps",
                 "2") as run:
            for shard, step in (("ps:0", 50), ("ps:1", 200)):
                run.wait_for_step(step)
                os.kill(run.role(shard), signal.SIGKILL)
            summary = run.finish()
        self.same(summary, expected)
        self.assertEqual(summary["steps_rolled_back"], 0)
        kinds = [x["kind"] for x in summary["recoveries"]]
        self.assertEqual(kinds.count("shard_restored"), 2, kinds)

    def test_a_killed_worker_changes_nothing(self):
        arguments = job(steps="600")
        expected = train(*arguments, "--strategy", "one_device")
        with Run(*arguments, *SERVED, "--processes", "--workers", "2", "--ps",
                 "2") as run:
            run.wait_for_step(100)
            os.kill(run.role("worker:1"), signal.SIGKILL)
            summary = run.finish()
        self.same(summary, expected)

    def test_chains_of_tables_keep_the_bits_whoever_dies(self):
        arguments = job(steps="600")
        expected = train(*arguments, "--strategy", "one_device")
        chained = [*arguments, *SERVED, "--tables", "sparse", "--chain", "2"]
        self.same(train(*chained, "--in-process", "--workers", "2", "--ps",
                        "2"), expected)
        with Run(*chained, "--processes", "--workers", "2", "--ps",
                 "2") as run:
            for shard, step in (("ps:0", 50), ("ps:3", 150), ("ps:2", 250),
                                ("ps:1", 350)):
                run.wait_for_step(step)
                os.kill(run.role(shard), signal.SIGKILL)
            summary = run.finish()
        self.same(summary, expected)
        self.assertEqual(summary["steps_rolled_back"], 0)
        self.assertEqual(len(summary["recoveries"]), 4)

    def test_rows_of_a_chain_count_each_lease_once_whoever_dies(self):
        # Integers: the sum of what leases add has the same bits in any order.
        counting = ["--data", "synthetic:rows?samples=400&ids=8&vocabulary=900",
                    "--model", "count:2ms-4", "--optimizer", "sgd", "--lr",
                    "1", "--epochs", "0", "--steps", "300", "--virtual-ranks",
                    "2", "--global-batch", "8", *SERVED, "--async"]
        expected = train(*counting, "--in-process", "--workers", "1", "--ps",
                         "1")
        self.assertGreater(expected["tables"]["rows"], 800)
        with Run(*counting, "--processes", "--workers", "2", "--ps", "2",
                 "--chain", "2") as run:
            for shard, step in (("ps:0", 40), ("ps:2", 120)):
                run.wait_for_step(step)
                os.kill(run.role(shard), signal.SIGKILL)
            summary = run.finish()
        self.assertEqual(summary["weights_sha256"], expected["weights_sha256"])
        self.assertEqual(len(summary["recoveries"]), 2)

    def test_rows_are_pushed_asynchronously(self):
        for layout in LAYOUTS[1:]:
            summary = train(*job(steps="100"), *SERVED, "--async", *layout)
            self.assertEqual(summary["steps"], 100)
            self.assertGreater(summary["eval"]["auc"], 0.6)

    def test_rows_that_are_there_from_the_beginning_change_nothing(self):
        expected = train(*job(), *SERVED, "--in-process")
        self.assertLess(expected["tables"]["rows"], 26 * 2000)
        filled = train(*job(), *SERVED, "--in-process", "--table-fill")
        self.same(filled, expected)
        self.assertEqual(filled["tables"]["rows"], 26 * 2000)

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
