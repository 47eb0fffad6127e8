"""Strategy tensor in real processes and in one: the same bits for any number of
members, those of one device with as many virtual slices; a killed member goes on
from memory that outlived it, and no step is lost (I3)."""
# ctest: TIMEOUT 1200

import os
import re
import tempfile
import unittest

from cluster import Run, tensors_in
from split_models import SplitModels, call, digests, summary_of

DIGITS = ["--data", "synthetic:digits?samples=500", "--global-batch", "48",
          "--seed", "7"]
MLP = ["--model", "mlp:784-64-48-10", *DIGITS]
JOBS = {
    "mlp": [*MLP, "--steps", "25", "--eval-fraction", "0.1"],
    "cnn": ["--model", "cnn", *DIGITS, "--steps", "10"],
    "transformer": ["--model", "transformer:L2-H4-D32-T32-P0.1", "--data",
                    "synthetic:text", "--global-batch", "10",
                    "--virtual-ranks", "5", "--seed", "7", "--steps", "8"],
    "llama": ["--model", "llama:L2-H8-K4-D32-T32-P0.1", "--data",
              "synthetic:text", "--global-batch", "10", "--virtual-ranks", "5",
              "--seed", "7", "--steps", "8"],
    "dlrm": ["--model", "dlrm", "--data", "synthetic:clicks?samples=500",
             "--global-batch", "50", "--virtual-ranks", "7", "--seed", "7",
             "--steps", "12"],
}
NORMS = ["--optimizer", "lamb", "--clip-norm", "0.05"]
TENSOR = ["--strategy", "tensor", "--tensor"]
ONE = ["--strategy", "one_device", "--virtual-slices", "4"]


