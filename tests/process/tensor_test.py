"""Strategy tensor in real processes and in one: the same bits for any number of
members, those of one device with as many virtual slices; a killed member goes on
from memory that outlived it, and no step is lost (I3)."""
# ctest: TIMEOUT 1200

import os
import re
import signal
import subprocess
import tempfile
import unittest

from cluster import ENDLESS, TROUPE, Run, resident_bytes, tensors_in, wait_for
from split_models import DIGESTS, digests, summary_of

DIGITS = ["--data", "synthetic:digits?samples=500", "--global-batch", "48",
          "--seed", "7"]
MLP = ["--model", "mlp:784-64-48-10", *DIGITS]
JOBS = {
    "mlp": [*MLP, "--steps", "25", "--eval-fraction", "0.1"],
    "cnn": ["--model", "cnn", *DIGITS, "--steps", "10"],
    "transformer": ["--model", "transformer:L2-H4-D32-T32-P0.1", "--data",
                    "synthetic:text", "--global-batch", "10",
                    "--virtual-ranks", "5", "--seed", "7", "--steps", "8"],
    "dlrm": ["--model", "dlrm", "--data", "synthetic:clicks?samples=500",
             "--global-batch", "50", "--virtual-ranks", "7", "--seed", "7",
             "--steps", "12"],
}
NORMS = ["--optimizer", "lamb", "--clip-norm", "0.05"]
TENSOR = ["--strategy", "tensor", "--tensor"]
ONE = ["--strategy", "one_device", "--virtual-slices", "4"]


def troupe(*arguments):
    return subprocess.run([TROUPE, *arguments], capture_output=True, text=True,
                          timeout=60, check=False)


