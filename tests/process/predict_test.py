"""A saved model gives the same verdict by `troupe evaluate`, `troupe predict`
and the run that trained it; a file that is not the model's gets one line."""
# ctest: TIMEOUT 1200

import ast
import json
import math
import os
import random
import struct
import subprocess
import tempfile
import unittest

from cluster import TROUPE, Run

MODEL = ["--model", "mlp:784-32-10"]
TRAINING = [*MODEL, "--epochs", "3", "--seed", "3", "--global-batch", "64",
            "--virtual-ranks", "4"]
SAMPLES = 1203
FRACTION = 0.15
HELD_OUT = 180  # round(0.15 * 1203)
CLASSES = 10
PIXELS = 28 * 28
STRATEGIES = {
    "one_device": ["--strategy", "one_device"],
    "mirrored": ["--strategy", "mirrored", "--devices", "cpu:2"],
    "processes": ["--strategy", "parameter_server", "--processes", "--workers",
                  "2", "--ps", "2"],
}


def write_mnist(folder, labels_of):
    """Noise with a bright band for the class, in the files of MNIST."""
    draw = random.Random(5)
    with open(os.path.join(folder, "train-images-idx3-ubyte"), "wb") as file:
        file.write(struct.pack(">IIII", 0x803, len(labels_of), 28, 28))
        for label in labels_of:
            image = bytearray(draw.randbytes(PIXELS))
            # One in eight has another class's band: nobody scores 1.
            shown = label if draw.random() < 0.875 else draw.randrange(CLASSES)
            image[56 * shown + 28:56 * shown + 56] = b"\xff" * 28
            file.write(image)
    with open(os.path.join(folder, "train-labels-idx1-ubyte"), "wb") as file:
        file.write(struct.pack(">II", 0x801, len(labels_of)))
        file.write(bytes(labels_of))


def write_npy(path, kind, shape, data):
    header = str({"descr": kind, "fortran_order": False,
                  "shape": shape}).encode() + b"\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header))
                   + header + data)


