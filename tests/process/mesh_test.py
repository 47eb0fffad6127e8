"""Strategy hybrid in real processes and in one: pipelines, or groups of tensor
members, side by side have the bits of one device, whatever the mesh and the
schedule; a killed member of any of them goes on, and no step is lost (I3, I9)."""
# ctest: TIMEOUT 1200

import os
import re
import tempfile
import unittest

from lost_memory import LostMemory
from split_models import ONE, SplitModels, call, digests, summary_of

DIGITS = ["--data", "synthetic:digits?samples=500", "--global-batch", "48",
          "--seed", "7"]
MLP = ["--model", "mlp:784-64-48-10", *DIGITS]
# The last step of a data epoch has two samples: most ranks have none, and a
# whole pipeline may have none.
UNEVEN = ["--model", "mlp:784-64-48-10", "--data",
          "synthetic:digits?samples=146", "--global-batch", "48", "--seed", "7"]
TEXT = ["--model", "transformer:L2-H2-D32-T32-P0.1", "--data",
        "synthetic:text", "--global-batch", "10", "--virtual-ranks", "5",
        "--seed", "7"]
MODELS = {
    "mlp": [*MLP, "--steps", "25", "--eval-fraction", "0.1"],
    "uneven": [*UNEVEN, "--steps", "25"],
    "cnn": ["--model", "cnn", *DIGITS, "--steps", "8"],
    "transformer": [*TEXT, "--steps", "8"],
    "dlrm": ["--model", "dlrm", "--data", "synthetic:clicks?samples=500",
             "--global-batch", "50", "--virtual-ranks", "7", "--seed", "7",
             "--steps", "12"],
}
NORMS = ["--optimizer", "lamb", "--clip-norm", "0.05"]
# A transformer whose heads go into four virtual slices.
SLICED_TEXT = ["--model", "transformer:L2-H4-D32-T32-P0.1", *TEXT[2:]]
SLICED = [*ONE, "--virtual-slices", "4"]


def mesh(data, stages, *more):
    return ["--strategy", "hybrid", "--mesh", f"data={data},stage={stages}",
            *more]


def groups(data, tensor, *more):
    return ["--strategy", "hybrid", "--mesh", f"data={data},tensor={tensor}",
            *more]


