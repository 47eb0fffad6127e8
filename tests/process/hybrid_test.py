"""Rows of sparse tables on shards, dense layers all-reduced between the workers:
the bits of parameter_server with both on shards, whoever dies (I1, I3)."""
# ctest: TIMEOUT 300 RUN_SERIAL TRUE

import os
import signal
import unittest

from cluster import Run

DIGESTS = ("weights_sha256", "state_sha256")
SHARDS = ["--strategy", "parameter_server"]
HYBRID = [*SHARDS, "--dense", "all_reduced"]
LAYOUTS = [
    ["--in-process", "--workers", "1", "--ps", "1"],
    ["--in-process", "--workers", "3", "--ps", "2"],
    ["--processes", "--workers", "2", "--ps", "2", "--chain", "2"],
    ["--processes", "--workers", "2", "--ps", "1", "--link", "tcp"],
]
PROCESSES = ["--processes", "--workers", "3", "--ps", "2", "--chain", "2"]


def job(model="dlrm", optimizer="adagrad", steps="20"):
    return ["--data", "synthetic:clicks?samples=3000&buckets=2000", "--model",
            model, "--optimizer", optimizer, "--lr", "0.05", "--eval-fraction",
            "0.1", "--epochs", "0", "--steps", steps, "--seed", "3"]


def train(*arguments, **options):
    with Run(*arguments) as run:
        return run.finish(**options)


class Hybrid(unittest.TestCase):
    def same(self, summary, expected):
        for name in DIGESTS:
            self.assertEqual(summary[name], expected[name], name)
        self.assertEqual(summary["eval"], expected["eval"])

    def dies(self, *deaths, steps="1000"):
        """The roles that are killed, each once a step is reached."""
        arguments = job(steps=steps)
        expected = train(*arguments, *SHARDS, "--in-process")
        with Run(*arguments, *HYBRID, *PROCESSES) as run:
            for role, step in deaths:
                run.wait_for_step(step)
                os.kill(run.role(role), signal.SIGKILL)
            summary = run.finish()
        self.same(summary, expected)
        self.assertEqual(summary["steps_rolled_back"], 0)
        self.assertEqual(len(summary["recoveries"]), len(deaths))
        return [x["kind"] for x in summary["recoveries"]]

    def test_layers_between_workers_have_the_bits_of_layers_on_shards(self):
        for model in ("dlrm", "wide_deep", "logreg"):
            for optimizer in ("adagrad", "adam"):
                arguments = job(model, optimizer)
                expected = train(*arguments, *SHARDS, "--in-process")
                for layout in LAYOUTS:
                    with self.subTest(model=model, optimizer=optimizer,
                                      layout=" ".join(layout)):
                        self.same(train(*arguments, *HYBRID, *layout),
                                  expected)

    def test_a_killed_worker_changes_nothing(self):
        kinds = self.dies(("worker:1", 100), ("worker:0", 400))
        self.assertEqual(kinds, ["ranks_taken_over"] * 2)

    def test_a_killed_shard_changes_nothing(self):
        self.dies(("ps:0", 100), ("ps:3", 400))

    def test_workers_and_shards_die_by_turns(self):
        self.dies(("worker:2", 100), ("ps:1", 250), ("worker:0", 400),
                  ("ps:2", 550))

    def test_a_killed_coordinator_changes_nothing(self):
        self.dies(("coordinator", 200))

    def test_the_last_worker_takes_the_layers_along_and_that_is_said(self):
        arguments = job(steps="400")
        expected = train(*arguments, *SHARDS, "--in-process")
        with Run(*arguments, *HYBRID, "--processes", "--workers", "1", "--ps",
                 "1") as run:
            run.wait_for_step(100)
            os.kill(run.role("worker:0"), signal.SIGKILL)
            summary = run.finish()
        self.same(summary, expected)
        self.assertGreaterEqual(summary["steps_rolled_back"], 100)
        self.assertEqual([x["kind"] for x in summary["recoveries"]],
                         ["rollback"])

    def test_a_checkpoint_goes_on_whoever_keeps_the_layers(self):
        expected = train(*job(steps="60"), *SHARDS, "--in-process")
        for first, second in ((HYBRID, SHARDS), (SHARDS, HYBRID),
                              (HYBRID, HYBRID)):
            with Run(*job(steps="60")) as run:
                folder = ["--checkpoint-dir", run.path("checkpoints")]
                train(*job(steps="30"), *first, "--in-process", *folder)
                self.same(train(*job(steps="60"), *second, "--in-process",
                                "--workers", "3", *folder, "--resume"),
                          expected)

    def test_a_run_that_is_stopped_saves_what_it_has(self):
        with Run(*job(steps="100000"), *HYBRID, "--processes", "--workers",
                 "2") as run:
            path = run.path("weights.safetensors")
            with Run(*job(steps="100000"), *HYBRID, "--in-process",
                     "--workers", "2", "--save", path) as stopped:
                stopped.wait_for_step(50)
                stopped.process.send_signal(signal.SIGINT)
                stopped.finish(status=130)
            self.assertTrue(os.path.exists(path))
            run.wait_for_step(50)
            run.process.send_signal(signal.SIGINT)
            run.finish(status=130)

    def test_where_it_has_no_meaning_it_is_refused_in_one_line(self):
        digits = ["--data", "synthetic:digits?samples=100"]
        for arguments, remedy in (
                ([*digits, "--dense", "all_reduced"], "parameter_server"),
                ([*digits, *HYBRID], "multi_worker_mirrored"),
                ([*job(), *HYBRID, "--async"], "--dense shards"),
                ([*job(), *HYBRID, "--tables", "dense"], "--dense shards"),
                ([*job(), *HYBRID, "--clip-norm", "1"], "--dense shards"),
                ([*job(), *HYBRID, "--reduction", "fast", "--compress",
                  "fp16"], "--dense shards")):
            with self.subTest(arguments=arguments), Run(*arguments) as run:
                run.finish(status=2)
                self.assertIn(remedy, run.error())
                self.assertEqual(run.error().count("\n"), 1, run.error())


if __name__ == "__main__":
    unittest.main()