class Predict(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        draw = random.Random(4)
        cls.labels = [draw.randrange(CLASSES) for _ in range(SAMPLES)]
        write_mnist(cls.folder, cls.labels)
        cls.whole = ["--data", f"mnist:{cls.folder}"]
        cls.data = [*(f"{x}?eval=tail" if x.startswith("mnist") else x
                      for x in cls.whole), "--eval-fraction", str(FRACTION)]
        cls.summaries = {name: cls.train(name) for name in STRATEGIES}

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder, name)

    @classmethod
    def weights(cls, name):
        return cls.path(f"{name}.safetensors")

    @classmethod
    def train(cls, name):
        with Run(*cls.data, *TRAINING, *STRATEGIES[name], "--save",
                 cls.weights(name)) as run:
            return run.finish()

    def troupe(self, *arguments):
        return subprocess.run(
            [TROUPE, *arguments], stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=60, check=False)

    def evaluate(self, name, *arguments):
        path = self.path("evaluated.json")
        done = self.troupe("evaluate", "--checkpoint", self.weights(name),
                           "--summary", path, *MODEL, *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        with open(path) as file:
            return json.load(file)

    def predict(self, name, *arguments):
        path = self.path("predicted.txt")
        done = self.troupe("predict", "--checkpoint", self.weights(name),
                           "--out", path, *MODEL, *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        with open(path) as file:
            text = file.read()
        self.assertRegex(text, r"\A(\d\n)*\Z")
        return [int(line) for line in text.splitlines()]

    def accuracy(self, predictions, labels):
        self.assertEqual(len(predictions), len(labels))
        right = sum(p == l for p, l in zip(predictions, labels))
        return right / len(labels)

    def test_training_evaluating_and_predicting_agree_on_held_out_data(self):
        for name, summary in self.summaries.items():
            with self.subTest(strategy=name):
                trained = summary["eval"]
                self.assertGreater(trained["accuracy"], 0.5)
                self.assertLess(trained["accuracy"], 1)
                evaluated = self.evaluate(name, *self.data)
                self.assertEqual(evaluated["samples"], HELD_OUT)
                self.assertEqual(evaluated["weights_sha256"],
                                 summary["weights_sha256"])
                self.assertEqual(evaluated["eval"]["accuracy"],
                                 trained["accuracy"])
                self.assertAlmostEqual(evaluated["eval"]["loss"],
                                       trained["loss"], 9)
                # The last of the file, in its order.
                predictions = self.predict(name, *self.data)
                self.assertEqual(
                    self.accuracy(predictions, self.labels[-HELD_OUT:]),
                    trained["accuracy"])

    def output(self, what, name):
        path = self.path(name)
        done = self.troupe("predict", "--checkpoint",
                           self.weights("one_device"), "--output", what,
                           "--out", path, *MODEL, *self.data)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        with open(path, "rb") as file:
            return file.read()

    def test_probabilities_and_logits_are_those_of_the_classes(self):
        classes = self.predict("one_device", *self.data)
        rows = {}
        for what in ("probabilities", "logits"):
            title, *lines = self.output(what, "p.csv").decode().splitlines()
            self.assertEqual(title, ",".join(str(i) for i in range(CLASSES)))
            rows[what] = [[float(x) for x in line.split(",")]
                          for line in lines]
            self.assertEqual([row.index(max(row)) for row in rows[what]],
                             classes)
            # The array has the same float32 values.
            data = self.output(what, "p.npy")
            self.assertEqual(data[:8], b"\x93NUMPY\x01\x00")
            begin = 10 + int.from_bytes(data[8:10], "little")
            header = ast.literal_eval(data[10:begin].decode())
            self.assertEqual(header, {"descr": "<f4", "fortran_order": False,
                                      "shape": (HELD_OUT, CLASSES)})
            found = struct.unpack(f"<{HELD_OUT * CLASSES}f", data[begin:])
            given = [x for row in rows[what] for x in row]
            self.assertEqual(struct.pack(f"<{len(given)}f", *given),
                             struct.pack(f"<{len(found)}f", *found))
        for chances, logits in zip(rows["probabilities"], rows["logits"]):
            self.assertAlmostEqual(sum(chances), 1, 5)
            powers = [math.exp(x - max(logits)) for x in logits]
            for chance, power in zip(chances, powers):
                self.assertAlmostEqual(chance, power / sum(powers), 5)

    def test_arrays_without_labels_are_predicted(self):
        draw = random.Random(8)
        samples, features, classes = 120, 6, 5
        labels = bytes(draw.randrange(classes) for _ in range(samples))
        labels = bytes(range(classes)) + labels[classes:]
        values = [draw.gauss(3 * (k == label), 1) for label in labels
                  for k in range(features)]
        write_npy(self.path("x.npy"), "<f4", (samples, features),
                  struct.pack(f"<{len(values)}f", *values))
        write_npy(self.path("classes.npy"), "|u1", (samples,), labels)
        write_npy(self.path("numbers.npy"), "<f4", (samples,), struct.pack(
            f"<{samples}f", *(float(x) for x in labels)))
        bare = "npy:" + self.path("x.npy")
        saved, out = self.path("npy.safetensors"), self.path("npy.txt")
        # logreg fits itself to the classes of the training.
        for model, kind in (("logreg", "classes"), ("mlp:6-1", "numbers")):
            known = f"{bare}?labels={self.path(kind + '.npy')}"
            with Run("--data", known, "--model", model, "--steps", "60",
                     "--save", saved, "--strategy", "one_device") as run:
                run.finish()

            def predict(data):
                done = self.troupe("predict", "--model", model, "--data", data,
                                   "--checkpoint", saved, "--out", out)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                with open(out) as file:
                    return file.read(), done.stdout
            text, said = predict(bare)
            self.assertEqual(text, predict(known)[0])
            self.assertEqual(len(text.splitlines()), samples)
            self.assertEqual(said, f"samples {samples}\n")
        for command in (["train"], ["plan"], ["evaluate", "--checkpoint",
                                              saved]):
            done = self.troupe(*command, "--data", bare, "--model", "mlp:6-1")
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertRegex(done.stderr, r"\Atroupe: .*names no labels; write "
                             r"npy:FILE\?labels=FILE\n\Z")

    def test_a_plain_table_needs_neither_label_nor_model_to_be_predicted(self):
        draw = random.Random(5)
        rows = [[draw.randrange(100) for _ in range(4)] for _ in range(60)]
        known, new = self.path("known.csv"), self.path("new.csv")
        with open(known, "w") as file:
            file.write("a,b,c,d,kind\n")
            file.writelines(f"{','.join(map(str, x))},{sum(x) % 3}\n"
                            for x in rows)
        with open(new, "w") as file:
            file.write("a,b,c,d\n")
            file.writelines(f"{','.join(map(str, x))}\n" for x in rows)
        saved, out = self.path("table.safetensors"), self.path("table.txt")
        with Run("--data", f"csv:{known}", "--model", "mlp:4-16-3", "--steps",
                 "20", "--save", saved, "--strategy", "one_device") as run:
            run.finish()

        def predict(data, status=0):
            done = self.troupe("predict", "--data", data, "--checkpoint", saved,
                               "--out", out)
            self.assertEqual(done.returncode, status, done.stderr)
            if status:
                return done.stderr
            with open(out) as file:
                return file.read()
        self.assertEqual(predict(f"csv:{new}?label=none"),
                         predict(f"csv:{known}"))
        self.assertIn("takes 4 inputs but the data has 3",
                      predict(f"csv:{new}", 1))
        done = self.troupe("evaluate", "--data", f"csv:{known}", "--checkpoint",
                           saved)
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.troupe("evaluate", "--data", f"csv:{new}?label=none",
                           "--checkpoint", saved)
        self.assertEqual(done.returncode, 1)
        self.assertIn("predict alone takes such samples", done.stderr)

    def test_threads_do_not_change_predictions(self):
        predictions = self.predict("mirrored", *self.data)
        for threads in ("1", "2", "8"):
            self.assertEqual(self.predict("mirrored", *self.data,
                                          "--threads-per-device", threads),
                             predictions)

    def test_without_a_fraction_what_training_did_not_see_is_judged(self):
        predictions = self.predict("one_device", *self.whole)
        self.assertEqual(predictions, self.predict("one_device", *self.data))
        self.assertEqual(self.evaluate("one_device", *self.whole)["samples"],
                         HELD_OUT)

    def test_samples_that_are_named_are_judged_all(self):
        named = [*self.whole, "--eval-data", self.whole[1]]
        predictions = self.predict("one_device", *named)
        evaluated = self.evaluate("one_device", *named)
        self.assertEqual(evaluated["samples"], SAMPLES)
        self.assertEqual(self.accuracy(predictions, self.labels),
                         evaluated["eval"]["accuracy"])
        self.assertEqual(predictions[-HELD_OUT:],
                         self.predict("one_device", *self.data))

    def test_verdicts_are_printed_unless_quiet(self):
        for command in (["evaluate"],
                        ["predict", "--out", self.path("printed.txt")]):
            arguments = [*command, "--checkpoint", self.weights("mirrored"),
                         *MODEL, *self.data]
            accuracy = self.summaries["mirrored"]["eval"]["accuracy"]
            self.assertIn(f"accuracy {accuracy:.4f}",
                          self.troupe(*arguments).stdout)
            self.assertEqual(self.troupe(*arguments, "--quiet").stdout, "")

    def check_refused(self, checkpoint, model=MODEL):
        out = self.path("refused.txt")
        for arguments in (["evaluate"], ["predict", "--out", out]):
            done = self.troupe(*arguments, "--checkpoint", checkpoint, *model,
                               *self.data)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertRegex(done.stderr, r"\Atroupe: [^\n]+\n\Z")
            self.assertIn(checkpoint, done.stderr)
            self.assertEqual(done.stdout, "")
            self.assertFalse(os.path.exists(out))

    def test_a_damaged_file_is_refused(self):
        with open(self.weights("one_device"), "rb") as file:
            good = file.read()
        header, = struct.unpack_from("<Q", good)
        wrong = {f"cut to {size}": good[:size]
                 for size in (0, 7, 8, 9, 8 + header // 2, 8 + header,
                              8 + header + 1, len(good) // 2, len(good) - 4,
                              len(good) - 1)}
        wrong["a byte too many"] = good + b"\0"
        for length in (0, 1, header - 1, header + 1, 1 << 40, (1 << 63) - 1,
                       (1 << 64) - 8, (1 << 64) - 1):
            wrong[f"a header of {length}"] = struct.pack("<Q", length) + \
                good[8:]
        wrong["another dtype"] = good.replace(b'"F32"', b'"I32"')
        wrong["a shape too large"] = good.replace(b"[784,32]", b"[785,32]")
        wrong["not JSON"] = good.replace(b'"dtype"', b'"dtype;', 1)
        wrong["text"] = b"weights\n" * 100
        path = self.path("damaged.safetensors")
        for what, content in wrong.items():
            with self.subTest(what=what):
                self.assertNotEqual(content, good)
                with open(path, "wb") as file:
                    file.write(content)
                self.check_refused(path)

    def test_a_file_of_another_model_is_refused(self):
        good = self.weights("one_device")
        for model in ("mlp:784-33-10", "mlp:784-32-32-10", "mlp:784-10",
                      "mlp:784-32-11"):
            with self.subTest(model=model):
                self.check_refused(good, ["--model", model])

    # Under "sigmoid" all shapes fit, and no score would be the same.
    def test_the_model_that_was_trained_is_judged_whatever_its_file_says(self):
        model, summary = self.path("own.json"), self.path("own.summary")
        saved, kept = self.path("own.safetensors"), self.path("own.kept")
        shown = self.troupe("model", "show", "cnn", "--format", "json").stdout
        with open(model, "w") as file:
            file.write(shown)
        trained = self.troupe("train", *self.data, "--model", model, "--epochs",
                              "1", "--save", saved, "--checkpoint-dir", kept)
        self.assertEqual(trained.returncode, 0, trained.stderr)
        verdicts = []
        for _ in range(2):
            for weights in (saved, kept):
                done = self.troupe("evaluate", *self.whole, "--checkpoint",
                                   weights, "--summary", summary)
                self.assertEqual(done.returncode, 0, done.stderr)
                with open(summary) as file:
                    verdict = json.load(file)
                self.assertEqual(verdict["model"], model)
                verdicts.append(verdict["eval"])
            with open(model, "w") as file:
                file.write(shown.replace('"relu"', '"sigmoid"'))
        self.assertEqual(verdicts, verdicts[:1] * 4)
        with_another = self.troupe("evaluate", *self.whole, "--model", model,
                                   "--checkpoint", saved, "--summary", summary)
        self.assertEqual(with_another.returncode, 0, with_another.stderr)
        with open(summary) as file:
            self.assertNotEqual(json.load(file)["eval"], verdicts[0])

    def test_no_file_and_a_folder_are_refused(self):
        self.check_refused(self.path("nowhere.safetensors"))
        self.check_refused(self.folder)


if __name__ == "__main__":
    unittest.main()