class Tensor(SplitModels, unittest.TestCase):
    one = ONE

    def check_members(self, job, layouts, more=()):
        self.check_layouts([*job, *more],
                           [[*TENSOR, *layout] for layout in layouts])

    def test_any_number_of_members_has_the_bits_of_one_device(self):
        for job in JOBS.values():
            self.check_members(job, [
                ["1", "--in-process"], ["2", "--in-process"],
                ["4", "--in-process"], ["2", "--processes"],
                ["4", "--processes"], ["2", "--processes", "--link", "tcp"]])
        self.check_members(JOBS["mlp"], [
            ["2", "--processes", "--link", "tcp", "--link-encryption", "on"],
            ["4", "--processes", "--link", "shm"]])
        six = ["--virtual-slices", "6"]
        self.check_layouts(JOBS["mlp"], [
            [*TENSOR, "3", "--in-process", *six],
            [*TENSOR, "6", "--processes", *six]], [*ONE[:2], *six])

    def test_norms_over_all_parameters_are_those_of_one_device(self):
        for job in JOBS.values():
            self.check_members(job, [["1"], ["2"], ["4", "--processes"]],
                               NORMS)

    def check_member_kills(self, members, *job):
        self.check_killed_in_turn(
            job, [*TENSOR, str(members), "--processes"],
            [f"tensor:{member}" for member in range(members)])

    def test_a_killed_member_goes_on_and_no_step_is_lost(self):
        self.check_member_kills(2, *MLP)
        self.check_member_kills(2, *MLP, *NORMS)
        self.check_member_kills(4, *MLP)
        self.check_member_kills(2, *JOBS["transformer"][:-2])

    def test_the_coordinator_or_all_members_may_die(self):
        self.check_deaths_together(MLP, [*TENSOR, "2", "--processes"],
                                   ["tensor:0", "tensor:1"])

    def test_a_stopped_member_is_replaced(self):
        self.check_stopped(MLP, [*TENSOR, "2", "--processes"], "tensor:1")

    def test_a_checkpoint_goes_on_under_another_layout(self):
        layouts = ([*TENSOR, "2"], [*TENSOR, "4", "--processes"], ONE,
                   ["--strategy", "pipeline", "--stages", "2",
                    "--virtual-slices", "4"])
        self.check_resumed(MLP, [
            (first, second) for first in layouts for second in layouts
            if "tensor" in first + second and first != second], 60)

    def test_saved_weights_are_those_of_one_device(self):
        with tempfile.TemporaryDirectory() as folder:
            files = []
            for layout in (ONE, [*TENSOR, "2"], [*TENSOR, "4", "--processes"]):
                files.append(os.path.join(folder, str(len(files))))
                summary_of(*JOBS["mlp"], *layout, "--save", files[-1])
            whole, *others = [tensors_in(file) for file in files]
            for other in others:
                self.assertEqual(other, whole)
            said = [call("evaluate", *MLP[:4], "--checkpoint", file).stdout
                    for file in files]
            self.assertIn("accuracy", said[0])
            self.assertEqual(said[1:], said[:1] * 2)

    def test_a_model_that_one_device_refuses_trains_on_members(self):
        job = ["--model", "transformer:L8-H4-D128-T32", "--data",
               "synthetic:text", "--global-batch", "16", "--seed", "7",
               "--steps", "40"]
        limit = ["--device-memory", "24MiB"]
        with Run(*job, "--strategy", "one_device", *limit) as run:
            run.finish(1)
            self.assertRegex(
                run.error(), r"^troupe: --device-memory 24 MiB: worker:0 needs "
                r"about .*, or --strategy tensor --tensor \d "
                r"--virtual-slices 4\n$")
        whole = summary_of(*job, *ONE)
        for place in ("--processes", "--in-process"):
            with self.subTest(place=place):
                self.assertEqual(digests(summary_of(*job, *TENSOR, "4", place,
                                                    *limit)), digests(whole))

    def test_members_take_as_much_memory_as_the_plan_says(self):
        self.check_memory([*TENSOR, "4", "--processes"],
                          [f"tensor:{k}" for k in range(4)],
                          "transformer:L4-H4-D8-T32",
                          "transformer:L4-H4-D256-T32")

    def test_ctrl_c_ends_with_what_all_members_have(self):
        self.check_interrupted(MLP, [*TENSOR, "2", "--processes"])

    def test_a_gradient_that_is_not_finite_ends_the_run_with_a_line(self):
        self.check_not_finite(MLP, [*TENSOR, "2"])

    def test_plan_shows_who_holds_which_slices(self):
        done = call("plan", *MLP, *TENSOR, "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        shares = re.findall(r"(?m)^tensor:(\d) +(\S+) +(\d+) +(\d) +(\d) +(\d+)$",
                            done.stdout)
        self.assertEqual([share[:2] for share in shares],
                         [("0", "0-1"), ("1", "2-3")])
        # One sum forward, of 48 units; the input of the first layer is data.
        self.assertEqual([share[3:] for share in shares],
                         [("1", "0", "192"), ("1", "0", "192")])
        self.assertRegex(done.stdout, r"dense_0/weight\[2\] +784x16 .*tensor:1")
        self.assertRegex(done.stdout, r"dense_2/weight .*every member")
        self.assertRegex(done.stdout, r"tensor:1 needs about")

    def test_what_cannot_be_is_refused_in_one_line(self):
        self.check_refusals(MLP, (
            ([*TENSOR, "3"], r"--tensor 3 --virtual-slices 4: .*slices 6"),
            ([*TENSOR, "2", "--virtual-slices", "1"], r"--virtual-slices 2"),
            ([*TENSOR, "2", "--virtual-slices", "6"], r"--virtual-slices 8"),
            ([*TENSOR, "2", "--reduction", "fast"], r"--reduction fast"),
            ([*TENSOR, "2", "--async"], r"tensor is synchronous"),
            ([*TENSOR, "0"], r"--tensor 0"),
            ([*TENSOR, "2", "--stages", "2"], r"--stages has no effect"),
            (["--tensor", "2"], r"--tensor has no effect"),
            (["--strategy", "tensor", "--chain", "2"], r"--chain 2")))
        self.check_refusals([*DIGITS, "--model", "logreg"], (
            ([*TENSOR, "2"], r"no two dense layers"),))


if __name__ == "__main__":
    unittest.main()
