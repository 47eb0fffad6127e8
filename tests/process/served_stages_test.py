"""Strategy hybrid with --sync-data parameter_server: pipelines whose parameters
are on shards have the bits of one device, whatever the mesh, the schedule and
the shards; a stage, a shard or a replica of one that is killed goes on within
the step (I2, I3, I9)."""
# ctest: TIMEOUT 1200

import tempfile
import unittest

from layouts_test import CNN
from served_models import SERVED, ServedModels
from split_models import MODELS, ONE, STRUCK, SplitModels, call, summary_of

NORMS = ["--optimizer", "lamb", "--clip-norm", "0.05"]
# The last step of a data epoch has two samples: most ranks have none, and a
# whole pipeline may have none.
UNEVEN = ["--model", "mlp:784-64-48-10", "--data",
          "synthetic:digits?samples=146", "--global-batch", "48", "--seed", "7",
          "--steps", "25"]
TEXT = MODELS["transformer"][:-2]
# A batch norm whose sums are of all virtual ranks.
CROSS = CNN.replace('name = "norm_1"', 'name = "norm_1"\ncross_replica = true')


def mesh(data, stages, shards, *more):
    return ["--strategy", "hybrid", *SERVED, "--mesh",
            f"data={data},stage={stages}", "--ps", str(shards), *more]


