"""Tensors of a parameter server on links between processes: the same bits on
every carrier, and through links that are cut while both ends live."""
# ctest: TIMEOUT 1200

import subprocess
import unittest

from cluster import Run, wait_for
from sockets import connections, listening_addresses

JOB = ["--data", "synthetic:digits?samples=6000", "--model",
       "mlp:784-128-64-10", "--eval-fraction", "0.1", "--global-batch", "64",
       "--virtual-ranks", "4", "--seed", "7"]
SERVED = ["--strategy", "parameter_server", "--workers", "2", "--ps", "2",
          "--processes"]
CARRIERS = (["--link", "auto"], ["--link", "shm"],
            ["--link", "tcp", "--link-encryption", "off"],
            ["--link", "tcp", "--link-encryption", "on"])


def link_connections(run):
    """[(port of the worker, port of the shard)] of all TCP links of a run:
    workers connect to shards for nothing else."""
    children = run.children()
    shards = [pid for role, pid in children.items() if role.startswith("ps")]
    workers = [pid for role, pid in children.items()
               if role.startswith("worker")]
    ports = {port for _, port in listening_addresses(shards)}
    return [(own, peer) for own, peer in connections(workers)
            if peer in ports]


def cut(own, peer):
    """Resets one connection, as the kernel of a peer would."""
    subprocess.run(["ss", "-K", "-t", "src", "127.0.0.1", "sport", "=",
                    f":{own}", "dport", "=", f":{peer}"], check=True,
                   capture_output=True)


class Links(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.expected = {}
        for epochs in ("2", "16"):
            with Run(*JOB, "--epochs", epochs, "--strategy",
                     "one_device") as run:
                cls.expected[epochs] = run.finish()

    def check_same(self, summary, epochs):
        expected = self.expected[epochs]
        for field in ("weights_sha256", "state_sha256", "steps"):
            self.assertEqual(summary[field], expected[field])

    def test_every_carrier_brings_the_same_bits(self):
        for carrier in CARRIERS:
            with self.subTest(carrier=carrier), \
                    Run(*JOB, "--epochs", "2", *SERVED, *carrier) as run:
                self.check_same(run.finish(), "2")

    def test_every_carrier_takes_asynchronous_pushes(self):
        for carrier in CARRIERS:
            with self.subTest(carrier=carrier), \
                    Run(*JOB, "--epochs", "2", *SERVED, "--async",
                        *carrier) as run:
                self.assertEqual(run.finish()["steps"],
                                 self.expected["2"]["steps"])

    def test_tcp_links_are_there_only_when_asked_for(self):
        for carrier, count in (("tcp", 4), ("shm", 0)):
            with Run(*JOB, "--epochs", "16", *SERVED, "--link",
                     carrier) as run:
                run.wait_for_step(20)
                self.assertEqual(len(link_connections(run)), count)

    def test_a_cut_link_is_made_again_and_no_bit_is_lost(self):
        with Run(*JOB, "--epochs", "16", *SERVED, "--link", "tcp") as run:
            for step in (100, 500):
                run.wait_for_step(step)
                old = link_connections(run)
                self.assertEqual(len(old), 4)
                cut(*old[0])
                wait_for(lambda: old[0] not in link_connections(run)
                         and len(link_connections(run)) == 4,
                         "the link is made again")
            summary = run.finish()
            self.assertEqual(run.output().count("links to ps:"), 2,
                             run.output())
        self.check_same(summary, "16")
        self.assertEqual(summary["recoveries"], [])


if __name__ == "__main__":
    unittest.main()
