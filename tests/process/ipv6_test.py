"""IPv6 wherever an address is taken: --listen, --metrics-address, --coordinator,
TF_CONFIG, links, voters, status, ctl. `[::1]:0` was "in use or not an address of
this machine"."""
# ctest: TIMEOUT 1200

import os
import re
import signal
import socket
import subprocess
import sys
import unittest

from cluster import TROUPE, Run, wait_for
from own_folder import OwnFolder
from roles import Role
from sockets import ESTABLISHED, LISTENING, sockets

JOB = ["--data", "synthetic:digits?samples=2000", "--model", "mlp:784-48-10",
       "--eval-fraction", "0.1", "--global-batch", "64", "--virtual-ranks",
       "4", "--seed", "7"]
ENDLESS = ["--epochs", "1000000"]
SERVED = ["--strategy", "parameter_server", "--processes", "--workers", "2",
          "--ps", "2"]
REPLICAS = ["--strategy", "multi_worker_mirrored", "--processes", "--workers",
            "2"]
LISTEN = ["--listen", "[::1]:0", "--metrics-address", "[::1]:0"]
LOOPBACK_6 = "00000000000000000000000001000000"


def has_ipv6():
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


def free_ports(count):
    """Ports that nobody used a moment ago."""
    taken = [socket.create_server(("::1", 0), family=socket.AF_INET6)
             for _ in range(count)]
    ports = [one.getsockname()[1] for one in taken]
    for one in taken:
        one.close()
    return ports


class Ipv6(OwnFolder):
    @classmethod
    def setUpClass(cls):
        with Run(*JOB, "--strategy", "one_device") as run:
            cls.expected = run.finish()["weights_sha256"]

    def setUp(self):
        super().setUp()
        self.certificates = os.path.join(self.folder, "certificates")

    def start(self, *arguments):
        run = Run(*JOB, *arguments)
        self.addCleanup(run.__exit__)
        return run

    def troupe(self, *arguments):
        done = subprocess.run([TROUPE, *arguments], capture_output=True,
                              text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def check_alone(self, pids):
        """Nothing of these processes uses another address than [::1]."""
        used = sockets(pids, LISTENING) + sockets(pids, ESTABLISHED)
        self.assertTrue(used)
        self.assertEqual({own[0] for own, _ in used}, {LOOPBACK_6})

    def test_runs_by_processes_use_nothing_else(self):
        for strategy in (SERVED, [*SERVED, "--link", "tcp"],
                         [*REPLICAS, "--link", "tcp"], [*SERVED, "--standby"]):
            with self.subTest(strategy=strategy):
                run = self.start(*LISTEN, *strategy)
                self.assertEqual(run.finish()["weights_sha256"], self.expected)

    def test_a_running_job_listens_there_alone_and_is_asked_there(self):
        run = self.start(*LISTEN, *SERVED, "--link", "tcp", *ENDLESS,
                         "--certificates", self.certificates)
        metrics = run.metrics_address()
        self.assertRegex(metrics, r"\A\[::1\]:\d+\Z")
        run.wait_for_step(5)
        self.check_alone([run.process.pid, *run.children().values()])
        self.assertRegex(self.troupe("status", metrics),
                         r"\Astep \d+, data epoch \d+, loss [\d.]+, membership "
                         r"epoch \d+, 0 restarts\n")
        coordinator = re.search(r"coordinator: (\[::1\]:\d+),",
                                run.output()).group(1)
        joined = ["--coordinator", coordinator, "--certificates",
                  self.certificates]
        self.troupe("ctl", "shards", "add", "1", *joined)
        self.troupe("ctl", "consistency", "async", *joined)
        for role in ("worker:0", "ps:0", "coordinator"):
            step = run.step()
            run.kill(role)
            wait_for(lambda: run.step() > step + 5, f"steps after {role}")
        run.process.send_signal(signal.SIGINT)
        run.finish(130)

    def test_in_one_process_metrics_are_there(self):
        run = self.start("--strategy", "mirrored", "--devices", "cpu:2",
                         "--metrics-address", "[::1]:0", *ENDLESS)
        run.wait_for_step(1)
        self.check_alone([run.process.pid])
        run.process.send_signal(signal.SIGTERM)
        run.finish(143)

    def test_roles_by_hand_take_tf_config(self):
        chief, shard, *workers = (f"[::1]:{port}" for port in free_ports(4))
        cluster = {"chief": [chief], "ps": [shard], "worker": workers}

        def role(kind, index, *arguments):
            return Role(self.addCleanup, "--certificates", self.certificates,
                        *arguments, tf_config={
                            "cluster": cluster,
                            "task": {"type": kind, "index": index}})
        summary = os.path.join(self.folder, "summary.json")
        coordinator = role("chief", 0, *JOB, "--summary", summary)
        self.assertEqual(coordinator.address(), chief)
        members = [role("ps", 0, "--listen", shard),
                   *(role("worker", index, "--listen", "[::1]:0")
                     for index in range(2))]
        coordinator.finish()
        for member in members:
            member.finish()
        with open(summary) as file:
            self.assertIn(self.expected, file.read())

    def test_mistakes_are_told_with_what_to_do(self):
        for address, why in (("::1:7000", "expected HOST:PORT"),
                             ("[::1]", "expected HOST:PORT"),
                             ("[2001:db8::1]:0", "certificates")):
            for flag in ("--listen", "--metrics-address"):
                done = subprocess.run(
                    [TROUPE, "train", *JOB, *SERVED, flag, address],
                    capture_output=True, text=True, timeout=60)
                self.assertNotEqual(done.returncode, 0)
                self.assertRegex(done.stderr,
                                 rf"\Atroupe: {flag} {re.escape(address)}: "
                                 rf"[^\n]*{why}[^\n]*\n\Z")


if __name__ == "__main__":
    if not has_ipv6():
        print("skipped: this kernel has no IPv6 on its loopback device")
        sys.exit(77)
    unittest.main()
