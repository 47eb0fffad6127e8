"""What a hand slips into: each does what was meant, or says so in a line."""
# ctest: TIMEOUT 600

import json
import os
import shutil
import subprocess
import unittest

from cluster import TROUPE, Run
from own_folder import OwnFolder

SMALL = ["--model", "mlp:784-16-10", "--seed", "3", "--global-batch", "64"]
CLASSES = 4


def write_sorted_csv(path, header):
    """Four classes, one after the other; the feature tells which."""
    with open(path, "w") as file:
        if header:
            file.write("a,b,kind\n")
        for kind in range(CLASSES):
            for i in range(100):
                file.write(f"{kind},{i / 100},{kind}\n")


class Slips(OwnFolder):
    def troupe(self, *arguments):
        return subprocess.run(
            [TROUPE, *arguments], stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=60, check=False)

    def train(self, *arguments):
        with Run(*arguments) as run:
            return run.finish(), run.output()

    # --- data -----------------------------------------------------------------

    # Symptom: the first sample was taken for a header and lost, silently.
    def test_a_table_without_a_header_is_asked_about(self):
        write_sorted_csv(self.path("bare.csv"), header=False)
        data = f"csv:{self.path('bare.csv')}"
        done = self.troupe("train", "--data", data, "--model", "mlp:2-8-4",
                           "--strategy", "one_device")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertRegex(done.stderr, r"\Atroupe: .*bare\.csv.*header=false.*\n\Z")
        summary, _ = self.train("--data", f"{data}?header=false", "--model",
                                "mlp:2-8-4", "--strategy", "one_device")
        self.assertEqual(summary["samples"], 400)

    # Symptom: of a file sorted by class one class was evaluated.
    def test_a_file_sorted_by_class_is_evaluated_on_all_classes(self):
        write_sorted_csv(self.path("sorted.csv"), header=True)
        data = ["--data", f"csv:{self.path('sorted.csv')}", "--eval-fraction",
                "0.2"]
        model = ["--model", "mlp:2-32-4", "--lr", "0.02", "--epochs", "20"]
        saved = self.path("w.safetensors")
        summary, _ = self.train(*data, *model, "--strategy", "one_device",
                                "--save", saved)
        self.assertEqual(summary["eval"]["samples"], 80)
        self.assertGreater(summary["eval"]["accuracy"], 0.9)
        out = self.path("predicted")
        done = self.troupe("predict", *data, "--model", "mlp:2-32-4",
                           "--checkpoint", saved, "--out", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(out) as file:
            self.assertEqual(set(file.read().split()), set("0123"))

    def test_another_seed_evaluates_the_same_samples(self):
        data = ["--data", "synthetic:digits?samples=1000", "--eval-fraction",
                "0.2"]
        untrained = ["--lr", "1e-9", "--steps", "1", "--strategy",
                     "one_device", *SMALL[:2]]

        def verdict(spec, seed):
            saved = self.path(f"{seed}.safetensors")
            self.train("--data", spec, *data[2:], *untrained, "--seed", "1",
                       "--save", saved)
            done = self.troupe("evaluate", "--data", spec, *data[2:],
                               *SMALL[:2], "--checkpoint", saved)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout

        first = verdict(data[1], 1)
        self.assertEqual(first, verdict(data[1], 2))
        self.assertNotEqual(first, verdict(data[1] + "&eval_seed=5", 3))
        self.assertNotEqual(first, verdict(data[1] + "&eval=tail", 4))

    # Symptom: `evaluate` and `predict` without the fraction of the training, or
    # with another, judged samples that it had seen.
    def test_what_training_saw_is_not_judged(self):
        data = "synthetic:digits?samples=1000&eval_seed=9"
        saved = self.path("w.safetensors")
        kept = self.path("kept")
        summary, _ = self.train("--data", data, "--eval-fraction", "0.2",
                                *SMALL, "--strategy", "one_device", "--save",
                                saved, "--checkpoint-dir", kept)
        out = self.path("predicted")
        for weights in (saved, kept):
            for command in (["evaluate"], ["predict", "--out", out]):
                done = self.troupe(*command, "--checkpoint", weights,
                                   *SMALL[:2], "--data",
                                   "synthetic:digits?samples=1000")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("samples 200, which training did not see",
                              done.stdout)
                self.assertIn(
                    f"accuracy {summary['eval']['accuracy']:.4f}", done.stdout)
                for other in (["--eval-fraction", "0.3"],
                              ["--eval-fraction", "0.2", "--data",
                               data.replace("eval_seed=9", "eval=tail")]):
                    again = self.troupe(
                        *command, "--checkpoint", weights, *SMALL[:2],
                        *(other if "--data" in other else
                          [*other, "--data", data]))
                    self.assertEqual(again.returncode, 1, again.stdout)
                    self.assertRegex(again.stderr,
                                     r"\Atroupe: .*training.*\n\Z")
        # Other data are judged as they are.
        done = self.troupe("evaluate", "--checkpoint", saved, *SMALL[:2],
                           "--data", "synthetic:digits?samples=50&seed=1")
        self.assertIn("samples 50\n", done.stdout)

    # Symptom: with `./x.csv` in place of `x.csv` training's samples were judged
    # as well.
    def test_a_path_that_is_spelled_otherwise_is_the_same_data(self):
        table, saved = self.path("x.csv"), self.path("w.safetensors")
        with open(table, "w") as file:
            file.write("a,b,label\n")
            for i in range(200):
                file.write(f"{i % 7},{i % 11},{i % 2}\n")
        os.symlink(table, self.path("link.csv"))
        self.train("--data", f"csv:{table}", "--eval-fraction", "0.2",
                   "--model", "mlp:2-4-2", "--save", saved)
        for path in (self.path("./x.csv"), self.path("link.csv")):
            done = self.troupe("evaluate", "--checkpoint", saved, "--data",
                               f"csv:{path}")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("samples 40, which training did not see",
                          done.stdout)

    # --- flags ----------------------------------------------------------------

    # Symptom: the words of a library.
    def test_a_flag_given_twice_is_named(self):
        done = self.troupe("train", "--strategy", "mirrored", "--strategy",
                           "one_device")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr, "troupe: --strategy is given twice, as "
                         "mirrored and as one_device; leave one out\n")

    # Symptom: nothing was compressed, and nothing said so.
    def test_compression_that_saves_nothing_says_so(self):
        wanted = ["--data", "synthetic:digits?samples=640", *SMALL,
                  "--strategy", "multi_worker_mirrored", "--workers", "2",
                  "--reduction", "fast", "--compress", "fp16"]
        words = "--compress fp16 has no effect: all workers are on this host"
        summary, output = self.train(*wanted)
        self.assertEqual(summary["all_reduce"]["sent_bytes"], 0)
        self.assertEqual(output.count(words), 1, output)
        summary, output = self.train(*wanted, "--link", "tcp")
        self.assertGreater(summary["all_reduce"]["sent_bytes"], 0)
        self.assertNotIn(words, output)

    # Symptom: 0 samples/s.
    def test_ten_steps_have_a_pace(self):
        for steps in ("1", "10", "11"):
            summary, output = self.train(
                "--data", "synthetic:digits?samples=1000", *SMALL,
                "--strategy", "one_device", "--steps", steps)
            self.assertGreater(summary["samples_per_second"], 0)
            self.assertNotRegex(output, r"[^.\d]0(\.0)? samples/s")

    # --- files ----------------------------------------------------------------

    def made_inputs(self):
        """Samples, a list of them, a model, a configuration, weights and a
        checkpoint, all of them good."""
        with open(self.path("x.csv"), "w") as file:
            file.write("a,b,kind\n")
            file.writelines(f"{i % 7},{i % 3},{i % 2}\n" for i in range(64))
        with open(self.path("list"), "w") as file:
            file.write("x.csv\n")
        model = ["--model", "mlp:2-4-2"]
        with open(self.path("m.json"), "w") as file:
            file.write(self.troupe("model", "show", "mlp:2-4-2", "--format",
                                   "json").stdout)
        with open(self.path("j.toml"), "w") as file:
            file.write('strategy = "one_device"\n')
        self.job = ["--data", f"csv:{self.path('x.csv')}", *model,
                    "--global-batch", "32", "--steps", "2"]
        self.train(*self.job, "--strategy", "one_device", "--save",
                   self.path("w.st"), "--checkpoint-dir", self.path("kept"))
        os.symlink("w.st", self.path("link.st"))
        os.link(self.path("x.csv"), self.path("twin.csv"))
        os.mkdir(self.path("hf"))
        shutil.copy(self.path("w.st"), self.path("hf", "model.safetensors"))

    def all_files(self):
        found = {}
        for folder, _, names in os.walk(self.folder):
            for name in names:
                with open(os.path.join(folder, name), "rb") as file:
                    found[os.path.join(folder, name)] = file.read()
        return found

    # Symptom: weights, samples, a model or a configuration were gone without a
    # word.
    def test_what_is_read_is_not_written_over(self):
        self.made_inputs()
        before = self.all_files()
        at = self.path
        data = ["--data", f"csv:{at('x.csv')}"]
        listed = ["--data", f"csv:@{at('list')}"]
        some = ["--data", f"csv:{at('[xy].csv')}"]
        weights = ["--checkpoint", at("w.st")]
        kept = ["--checkpoint", at("kept")]
        step = os.path.join(at("kept"), os.listdir(at("kept"))[0])
        parameters = os.path.join(step, "parameters.safetensors")
        train = ["train", *self.job[2:], "--strategy", "one_device"]
        role = ["role", "coordinator", "--certificates", at("certs"),
                *self.job[2:], "--strategy", "multi_worker_mirrored"]
        for words, flag, path, reader in (
                (["predict", *data, *weights], "--out", "w.st", "--checkpoint"),
                (["predict", *data, *weights], "--out", "link.st",
                 "--checkpoint"),
                (["predict", *data, *weights], "--out", "x.csv", "--data"),
                (["predict", *data, *kept], "--out", parameters,
                 "--checkpoint"),
                (["evaluate", *data, *weights], "--summary", "w.st",
                 "--checkpoint"),
                (["evaluate", *data, *weights], "--summary", "x.csv", "--data"),
                ([*train, *data], "--save", "x.csv", "--data"),
                ([*train, *data], "--save", "twin.csv", "--data"),
                ([*train, *data], "--summary", "x.csv", "--data"),
                ([*train, *data], "--report", "x.csv", "--data"),
                ([*train, *listed], "--save", "x.csv", "--data"),
                ([*train, *listed], "--save", "list", "--data"),
                ([*train, *some], "--save", "x.csv", "--data"),
                ([*train, *data, "--eval-data", listed[1]], "--report", "list",
                 "--eval-data"),
                (["train", *data, "--model", at("m.json"), "--strategy",
                  "one_device"], "--save", "m.json", "--model"),
                (["train", *self.job, "--config", at("j.toml")], "--save",
                 "j.toml", "--config"),
                ([*role, *data], "--save", "x.csv", "--data"),
                ([*train, *data, "--checkpoint-dir", at("kept"), "--resume"],
                 "--save", parameters, "--checkpoint-dir"),
                ([*train, *data, "--checkpoint-dir", at("new"),
                  "--initial-weights", at("w.st")], "--report", "w.st",
                 "--initial-weights"),
                (["checkpoint", "export", at("kept")], "--out", parameters,
                 "'troupe checkpoint export'"),
                (["checkpoint", "export", step], "--out",
                 os.path.join(step, "manifest.json"),
                 "'troupe checkpoint export'"),
                (["checkpoint", "export", at("hf", "model.safetensors"),
                  "--layout", "hugging_face"], "--out", "hf",
                 "'troupe checkpoint export'")):
            place = os.path.join(self.folder, path)
            with self.subTest(words=words, flag=flag, path=path):
                done = self.troupe(*words, flag, place)
                if path == "hf":
                    place += "/model.safetensors"
                self.assertEqual(
                    (done.returncode, done.stderr),
                    (2, f"troupe: {flag} {place} is what {reader} reads; name "
                        "another file\n"))
        self.assertEqual(self.all_files(), before)

    def test_weights_of_a_save_are_gone_on_with_in_place(self):
        self.made_inputs()
        train = ["train", *self.job, "--strategy", "one_device",
                 "--checkpoint-dir", self.path("new"), "--initial-weights"]
        with open(self.path("w.st"), "rb") as file:
            before = file.read()
        done = self.troupe(*train, self.path("w.st"), "--save",
                           self.path("w.st"))
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.path("w.st"), "rb") as file:
            self.assertNotEqual(file.read(), before)
        # One from elsewhere may hold more than is written in its place.
        size = int.from_bytes(before[:8], "little")
        header = json.loads(before[8:8 + size])
        del header["__metadata__"]
        text = json.dumps(header).encode().ljust(size)
        foreign = self.path("foreign.st")
        with open(foreign, "wb") as file:
            file.write(before[:8] + text + before[8 + size:])
        done = self.troupe(*train, foreign, "--save", foreign)
        self.assertEqual(
            (done.returncode, done.stderr),
            (2, f"troupe: --save {foreign} is what --initial-weights reads; "
                "name another file\n"))

    def test_two_outputs_meet_through_links(self):
        os.symlink("x.st", self.path("y.st"))
        os.symlink(self.path("y.st"), self.path("z.st"))
        for link in ("y.st", "z.st"):
            done = self.troupe(
                "train", "--data", "synthetic:digits?samples=64", *SMALL,
                "--strategy", "one_device", "--steps", "1", "--save",
                self.path("x.st"), "--summary", self.path(link))
            self.assertEqual(
                (done.returncode, done.stderr),
                (2, "troupe: --save and --summary name one place, "
                    f"{self.path('x.st')}; give each its own\n"))

    # --- events ---------------------------------------------------------------

    # Symptom: what happened in a run drowned in rows of commits.
    def test_what_happened_is_not_drowned_in_commits(self):
        journal = self.path("run.db")
        self.train("--data", "synthetic:digits?samples=640", "--model",
                   "sleep:5ms", "--strategy", "parameter_server", "--workers",
                   "2", "--processes", "--steps", "200", "--journal", journal)
        rows = self.troupe("events", journal, "--kind", "commits").stdout
        self.assertGreater(rows.count("\n"), 4)
        lines = self.troupe("events", journal).stdout.splitlines()
        commits = [x for x in lines if " commits " in x]
        self.assertEqual(len(commits), 1, lines)
        self.assertIn("steps 0 to 199, loss ", commits[0])
        every = self.troupe("events", journal, "--json").stdout.splitlines()
        self.assertEqual(sum(json.loads(x)["kind"] == "commits"
                             for x in every), rows.count("\n"))


if __name__ == "__main__":
    unittest.main()
