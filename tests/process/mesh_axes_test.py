"""Meshes of three axes in real processes and in one: pipelines side by side whose
stages are groups of tensor members have the bits of one device with as many
virtual slices; a killed member of any of them goes on, and no step is lost
(I3, I9)."""
# ctest: TIMEOUT 1200

import os
import re
import tempfile
import unittest

from lost_memory import LostMemory
from split_models import SplitModels, call, summary_of

DIGITS = ["--data", "synthetic:digits?samples=500", "--global-batch", "48",
          "--seed", "7"]
# A pair of layers that is cut into slices, and one that is not: the second
# stage has no sum over its members.
MLP = ["--model", "mlp:784-64-48-10", *DIGITS]
DEEP = ["--model", "mlp:784-64-48-32-16-16-10", *DIGITS, "--steps", "25",
        "--eval-fraction", "0.1"]
# The last step of a data epoch has two samples: most ranks have none, and a
# whole pipeline may have none.
UNEVEN = ["--model", "mlp:784-64-48-10", "--data",
          "synthetic:digits?samples=146", "--global-batch", "48", "--seed", "7"]
TEXT = ["--model", "transformer:L2-H4-D32-T32-P0.1", "--data",
        "synthetic:text", "--global-batch", "10", "--virtual-ranks", "5",
        "--seed", "7"]
OTHERS = {
    "cnn": ["--model", "cnn", *DIGITS, "--steps", "8"],
    "transformer": [*TEXT, "--steps", "8"],
    "dlrm": ["--model", "dlrm", "--data", "synthetic:clicks?samples=500",
             "--global-batch", "50", "--virtual-ranks", "7", "--seed", "7",
             "--steps", "12"],
}
NORMS = ["--optimizer", "lamb", "--clip-norm", "0.05"]
SLICES = ["--virtual-slices", "4"]
SLICED = ["--strategy", "one_device", *SLICES]


def mesh(data, stages, tensor, *more):
    return ["--strategy", "hybrid", "--mesh",
            f"data={data},stage={stages},tensor={tensor}", *SLICES, *more]


