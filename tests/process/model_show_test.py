"""`troupe model show` prints a model as a table, for Graphviz and as a file
that makes the same model again."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

TROUPE = os.environ["TROUPE"]
MODELS = ["mlp:784-512-256-10", "cnn", "resnet8", "resnet20",
          "transformer:L4-H4-D128-T64", "gpt2:L2-H4-D64-T32",
          "llama:L2-H4-K2-D64-T32", "dlrm", "wide_deep", "logreg"]


class ModelShow(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)

    def show(self, *arguments):
        done = subprocess.run([TROUPE, "model", "show", *arguments],
                              cwd=self.folder, capture_output=True, text=True,
                              timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "")
        return done.stdout

    def refused(self, status, *arguments):
        done = subprocess.run([TROUPE, "model", *arguments], cwd=self.folder,
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        return done.stderr

    def test_a_table_holds_every_operator_and_the_totals(self):
        lines = self.show("mlp:784-512-256-10").splitlines()
        self.assertEqual(lines[0].split(), ["operator", "kind", "inputs",
                                            "output", "parameters", "FLOPs"])
        self.assertEqual(lines[1].split(), ["features", "input", "[784]"])
        self.assertEqual(lines[2].split(), ["dense_0", "dense", "features",
                                            "[512]", "401920", "1605632"])
        self.assertIn("parameters: 535818", lines)
        flops = 2 * (2 * 784 * 512 + 3 * 512 * 256 + 3 * 256 * 10)
        self.assertIn(f"FLOPs a sample, forward and backward: {flops}", lines)

    def test_memory_is_planned_for_the_rows_of_a_virtual_rank(self):
        def memory(*arguments):
            line = self.show("mlp:784-512-256-10", *arguments).splitlines()[-1]
            words = line.split()
            self.assertEqual(words[:5], ["memory", "of", "a", "step", "of"])
            return int(words[5]), int(words[7]), int(words[9])
        rows, planned, unshared = memory()
        self.assertEqual(rows, 16)  # 64 over 4
        self.assertLess(planned, unshared)
        more_rows, more, _ = memory("--global-batch", "65",
                                    "--virtual-ranks", "2")
        self.assertEqual(more_rows, 33)
        self.assertGreater(more, planned)

    def test_every_built_in_model_comes_back_from_its_file(self):
        for model in MODELS:
            with self.subTest(model=model):
                path = self.folder / "model.json"
                text = self.show(model, "--format", "json")
                path.write_text(text)
                json.loads(text)
                self.assertEqual(self.show("model.json"), self.show(model))

    def test_graphviz_gets_a_node_for_each_operator(self):
        text = self.show("cnn", "--format", "dot")
        self.assertTrue(text.startswith('digraph "cnn" {'))
        self.assertIn('"pool_1" -> "conv_2" [label="[14, 14, 16]"]', text)
        self.assertIn('"features" [shape=oval]', text)

    def test_a_model_is_shown_as_the_data_makes_it(self):
        text = self.show("mlp:784-10", "--data", "synthetic:digits?samples=50")
        self.assertIn("flatten", text)
        self.assertIn("[28, 28, 1]", text)

    def test_a_model_file_trains_to_the_weights_of_its_model(self):
        data = "synthetic:digits?samples=200"
        (self.folder / "mine.json").write_text(
            self.show("mlp:784-12-10", "--data", data, "--format", "json"))
        hashes = []
        for model in ("mlp:784-12-10", "mine.json"):
            done = subprocess.run(
                [TROUPE, "train", "--model", model, "--data", data, "--quiet",
                 "--strategy", "parameter_server", "--processes", "--ps", "1",
                 "--steps", "3", "--summary", "run.json"], cwd=self.folder,
                capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, 0, done.stderr)
            summary = json.loads((self.folder / "run.json").read_text())
            hashes.append(summary["weights_sha256"])
        self.assertEqual(*hashes)

    def test_mistakes_get_one_line(self):
        self.assertIn("model show", self.refused(2))
        self.assertIn("model show", self.refused(2, "hide", "cnn"))
        self.assertIn("unknown model", self.refused(2, "show", "ccn"))
        self.assertIn("no.toml", self.refused(1, "show", "no.toml"))
        self.assertIn("--format", self.refused(2, "show", "cnn", "--format",
                                               "svg"))
        self.assertIn("--virtual-ranks",
                      self.refused(2, "show", "cnn", "--global-batch", "2"))
        self.assertIn("--lr is not a flag", self.refused(2, "show", "cnn",
                                                         "--lr", "1"))
        self.assertIn("already", self.refused(2, "show", "cnn", "--model",
                                              "dlrm"))
        (self.folder / "bad.toml").write_text(
            "[sample]\nfeatures = [4]\n[[operators]]\nkind = 'dence'\n")
        self.assertIn("model bad.toml: operator 0: unknown kind dence; did you "
                      "mean dense?", self.refused(2, "show", "bad.toml"))


if __name__ == "__main__":
    unittest.main()
