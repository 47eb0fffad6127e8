"""Tables as people have them: text, gaps, quotes, users and items. What
`troupe data info` proposes for one trains as it stands, with the same bits
whoever computes and whoever dies, and a saved model takes files that have
unseen values, other columns or no label."""
# ctest: TIMEOUT 900

import csv
import json
import math
import os
import random
import re
import shlex
import struct
import subprocess
import tempfile
import unittest

from cluster import TROUPE, Run, metadata_of

SERVED = ["--strategy", "parameter_server"]
LAYOUTS = {
    "two devices": ["--strategy", "mirrored", "--devices", "cpu:2"],
    "one worker": [*SERVED, "--workers", "1", "--ps", "1"],
    "three workers": [*SERVED, "--workers", "3", "--ps", "2"],
    "four workers": [*SERVED, "--processes", "--workers", "4", "--ps", "2"],
}
SAMPLES = 2400
FRACTION = 0.15
HELD_OUT = 360
WORK = {"Private": 0.0, "Self-emp, not inc": 0.3, 'Gov "local"': 0.2,
        "Never\nworked": -2.0}
SCHOOL = {"Bachelors": 1.2, "HS-grad": -0.4, "Masters": 1.8, "11th": -1.5,
          "Doctorate": 2.2}
COUNTRY = {"United-States": 0.0, "México": -0.4, "Österreich": 0.3}
HEADER = ["age", "workclass", "education", "hired", "hours", "gain",
          "country", "note", "income"]


def people(seed, count):
    """Rows in the manner of a census: who earns more follows from age, school,
    hours and work, and by chance; some fields are not known."""
    draw = random.Random(seed)
    for i in range(count):
        age = min(90, max(17, int(draw.gauss(39, 13))))
        work = draw.choices(list(WORK), [7, 2, 1.5, 0.3])[0]
        school = draw.choices(list(SCHOOL), [3, 5, 1, 1.5, 0.3])[0]
        hours = max(1, min(99, int(draw.gauss(40 + 3 * SCHOOL[school], 10))))
        gain = draw.randrange(1000, 99999) if draw.random() < 0.08 else 0
        country = draw.choices(list(COUNTRY), [9, 1, 0.5])[0]
        logit = (-1.6 + 2.2 * SCHOOL[school] + WORK[work] + COUNTRY[country]
                 + 0.06 * (age - 39) - 0.0015 * (age - 45) ** 2
                 + 0.05 * (hours - 40) + (3 if gain > 7000 else 0))
        rich = draw.random() < 1 / (1 + math.exp(-1.5 * logit))
        row = [age, work, school,
               f"{draw.randrange(1995, 2020)}-{draw.randrange(1, 13):02}-"
               f"{draw.randrange(1, 29):02}", hours, gain, country,
               f"person {seed}-{i}, \"{draw.random():.9f}\"",
               ">50K" if rich else "<=50K"]
        for column, share in ((0, 0.02), (1, 0.06), (4, 0.08), (6, 0.02)):
            if draw.random() < share:
                row[column] = draw.choice(("", "?"))
        yield row


def ratings(seed, count, users=60, items=80):
    """User, item, rating: taste and quality of two kinds, and noise."""
    draw = random.Random(seed)
    taste = random.Random(99)
    of_user = [(taste.gauss(0, 0.5), taste.gauss(0, 1)) for _ in range(users)]
    of_item = [(taste.gauss(0, 0.6), taste.gauss(0, 1)) for _ in range(items)]
    for _ in range(count):
        user, item = draw.randrange(users), draw.randrange(items)
        (mood, likes), (quality, has) = of_user[user], of_item[item]
        value = 3 + mood + quality + likes * has + draw.gauss(0, 0.3)
        yield [f"u{user}", f"i{item}", round(value, 2)]


FACTORS = """name = "factors"

[sample]
ids = 2
vocabulary = 1000
label = "number"

[[operators]]
kind = "embedding_bag"
name = "single"
inputs = "ids"
width = 1
initializer = "zeros"

[[operators]]
kind = "embedding"
name = "vectors"
inputs = "ids"
width = 8
scale = 0.3

[[operators]]
kind = "factorization"
name = "pairs"

[[operators]]
kind = "add"
inputs = ["single", "pairs"]

[[operators]]
kind = "bias"

[[operators]]
kind = "mean_squared_error"
"""


