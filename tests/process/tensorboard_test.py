"""--tensorboard of real runs: the file is a TFRecord file of tensorflow.Event,
read here by the format's own rules, and by TensorBoard itself where Python has
it (PyPI; TROUPE_PYTHON names another interpreter)."""
# ctest: TIMEOUT 240

import json
import math
import os
import re
import shutil
import struct
import subprocess
import sys
import unittest

from checksum import crc32c
from cluster import ENDLESS, Run, troupe, wait_for
from own_folder import OwnFolder

JOB = ["--data", "synthetic:digits?samples=2000", "--model", "mlp:784-64-10",
       "--epochs", "2", "--eval-fraction", "0.2", "--lr", "0.01", "--seed", "7"]


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff


def records(path):
    with open(path, "rb") as file:
        data = file.read()
    while data:
        length, check = struct.unpack("<QI", data[:12])
        assert check == masked(data[:8])
        record = data[12:12 + length]
        assert struct.unpack("<I", data[12 + length:16 + length])[0] \
            == masked(record)
        yield record
        data = data[16 + length:]


def fields(message):
    """Pairs of number and value, of a message in Protocol Buffers' format."""
    at = 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return value
    while at < len(message):
        key = number()
        if key & 7 == 0:
            yield key >> 3, number()
        elif key & 7 == 1:
            yield key >> 3, struct.unpack("<d", message[at:at + 8])[0]
            at += 8
        elif key & 7 == 2:
            length = number()
            yield key >> 3, message[at:at + length]
            at += length
        else:
            assert key & 7 == 5, key
            yield key >> 3, struct.unpack("<f", message[at:at + 4])[0]
            at += 4


class Histogram:
    def __init__(self, message):
        found = dict(fields(message))
        self.min, self.max, self.count, self.sum, self.squares = (
            found[i] for i in range(1, 6))
        self.ends, self.counts = (
            struct.unpack(f"<{len(found[i]) // 8}d", found[i]) for i in (6, 7))

    def shape(self):
        """What does not depend on the order of a sum."""
        return self.min, self.max, self.count, self.ends, self.counts


def histograms_in(path):
    """{tag: {step: Histogram}}"""
    out = {}
    for event in (dict(fields(x)) for x in records(path)):
        for _, value in fields(event.get(5, b"")):
            value = dict(fields(value))
            if 5 in value:
                steps = out.setdefault(value[1].decode(), {})
                assert event[2] not in steps, value[1]
                steps[event[2]] = Histogram(value[5])
    return out


def tensors_of(path):
    """{name: its values} of a file of weights."""
    with open(path, "rb") as file:
        length, = struct.unpack("<Q", file.read(8))
        head = json.loads(file.read(length))
        data = file.read()
    return {name: struct.unpack(
        f"<{(x['data_offsets'][1] - x['data_offsets'][0]) // 4}f",
        data[slice(*x["data_offsets"])])
        for name, x in head.items() if name != "__metadata__"}


