"""Workers whose forward pass begins as layers arrive, over a network that is
slow enough for them to wait: the weights are those of workers that wait for
everything (--priority off) and of one device, whoever is killed meanwhile."""
# ctest: TIMEOUT 1200

import json
import os
import shutil
import subprocess
import unittest

from cluster import TROUPE, Run, wait_for
from hosts import Hosts, skip_unless_possible, skip_without_slow_wires
from own_folder import OwnFolder
from roles import Role

# 1.2 MB of parameters in slices of 64 KiB: a pull takes some 50 ms at 200 Mbit/s.
JOB = ["--data", "synthetic:digits?samples=2000", "--model",
       "mlp:784-256-256-128-10", "--global-batch", "64", "--virtual-ranks",
       "4", "--seed", "3", "--epochs", "0"]
SERVED = ["--strategy", "parameter_server", "--partitioner",
          "max_size:65536"]
DIGESTS = ("weights_sha256", "state_sha256", "steps")
# A worker's death while slices arrive, and while it computes what had begun
# before they were all there; a shard's while it serves them.
PLAN = """
[[strike]]
at_step = 10
[[strike.fault]]
role = "worker:0"
phase = "pull"
passes = 4
[[strike]]
after_steps = 10
[[strike.fault]]
role = "worker:1"
phase = "compute"
[[strike]]
after_steps = 10
[[strike.fault]]
role = "ps:0"
phase = "pull"
passes = 1
[[strike]]
after_steps = 10
[[strike.fault]]
role = "worker:2"
phase = "pull"
passes = 11
"""


def expected(*job):
    with Run(*job, "--strategy", "one_device") as run:
        return run.finish()


class Priority(OwnFolder):
    def over_hosts(self, *flags, kill=None):
        """Two workers and a shard, a host each; the shard's has a slow wire.
        Returns the summary."""
        job = [*JOB, "--steps", "40", *SERVED, "--workers", "2", "--ps", "1"]
        hosts = Hosts(4)
        self.addCleanup(hosts.close)
        hosts.slow(1, "200mbit")
        for host in range(4):
            shutil.rmtree(self.path(f"certificates-{host}"),
                          ignore_errors=True)
        coordinator = Role(self.addCleanup, "coordinator", "--certificates",
                           self.path("certificates-0"), "--summary",
                           self.path("summary"), "--listen",
                           f"{hosts.address(0)}:0", *job, *flags,
                           on=hosts.on(0))
        address = coordinator.address()

        def member(role, host):
            copy = self.path(f"certificates-{host}")
            if not os.path.exists(copy):
                shutil.copytree(self.path("certificates-0"), copy)
            return Role(self.addCleanup, role, "--coordinator", address,
                        "--certificates", copy, "--listen",
                        f"{hosts.address(host)}:0", on=hosts.on(host))

        places = {"ps:0": 1, "worker:0": 2, "worker:1": 3}
        members = {role: member(role, host) for role, host in places.items()}
        if kill is not None:
            wait_for(lambda: "step 10 " in coordinator.output(), "step 10")
            members[kill].stop()
            members[kill] = member(kill, places[kill])
        coordinator.finish(deadline_s=120)
        for one in members.values():
            one.finish(0, 20)
        with open(self.path("summary")) as file:
            return json.load(file)

    def check(self, summary):
        found = expected(*JOB, "--steps", "40")
        for name in DIGESTS:
            self.assertEqual(summary[name], found[name])

    def test_a_slow_network_changes_no_bit_with_and_without_priority(self):
        on = self.over_hosts()
        self.check(on)
        self.assertEqual(on["recoveries"], [])
        self.check(self.over_hosts("--priority", "off"))

    def test_a_worker_may_die_behind_a_slow_network(self):
        summary = self.over_hosts("--log-every", "1", kill="worker:1")
        self.check(summary)
        self.assertTrue(summary["recoveries"])

    def test_kills_while_layers_arrive_change_no_bit(self):
        plan, verdict = self.path("plan.toml"), self.path("verdict.json")
        with open(plan, "w") as file:
            file.write(PLAN)
        done = subprocess.run(
            [TROUPE, "chaos", "--plan", plan, "--json", verdict, "--", "train",
             *JOB, "--steps", "200", *SERVED, "--workers", "3", "--ps", "2",
             "--chain", "2", "--processes", "--link", "tcp"],
            capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_it_is_refused_where_nothing_is_pulled(self):
        done = subprocess.run(
            [TROUPE, "train", *JOB, "--steps", "1", "--strategy",
             "one_device", "--priority", "off"], capture_output=True,
            text=True, timeout=60)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--priority", done.stderr)


if __name__ == "__main__":
    skip_unless_possible()
    skip_without_slow_wires()
    unittest.main()
