"""Hosts made of network namespaces on one machine, joined by a switch; for the
tests beside.

A namespace lives as long as a process of it. Each host, and the switch, is kept
by a `sleep` that dies with the test, however that ends: so nothing is left
behind, and the machine's own network is never touched.
"""

import os
import select
import shutil
import socket
import subprocess
import sys

NEEDED = ("ip", "unshare", "nsenter", "setpriv", "sleep")
# A command that the kernel kills when this test dies.
DYING_TOO = ["setpriv", "--pdeathsig", "KILL"]
# Longer than any test; the end of the test comes first.
KEPT_S = "21600"


def certificates_on(host, folder):
    """A host's own copy of what the coordinator, on host 0, has made."""
    made = os.path.join(folder, "certificates-0")
    copy = os.path.join(folder, f"certificates-{host}")
    if not os.path.exists(copy):
        shutil.copytree(made, copy)
    return copy


def skip_unless_possible():
    """Ends the program with status 77 where namespaces are not to be had.
    Without root's rights it goes on as root of a user namespace of its own."""
    missing = [name for name in NEEDED if shutil.which(name) is None]
    why = f"not installed: {', '.join(missing)}" if missing else None
    mapped = ["unshare", "--user", "--map-root-user"]
    prefix = [] if os.geteuid() == 0 else mapped
    if why is None:
        attempt = subprocess.run(
            [*prefix, "unshare", "--net", "ip", "link", "add", "x", "type",
             "veth", "peer", "name", "y"], capture_output=True, text=True)
        if attempt.returncode != 0:
            why = attempt.stderr.strip() or "not permitted"
    if why is not None:
        print(f"skipped: no network namespaces here ({why})")
        sys.exit(77)
    if prefix:
        os.execvp(mapped[0], [*mapped, sys.executable, *sys.argv])


def skip_without_slow_wires():
    """The same where the kernel cannot slow a device down."""
    attempt = subprocess.run(
        ["unshare", "--net", "tc", "qdisc", "add", "dev", "lo", "root", "tbf",
         "rate", "1mbit", "burst", "64kb", "latency", "1ms"],
        capture_output=True, text=True)
    if attempt.returncode != 0:
        print(f"skipped: no slow networks here ({attempt.stderr.strip()})")
        sys.exit(77)