class Tensorboard(OwnFolder):
    def events_of(self, *flags):
        """The file of a run, and its summary."""
        logs = self.path("events")
        with Run(*JOB, *flags, "--tensorboard", logs) as run:
            summary = run.finish()
        name, = os.listdir(logs)
        self.assertIn("tfevents", name)
        return os.path.join(logs, name), summary

    def check(self, path, summary, strategy):
        events = [dict(fields(x)) for x in records(path)]
        self.assertEqual(events[0][3], b"brain.Event:2")
        nodes = [dict(fields(x)) for n, x in fields(events[1][4]) if n == 1]
        kinds = [x[2] for x in nodes]
        self.assertEqual(kinds[0], b"samples")
        self.assertEqual(kinds.count(b"dense"), 2)
        names = {x[1] for x in nodes}
        for node in nodes[1:]:
            self.assertIn(node[3], names)  # of another node
        scalars = {}
        sessions = []
        start, = (x for x in events if 7 in x)
        self.assertEqual(dict(fields(start[7])), {1: 1})
        self.assertEqual(start[2], min(x[2] for x in events if 2 in x))
        for event in events[2:]:
            for number, value in fields(event.get(5, b"")):
                self.assertEqual(number, 1)
                value = dict(fields(value))
                tag = value[1].decode()
                if tag.startswith("_hparams_"):
                    sessions.append(value)
                elif 5 not in value:  # no histogram
                    scalars.setdefault(tag, []).append((event[2], value[2]))
        self.assertEqual(scalars["loss"][-1][0], summary["steps"])
        self.assertTrue(all(abs(x - 0.01) < 1e-8
                            for _, x in scalars["learning_rate"]))
        self.assertEqual([x for x, _ in scalars["evaluation/accuracy"]],
                         [summary["steps"] // 2, summary["steps"]])
        self.assertAlmostEqual(scalars["evaluation/accuracy"][-1][1],
                               summary["eval"]["accuracy"], 6)
        begin, end = ([dict(fields(dict(fields(dict(fields(x[9]))[1]))[2]))
                       for x in sessions])
        entries = dict(
            (lambda x: (x[1].decode(), dict(fields(x[2]))))(dict(fields(e)))
            for n, e in fields(begin[3]) if n == 1)
        self.assertEqual(entries["lr"], {2: 0.01})
        self.assertEqual(entries["strategy"], {3: strategy})
        self.assertEqual(dict(fields(end[4]))[1], 1)

    def test_a_run_in_one_process(self):
        path, summary = self.events_of("--strategy", "one_device")
        self.check(path, summary, b"one_device")

    def test_a_run_in_processes(self):
        path, summary = self.events_of(
            "--strategy", "parameter_server", "--workers", "2", "--ps", "1",
            "--processes")
        self.check(path, summary, b"parameter_server")

    def histograms_of(self, *flags):
        """With the weights at the end."""
        logs, weights = self.path("events"), self.path("w.safetensors")
        shutil.rmtree(logs, ignore_errors=True)
        with Run(*JOB[:2], "--seed", "7", *flags, "--tensorboard", logs,
                 "--save", weights) as run:
            run.finish()
        name, = os.listdir(logs)
        return histograms_in(os.path.join(logs, name)), tensors_of(weights)

    def check_histogram(self, found, values):
        self.assertEqual(found.count, len(values))
        self.assertEqual((found.min, found.max), (min(values), max(values)))
        self.assertAlmostEqual(found.sum, math.fsum(values), 6)
        self.assertAlmostEqual(found.squares,
                               math.fsum(x * x for x in values), 6)
        self.assertEqual(list(found.ends), sorted(set(found.ends)))
        begin = -math.inf
        for end, count in zip(found.ends, found.counts):
            # The end of one that is below 0 may be its own last value.
            self.assertEqual(count, sum(begin < x <= end if end < 0 else
                                        begin <= x < end for x in values))
            begin = end

    def test_histograms_are_those_of_weights_and_gradients(self):
        lr = 0.25
        found, weights = self.histograms_of(
            *JOB[2:4], "--strategy", "one_device", "--optimizer", "sgd", "--lr",
            str(lr), "--steps", "12", "--histogram-every", "1")
        self.assertEqual(sorted(found), sorted(
            f"{what}/{name}" for what in ("weights", "gradients")
            for name in weights))
        for name, values in weights.items():
            steps = found["weights/" + name]
            self.assertEqual(list(steps), list(range(1, 13)))
            self.check_histogram(steps[12], values)
            for step in range(2, 13):  # w' = w - lr * g
                self.assertAlmostEqual(
                    steps[step - 1].sum - steps[step].sum,
                    lr * found["gradients/" + name][step].sum, 4)

    def test_histograms_are_the_same_under_every_strategy(self):
        job = ["--model", "mlp:784-64-64-10", "--virtual-slices", "4",
               "--steps", "20", "--histogram-every", "8"]
        expected, _ = self.histograms_of("--strategy", "one_device", *job)
        self.assertEqual({tuple(x) for x in expected.values()}, {(8, 16, 20)})
        for flags in (
                ["mirrored", "--devices", "cpu:2"],
                ["mirrored", "--devices", "cpu:2", "--clip-norm", "1000"],
                ["central_storage", "--devices", "cpu:2"],
                ["multi_worker_mirrored", "--workers", "2"],
                ["parameter_server", "--workers", "2", "--ps", "2", "--chain",
                 "2", "--partitioner", "max_size:65536"],
                ["fully_sharded", "--workers", "2"],
                ["pipeline", "--stages", "2", "--processes"],
                ["tensor", "--tensor", "2", "--processes"],
                ["hybrid", "--mesh", "data=2,stage=2"]):
            with self.subTest(flags=flags):
                found, _ = self.histograms_of("--strategy", *flags, *job)
                self.assertEqual({(tag, step): x.shape()
                                  for tag, steps in found.items()
                                  for step, x in steps.items()},
                                 {(tag, step): x.shape()
                                  for tag, steps in expected.items()
                                  for step, x in steps.items()})

    def test_of_tables_that_are_sparse_there_are_none(self):
        logs = self.path("events")
        with Run("--data", "synthetic:clicks?samples=2000&buckets=100",
                 "--model", "dlrm", "--optimizer", "adagrad", "--strategy",
                 "parameter_server", "--workers", "2", "--ps", "1", "--steps",
                 "10", "--async", "--histogram-every", "5", "--tensorboard",
                 logs) as run:
            run.finish()
        name, = os.listdir(logs)
        found = histograms_in(os.path.join(logs, name))
        self.assertTrue(found)
        self.assertFalse([x for x in found if "embedding" in x or "table" in x],
                         list(found))

    def test_none_are_written_where_none_are_wished(self):
        found, _ = self.histograms_of(*JOB[2:4], "--strategy", "one_device",
                                      "--steps", "5", "--histogram-every", "0")
        self.assertEqual(found, {})
        self.assertRegex(troupe("train", *JOB, "--histogram-every", "5",
                                status=2),
                         r"^troupe: --histogram-every.*--tensorboard DIR.*\n$")

    def read_by_tensorboard(self, path):
        """None where Python has none."""
        python = os.environ.get("TROUPE_PYTHON", sys.executable)
        if subprocess.run([python, "-c", "import tensorboard"], check=False,
                          capture_output=True).returncode != 0:
            return None
        done = subprocess.run([python, "-c", """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import *
found = EventAccumulator(sys.argv[1])
found.Reload()
print(json.dumps({"scalars": {tag: [[x.step, x.value]
                                    for x in found.Scalars(tag)]
                              for tag in found.Tags()["scalars"]},
                  "histograms": {tag: [[x.step, x.histogram_value.num,
                                        sum(x.histogram_value.bucket)]
                                       for x in found.Histograms(tag)]
                                 for tag in found.Tags()["histograms"]},
                  "nodes": len(found.Graph().node),
                  "plugins": list(found.summary_metadata)}))
""", path], capture_output=True, text=True, timeout=100, check=True)
        return json.loads(done.stdout.splitlines()[-1])

    def test_tensorboard_itself_reads_it(self):
        path, summary = self.events_of("--strategy", "one_device")
        found = self.read_by_tensorboard(path)
        if not found:
            self.skipTest("no tensorboard here")
        self.assertEqual(found["scalars"]["loss"][-1][0], summary["steps"])
        self.assertGreater(found["nodes"], 3)
        self.assertEqual(found["histograms"]["gradients/dense_0/weight"],
                         [[summary["steps"], 784 * 64, 784 * 64]])
        self.assertIn("_hparams_/session_start_info", found["plugins"])

    # TensorBoard drew the steps since the checkpoint twice.
    def test_of_a_run_that_goes_on_no_step_is_shown_twice(self):
        logs = self.path("events")
        flags = [*JOB[:4], "--seed", "7", "--epochs", "0", "--strategy",
                 "one_device", "--log-every", "1", "--tensorboard", logs,
                 "--checkpoint-dir", self.path("kept"), "--checkpoint-every",
                 "20"]
        with Run(*flags, "--steps", "1000000") as run:
            run.wait_for_step(50)
            run.process.kill()
            run.process.wait()
        with Run(*flags, "--steps", "200", "--resume") as run:
            run.finish()
        steps = []
        for name in sorted(os.listdir(logs)):
            for event in (dict(fields(x))
                          for x in records(os.path.join(logs, name))):
                if 7 in event:
                    steps = [x for x in steps if x < event[2]]
                for _, value in fields(event.get(5, b"")):
                    if dict(fields(value))[1] == b"loss":
                        steps.append(event[2])
        self.assertEqual(len(os.listdir(logs)), 2)
        self.assertEqual(steps, sorted(set(steps)))
        self.assertEqual(steps[-1], 200)
        shown = self.read_by_tensorboard(logs)
        if shown:
            self.assertEqual([x for x, _ in shown["scalars"]["loss"]], steps)

    # It was silent: what is removed can be written to.
    def test_a_folder_that_is_removed_is_said_once_and_the_run_goes_on(self):
        logs = self.path("events")
        with Run(*JOB[:4], *ENDLESS, "--log-every", "1", "--strategy",
                 "one_device", "--tensorboard", logs) as run:
            run.wait_for_step(5)
            shutil.rmtree(logs)
            wait_for(lambda: "was removed" in run.output() + run.error(),
                     "a line")
            run.end(50)
            said = re.findall(r"(?m)^.*tensorboard .*$",
                              run.output() + run.error())
            self.assertEqual(len(said), 1, said)
            self.assertRegex(said[0], rf"tensorboard {logs}/\S+: was removed; "
                             "the run goes on without it")
        self.assertFalse(os.path.exists(logs))

    def test_a_place_that_cannot_be_written(self):
        error = troupe("train", *JOB, "--tensorboard", "/dev/null/x", status=1)
        self.assertRegex(error, r"^troupe: --tensorboard .*\n$")


if __name__ == "__main__":
    unittest.main()