class Bits(SplitModels, unittest.TestCase):
    def test_every_mesh_has_the_bits_of_one_device(self):
        schedules = ("1f1b", "gpipe", "zero_bubble")
        self.check_layouts(MODELS["mlp"], [
            mesh(data, stages, shards, "--in-process", "--schedule",
                 schedules[(data + stages + shards) % 3])
            for data in (1, 2, 3, 4) for stages in (1, 2, 4)
            for shards in (1, 3)])

    def test_processes_have_the_bits_of_one_device(self):
        self.check_layouts(MODELS["mlp"], [
            mesh(2, 2, 2, "--processes"),
            mesh(3, 1, 2, "--processes", "--schedule", "gpipe"),
            mesh(1, 3, 1, "--processes", "--link", "tcp"),
            mesh(2, 2, 1, "--processes", "--chain", "3"),
            mesh(2, 2, 2, "--processes", "--link", "tcp", "--link-encryption",
                 "on")])

    def test_other_models_have_the_bits_of_one_device(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as cnn:
            cnn.write(CNN)
            cnn.flush()
            norms = ["--model", cnn.name, "--data",
                     "synthetic:digits?samples=300", "--virtual-ranks", "6",
                     "--global-batch", "24", "--seed", "7", "--steps", "14"]
            for job in (norms, MODELS["transformer"], MODELS["dlrm"]):
                self.check_layouts(job, [
                    mesh(1, 4, 2, "--in-process", "--schedule", "1f1b"),
                    mesh(2, 2, 1, "--in-process", "--schedule", "gpipe",
                         "--recompute", "full"),
                    mesh(3, 2, 3, "--in-process", "--schedule", "zero_bubble"),
                    mesh(2, 2, 2, "--in-process", "--schedule", "interleaved"),
                    mesh(2, 3, 2, "--processes", "--chain", "2")])

    def test_norms_over_all_parameters_are_those_of_one_device(self):
        for model in ("mlp", "transformer"):
            self.check_layouts([*MODELS[model], *NORMS], [
                mesh(2, 2, 2, "--in-process"), mesh(3, 2, 2, "--processes")])

    def test_statistics_over_all_ranks_are_those_of_one_device(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as cnn:
            cnn.write(CROSS)
            cnn.flush()
            self.check_layouts(
                ["--model", cnn.name, "--data", "synthetic:digits?samples=300",
                 "--virtual-ranks", "6", "--global-batch", "24", "--seed", "7",
                 "--steps", "14"],
                [mesh(2, 2, 2, "--in-process"), mesh(3, 2, 1, "--processes")])

    def test_a_pipeline_without_samples_keeps_pace(self):
        self.check_layouts(UNEVEN, [
            mesh(4, 2, 2, "--in-process"), mesh(3, 2, 1, "--processes"),
            mesh(2, 2, 2, "--in-process", "--schedule", "interleaved")])

    def test_a_checkpoint_goes_on_under_another_layout(self):
        layouts = [mesh(2, 2, 2), ONE, mesh(3, 1, 1),
                   ["--strategy", "hybrid", "--mesh", "data=2,stage=2"],
                   mesh(1, 3, 2, "--processes"),
                   ["--strategy", "parameter_server", "--ps", "2"]]
        self.check_resumed(STRUCK, zip(layouts, layouts[1:] + layouts[:1]), 60)


class Repair(ServedModels, unittest.TestCase):
    def test_killed_stages_and_shards_go_on_and_no_step_is_lost(self):
        for job, layout in ((STRUCK, ()), (UNEVEN[:-2], ("--schedule", "gpipe")),
                            ([*TEXT, *NORMS], ("--schedule", "zero_bubble"))):
            with self.subTest(job=job, layout=layout):
                self.check_restored(
                    job, mesh(2, 2, 2, *layout, "--processes"),
                    ["stage:3", "ps:0", "stage:0", "ps:1", "stage:2"])

    def test_members_of_chains_die(self):
        """ps:0 -> ps:1 -> ps:2."""
        roles = ["ps:0", "stage:1", "ps:2", "ps:1", "stage:2"]
        for job in (STRUCK, [*STRUCK, *NORMS]):
            self.check_killed(
                job, mesh(2, 2, 1, "--chain", "3", "--processes"), roles, 3)

    def test_the_coordinator_a_stage_and_a_shard_may_die(self):
        self.check_dead_at_once(STRUCK, mesh(2, 2, 2, "--processes"),
                                ["stage:2", "ps:1"])

    def test_one_that_stands_still_is_replaced(self):
        self.check_stopped(STRUCK, mesh(2, 2, 2, "--processes"), "stage:3")

    def test_ctrl_c_ends_with_what_all_pipelines_have(self):
        for place in ("--processes", "--in-process"):
            self.check_interrupted(STRUCK, mesh(2, 2, 2, place))

    def test_a_gradient_that_is_not_finite_ends_the_run(self):
        self.check_not_finite(STRUCK, mesh(2, 2, 2, "--processes"))


class ByHand(ServedModels, unittest.TestCase):
    def test_roles_that_are_started_by_hand_die_and_come_back(self):
        self.check_by_hand(STRUCK, mesh(2, 1, 1), ["ps:0", "stage:0", "stage:1"],
                           "has the stages of its plan and no others")


class Plan(ServedModels, unittest.TestCase):
    def test_plan_counts_state_for_shards_and_none_for_stages(self):
        self.check_planned_state([*MODELS["mlp"], "--split-at", "flops",
                                  *mesh(2, 2, 2)])

    def test_plan_shows_who_keeps_and_who_computes(self):
        done = call("plan", *MODELS["mlp"], *mesh(2, 2, 2, "--chain", "2"),
                    "--split-at", "flops")
        self.assertEqual(done.returncode, 0, done.stderr)
        for pattern in (r"(?m)^pipeline 0 +stage:0, stage:1$",
                        r"(?m)^pipeline 1 +stage:2, stage:3$",
                        r"(?m)^stage:3 +cpu:0 +2-3 ",
                        r"(?m)^ps:3 +cpu +- ",
                        r"stage:0, stage:2 +flatten to dense_0",
                        r"(?m)^dense_0/weight .* ps:\d$",
                        r"at the shards, fixed tree; schedule",
                        r"stage:3 needs about", r"ps:3 needs about"):
            self.assertRegex(done.stdout, pattern)

    def test_the_summary_names_the_shards(self):
        summary = summary_of(*MODELS["mlp"], *mesh(2, 2, 3))
        self.assertEqual(summary["plan"]["shards"], 3)

    def test_what_cannot_be_is_refused_in_one_line(self):
        hybrid = ["--strategy", "hybrid"]
        self.check_refusals(MODELS["mlp"], (
            ([*mesh(2, 2, 1), "--async"], r"hybrid is synchronous"),
            ([*mesh(2, 2, 1), "--workers", "2"], r"--workers has no effect"),
            ([*mesh(2, 2, 1), "--tables", "sparse"],
             r"--tables has no effect"),
            ([*mesh(2, 2, 1), "--backup-workers", "1"],
             r"--backup-workers 1 is for parameter_server"),
            ([*mesh(2, 2, 1), "--server-filter", "finite"],
             r"--server-filter is run by shards"),
            ([*mesh(2, 2, 1, "--processes"), "--checkpoint-dir", "kept",
              "--on-loss", "replan"],
             r"--on-loss replan is not available yet with --sync-data"),
            ([*hybrid, "--mesh", "data=2,stage=2", "--ps", "2"],
             r"--ps has no effect .*--sync-data parameter_server")))


if __name__ == "__main__":
    unittest.main()