class TableData(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        cls.people = list(people(1, SAMPLES))
        cls.census = cls.write("census.csv", HEADER, cls.people)
        cls.rated = cls.write("ratings.csv", ["user", "item", "rating"],
                              ratings(2, 4000))
        with open(cls.path("factors.toml"), "w") as file:
            file.write(FACTORS)
        cls.proposed = cls.info("csv:" + cls.census)
        cls.job = [*cls.proposed, "--eval-fraction", str(FRACTION), "--seed",
                   "3", "--lr", "0.003"]
        cls.saved = cls.path("census.safetensors")
        cls.kept = cls.path("kept")
        cls.trained = cls.train(
            *cls.job, "--strategy", "one_device", "--epochs", "12", "--save",
            cls.saved, "--checkpoint-dir", cls.kept)

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder, name)

    @classmethod
    def write(cls, name, header, rows):
        with open(cls.path(name), "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(header)
            writer.writerows(rows)
        return cls.path(name)

    @classmethod
    def info(cls, spec):
        """The words that `troupe data info` proposes for the command line."""
        done = cls.troupe("data", "info", spec)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        cls.shown = done.stdout
        return shlex.split(done.stdout.splitlines()[-1])

    @staticmethod
    def troupe(*arguments):
        return subprocess.run(
            [TROUPE, *arguments], stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=60, check=False)

    @staticmethod
    def train(*arguments):
        with Run(*arguments, "--quiet") as run:
            summary = run.finish()
            assert run.error() == "", run.error()
            return summary

    def refused(self, *arguments, status=1):
        done = self.troupe(*arguments)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertRegex(done.stderr, r"\Atroupe: [^\n]+\n\Z")
        return done.stderr

    def evaluate(self, *arguments, weights=None):
        path = self.path("evaluated.json")
        done = self.troupe("evaluate", "--model", "wide_deep", "--checkpoint",
                           weights or self.saved, "--summary", path,
                           *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        with open(path) as file:
            return json.load(file)

    def predict(self, *arguments, weights=None):
        path = self.path("predicted.txt")
        done = self.troupe("predict", "--model", "wide_deep", "--checkpoint",
                           weights or self.saved, "--out", path, *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        with open(path) as file:
            return file.read().splitlines(), done.stdout

    # --- what is found and learned --------------------------------------------

    def test_info_finds_what_columns_hold(self):
        self.info("csv:" + self.census)
        self.assertIn(f"{SAMPLES} samples, 9 columns", self.shown)
        kinds = dict(re.findall(r"(?m)^([a-z]+) +(\S+) +\d+ ", self.shown))
        self.assertEqual(kinds, {
            "age": "number:missing=median", "workclass": "category",
            "education": "category", "hired": "date:cycle=weekday",
            "hours": "number:missing=flag", "gain": "number",
            "country": "category", "note": "ignore", "income": "label"})
        self.assertIn('the label is taken to be "income", as labels are often '
                      "called so; another one by label=NAME", self.shown)
        self.info("csv:" + self.census + "?label=income")
        self.assertNotIn("is taken to be", self.shown)
        self.info("csv:" + self.census)
        missing = sum(row[4] in ("", "?") for row in self.people)
        self.assertRegex(self.shown, rf"(?m)^hours .* {missing} ")
        words = self.info("csv:" + self.rated)
        self.assertIn("columns=user:id,item:id,rating:target", words[1])
        self.assertEqual(words[2:], ["--model", "wide_deep"])

    def test_info_finds_separator_and_header(self):
        path = self.path("bare.csv")
        with open(path, "w") as file:
            file.writelines(f"{i % 7};{'ab'[i % 2]};{i % 3}\n"
                            for i in range(60))
        words = self.info("csv:" + path)
        self.assertEqual(words[1], f"csv:{path}?columns=0:number,1:category,"
                         "2:label&sep=;&header=false&scale=standard")
        self.train(*words, "--steps", "3")
        self.assertIn("no column", self.refused(
            "data", "info", f"csv:{path}?label=x"))
        self.assertIn("csv:FILE", self.refused(
            "data", "info", "synthetic:digits", status=2))

    def test_a_table_of_numbers_alone_is_for_an_mlp(self):
        path = self.write("plain.csv", ["a", "b", "y"],
                          [[i % 5, "" if i % 9 == 0 else i % 4, i % 3]
                           for i in range(90)])
        words = self.info("csv:" + path)
        self.assertEqual(words[-1], "mlp:3-64-3")
        self.train(*words, "--steps", "3")

    # Symptom: the proposal for prices trained to nothing, as steps of the
    # usual size hardly came near them.
    def test_numbers_far_from_zero_are_learned(self):
        draw = random.Random(4)
        rows = [[x, kind, round(250000 + 40000 * x + 30000 * kind, 2)]
                for x, kind in ((draw.gauss(0, 1), draw.randrange(3))
                                for _ in range(800))]
        path = self.write("prices.csv", ["size", "rooms", "price"], rows)
        words = self.info("csv:" + path)
        self.assertIn("price:target:scale=standard", words[1])
        self.assertRegex(self.shown, r"13 steps .*--epochs \d+\b")
        weights = self.path("prices.safetensors")
        summary = self.train(*words, "--epochs", "40", "--eval-fraction",
                             "0.2", "--strategy", "one_device", "--save",
                             weights)
        self.assertLess(summary["eval"]["loss"], 0.05)
        # What is predicted is a price again, whatever file it is of.
        other = self.write("houses.csv", ["rooms", "size"],
                           [[row[1], row[0]] for row in rows])
        out = self.path("prices.txt")
        done = self.troupe("predict", "--checkpoint", weights, "--out", out,
                           "--data", "csv:" + other)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        with open(out) as file:
            found = [float(line) for line in file]
        away = sum((a - row[2]) ** 2 for a, row
                   in zip(found, rows, strict=True)) / len(rows)
        self.assertLess(away ** 0.5, 15000)
        array = self.path("prices.npy")
        self.assertEqual(self.troupe(
            "predict", "--checkpoint", weights, "--out", array, "--data",
            "csv:" + other).returncode, 0)
        with open(array, "rb") as file:
            values = file.read()[-4 * len(rows):]
        for a, b in zip(struct.unpack(f"<{len(rows)}f", values), found,
                        strict=True):
            self.assertAlmostEqual(a / b, 1, 5)

    def test_what_cannot_be_trained_is_not_proposed(self):
        path = self.write("gaps.csv", ["x", "y"],
                          [[i % 5, "nan" if i % 9 == 0 else i % 3]
                           for i in range(90)])
        done = self.troupe("data", "info", "csv:" + path)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r'\Atroupe: [^\n]*gaps\.csv: the label '
                         r'"y" is missing in 10 of 90 samples: [^\n]+\n\Z')
        self.assertIn("90 samples, 2 columns", done.stdout)
        self.assertNotIn("--data", done.stdout)

    def test_the_census_is_learned(self):
        verdict = self.trained["eval"]
        self.assertEqual(verdict["samples"], HELD_OUT)
        self.assertGreater(verdict["accuracy"], 0.80)
        self.assertGreater(verdict["auc"], 0.88)

    def test_ratings_are_learned_by_factors(self):
        words = self.info("csv:" + self.rated)
        job = [*words[:2], "--eval-fraction", "0.2", "--strategy",
               "one_device", "--epochs", "30", "--lr", "0.01"]
        mean = sum(row[2] for row in ratings(2, 4000)) / 4000
        spread = sum((row[2] - mean) ** 2 for row in ratings(2, 4000)) / 4000
        for model in (self.path("factors.toml"), "wide_deep", "dlrm"):
            with self.subTest(model=model):
                summary = self.train(*job, "--model", model)
                self.assertLess(summary["eval"]["loss"], 0.5 * spread)

    # --- bits -----------------------------------------------------------------

    def test_whoever_computes_the_bits_are_the_same(self):
        jobs = {
            "census": self.job,
            "factors": [*self.info("csv:" + self.rated)[:2], "--model",
                        self.path("factors.toml"), "--optimizer", "adagrad"],
            "dlrm": [*self.info("csv:" + self.rated)[:2], "--model", "dlrm"],
        }
        for name, job in jobs.items():
            short = [*job, "--steps", "25"]
            expected = self.train(*short, "--strategy", "one_device")
            for layout, flags in LAYOUTS.items():
                with self.subTest(job=name, layout=layout):
                    summary = self.train(*short, *flags)
                    for key in ("weights_sha256", "state_sha256", "eval"):
                        self.assertEqual(summary[key], expected[key], key)

    def test_whoever_dies_the_bits_are_the_same(self):
        long = [*self.job, "--steps", "800"]
        expected = self.train(*long, "--strategy", "one_device")
        with Run(*long, *SERVED, "--processes", "--workers", "2", "--ps",
                 "2") as run:
            run.wait_for_step(20)
            run.kill("worker:1")
            run.wait_for_step(60)
            run.kill("ps:0")
            summary = run.finish()
        self.assertGreaterEqual(len(summary["recoveries"]), 2)
        for key in ("weights_sha256", "state_sha256", "eval"):
            self.assertEqual(summary[key], expected[key], key)

    # --- what is kept with weights --------------------------------------------

    def test_weights_say_what_columns_were(self):
        said = json.loads(metadata_of(self.saved)["columns"])
        by_name = {one["rule"].split(":")[0]: one for one in said["columns"]}
        self.assertEqual(by_name["income"]["values"], ["<=50K", ">50K"])
        self.assertEqual(set(by_name["country"]["values"]), set(COUNTRY))
        self.assertEqual(len(by_name["workclass"]["values"]), len(WORK))
        self.assertNotIn("note", by_name)

    def test_saved_weights_give_the_verdict_of_training(self):
        exported = self.path("exported.safetensors")
        self.assertEqual(self.troupe("checkpoint", "export", self.kept,
                                     "--out", exported).returncode, 0)
        for weights in (self.saved, self.kept, exported):
            for data in (self.proposed[:2], ["--data", "csv:" + self.census]):
                with self.subTest(weights=weights, data=data[1][-40:]):
                    found = self.evaluate(*data, weights=weights)
                    self.assertEqual(found["samples"], HELD_OUT)
                    self.assertEqual(found["eval"]["accuracy"],
                                     self.trained["eval"]["accuracy"])
                    self.assertEqual(found["eval"]["auc"],
                                     self.trained["eval"]["auc"])

    # Symptom: as many values, of which each had another's id, were taken for
    # the same: training began with what it had learnt of others.
    def test_weights_of_other_values_begin_no_training(self):
        renamed = [["Mexico" if x == "México" else x for x in row]
                   for row in self.people]
        other = self.write("renamed.csv", HEADER, renamed)
        words = ["--strategy", "one_device", "--steps", "2",
                 "--initial-weights", self.saved, "--checkpoint-dir"]
        self.train(*self.job, *words, self.path("alike"))
        job = [x.replace(self.census, other) for x in self.job]
        line = self.refused("train", *job, *words, self.path("unlike"))
        self.assertIn('its column "country" has other values', line)
        self.assertFalse(os.path.exists(self.path("unlike")))

    def test_other_files_may_have_unseen_values_and_other_columns(self):
        rows = list(people(7, 300))
        plain = self.write("plain_people.csv", HEADER, rows)
        found, _ = self.predict("--data", "csv:" + plain)
        right = sum(a == row[-1] for a, row in zip(found, rows, strict=True))
        self.assertGreater(right / len(rows), 0.75)
        # Another order, one column more, none of those that were ignored, and
        # no label: what nobody knows yet is to be predicted.
        order = ["gain", "country", "extra", "education", "hours", "age",
                 "hired", "workclass"]
        moved = [[dict(zip(HEADER, row)).get(name, "x") for name in order]
                 for row in rows]
        other = self.write("other.csv", order, moved)
        again, said = self.predict("--data", "csv:" + other)
        self.assertEqual(again, found)
        self.assertEqual(said, "samples 300\n")
        # Values that training had never seen are all one to it.
        answers = []
        for country in ("Atlantis", "Utopia"):
            for row in moved:
                row[1] = country
            answers.append(self.predict("--data", "csv:" + self.write(
                "unseen.csv", order, moved))[0])
        self.assertEqual(*answers)
        self.assertNotEqual(answers[0], [])

    def test_info_says_what_it_cannot_take_for_numbers(self):
        self.info("csv:" + self.write(
            "commas.csv", ["x", "z", "y"],
            [[f"{i},5", i, i % 2] for i in range(40)]))
        self.assertIn('\n\ncolumn "x": "0,5" is a text, and no number: write '
                      'numbers with a decimal point\n\n', self.shown)

    def test_labels_need_not_be_known_to_be_predicted(self):
        """A blank one, and a class that training never had, were refused."""
        rows = [list(row) for row in people(9, 40)]
        found, said = self.predict("--data", "csv:" + self.write(
            "known.csv", HEADER, rows))
        self.assertRegex(said, r"loss .*samples 40\n")
        for unknown in ("", "?", "never seen"):
            for changed in (rows[7:8], rows):
                with self.subTest(unknown=unknown, rows=len(changed)):
                    put = [[*row[:-1], unknown] if row in changed else row
                           for row in rows]
                    path = self.write("unknown.csv", HEADER, put)
                    again, said = self.predict("--data", "csv:" + path)
                    self.assertEqual(again, found)
                    self.assertEqual(said, "samples 40\n")
                    self.refused("evaluate", "--model", "wide_deep",
                                 "--checkpoint", self.saved, "--data",
                                 "csv:" + path)

    def test_a_label_that_nothing_is_known_of_is_refused(self):
        """predict ended by a signal: of no values it looked at the first."""
        plain = self.path("plain.safetensors")
        self.train("--data", "synthetic:digits?samples=64", "--model",
                   "mlp:784-10", "--steps", "1", "--save", plain)
        for name, rows in (("lacks.csv", [[1, 2], [2, 3]]),
                           ("blank.csv", [[1, 2, ""], [2, 3, ""]])):
            path = self.write(name, ["a", "b", "c"][:len(rows[0])], rows)
            for kind in ("label", "target"):
                with self.subTest(name=name, kind=kind):
                    self.assertIn("nothing is known of it", self.refused(
                        "predict", "--model", "mlp:2-2", "--checkpoint", plain,
                        "--out", self.path("none.txt"), "--data",
                        f"csv:{path}?columns=a:number,b:number,c:{kind}"))

    def test_what_does_not_fit_gets_one_line(self):
        rows = list(people(8, 20))
        narrow = self.write("narrow.csv", HEADER[1:],
                            (row[1:] for row in rows))
        self.assertRegex(self.refused(
            "predict", "--model", "wide_deep", "--checkpoint", self.saved,
            "--out", self.path("none.txt"), "--data", "csv:" + narrow),
            r"narrow\.csv:1: .*\"age\"")
        unlabelled = self.write("unlabelled.csv", HEADER[:-1],
                                (row[:-1] for row in rows))
        self.assertRegex(self.refused(
            "evaluate", "--model", "wide_deep", "--checkpoint", self.saved,
            "--data", "csv:" + unlabelled),
            r"unlabelled\.csv:1: .*\"income\", which is the label")
        rows[3][0] = "old"
        wrong = self.write("wrong.csv", HEADER, rows)
        self.assertRegex(self.refused(
            "predict", "--model", "wide_deep", "--checkpoint", self.saved,
            "--out", self.path("none.txt"), "--data", "csv:" + wrong),
            r"wrong\.csv:\d+: column \"age\" holds \"old\"")
        self.assertRegex(self.refused(
            "train", "--steps", "1", "--data",
            f"csv:{self.census}?columns=note:category:max_values=100,"
            "income:label"), r"census\.csv:\d+: .*\"note\" has more than 100")
        self.assertRegex(self.refused(
            "predict", "--model", "wide_deep", "--checkpoint", self.saved,
            "--out", self.path("none.txt"), "--data",
            f"csv:{self.census}?columns=age:number,income:label", status=2),
            r"columns= are others")


if __name__ == "__main__":
    unittest.main()
