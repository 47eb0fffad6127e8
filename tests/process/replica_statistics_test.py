"""Batch norms with statistics over all virtual ranks, on replicas in one process
and in several: the bits of one device for any number of them, by whatever they
are linked, and whoever of them is killed in the middle (I3, I9)."""
# ctest: TIMEOUT 1200

import unittest

from cluster import ENDLESS, Run
from rank_statistics_test import (DATA, STEPS, NormModels, StruckNorms, mesh,
                                  pipeline)
from split_models import ONE, summary_of


def mirrored(devices, *more):
    return ["--strategy", "mirrored", "--devices", f"cpu:{devices}", *more]


def workers(count, *more):
    return ["--strategy", "multi_worker_mirrored", "--workers", str(count),
            *more]


TCP = ["--link", "tcp"]


class ReplicaStatistics(NormModels, unittest.TestCase):
    def test_replicas_of_one_process_have_the_bits_of_one_device(self):
        self.check_layouts([*self.job, *STEPS], [
            *(mirrored(devices) for devices in (1, 2, 3, 6)),
            mirrored(2, "--threads-per-device", "2"),
            mirrored(3, "--all-reduce", "reduction_to_one_device"),
            ["--strategy", "central_storage", "--devices", "cpu:3"],
            workers(2, "--in-process"),
            workers(3, "--in-process")])

    def test_replicas_in_processes_have_the_bits_of_one_device(self):
        self.check_layouts([*self.job, *STEPS], [
            workers(1, "--processes"),
            workers(2, "--processes"),
            workers(3, "--processes"),
            workers(2, "--processes", "--devices", "cpu:2"),
            workers(2, "--processes", *TCP),
            workers(3, "--processes", *TCP, "--link-encryption", "on")])

    def test_any_number_of_virtual_ranks_will_do(self):
        for ranks in ("1", "2", "5"):
            self.check_layouts([*self.job[:-1], ranks, *STEPS], [
                mirrored(min(int(ranks), 3)),
                workers(min(int(ranks), 2), "--processes", *TCP)])

    def test_norms_over_all_parameters_are_those_of_one_device(self):
        self.check_layouts(
            [*self.job, *STEPS, "--optimizer", "lamb", "--clip-norm", "0.05"],
            [mirrored(2), workers(3, "--processes")])

    def test_gradients_may_be_summed_in_any_order(self):
        whole = summary_of(*self.job, *STEPS, *ONE)
        for layout in (
                mirrored(3, "--all-reduce", "ring"),
                mirrored(4, "--all-reduce", "hierarchical_copy"),
                workers(3, "--processes", *TCP, "--all-reduce",
                        "halving_doubling"),
                workers(2, "--processes", *TCP, "--compress", "bf16")):
            with self.subTest(layout=layout):
                summary = summary_of(*self.job, *STEPS, *layout, "--reduction",
                                     "fast")
                self.assertAlmostEqual(summary["final_loss"],
                                       whole["final_loss"], delta=0.02)

    def check_killed(self, layout, roles):
        with Run(*self.job, *ENDLESS, *layout) as run:
            for role in roles:
                run.wait_for_step(run.step() + 50)
                run.kill_and_wait(role, 2)
            summary = run.end(50)
        self.check_undisturbed(summary, *self.job)
        self.assertEqual([r["role"] for r in summary["recoveries"]], roles)
        self.assertLessEqual({r["kind"] for r in summary["recoveries"]},
                             {"ranks_taken_over", "worker_restarted"})

    def test_killed_replicas_go_on_and_no_step_is_lost(self):
        self.check_killed(workers(3, "--processes"),
                          ["worker:1", "worker:0", "worker:2", "worker:1"])
        self.check_killed(workers(3, "--processes", *TCP),
                          ["worker:2", "worker:0", "worker:1"])

    def test_the_coordinator_and_two_replicas_may_die(self):
        with Run(*self.job, *ENDLESS, *workers(3, "--processes")) as run:
            run.wait_for_step(50)
            run.kill_and_wait("coordinator", 1)
            run.wait_for_step(run.step() + 50)
            epoch = run.metric("troupe_membership_epoch")
            for role in ("worker:0", "worker:2"):
                run.kill(role)
            run.wait_for_epoch(epoch + 2)
            summary = run.end(50)
        self.check_undisturbed(summary, *self.job)
        self.assertLessEqual({"coordinator", "worker:0", "worker:2"},
                             {r["role"] for r in summary["recoveries"]})

    def test_a_replica_that_stands_still_is_replaced(self):
        self.check_stopped(self.job, workers(3, "--processes"), "worker:1")

    def test_ctrl_c_ends_with_what_all_replicas_have(self):
        self.check_interrupted(self.job, mirrored(3))
        self.check_interrupted(self.job, workers(2, "--processes"))

    def test_a_checkpoint_goes_on_under_another_layout(self):
        layouts = [mirrored(3), ONE, workers(2, "--processes"), mesh(2, 2),
                   pipeline(2)]
        self.check_resumed(self.job, zip(layouts, layouts[1:] + layouts[:1]),
                           20)

    def test_a_gradient_that_is_not_finite_ends_the_run_with_a_line(self):
        for layout in (mirrored(3), workers(3, "--processes")):
            self.check_not_finite(self.job, layout)

    def test_more_ranks_than_can_be_computed_at_once_are_refused(self):
        self.check_refusals(["--model", self.model, "--data",
                             "synthetic:digits", "--global-batch", "600",
                             "--virtual-ranks", "257"], [
            (mirrored(2), r"--virtual-ranks 257: a model with cross_replica")])


class StruckReplicas(StruckNorms):
    def test_faults_of_all_kinds_change_no_bit(self):
        self.check_faults_of_all_kinds(workers(3, "--processes"))


if __name__ == "__main__":
    unittest.main()
