"""Models with convolutions, batch norm, attention, dropout and bags of ids give
one hash whatever computes them (I3), running statistics and random masks
included; and each kind of label gets its measures."""
# ctest: TIMEOUT 1200

import os
import random
import tempfile
import unittest

from cluster import Run

DIGESTS = ("weights_sha256", "state_sha256")
BATCH = ["--epochs", "0", "--global-batch", "16"]
# Sparse tables are those of tables_test.py and sparse_updates_test.py: norms over
# them are added up part by part, so a clipped step has other bits.
SERVED = ["--strategy", "parameter_server", "--tables", "dense"]
LAYOUTS = [
    ["--strategy", "mirrored", "--devices", "cpu:2"],
    ["--strategy", "mirrored", "--devices", "cpu:3", "--threads-per-device",
     "2"],
    [*SERVED, "--in-process", "--workers", "4", "--ps", "3", "--partitioner",
     "max_size:16384"],
    [*SERVED, "--processes", "--workers", "2", "--ps", "2"],
    ["--strategy", "pipeline", "--stages", "2"],
    ["--strategy", "hybrid", "--mesh", "data=2,stage=2"],
]


def write_text(path):
    draw = random.Random(3)
    words = ["the ", "ring ", "of ", "shards ", "and ", "a ", "worker.\n"]
    with open(path, "w") as file:
        file.write("".join(draw.choice(words) for _ in range(800)))


def write_clicks(path):
    """Ids with values and a label that one of them decides: libsvm."""
    draw = random.Random(4)
    with open(path, "w") as file:
        for _ in range(600):
            ids = sorted(draw.sample(range(1, 40), 5))
            label = 1 if ids[0] < 5 else 0
            file.write(f"{label} " + " ".join(f"{i}:1" for i in ids) + "\n")


class ModelsSameBits(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.text = os.path.join(folder.name, "text.txt")
        cls.clicks = os.path.join(folder.name, "clicks.svm")
        write_text(cls.text)
        write_clicks(cls.clicks)

    def check(self, job, measures, steps="12", layouts=None):
        def train(layout):
            with Run(*BATCH, "--steps", steps, *job, "--seed", "3",
                     "--eval-fraction", "0.1", *layout) as run:
                return run.finish()
        expected = train(["--strategy", "one_device"])
        self.assertEqual(set(expected["eval"]), {*measures, "samples"})
        for name in measures:
            self.assertIsNotNone(expected["eval"][name], name)
        for layout in layouts or LAYOUTS:
            with self.subTest(layout=" ".join(layout)):
                summary = train(layout)
                for name in DIGESTS:
                    self.assertEqual(summary[name], expected[name], name)
                self.assertEqual(summary["eval"], expected["eval"])

    def test_a_convolutional_network(self):
        self.check(["--data", "synthetic:digits?samples=300", "--model", "cnn",
                    "--optimizer", "momentum", "--weight-decay", "0.0001"],
                   {"loss", "accuracy"})

    def test_a_residual_network_with_running_statistics(self):
        self.check(["--data", "synthetic:digits?samples=300", "--model",
                    "resnet8"], {"loss", "accuracy"}, "4")

    def test_a_transformer_with_dropout(self):
        self.check(["--data", f"text:{self.text}", "--model",
                    "transformer:L2-H2-D16-T16", "--dropout", "0.2",
                    "--optimizer", "adamw", "--clip-norm", "0.5",
                    "--weight-decay", "0.1"],
                   {"loss", "perplexity", "accuracy"})

    def test_a_transformer_with_rotary_positions_and_shared_keys(self):
        self.check(["--data", f"text:{self.text}", "--model",
                    "llama:L2-H4-K2-D16-T16-P0.1", "--dropout", "0.2",
                    "--optimizer", "adamw", "--clip-norm", "0.5"],
                   {"loss", "perplexity", "accuracy"})

    def test_a_table_of_tokens_by_rows(self):
        served = ["--strategy", "parameter_server", "--tables", "sparse"]
        self.check(["--data", f"text:{self.text}", "--model",
                    "llama:L1-H2-D16-T16", "--optimizer", "adagrad"],
                   {"loss", "perplexity", "accuracy"},
                   layouts=[[*served, "--in-process", "--workers", "3", "--ps",
                             "2"],
                            [*served, "--processes", "--workers", "2", "--ps",
                             "2"]])

    def test_logistic_regression_on_sparse_ids(self):
        self.check(["--data", f"libsvm:{self.clicks}", "--model", "logreg",
                    "--optimizer", "ftrl", "--lr", "0.1"],
                   {"loss", "accuracy", "auc"})


if __name__ == "__main__":
    unittest.main()
