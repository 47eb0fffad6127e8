"""Parquet files: the bits of a CSV file of the same rows, wherever they lie and
however they were packed; what is wrong gets one line. Without Apache Arrow,
which a build need not have, that is said."""
# ctest: TIMEOUT 600

import csv
import datetime
import decimal
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import unittest

from cluster import TROUPE, Run
from object_server import Objects
from own_folder import OwnFolder, run_tests
from pictures import seeds
from table_data_test import HEADER, people

MODULE = os.path.join(os.path.dirname(TROUPE), "troupe_parquet.so")
sys.path.append(os.environ.get("TROUPE_PYARROW_BESIDE", ""))
try:
    import pyarrow
    from pyarrow import parquet
except ImportError:
    pyarrow = None

# The ways of packing columns that files have.
PACKINGS = [
    {"compression": "snappy", "data_page_version": "1.0"},
    {"compression": "zstd", "data_page_version": "2.0",
     "use_dictionary": False},
    {"compression": "gzip", "version": "2.6", "column_encoding": {
        "age": "DELTA_BINARY_PACKED", "gain": "DELTA_BINARY_PACKED"},
     "use_dictionary": False, "write_page_checksum": True},
    {"compression": "none", "data_page_size": 512},
]


def troupe(*arguments, program=TROUPE, environment=None):
    return subprocess.run([program, *arguments], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60,
                          check=False, env={**os.environ,
                                            **(environment or {})})


def train(*arguments, **more):
    with Run(*arguments, "--quiet", **more) as run:
        summary = run.finish()
        assert run.error() == "", run.error()
        return summary


class WithoutArrow(OwnFolder):
    """A copy of the program, as `launch` and packages make it."""

    def setUp(self):
        super().setUp()
        self.program = self.path("troupe")
        shutil.copy(TROUPE, self.program)

    def table(self):
        path = self.path("a.parquet")
        parquet.write_table(pyarrow.table({
            "x": [0.5 * i for i in range(40)],
            "y": [i % 2 for i in range(40)]}), path)
        return "parquet:" + path

    @unittest.skipIf(os.path.exists(MODULE), "Parquet is built")
    def test_a_program_without_the_module_says_how_to_get_it(self):
        file = self.path("a.parquet")
        with open(file, "wb") as out:
            out.write(b"PAR1")
        for words in (["data", "info", "parquet:" + file],
                      ["train", "--data", "parquet:" + file, "--steps", "1"]):
            done = troupe(*words, program=self.program)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertRegex(done.stderr, r"\Atroupe: [^\n]*a\.parquet: is "
                             r"read by Apache Arrow, which this troupe was "
                             r"built without; [^\n]*pyarrow[^\n]*\n\Z")

    @unittest.skipUnless(pyarrow and os.path.exists(MODULE), "no Parquet here")
    def test_the_module_goes_where_the_program_goes(self):
        done = troupe("data", "info", self.table(), program=self.program)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("40 samples, 2 columns", done.stdout)

    @unittest.skipUnless(pyarrow and os.path.exists(MODULE)
                         and shutil.which("patchelf"),
                         "no Parquet here, or no patchelf")
    def test_arrow_is_found_where_its_folder_is_named(self):
        table = self.table()
        module = self.path("troupe_parquet.so")
        shutil.copy(MODULE, module)
        subprocess.run(["patchelf", "--remove-rpath", module], check=True)
        elsewhere = {"HOME": self.folder, "VIRTUAL_ENV": self.folder}
        done = troupe("data", "info", table, program=self.program,
                      environment=elsewhere)
        self.assertEqual(done.returncode, 1)
        version = pyarrow.__version__.split(".")[0]
        self.assertRegex(
            done.stderr, r"\Atroupe: [^\n]*a\.parquet: is read by Apache "
            r"Arrow, which cannot be loaded here \([^\n]*\.so\.[^\n]*\); "
            rf"install it \(python3 -m pip install pyarrow=={version}\.\*\), "
            r"[^\n]*TROUPE_PYARROW\n\Z")
        for name, place in (
                ("TROUPE_PYARROW", os.path.dirname(pyarrow.__file__)),
                ("VIRTUAL_ENV", self.folder)):
            if name == "VIRTUAL_ENV":
                os.makedirs(self.path("lib/python3.99/site-packages"))
                os.symlink(os.path.dirname(pyarrow.__file__), self.path(
                    "lib/python3.99/site-packages/pyarrow"))
            done = troupe("data", "info", table, program=self.program,
                          environment={**elsewhere, name: place})
            self.assertEqual((done.returncode, done.stderr), (0, ""))


