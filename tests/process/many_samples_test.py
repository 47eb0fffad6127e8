"""More samples than 32 bits can count: steps beyond that are steps as others
are, whoever computes and reads, and a checkpoint goes on there."""
# ctest: TIMEOUT 600 PROCESSORS 1

import json
import os
import re
import shutil
import tempfile
import unittest

from checksum import crc32c
from cluster import Run, troupe

SAMPLES = 5 << 30
DATA = f"synthetic:rows?samples={SAMPLES}&ids=4&vocabulary=1000"
BATCH = 1 << 16
TURN = (1 << 32) // BATCH  # the step whose first sample is the 2^32nd
JOB = ["--model", "logreg", "--global-batch", str(BATCH), "--seed", "3",
       "--epochs", "0"]
ONE = ["--strategy", "one_device"]
SERVED = ["--strategy", "parameter_server", "--in-process", "--workers", "2",
          "--ps", "2", "--tables", "dense"]
DIGESTS = ("weights_sha256", "state_sha256")


def moved(folder, step):
    """Says of the only checkpoint of a folder that so many steps were made."""
    (name,) = os.listdir(folder)
    place = os.path.join(folder, f"step-{step:012d}")
    os.rename(os.path.join(folder, name), place)
    with open(os.path.join(place, "manifest.json")) as file:
        whole = json.load(file)
    body = whole["checkpoint"]
    body["step"] = step
    for part in body["slices"]:
        part["lease_floor"] = part["lease_floor"] // part["updates"] * step
        part["updates"] = step
    text = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
    whole["crc32c"] = crc32c(text.encode())
    with open(os.path.join(place, "manifest.json"), "w") as file:
        json.dump(whole, file)


class ManySamples(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def train(self, data, steps, kept, *more):
        with Run("--data", data, *JOB, "--steps", str(steps),
                 "--checkpoint-dir", kept, "--checkpoint-every", "3", *more,
                 "--quiet") as run:
            summary = run.finish()
            self.assertEqual(run.error(), "")
        return summary

    def begun(self, data, *more):
        """A folder with a checkpoint two steps before sample 2^32."""
        kept = os.path.join(self.folder, "begun")
        self.train(data, 2, kept, *more)
        moved(kept, TURN - 2)
        return kept

    def copy(self, kept, name):
        return shutil.copytree(kept, os.path.join(self.folder, name))

    def test_steps_go_on_beyond_the_32nd_bit_whoever_computes(self):
        for mixed in ("", "&shuffle=blocks"):
            with self.subTest(mixed):
                data = DATA + mixed
                begun = self.begun(data, *ONE)
                expected = self.train(data, TURN + 4,
                                      self.copy(begun, "straight"), *ONE,
                                      "--resume")
                self.assertEqual(expected["resumed_from"]["step"], TURN - 2)
                self.assertEqual(expected["samples"], (TURN + 4) * BATCH)
                # By parts, with others at work and others that read.
                parts = self.copy(begun, "parts")
                for step, more in ((TURN + 1, [*SERVED, "--readers", "2"]),
                                   (TURN + 2, ONE), (TURN + 4, SERVED)):
                    found = self.train(data, step, parts, *more, "--resume")
                    self.assertEqual(found["samples"], step * BATCH)
                self.assertEqual(found["resumed_from"]["step"], TURN + 2)
                for key in DIGESTS:
                    self.assertEqual(found[key], expected[key])
                shutil.rmtree(self.folder)
                os.mkdir(self.folder)

    def test_an_epoch_of_them_ends_where_it_should(self):
        text = troupe("bench", "data", "--data", DATA, "--seconds", "1")
        self.assertRegex(text, rf"(?m)^synthetic:rows: {SAMPLES} samples, drawn "
                               r"when they are wanted")
        begun = self.begun(DATA, *ONE)
        kept = self.copy(begun, "end")
        steps = SAMPLES // BATCH
        moved(kept, steps - 1)
        with Run("--data", DATA, *JOB[:-2], "--epochs", "1", *ONE,
                 "--checkpoint-dir", kept, "--resume") as run:
            summary = run.finish()
            found = re.search(rf"epoch 1  step {steps} ", run.output())
        self.assertTrue(found, "the epoch ends with its last step")
        self.assertEqual(summary["samples"], SAMPLES)
        self.assertEqual(summary["epochs"], 1)


if __name__ == "__main__":
    unittest.main()
