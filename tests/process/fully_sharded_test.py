"""Strategy fully_sharded in real processes and in one: the same bits as one
device for any number of workers and whatever they have shares of; a killed
worker, whose process is a shard too, goes on from memory that outlived it or
from its neighbour's copy, and no step is lost (I1, I3)."""
# ctest: TIMEOUT 1200

import re
import subprocess
import tempfile
import unittest

from cluster import ENDLESS, TROUPE, Run, metrics_address, troupe, wait_for
from roles import Role
from split_models import MODELS, ONE, STRUCK, SplitModels, digests, summary_of

SHARDED = ["--strategy", "fully_sharded"]
LEVELS = ("optimizer", "gradients", "parameters")
LARGE = ["--model", "transformer:L8-H4-D128-T32", "--data", "synthetic:text",
         "--global-batch", "8"]


def layout(shard, workers, *more):
    return [*SHARDED, "--shard", shard, "--workers", str(workers), *more]


class FullySharded(SplitModels, unittest.TestCase):
    def test_any_share_on_any_workers_has_the_bits_of_one_device(self):
        for job in MODELS.values():
            self.check_layouts(job, [
                layout(shard, workers, "--in-process")
                for shard in LEVELS for workers in (1, 2, 3, 4)])

    def test_processes_have_them_as_well(self):
        self.check_layouts(MODELS["mlp"], [
            layout("parameters", 4), layout("gradients", 2, "--link", "tcp"),
            layout("optimizer", 3),
            layout("parameters", 2, "--link", "tcp", "--link-encryption", "on"),
            layout("parameters", 3, "--chain", "2")])
        for model in ("cnn", "transformer", "dlrm"):
            self.check_layouts(MODELS[model], [layout("parameters", 2),
                                       layout("gradients", 4),
                                       layout("optimizer", 2)])

    def test_norms_over_all_parameters_are_those_of_one_device(self):
        norms = ["--optimizer", "lamb", "--clip-norm", "0.05"]
        for model in ("mlp", "transformer"):
            whole = summary_of(*MODELS[model], *norms, "--strategy",
                               "one_device")
            for how in (layout("parameters", 3), layout("optimizer", 2)):
                with self.subTest(model=model, layout=how):
                    self.assertEqual(
                        digests(summary_of(*MODELS[model], *norms, *how)),
                        digests(whole))

    def check_kills(self, job, how, epochs, kind):
        with Run(*job, *ENDLESS, *how) as run:
            for victim in ("sharded:1", "sharded:0"):
                run.wait_for_step(run.step() + 30)
                run.kill_and_wait(victim, epochs)
            summary = run.end(30)
        self.check_undisturbed(summary, *job)
        found = {(r["role"], r["kind"]) for r in summary["recoveries"]}
        self.assertLessEqual({("ps:0", kind), ("ps:1", kind)}, found)
        self.assertLessEqual({"worker:0", "worker:1"},
                             {role for role, _ in found})

    def test_a_killed_worker_goes_on_and_no_step_is_lost(self):
        for shard in LEVELS:
            with self.subTest(shard=shard):
                self.check_kills(STRUCK, layout(shard, 3), 1, "shard_restored")
        for model in ("cnn", "transformer"):
            with self.subTest(model=model):
                self.check_kills(MODELS[model][:-2], layout("parameters", 2),
                                 1, "shard_restored")

    def test_a_neighbours_copy_takes_the_place_of_the_killed(self):
        for shard in ("optimizer", "parameters"):
            with self.subTest(shard=shard):
                self.check_kills(STRUCK, layout(shard, 3, "--chain", "2"),
                                 4, "chain_repaired")

    def test_all_workers_may_die_and_so_may_the_coordinator(self):
        with Run(*STRUCK, *ENDLESS, *layout("parameters", 2)) as run:
            run.wait_for_step(50)
            run.kill_and_wait("coordinator", 1)
            run.wait_for_step(run.step() + 30)
            epoch = run.metric("troupe_membership_epoch")
            run.kill("sharded:0")
            run.kill("sharded:1")
            run.wait_for_epoch(epoch + 1)
            summary = run.end(30)
        self.check_undisturbed(summary, *STRUCK)

    def test_a_checkpoint_goes_on_under_another_strategy(self):
        layouts = (layout("parameters", 3), ONE,
                   layout("optimizer", 2, "--in-process"),
                   ["--strategy", "pipeline", "--stages", "2"])
        self.check_resumed(STRUCK, zip(layouts, layouts[1:] + layouts[:1]), 40)

    def test_a_model_that_one_device_refuses_trains_sharded(self):
        job = [*LARGE, "--seed", "7", "--steps", "4"]
        limit = ["--device-memory", "25MiB"]
        said = troupe("train", *job, *limit, "--strategy", "one_device",
                      status=1)
        self.assertRegex(said, r"^troupe: --device-memory 25 MiB: worker:0 "
                         r"needs about .*, or --strategy fully_sharded "
                         r"--workers \d --shard \w+")
        self.assertRegex(troupe("train", *job, *limit, *layout("optimizer", 2),
                                status=1),
                         r"worker:0 needs about .*; this fits: --workers \d "
                         r"--shard \w+\n$")
        whole = summary_of(*job, "--strategy", "one_device")
        summary = summary_of(*job, *limit, *layout("parameters", 4))
        self.assertEqual(digests(summary), digests(whole))

    def test_plan_shows_shares_and_their_memory(self):
        said = [troupe("plan", *LARGE, *layout(shard, 4))
                for shard in LEVELS]
        for shard, text in zip(LEVELS, said):
            self.assertIn(shard, re.search(r"reduction .*", text)[0])
            self.assertIn("a worker with the shard of its number", text)
            self.assertEqual(len(re.findall(r"  worker:\d needs about", text)),
                             4)
            self.assertNotIn("ps:0 needs", text)

        def variables(text):
            number, unit = re.search(
                r"worker:0 needs .*variables ([\d.]+) (\w+)", text).groups()
            return float(number) * {"KiB": 1, "MiB": 1024}[unit]
        self.assertLess(variables(said[2]), variables(said[0]))

    def test_workers_are_started_by_hand(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        certificates = ["--certificates", folder.name]
        coordinator = Role(self.addCleanup, "coordinator", "--listen",
                           "127.0.0.1:0", *certificates, *STRUCK, "--epochs",
                           "200", *layout("parameters", 2))
        address = ["--coordinator", coordinator.address(), *certificates]
        wrong = Role(self.addCleanup, "worker:0", *address)
        self.assertRegex(wrong.finish(1), r"start sharded:0\n$")
        first, second = (Role(self.addCleanup, f"sharded:{i}", *address)
                         for i in (0, 1))
        metrics_address(coordinator)
        wait_for(lambda: "epoch 2" in coordinator.output(), "two epochs")
        first.process.kill()
        first.process.wait()
        again = Role(self.addCleanup, "sharded:0", *address)
        self.assertNotIn("steps undone", coordinator.end(3))
        second.finish()
        again.finish()

    def test_mistakes_are_refused_with_one_line(self):
        for arguments, pattern in (
                (["--shard", "optimizer"], r"--shard has no effect with"),
                ([*SHARDED, "--shard", "some"], r"--shard some: unknown"),
                ([*SHARDED, "--ps", "2"], r"--ps has no effect"),
                ([*SHARDED, "--workers", "5"], r"--virtual-ranks 5"),
                ([*SHARDED, "--workers", "1:2"], r"--workers MIN:MAX"),
                ([*SHARDED, "--chain", "3"], r"--chain 3 keeps .* 2 workers"),
                ([*SHARDED, "--async"], r"fully_sharded is synchronous"),
                ([*SHARDED, "--reduction", "fast"], r"--reduction fast"),
                ([*SHARDED, "--compress", "fp16"], r"--compress"),
                ([*SHARDED, "--backup-workers", "1"], r"--backup-workers 1"),
                ([*SHARDED, "--tables", "sparse"], r"--tables has no effect"),
                ([*SHARDED, "--bucket-mb", "2"],
                 r"--bucket-mb has no effect with --shard parameters"),
                ([*SHARDED, "--server-filter", "finite"],
                 r"--server-filter is run by shards")):
            done = subprocess.run(
                [TROUPE, "train", *MODELS["mlp"], *arguments],
                capture_output=True, text=True, timeout=60, check=False)
            with self.subTest(arguments=arguments):
                self.assertIn(done.returncode, (1, 2), done.stderr)
                self.assertTrue(re.search(rf"^troupe: .*({pattern}).*\n$",
                                          done.stderr), done.stderr)


if __name__ == "__main__":
    unittest.main()
