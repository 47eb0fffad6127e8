"""One set of samples as NumPy, csv, JSON lines, TFRecord, tar, Parquet and in an
S3 store: one hash, whichever it is read from, held or streamed, by how many
workers, readers and threads, with kills of workers and readers, from a store
that fails and is slow. TROUPE_IN_FULL=1: all of 1 to 4 workers, 0 to 3 readers,
1 and 8 threads, from files and from the store, and 20 kills."""
# ctest: TIMEOUT 900 COST 60 PROCESSORS 1

import itertools
import json
import os
import random
import struct
import sys
import unittest

from cluster import ENDLESS, Run, wait_for
from object_server import Objects
from own_folder import OwnFolder
import pictures
from pictures import GREY, IN_FILES, ONE, SIDE
from stores_test import one_in_twenty

sys.path.append(os.environ.get("TROUPE_PYARROW_BESIDE", ""))
try:
    import pyarrow
    import pyarrow.parquet
except ImportError:
    pyarrow = None

FULL = "TROUPE_IN_FULL" in os.environ
SAMPLES = 240
JOB = [*pictures.JOB, "--virtual-ranks", "4"]
STEPS = 24
KILLS = 20 if FULL else 4
WORLDS = list(itertools.product((1, 2, 3, 4), (0, 1, 2, 3), (1, 8))) if FULL \
    else [(1, 0, 8), (2, 1, 1), (3, 2, 8), (4, 3, 1)]


def float32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def numbers_of(pixels):
    """What becomes of bytes: that many 255ths."""
    part = float32(1 / 255)
    return [float32(x * part) for x in pixels]


def world(workers, readers, threads):
    return ["--strategy", "parameter_server", "--in-process", "--ps", "1",
            "--workers", str(workers), "--threads-per-device", str(threads),
            *(["--readers", str(readers)] if readers else [])]


