"""--tensorboard of real runs: the file is a TFRecord file of tensorflow.Event,
read here by the format's own rules, and by TensorBoard itself where Python has
it (PyPI; TROUPE_PYTHON names another interpreter)."""
# ctest: TIMEOUT 120

import json
import os
import re
import shutil
import struct
import subprocess
import sys
import unittest

from cluster import ENDLESS, Run, troupe, wait_for
from own_folder import OwnFolder

JOB = ["--data", "synthetic:digits?samples=2000", "--model", "mlp:784-64-10",
       "--epochs", "2", "--eval-fraction", "0.2", "--lr", "0.01", "--seed", "7"]


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


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
        for event in events[2:]:
            for number, value in fields(event[5]):
                self.assertEqual(number, 1)
                value = dict(fields(value))
                tag = value[1].decode()
                if tag.startswith("_hparams_"):
                    sessions.append(value)
                else:
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

    def test_tensorboard_itself_reads_it(self):
        python = os.environ.get("TROUPE_PYTHON", sys.executable)
        if subprocess.run([python, "-c", "import tensorboard"], check=False,
                          capture_output=True).returncode != 0:
            self.skipTest("no tensorboard here")
        path, summary = self.events_of("--strategy", "one_device")
        done = subprocess.run([python, "-c", """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import *
found = EventAccumulator(sys.argv[1])
found.Reload()
print(json.dumps({"scalars": {tag: [[x.step, x.value]
                                    for x in found.Scalars(tag)]
                              for tag in found.Tags()["scalars"]},
                  "nodes": len(found.Graph().node),
                  "plugins": list(found.summary_metadata)}))
""", path], capture_output=True, text=True, timeout=100, check=True)
        found = json.loads(done.stdout.splitlines()[-1])
        self.assertEqual(found["scalars"]["loss"][-1][0], summary["steps"])
        self.assertGreater(found["nodes"], 3)
        self.assertIn("_hparams_/session_start_info", found["plugins"])

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
