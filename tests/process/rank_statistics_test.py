"""Batch norms with statistics over all virtual ranks, on stages under gpipe: the
bits of one device whatever the stages and the mesh, activations computed again
and killed stages included (I3, I9); other layouts refuse them with a line."""
# ctest: TIMEOUT 1200

import os
import tempfile
import unittest

from chaos_runs import ChaosRuns
from layouts_test import CNN
from split_models import ONE, SplitModels, call, planned_bytes, summary_of

# The last step of a data epoch has two samples: most ranks have none, and a
# whole pipeline may have none.
DATA = ["--data", "synthetic:digits?samples=146", "--global-batch", "48",
        "--seed", "7", "--virtual-ranks"]
STEPS = ["--epochs", "0", "--steps", "10", "--eval-fraction", "0.1"]
GPIPE = ["--schedule", "gpipe"]
FULL = ["--recompute", "full"]
# A norm alone is no layer that can be left out: the others of it are.
SOME = ["--recompute", "conv_1,conv_2,pool"]
WITH_NORMS = ["--recompute", "conv_1,norm_1,conv_2,norm_2,hidden_1"]


def pipeline(stages, *more):
    return ["--strategy", "pipeline", "--stages", str(stages), *more]


def mesh(data, stages, *more):
    return ["--strategy", "hybrid", "--mesh", f"data={data},stage={stages}",
            *more]