class Mesh(SplitModels, unittest.TestCase):
    def test_every_mesh_has_the_bits_of_one_device(self):
        self.check_layouts(MODELS["mlp"], [
            mesh(data, stages, "--in-process", "--schedule",
                 ("1f1b", "gpipe")[(data + stages) % 2])
            for data in range(1, 5) for stages in range(1, 5)])

    def test_processes_have_the_bits_of_one_device(self):
        self.check_layouts(MODELS["mlp"], [
            mesh(2, 2, "--processes"),
            mesh(2, 1, "--processes", "--link", "tcp"),
            mesh(3, 2, "--processes", "--schedule", "gpipe"),
            mesh(2, 2, "--processes", "--link", "tcp", "--link-encryption",
                 "on")])

    def test_other_models_have_the_bits_of_one_device(self):
        for model in ("cnn", "transformer", "dlrm"):
            self.check_layouts(MODELS[model], [
                mesh(2, 2, "--in-process"),
                mesh(3, 2, "--in-process", "--schedule", "zero_bubble"),
                mesh(2, 2, "--in-process", "--schedule", "interleaved",
                     "--recompute", "full"),
                mesh(2, 3, "--processes")])

    def test_norms_over_all_parameters_are_those_of_one_device(self):
        for model in ("mlp", "transformer"):
            self.check_layouts([*MODELS[model], *NORMS], [
                mesh(2, 2, "--in-process"), mesh(3, 2, "--processes")])

    def test_a_pipeline_without_samples_keeps_pace(self):
        self.check_layouts(MODELS["uneven"], [
            mesh(4, 2, "--in-process"), mesh(3, 2, "--in-process"),
            mesh(4, 2, "--processes"),
            mesh(2, 2, "--in-process", "--schedule", "interleaved")])

    def test_killed_stages_of_any_pipeline_go_on_and_no_step_is_lost(self):
        for job, layout in ((MLP, ()), (UNEVEN, ("--schedule", "gpipe")),
                            ([*TEXT, *NORMS], ("--schedule", "zero_bubble"))):
            self.check_killed_in_turn(
                job, mesh(2, 2, *layout, "--processes"),
                ["stage:3", "stage:0", "stage:2", "stage:1"])

    def test_the_coordinator_and_a_pipeline_may_die(self):
        self.check_deaths_together(MLP, mesh(2, 2, "--processes"),
                                   ["stage:2", "stage:3"])

    def test_ctrl_c_ends_with_what_all_pipelines_have(self):
        self.check_interrupted(MLP, mesh(2, 2, "--processes"))

    def test_a_checkpoint_goes_on_under_another_layout(self):
        layouts = [mesh(2, 2), ONE, mesh(3, 1),
                   ["--strategy", "pipeline", "--stages", "3"]]
        self.check_resumed(MLP, zip(layouts, layouts[1:] + layouts[:1]), 60)

    def test_saved_weights_evaluate_as_those_of_one_device(self):
        with tempfile.TemporaryDirectory() as folder:
            found = []
            for layout in (["--strategy", "one_device"], mesh(2, 2)):
                path = os.path.join(folder, "weights.safetensors")
                summary_of(*MODELS["mlp"], *layout, "--save", path)
                done = call("evaluate", "--checkpoint", path, "--model",
                            "mlp:784-64-48-10", "--data",
                            "synthetic:digits?samples=100")
                self.assertEqual(done.returncode, 0, done.stderr)
                found.append(re.search(r"loss +\S+", done.stdout).group())
            self.assertEqual(*found)

    def test_plan_shows_who_holds_what(self):
        done = call("plan", *MODELS["mlp"], *mesh(2, 2), "--split-at", "flops")
        self.assertEqual(done.returncode, 0, done.stderr)
        for pattern in (r"(?m)^pipeline 0 +stage:0, stage:1$",
                        r"(?m)^pipeline 1 +stage:2, stage:3$",
                        r"(?m)^stage:3 +cpu:0 +2-3 ",
                        r"stage:0, stage:2 +flatten to dense_0",
                        r"over 2 pipelines by direct exchange, fixed tree",
                        r"stage:3 needs about"):
            self.assertRegex(done.stdout, pattern)

    def test_what_cannot_be_is_refused_in_one_line(self):
        hybrid = ["--strategy", "hybrid"]
        self.check_refusals(MODELS["mlp"], (
            (mesh(2, 9), r"--mesh data=2,stage=9: .* has 4 operators"),
            (mesh(5, 1), r"--mesh data=5: 5 pipelines need at least 5 "
             r"virtual ranks: add --virtual-ranks 5"),
            ([*hybrid, "--mesh", "data=2,rows=2"], r"no axis rows"),
            ([*hybrid, "--mesh", "2x2"], r"expected AXIS=N"),
            ([*hybrid, "--sync-data", "rings"],
             r"--sync-data rings.*use all_reduce or parameter_server"),
            ([*hybrid, "--ps", "2"],
             r"--ps has no effect .*--sync-data parameter_server"),
            ([*hybrid, "--stages", "2"],
             r"--stages has no effect .*use --mesh"),
            (["--mesh", "data=2,stage=2"],
             r"--mesh has no effect .*add --strategy hybrid"),
            (["--strategy", "pipeline", "--sync-data", "all_reduce"],
             r"--sync-data has no effect"),
            ([*hybrid, "--workers", "2"], r"--workers has no effect"),
            ([*hybrid, "--async"], r"hybrid is synchronous"),
            ([*hybrid, "--reduction", "fast"], r"--reduction fast"),
            ([*hybrid, "--all-reduce", "ring"], r"--all-reduce ring"),
            ([*hybrid, "--chain", "2"], r"--chain 2")))


