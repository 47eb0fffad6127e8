"""Batch norms with statistics over all virtual ranks, on workers of a parameter
server: the bits of one device for any number of workers and shards, whoever of
them is killed in the middle, and whoever comes or goes (I1, I3, I9)."""
# ctest: TIMEOUT 1800

import unittest

from cluster import ENDLESS, Run
from moves_test import ask
from rank_statistics_test import DATA, STEPS, NormModels, StruckNorms, mesh
from replica_statistics_test import mirrored
from split_models import ONE, summary_of


def served(workers, shards, *more):
    return ["--strategy", "parameter_server", "--workers", str(workers),
            "--ps", str(shards), *more]


def sharded(workers, *more):
    return ["--strategy", "fully_sharded", "--shard", "optimizer", "--workers",
            str(workers), *more]


HERE = ["--in-process"]
APART = ["--processes"]
TCP = ["--link", "tcp"]
CHAIN = ["--chain", "2"]
REDUCED = ["--dense", "all_reduced"]
STRUCK = served(3, 2, *APART, *CHAIN)

ROWS = """[sample]
features = [13]
ids = 26
vocabulary = 2600
label = "binary"

[[operators]]
kind = "batch_norm"
name = "norm_0"
inputs = "features"
cross_replica = true

[[operators]]
kind = "dense"
name = "values"
units = 8

[[operators]]
kind = "embedding_bag"
name = "rows"
inputs = "ids"
width = 8

[[operators]]
kind = "add"
inputs = ["values", "rows"]

[[operators]]
kind = "batch_norm"
name = "norm_1"
activation = "relu"
cross_replica = true

[[operators]]
kind = "dense"
units = 1

[[operators]]
kind = "sigmoid_cross_entropy"
"""
CLICKS = ["--data", "synthetic:clicks?samples=163&buckets=100",
          "--global-batch", "48", "--seed", "7", "--virtual-ranks", "6",
          "--optimizer", "adagrad", "--lr", "0.05"]


