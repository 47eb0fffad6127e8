"""Jobs over unlike processors, for tests/aarch64: roles of this machine beside
roles of another one that is emulated, in one job without a pin, and jobs that are
emulated whole. Each ends with the weights of one device of this machine.

    tests/process/unlike_processors.py COMMAND…    runs `troupe` emulated, with
                                                   what follows"""

import json
import sys
import time
import unittest

from cluster import TROUPE, Run
from own_folder import OwnFolder
from roles import Role

JOBS = {
    "mlp": ["--model", "mlp:784-64-32-10", "--data",
            "synthetic:digits?samples=640"],
    "cnn": ["--model", "cnn", "--data", "synthetic:digits?samples=640"],
    "transformer": ["--model", "transformer:L2-H2-D32-T16", "--data",
                    "synthetic:text?samples=640"],
}
COMMON = ["--global-batch", "64", "--seed", "1", "--epochs", "0", "--steps",
          "20", "--eval-every", "0", "--join-deadline-ms", "600000"]
LAYOUTS = {
    "parameter_server": (["--workers", "2", "--ps", "2", "--chain", "2"],
                         [f"ps:{shard}" for shard in range(4)]),
    "multi_worker_mirrored": (["--workers", "2"], []),
}
WORKERS = ["worker:0", "worker:1"]
# An emulator takes a hundred times as long.
DEADLINE_S = 900
EMULATED = sys.argv[1:]


class UnlikeProcessors(OwnFolder):
    def trained(self, name, strategy, emulated):
        """The summary of a job of which these roles are emulated."""
        flags, shards = LAYOUTS[strategy]
        certificates = self.path(f"{name} {strategy} {len(emulated)}")
        summary = certificates + ".json"

        def role(who, *arguments):
            return Role(self.addCleanup, who, *arguments, "--certificates",
                        certificates,
                        program=EMULATED if who in emulated else [TROUPE])

        coordinator = role("coordinator", *COMMON, *JOBS[name], "--strategy",
                           strategy, *flags, "--summary", summary)
        address = coordinator.address()
        members = [role(who, "--coordinator", address)
                   for who in [*shards, *WORKERS]]
        for process in [coordinator, *members]:
            process.finish(deadline_s=DEADLINE_S)
        with open(summary) as file:
            return json.load(file)

    def hold(self, models, emulated_of):
        for name in models:
            job = JOBS[name]
            with Run(*COMMON, *job, "--strategy", "one_device") as run:
                expected = run.finish()
            for strategy, (_, shards) in LAYOUTS.items():
                with self.subTest(model=name, strategy=strategy):
                    began = time.monotonic()
                    found = self.trained(name, strategy, emulated_of(shards))
                    for value in ("weights_sha256", "numeric_class", "steps"):
                        self.assertEqual(found[value], expected[value])
                    print(f"{name} {strategy} {found['weights_sha256'][:12]} "
                          f"{time.monotonic() - began:.0f} s", flush=True)

    def test_a_worker_and_a_shard_of_another_processor(self):
        self.hold(JOBS, lambda shards: ["worker:1", *shards[1::2]])

    def test_all_of_another_processor(self):
        # Convolutions take minutes, and are in the jobs above.
        self.hold(["mlp", "transformer"],
                  lambda shards: ["coordinator", *shards, *WORKERS])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
