# ctest: TIMEOUT 1200
"""What a user gets wrong is answered with one line and the right status.

Status 2 for what flags, configuration and TF_CONFIG alone reveal, 1 for what
is found later; exactly one line on standard error, also with --quiet, nothing
on standard output with --quiet, and no file that was not there before. TROUPE
is the program under test.
"""

import gzip
import os
import re
import socket
import struct
import subprocess
import tempfile
import unittest
from pathlib import Path

DEADLINE_S = 60
PIXELS = 28 * 28
DIGITS = ["--data", "synthetic:digits?samples=256"]
SERVED = ["--strategy", "parameter_server"]


def images(count, rows=28, columns=28, magic=0x803, pixels=None):
    size = count * rows * columns if pixels is None else pixels
    return struct.pack(">IIII", magic, count, rows, columns) + bytes(size)


def labels(values, magic=0x801, count=None):
    count = len(values) if count is None else count
    return struct.pack(">II", magic, count) + bytes(values)


class UsageErrors(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.troupe = os.environ["TROUPE"]

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def mnist(self, name, images_bytes, labels_bytes, suffix=""):
        """Writes a training set and returns its data specification."""
        folder = self.folder / name
        folder.mkdir()
        for kind, content in (("images-idx3", images_bytes),
                              ("labels-idx1", labels_bytes)):
            path = folder / f"train-{kind}-ubyte{suffix}"
            path.write_bytes(content)
        return ["--data", f"mnist:{folder}"]

    def test_names_that_are_no_utf8_are_refused(self):
        # With processes files were written under other names, without a word.
        name = os.fsdecode(b"b\xff")
        told = r"b\?: has bytes that are not UTF-8 .*another name"
        for flag in ("save", "checkpoint-dir", "log-dir", "flight", "report",
                     "summary", "timeline", "journal", "initial-weights"):
            for way in (["--strategy", "one_device"], SERVED):
                self.check(["train", *DIGITS, *way, "--epochs", "1",
                            f"--{flag}", name], 2, rf"--{flag} {told}")
        self.check(["train", "--data", f"csv:{name}"], 2, rf"--data csv:{told}")
        self.check(["train", *DIGITS, f"--save={name}"], 2, rf"--save={told}")
        self.check(["checkpoint", "ls", name], 2, told)
        self.check(["launch", "-H", "localhost", "--", "train", *DIGITS,
                    "--save", name], 2, rf"--save {told}")

    def check(self, arguments, status, pattern, environment=None):
        """Runs the program twice, loud and quiet, and checks its answer."""
        before = self.listing()
        surroundings = dict(os.environ, **(environment or {}))
        if environment is None:
            surroundings.pop("TF_CONFIG", None)
        for quiet in ([], ["--quiet"]):
            # A flag without its value must stay the last word.
            cut = len(arguments) - arguments[-1].startswith("--")
            command = [self.troupe, *arguments[:cut], *quiet, *arguments[cut:]]
            with self.subTest(command=command[1:]):
                done = subprocess.run(
                    command, cwd=self.folder, env=surroundings,
                    stdin=subprocess.DEVNULL, capture_output=True, text=True,
                    timeout=DEADLINE_S, check=False)
                self.assertEqual(done.returncode, status, done.stderr)
                lines = done.stderr.splitlines()
                self.assertEqual(len(lines), 1, done.stderr)
                self.assertRegex(lines[0], r"^troupe: ")
                self.assertRegex(lines[0], re.compile(pattern, re.IGNORECASE))
                self.assertTrue(done.stderr.endswith("\n"))
                if quiet:
                    self.assertEqual(done.stdout, "")
                self.assertEqual(self.listing(), before)

    def listing(self):
        return sorted(str(path) for path in self.folder.rglob("*"))

    def check_table(self, rows):
        for arguments, status, pattern in rows:
            self.check(arguments, status, pattern)

    def test_words_that_do_not_exist_are_named_with_the_nearest(self):
        self.check_table([
            (["trian"], 2, r"unknown command trian.*troupe train"),
            (["train", *DIGITS, "--globalbatch", "8"], 2,
             r"unknown flag --globalbatch.*--global-batch"),
            (["train", *DIGITS, "--strategy", "miror"], 2,
             r"--strategy miror.*mirrored"),
            (["train", *DIGITS, "surprise"], 2, r"surprise"),
            (["train", *DIGITS, "--optimizer", "adma"], 2, r"adma.*adam"),
            (["train", *DIGITS, "--isa", "mmx"], 2, r"--isa mmx.*avx2"),
            (["train", *DIGITS, "--link", "udp"], 2, r"--link udp.*shm"),
            (["train", *DIGITS, "--link-encryption", "1"], 2,
             r"--link-encryption 1.*off"),
            (["train", *DIGITS, "--model", "mpl:784-10"], 2, r"mpl:784-10"),
            (["predict", *DIGITS, "--lr", "1"], 2, r"--lr is not a flag"),
        ])

    def test_launch_names_no_flag_that_was_not_typed(self):
        command = ["launch", "-H", "localhost:2", "--", "train", *DIGITS]
        self.check(command, 2, r"launch: the roles of --strategy mirrored share "
                   r"one process.*multi_worker_mirrored")
        self.check([*command, "--processes"], 2, r"--processes has no effect")
        self.check([*command, "--lr", "x"], 2, r"--lr x")

    def test_data_specifications_are_checked(self):
        self.check_table([
            (["train"], 2, r"needs --data"),
            (["train", "--data", "mnist"], 2, r"mnist"),
            (["train", "--data", "mnst:x"], 2, r"mnst"),
            (["train", "--data", "https://host/a.csv?sig=hush"], 2,
             r"data https://host/a\.csv: which kind.*csv:https://host/a\.csv$"),
            (["train", "--data", "synthetic:faces"], 2, r"faces"),
            (["train", "--data", "synthetic:digits?smples=5"], 2,
             r"unknown key.*smples"),
            (["train", "--data", "mnist:x?split=all"], 2, r"split.*all"),
            (["train", "--data", "csv:table.csv"], 1,
             r"table\.csv: cannot be opened"),
        ])

    def test_numbers_are_checked(self):
        self.check_table([
            (["train", *DIGITS, "--global-batch", "0"], 2, r"--global-batch 0"),
            (["train", *DIGITS, "--global-batch", "8x"], 2, r"8x"),
            (["train", *DIGITS, "--steps", "-3"], 2, r"--steps -3"),
            (["train", *DIGITS, "--steps", "99999999999999999999"], 2,
             r"--steps"),
            (["train", *DIGITS, "--lr", "nan"], 2, r"--lr nan"),
            (["train", *DIGITS, "--eval-fraction", "1"], 2,
             r"--eval-fraction 1"),
            (["train", *DIGITS, "--metrics-address", "9090"], 2,
             r"HOST:PORT"),
            (["train", *DIGITS, "--steps"], 2, r"--steps"),
        ])

    def test_counts_that_do_not_fit_name_the_flag_to_add(self):
        self.check_table([
            (["train", *DIGITS, *SERVED, "--workers", "5"], 2,
             r"--virtual-ranks 5"),
            (["train", *DIGITS, "--devices", "cpu:5"], 2,
             r"--virtual-ranks 5"),
            (["plan", *SERVED, "--workers", "9"], 2, r"--virtual-ranks 9"),
            (["train", *DIGITS, "--virtual-ranks", "65"], 2,
             r"--global-batch 65"),
            (["train", *DIGITS, "--epochs", "0"], 2, r"--steps"),
        ])

    def test_flags_that_exclude_each_other_are_refused(self):
        self.check_table([
            (["train", *DIGITS, *SERVED, "--sync", "--async"], 2,
             r"--(a?sync) and --(a?sync) exclude each other"),
            (["train", *DIGITS, *SERVED, "--processes", "--in-process"], 2,
             r"exclude each other"),
            (["train", *DIGITS, "--eval-data", "synthetic:digits?seed=1",
              "--eval-fraction", "0.1"], 2, r"exclude each other"),
            (["train", *DIGITS, "--async"], 2, r"--async"),
            (["train", *DIGITS, "--workers", "2"], 2, r"--workers"),
            (["train", *DIGITS, "--all-reduce", "ring"], 2,
             r"--all-reduce ring .*--reduction fast"),
            (["train", *DIGITS, "--all-reduce", "nccl"], 2,
             r"--all-reduce nccl needs a GPU of its own"),
            (["train", *DIGITS, "--compress", "fp16"], 2,
             r"--compress .*--reduction fast"),
            (["train", *DIGITS, "--compress", "zip"], 2, r"--compress zip"),
            (["train", *DIGITS, "--bucket-mb", "0"], 2, r"--bucket-mb 0"),
        ])

    def test_flags_that_would_do_nothing_are_refused(self):
        self.check_table([
            (["train", *DIGITS, "--slow-worker", "1:5"], 2,
             r"--slow-worker has no effect .*parameter_server"),
            (["train", *DIGITS, *SERVED, "--slow-worker", "7:2"], 2,
             r"--slow-worker 7:2: there are 2 workers"),
            (["train", *DIGITS, "--eval-every", "2"], 2,
             r"--eval-every has no effect .*--eval-fraction"),
            (["train", *DIGITS, "--link", "tcp"], 2, r"share a process"),
            (["train", *DIGITS, "--strategy", "one_device",
              "--link-encryption", "on"], 2, r"share a process"),
            (["train", *DIGITS, "--strategy", "one_device", "--bucket-mb",
              "2"], 2, r"reduces nothing"),
            (["train", "--data", "synthetic:clicks", "--model", "dlrm",
              *SERVED, "--tables", "dense", "--table-bytes", "9000"], 2,
             r"keeps all rows"),
            (["plan", "--precision", "bfloat16", "--isa", "avx2"], 2,
             r"--isa avx2"),
            (["plan", "--listen", "0.0.0.0:0", *SERVED], 2,
             r"address not local"),
            (["train", *DIGITS, "--lr", "1", "--lr", "2"], 2,
             r"--lr is given twice, as 1 and as 2"),
            (["train", *DIGITS, "--resume=fresh", "--resume"], 2,
             r"--resume is given twice"),
            (["train", *DIGITS, "--eval-fraction", "0.0001"], 2,
             r"--eval-fraction: of 256 samples"),
            (["train", *DIGITS, *SERVED, "--eval-fraction", "0.0001"], 2,
             r"--eval-fraction: of 256 samples"),
        ])

    def test_status_needs_the_address_of_a_run(self):
        for arguments, status, pattern in (
                ([], 2, r"troupe status 127\.0\.0\.1:9400"),
                (["127.0.0.1:1"], 1, r"metrics at 127\.0\.0\.1:1: "),
                (["http://127.0.0.1:1/metrics"], 1, r"at 127\.0\.0\.1:1: "),
                (["nowhere"], 2, r"HOST:PORT")):
            done = subprocess.run([self.troupe, "status", *arguments],
                                  capture_output=True, text=True,
                                  timeout=DEADLINE_S, check=False)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertRegex(done.stderr, rf"^troupe: .*{pattern}.*\n$")

    def test_what_is_not_built_yet_is_refused(self):
        for flag in ("--chaos",):
            self.check(["train", *DIGITS, flag, "1"], 2,
                       f"{flag} is not available yet")

    def test_devices_of_a_plugin_need_one(self):
        self.check(["train", *DIGITS, "--strategy", "tpu"], 2,
                   r"--devices pjrt:")
        self.check(["train", *DIGITS, "--devices", "pjrt:/nowhere.so"], 1,
                   r"/nowhere\.so: there is no such file")
        self.check(["train", *DIGITS, "--devices", f"pjrt:{self.troupe}"], 1,
                   r"pjrt:.*cannot be loaded")

    def test_a_configuration_file_is_checked_with_line_and_key(self):
        path = self.folder / "job.toml"
        for text, pattern in (("lr = 1.0\nglobal_bach = 8\n",
                               r"job\.toml:2: unknown key.*global-batch"),
                              ("lr = \"fast\"\n", r"job\.toml:1: lr"),
                              ("quiet = 1\n", r"job\.toml:1: quiet"),
                              ("lr = = 2\n", r"job\.toml:1: not valid TOML"),
                              ("chaos = \"x\"\n", r"job\.toml:1.*not avail")):
            path.write_text(text)
            self.check(["train", *DIGITS, "--config", "job.toml"], 2, pattern)
        path.unlink()
        self.check(["train", *DIGITS, "--config", "job.toml"], 1, r"job\.toml")

    def test_tf_config_is_checked(self):
        for text, pattern in (("{", r"TF_CONFIG: not valid JSON"),
                              ('{"cluster": {"worker": ["a"]}}',
                               r"TF_CONFIG: cluster\.worker\[0\]"),
                              ('{"cluster": {"workers": []}}',
                               r"TF_CONFIG: unknown key cluster\.workers")):
            for command in (["train", *DIGITS], ["role"]):
                self.check(command, 2, pattern, {"TF_CONFIG": text})
        self.check(["role"], 2, r"TF_CONFIG")
        self.check(["role", "worker:0"], 2, r"--coordinator")

    def test_missing_and_damaged_data_files_are_named(self):
        good = labels([1, 2, 3, 4])
        four = images(4)
        lying = {
            "short": (four[:-1], good),
            "long": (four + b"x", good),
            "count": (images(5, pixels=4 * PIXELS), good),
            "huge": (images(0xffffffff, 0xffffffff, 0xffffffff, pixels=8),
                     good),
            "zero": (images(4, rows=0), good),
            "magic": (images(4, magic=0x802), good),
            "header": (four[:7], good),
            "empty": (b"", good),
            "labels": (four, labels([1, 2, 3], count=4)),
            "fewer": (four, labels([1, 2, 3])),
            "range": (four, labels([1, 2, 3, 200])),
        }
        for name, (pictures, classes) in lying.items():
            data = self.mnist(name, pictures, classes)
            self.check(["train", *data], 1, rf"{name}/train-")
        packed = self.mnist("packed", gzip.compress(four)[:-6],
                            gzip.compress(good), ".gz")
        self.check(["train", *packed], 1, r"packed/train-")
        self.check(["train", "--data", "mnist:nowhere"], 1, r"nowhere")
        self.check(["train", *SERVED, "--data", "mnist:nowhere"], 1, r"nowhere")

    def test_samples_must_have_the_shape_of_the_model(self):
        self.check_table([
            (["train", *DIGITS, "--model", "mlp:100-10"], 1, r"784.*--model"),
            (["train", *DIGITS, "--model", "mlp:784-5"], 1, r"10.*--model"),
        ])

    def test_saved_weights_are_checked(self):
        predict = ["predict", *DIGITS, "--out", "p.txt", "--checkpoint"]
        self.check(["predict", *DIGITS, "--out", "p.txt"], 2, r"--checkpoint")
        self.check([*predict, "nowhere.st"], 1, r"nowhere\.st")
        (self.folder / "short.st").write_bytes(b"\x08")
        self.check([*predict, "short.st"], 1, r"short\.st")
        (self.folder / "lying.st").write_bytes(
            struct.pack("<Q", 1 << 60) + b"{}")
        self.check([*predict, "lying.st"], 1, r"lying\.st")
        (self.folder / "none.st").write_bytes(struct.pack("<Q", 2) + b"{}")
        self.check([*predict, "none.st"], 1, r"none\.st: does not say of which "
                   "model it is; add --model")
        self.check([*predict, "none.st", "--model", "mlp:784-10"], 1,
                   r"none\.st: tensor dense_0/weight")

    def test_an_output_that_has_no_place_is_found_before_the_work(self):
        self.check_table([
            (["train", *DIGITS, "--save", "nowhere/w.st"], 1, r"--save"),
            (["train", *DIGITS, "--summary", "."], 1, r"--summary"),
        ])

    def test_a_port_in_use_is_named(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            self.check(["train", *DIGITS, "--metrics-address", address], 1,
                       re.escape(address))
            self.check(["train", *DIGITS, *SERVED, "--metrics-address",
                        address], 1, re.escape(address))

    def test_a_public_address_needs_certificates(self):
        self.check_table([
            (["train", *DIGITS, *SERVED, "--listen", "0.0.0.0:0"], 2,
             r"0\.0\.0\.0:0: address not local without certificates"),
            (["train", *DIGITS, "--metrics-address", "0.0.0.0:0"], 2,
             r"--metrics-address 0\.0\.0\.0:0: address not local"),
            (["role", "ps:0", "--coordinator", "127.0.0.1:4", "--listen",
              "0.0.0.0:5"], 2, r"address not local without certificates"),
            (["role", "worker:0", "--coordinator", "10.1.2.3:4"], 2,
             r"address not local without certificates"),
        ])

    def test_a_device_that_is_not_there_is_named(self):
        self.check(["train", *DIGITS, "--devices", "cuda:99"], 1, r"cuda:99")


if __name__ == "__main__":
    unittest.main()