@unittest.skipUnless(pyarrow and os.path.exists(MODULE),
                     "pyarrow and the module that reads Parquet are not here")
class Parquet(OwnFolder):
    def write(self, name, columns, **how):
        path = self.path(name)
        parquet.write_table(pyarrow.table(columns), path, **how)
        return path

    def refused(self, *arguments, **more):
        done = troupe(*arguments, **more)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, r"\Atroupe: [^\n]+\n\Z")
        return done.stderr

    @staticmethod
    def proposal(spec, environment=None):
        done = troupe("data", "info", spec, environment=environment)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        return shlex.split(done.stdout.splitlines()[-1]), done.stdout

    def census(self):
        """The people of the tables' test as text, and in four files whose
        columns have types; one lies in the folder "p" alone."""
        rows = list(people(1, 2400))
        for row in rows:  # "?" is a gap where there are types
            row[:] = ["" if x == "?" else x for x in row]
        text = self.path("census.csv")
        with open(text, "w", newline="") as file:
            csv.writer(file).writerows([HEADER, *rows])

        def typed(values, name):
            values = [None if x == "" else x for x in values]
            if name == "age":
                return pyarrow.array(values, pyarrow.int8())
            if name == "hours":
                return pyarrow.array([x if x is None else float(x)
                                      for x in values], pyarrow.float32())
            if name == "hired":
                return pyarrow.array([x if x is None
                                      else datetime.date.fromisoformat(x)
                                      for x in values])
            made = pyarrow.array(values)
            return made.dictionary_encode() if name == "workclass" else made

        os.mkdir(self.path("p"))
        for k, how in enumerate(PACKINGS):
            part = rows[600 * k:600 * (k + 1)]
            columns = {name: typed([row[i] for row in part], name)
                       for i, name in enumerate(HEADER)}
            if k % 2:  # columns are found by name
                columns = dict(reversed(columns.items()))
            self.write(f"p/{k}.parquet", columns, row_group_size=170, **how)
        return "csv:" + text, "parquet:" + self.path("p", "*.parquet")

    def test_the_bits_are_those_of_text(self):
        text, packed = self.census()
        expected, said = self.proposal(text)
        # Another order of columns is another proposal.
        first = "parquet:" + self.path("p", "0.parquet")
        proposed, _ = self.proposal(first)
        self.assertEqual(proposed[1].split("?")[1], expected[1].split("?")[1])
        self.assertIn("2400 samples, 9 columns", said)
        job = ["--model", "wide_deep", "--eval-fraction", "0.15", "--seed",
               "3", "--lr", "0.003", "--steps", "40"]
        saved = self.path("census.safetensors")
        by_text = train(*expected[:2], *job, "--strategy", "one_device",
                        "--save", saved)
        rules = expected[1].split("?")[1]
        data = ["--data", f"{packed}?{rules}"]
        for layout in (["--strategy", "one_device"],
                       ["--strategy", "parameter_server", "--processes",
                        "--workers", "2", "--ps", "1"]):
            found = train(*data, *job, *layout)
            for key in ("weights_sha256", "state_sha256", "eval"):
                self.assertEqual(found[key], by_text[key], (layout, key))
        # What one kind has taught is asked of the other.
        answers = []
        other = self.path("other.csv")  # none of which training has seen
        shutil.copy(text.removeprefix("csv:"), other)
        for spec in ("csv:" + other, packed):
            out = self.path("answers.txt")
            done = troupe("predict", "--checkpoint", saved, "--out", out,
                          "--model", "wide_deep", "--data", spec)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            with open(out) as file:
                answers.append(file.read())
        self.assertEqual(answers[0].count("\n"), 2400)
        self.assertEqual(*answers)

    def test_numbers_without_rules_are_those_of_text(self):
        draw = random.Random(5)
        count = 900
        columns = {
            "a": pyarrow.array([draw.gauss(0, 1) for _ in range(count)]),
            "b": pyarrow.array([draw.gauss(0, 100) for _ in range(count)],
                               pyarrow.float32()),
            "c": pyarrow.array([draw.getrandbits(62) for _ in range(count)]),
            "d": pyarrow.array([draw.randrange(200) for _ in range(count)],
                               pyarrow.uint8()),
            "e": pyarrow.array([decimal.Decimal(draw.randrange(-999, 999))
                                / 100 for _ in range(count)],
                               pyarrow.decimal128(12, 2)),
            "y": pyarrow.array([draw.randrange(3) for _ in range(count)],
                               pyarrow.int16())}
        path = self.write("n.parquet", columns, row_group_size=250)
        text = self.path("n.csv")
        with open(text, "w") as file:
            file.write(",".join(columns) + "\n")
            for row in zip(*(x.to_pylist() for x in columns.values())):
                file.write(",".join(map(str, row)) + "\n")
        for keys, model in (("", "mlp:5-8-3"),
                            ("&label=d&task=regression", "mlp:5-8-1")):
            found = [train("--data", spec + "?scale=standard" + keys,
                           "--model", model, "--steps", "20", "--strategy",
                           "one_device")
                     for spec in ("csv:" + text, "parquet:" + path)]
            self.assertEqual(found[0]["weights_sha256"],
                             found[1]["weights_sha256"], keys)

    def test_columns_of_all_types_have_their_text(self):
        moment = datetime.datetime(2024, 2, 29, 13, 45, 7, 500000)
        zone = datetime.timezone(datetime.timedelta(hours=2))
        path = self.write("t.parquet", {
            "when": pyarrow.array([None if i % 3 == 1 else moment.replace(
                year=2024 - i % 4 * 4) for i in range(60)]),
            "there": pyarrow.array([moment.replace(tzinfo=zone)] * 60,
                                   pyarrow.timestamp("ms", "UTC")),
            "at": pyarrow.array([datetime.time(1, 2, 3)] * 60),
            "yes": pyarrow.array([True, False, None] * 20),
            "list": pyarrow.array([[1, 2]] * 60),
            "void": pyarrow.nulls(60),
            "y": pyarrow.array(["no", "yes"] * 30)})
        _, shown = self.proposal("parquet:" + path)
        for name, words in (("when", r"date\S* +20 .* 2024-02-29 13:45:07\.5\b"),
                            ("there", r"\S+ +0 .* 2024-02-29 11:45:07\.5Z"),
                            ("at", r"\S+ +0 .* 01:02:03"),
                            ("yes", r"category +20 .*true"),
                            ("list", r"ignore +60 "),
                            ("void", r"ignore +60 ")):
            self.assertRegex(shown, rf"(?m)^{name} +{words}", name)

    def test_it_is_read_from_a_server(self):
        _, packed = self.census()
        rules = self.proposal("parquet:" + self.path("p", "0.parquet"))[0][1]
        rules = rules.split("?")[1]
        job = ["--model", "wide_deep", "--steps", "10", "--strategy",
               "one_device"]
        expected = train("--data", f"{packed}?{rules}", *job)
        objects = {}
        for name in os.listdir(self.path("p")):
            with open(self.path("p", name), "rb") as file:
                objects["/bucket/p/" + name] = file.read()
        faults = lambda number, path: "500" if number % 5 == 4 else None
        with Objects(objects, s3=True, page=1000, faults=faults) as server:
            found = train("--data", f"parquet:s3://bucket/p/*.parquet?{rules}",
                          *job, environment=server.environment)
            self.assertGreater(len(server.struck), 0)
        self.assertEqual(found["weights_sha256"], expected["weights_sha256"])

    # --- more than memory holds -------------------------------------------------

    def numbers(self, count=1500):
        """The same numbers as text, records and row groups of two files."""
        draw = random.Random(9)
        rows = [[round(draw.gauss(i % 3, 1), 4) for _ in range(4)] + [i % 3]
                for i in range(count)]
        names = ["a", "b", "c", "d", "y"]
        with open(self.path("n.csv"), "w", newline="") as file:
            csv.writer(file).writerows([names, *rows])
        with open(self.path("n.tfrecord"), "wb") as file:
            file.write(seeds.tfrecord(*(
                seeds.example(label=[row[4]], x=row[:4]) for row in rows)))
        os.mkdir(self.path("n"))
        for k, part in enumerate((rows[:1100], rows[1100:])):
            self.write(f"n/{k}.parquet", dict(zip(names, map(
                list, zip(*part)))), row_group_size=64)
        return "parquet:" + self.path("n", "*.parquet")

    NUMBERS = ["--model", "mlp:4-8-3", "--epochs", "3", "--seed", "4",
               "--global-batch", "50", "--virtual-ranks", "2"]
    ONE = ["--strategy", "one_device"]
    WORLDS = [["--strategy", "parameter_server", "--in-process", "--workers",
               "2", "--ps", "1"],
              ["--strategy", "parameter_server", "--processes", "--workers",
               "2", "--ps", "1", "--readers", "1"],
              ["--strategy", "mirrored", "--devices", "cpu:2"],
              [*ONE, "--threads-per-device", "3"]]
    # Row groups of 64 rows of 20 bytes: a window of two blocks reaches into
    # six of them. Labels take 6000.
    LITTLE = ["--data-memory", "15000"]
    BLOCKS = "?shuffle=blocks&block=100&window=2"

    def test_row_groups_that_are_read_when_wanted_have_the_bits_of_memory(self):
        packed = self.numbers() + self.BLOCKS
        kept = {"environment": {"TROUPE_CACHE": self.path("cache")}}
        expected = train("--data", "csv:" + self.path("n.csv") + self.BLOCKS,
                         *self.NUMBERS, *self.ONE)["weights_sha256"]
        self.assertNotEqual(expected, train(
            "--data", "csv:" + self.path("n.csv"), *self.NUMBERS, *self.ONE)
            ["weights_sha256"])
        for spec in ("tfrecord:" + self.path("n.tfrecord") + self.BLOCKS,
                     packed):
            self.assertEqual(train("--data", spec, *self.NUMBERS, *self.ONE)
                             ["weights_sha256"], expected, spec)
        for world in [self.ONE, *self.WORLDS]:
            found = train("--data", packed, *self.NUMBERS, *world,
                          *self.LITTLE, **kept)
            self.assertEqual(found["weights_sha256"], expected, world)
        # Indexes, 17600 bytes of the larger file, are made where there is room
        # for them; from then on they have the labels.
        self.assertFalse(os.path.exists(self.path("cache", "index")))
        for memory in ("25000", *self.LITTLE[1:]):
            found = train("--data", packed, *self.NUMBERS, *self.ONE,
                          "--data-memory", memory, **kept)
            self.assertEqual(found["weights_sha256"], expected, memory)
            self.assertEqual(len(os.listdir(self.path("cache", "index"))), 2)

    def test_rows_whose_labels_cannot_be_held_are_refused_by_their_number(self):
        # Symptom: the labels of all were read first. More than 32 bits count.
        zeros = pyarrow.Array.from_buffers(
            pyarrow.int8(), 2**24, [None, pyarrow.py_buffer(bytes(2**24))])
        self.write("some.parquet", {"x": zeros, "y": zeros})
        os.mkdir(self.path("many"))
        for i in range(257):
            os.link(self.path("some.parquet"), self.path("many", f"{i}.parquet"))
        line = self.refused("train", "--data", "parquet:"
                            + self.path("many", "*.parquet")
                            + "?shuffle=blocks", "--data-memory",
                            "10000000000", "--model", "mlp:1-8-2", *self.ONE)
        self.assertIn(f"labels of {257 * 2**24} rows take {257 * 2**26} bytes, "
                      "and 10000000000 may be held; raise --data-memory", line)

    def test_tables_by_rules_are_left_in_their_files_too(self):
        text, packed = self.census()
        rules = self.proposal(text)[0][1].split("?")[1]
        self.assertIn("missing=median", rules)
        more = "&shuffle=blocks&block=120&window=2"
        # A row has 4 features and 2 to 4 ids; medians want some bytes, too.
        little = ["--data-memory", "60000"]
        job = ["--model", "wide_deep", "--seed", "3", "--lr", "0.003",
               "--epochs", "2"]
        for held_out in ("", "&eval=tail"):
            flags = [*job, "--eval-fraction", "0.15"]
            expected = train("--data", f"{text}?{rules}{more}{held_out}",
                             *flags, *self.ONE)
            for world in [self.ONE, self.WORLDS[0]]:
                found = train("--data", f"{packed}?{rules}{more}{held_out}",
                              *flags, *world, *little)
                for key in ("weights_sha256", "eval"):
                    self.assertEqual(found[key], expected[key],
                                     (held_out, world))
        # Who reads once, in order, needs no blocks.
        saved = self.path("census.safetensors")
        train("--data", f"{text}?{rules}", *job, *self.ONE, "--save", saved)
        answers = []
        for spec, limit in (("csv:" + shutil.copy(text[4:], self.path("o.csv")),
                             []), (packed, little)):
            out = self.path("answers.txt")
            done = troupe("predict", "--checkpoint", saved, "--out", out,
                          "--data", spec, *limit)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            with open(out) as file:
                answers.append(file.read())
        self.assertEqual(*answers)

    def test_what_cannot_be_left_in_its_files_is_one_line(self):
        packed = self.numbers()
        for data, memory, why in (
                (packed, "9000", "add shuffle=blocks"),
                (packed + self.BLOCKS, "5000", "labels of 1500 rows take 6000 "
                 "bytes, and 5000 may be held; raise --data-memory"),
                (packed + self.BLOCKS, "7000", "row group 0 takes about 1280 "
                 "bytes, and 1000 may be held beside the labels; write smaller "
                 "row groups"),
                (packed + self.BLOCKS, "11000", "2 blocks of 100 samples, which "
                 r"are mixed at a time, lie in row groups of up to \d+ bytes, "
                 "and 5000 may be held"),
                ("csv:" + self.path("n.csv") + self.BLOCKS, "9000",
                 "takes more than the 9000 bytes of --data-memory")):
            self.assertRegex(self.refused(
                "train", "--data", data, *self.NUMBERS, *self.ONE,
                "--data-memory", memory), why)
        for keys, why in (("?block=5", "block= goes with shuffle=blocks"),
                          ("?shuffle=blocks&window=0", "window=0"),
                          ("?shuffle=some", "all, blocks")):
            done = troupe("train", "--data", packed + keys, *self.NUMBERS)
            self.assertEqual(done.returncode, 2)
            self.assertIn(why, done.stderr)
        done = troupe("train", "--data", packed, "--eval-data",
                      packed + self.BLOCKS, *self.NUMBERS)
        self.assertIn("leave shuffle= out", done.stderr)

    def test_a_file_that_is_damaged_under_a_run_ends_it_with_a_line(self):
        packed = self.numbers() + self.BLOCKS
        with Run("--data", packed, *self.NUMBERS[:2], "--steps", "1000000",
                 *self.ONE, *self.LITTLE, "--metrics-address",
                 "127.0.0.1:0") as run:
            run.wait_for_step(50)
            os.truncate(self.path("n", "1.parquet"), 100)
            run.finish(1)
            self.assertRegex(run.error().splitlines()[-1],
                             r"\Atroupe: worker:0 died \(\S*1\.parquet: changed "
                             r"since .*, twice: ")

    def test_a_run_goes_on_with_the_same_blocks_alone(self):
        packed = self.numbers()
        flags = [*self.ONE, "--checkpoint-dir", self.path("kept"),
                 "--checkpoint-every", "20"]
        expected = train("--data", packed + self.BLOCKS, *self.NUMBERS,
                         *self.ONE)["weights_sha256"]
        train("--data", packed + self.BLOCKS, *self.NUMBERS, *flags, "--steps",
              "40")
        line = self.refused("train", "--data", packed, *self.NUMBERS, *flags,
                            "--resume")
        self.assertIn("data's shuffle all (blocks of 100, 2 at a time in the "
                      "checkpoint)", line)
        found = train("--data", packed + self.BLOCKS, *self.NUMBERS, *flags,
                      *self.LITTLE, "--resume")
        self.assertEqual(found["weights_sha256"], expected)

    # --- what is wrong ----------------------------------------------------------

    def test_what_is_wrong_is_one_line_with_the_row_group(self):
        count = 300
        columns = {"x": pyarrow.array([i * 0.5 for i in range(count)]),
                   "y": pyarrow.array([i % 2 for i in range(count)])}
        with_gap = {**columns, "x": pyarrow.array(
            [None if i == 217 else i * 0.5 for i in range(count)])}
        path = self.write("gap.parquet", with_gap, row_group_size=100)
        spec = "parquet:" + path
        job = ["--model", "mlp:1-4-2", "--steps", "1"]
        self.assertIn('gap.parquet: row group 2, row 18: column "x" holds ""',
                      self.refused("train", "--data", spec, *job))
        self.assertRegex(
            self.refused("train", "--data", spec + "?columns=x:number:"
                         "missing=refuse,y:label", *job),
            r'gap\.parquet: row group 2, row 18: column "x"')
        self.assertRegex(
            self.refused("train", "--data", spec + "?columns=z:number,y:label",
                         *job), r'gap\.parquet: has no column "z"')
        nested = self.write("nested.parquet", {
            **columns, "z": pyarrow.array([[i] for i in range(count)])})
        self.assertRegex(
            self.refused("train", "--data", "parquet:" + nested, *job),
            r'nested\.parquet: the column "z" holds lists')
        # What no rule names is not looked at.
        train("--data", f"parquet:{nested}?columns=x:number,y:label", *job)
        whole = self.write("packed.parquet", columns)
        os.rename(whole, whole + ".gz")
        self.assertIn("compressed as a whole", self.refused(
            "train", "--data", f"parquet:{whole}.gz", *job))
        done = troupe("train", "--data", whole, *job)
        self.assertEqual(done.returncode, 2)
        self.assertIn(f'did you mean "parquet:{whole}"?', done.stderr)

    # Whoever is run over damaged files ends by a line or not at all.
    def test_damaged_files_end_in_a_line(self):
        count = 400
        draw = random.Random(11)
        path = self.write("d.parquet", {
            "x": pyarrow.array([draw.gauss(0, 1) for _ in range(count)]),
            "k": pyarrow.array([draw.choice("abcd") for _ in range(count)]),
            "y": pyarrow.array([i % 2 for i in range(count)])},
            row_group_size=150, write_page_checksum=True)
        with open(path, "rb") as file:
            whole = file.read()
        other = self.path("e.parquet")
        lines = set()
        for trial in range(60):
            damaged = bytearray(whole)
            if trial % 4 == 0:
                del damaged[draw.randrange(len(damaged)):]
            else:
                # The end of the file says where all else is.
                first = 0 if trial % 4 == 1 else len(damaged) * 2 // 3
                for _ in range(3):
                    damaged[draw.randrange(first, len(damaged))] = (
                        draw.randrange(256))
            with open(other, "wb") as file:
                file.write(damaged)
            done = troupe("train", "--data",
                          f"parquet:{other}?columns=x:number,k:category,"
                          "y:label", "--model", "wide_deep", "--steps", "1",
                          "--strategy", "one_device", "--quiet")
            with self.subTest(trial=trial):
                self.assertIn(done.returncode, (0, 1), done.stderr)
                if done.returncode == 1:
                    self.assertRegex(done.stderr,
                                     r"\Atroupe: [^\n]*e\.parquet: [^\n]+\n\Z")
                    lines.add(re.sub(r"\d+", "N", done.stderr))
        self.assertGreater(len(lines), 3)
        self.assertTrue(any("row group" in line for line in lines), lines)


if __name__ == "__main__":
    run_tests()
