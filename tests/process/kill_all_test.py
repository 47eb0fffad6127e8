"""kill -9 of every process of a job at once, at any moment, again and again; each
next run goes on with --resume under another strategy. What is trained in the end
has the bits of a run that nobody disturbed.

TROUPE_KILL_ROUNDS=100 kills so often, at moments drawn by TROUPE_KILL_SEED."""
# ctest: TIMEOUT 1200

import os
import random
import signal
import tempfile
import time
import unittest

from cluster import Run, checkpoint_steps, wait_for

ROUNDS = int(os.environ.get("TROUPE_KILL_ROUNDS", "8"))
SEED = int(os.environ.get("TROUPE_KILL_SEED", "1"))
JOB = ["--data", "synthetic:digits?samples=2000", "--model", "mlp:784-48-10",
       "--eval-every", "0", "--epochs", "0", "--global-batch", "64",
       "--virtual-ranks", "4", "--seed", "7"]
SERVED = ["--strategy", "parameter_server", "--processes"]
WAYS = {"served": [*SERVED, "--workers", "2", "--ps", "2"],
        "chain": [*SERVED, "--workers", "3", "--ps", "2", "--chain", "2"],
        "replicas": ["--strategy", "multi_worker_mirrored", "--workers", "2",
                     "--processes"],
        "mirrored": ["--strategy", "mirrored", "--devices", "cpu:2"],
        "sharded": ["--strategy", "fully_sharded", "--workers", "2"],
        "pipeline": ["--strategy", "pipeline", "--stages", "2", "--processes"],
        "hybrid": ["--strategy", "hybrid", "--mesh", "data=2,stage=2",
                   "--processes"],
        "one_device": ["--strategy", "one_device"]}
MOMENTS = ("start", "step", "checkpoint")


def kill(process_ids):
    for pid in process_ids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it went with its launcher


class KillAll(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = os.path.join(scratch.name, "kept")

    def steps(self):
        return checkpoint_steps(self.folder)

    def writes(self):
        """Whether a checkpoint is on its way into the folder."""
        return os.path.isdir(self.folder) and any(
            name.startswith(".new-") for name in os.listdir(self.folder))

    def arguments(self, way, steps):
        return [*JOB, *WAYS[way], "--steps", str(steps), "--checkpoint-dir",
                self.folder, "--checkpoint-every", "20",
                *(["--resume"] if self.steps() else [])]

    def strike(self, way, moment, draw):
        """Runs on, and kills all at that moment."""
        before = self.steps()
        with Run(*self.arguments(way, 10_000_000)) as run:
            if moment == "start":
                time.sleep(draw.uniform(0.0, 0.4))
            else:
                wait_for(lambda: run.process.poll() is not None
                         or self.steps()[-1:] > before[-1:],
                         "a checkpoint of this run")
                time.sleep(draw.uniform(0.0, 0.2))
            if moment == "checkpoint":
                wait_for(lambda: run.process.poll() is not None
                         or self.writes(), "a checkpoint on its way")
            self.assertIsNone(run.process.poll(), run.error())
            roles = list(run.children().values())
            kill([run.process.pid, *draw.sample(roles, len(roles))])
            run.process.wait()
            wait_for(lambda: not any(os.path.exists(f"/proc/{pid}")
                                     for pid in roles), "all are gone")
        self.assertGreaterEqual(self.steps()[-1:], before[-1:],
                                "a newer checkpoint was lost")

    def test_a_job_that_is_killed_whole_again_and_again_loses_no_bit(self):
        draw = random.Random(SEED)
        kills = 0
        for turn in range(ROUNDS):
            way = list(WAYS)[turn % len(WAYS)]
            moment = MOMENTS[turn % len(MOMENTS)]
            with self.subTest(turn=turn, way=way, moment=moment):
                self.strike(way, moment, draw)
                kills += 1
        self.assertEqual(kills, ROUNDS)
        steps = self.steps()[-1] + 100
        with Run(*self.arguments("served", steps)) as run:
            killed = run.finish()
            self.assertIn("resumed from", run.output())
        with Run(*JOB, *WAYS["one_device"], "--steps", str(steps)) as run:
            undisturbed = run.finish()
        print(f"{kills} kills, {steps} steps", flush=True)
        for name in ("weights_sha256", "state_sha256"):
            self.assertEqual(killed[name], undisturbed[name], name)


if __name__ == "__main__":
    unittest.main()