class DataBits(OwnFolder):
    def setUp(self):
        super().setUp()
        self.samples = pictures.drawn_samples(SAMPLES)
        self.rows = [(numbers_of(pixels), label)
                     for pixels, label in self.samples]
        self.environment = {"TROUPE_CACHE": self.path("cache")}
        self.records = pictures.thirds(pictures.pixel_records(self.samples))
        self.tar = pictures.archive(self.samples)
        self.table = "".join(",".join(f"{x:.9g}" for x in (*row, label)) + "\n"
                             for row, label in self.rows).encode()
        for name, data in {**self.records, "all.tar": self.tar,
                           "all.csv": self.table}.items():
            with open(self.path(name), "wb") as file:
                file.write(data)

    def hash_of(self, data, *flags, steps=STEPS, environment=None):
        with Run(*JOB, "--steps", str(steps), "--epochs", "0", "--quiet",
                 "--data", data, *flags,
                 environment={**self.environment, **(environment or {})}
                 ) as run:
            summary = run.finish()
            self.assertEqual(run.error(), "")
        return summary["weights_sha256"]

    def in_memory(self):
        def array(name, kind, shape, data):
            head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': " \
                   f"{shape}, }}".encode()
            head += b" " * (-(len(head) + 11) % 64) + b"\n"
            with open(self.path(name), "wb") as file:
                file.write(b"\x93NUMPY\x01\0" + struct.pack("<H", len(head))
                           + head + data)
        array("x.npy", "<f4", f"({SAMPLES}, {SIDE * SIDE})", b"".join(
            struct.pack(f"<{SIDE * SIDE}f", *row) for row, _ in self.rows))
        array("y.npy", "<i8", f"({SAMPLES},)", struct.pack(
            f"<{SAMPLES}q", *(label for _, label in self.rows)))
        return f"npy:{self.path('x.npy')}?labels={self.path('y.npy')}"

    def kinds(self):
        """{kind: specification} of what can be streamed, and of what is read
        whole."""
        with open(self.path("all.jsonl"), "w") as file:
            for row, label in self.rows:
                file.write(json.dumps({"x": row, "label": label}) + "\n")
        streamed = {"tfrecord": "tfrecord:" + self.path("part-*.tfrecord"),
                    "tar": "tar:" + self.path("all.tar") + GREY,
                    "jsonl": "jsonl:" + self.path("all.jsonl")}
        whole = {"csv": "csv:" + self.path("all.csv") + "?header=false"}
        if pyarrow:
            columns = {f"c{i}": pyarrow.array(
                [row[i] for row, _ in self.rows], pyarrow.float32())
                for i in range(SIDE * SIDE)}
            columns["label"] = [label for _, label in self.rows]
            pyarrow.parquet.write_table(pyarrow.table(columns),
                                        self.path("all.parquet"))
            whole["parquet"] = "parquet:" + self.path("all.parquet")
        return streamed, whole

    def store(self, **options):
        return Objects({"/bucket/" + name: data for name, data in
                        {**self.records, "all.tar": self.tar,
                         "all.csv": self.table}.items()}, s3=True, **options)

    def test_all_kinds_give_one_hash(self):
        expected = self.hash_of(self.in_memory(), *ONE)
        streamed, whole = self.kinds()
        for data in (*streamed.values(), *whole.values()):
            self.assertEqual(self.hash_of(data, *ONE), expected, data)
        for data in streamed.values():
            self.assertEqual(self.hash_of(data, *ONE, *IN_FILES), expected,
                             data)
        with self.store() as server:
            for data in ("tfrecord:s3://bucket/part-*.tfrecord",
                         "tar:s3://bucket/all.tar" + GREY,
                         "csv:s3://bucket/all.csv?header=false"):
                self.assertEqual(self.hash_of(
                    data, *ONE, *([] if data.startswith("csv") else IN_FILES),
                    environment=server.environment), expected, data)

    def test_whoever_reads_and_computes(self):
        expected = self.hash_of(self.in_memory(), *ONE)
        with self.store(faults=one_in_twenty(["503", "drop"])) as server:
            for number, (workers, readers, threads) in enumerate(WORLDS):
                for data in ("tfrecord:" + self.path("part-*.tfrecord"),
                             "tfrecord:s3://bucket/part-*.tfrecord"):
                    if not FULL and number % 2 != ("s3" in data):
                        continue
                    found = self.hash_of(
                        data, *world(workers, readers, threads), *IN_FILES,
                        environment=server.environment)
                    self.assertEqual(found, expected,
                                     (data, workers, readers, threads))
            if FULL:
                print(f"{2 * len(WORLDS)} runs, one hash; of "
                      f"{len(server.requests())} requests "
                      f"{len(server.struck)} failed or were slow")

    def test_kills_of_workers_and_readers_change_no_bit(self):
        draw = random.Random(4)
        with self.store(faults=one_in_twenty(["503", "drop"])) as server:
            environment = {**self.environment, **server.environment}
            killed = []
            with Run(*JOB, "--data", "tfrecord:s3://bucket/part-*.tfrecord",
                     *IN_FILES, "--data-cache", self.path("blocks") + ":20M",
                     "--strategy", "parameter_server", "--processes", "--ps",
                     "1", "--workers", "3", "--readers", "2", *ENDLESS,
                     environment=environment) as run:
                run.wait_for_step(5)
                for _ in range(KILLS):
                    role = draw.choice(["worker:0", "worker:1", "worker:2",
                                        "reader:0", "reader:1"])
                    old = run.kill(role)
                    killed.append(role)
                    wait_for(lambda: run.children().get(role)
                             not in (None, old), f"{role} is back")
                    run.wait_for_step(run.step() + 5)
                summary = run.end()
        undisturbed = self.hash_of(
            "tfrecord:" + self.path("part-*.tfrecord"), *ONE,
            steps=summary["steps"])
        self.assertEqual(summary["weights_sha256"], undisturbed, killed)
        if FULL:
            print(f"{KILLS} kills in {summary['steps']} steps: the hash of "
                  "an undisturbed run")


if __name__ == "__main__":
    unittest.main()
