"""kill -9 of random workers and shards under --chain 2: synchronously the final
hash is the undisturbed one's and no step is rolled back; asynchronously every
lease is consumed once. TROUPE_KILLS sets the number of kills (default 8)."""
# ctest: TIMEOUT 1200

import os
import random
import statistics
import unittest

from cluster import Run, wait_for

KILLS = int(os.environ.get("TROUPE_KILLS", "8"))
SEED = int(os.environ.get("TROUPE_KILLS_SEED", "1"))
JOB = ["--data", "synthetic:digits?samples=2000", "--model", "mlp:784-64-10",
       "--seed", "5", "--partitioner", "max_size:65536", "--epochs", "0"]
SERVED = ["--strategy", "parameter_server", "--workers", "3", "--ps", "2",
          "--chain", "2", "--processes"]
ROLES = ["worker:0", "worker:1", "worker:2", "ps:0", "ps:1", "ps:2", "ps:3"]
STEPS_A_KILL = 600  # the others go on while one is started again


def median(values):
    return statistics.median(values) if values else 0


class RandomKills(unittest.TestCase):
    def run_with_kills(self, mode):
        """Kills a role at a random moment, again and again, each time after the
        one before is back and has caught up: never two of a chain at once."""
        chance = random.Random(SEED)
        steps = STEPS_A_KILL * (KILLS + 2)
        killed = []
        with Run(*JOB, *SERVED, "--steps", str(steps), "--" + mode) as run:
            run.wait_for_step(1)
            while len(killed) < KILLS:
                run.wait_for_step(run.step() + chance.randrange(20, 60))
                if run.step() > steps - STEPS_A_KILL:
                    break
                role = chance.choice(ROLES)
                # Without it, with it again, and, of a shard, as a replica.
                epoch = run.metric("troupe_membership_epoch") + (
                    3 if role.startswith("ps") else 2)
                run.kill(role)
                killed.append(role)
                seen = [0]

                def is_back_or_over(epoch=epoch, seen=seen):
                    seen.append(run.metric("troupe_membership_epoch"))
                    return (seen[-1] >= epoch
                            or run.process.poll() is not None)

                wait_for(is_back_or_over, f"{role} is back")
                self.assertGreaterEqual(
                    max(seen), epoch, f"the run ended before {role}, kill "
                    f"{len(killed)}, was back: {run.output()}")
            summary = run.finish(deadline_s=250)
        times = {}
        for recovery in summary["recoveries"]:
            kind = recovery["kind"]
            times.setdefault(kind, []).append(
                recovery["resumed_ms"] - recovery["detected_ms"])
        print(f"{len(killed)} kills, next commit after the loss was noticed, "
              "median ms:",
              {kind: (len(x), round(median(x), 1), round(max(x), 1))
               for kind, x in times.items()})
        self.assertGreaterEqual(len(killed), KILLS * 3 // 4)
        self.assertEqual(len(summary["recoveries"]), len(killed))
        self.assertEqual(summary["steps"], steps)
        self.assertEqual(summary["steps_rolled_back"], 0)
        return summary

    def test_synchronous_bits_do_not_change(self):
        summary = self.run_with_kills("sync")
        steps = summary["steps"]
        with Run(*JOB, "--strategy", "one_device", "--steps",
                 str(steps)) as run:
            expected = run.finish()
        for digest in ("weights_sha256", "state_sha256"):
            self.assertEqual(summary[digest], expected[digest])

    def test_asynchronous_leases_are_consumed_once(self):
        self.run_with_kills("async")


if __name__ == "__main__":
    unittest.main()
