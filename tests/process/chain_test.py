"""Chains of shard replicas: any length gives the bits of one device; kill -9 of
head, middle and tail loses nothing that was acknowledged (I2, I3)."""
# ctest: TIMEOUT 1200

import unittest

from cluster import Run, wait_for

JOB = ["--data", "synthetic:digits?samples=2000", "--model", "mlp:784-64-10",
       "--eval-fraction", "0.1", "--seed", "5", "--partitioner",
       "max_size:65536"]
SERVED = ["--strategy", "parameter_server", "--workers", "2", "--processes"]
LAMB = ["--optimizer", "lamb", "--clip-norm", "0.5"]
DIGESTS = ("weights_sha256", "state_sha256")


def digests(summary):
    return {name: summary[name] for name in DIGESTS}


def train(*arguments):
    with Run(*JOB, *arguments) as run:
        return run.finish()


class Chain(unittest.TestCase):
    def test_a_chain_of_any_length_gives_the_bits_of_one_device(self):
        for optimizer in ([], LAMB):
            run = [*optimizer, "--epochs", "1"]
            expected = digests(train(*run, "--strategy", "one_device"))
            for shards, length in (("1", "1"), ("1", "2"), ("2", "3")):
                with self.subTest(optimizer=optimizer, length=length):
                    found = train(*run, *SERVED, "--ps", shards, "--chain",
                                  length)
                    self.assertEqual(digests(found), expected)

    def test_replicas_are_asynchronous_too(self):
        found = train("--epochs", "1", *SERVED, "--ps", "1", "--chain", "3",
                      "--async")
        self.assertEqual(found["steps"], 29)

    def test_head_middle_and_tail_die(self):
        """ps:0 -> ps:2 -> ps:4, and ps:1 -> ps:3 -> ps:5."""
        steps = ["--steps", "900", "--epochs", "0"]
        for optimizer in ([], LAMB):
            with self.subTest(optimizer=optimizer):
                run = [*optimizer, *steps]
                expected = train(*run, "--strategy", "one_device")
                roles = ["ps:0", "ps:2", "ps:4", "ps:5", "ps:1", "ps:3"]
                summary = self.kill_each(roles, *run, "--ps", "2", "--chain",
                                         "3")
                self.assertEqual(digests(summary), digests(expected))
                self.assertEqual(summary["steps"], 900)
                self.assertEqual(summary["steps_rolled_back"], 0)

    def test_asynchronous_leases_survive_the_death_of_each_place(self):
        summary = self.kill_each(["ps:0", "ps:1", "ps:2"], "--steps", "600",
                                 "--epochs", "0", "--ps", "1", "--chain", "3",
                                 "--async")
        self.assertEqual(summary["steps"], 600)
        self.assertEqual(summary["steps_rolled_back"], 0)

    def kill_each(self, roles, *arguments):
        with Run(*JOB, *SERVED, *arguments) as run:
            for count, role in enumerate(roles):
                run.wait_for_step(90 * (count + 1))
                old = run.kill(role)
                wait_for(lambda role=role, old=old: run.children().get(role)
                         not in (None, old), f"{role} is started again")
            summary = run.finish()
        found = [x["role"] for x in summary["recoveries"]]
        self.assertEqual(found, roles)
        return summary


if __name__ == "__main__":
    unittest.main()
