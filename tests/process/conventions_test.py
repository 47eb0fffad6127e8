"""What the numbers mean where frameworks differ, seen in whole runs."""
# ctest: TIMEOUT 600

import itertools
import json
import random
import statistics
import struct
import subprocess
import unittest

from cluster import TROUPE, Run
from own_folder import OwnFolder

NORM = """name = "norm"
[sample]
features = [2]
classes = 2
[[operators]]
kind = "batch_norm"
name = "norm"
[[operators]]
kind = "dense"
units = "classes"
[[operators]]
kind = "softmax_cross_entropy"
"""
IMAGES = """name = "images"
[sample]
features = [28, 28, 1]
classes = 10
[[operators]]
kind = "conv2d"
units = 4
kernel = 5
stride = 4
activation = "%(activation)s"
initializer = "fan_in_uniform"
[[operators]]
kind = "batch_norm"
activation = "%(activation)s"
[[operators]]
kind = "reshape"
[[operators]]
kind = "dense"
units = "classes"
[[operators]]
kind = "softmax_cross_entropy"
"""
STRATEGIES = {
    "one_device": ["--strategy", "one_device"],
    "mirrored": ["--strategy", "mirrored", "--devices", "cpu:2"],
    "parameter_server": ["--strategy", "parameter_server", "--workers", "2",
                         "--ps", "2", "--in-process"],
    "pipeline": ["--strategy", "pipeline", "--stages", "2"],
    "hybrid": ["--strategy", "hybrid", "--mesh", "data=2,stage=2"],
    "fully_sharded": ["--strategy", "fully_sharded", "--workers", "2",
                      "--in-process"],
}


def tensor(path, name):
    """The values of a tensor in a file of weights."""
    with open(path, "rb") as file:
        length, = struct.unpack("<Q", file.read(8))
        begin, end = json.loads(file.read(length))[name]["data_offsets"]
        file.seek(8 + length + begin)
        return struct.unpack(f"<{(end - begin) // 4}f", file.read(end - begin))


class Conventions(OwnFolder):
    def write(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)
        return self.path(name)

    def signs(self, samples):
        """Two features of -2 and 2, of which the first says the class."""
        draw = random.Random(3)
        lines = ["a,b,label"]
        for i in range(samples):
            lines.append(f"{4 * (i % 2) - 2},{draw.choice((-2, 2))},{i % 2}")
        return "csv:" + self.write("signs.csv", "\n".join(lines) + "\n")

    def norm_run(self, *arguments, samples=65):
        """Summary, output and the running variance of the first feature."""
        with Run("--data", self.signs(samples), "--model",
                 self.write("norm.toml", NORM), "--strategy", "one_device",
                 "--lr", "0.02", "--eval-data", self.signs(samples), "--save",
                 self.path("weights"), *arguments) as run:
            summary = run.finish()
            return (summary, run.output(),
                    tensor(self.path("weights"), "norm/variance")[0])

    def test_a_sample_alone_makes_no_variance_of_nothing(self):
        # 65 samples of variance 4: the last step's one sample made it 1.9.
        summary, output, variance = self.norm_run("--epochs", "40")
        self.assertGreater(variance, 3)
        self.assertLess(variance, 5.5)
        self.assertEqual(summary["eval"]["accuracy"], 1)
        self.assertNotIn("note:", output)

    def test_deviations_are_pooled_over_the_virtual_ranks_of_a_step(self):
        # Two ranks of 3 and 2 samples, whichever the seed gives them.
        values = (1, 2, 4, 8, 16)
        data = "csv:" + self.write("five.csv", "a,b,label\n" + "".join(
            f"{x},{-x},{i % 2}\n" for i, x in enumerate(values)))
        pooled = []
        for three in itertools.combinations(values, 3):
            parts = three, [x for x in values if x not in three]
            squares = sum(len(part) * statistics.pvariance(part)
                          for part in parts)
            pooled.append(0.9 + 0.1 * squares / (5 - 2))
        for strategy, flags in STRATEGIES.items():
            with Run("--data", data, "--model", self.write("norm.toml", NORM),
                     "--global-batch", "5", "--virtual-ranks", "2", "--steps",
                     "1", "--save", self.path("weights"), *flags) as run:
                run.finish()
            variance = tensor(self.path("weights"), "norm/variance")[0]
            nearest = min(pooled, key=lambda x: abs(x - variance))
            self.assertAlmostEqual(variance, nearest, places=4, msg=strategy)

    def test_a_batch_as_small_as_the_virtual_ranks_still_learns(self):
        # Each of the four had one sample, whose normal value is 0.
        summary, output, variance = self.norm_run(
            "--epochs", "40", "--global-batch", "4")
        self.assertGreater(variance, 1.5)
        self.assertLess(variance, 8)
        self.assertEqual(summary["eval"]["accuracy"], 1)
        self.assertNotIn("note:", output)

    def test_a_step_that_must_have_one_sample_is_said(self):
        for batch, ranks in (("1", "1"), ("2", "2")):
            _, output, variance = self.norm_run(
                "--epochs", "1", "--global-batch", batch, "--virtual-ranks",
                ranks)
            self.assertRegex(
                output, "note: .* steps of an epoch have one sample.*"
                "--global-batch 3 or more")
            self.assertGreaterEqual(variance, 1)

    def test_small_batches_give_one_hash_over_strategies(self):
        for batch in ("4", "5", "64"):
            hashes = set()
            for flags in STRATEGIES.values():
                with Run("--data", self.signs(65), "--model",
                         self.write("norm.toml", NORM), "--global-batch",
                         batch, "--epochs", "2", *flags) as run:
                    hashes.add(run.finish()["weights_sha256"])
            self.assertEqual(len(hashes), 1, batch)

    def test_convolutions_and_norms_take_every_activation(self):
        for activation in ("gelu", "silu", "tanh", "sigmoid"):
            model = self.write("images.toml",
                               IMAGES % {"activation": activation})
            shown = subprocess.run(
                [TROUPE, "model", "show", model], capture_output=True,
                text=True, timeout=60, check=False)
            self.assertEqual(shown.returncode, 0, shown.stderr)
            hashes = set()
            for flags in STRATEGIES.values():
                with Run("--data", "synthetic:digits?samples=300", "--model",
                         model, "--steps", "6", *flags) as run:
                    hashes.add(run.finish()["weights_sha256"])
            self.assertEqual(len(hashes), 1, activation)

    def test_the_area_under_the_curve_is_that_of_the_logits(self):
        # Probabilities of logits from 17 on are 1, one and all.
        lines = [f"{int(i >= 20)} 1:{i / 10 + 0.1:.1f}\n" for i in range(40)]
        data = "libsvm:" + self.write("line.svm", "".join(lines))
        with Run("--data", data, "--model", "logreg", "--strategy",
                 "one_device", "--optimizer", "sgd", "--lr", "30", "--steps",
                 "1", "--eval-data", data) as run:
            summary = run.finish()
        self.assertEqual(summary["eval"]["auc"], 1)


if __name__ == "__main__":
    unittest.main()