class NormModels(SplitModels):
    """A cnn with three norms, over each virtual rank and over all of them."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        # The first norm's input asks for no gradient: it has no sum backward.
        first = '[[operators]]\nkind = "batch_norm"\nname = "norm_0"\n\n'
        apart = CNN.replace("\n[[operators]]", "\n" + first + "[[operators]]", 1)
        whole = apart.replace('kind = "batch_norm"',
                              'kind = "batch_norm"\ncross_replica = true')
        cls.apart, cls.model = (cls.write(name, text) for name, text in
                                (("apart.toml", apart), ("whole.toml", whole)))
        cls.job = ["--model", cls.model, *DATA, "6"]

    @classmethod
    def write(cls, name, text):
        path = os.path.join(cls.folder, name)
        with open(path, "w") as file:
            file.write(text)
        return path


class StruckNorms(NormModels, ChaosRuns):
    """Who errs alone computes again with all others; whose link breaks, or who
    dies, in any phase, is in the next epoch."""

    def check_faults_of_all_kinds(self, layout):
        kinds = "kill,stop,nan,device,cut,stall,one-way,flip"
        verdict, _ = self.passed(
            ["--faults", "12", "--kinds", kinds, "--seed", "5"],
            [*self.job, "--epochs", "0", *layout])
        self.assertEqual(set(verdict["faults"]), set(kinds.split(",")))
        for digest in ("weights_sha256", "state_sha256"):
            self.assertEqual(verdict[digest], verdict["undisturbed"][digest])


class RankStatistics(NormModels, unittest.TestCase):
    def test_stages_have_the_bits_of_one_device(self):
        self.check_layouts([*self.job, *STEPS], [
            pipeline(1, *GPIPE, "--in-process"),
            pipeline(2, *GPIPE, "--in-process"),
            pipeline(3, *GPIPE, "--processes"),
            pipeline(3, "--processes", "--link", "tcp"),
            pipeline(4, *GPIPE, "--processes"),
            pipeline(2, *GPIPE, "--split-at", "norm_2")])

    def test_they_are_not_those_of_each_rank_alone(self):
        found = [summary_of("--model", model, *DATA, "6", *STEPS, *pipeline(2))
                 for model in (self.apart, self.model)]
        self.assertNotEqual(*(x["weights_sha256"] for x in found))

    def test_activations_that_are_computed_again_have_the_same_bits(self):
        self.check_layouts([*self.job, *STEPS], [
            pipeline(2, *GPIPE, *FULL, "--in-process"),
            pipeline(3, *GPIPE, *FULL, "--processes"),
            pipeline(2, *GPIPE, *SOME, "--processes"),
            pipeline(3, *GPIPE, *WITH_NORMS, "--in-process"),
            mesh(2, 2, *GPIPE, *FULL, "--in-process"),
            mesh(2, 2, *GPIPE, *WITH_NORMS, "--processes")])

    def test_pipelines_side_by_side_have_the_bits_of_one_device(self):
        self.check_layouts([*self.job, *STEPS], [
            mesh(2, 1, "--in-process"),
            mesh(2, 2, *GPIPE, "--processes"),
            mesh(3, 2, *GPIPE, "--in-process"),
            mesh(2, 3, *GPIPE, "--processes", "--link", "tcp"),
            mesh(4, 4, *GPIPE, "--in-process"),
            mesh(6, 2, *GPIPE, "--in-process")])

    def test_norms_over_all_parameters_are_those_of_one_device(self):
        self.check_layouts(
            [*self.job, *STEPS, "--optimizer", "lamb", "--clip-norm", "0.05"],
            [pipeline(3, *GPIPE), mesh(2, 2, *GPIPE, "--processes")])

    def test_killed_stages_go_on_and_no_step_is_lost(self):
        self.check_killed_in_turn(
            self.job, pipeline(3, *GPIPE, "--processes"),
            ["stage:1", "stage:0", "stage:2"])
        self.check_killed_in_turn(
            self.job, mesh(2, 2, *GPIPE, *FULL, "--processes"),
            ["stage:3", "stage:0"])

    def test_the_coordinator_and_a_pipeline_may_die(self):
        self.check_deaths_together(self.job, mesh(2, 2, "--processes"),
                                   ["stage:2", "stage:3"])

    def test_ctrl_c_ends_with_what_all_stages_have(self):
        self.check_interrupted(self.job, pipeline(2, "--processes"))

    def test_a_checkpoint_goes_on_under_another_layout(self):
        layouts = [pipeline(3), ONE, mesh(2, 2)]
        self.check_resumed(self.job, zip(layouts, layouts[1:] + layouts[:1]),
                           20)

    def test_a_gradient_that_is_not_finite_ends_the_run_with_a_line(self):
        self.check_not_finite(self.job, mesh(2, 2, *GPIPE))

    # All micro-batches are under way at once, with a gradient each.
    def test_stages_take_as_much_memory_as_the_plan_says(self):
        def model(units):
            return self.write(f"units_{units}.toml",
                              f'[sample]\nfeatures = [28, 28, 1]\n'
                              f'classes = 10\n' + "".join(
                f'[[operators]]\nkind = "{kind}"\n{more}\n' for kind, more in (
                    ("conv2d", f"units = {units}\nkernel = 3\npadding = 1"),
                    ("batch_norm", "cross_replica = true"),
                    ("conv2d", f"units = {units}\nkernel = 3\npadding = 1"),
                    ("batch_norm", "cross_replica = true"),
                    ("average_pool", ""), ("reshape", ""),
                    ("dense", "units = 10"),
                    ("softmax_cross_entropy", ""))))

        job = ["--data", "synthetic:digits?samples=512", "--global-batch",
               "384", "--virtual-ranks", "8", "--seed", "7"]
        for layout in (pipeline(2, *GPIPE, "--split-at", "flops"),
                       pipeline(2, *GPIPE, "--split-at", "flops", *FULL)):
            with self.subTest(layout=layout):
                self.check_planned_memory([*job, *layout, "--processes"],
                                          model(4), model(16))
        wide = ["--model", model(16), *job]
        most = max(planned_bytes(*wide, *pipeline(2)).values())
        limit = ["--device-memory", f"{int(most) - 65536}"]
        done = call("train", *wide, *pipeline(2), *limit)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, r"^troupe: --device-memory .*: stage:\d "
                         r"needs .*\n$")
        limit = ["--device-memory", f"{int(most) + 65536}"]
        summary_of(*wide, *pipeline(2), *limit, "--steps", "2")

    def test_what_cannot_be_is_refused_in_one_line(self):
        norm = "operator norm_0.*cross_replica"
        self.check_refusals(self.job, [
            *((pipeline(2, "--schedule", order),
               rf"--schedule {order}: {norm}.*use --schedule gpipe")
              for order in ("1f1b", "interleaved", "zero_bubble")),
            *((layout, norm + r".*one_device, mirrored, .*, and pipeline or")
              for layout in (
                  ["--strategy", "fully_sharded", "--workers", "2"],
                  ["--strategy", "hybrid", "--mesh",
                   "data=1,stage=2,tensor=2", "--virtual-slices", "4"]))])
        # One rank has all samples: nothing crosses, and any order will do.
        self.check_layouts([*self.job[:-1], "1", *STEPS],
                           [pipeline(2, "--schedule", "1f1b")])


if __name__ == "__main__":
    unittest.main()
