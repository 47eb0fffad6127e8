"""Strategy hybrid with --sync-data parameter_server and tensor members: groups of
members, and pipelines of such groups, whose parameters are on shards have the
bits of one device with as many virtual slices; a member or a shard that is
killed goes on within the step (I2, I3, I9)."""
# ctest: TIMEOUT 1200

import unittest

import mesh_axes_test
from mesh_axes_test import (DEEP, MLP, NORMS, OTHERS, SLICED, SLICES, TEXT,
                            UNEVEN)
from served_models import SERVED, ServedModels
from split_models import call, summary_of


def mesh(data, stages, tensor, shards, *more):
    return mesh_axes_test.mesh(data, stages, tensor, *SERVED, "--ps",
                               str(shards), *more)


class Bits(ServedModels, unittest.TestCase):
    one = SLICED

    def test_every_group_has_the_bits_of_one_device(self):
        self.check_layouts(DEEP, [
            mesh(data, 1, tensor, shards, "--in-process")
            for data in (1, 2, 3) for tensor in (1, 2, 4)
            for shards in (1, 2, 3)])

    def test_every_mesh_has_the_bits_of_one_device(self):
        schedules = ("1f1b", "gpipe", "zero_bubble")
        self.check_layouts(DEEP, [
            mesh(data, stages, tensor, 1 + data % 2, "--in-process",
                 "--schedule", schedules[(data + stages + tensor) % 3])
            for data in (1, 2, 3) for stages in (2, 3) for tensor in (2, 4)])

    def test_processes_have_the_bits_of_one_device(self):
        self.check_layouts(DEEP, [
            mesh(2, 1, 2, 2, "--processes"),
            mesh(1, 1, 4, 3, "--processes", "--link", "tcp"),
            mesh(2, 1, 2, 1, "--processes", "--chain", "2"),
            mesh(2, 2, 2, 2, "--processes"),
            mesh(1, 2, 2, 2, "--processes", "--link", "tcp",
                 "--link-encryption", "on")])

    def test_other_models_have_the_bits_of_one_device(self):
        for job in OTHERS.values():
            self.check_layouts(job, [
                mesh(2, 1, 2, 2, "--in-process"),
                mesh(3, 1, 4, 1, "--in-process"),
                mesh(2, 2, 2, 3, "--in-process", "--schedule", "zero_bubble"),
                mesh(1, 2, 2, 1, "--in-process", "--recompute", "full"),
                mesh(2, 1, 2, 2, "--processes", "--chain", "2")])
        self.check_layouts(OTHERS["transformer"], [
            mesh(2, 2, 4, 2, "--in-process", "--schedule", "interleaved",
                 "--recompute", "full")])

    def test_norms_over_all_parameters_are_those_of_one_device(self):
        for job in (DEEP, OTHERS["transformer"]):
            self.check_layouts([*job, *NORMS], [
                mesh(2, 1, 2, 2, "--in-process"),
                mesh(2, 3, 2, 1, "--in-process"),
                mesh(3, 1, 2, 2, "--processes")])

    def test_a_group_without_samples_keeps_pace(self):
        self.check_layouts([*UNEVEN, "--steps", "25"], [
            mesh(4, 1, 2, 2, "--in-process"), mesh(4, 2, 2, 1, "--in-process"),
            mesh(3, 1, 2, 1, "--processes")])

    def test_a_checkpoint_goes_on_under_another_layout(self):
        layouts = [mesh(2, 1, 2, 2), SLICED, mesh(2, 2, 2, 1, "--chain", "2"),
                   mesh_axes_test.mesh(2, 1, 2), mesh(1, 1, 4, 3, "--processes"),
                   ["--strategy", "parameter_server", "--ps", "2", *SLICES]]
        self.check_resumed(DEEP[:-4], zip(layouts, layouts[1:] + layouts[:1]),
                           60)