class Groups(SplitModels, unittest.TestCase):
    """Tensor members side by side: --mesh data=D,tensor=T."""

    one = SLICED

    def check_groups(self, job, layouts, slices="4"):
        sliced = ["--virtual-slices", slices]
        self.check_layouts(job, [[*layout, *sliced] for layout in layouts],
                           [*ONE, *sliced])

    def test_every_mesh_has_the_bits_of_one_device(self):
        self.check_groups(MODELS["mlp"], [
            groups(data, tensor, "--in-process")
            for data in range(1, 5) for tensor in (1, 2, 4)])
        self.check_groups(MODELS["mlp"], [
            groups(2, 2), groups(3, 8)], slices="8")

    def test_slices_are_four_unless_they_are_given(self):
        whole = summary_of(*MODELS["mlp"], *SLICED)
        summary = summary_of(*MODELS["mlp"], *groups(2, 2))
        self.assertEqual(digests(summary), digests(whole))

    def test_processes_have_the_bits_of_one_device(self):
        self.check_groups(MODELS["mlp"], [
            groups(2, 2, "--processes"),
            groups(3, 2, "--processes", "--link", "tcp"),
            groups(2, 2, "--processes", "--link", "tcp", "--link-encryption",
                   "on")])

    def test_other_models_have_the_bits_of_one_device(self):
        for job in (MODELS["cnn"], [*SLICED_TEXT, "--steps", "8"],
                    MODELS["dlrm"]):
            self.check_groups(job, [groups(2, 2, "--in-process"),
                                    groups(3, 4, "--in-process"),
                                    groups(2, 2, "--processes")])

    def test_norms_over_all_parameters_are_those_of_one_device(self):
        for job in (MODELS["mlp"], [*SLICED_TEXT, "--steps", "8"]):
            self.check_groups([*job, *NORMS], [
                groups(2, 2, "--in-process"), groups(3, 2, "--processes")])

    def test_a_group_without_samples_keeps_pace(self):
        self.check_groups(MODELS["uneven"], [
            groups(4, 2, "--in-process"), groups(3, 4, "--in-process"),
            groups(4, 2, "--processes")])

    def test_killed_members_of_any_group_go_on_and_no_step_is_lost(self):
        for job in (MLP, UNEVEN, [*SLICED_TEXT, *NORMS]):
            self.check_killed_in_turn(
                job, groups(2, 2, "--processes"),
                ["tensor:3", "tensor:0", "tensor:2", "tensor:1"])

    def test_the_coordinator_and_a_group_may_die(self):
        self.check_deaths_together(MLP, groups(2, 2, "--processes"),
                                   ["tensor:2", "tensor:3"])

    def test_a_checkpoint_goes_on_under_another_layout(self):
        layouts = [groups(2, 2), SLICED, groups(3, 4),
                   ["--strategy", "tensor", "--tensor", "2"],
                   mesh(2, 2, "--virtual-slices", "4")]
        self.check_resumed(MLP, zip(layouts, layouts[1:] + layouts[:1]), 60)

    def test_plan_shows_who_holds_what(self):
        done = call("plan", *MODELS["mlp"], *groups(2, 2))
        self.assertEqual(done.returncode, 0, done.stderr)
        for pattern in (r"(?m)^group 0 +tensor:0, tensor:1$",
                        r"(?m)^group 1 +tensor:2, tensor:3$",
                        r"(?m)^tensor:3 +cpu:0 +2-3 ",
                        r"(?m)^tensor:1, tensor:3 +2-3 ",
                        r"dense_0/weight\[2\] +784x16 .*tensor:1,tensor:3",
                        r"dense_2/weight .*every member",
                        r"over 2 groups by direct exchange, fixed tree",
                        r"tensor:3 needs about"):
            self.assertRegex(done.stdout, pattern)

    def test_what_cannot_be_is_refused_in_one_line(self):
        two = groups(2, 2)
        self.check_refusals(MODELS["mlp"], (
            (groups(2, 3), r"--mesh data=2,tensor=3 --virtual-slices 4: "
             r".*--virtual-slices 6"),
            (groups(5, 2), r"--mesh data=5: 5 groups need at least 5 "
             r"virtual ranks"),
            ([*two, "--virtual-slices", "1"], r"--virtual-slices 2"),
            ([*two, "--tensor", "2"], r"--tensor has no effect .*--mesh"),
            ([*two, "--schedule", "gpipe"],
             r"--schedule has no effect with --mesh data=2,tensor=2"),
            ([*two, "--split-at", "dense_1"], r"--split-at has no effect"),
            ([*two, "--reduction", "fast"], r"--reduction fast"),
            ([*two, "--async"], r"hybrid is synchronous"),
            ([*two, "--chain", "2"], r"--chain 2")))


class LostHosts(LostMemory):
    def test_a_stage_that_lost_its_memory_gets_a_copy(self):
        self.check_lost("stage", mesh(2, 2), ONE)

    def test_a_tensor_member_that_lost_its_memory_gets_a_copy(self):
        self.check_lost("tensor", groups(2, 2), SLICED)

    def check_lost(self, kind, layout, one):
        self.check_copied(layout, [f"{kind}:{k}" for k in range(4)],
                          (f"{kind}:0", f"{kind}:3"), one)


if __name__ == "__main__":
    unittest.main()