class MeshAxes(SplitModels, unittest.TestCase):
    one = SLICED

    def test_every_mesh_has_the_bits_of_one_device(self):
        schedules = ("1f1b", "gpipe", "zero_bubble")
        self.check_layouts(DEEP, [
            mesh(data, stages, tensor, "--in-process", "--schedule",
                 schedules[(data + stages + tensor) % 3])
            for data in range(1, 4) for stages in (2, 3) for tensor in (2, 4)])

    def test_processes_have_the_bits_of_one_device(self):
        self.check_layouts(DEEP, [
            mesh(2, 2, 2, "--processes"),
            mesh(1, 2, 2, "--processes", "--link", "tcp"),
            mesh(1, 3, 2, "--processes", "--schedule", "gpipe"),
            mesh(1, 2, 2, "--processes", "--link", "tcp", "--link-encryption",
                 "on")])

    def test_other_models_have_the_bits_of_one_device(self):
        for job in OTHERS.values():
            self.check_layouts(job, [
                mesh(2, 2, 2, "--in-process"),
                mesh(1, 3, 2, "--in-process", "--schedule", "zero_bubble"),
                mesh(1, 2, 2, "--processes", "--recompute", "full")])
        self.check_layouts(OTHERS["transformer"], [
            mesh(2, 2, 4, "--in-process", "--schedule", "interleaved",
                 "--recompute", "full")])

    def test_norms_over_all_parameters_are_those_of_one_device(self):
        for job in (DEEP, OTHERS["transformer"]):
            self.check_layouts([*job, *NORMS], [
                mesh(2, 3, 2, "--in-process"), mesh(1, 2, 2, "--processes")])

    def test_a_pipeline_without_samples_keeps_pace(self):
        self.check_layouts([*UNEVEN, "--steps", "25"], [
            mesh(4, 2, 2, "--in-process"), mesh(2, 2, 2, "--processes")])

    def test_killed_members_of_any_stage_go_on_and_no_step_is_lost(self):
        self.check_killed_in_turn(
            MLP, mesh(1, 2, 2, "--processes"),
            ["tensor:3", "tensor:0", "tensor:2", "tensor:1"])
        self.check_killed_in_turn(
            [*TEXT, *NORMS],
            mesh(1, 2, 2, "--processes", "--schedule", "zero_bubble"),
            ["tensor:2", "tensor:1"])
        self.check_killed_in_turn(
            UNEVEN, mesh(2, 2, 2, "--processes"),
            ["tensor:7", "tensor:0", "tensor:5"])

    def test_the_coordinator_and_a_stage_may_die(self):
        self.check_deaths_together(MLP, mesh(1, 2, 2, "--processes"),
                                   ["tensor:2", "tensor:3"])

    def test_a_member_that_stands_still_is_replaced(self):
        self.check_stopped(MLP, mesh(1, 2, 2, "--processes"), "tensor:1")

    def test_ctrl_c_ends_with_what_all_members_have(self):
        self.check_interrupted(MLP, mesh(1, 2, 2, "--processes"))

    def test_a_checkpoint_goes_on_under_another_layout(self):
        layouts = [mesh(2, 2, 2), SLICED, mesh(1, 3, 2),
                   ["--strategy", "tensor", "--tensor", "2"], mesh(2, 1, 4),
                   ["--strategy", "pipeline", "--stages", "3", *SLICES]]
        self.check_resumed(DEEP[:-4], zip(layouts, layouts[1:] + layouts[:1]),
                           60)

    def test_saved_weights_evaluate_as_those_of_one_device(self):
        with tempfile.TemporaryDirectory() as folder:
            found = []
            for layout in (SLICED, mesh(2, 2, 2)):
                path = os.path.join(folder, "weights.safetensors")
                summary_of(*MLP, "--steps", "25", *layout, "--save", path)
                done = call("evaluate", "--checkpoint", path, "--model",
                            "mlp:784-64-48-10", "--data",
                            "synthetic:digits?samples=100", *SLICES)
                self.assertEqual(done.returncode, 0, done.stderr)
                found.append(re.search(r"loss +\S+", done.stdout).group())
            self.assertEqual(*found)

    def test_plan_shows_who_holds_what(self):
        done = call("plan", *MLP, *mesh(2, 2, 2), "--split-at", "flops",
                    "--schedule", "1f1b")
        self.assertEqual(done.returncode, 0, done.stderr)
        for pattern in (
                r"(?m)^pipeline 1 +tensor:4 to tensor:7$",
                r"(?m)^tensor:7 +cpu:0 +2-3 ",
                r"(?m)^tensor:2, tensor:3, tensor:6, tensor:7 +dense_2 to loss",
                r"(?m)^tensor:1, tensor:5 +0 +2-3 ",
                r"(?m)^tensor:3, tensor:7 +1 +2-3 +\d+ +0 +0 +0$",
                r"dense_0/weight\[2\] +784x16 .*tensor:1,tensor:5",
                r"dense_2/weight .*every member of stage 1",
                r"over 2 pipelines by direct exchange, fixed tree; of slices "
                r"by direct exchange, fixed tree; schedule 1f1b",
                r"tensor:7 needs about"):
            self.assertRegex(done.stdout, pattern)

    def test_stages_that_fit_a_limit_are_found(self):
        wide = ["--model", "mlp:784-512-512-512-512-10", *DIGITS]
        layout = mesh(1, 2, 2)
        done = call("plan", *wide, *layout, "--device-memory", "32MiB")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = call("plan", *wide, *layout, "--device-memory", "1MiB")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"--device-memory 1 MiB: tensor:\d needs")

    def test_what_cannot_be_is_refused_in_one_line(self):
        self.check_refusals([*MLP, "--steps", "25"], (
            (mesh(1, 9, 2), r"--mesh data=1,stage=9,tensor=2: --model \S+ "
             r"cannot be cut so, as each stage needs a layer in virtual slices"),
            (mesh(1, 2, 4), r"cannot be cut so"),
            (mesh(5, 2, 2), r"--mesh data=5: 5 pipelines need at least 5 "
             r"virtual ranks"),
            (mesh(1, 2, 3), r"--virtual-slices 6"),
            (mesh(1, 2, 2, "--split-at", "dense_1"),
             r"dense_1 is within layers that tensor members share"),
            (mesh(1, 2, 2, "--tensor", "2"),
             r"--tensor has no effect .*--mesh"),
            (mesh(1, 2, 2, "--stages", "2"), r"--stages has no effect"),
            (mesh(1, 2, 2, "--reduction", "fast"), r"--reduction fast"),
            (mesh(1, 2, 2, "--async"), r"hybrid is synchronous")))


class LostHosts(LostMemory):
    def test_a_member_that_lost_its_memory_gets_a_copy(self):
        # Of a stage with sums over its members, and of one without.
        self.check_copied(mesh(2, 2, 2), [f"tensor:{k}" for k in range(8)],
                          ("tensor:1", "tensor:7"), SLICED)


if __name__ == "__main__":
    unittest.main()