class Repair(ServedModels, unittest.TestCase):
    one = SLICED

    def test_killed_members_and_shards_go_on_and_no_step_is_lost(self):
        for job, layout in (
                (MLP, mesh(2, 1, 2, 2)), (UNEVEN, mesh(2, 1, 2, 2)),
                ([*TEXT, *NORMS],
                 mesh(1, 2, 2, 2, "--schedule", "zero_bubble"))):
            with self.subTest(job=job, layout=layout):
                self.check_restored(
                    job, [*layout, "--processes"],
                    ["tensor:3", "ps:0", "tensor:0", "ps:1", "tensor:2"])

    def test_members_of_chains_die(self):
        """ps:0 -> ps:1."""
        for job in (MLP, [*MLP, *NORMS]):
            self.check_killed(
                job, mesh(2, 1, 2, 1, "--chain", "2", "--processes"),
                ["ps:0", "tensor:1", "ps:1", "tensor:2"], 3)

    def test_the_coordinator_a_member_and_a_shard_may_die(self):
        self.check_dead_at_once(MLP, mesh(2, 1, 2, 2, "--processes"),
                                ["tensor:2", "ps:1"])

    def test_one_that_stands_still_is_replaced(self):
        self.check_stopped(MLP, mesh(2, 1, 2, 2, "--processes"), "tensor:1")

    def test_ctrl_c_ends_with_what_all_groups_have(self):
        for place in ("--processes", "--in-process"):
            self.check_interrupted(MLP, mesh(2, 1, 2, 2, place))

    def test_a_gradient_that_is_not_finite_ends_the_run(self):
        self.check_not_finite(MLP, mesh(2, 1, 2, 2, "--processes"))


class ByHand(ServedModels, unittest.TestCase):
    one = SLICED

    def test_roles_that_are_started_by_hand_die_and_come_back(self):
        self.check_by_hand(MLP, mesh(1, 1, 2, 1),
                           ["ps:0", "tensor:0", "tensor:1"],
                           "has the members of its plan and no others")


class Plan(ServedModels, unittest.TestCase):
    def test_plan_counts_state_for_shards_and_none_for_members(self):
        self.check_planned_state([*MLP, *mesh(2, 1, 2, 2)])

    def test_plan_shows_who_keeps_and_who_computes(self):
        done = call("plan", *MLP, *mesh(2, 2, 2, 2, "--chain", "2"),
                    "--split-at", "flops", "--schedule", "1f1b")
        self.assertEqual(done.returncode, 0, done.stderr)
        for pattern in (r"(?m)^pipeline 1 +tensor:4 to tensor:7$",
                        r"(?m)^tensor:7 +cpu:0 +2-3 +pulls ",
                        r"(?m)^ps:3 +cpu +- ",
                        r"(?m)^tensor:1, tensor:5 +0 +2-3 ",
                        r"(?m)^dense_0/weight\[2\] +784x16 .* ps:\d$",
                        r"(?m)^dense_2/weight .* ps:\d$",
                        r"at the shards, fixed tree; of slices by direct "
                        r"exchange, fixed tree; schedule 1f1b",
                        r"tensor:7 needs about", r"ps:3 needs about"):
            self.assertRegex(done.stdout, pattern)

    def test_the_summary_names_the_shards(self):
        summary = summary_of(*MLP, "--steps", "4", *mesh(2, 1, 2, 3))
        self.assertEqual(summary["plan"]["shards"], 3)

    def test_what_cannot_be_is_refused_in_one_line(self):
        two = mesh(2, 1, 2, 1)
        self.check_refusals(MLP, (
            (mesh(2, 1, 3, 1), r"--virtual-slices 6"),
            ([*two, "--async"], r"hybrid is synchronous"),
            ([*two, "--workers", "2"], r"--workers has no effect"),
            ([*two, "--tables", "sparse"], r"--tables has no effect"),
            ([*two, "--schedule", "gpipe"], r"--schedule has no effect"),
            ([*two, "--reduction", "fast"], r"--reduction fast"),
            ([*two, "--server-filter", "finite"],
             r"--server-filter is run by shards"),
            ([*two, "--processes", "--checkpoint-dir", "kept", "--on-loss",
              "replan"],
             r"--on-loss replan is not available yet with --sync-data")))


if __name__ == "__main__":
    unittest.main()
