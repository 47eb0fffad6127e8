"""Twelve mistakes of networks and clusters, planted on hosts that are network
namespaces: each is named with its host, or the place that was written, and with
what mends it, soon."""
# ctest: TIMEOUT 600 PROCESSORS 1

import os
import re
import selectors
import signal
import socket
import subprocess
import sys
import time
import unittest

from cluster import DEADLINE_S, TROUPE, wait_for
from hosts import Hosts
from own_folder import OwnFolder
from roles import Role
from sshd import Sshd, program

ENDLESS = ["--seed", "7", "--epochs", "0", "--steps", "100000000"]
JOB = ["--data", "synthetic:digits?samples=2000", "--model", "mlp:784-48-10",
       *ENDLESS]
MIRRORED = ["--strategy", "multi_worker_mirrored", "--workers", "3"]
SERVED = ["--strategy", "parameter_server", "--workers", "2", "--ps", "1"]
CLOCK = os.path.abspath(os.path.join(os.path.dirname(TROUPE), "..", "tests",
                                     "libset_clock.so"))
IN_FULL = os.environ.get("TROUPE_IN_FULL") == "1"
SOON_S = 3
OF_DROPS_S = 5  # nothing comes back of what is dropped
HOUR_S = 3600
CONNECTIONS = 1000  # more than a queue of those that were not taken yet


