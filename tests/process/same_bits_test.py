"""The same seed gives the same weights and optimizer state, whatever computes
them (I3): workers, shards, devices, threads, partitioners, processes, under
each instruction set of this machine. Another seed or one step more does not."""
# ctest: TIMEOUT 1200

import hashlib
import json
import math
import os
import re
import struct
import tempfile
import unittest

from cluster import Run

# 1795 samples are left to train on: the last of the 29 steps of an epoch has
# three, so that one of the four virtual ranks gets none.
JOB = ["--data", "synthetic:digits?samples=1994", "--model", "mlp:784-48-10",
       "--eval-fraction", "0.1", "--global-batch", "64", "--virtual-ranks",
       "4", "--seed", "7"]
STEPS = 58
TWO_EPOCHS = ["--epochs", "2"]
ONE_DEVICE = ["--strategy", "one_device"]
MIRRORED = ["--strategy", "mirrored"]
SERVED = ["--strategy", "parameter_server", "--sync"]
WORKERS = ["--strategy", "multi_worker_mirrored"]
CENTRAL = ["--strategy", "central_storage"]
PROCESSES = [*SERVED, "--processes"]
IN_PROCESS = [*SERVED, "--in-process"]
DIGESTS = ("weights_sha256", "state_sha256")

LAYOUTS = [
    [*ONE_DEVICE],
    [*ONE_DEVICE, "--threads-per-device", "2"],
    [*ONE_DEVICE, "--threads-per-device", "8"],
    [*MIRRORED, "--devices", "cpu:1"],
    [*MIRRORED, "--devices", "cpu:2"],
    [*MIRRORED, "--devices", "cpu:3"],
    [*MIRRORED, "--devices", "cpu:4"],
    [*MIRRORED, "--devices", "cpu:2", "--threads-per-device", "2"],
    [*MIRRORED, "--devices", "cpu:3", "--threads-per-device", "8"],
    [*MIRRORED, "--devices", "cpu:4", "--bucket-mb", "0.01"],
    [*MIRRORED, "--devices", "cpu:3", "--all-reduce",
     "reduction_to_one_device"],
    [*CENTRAL, "--devices", "cpu:1"],
    [*CENTRAL, "--devices", "cpu:3"],
    [*CENTRAL, "--devices", "cpu:2", "--threads-per-device", "2"],
    [*WORKERS, "--workers", "3", "--in-process"],
    [*WORKERS, "--workers", "2"],
    [*WORKERS, "--workers", "3", "--link", "tcp"],
    [*WORKERS, "--workers", "4", "--link", "tcp", "--link-encryption", "on"],
    [*WORKERS, "--workers", "4", "--bucket-mb", "0.02"],
    [*WORKERS, "--workers", "2", "--devices", "cpu:2",
     "--threads-per-device", "2"],
    [*IN_PROCESS, "--workers", "1", "--ps", "1"],
    [*IN_PROCESS, "--workers", "2", "--ps", "2"],
    [*IN_PROCESS, "--workers", "3", "--ps", "3"],
    [*IN_PROCESS, "--workers", "4", "--ps", "1", "--threads-per-device", "8"],
    [*PROCESSES, "--workers", "1", "--ps", "3"],
    [*PROCESSES, "--workers", "2", "--ps", "1", "--threads-per-device", "1"],
    [*PROCESSES, "--workers", "3", "--ps", "2", "--threads-per-device", "2"],
    [*PROCESSES, "--workers", "4", "--ps", "3", "--threads-per-device", "8"],
]

# Cuts inside variables, and variables that share a shard.
PARTITIONERS = [
    [*strategy, "--ps", shards, "--partitioner", partitioner]
    for strategy, shards in ((IN_PROCESS, "3"), (PROCESSES, "2"))
    for partitioner in ("fixed:1", "fixed:3", "min_size:10000",
                        "min_size:65536:2", "max_size:4096",
                        "max_size:1048576")
]


def instruction_sets():
    """Those of the program that this machine has."""
    with open("/proc/cpuinfo") as file:
        flags = set(re.search(r"^flags\s*:(.*)$", file.read(),
                              re.MULTILINE).group(1).split())
    needs = {"sse4": {"sse4_1", "sse4_2"}, "avx2": {"avx2", "fma"},
             "avx512": {"avx512f", "avx512bw", "avx512dq", "avx512vl"}}
    return [name for name, needed in needs.items() if needed <= flags]


def train(*arguments):
    with Run(*JOB, *arguments) as run:
        return run.finish()


def digests(summary):
    return {name: summary[name] for name in DIGESTS}