class Tensor(unittest.TestCase):
    def check_layouts(self, job, layouts, more=(), slices="4"):
        sliced = ["--virtual-slices", slices]
        whole = summary_of(*job, *more, *ONE[:2], *sliced)
        for layout in layouts:
            with self.subTest(job=job[1], layout=layout):
                summary = summary_of(*job, *more, *TENSOR, *layout,
                                     *(sliced if slices != "4" else []))
                self.assertEqual(digests(summary), digests(whole))
                self.assertEqual(summary["eval"], whole["eval"])
                self.assertEqual(summary["final_loss"], whole["final_loss"])

    def test_any_number_of_members_has_the_bits_of_one_device(self):
        for job in JOBS.values():
            self.check_layouts(job, [
                ["1", "--in-process"], ["2", "--in-process"],
                ["4", "--in-process"], ["2", "--processes"],
                ["4", "--processes"], ["2", "--processes", "--link", "tcp"]])
        self.check_layouts(JOBS["mlp"], [
            ["2", "--processes", "--link", "tcp", "--link-encryption", "on"],
            ["4", "--processes", "--link", "shm"]])
        self.check_layouts(JOBS["mlp"], [
            ["3", "--in-process"], ["6", "--processes"]], slices="6")

    def test_norms_over_all_parameters_are_those_of_one_device(self):
        for job in JOBS.values():
            self.check_layouts(job, [["1"], ["2"], ["4", "--processes"]],
                               NORMS)

    def check_undisturbed(self, summary, *job):
        """It has the bits of a run that nobody disturbed."""
        whole = summary_of(*job, "--epochs", "0", "--steps",
                           str(summary["steps"]), *ONE)
        self.assertEqual(digests(summary), digests(whole))

    def check_kills(self, members, *job):
        roles = [f"tensor:{member}" for member in range(members)]
        with Run(*job, *ENDLESS, *TENSOR, str(members), "--processes") as run:
            for role in roles:
                run.wait_for_step(run.step() + 50)
                run.kill_and_wait(role, 1)
            summary = run.end(50)
        self.check_undisturbed(summary, *job)
        self.assertEqual(summary["steps_rolled_back"], 0)
        self.assertEqual([(r["role"], r["kind"])
                          for r in summary["recoveries"]],
                         [(role, "tensor_restored") for role in roles])

    def test_a_killed_member_goes_on_and_no_step_is_lost(self):
        self.check_kills(2, *MLP)
        self.check_kills(2, *MLP, *NORMS)
        self.check_kills(4, *MLP)
        self.check_kills(2, *JOBS["transformer"][:-2])

    def test_the_coordinator_or_all_members_may_die(self):
        with Run(*MLP, *ENDLESS, *TENSOR, "2", "--processes") as run:
            run.wait_for_step(150)
            run.kill_and_wait("coordinator", 1)
            run.wait_for_step(run.step() + 100)
            epoch = run.metric("troupe_membership_epoch")
            run.kill("tensor:0")
            run.kill("tensor:1")
            run.wait_for_epoch(epoch + 1)
            summary = run.end(100)
        self.check_undisturbed(summary, *MLP)
        self.assertEqual(summary["steps_rolled_back"], 0)

    def test_a_stopped_member_is_replaced(self):
        with Run(*MLP, *ENDLESS, *TENSOR, "2", "--processes") as run:
            run.wait_for_step(200)
            stopped = run.role("tensor:1")
            os.kill(stopped, signal.SIGSTOP)
            wait_for(lambda: "tensor:1 is left out" in run.output()
                     + run.error() or run.children().get("tensor:1")
                     not in (None, stopped), "the stopped member is replaced")
            summary = run.end(100)
        self.check_undisturbed(summary, *MLP)
        self.assertEqual(summary["steps_rolled_back"], 0)

    def test_a_checkpoint_goes_on_under_another_layout(self):
        job = [*MLP, "--steps"]
        whole = digests(summary_of(*job, "60", *ONE))
        layouts = ([*TENSOR, "2"], [*TENSOR, "4", "--processes"], ONE,
                   ["--strategy", "pipeline", "--stages", "2",
                    "--virtual-slices", "4"])
        for first in layouts:
            for second in layouts:
                if "tensor" not in first + second or first == second:
                    continue
                with self.subTest(first=first, second=second), \
                        tempfile.TemporaryDirectory() as folder:
                    kept = ["--checkpoint-dir", folder]
                    summary_of(*job, "30", *first, *kept)
                    summary = summary_of(*job, "60", *second, *kept,
                                         "--resume")
                    for name in DIGESTS[:2]:
                        self.assertEqual(summary[name], whole[name])

    def test_saved_weights_are_those_of_one_device(self):
        with tempfile.TemporaryDirectory() as folder:
            files = []
            for layout in (ONE, [*TENSOR, "2"], [*TENSOR, "4", "--processes"]):
                files.append(os.path.join(folder, str(len(files))))
                summary_of(*JOBS["mlp"], *layout, "--save", files[-1])
            whole, *others = [tensors_in(file) for file in files]
            for other in others:
                self.assertEqual(other, whole)
            said = [troupe("evaluate", *MLP[:4], "--checkpoint",
                           file).stdout for file in files]
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
        def resident(*model):
            job = ["--model", *model, "--data", "synthetic:text",
                   "--global-batch", "16", "--seed", "7", *TENSOR, "4",
                   "--processes"]
            with Run(*job, "--steps", "100000") as run:
                run.wait_for_step(4)
                found = [resident_bytes(run.role(f"tensor:{k}"))
                         for k in range(4)]
                run.process.send_signal(signal.SIGINT)
                run.finish(130, 60)
            return found

        base = resident("transformer:L4-H4-D8-T32")
        wide = resident("transformer:L4-H4-D256-T32", "--device-memory",
                        "48MiB")
        for alone, with_layers in zip(base, wide):
            self.assertLess(with_layers - alone, 48 << 20)
            self.assertGreater(with_layers - alone, 16 << 20)

    def test_ctrl_c_ends_with_what_all_members_have(self):
        with Run(*MLP, *ENDLESS, *TENSOR, "2", "--processes") as run:
            run.wait_for_step(50)
            run.process.send_signal(signal.SIGINT)
            summary = run.finish(130, 10)
        self.check_undisturbed(summary, *MLP)

    def test_a_gradient_that_is_not_finite_ends_the_run_with_a_line(self):
        with Run(*MLP, "--steps", "100", *TENSOR, "2", "--lr", "1e30") as run:
            run.finish(1)
            self.assertRegex(run.error(),
                             r"^troupe: (NaN loss at|the gradient of) step \d+ "
                             r".*lower --lr")

    def test_plan_shows_who_holds_which_slices(self):
        done = troupe("plan", *MLP, *TENSOR, "2")
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
        for arguments, pattern in (
                ([*TENSOR, "3"], r"--tensor 3 --virtual-slices 4: .*slices 6"),
                ([*TENSOR, "2", "--virtual-slices", "1"], r"--virtual-slices 2"),
                ([*TENSOR, "2", "--virtual-slices", "6"], r"--virtual-slices 8"),
                ([*TENSOR, "2", "--model", "logreg"], r"no two dense layers"),
                ([*TENSOR, "2", "--reduction", "fast"], r"--reduction fast"),
                ([*TENSOR, "2", "--async"], r"tensor is synchronous"),
                ([*TENSOR, "0"], r"--tensor 0"),
                ([*TENSOR, "2", "--stages", "2"], r"--stages has no effect"),
                (["--tensor", "2"], r"--tensor has no effect"),
                (["--strategy", "tensor", "--chain", "2"], r"--chain 2")):
            done = troupe("train", *MLP, *arguments)
            if "--model" in arguments:
                done = troupe("train", *DIGITS, *arguments)
            with self.subTest(arguments=arguments):
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertTrue(re.search(rf"^troupe: .*{pattern}.*\n$",
                                          done.stderr), done.stderr)


if __name__ == "__main__":
    unittest.main()