class NetworkMistakes(OwnFolder):
    def setUp(self):
        super().setUp()
        self.hosts = Hosts(3)
        self.addCleanup(self.hosts.close)
        self.sshd = Sshd(self, self.hosts, self.folder, 2)

    def at(self, host, *command):
        self.hosts.at(self.hosts.keepers[host + 1], *command)

    def named(self, mistake, line, command, within=SOON_S):
        """Runs a command until it says such a line, and then ends it. How soon
        counts on a machine that has nothing else to do, so TROUPE_IN_FULL=1
        looks at it."""
        began = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True,
                                   stdin=subprocess.DEVNULL)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        said = ""
        with selectors.DefaultSelector() as ready:
            ready.register(process.stdout, selectors.EVENT_READ)
            while not re.search(line, said):
                left = began + DEADLINE_S - time.monotonic()
                self.assertTrue(left > 0 and ready.select(left), said)
                more = os.read(process.stdout.fileno(), 1 << 16).decode()
                self.assertTrue(more, f"it ended without the line:\n{said}")
                said += more
        took = time.monotonic() - began
        process.send_signal(signal.SIGTERM)
        process.wait(DEADLINE_S)
        found = next(x for x in said.splitlines() if re.search(line, x))
        print(f"\n  {mistake}: {took:.1f} s: {found}", end="", file=sys.stderr,
              flush=True)
        if IN_FULL:
            self.assertLess(took, within)

    def launch(self, job=tuple(JOB), where=("-H", "h1:3,h2:3"), flags=()):
        return [*self.hosts.on(0), TROUPE, "launch", *where, "--ssh",
                self.sshd.ssh(), *flags, "--", "train", *MIRRORED, *job]

    def add_card(self):
        """A second one of host 2, whose cable ends at nobody."""
        self.at(2, "ip", "link", "add", "eth1", "type", "veth", "peer", "name",
                "nobody")
        for device in ("eth1", "nobody"):
            self.at(2, "ip", "link", "set", device, "up")

    # --- on the way to a host ---

    def test_a_closed_port(self):
        self.sshd.stop(2)
        self.named("closed port", "h2: nobody takes ssh's connection: start "
                   "sshd there, or name its port", self.launch())

    def test_a_name_that_nobody_knows(self):
        self.named("unresolvable name", "nowhere: there is no host of that "
                   "name: write its address",
                   self.launch(where=("-H", "h1:3,nowhere:3")))

    def test_a_queue_that_is_full(self):
        """sshd is there, and takes nobody any more."""
        os.kill(self.sshd.started[2].pid, signal.SIGSTOP)
        crowd = subprocess.Popen(
            [*self.hosts.on(0), sys.executable, __file__, "crowd",
             self.hosts.address(2)], stdout=subprocess.PIPE)
        self.addCleanup(crowd.stdout.close)
        self.addCleanup(crowd.wait)
        self.addCleanup(crowd.kill)
        self.assertTrue(crowd.stdout.readline())
        self.named("full backlog", "h2 has not answered for 3 s: is it up, and "
                   "does no firewall drop ssh", self.launch(), OF_DROPS_S)

    # --- between hosts ---

    def test_another_card(self):
        """An address of its own that the others have no way to."""
        self.add_card()
        self.at(2, "ip", "address", "add", "10.99.0.3/24", "dev", "eth1")
        file = self.path("hosts")
        with open(file, "w") as out:
            out.write("h1 slots=3\nh2 slots=3 address=10.99.0.3\n")
        self.named("wrong card", r"h1 does not reach h2: 10\.99\.0\.3:\d+ .*"
                   "another address of a host: address= in --hosts-file",
                   self.launch(where=("--hosts-file", file)))

    def test_a_way_there_and_none_back(self):
        self.add_card()
        self.at(2, "ip", "route", "add", f"{self.hosts.address(1)}/32", "dev",
                "eth1")
        self.named("asymmetric route", "h1 does not reach h2: .*is there a way "
                   "to that host", self.launch(), OF_DROPS_S)

    def test_large_packets_that_get_lost(self):
        self.hosts.narrow(1, 2)
        self.named("MTU", r"h1 does not reach h2: 10\.77\.0\.3:\d+ gets small "
                   "packets, .* get lost on the way: .*mtu 1400",
                   self.launch(), OF_DROPS_S)

    def test_a_hole_that_drops(self):
        for at, to in ((1, 2), (2, 1)):
            self.at(at, "ip", "neighbour", "replace", self.hosts.address(to),
                    "lladdr", "02:00:00:00:00:99", "dev", "eth0", "nud",
                    "permanent")
        self.named("hole that drops", "h1 does not reach h2: .*does no firewall "
                   "close the port", self.launch(), OF_DROPS_S)

    # --- hosts unlike one another ---

    def clock_of_second_host(self, off_s):
        clock = self.path(f"clock{off_s}")
        with open(clock, "wb") as file:
            text = f"{off_s:<16}".encode()
            file.write(text + b"\0" * (4096 - len(text)))
        self.sshd.stop(2)
        self.sshd.start(self, 2, "-o", f"SetEnv=LD_PRELOAD={CLOCK} "
                        f"SET_CLOCK={clock}")

    def test_a_clock_that_is_an_hour_off(self):
        self.clock_of_second_host(-HOUR_S)
        self.named("clock an hour behind", r"h2: its clock is 3\d\d\d s behind "
                   "this machine's, .*timedatectl set-ntp true", self.launch())
        self.clock_of_second_host(HOUR_S)
        self.named("clock an hour ahead", r"h2: its clock is 3\d\d\d s ahead of "
                   "this machine's, .*timedatectl set-ntp true", self.launch())

    def test_another_version(self):
        other = self.path("other")
        with open(other, "w") as file:
            file.write("#!/bin/sh\necho 'troupe 0.1'\n")
        os.chmod(other, 0o755)
        self.named("other version", r"h\d: \S*other is another program there "
                   r"\(troupe 0\.1, .*remove it",
                   self.launch(flags=("--remote-path", other)))

    def test_data_that_are_not_there(self):
        data = self.path("only-here", "table.csv")
        with open(data, "w") as file:
            file.write("a,b,label\n" + "1,2,0\n2,1,1\n" * 100)
        self.named("missing data", r"troupe: worker:\d \(h\d\): .*table\.csv",
                   self.launch(["--data", f"csv:{data}?label=label", "--model",
                                "mlp:2-8-2", *ENDLESS]))

    # --- by hand ---

    def coordinator(self):
        """Its address, with a shard and the first worker beside it."""
        coordinator = Role(self.addCleanup, "coordinator", "--listen",
                           f"{self.hosts.address(0)}:7000", "--certificates",
                           self.path("certificates"), *JOB, *SERVED,
                           on=self.hosts.on(0))
        address = coordinator.address()
        for role in ("ps:0", "worker:0"):
            first = Role(self.addCleanup, *self.worker(address, role),
                         on=self.hosts.on(1))
        wait_for(lambda: "joins the job of" in first.output(), "worker:0")
        return address

    def worker(self, address, role="worker:1"):
        return [role, "--coordinator", address, "--certificates",
                self.path("certificates")]

    def test_a_processor_of_another_class(self):
        self.named("other ISA", "worker:1: cannot take part: computes in the "
                   "numeric class SSE float32, .*pin --isa",
                   [*self.hosts.on(2), TROUPE, "role",
                    *self.worker(self.coordinator()), "--isa", "sse4"])

    def test_certificates_of_another_job(self):
        address = self.coordinator()
        os.rename(self.path("certificates"), self.path("kept"))
        subprocess.run([TROUPE, "certificates", "new", "worker:1",
                        "--certificates", self.path("certificates")],
                       check=True, timeout=60, stdout=subprocess.DEVNULL)
        self.named("certificate of another job", r"10\.77\.0\.1:7000 shows a "
                   "certificate that is not of this job .*copy the folder of "
                   "--certificates from the coordinator's host",
                   [*self.hosts.on(2), TROUPE, "role", *self.worker(address)])


def crowd(address):
    """Connects until nobody is let in any more, and stays."""
    stay = []
    for _ in range(CONNECTIONS):
        one = socket.socket()
        one.settimeout(0.5)
        stay.append(one)
        try:
            one.connect((address, 22))
        except OSError:
            break
    print("full", flush=True)
    time.sleep(DEADLINE_S)


if __name__ == "__main__":
    if sys.argv[1:2] == ["crowd"]:
        crowd(sys.argv[2])
    else:
        program()
        unittest.main()
