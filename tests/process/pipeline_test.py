"""Strategy pipeline in real processes and in one: the same bits as one device
for any number of stages, schedule and place of the cuts; a killed stage goes on
from memory that outlived it, and no step is lost (I3, I9)."""
# ctest: TIMEOUT 1200

import os
import re
import tempfile
import unittest

from cluster import Run, tensors_in
from split_models import (DIGITS, MODELS, ONE, STRUCK, UNITS, SplitModels, call,
                          digests, planned_bytes, summary_of)

STAGES = ["--strategy", "pipeline", "--stages"]
# The layout of the plan is that of the run.
FIXED = ["--split-at", "flops", "--schedule", "1f1b"]
CLIPPED = ["--clip-norm", "0.05"]
LAMB = ["--optimizer", "lamb"]


class Pipeline(SplitModels, unittest.TestCase):
    def check_stages(self, model, layouts):
        self.check_layouts(MODELS[model],
                           [[*STAGES, *layout] for layout in layouts])

    def test_an_mlp_has_the_same_bits_on_any_number_of_stages(self):
        self.check_stages("mlp", [
            ["1", "--in-process"], ["2", "--in-process"],
            ["3", "--schedule", "gpipe", "--in-process"],
            ["4", "--schedule", "1f1b", "--in-process"],
            ["1", "--schedule", "zero_bubble"],
            ["3", "--schedule", "zero_bubble", "--in-process"],
            ["4", "--schedule", "zero_bubble", "--processes"],
            ["4", "--processes"], ["2", "--processes", "--link", "tcp"],
            ["3", "--processes", "--schedule", "gpipe", "--link", "shm"],
            ["2", "--split-at", "dense_2"],
            ["2", "--processes", "--link-encryption", "on", "--link", "tcp"]])

    def test_other_models_have_the_same_bits_on_stages(self):
        for model in ("cnn", "transformer", "dlrm"):
            self.check_stages(model, [
                ["2", "--in-process"], ["3", "--schedule", "gpipe"],
                ["4", "--schedule", "1f1b"], ["4", "--processes"],
                ["2", "--schedule", "zero_bubble"],
                ["3", "--schedule", "zero_bubble", "--in-process"],
                ["4", "--schedule", "zero_bubble", "--processes"]])

    def test_activations_that_are_computed_again_have_the_same_bits(self):
        for model in ("mlp", "cnn", "transformer", "dlrm"):
            self.check_stages(model, [
                ["3", "--recompute", "full", "--in-process"],
                ["2", "--recompute", "full", "--schedule", "gpipe"],
                ["4", "--recompute", "full", "--schedule", "zero_bubble",
                 "--processes"]])

    def test_layers_that_are_computed_again_have_the_same_bits(self):
        for model, layers in (
                ("mlp", "dense_0"), ("cnn", "conv_1,pool_1,conv_2,pool_2"),
                ("transformer", "block_0,block_1.attention,block_1.up"),
                ("dlrm", "bottom_1,interaction,top_0")):
            again = ["--recompute", layers]
            self.check_stages(model, [
                ["3", *again, "--in-process"], ["2", *again, "--processes"],
                ["2", *again, "--schedule", "gpipe"],
                ["3", *again, "--schedule", "zero_bubble", "--processes"]])

    def test_chunks_of_stages_have_the_same_bits(self):
        # Parts go round the stages; the last step of an epoch has fewer
        # micro-batches than the schedule's groups.
        for model, ranks in (("mlp", "4"), ("cnn", "6"), ("transformer", "6"),
                             ("dlrm", "6")):
            job = [*MODELS[model], "--virtual-ranks", ranks]
            if "--virtual-ranks" in MODELS[model]:
                job = list(MODELS[model])
                job[job.index("--virtual-ranks") + 1] = ranks
            whole = summary_of(*job, "--strategy", "one_device")
            layouts = [["2", "--chunks", "2", "--in-process"],
                       ["2", "--chunks", "2", "--processes"]]
            if model != "mlp":
                layouts += [["3", "--chunks", "2", "--processes"],
                            ["2", "--chunks", "3", "--recompute", "full"]]
            for layout in layouts:
                with self.subTest(model=model, layout=layout):
                    summary = summary_of(*job, *STAGES, *layout, "--schedule",
                                         "interleaved")
                    self.assertEqual(digests(summary), digests(whole))
                    self.assertEqual(summary["final_loss"],
                                     whole["final_loss"])

    def test_norms_go_through_stages_with_chunks(self):
        layouts = [["2", "--schedule", "interleaved", "--processes"]]
        self.check_norms("mlp", LAMB + CLIPPED, layouts)
        self.check_norms("cnn", LAMB + CLIPPED, layouts)

    def test_virtual_ranks_fix_the_bits_whatever_the_stages(self):
        for ranks in ("1", "3", "8"):
            job = ["--virtual-ranks", ranks]
            whole = summary_of(*MODELS["mlp"], *job, "--strategy",
                               "one_device")
            for layout in (["2"], ["4"], ["4", "--schedule", "zero_bubble"]):
                with self.subTest(ranks=ranks, layout=layout):
                    self.assertEqual(
                        digests(summary_of(*MODELS["mlp"], *job, *STAGES,
                                           *layout)),
                        digests(whole))

    def check_norms(self, model, more, layouts):
        whole = summary_of(*MODELS[model], *more, "--strategy", "one_device")
        without = summary_of(*MODELS[model], *more[:-2], "--strategy",
                             "one_device")
        self.assertNotEqual(digests(whole), digests(without))
        for layout in layouts:
            with self.subTest(model=model, more=more, layout=layout):
                self.assertEqual(
                    digests(summary_of(*MODELS[model], *more, *STAGES,
                                       *layout)),
                    digests(whole))

    def test_norms_over_all_parameters_are_those_of_one_device(self):
        for more in (CLIPPED, LAMB, LAMB + CLIPPED):
            self.check_norms("mlp", more, [
                ["1"], ["2"], ["3", "--schedule", "gpipe"],
                ["4", "--processes"], ["3", "--processes", "--link", "tcp"],
                # The last stage keeps no parameters: it has no sums to send.
                ["2", "--split-at", "loss", "--processes"]])
        for model in ("cnn", "transformer", "dlrm"):
            self.check_norms(model, LAMB + CLIPPED, [
                ["2", "--in-process"], ["3", "--schedule", "gpipe"],
                ["4", "--schedule", "zero_bubble"], ["4", "--processes"]])

    def test_a_killed_stage_goes_on_and_no_step_is_lost(self):
        self.check_stage_kills(*STRUCK)
        for job in (STRUCK, MODELS["cnn"][:-2], MODELS["transformer"][:-2]):
            with self.subTest(job=job):
                self.check_stage_kills(*job, *LAMB, *CLIPPED)

    def test_a_stage_killed_between_halves_of_its_backward_pass(self):
        layout = ["--schedule", "zero_bubble"]
        self.check_stage_kills(*STRUCK, layout=layout)
        self.check_stage_kills(*MODELS["transformer"][:-2], layout=layout)

    def test_a_stage_with_chunks_is_killed(self):
        job = MODELS["transformer"][:-2]
        job[job.index("--virtual-ranks") + 1] = "6"
        self.check_stage_kills(*job, layout=["--schedule", "interleaved"])

    def test_a_stage_killed_while_it_computes_activations_again(self):
        self.check_stage_kills(*MODELS["transformer"][:-2],
                         layout=["--recompute", "full"])

    def check_stage_kills(self, *job, layout=()):
        self.check_killed_in_turn(job, [*STAGES, "3", *layout, "--processes"],
                                  ["stage:1", "stage:0", "stage:2"])

    def test_the_coordinator_or_all_stages_may_die(self):
        self.check_deaths_together(STRUCK, [*STAGES, "2", "--processes"],
                                   ["stage:0", "stage:1"])

    def test_a_stopped_stage_is_replaced(self):
        self.check_stopped(STRUCK, [*STAGES, "3", "--processes"], "stage:1")

    def test_a_checkpoint_goes_on_under_another_strategy(self):
        layouts = ([*STAGES, "3"], ONE, [*STAGES, "2", "--processes"],
                   ["--strategy", "parameter_server", "--in-process"])
        self.check_resumed(STRUCK, [
            (first, second) for first in layouts for second in layouts
            if "pipeline" in first + second and first != second], 60)

    def test_saved_weights_are_those_of_one_device(self):
        with tempfile.TemporaryDirectory() as folder:
            files = []
            for strategy in (["--strategy", "one_device"], [*STAGES, "3"]):
                files.append(os.path.join(folder, strategy[1]))
                summary_of(*MODELS["mlp"], *strategy, "--save", files[-1])
            self.assertEqual(*(tensors_in(file) for file in files))

    def test_ctrl_c_ends_with_what_all_stages_have(self):
        self.check_interrupted(STRUCK, [*STAGES, "3", "--processes"])

    def test_a_gradient_that_is_not_finite_ends_the_run_with_a_line(self):
        self.check_not_finite(STRUCK, [*STAGES, "2"])

    def test_plan_shows_who_holds_which_layers(self):
        done = call("plan", *MODELS["mlp"], *STAGES, "2", "--split-at", "flops",
                    "--schedule", "1f1b")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"stage:0 +flatten to dense_0")
        self.assertRegex(done.stdout, r"stage:1 +dense_1 to loss")
        self.assertIn("schedule 1f1b", done.stdout)
        # A stage that puts weights off keeps as many as the first one.
        done = call("plan", *MODELS["mlp"], *STAGES, "2", "--split-at", "flops",
                    "--schedule", "zero_bubble")
        self.assertIn("schedule zero_bubble", done.stdout, done.stderr)
        self.assertEqual(
            re.findall(r"(?m)^stage:\d .* to .* (\d+)$", done.stdout),
            ["2", "2"])

    def test_the_schedule_is_the_fastest_that_memory_allows(self):
        job = ["--model", "mlp:784-512-512-512-512-512-512-512-10", "--data",
               "synthetic:digits?samples=4096", "--global-batch", "4096",
               "--virtual-ranks", "16", "--seed", "7", "--steps", "2",
               *STAGES, "4", "--split-at", "flops"]
        most = {order: max(planned_bytes(*job, "--schedule", order).values())
                for order in ("1f1b", "zero_bubble", "interleaved", "auto")}
        self.assertEqual(most["auto"], most["zero_bubble"])
        self.assertLess(most["1f1b"], most["zero_bubble"])
        limit = ["--device-memory", f"{int(most['1f1b']) + 65536}"]
        for more, order, others in (
                ([], "zero_bubble", r"1f1b [\d.]+ %, interleaved with 2 chunks "
                 r"a stage [\d.]+ %, gpipe [\d.]+ %"),
                (limit, "1f1b", r"zero_bubble needs too much memory.*")):
            said = (rf"schedule {order}: [\d.]+ % of a step waiting, by FLOPs "
                    rf"\({others}\)")
            done = call("plan", *job, *more)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f"fixed tree; schedule {order}\n", done.stdout)
            self.assertRegex(done.stdout, rf"(?m)^{said}$")
            with Run(*job, *more, "--in-process") as run:
                summary = run.finish()
                self.assertRegex(run.output(), said)
            self.assertEqual(summary["plan"]["schedule"], order)

    def test_stages_are_cut_by_what_operators_take(self):
        # Layers that wait say how long: three of 1 ms, and one of 9.
        job = ["--model", "sleep:1ms+1ms+1ms+9ms+1ms-5", *DIGITS]
        done = call("plan", *job, *STAGES, "3", "--schedule", "1f1b")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^stage:1 +wait_3 +")
        # 4 micro-batches of 27 ms, and what fills and empties the pipe.
        self.assertRegex(done.stdout, r"(?m)^schedule 1f1b: a step of 117 ms, "
                         r"[\d.]+ % of it waiting \(exchanges and shared cores "
                         r"left out\), by operators measured here$")
        whole = summary_of(*MODELS["transformer"], *ONE)
        with Run(*MODELS["transformer"], *STAGES, "3", "--processes") as run:
            summary = run.finish()
            self.assertRegex(run.output(), r"schedule \w+.*: a step of .* ms, "
                             r".* by operators measured here \(")
        self.assertEqual(digests(summary), digests(whole))
        self.assertIn(f"; schedule {summary['plan']['schedule']}",
                      summary["plan"]["reduction"])

    def test_plan_says_what_activations_take(self):
        job = ["--model", "transformer:L4-H2-D32-T32", "--data",
               "synthetic:text", "--global-batch", "64"]
        of_one = []
        blocks = "block_0,block_1,block_2,block_3"
        for recompute in ("none", blocks, "full"):
            done = call("plan", *job, *STAGES, "4", "--schedule", "gpipe",
                 "--virtual-ranks", "16", "--recompute", recompute)
            self.assertEqual(done.returncode, 0, done.stderr)
            number, unit = re.search(r"stage:1 needs .* a step ([\d.]+) (\w+)",
                                     done.stdout).groups()
            of_one.append(float(number) * UNITS[unit])
            self.assertEqual("computed again" in done.stdout,
                             recompute != "none")
            self.assertEqual(f"activations of {blocks} computed" in done.stdout,
                             recompute == blocks)
        # 16 micro-batches, or one and what comes to layers of 16.
        self.assertLess(of_one[1] * 3, of_one[0])
        self.assertLess(of_one[2] * 4, of_one[0])

    def test_a_model_that_one_device_refuses_trains_on_stages(self):
        job = ["--model", "transformer:L8-H4-D128-T32", "--data",
               "synthetic:text", "--global-batch", "16", "--seed", "7",
               "--steps", "40"]
        limit = ["--device-memory", "24MiB"]
        with Run(*job, "--strategy", "one_device", *limit) as run:
            run.finish(1)
            self.assertRegex(
                run.error(), r"^troupe: --device-memory 24 MiB: worker:0 needs "
                r"about .*; this fits: --strategy pipeline --stages \d+")
        whole = summary_of(*job, "--strategy", "one_device")
        for layout in (["4", "--processes"], ["4", "--in-process"],
                       ["4", "--schedule", "interleaved", "--recompute",
                        "full", "--in-process"]):
            with self.subTest(layout=layout):
                self.assertEqual(digests(summary_of(*job, *STAGES, *layout,
                                                    *limit)), digests(whole))

    def test_stages_take_as_much_memory_as_the_plan_says(self):
        self.check_memory([*STAGES, "4", "--processes", *FIXED],
                          [f"stage:{k}" for k in range(4)],
                          "transformer:L4-H1-D8-T32",
                          "transformer:L4-H4-D256-T32")

    def test_stages_that_compute_again_take_as_much_as_the_plan_says(self):
        narrow, wide = "transformer:L8-H1-D8-T32", "transformer:L8-H4-D128-T32"
        job = ["--data", "synthetic:text", "--seed", "7", "--global-batch",
               "128", "--virtual-ranks", "16", *STAGES, "4", "--processes",
               "--split-at", "flops", "--schedule"]
        blocks = ",".join(f"block_{k}" for k in range(8))
        for layout in (["gpipe", "--recompute", "full"],
                       ["gpipe", "--recompute", blocks],
                       ["gpipe", "--recompute", "none"],
                       ["zero_bubble", "--recompute", "full"]):
            with self.subTest(layout=layout):
                self.check_planned_memory([*job, *layout], narrow, wide)
        # A limit just above what they need lets them, and nobody else, train.
        job += ["gpipe", "--model", wide]
        again = ["--recompute", "full"]
        most = max(planned_bytes(*job, *again).values())
        limit = ["--device-memory", f"{int(most / UNITS['KiB']) + 64}KiB"]
        done = call("train", *job, *limit)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, r"^troupe: --device-memory .*: stage:\d "
                         r"needs .*; this fits: --recompute full\n$")
        summary_of(*job, *again, *limit, "--steps", "2")

    def test_what_cannot_be_is_refused_in_one_line(self):
        self.check_refusals(MODELS["mlp"], (
            ([*STAGES, "9"], r"--stages 9: .* has 4 operators.*fewer"),
            ([*STAGES, "2", "--split-at", "dense_9"],
             r"--split-at dense_9: .*no operator dense_9"),
            ([*STAGES, "2", "--split-at", "dense_0"],
             r"--split-at dense_0: .*leave it out"),
            ([*STAGES, "3", "--split-at", "dense_2,dense_1"],
             r"dense_1 is not after the one before it"),
            ([*STAGES, "3", "--split-at", "dense_1"],
             r"makes 2 stages of --stages 3"),
            ([*STAGES, "2", "--reduction", "fast"], r"--reduction fast"),
            ([*STAGES, "2", "--async"], r"pipeline is synchronous"),
            ([*STAGES, "3", "--schedule", "interleaved"],
             r"groups of 3, .*--virtual-ranks 6"),
            ([*STAGES, "1", "--schedule", "interleaved"],
             r"goes round several stages"),
            ([*STAGES, "2", "--schedule", "interleaved", "--chunks", "3"],
             r"--chunks 3: .* has 4 operators"),
            ([*STAGES, "2", "--chunks", "2"],
             r"--chunks has no effect without --schedule interleaved"),
            ([*STAGES, "2", "--schedule", "best"],
             r"--schedule best: unknown"),
            ([*STAGES, "0"], r"--stages 0"),
            ([*STAGES, "2", "--workers", "2"], r"--workers has no effect"),
            (["--stages", "2"], r"--stages has no effect"),
            ([*STAGES, "2", "--device-memory", "12MB"],
             r"--device-memory 12MB: expected bytes"),
            (["--recompute", "full"], r"--recompute has no effect"),
            ([*STAGES, "2", "--recompute", "some"],
             r"--recompute some: .* no operator or layer 'some'"),
            ([*STAGES, "2", "--recompute", "dense_1,dense_1"],
             r"--recompute dense_1,dense_1: .*leave it out"),
            (["--strategy", "pipeline", "--chain", "2"], r"--chain 2")))


if __name__ == "__main__":
    unittest.main()