class Hosts:
    """Hosts 0, 1, …, with one address each, all on one network."""

    def __init__(self, count):
        self.keepers = []
        self.holes = set()  # see narrow()
        try:
            self.switch = self.keep()
            self.at(self.switch, "ip", "link", "add", "switch", "type",
                    "bridge")
            self.at(self.switch, "ip", "link", "set", "switch", "up")
            for host in range(count):
                self.add(host)
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def keep(self):
        """Makes a namespace; returns the process that keeps it."""
        keeper = subprocess.Popen(
            [*DYING_TOO, "unshare", "--net", "sh", "-c",
             f"echo; exec sleep {KEPT_S}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        self.keepers.append(keeper)
        if not keeper.stdout.readline():
            raise OSError("cannot make a network namespace")
        return keeper

    def add(self, host):
        keeper = self.keep()
        port = f"port{host}"
        self.at(self.switch, "ip", "link", "add", port, "type", "veth", "peer",
                "name", "eth0", "netns", str(keeper.pid))
        self.at(self.switch, "ip", "link", "set", port, "master", "switch",
                "up")
        self.at(keeper, "ip", "address", "add", f"{self.address(host)}/24",
                "dev", "eth0")
        for device in ("lo", "eth0"):
            self.at(keeper, "ip", "link", "set", device, "up")

    @staticmethod
    def entering(keeper):
        return ["nsenter", f"--net=/proc/{keeper.pid}/ns/net"]

    def at(self, keeper, *command):
        subprocess.run([*self.entering(keeper), *command], check=True,
                       stdin=subprocess.DEVNULL)

    @staticmethod
    def address(host):
        return f"10.77.0.{host + 1}"

    def on(self, host):
        """What a command on this host begins with. It dies with the test."""
        return [*DYING_TOO, *self.entering(self.keepers[host + 1])]

    def unplug(self, host):
        """Nothing gets to the host or from it; nobody is told."""
        self.at(self.switch, "ip", "link", "set", f"port{host}", "nomaster")

    def plug(self, host):
        self.at(self.switch, "ip", "link", "set", f"port{host}", "master",
                "switch")

    def slow(self, host, rate):
        """No more than that gets to the host, and no more from it ("200mbit");
        what exceeds it waits for up to 0.4 s."""
        ends = ((self.switch, f"port{host}"), (self.keepers[host + 1], "eth0"))
        for at, device in ends:
            self.at(at, "tc", "qdisc", "add", "dev", device, "root", "tbf",
                    "rate", rate, "burst", "64kb", "latency", "400ms")

    def change_rate(self, host, rate):
        """That of a host that slow() has slowed."""
        ends = ((self.switch, f"port{host}"), (self.keepers[host + 1], "eth0"))
        for at, device in ends:
            self.at(at, "tc", "qdisc", "change", "dev", device, "root", "tbf",
                    "rate", rate, "burst", "64kb", "latency", "400ms")

    def block_port(self, at, to, port):
        """Nothing gets from the first host to that port of the other any more,
        as where a firewall drops it; all else does."""
        self.at(self.keepers[at + 1], "ip", "rule", "add", "priority", "10",
                "to", self.address(to), "ipproto", "tcp", "dport", str(port),
                "blackhole")

    def unblock_ports(self, at):
        self.at(self.keepers[at + 1], "ip", "rule", "flush", "priority", "10")

    def block(self, at, to):
        """Nothing gets from the first host to the other any more."""
        self.at(self.keepers[at + 1], "ip", "route", "add", "blackhole",
                f"{self.address(to)}/32")

    def unblock(self, at, to):
        self.at(self.keepers[at + 1], "ip", "route", "del", "blackhole",
                f"{self.address(to)}/32")

    def cut(self, one, other):
        """Nothing gets from one host to the other any more, silently."""
        self.block(one, other)
        self.block(other, one)

    def mend(self, one, other):
        self.unblock(one, other)
        self.unblock(other, one)

    def narrow(self, at, to):
        """Large packets from the first host to the other get lost half-way from
        here on, and nobody is told; small ones pass, and all others do. (As where
        a tunnel takes less than the hosts believe, and a firewall drops what
        would tell them.)"""
        if to not in {host for _, host in self.holes}:
            self.add_narrow_way(to)
        self.holes.add((at, to))
        behind = {host for _, host in self.holes}
        hosts = range(len(self.keepers) - 1)
        # All others keep to what passes; what they take may be large.
        for one in hosts:
            for other in hosts:
                if one != other and behind & {one, other}:
                    size = "1500" if (one, other) in self.holes else "900"
                    self.at(self.keepers[one + 1], "ip", "route", "replace",
                            f"{self.address(other)}/32", "dev", "eth0", "mtu",
                            size, "advmss", "1460")
        # A bridge drops what is larger than its device takes, but passes on what
        # the kernel has not cut into packets yet.
        self.at(self.keepers[at + 1], "ip", "link", "set", "eth0",
                "gso_max_segs", "1")
        for device in (f"near{to}", f"far{to}"):
            self.at(self.switch, "ip", "link", "set", device, "mtu", "1000")

    def add_narrow_way(self, host):
        """Puts a second switch before a host, with a cable to the first one."""
        near, far, second = f"near{host}", f"far{host}", f"second{host}"
        for command in (
                ("add", near, "type", "veth", "peer", "name", far),
                ("add", second, "type", "bridge"),
                ("set", near, "master", "switch", "up"),
                ("set", far, "master", second, "up"),
                ("set", second, "up"),
                ("set", f"port{host}", "master", second)):
            self.at(self.switch, "ip", "link", *command)

    def widen(self, to):
        """All packets get to the host again."""
        for device in (f"near{to}", f"far{to}"):
            self.at(self.switch, "ip", "link", "set", device, "mtu", "1500")

    def wire(self, pattern):
        """Listens at the switch for some bytes; see Wire."""
        return Wire([*DYING_TOO, *self.entering(self.switch)], pattern)

    def close(self):
        for keeper in self.keepers:
            keeper.kill()
            keeper.wait()
            keeper.stdout.close()
        self.keepers = []


class Wire:
    """Counts the packets at a place, and those with some bytes in them, until
    the end of the `with`."""

    def __init__(self, place, pattern):
        self.process = subprocess.Popen(
            [*place, sys.executable, __file__, pattern.hex()], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self):
        assert self.process.stdout.readline() == "listening\n"
        return self

    def __exit__(self, *_):
        self.packets, self.found = map(
            int, self.process.communicate(timeout=30)[0].split())


def listen(pattern):
    """What Wire runs: it ends with its input."""
    every_protocol = socket.htons(3)
    packets = found = 0
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW,
                       every_protocol) as wire:
        print("listening", flush=True)
        while sys.stdin not in select.select([wire, sys.stdin], [], [])[0]:
            packet = wire.recv(1 << 16)
            packets += 1
            found += pattern in packet
    print(packets, found)


if __name__ == "__main__":
    listen(bytes.fromhex(sys.argv[1]))
