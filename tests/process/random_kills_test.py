"""kill -9 of random workers and shards under --chain 2: synchronously the final
hash is the undisturbed one's and no step is rolled back; asynchronously every
lease is consumed once. TROUPE_KILLS sets the number of kills (default 8)."""
# ctest: TIMEOUT 1200

import os
import random
import statistics
import unittest

from cluster import ENDLESS, Run, check_samples

KILLS = int(os.environ.get("TROUPE_KILLS", "8"))
SEED = int(os.environ.get("TROUPE_KILLS_SEED", "1"))
JOB = ["--data", "synthetic:digits?samples=2000", "--model", "mlp:784-64-10",
       "--seed", "5", "--partitioner", "max_size:65536"]
SERVED = ["--strategy", "parameter_server", "--workers", "3", "--ps", "2",
          "--chain", "2", "--processes"]
ROLES = ["worker:0", "worker:1", "worker:2", "ps:0", "ps:1", "ps:2", "ps:3"]


def median(values):
    return statistics.median(values) if values else 0


class RandomKills(unittest.TestCase):
    def run_with_kills(self, mode):
        """Kills a role at a random moment, again and again, each time after the
        one before is back and has caught up: never two of a chain at once."""
        chance = random.Random(SEED)
        with Run(*JOB, *SERVED, *ENDLESS, "--" + mode) as run:
            run.wait_for_step(1)
            for _ in range(KILLS):
                run.wait_for_step(run.step() + chance.randrange(20, 60))
                role = chance.choice(ROLES)
                # Without it, with it again, and, of a shard, as a replica.
                run.kill_and_wait(role, 3 if role.startswith("ps") else 2)
            summary = run.end(60)
        times = {}
        for recovery in summary["recoveries"]:
            kind = recovery["kind"]
            times.setdefault(kind, []).append(
                recovery["resumed_ms"] - recovery["detected_ms"])
        print(f"{KILLS} kills, next commit after the loss was noticed, "
              "median ms:",
              {kind: (len(x), round(median(x), 1), round(max(x), 1))
               for kind, x in times.items()})
        self.assertEqual(len(summary["recoveries"]), KILLS)
        self.assertEqual(summary["steps_rolled_back"], 0)
        check_samples(self, summary, of=2000)
        return summary

    def test_synchronous_bits_do_not_change(self):
        summary = self.run_with_kills("sync")
        with Run(*JOB, "--strategy", "one_device", "--epochs", "0", "--steps",
                 str(summary["steps"])) as run:
            expected = run.finish()
        for digest in ("weights_sha256", "state_sha256"):
            self.assertEqual(summary[digest], expected[digest])

    def test_asynchronous_leases_are_consumed_once(self):
        self.run_with_kills("async")


if __name__ == "__main__":
    unittest.main()