class ServedStatistics(NormModels, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.rows = ["--model", cls.write("rows.toml", ROWS), *CLICKS]

    def test_workers_of_one_process_have_the_bits_of_one_device(self):
        self.check_layouts([*self.job, *STEPS], [
            *(served(workers, shards, *HERE) for workers in (1, 2, 3, 4)
              for shards in (1, 2)),
            served(6, 3, *HERE, *CHAIN),
            served(2, 1, *HERE, "--threads-per-device", "2")])

    def test_workers_in_processes_have_the_bits_of_one_device(self):
        self.check_layouts([*self.job, *STEPS], [
            served(1, 1, *APART),
            served(2, 1, *APART),
            served(3, 2, *APART, *CHAIN),
            served(4, 2, *APART),
            served(2, 2, *APART, *TCP),
            served(3, 1, *APART, *TCP, "--link-encryption", "on")])

    def test_any_number_of_virtual_ranks_will_do(self):
        for ranks in ("1", "2", "5"):
            self.check_layouts([*self.job[:-1], ranks, *STEPS],
                               [served(min(int(ranks), 3), 2, *HERE)])

    def test_order_norms_and_readers_change_no_bit(self):
        self.check_layouts([*self.job, *STEPS], [
            served(3, 2, *APART, "--priority", "on"),
            served(2, 1, *HERE, "--readers", "1"),
            served(3, 1, *APART, "--readers", "2")])
        self.check_layouts(
            [*self.job, *STEPS, "--optimizer", "lamb", "--clip-norm", "0.05"],
            [served(2, 2, *HERE), served(3, 2, *APART)])

    def test_gradients_may_be_compressed(self):
        whole = summary_of(*self.job, *STEPS, *ONE)
        for how in ("bf16", "int8"):
            with self.subTest(how=how):
                summary = summary_of(*self.job, *STEPS,
                                     *served(2, 2, *APART, "--reduction",
                                             "fast", "--compress", how))
                self.assertAlmostEqual(summary["final_loss"],
                                       whole["final_loss"], delta=0.02)

    def test_rows_on_shards_have_the_bits_of_one_device(self):
        self.check_layouts([*self.rows, *STEPS], [
            served(2, 2, *HERE),
            served(3, 2, *APART, *CHAIN),
            *(served(workers, 2, *HERE, *REDUCED) for workers in (1, 2, 3)),
            served(3, 2, *APART, *REDUCED),
            served(2, 1, *APART, *REDUCED, *CHAIN, *TCP)])

    def test_workers_that_keep_a_share_have_the_bits_of_one_device(self):
        self.check_layouts([*self.job, *STEPS], [
            sharded(1, *HERE), sharded(3, *HERE), sharded(2, *APART),
            sharded(3, *APART, *CHAIN)])

    def check_killed(self, job, layout, roles):
        with Run(*job, *ENDLESS, *layout) as run:
            for role in roles:
                run.wait_for_step(run.step() + 50)
                before = run.metric("troupe_membership_epoch")
                run.kill(role)
                run.wait_for_epoch(before + 1)
            summary = run.end(50)
        self.check_undisturbed(summary, *job)
        self.assertLessEqual({role.replace("sharded", "worker")
                              for role in roles},
                             {r["role"] for r in summary["recoveries"]})

    def test_killed_workers_and_shards_go_on_and_no_step_is_lost(self):
        self.check_killed(self.job, STRUCK,
                          ["worker:1", "ps:0", "worker:0", "ps:3", "worker:2"])
        self.check_killed(self.job, served(2, 1, *APART, *TCP),
                          ["worker:1", "ps:0", "worker:0"])
        self.check_killed(self.rows, served(3, 2, *APART, *REDUCED, *CHAIN),
                          ["worker:1", "ps:1", "worker:0"])

    def test_killed_workers_that_keep_a_share_lose_no_step(self):
        self.check_killed(self.job, sharded(3, *APART, *CHAIN),
                          ["sharded:1", "sharded:0"])

    def test_the_coordinator_and_a_worker_may_die(self):
        self.check_killed(self.job, STRUCK,
                          ["coordinator", "worker:0", "worker:2"])

    def test_a_worker_that_stands_still_is_replaced(self):
        self.check_stopped(self.job, STRUCK, "worker:1")

    def test_ctrl_c_ends_with_what_all_shards_have(self):
        self.check_interrupted(self.job, served(3, 2, *HERE))
        self.check_interrupted(self.job, STRUCK)
        self.check_interrupted(self.rows, served(2, 2, *APART, *REDUCED))

    def test_a_checkpoint_goes_on_under_another_layout(self):
        layouts = [served(3, 2, *HERE), mirrored(2), served(2, 1, *APART),
                   mesh(2, 2)]
        self.check_resumed(self.job, zip(layouts, layouts[1:] + layouts[:1]),
                           20)

    def test_a_gradient_that_is_not_finite_ends_the_run_with_a_line(self):
        for layout in (served(3, 2, *HERE), served(3, 1, *APART)):
            self.check_not_finite(self.job, layout)

    def test_workers_and_shards_may_come_and_go(self):
        with Run(*self.job, *ENDLESS, *served(2, 1, *APART)) as run:
            for change in (["workers", "add", "2"], ["shards", "add"],
                           ["workers", "remove", "worker:0"],
                           ["workers", "remove", "worker:2"]):
                run.wait_for_step(run.step() + 30)
                done = ask(run, *change)
                self.assertEqual(done.returncode, 0, done.stderr)
            summary = run.end(50)
        self.check_undisturbed(summary, *self.job)
        self.assertEqual(summary["recoveries"], [])
        self.assertEqual(len(summary["changes"]), 4)

    def test_what_cannot_be_is_refused_in_one_line(self):
        norm = "operator norm_0: cross_replica"
        self.check_refusals(self.job, [
            (served(2, 1, "--async"), norm + ".*drop --async"),
            (served(2, 1, "--async", "--staleness", "0"),
             norm + ".*drop --async"),
            (served(2, 1, "--backup-workers", "1", "--reduction", "fast"),
             norm + ".*--backup-workers.*drop that"),
            (["--strategy", "fully_sharded", "--workers", "2"],
             norm + ".*--shard optimizer")])
        self.check_refusals(self.rows, [
            (served(2, 1, *REDUCED, "--async"), norm + ".*drop --async")])

    def test_a_run_is_not_switched_to_steps_without_all_ranks(self):
        with Run(*self.job, *ENDLESS, *served(2, 1, *APART)) as run:
            run.wait_for_step(20)
            done = ask(run, "consistency", "async")
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertRegex(done.stderr, r"\Atroupe: .*cross_replica needs all "
                             r"virtual ranks of a step at once.*\n\Z")
            summary = run.end(20)
        self.check_undisturbed(summary, *self.job)


class StruckServed(StruckNorms):
    def test_faults_of_all_kinds_change_no_bit(self):
        self.check_faults_of_all_kinds(STRUCK)


if __name__ == "__main__":
    unittest.main()
