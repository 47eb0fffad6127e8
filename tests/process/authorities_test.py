"""Who signs certificates and takes them away, beyond one coordinator's process: what
it revokes all members refuse, and what it signed holds after a failover."""
# ctest: TIMEOUT 900

import os
import re
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import unittest

from cluster import TROUPE, wait_for
from roles import Role

DATA = ["--data", "synthetic:digits?samples=640", "--model", "mlp:784-4-10",
        "--seed", "3"]
SERVED = ["--strategy", "parameter_server", "--workers", "2", "--ps", "1",
          "--link", "tcp", "--virtual-ranks", "2", "--eval-every", "0"]
LOSS_S = 3  # between hosts; on one host it is less


def troupe(*arguments, status=0):
    """Runs a command that ends by itself; returns what it printed."""
    done = subprocess.run([TROUPE, *arguments], capture_output=True, text=True,
                          timeout=60, check=False)
    assert done.returncode == status, (done.returncode, done.stderr)
    return done.stdout if status == 0 else done.stderr


def ports_of(pid):
    """Where a process listens on TCP."""
    inodes = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{name}")
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    with open(f"/proc/{pid}/net/tcp") as file:
        rows = [line.split() for line in file][1:]
    return [int(row[1].split(":")[1], 16) for row in rows
            if row[3] == "0A" and row[9] in inodes]


def refusal(port, folder, member):
    """Shows a certificate to what listens there; returns why it is not taken,
    or nothing where the other side waits for more."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.load_cert_chain(os.path.join(folder, member + ".pem"),
                            os.path.join(folder, member + ".key"))
    with socket.create_connection(("127.0.0.1", port), 5) as plain:
        plain.settimeout(1)
        try:
            with context.wrap_socket(plain) as connection:
                return None if connection.recv(1) else "it ended"
        except socket.timeout:
            return None
        except (OSError, ssl.SSLError) as why:
            return str(why)


class Job(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.own = self.path("own")  # with the authority's key

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def new(self, member):
        """A folder with that member's certificate and nothing else."""
        folder = self.path("only-" + member.replace(":", "-"))
        troupe("certificates", "new", member, "--certificates", self.own,
               "--out", folder)
        return folder

    def role(self, name, folder, address, *more):
        return Role(self.addCleanup, name, "--coordinator", address,
                    "--certificates", folder, *more)

    def revoke(self, member, address):
        troupe("certificates", "revoke", member, "--coordinator", address,
               "--certificates", self.own)


class Revoked(Job):
    def start(self):
        self.journal = self.path("run.db")
        self.coordinator = Role(
            self.addCleanup, "coordinator", *DATA, *SERVED, "--epochs",
            "100000", "--certificates", self.own, "--journal", self.journal)
        self.address = self.coordinator.address()
        self.stolen = self.new("worker:0")
        self.shard = self.role("ps:0", self.own, self.address)
        self.worker = self.role("worker:0", self.stolen, self.address)
        self.role("worker:1", self.own, self.address)
        wait_for(lambda: "epoch " in self.coordinator.output(), "an epoch")

    def test_members_refuse_whom_the_coordinator_revokes(self):
        """The coordinator alone did: with a stolen certificate one spoke to
        every shard until it ended."""
        self.start()
        ports = ports_of(self.shard.process.pid)
        self.assertEqual(len(ports), 2, ports)  # control and links
        for port in ports:
            self.assertIsNone(refusal(port, self.stolen, "worker-0"))
        # One that is stopped closes nothing itself.
        self.worker.process.send_signal(signal.SIGSTOP)
        self.revoke("worker:0", self.address)
        begin = time.monotonic()
        for port in ports:
            wait_for(lambda p=port: refusal(p, self.stolen, "worker-0")
                     is not None, "it is refused", LOSS_S)
        self.assertLess(time.monotonic() - begin, LOSS_S)
        for port in ports:
            self.assertIn("revoked", refusal(port, self.stolen, "worker-0"))
        self.worker.process.send_signal(signal.SIGCONT)
        # Who comes later hears of it as well; the job goes on.
        before = self.coordinator.output().count("epoch ")
        wait_for(lambda: self.coordinator.output().count("epoch ") > before,
                 "it goes on")
        self.shard.stop()
        again = self.role("ps:0", self.own, self.address)
        wait_for(lambda: len(ports_of(again.process.pid)) == 2, "it is back")
        for port in ports_of(again.process.pid):
            wait_for(lambda p=port: "revoked" in
                     str(refusal(p, self.stolen, "worker-0")),
                     "it is refused", LOSS_S)

    def test_a_revocation_outlives_the_coordinator_and_its_folder(self):
        self.start()
        self.revoke("worker:0", self.address)
        shown = troupe("events", self.journal, "--kind", "revoked")
        self.assertRegex(shown, r"(?m) revoked +role worker:0, until \d+$")
        shown = troupe("events", self.journal, "--role", "worker:0")
        self.assertIn("revoked", shown)
        self.coordinator.process.kill()
        self.coordinator.process.wait()
        os.remove(self.path("own", "revoked"))
        again = Role(self.addCleanup, "coordinator", *DATA, *SERVED,
                     "--epochs", "100000", "--listen", self.address,
                     "--certificates", self.own, "--journal", self.journal)
        port = int(again.address().rsplit(":", 1)[1])
        self.assertIn("revoked", refusal(port, self.stolen, "worker-0"))


if __name__ == "__main__":
    unittest.main()
