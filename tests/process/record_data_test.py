"""Samples in files of records (TFRecord, tar, JSON lines, folders of images):
the same samples give the same weights from whichever kind of file, held in
memory or left in the files, in one file or several, whoever computes. What is
damaged is named with file and byte."""
# ctest: TIMEOUT 600

import gzip
import json
import os
import re
import shutil
import struct
import tempfile
import unittest

from cluster import Run
from object_server import Objects
import pictures
from pictures import GREY, IN_FILES, ONE, SIDE, seeds

SAMPLES = 180
JOB = [*pictures.JOB, "--virtual-ranks", "2"]
SHORT = ["--steps", "18", "--quiet"]


class RecordData(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.root)
        cls.samples = pictures.drawn_samples(SAMPLES)
        cls.pictures = [pictures.png(pixels) for pixels, _ in cls.samples]
        cls.pixel_records = pictures.pixel_records(cls.samples)
        cls.archive = pictures.archive(cls.samples)

    def setUp(self):
        self.folder = tempfile.mkdtemp(dir=self.root)
        self.environment = {"TROUPE_CACHE": os.path.join(self.folder, "cache")}

    def path(self, name):
        return os.path.join(self.folder, name)

    def put(self, name, data):
        with open(self.path(name), "wb") as file:
            file.write(data)
        return self.path(name)

    def train(self, data, *more):
        with Run(*JOB, *SHORT, "--data", data, *(more or ONE),
                 environment=self.environment) as run:
            summary = run.finish()
            self.assertEqual(run.error(), "")
        return summary["weights_sha256"]

    def refused(self, data, *more, status=1):
        with Run(*JOB, *SHORT, "--data", data, *(more or ONE),
                 environment=self.environment) as run:
            run.finish(status)
            line = run.error()
        self.assertRegex(line, r"\Atroupe: [^\n]+\n\Z")
        return line

    # --- writers --------------------------------------------------------------

    def number_records(self):
        return [seeds.example(label=[label], x=[float(v) for v in pixels])
                for pixels, label in self.samples]

    def picture_records(self):
        return [seeds.example(label=[label], image=picture)
                for picture, (_, label) in zip(self.pictures, self.samples)]

    def json_lines(self):
        return "".join(json.dumps({"x": list(pixels), "label": label}) + "\n"
                       for pixels, label in self.samples).encode()

    def npy(self):
        """As numpy.save writes them."""
        def array(kind, shape, data):
            head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': " \
                   f"{shape}, }}".encode()
            head += b" " * (-(len(head) + 11) % 64) + b"\n"
            return b"\x93NUMPY\x01\0" + struct.pack("<H", len(head)) + head \
                + data

        self.put("y.npy", array("<i8", f"({SAMPLES},)", struct.pack(
            f"<{SAMPLES}q", *(label for _, label in self.samples))))
        return self.put("x.npy", array(
            "<f4", f"({SAMPLES}, {SIDE * SIDE})",
            b"".join(struct.pack(f"<{SIDE * SIDE}f", *pixels)
                     for pixels, _ in self.samples)))

    # --- the tests ------------------------------------------------------------

    def test_numbers_are_the_same_from_every_kind_held_or_not(self):
        expected = self.train(f"npy:{self.npy()}?labels={self.path('y.npy')}")
        places = {
            "tfrecord": self.put("data.tfrecord",
                                 seeds.tfrecord(*self.number_records())),
            "jsonl": self.put("data.jsonl", self.json_lines())}
        for kind, place in places.items():
            with self.subTest(kind):
                self.assertEqual(self.train(f"{kind}:{place}"), expected)
                self.assertEqual(self.train(f"{kind}:{place}", *ONE,
                                            *IN_FILES), expected)
                # The index is there now: what lies where is not read again.
                self.assertEqual(self.train(f"{kind}:{place}", *ONE,
                                            *IN_FILES), expected)
        self.assertEqual(len(os.listdir(self.path("cache/index"))), 2)

    def test_pictures_are_the_same_from_every_kind_held_or_not(self):
        named = self.put("pixels.tfrecord",
                         seeds.tfrecord(*self.pixel_records))
        expected = self.train(f"tfrecord:{named}")
        for data in (
                "tfrecord:" + self.put("pictures.tfrecord", seeds.tfrecord(
                    *self.picture_records())) + GREY,
                "tar:" + self.put("pictures.tar", self.archive) + GREY):
            with self.subTest(data):
                self.assertEqual(self.train(data), expected)
                self.assertEqual(self.train(data, *ONE, *IN_FILES), expected)
        self.assertEqual(self.train("tfrecord:" + self.put(
            "pixels.tfrecord.gz",
            gzip.compress(seeds.tfrecord(*self.pixel_records)))), expected)

    def test_a_folder_of_images_holds_its_classes_in_order(self):
        ordered = sorted(zip(self.samples, self.pictures),
                         key=lambda x: x[0][1])
        for i, ((_, label), picture) in enumerate(ordered):
            os.makedirs(self.path(f"set/class{label}"), exist_ok=True)
            self.put(f"set/class{label}/{i:06}.png", picture)
        # Symptom: what an archive of macOS brings along was a class.
        os.makedirs(self.path("set/__MACOSX"))
        self.put("set/__MACOSX/._000000.png", b"of a Finder")
        expected = self.train("tfrecord:" + self.put(
            "ordered.tfrecord", seeds.tfrecord(*(
                seeds.example(label=[label], pixels=pixels)
                for (pixels, label), _ in ordered))))
        data = f"images:{self.path('set')}?channels=1"
        self.assertEqual(self.train(data), expected)
        self.assertEqual(self.train(data, *ONE, *IN_FILES), expected)

    def test_several_files_are_one_data_set(self):
        records = self.number_records()
        expected = self.train("tfrecord:" + self.put(
            "all.tfrecord", seeds.tfrecord(*records)))
        for name, data in pictures.thirds(records).items():
            self.put(name, data)
        self.put("list", b"# three of them\npart-0.tfrecord\n\n"
                 b"part-[12].tfrecord\n")
        for place in (self.path("part-*.tfrecord"), "@" + self.path("list")):
            with self.subTest(place):
                self.assertEqual(self.train("tfrecord:" + place), expected)
                self.assertEqual(self.train("tfrecord:" + place, *ONE,
                                            *IN_FILES), expected)
        self.assertIn("matches", self.refused(
            f"tfrecord:{self.path('none-*.tfrecord')}"))

    def test_blocks_that_are_read_at_once_have_the_same_samples(self):
        """From memory, sample by sample, and by stretches of several files."""
        records = self.number_records()
        mixed = "?shuffle=blocks&block=25&window=2"
        for name, data in pictures.thirds(records).items():
            self.put(name, data)
        data = "tfrecord:" + self.path("part-*.tfrecord")
        expected = self.train(data + mixed)
        self.assertNotEqual(self.train(data), expected)
        lines = "jsonl:" + self.put("data.jsonl", self.json_lines()) + mixed
        # A record has some 300 bytes, and a stretch some 25 of them.
        stretches = ["--data-memory", "40000"]
        for memory in (IN_FILES, stretches):
            for strategy in (ONE, ["--strategy", "parameter_server",
                                   "--in-process", "--workers", "2", "--ps",
                                   "1"],
                             [*ONE, "--threads-per-device", "3"]):
                with self.subTest(memory=memory, strategy=strategy):
                    self.assertEqual(self.train(data + mixed, *strategy,
                                                *memory), expected)
            self.assertEqual(self.train(lines, *ONE, *memory), expected)
        held_out = ["--eval-fraction", "0.2"]
        self.assertEqual(
            self.train(data + mixed, *ONE, *held_out),
            self.train(data + mixed, *ONE, *held_out, *stretches))
        # A store is asked once for a stretch, not for each of its samples.
        objects = {f"/b/{name}": data for name, data in
                   pictures.thirds(records).items()}
        asked = []
        for memory in (IN_FILES, stretches):
            with Objects(objects, s3=True) as server:
                self.environment.update(server.environment)
                self.assertEqual(self.train(
                    "tfrecord:s3://b/part-*.tfrecord" + mixed, *ONE, *memory),
                    expected)
                asked.append(len(server.requests()))
        self.assertLess(asked[1], asked[0] // 3)

    def test_whoever_computes_reads_the_same_samples(self):
        data = "tfrecord:" + self.put(
            "data.tfrecord", seeds.tfrecord(*self.number_records()))
        expected = self.train(data)
        for strategy in (["mirrored", "--devices", "cpu:2"],
                         ["parameter_server", "--workers", "2", "--ps", "2"],
                         ["multi_worker_mirrored", "--workers", "2"]):
            with self.subTest(strategy[0]):
                self.assertEqual(self.train(data, "--strategy", *strategy,
                                            *IN_FILES), expected)

    def test_augmented_images_are_the_same_whoever_decodes(self):
        data = "tar:" + self.put("pictures.tar", self.archive) + (
            "?channels=1&augment=random_resized_crop:8,flip,colour:0.3,"
            "normalise:0.5:0.25")
        expected = self.train(data)
        for strategy in (["one_device", "--threads-per-device", "4"],
                         ["mirrored", "--devices", "cpu:2"],
                         ["parameter_server", "--workers", "2", "--ps", "2"],
                         ["pipeline", "--stages", "2"],
                         *(["fully_sharded", "--shard", shard, "--workers",
                            "2"]
                           for shard in ("optimizer", "gradients",
                                         "parameters"))):
            with self.subTest(strategy):
                self.assertEqual(self.train(data, "--strategy", *strategy),
                                 expected)
        sliced = ["--virtual-slices", "2", "--strategy"]
        self.assertEqual(self.train(data, *sliced, "tensor"),
                         self.train(data, *sliced, "one_device"))
        plain = data.replace("random_resized_crop:8,flip,colour:0.3,", "")
        self.assertNotEqual(self.train(plain), expected)
        self.assertIn("unpack it", self.refused(
            "tar:" + self.put("p.tar.gz", gzip.compress(self.archive))
            + "?channels=1&augment=flip"))

    def test_what_is_damaged_is_named_with_file_and_byte(self):
        records = self.number_records()
        whole = seeds.tfrecord(*records)
        place = 4 * (len(whole) // SAMPLES) + 40  # within the fifth
        broken = whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1:]
        line = self.refused("tfrecord:" + self.put("broken.tfrecord", broken))
        self.assertRegex(line, r"broken\.tfrecord.*\d+")
        line = self.refused("tfrecord:" + self.put("short.tfrecord",
                                                   whole[:-9]))
        self.assertIn("short.tfrecord", line)
        line = self.refused("jsonl:" + self.put(
            "broken.jsonl", self.json_lines()[:-20]))
        self.assertIn("broken.jsonl", line)

    def test_a_file_that_changes_under_a_run_ends_it_in_one_line(self):
        """Its samples are read when they are computed."""
        whole = seeds.tfrecord(*self.number_records())
        place = self.put("data.tfrecord", whole)
        for strategy in (ONE, ["--strategy", "parameter_server", "--workers",
                               "2", "--ps", "1"]):
            with self.subTest(strategy[1]), Run(
                    *JOB, "--data", f"tfrecord:{place}", "--steps", "1000000",
                    *strategy, *IN_FILES, "--metrics-address", "127.0.0.1:0",
                    environment=self.environment) as run:
                run.wait_for_step(20)
                with open(place, "r+b") as file:
                    file.seek(len(whole) // 2)
                    file.write(b"\xff" * 4000)
                run.finish(1)
                self.assertRegex(run.error().splitlines()[-1],
                                 r"\Atroupe: .*data\.tfrecord")
            self.put("data.tfrecord", whole)

    # Symptom: the evaluator ended without a word, and the run waited for it.
    def test_held_out_samples_that_cannot_be_read_end_the_run_in_one_line(self):
        whole = seeds.tfrecord(*self.number_records())
        place = self.put("data.tfrecord", whole)
        held_out = self.put("held_out.tfrecord", whole)
        with Run(*JOB, "--data", f"tfrecord:{place}", "--eval-data",
                 f"tfrecord:{held_out}", "--steps", "1000000",
                 "--strategy", "parameter_server", "--workers", "1", "--ps",
                 "1", *IN_FILES, "--metrics-address", "127.0.0.1:0",
                 environment=self.environment) as run:
            run.wait_for_step(5)
            with open(held_out, "r+b") as file:
                file.seek(len(whole) // 2)
                file.write(b"\xff" * 4000)
            run.finish(1)
            self.assertRegex(run.error().splitlines()[-1],
                             r"\Atroupe: .*held_out\.tfrecord")

    # Symptom: roles of one process spent five restarts on it.
    def test_a_file_that_is_cut_short_is_read_twice_and_no_more(self):
        whole = seeds.tfrecord(*self.number_records())
        place = self.put("data.tfrecord", whole)
        for strategy in (ONE, ["--strategy", "parameter_server", "--workers",
                               "2", "--ps", "1", "--in-process"]):
            with self.subTest(strategy[1]), Run(
                    *JOB, "--data", f"tfrecord:{place}", "--steps", "1000000",
                    *strategy, *IN_FILES, "--metrics-address", "127.0.0.1:0",
                    environment=self.environment) as run:
                run.wait_for_step(20)
                os.truncate(place, len(whole) // 3)
                run.finish(1)
                self.assertRegex(
                    run.error().splitlines()[-1],
                    r"\Atroupe: worker:\d died \([^()]*data\.tfrecord: .*\), "
                    r"twice: it would read the same again\Z")
                restarts = re.findall(r"(?m)^(worker:\d) died .*: restart \d",
                                      run.output())
                self.assertGreater(len(restarts), 0)
                self.assertEqual(len(restarts), len(set(restarts)))
            self.put("data.tfrecord", whole)


if __name__ == "__main__":
    unittest.main()
