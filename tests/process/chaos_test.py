"""troupe chaos: roles die in chosen phases of a step, and nothing is lost.
TROUPE_KILLS sets the number of deaths (default 15: each phase once)."""
# ctest: TIMEOUT 1200 COST 60

import json
import os
import subprocess
import tempfile
import unittest

from chaos_runs import MANY, STEPS_AFTER
from cluster import TROUPE

KILLS = int(os.environ.get("TROUPE_KILLS", "15"))
SEED = os.environ.get("TROUPE_KILLS_SEED", "1")
# Of four milliseconds each: a role, or the coordinator, is back within some
# hundred.
STEPS = str(120 * (KILLS + 2))
SERVED = ["--strategy", "parameter_server", "--workers", "3", "--ps", "2",
          "--chain", "2", "--processes", "--seed", "5", "--epochs", "0",
          "--partitioner", "max_size:65536",
          "--data", "synthetic:digits?samples=2000"]


class Chaos(unittest.TestCase):
    def chaos(self, *job, faults=KILLS, status=0):
        flags = []
        if "--steps" not in job: # it is ended after the last fault
            flags, job = STEPS_AFTER, [*job, *MANY]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "verdict.json")
            done = subprocess.run(
                [TROUPE, "chaos", "--seed", SEED, "--faults", str(faults),
                 *flags, "--json", path, "--", "train", *job],
                capture_output=True, text=True, timeout=280)
            self.assertEqual(done.returncode, status,
                             done.stdout + done.stderr)
            with open(path) as file:
                verdict = json.load(file)
        print(f"{verdict['deaths']} deaths, by phase {verdict['by_phase']}, "
              f"next commit ms {verdict['next_commit_ms']}")
        return verdict

    def test_synchronous_bits_do_not_change_wherever_roles_die(self):
        verdict = self.chaos("--model", "mlp:784-64-10", *SERVED)
        self.assertEqual(verdict["deaths"], KILLS)
        self.assertEqual(verdict["steps_rolled_back"], 0)
        self.assertEqual(verdict["weights_sha256"],
                         verdict["undisturbed"]["weights_sha256"])
        if KILLS >= 15:
            for phase in ("pull", "compute", "push", "reduce", "forward",
                          "seal", "copy"):
                self.assertGreaterEqual(verdict["by_phase"].get(phase, 0),
                                        max(1, KILLS // 20))

    def test_replicas_repair_a_step_of_theirs_wherever_one_dies(self):
        for link in ("shm", "tcp"):
            verdict = self.chaos(
                "--model", "mlp:784-64-10", "--strategy",
                "multi_worker_mirrored", "--workers", "4", "--processes",
                "--seed", "5", "--epochs", "0", "--link", link, "--data",
                "synthetic:digits?samples=2000")
            self.assertEqual(verdict["deaths"], KILLS)
            self.assertEqual(verdict["steps_rolled_back"], 0)
            self.assertEqual(verdict["weights_sha256"],
                             verdict["undisturbed"]["weights_sha256"])
            # Of V = 4 each has one; two where another is away.
            self.assertLessEqual(verdict["leaves_recomputed"], 2 * KILLS)
            if KILLS >= 12:
                for phase in ("compute", "push", "reduce", "seal"):
                    self.assertGreaterEqual(verdict["by_phase"].get(phase, 0),
                                            max(1, KILLS // 20))

    def test_asynchronous_updates_are_counted_once_in_every_slice(self):
        verdict = self.chaos("--model", "count:3ms-50000", "--async",
                             "--optimizer", "sgd", "--lr", "1", "--steps",
                             STEPS, *SERVED)
        self.assertEqual(verdict["count"]["expected"], 4 * int(STEPS))
        self.assertEqual(verdict["count"]["least"],
                         verdict["count"]["largest"])

    def test_a_job_that_is_over_too_soon_fails_the_verdict(self):
        verdict = self.chaos("--model", "mlp:784-64-10", "--steps", "30",
                             *SERVED, faults=50, status=1)
        self.assertEqual(verdict["verdict"], "failed")
        self.assertIn("give the job more steps", verdict["failures"][0])

    def test_what_is_not_a_job_is_refused_in_one_line(self):
        for arguments, expected in (
                ([], "takes the job after --"),
                ([*STEPS_AFTER, "--", "train", "--data", "synthetic:digits",
                  "--processes", "--strategy", "parameter_server",
                  "--lr-schedule", "cosine"], "its --lr-schedule depends on"),
                ([*STEPS_AFTER, "--", "train", "--data", "synthetic:digits",
                  "--processes", "--strategy", "parameter_server", "--async"],
                 "ends a job between two steps"),
                (["--", "plan"], "takes the job after --"),
                (["--", "train", "--data", "synthetic:digits"],
                 "give the job --processes"),
                (["--", "train", "--data", "synthetic:digits", "--quiet",
                  "--strategy", "parameter_server", "--processes"],
                 "leave out its --quiet")):
            done = subprocess.run([TROUPE, "chaos", *arguments],
                                  capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 2)
            self.assertIn(expected, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)


if __name__ == "__main__":
    unittest.main()
