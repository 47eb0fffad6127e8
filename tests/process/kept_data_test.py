"""Weights know what their training made of its data: the characters of a text
and the statistics of scale=standard are those of the training part wherever
`evaluate`, `predict`, --initial-weights or --resume meet other samples."""
# ctest: TIMEOUT 600

import json
import random
import struct
import subprocess
import unittest

from cluster import TROUPE, Run
from own_folder import OwnFolder
from predict_test import write_npy

MODEL = ["--model", "transformer:L1-H1-D8-T8"]
WINDOW = 8


class KeptData(OwnFolder):
    def setUp(self):
        super().setUp()
        self.file = self.path("w.safetensors")

    def put(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return "text:" + self.path(name)

    def train(self, *flags):
        with Run(*flags) as run:
            return run.finish()

    def troupe(self, *arguments, status=0):
        done = subprocess.run(
            [TROUPE, *arguments], stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertRegex(done.stderr,
                         r"\A(troupe: [^\n]+\n)?\Z")
        return done.stderr

    def evaluate(self, data):
        path = self.path("evaluated.json")
        self.troupe("evaluate", "--checkpoint", self.file, "--data", data,
                    *MODEL, "--summary", path)
        with open(path) as file:
            return json.load(file)["eval"]

    # Symptom: the vocabulary was that of the text that is read, so a character
    # had another number than in training, or the model another shape.
    def test_another_text_has_the_numbers_of_the_one_trained_on(self):
        draw = random.Random(3)
        whole = self.put("whole", "".join(draw.choices("aβcd", k=400)))
        few = "".join(draw.choices("βd", k=10 * WINDOW + 1))
        self.train("--data", whole, *MODEL, "--steps", "20", "--save",
                   self.file)
        # The end is no window: the same samples, by all four characters.
        found = self.evaluate(self.put("few", few))
        self.assertEqual(found, self.evaluate(self.put("more", few + "ac")))
        # One in a hundred may be unknown.
        self.evaluate(self.put("odd", 10 * few + "z"))
        line = self.troupe(
            "evaluate", "--checkpoint", self.file, "--data",
            self.put("foreign", few + "wxyz"), *MODEL, status=1)
        self.assertIn("4 do not occur in the text that the weights", line)

    def test_a_text_with_other_characters_is_not_trained_on_further(self):
        draw = random.Random(4)
        text = "".join(draw.choices("abcd", k=400))
        one = ["--data", self.put("one", text), *MODEL]
        # As many samples, and the same numbers.
        other = ["--data", self.put("other", text.translate(
            str.maketrans("abcd", "wxyz"))), *MODEL]
        kept = self.path("kept")
        self.train(*one, "--steps", "4", "--save", self.file,
                   "--checkpoint-dir", kept)
        line = self.troupe("train", *other, "--steps", "8", "--initial-weights",
                           self.file, "--checkpoint-dir", self.path("new"),
                           status=1)
        self.assertIn("its text has other characters", line)
        line = self.troupe("train", *other, "--steps", "8", "--resume",
                           "--checkpoint-dir", kept, status=1)
        self.assertIn("its text has other characters", line)
        self.train(*one, "--steps", "8", "--initial-weights", self.file,
                   "--checkpoint-dir", self.path("new"))
        self.train(*one, "--steps", "8", "--resume", "--checkpoint-dir", kept)

    def numbers(self, name, kind, rows):
        flat = [x for row in rows for x in row]
        shape = (len(rows), len(rows[0])) if len(rows[0]) > 1 else (len(rows),)
        write_npy(self.path(name), kind, shape,
                  struct.pack(f"<{len(flat)}f", *flat))
        return self.path(name)

    def predict(self, data):
        path = self.path("predicted.txt")
        self.troupe("predict", "--checkpoint", self.file, "--data", data,
                    "--model", "mlp:3-8-1", "--out", path)
        with open(path) as file:
            return file.read().splitlines()

    # Symptom: unlabelled samples were standardised by themselves, so that what
    # was predicted of one depended on those beside it.
    def test_a_sample_is_standardised_as_in_training_whoever_is_beside_it(self):
        draw = random.Random(5)
        rows = [[draw.gauss(50, 9), draw.gauss(-3, 0.1), draw.random()]
                for _ in range(64)]
        features = self.numbers("x.npy", "<f4", rows)
        targets = self.numbers("y.npy", "<f4", [[x + y] for x, y, _ in rows])
        data = f"npy:{features}?labels={targets}&task=regression"
        self.train("--data", f"{data}&scale=standard", "--model", "mlp:3-8-1",
                   "--global-batch", "16", "--steps", "20", "--save", self.file)
        everyone = self.predict(f"{data}&scale=standard")
        self.assertEqual(len(set(everyone)), 64)
        few = self.numbers("few.npy", "<f4", rows[5:12])
        one = self.numbers("one.npy", "<f4", rows[7:8])
        for how in ("?task=regression&scale=standard", "?task=regression", ""):
            with self.subTest(how):
                self.assertEqual(self.predict(f"npy:{few}{how}"),
                                 everyone[5:12])
                self.assertEqual(self.predict(f"npy:{one}{how}"),
                                 everyone[7:8])
        self.assertNotEqual(self.predict(f"npy:{few}?scale=none"),
                            everyone[5:12])


if __name__ == "__main__":
    unittest.main()
