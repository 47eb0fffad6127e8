"""troupe chaos over layouts of split models: what is trained under faults has
the bits of one_device, with 4 virtual slices. TROUPE_IN_FULL=1: 20 faults of nine
kinds each, and the table of docs/benchmarks.md; else some."""
# ctest: TIMEOUT 1800 COST 60 PROCESSORS 1

import os
import time
import unittest

from chaos_runs import ChaosRuns
from layouts_test import BATCH, FULL, ONE, SLICES, mesh, models, pipeline, sharded
from split_models import summary_of

KINDS = ("kill,stop,slow,cut,cut-control,flip,stall,throttle,signal-all"
         if FULL else "kill,cut,flip")
FAULTS = "20" if FULL else "3"
JOB = [*BATCH[:BATCH.index("--steps")], *SLICES]
LAYOUTS = [
    ("mlp", pipeline(4, "--schedule", "1f1b"), "stage"),
    ("transformer", ["--strategy", "tensor", "--tensor", "2"], "tensor"),
    ("cnn", mesh(2, 2, 1), "stage"),
    ("dlrm", mesh(2, 1, 2), "tensor"),
    ("transformer", sharded(3, "parameters"), "worker"),
]


class ChaosLayouts(ChaosRuns):
    deadline_s = 900

    def test_faults_leave_the_bits_of_one_device(self):
        for number, (model, layout, role) in enumerate(LAYOUTS):
            with self.subTest(model=model, layout=" ".join(layout)):
                self.check(model, layout, role, number)

    def check(self, model, layout, role, number):
        begin = time.monotonic()
        job, _ = models(self.folder)[model]
        kept = self.path(f"kept_{number}")
        verdict, said = self.passed(
            ["--faults", FAULTS, "--kinds", KINDS, "--seed", "6"],
            [*job, *JOB, *layout, "--processes", "--checkpoint-dir", kept])
        self.assertIn(role + ":", said)
        self.assertEqual(verdict["left"], [])
        self.assertEqual(verdict["steps_rolled_back"], 0)
        self.assertEqual(len(verdict["faults"]), len(KINDS.split(",")))
        self.assertEqual(sum(x["count"] for x in verdict["faults"].values()),
                         int(FAULTS))
        whole = summary_of(*job, *JOB, "--steps", str(verdict["steps"]), *ONE)
        for digest in ("weights_sha256", "state_sha256"):
            self.assertEqual(verdict[digest], whole[digest])
        if FULL:
            print(f"| {model} | {' '.join(layout[1:])} | {verdict['steps']} | "
                  f"{verdict['deaths']} | {verdict['leaves_recomputed']} | "
                  f"`{whole['weights_sha256'][:16]}…` | "
                  f"{time.monotonic() - begin:.0f} s |", flush=True)

    # The worker and the shard of a number are one process: both are lost.
    def test_who_is_a_worker_and_a_shard_dies_as_both(self):
        job, _ = models(self.folder)["mlp"]
        verdict, said = self.passed(
            ["--faults", "20" if FULL else "5", "--seed", "3"],
            [*job, *JOB, *sharded(2, "optimizer"), "--processes"])
        deaths = said.count("died in") - said.count("the coordinator died in")
        lost = [x["role"] for x in verdict["recoveries"]
                if x["role"] != "coordinator"]
        self.assertGreaterEqual(deaths, 3)
        self.assertEqual(len([x for x in lost if x.startswith("ps:")]),
                         len([x for x in lost if x.startswith("worker:")]))
        self.assertGreaterEqual(len(lost), 2 * deaths)

    def test_what_fully_sharded_workers_have_not_is_refused(self):
        job, _ = models(self.folder)["mlp"]
        for kind, expected in (("nan", "have not; leave it out"),
                               ("host-kill", "has them in pairs")):
            done = self.run_chaos(
                ["--kinds", kind],
                [*job, *sharded(2, "gradients"), "--processes"])
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(expected, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)


if __name__ == "__main__":
    unittest.main()