def read_safetensors(path):
    """{name: (dtype, shape, bytes)}, each offset checked; no package."""
    with open(path, "rb") as file:
        data = file.read()
    size, = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + size])
    values = data[8 + size:]
    tensors, end = {}, 0
    header.pop("__metadata__", None)
    for name, entry in sorted(header.items(),
                              key=lambda item: item[1]["data_offsets"]):
        begin, stop = entry["data_offsets"]
        assert begin == end, f"{name}: a gap or an overlap at {begin}"
        assert stop - begin == 4 * math.prod(entry["shape"]), name
        tensors[name] = (entry["dtype"], entry["shape"], values[begin:stop])
        end = stop
    assert end == len(values), f"{len(values) - end} bytes belong to no tensor"
    return tensors


def weights_sha256(tensors):
    """As the contract of the command line defines it."""
    names = {"F32": "float32"}
    digest = hashlib.sha256()
    for name in sorted(tensors, key=str.encode):
        dtype, shape, values = tensors[name]
        digest.update(name.encode() + b"\0" + names[dtype].encode() + b"\0")
        digest.update(struct.pack(f"<{1 + len(shape)}Q", len(shape), *shape))
        digest.update(values)
    return digest.hexdigest()


class SameBits(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.expected = train(*TWO_EPOCHS, *ONE_DEVICE)

    def check_same(self, expected, arguments):
        with self.subTest(arguments=" ".join(arguments)):
            summary = train(*arguments)
            self.assertEqual(summary["steps"], expected["steps"])
            self.assertEqual(summary["virtual_ranks"], 4)
            self.assertEqual(digests(summary), digests(expected))
            self.assertEqual(summary["recoveries"], [])
            return summary
        return None

    def test_every_layout_gives_one_hash_under_each_instruction_set(self):
        names = instruction_sets()
        self.assertIn("sse4", names)
        for name in names:
            isa = ["--isa", name, *TWO_EPOCHS]
            expected = train(*isa, *ONE_DEVICE, "--threads-per-device", "1")
            self.assertEqual(expected["steps"], STEPS)
            for layout in LAYOUTS:
                summary = self.check_same(expected, [*isa, *layout])
                if summary:
                    self.assertEqual(summary["isa"], name)

    def test_auto_is_one_of_the_instruction_sets_by_name(self):
        self.assertIn(self.expected["isa"], instruction_sets())
        self.check_same(self.expected, [*TWO_EPOCHS, *ONE_DEVICE, "--isa",
                                        self.expected["isa"]])

    def test_every_partitioner_gives_the_same_hash(self):
        for arguments in PARTITIONERS:
            self.check_same(self.expected, [*TWO_EPOCHS, *arguments])

    def test_steps_end_a_run_like_the_epochs_they_fill(self):
        for strategy in (ONE_DEVICE, IN_PROCESS, PROCESSES):
            self.check_same(self.expected,
                            [*strategy, "--steps", str(STEPS)])

    def test_another_seed_and_one_step_more_change_it(self):
        seen = {}
        for what in (["--seed", "8", "--steps", str(STEPS)],
                     ["--seed", "7", "--steps", str(STEPS + 1)],
                     ["--seed", "7", "--steps", str(STEPS - 1)],
                     ["--seed", "7", "--steps", str(STEPS)]):
            found = None
            for strategy in (ONE_DEVICE, [*MIRRORED, "--devices", "cpu:2"],
                             [*PROCESSES, "--workers", "2", "--ps", "2"]):
                with Run(*JOB[:-2], *what, *strategy) as run:
                    summary = run.finish()
                self.assertEqual(summary["steps"], int(what[-1]))
                found = found or digests(summary)
                self.assertEqual(digests(summary), found, [what, strategy])
            for name, value in found.items():
                self.assertNotIn(value, seen, f"{what}: {seen.get(value)}")
                seen[value] = [name, what]
        for value in digests(self.expected).values():
            self.assertIn(value, seen)

    def test_anyone_can_recompute_the_hash_from_the_saved_file(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, "weights.safetensors")
        files = []
        for strategy in (ONE_DEVICE, [*MIRRORED, "--devices", "cpu:2"],
                         [*IN_PROCESS, "--ps", "3", "--partitioner",
                          "max_size:4096"],
                         [*PROCESSES, "--ps", "2"]):
            saved = train(*TWO_EPOCHS, *strategy, "--save", path)
            tensors = read_safetensors(path)
            self.assertEqual({name: tensor[1]
                              for name, tensor in tensors.items()},
                             {"dense_0/weight": [784, 48],
                              "dense_0/bias": [48],
                              "dense_1/weight": [48, 10],
                              "dense_1/bias": [10]})
            self.assertEqual(weights_sha256(tensors), saved["weights_sha256"])
            self.assertEqual(saved["weights_sha256"],
                             self.expected["weights_sha256"])
            with open(path, "rb") as file:
                files.append(file.read())
        self.assertEqual(len(set(files)), 1)


if __name__ == "__main__":
    unittest.main()
