"""More fails than a chain can bear: nothing is lost without a word. Parameters
count their updates, so what is missing or doubled shows."""
# ctest: TIMEOUT 1200

import array
import json
import os
import struct
import tempfile
import unittest

from cluster import Run, wait_for
from roles import Role, lose_memory

STEPS = 600
RANKS = 4
JOB = ["--data", "synthetic:digits?samples=2000", "--global-batch", "64",
       "--virtual-ranks", str(RANKS), "--seed", "5", "--epochs", "0",
       "--steps", str(STEPS), "--model", "count:2ms-50000", "--optimizer",
       "sgd", "--lr", "1", "--partitioner", "max_size:65536", "--workers", "2",
       "--ps", "2", "--chain", "2", "--async"]
FIRST_CHAIN = ["ps:0", "ps:2"]
ROLES = [*FIRST_CHAIN, "ps:1", "ps:3", "worker:0", "worker:1"]


def values(path):
    """All numbers of a safetensors file of float32."""
    with open(path, "rb") as file:
        (header,) = struct.unpack("<Q", file.read(8))
        file.read(header)
        return array.array("f", file.read())


class Beyond(unittest.TestCase):
    def check_counts(self, weights):
        counts = values(weights)
        self.assertEqual((min(counts), max(counts)),
                         (STEPS * RANKS, STEPS * RANKS))

    def test_a_chain_that_loses_its_memories_is_a_declared_rollback(self):
        with tempfile.TemporaryDirectory() as folder:
            path = {name: os.path.join(folder, name)
                    for name in ("certificates", "summary", "weights")}
            coordinator = Role(self.addCleanup, "coordinator",
                               "--certificates", path["certificates"],
                               "--summary", path["summary"], "--save",
                               path["weights"], *JOB)
            address = coordinator.address()

            def start(role):
                return Role(self.addCleanup, role, "--coordinator", address,
                            "--certificates", path["certificates"])

            members = {role: start(role) for role in ROLES}
            wait_for(lambda: "epoch 3 " in coordinator.output(), "epoch 3")
            for role in FIRST_CHAIN:
                members[role].stop()
            for role in FIRST_CHAIN:
                lose_memory(address, role)
                members[role] = start(role)
            coordinator.finish()
            for member in members.values():
                member.finish()
            with open(path["summary"]) as file:
                summary = json.load(file)
            self.check_counts(path["weights"])
        self.assertEqual(summary["steps"], STEPS)
        self.assertGreater(summary["steps_rolled_back"], 50)
        self.assertGreater(summary["consistency"]["leases_rolled_back"],
                           50 * RANKS)
        self.assertIn("rollback", [x["kind"] for x in summary["recoveries"]])
        self.assertIn("rollback to step", coordinator.output())

    def test_a_chain_that_dies_with_its_memories_kept_loses_nothing(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        weights = os.path.join(folder.name, "weights")
        with Run(*JOB, "--strategy", "parameter_server", "--processes",
                 "--save", weights) as run:
            for count in range(3):
                run.wait_for_step(100 * (count + 1))
                old = {role: run.kill(role) for role in FIRST_CHAIN}
                for role, pid in old.items():
                    wait_for(lambda role=role, pid=pid: run.children().get(role)
                             not in (None, pid), f"{role} is started again")
            summary = run.finish()
            self.check_counts(weights)
        self.assertEqual(summary["steps"], STEPS)
        self.assertEqual(summary["steps_rolled_back"], 0)
        self.assertEqual(summary["consistency"]["leases_rolled_back"], 0)
        self.assertGreaterEqual(len(summary["recoveries"]), 6)


if __name__ == "__main__":
    unittest.main()
