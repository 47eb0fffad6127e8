"""A step that needs scalars over all variables (clipping, LAMB) survives kill
-9 of a worker, of the shard that decides them and of one that does not, in
whatever phase it falls, with the bits of an undisturbed run (I3, PROTOCOL 5)."""
# ctest: TIMEOUT 1200

import random
import subprocess
import unittest

from cluster import ENDLESS, TROUPE, Run

JOB = ["--data", "synthetic:digits?samples=2000", "--model", "mlp:784-64-10",
       "--eval-fraction", "0.1", "--weight-decay", "0.01", "--lr", "0.003",
       "--seed", "5"]
LAMB = ["--optimizer", "lamb", "--clip-norm", "0.5"]
SERVED = ["--strategy", "parameter_server", "--workers", "2", "--ps", "3"]
DIGESTS = ("weights_sha256", "state_sha256")


def train(*arguments):
    with Run(*JOB, *arguments) as run:
        return run.finish()


def digests(summary):
    return {name: summary[name] for name in DIGESTS}


class TwoPhase(unittest.TestCase):
    def test_every_layout_clips_alike(self):
        for optimizer in (["--optimizer", "adamw", "--clip-norm", "0.2"],
                          ["--optimizer", "ftrl", "--l1", "0.001"], LAMB):
            run = [*optimizer, "--epochs", "1"]
            expected = train(*run, "--strategy", "one_device")
            for layout in (["--strategy", "mirrored", "--devices", "cpu:3"],
                           [*SERVED, "--in-process", "--partitioner",
                            "max_size:16384"],
                           [*SERVED, "--processes"]):
                with self.subTest(optimizer=optimizer, layout=layout):
                    self.assertEqual(digests(train(*run, *layout)),
                                     digests(expected))

    def test_clipping_changes_the_weights(self):
        one = ["--strategy", "one_device", "--epochs", "1"]
        self.assertNotEqual(digests(train(*one)),
                            digests(train(*one, "--clip-norm", "0.2")))

    def test_kills_in_any_phase_leave_the_bits(self):
        draw = random.Random(11)
        # The owner of slice 0 decides; which shard that is, the plan says.
        plan = subprocess.run([TROUPE, "plan", *JOB, *LAMB, *SERVED],
                              capture_output=True, text=True, check=True)
        self.assertIn("ps:2", plan.stdout)
        roles = ["ps:0", "worker:0", "ps:1", "ps:2", "worker:1", "ps:0"]
        with Run(*JOB, *LAMB, *ENDLESS, *SERVED, "--partitioner",
                 "max_size:16384", "--processes") as run:
            for role in roles:
                run.wait_for_step(run.step() + 50 + draw.randrange(20))
                run.kill_and_wait(role, 2 if role.startswith("worker") else 1)
            summary = run.end(50)
        expected = train(*LAMB, "--epochs", "0", "--steps",
                         str(summary["steps"]), "--strategy", "one_device")
        self.assertEqual(digests(summary), digests(expected))
        self.assertEqual(summary["steps_rolled_back"], 0)
        self.assertEqual([r["role"] for r in summary["recoveries"]], roles)

    def test_lamb_without_steps_is_refused(self):
        done = subprocess.run(
            [TROUPE, "train", *JOB, *LAMB, *SERVED, "--async"],
            capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"\Atroupe: [^\n]*lamb[^\n]*\n\Z")


if __name__ == "__main__":
    unittest.main()
