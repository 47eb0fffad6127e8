"""Training that begins with weights from a file: one hash under every strategy,
goes on after the whole job was killed, and refuses what is not the model's."""
# ctest: TIMEOUT 600

import json
import os
import shutil
import signal
import struct
import subprocess
import tempfile
import unittest

from cluster import TROUPE, Run, checkpoint_steps, wait_for
from roles import Role

JOB = ["--data", "synthetic:digits?samples=640", "--model", "mlp:784-24-10",
       "--seed", "3", "--eval-fraction", "0.1"]
SERVED = ["--strategy", "parameter_server", "--workers", "2", "--ps", "2"]
WORLDS = [["--strategy", "one_device"],
          ["--strategy", "mirrored", "--devices", "cpu:3"],
          ["--strategy", "multi_worker_mirrored", "--workers", "2"],
          ["--strategy", "pipeline", "--stages", "2"], SERVED,
          [*SERVED, "--chain", "2", "--in-process", "--partitioner",
           "max_size:4096"]]
FAULTY_DISK = os.path.abspath(os.path.join(
    os.path.dirname(TROUPE), "..", "tests", "libfaulty_disk.so"))
DIGESTS = ("weights_sha256", "state_sha256")


class InitialWeights(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.file = self.path("w.safetensors")
        self.saved = self.train("--steps", "20", "--save", self.file)

    def path(self, name):
        return os.path.join(self.folder, name)

    def train(self, *flags, job=JOB):
        with Run(*job, *flags) as run:
            return run.finish()

    def begin(self, folder, *flags, job=JOB):
        return self.train("--checkpoint-dir", self.path(folder),
                          "--initial-weights", self.file, *flags, job=job)

    def test_they_are_what_the_first_step_computes_with(self):
        found = self.begin("a", "--optimizer", "sgd", "--lr", "1e-30",
                           "--steps", "1")
        self.assertEqual(found["eval"], self.saved["eval"])
        self.assertEqual(found["steps"], 1)

    def test_every_strategy_goes_on_from_them_alike(self):
        from_seed = self.train("--steps", "15")
        found = [self.begin(str(i), *world, "--steps", "15")
                 for i, world in enumerate(WORLDS)]
        for summary in found:
            for name in DIGESTS:
                self.assertEqual(summary[name], found[0][name])
                self.assertNotEqual(summary[name], from_seed[name])
            self.assertEqual(summary["steps"], 15)

    def test_steps_may_be_asynchronous(self):
        found = self.begin("free", *SERVED, "--async", "--steps", "30")
        self.assertEqual(found["steps"], 30)
        self.assertLess(found["eval"]["loss"], self.saved["eval"]["loss"])

    def test_a_job_that_was_killed_goes_on_with_the_same_command(self):
        words = ["--epochs", "0", "--checkpoint-every", "10"]
        kept = ["--checkpoint-dir", self.path("kept"), "--initial-weights",
                self.file]
        with Run(*JOB, *kept, *SERVED, *words, "--steps", "10000000") as run:
            wait_for(lambda: checkpoint_steps(self.path("kept"))[-1:] > [0],
                     "a checkpoint after the first one")
            roles = list(run.children().values())
            for pid in (run.process.pid, *roles):
                os.kill(pid, signal.SIGKILL)
            run.process.wait()
        newest = checkpoint_steps(self.path("kept"))[-1]
        steps = ["--steps", str(newest + 20)]
        found = self.train(*kept, *SERVED, *words, *steps, "--resume")
        self.assertEqual(found["resumed_from"]["step"], newest)
        undisturbed = self.begin("undisturbed", *words, *steps)
        for name in DIGESTS:
            self.assertEqual(found[name], undisturbed[name])

    def slow_disk(self, kept, as_long_as):
        with open(as_long_as, "w"):
            pass
        return {"LD_PRELOAD": FAULTY_DISK, "FAULT_DIR": kept,
                "FAULT_HOW": "slow", "FAULT_MS": "5000",
                "FAULT_WHILE": as_long_as}

    def test_a_coordinator_by_hand_goes_on_from_its_own_alone(self):
        """It took those of another file for what it was given."""
        kept, slow = self.path("kept"), self.path("slow")
        other = shutil.copy(self.file, self.path("other.safetensors"))

        def coordinator(weights, environment=None):
            return Role(self.addCleanup, "coordinator", *JOB, *SERVED,
                        "--certificates", self.path("certificates"),
                        "--journal", self.path("journal"), "--checkpoint-dir",
                        kept, "--initial-weights", weights, "--steps", "15",
                        environment=environment)

        first = coordinator(self.file, self.slow_disk(kept, slow))
        wait_for(lambda: checkpoint_steps(kept) == [0], "the first one")
        first.process.kill()
        os.remove(slow)
        refused = coordinator(other)
        refused.finish(1)
        self.assertIn(kept, refused.error())
        again = coordinator(self.file)
        again.address()
        again.process.kill()

    def test_a_coordinator_that_dies_once_they_are_a_checkpoint_goes_on(self):
        """It was refused, as there was one in the folder."""
        kept, slow = self.path("kept"), self.path("slow")
        with Run(*JOB, *SERVED, "--steps", "15", "--checkpoint-dir", kept,
                 "--initial-weights", self.file,
                 environment=self.slow_disk(kept, slow)) as run:
            wait_for(lambda: checkpoint_steps(kept) == [0], "the first one")
            run.kill("coordinator")
            os.remove(slow)
            found = run.finish()
            self.assertRegex(run.output(), r"(?s)\A((?!coordinator: ).)*"
                             r"coordinator died \(signal 9 \(Killed\)\): restart "
                             r"1 of 5\n")
        undisturbed = self.begin("undisturbed", *SERVED, "--steps", "15")
        for name in DIGESTS:
            self.assertEqual(found[name], undisturbed[name])

    def test_tables_are_begun_with_whole_and_by_rows(self):
        clicks = ["--data", "synthetic:clicks?samples=640&buckets=50",
                  "--model", "dlrm"]
        from_seed = self.train("--steps", "8", job=clicks)
        self.train("--steps", "5", "--save", self.file, job=clicks)
        for name, both, flags in (
                ("dense", [], ["--tables", "dense"]), ("rows", [], []),
                ("processes", [], ["--processes"]),
                ("state", ["--optimizer", "adagrad"], []),
                ("counted", [], ["--table-bytes", "10000000"])):
            with self.subTest(name):
                job = [*clicks, *both]
                whole = self.begin("whole-" + name, "--steps", "8", job=job)
                self.assertNotEqual(whole["weights_sha256"],
                                    from_seed["weights_sha256"])
                found = self.begin(name, *SERVED, *flags, "--steps", "8",
                                   job=job)
                self.assertEqual(found["weights_sha256"],
                                 whole["weights_sha256"])

    def check_refused(self, line, status, *flags, file=None, job=JOB):
        folder = self.path("refused")
        shutil.rmtree(folder, ignore_errors=True)
        dirs = ["--checkpoint-dir", folder] if status == 1 else []
        done = subprocess.run(
            [TROUPE, "train", *job, *dirs, "--initial-weights",
             file or self.file, *flags], capture_output=True, text=True,
            timeout=60, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertRegex(done.stderr, rf"\Atroupe: [^\n]*{line}[^\n]*\n\Z")

    def test_what_is_not_the_models_gets_one_line(self):
        self.check_refused("no-such", 1, file="no-such")
        self.check_refused(r"is \[784, 24\] but the model needs", 1,
                           "--model", "mlp:784-25-10", job=JOB[:2])
        self.check_refused("without --checkpoint-dir", 2)
        with open(self.file, "rb") as file:
            data = file.read()
        length, = struct.unpack("<Q", data[:8])
        header = json.loads(data[8:8 + length])
        header["dense_7/bias"] = header.pop("dense_0/bias")
        text = json.dumps(header).encode()
        other = self.path("other.safetensors")
        with open(other, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + data[8 + length:])
        self.check_refused("dense_0/bias is missing", 1, file=other)


if __name__ == "__main__":
    unittest.main()
