"""Who signs certificates and takes them away, beyond one coordinator's process: what
it revokes all members refuse, and what it signed holds after a failover."""
# ctest: TIMEOUT 900 COST 40 PROCESSORS 1

import os
import signal
import socket
import ssl
import subprocess
import time
import unittest

from cluster import troupe, wait_for
from own_folder import OwnFolder
from roles import Role

DATA = ["--data", "synthetic:digits?samples=640", "--model", "mlp:784-4-10",
        "--seed", "3"]
SERVED = ["--strategy", "parameter_server", "--workers", "2", "--ps", "1",
          "--link", "tcp", "--virtual-ranks", "2", "--eval-every", "0"]
LOSS_S = 3  # between hosts; on one host it is less


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


class Job(OwnFolder):
    def setUp(self):
        super().setUp()
        self.own = self.path("own")  # with the authority's key

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


class Standby(Job):
    """Two coordinators and a third voter, each with what its host would have."""

    def setUp(self):
        super().setUp()
        ports = []
        for _ in range(5):  # nobody takes them meanwhile on this host
            plain = socket.socket()
            plain.bind(("127.0.0.1", 0))
            ports.append(f"127.0.0.1:{plain.getsockname()[1]}")
            self.addCleanup(plain.close)
            plain.close()
        self.listen, self.voters = ports[:2], ports[2:]
        self.both = ",".join(self.listen)

    def token(self, member, folder=None):
        return troupe("certificates", "token", member, "--certificates",
                      folder or self.own).strip()

    def coordinator(self, which, folder, *more):
        return Role(self.addCleanup, "coordinator", *DATA, *SERVED, "--epochs",
                    "1000000", "--certificates", folder, "--listen",
                    self.listen[which], "--voters", ",".join(self.voters),
                    "--voter", str(which), "--journal",
                    self.path(f"vote-{which}.db"), *more)

    def joined(self, name, token):
        """A role with a key of its own, in a folder of its own."""
        return self.role(name, self.path(name.replace(":", "-")), self.both,
                         "--token", token)

    def start(self, *short):
        self.first = self.coordinator(0, self.own, *short)
        wait_for(lambda: os.path.exists(self.path("own", "ca.key")), "a folder")
        Role(self.addCleanup, "--listen", self.voters[2], "--journal",
             self.path("vote-2.db"), "--certificates", self.new("voter"),
             command="voter").address("voter")
        self.first.address()
        self.mine = self.path("mine")
        self.second = self.coordinator(
            1, self.mine, "--token", self.token("authority:1"), "--coordinator",
            self.listen[0], *short)
        wait_for(lambda: os.path.exists(self.path("mine", "authority.pem")),
                 "it has joined")
        self.members = {name: self.joined(name, self.token(name))
                        for name in ("ps:0", "worker:0", "worker:1")}
        wait_for(lambda: "epoch " in self.first.output(), "an epoch")

    def fail_over(self):
        """The first host is gone, with all that it had."""
        self.first.process.kill()
        self.first.process.wait()
        os.rename(self.own, self.path("gone"))
        self.second.address()

    def issuer(self, name):
        stem = name.replace(":", "-")
        done = subprocess.run(
            ["openssl", "x509", "-noout", "-issuer", "-in",
             self.path(stem, stem + ".pem")], capture_output=True, text=True,
            timeout=60, check=True)
        return done.stdout

    def test_a_standby_signs_without_the_authoritys_key(self):
        """It needed a copy of ca.key: without, certificates ended after a
        failover, and nobody could join."""
        self.start("--certificate-seconds", "12")
        self.assertEqual(set(os.listdir(self.mine)) & {"ca.key", "ca.pem",
                         "authority.pem", "authority.key"},
                         {"ca.pem", "authority.pem", "authority.key"})
        spent = self.token("worker:1")
        Role(self.addCleanup, "worker:1", "--coordinator", self.listen[0],
             "--certificates", self.path("spent"), "--token", spent)
        wait_for(lambda: os.path.exists(self.path("spent", "worker-1.pem")),
                 "the token is used")
        self.fail_over()
        for name, member in self.members.items():
            before = member.error().count("is renewed")
            wait_for(lambda m=member, b=before: m.error().count("is renewed")
                     >= b + 3, f"{name} is renewed")
            self.assertIn("authority:1", self.issuer(name))
            self.assertIsNone(member.process.poll(), member.error())
        # Once more, with what they have now, and one that comes by token.
        self.members["worker:0"].stop()
        again = self.role("worker:0", self.path("worker-0"), self.both)
        line = troupe("role", "worker:1", "--coordinator", self.listen[1],
                      "--certificates", self.path("again"), "--token", spent,
                      status=1)
        self.assertIn("used before", line)
        self.members["worker:1"].stop()
        troupe("certificates", "show", "--certificates", self.mine)
        newcomer = self.role("worker:1", self.path("new"), self.listen[1],
                             "--token", self.token("worker:1", self.mine))
        before = self.second.output().count("epoch ")
        wait_for(lambda: self.second.output().count("epoch ") > before + 3,
                 "it goes on with them")
        for role in (again, newcomer):
            self.assertIsNone(role.process.poll(), role.error())
        line = troupe("certificates", "token", "authority:2", "--certificates",
                      self.mine, status=1)
        self.assertIn("where ca.key is", line)

    def test_revocations_hold_after_a_failover(self):
        self.start()
        stolen = self.path("worker-0")
        self.revoke("worker:0", self.listen[0])
        for port in (int(x.rsplit(":", 1)[1]) for x in self.voters[1:]):
            wait_for(lambda p=port: "revoked" in
                     str(refusal(p, stolen, "worker-0")),
                     "standby and voter refuse it", LOSS_S)
        self.fail_over()
        port = int(self.second.address().rsplit(":", 1)[1])
        self.assertIn("revoked", refusal(port, stolen, "worker-0"))

    def test_what_a_standby_signs_is_no_more_than_members(self):
        self.start()
        self.second.stop()

        def openssl(*arguments):
            return subprocess.run(["openssl", *arguments], timeout=60,
                                  capture_output=True, text=True, check=False)

        port = int(self.first.address().rsplit(":", 1)[1])
        for name, host, fine in (("inside", "worker-1.troupe.internal", True),
                                 ("outside", "www.example.org", False)):
            with open(self.path("extension"), "w") as file:
                file.write(f"subjectAltName=URI:troupe:worker:1,DNS:{host}\n")
            openssl("req", "-new", "-newkey", "rsa:2048", "-nodes", "-subj",
                    "/CN=" + name, "-out", self.path("request"), "-keyout",
                    self.path(name + ".key"))
            openssl("x509", "-req", "-in", self.path("request"), "-CA",
                    self.path("mine", "authority.pem"), "-CAkey",
                    self.path("mine", "authority.key"), "-CAcreateserial",
                    "-days", "9", "-extfile", self.path("extension"), "-out",
                    self.path("signed.pem"))
            done = openssl("verify", "-CAfile", self.path("mine", "ca.pem"),
                           "-untrusted", self.path("mine", "authority.pem"),
                           self.path("signed.pem"))
            self.assertEqual(done.returncode == 0, fine,
                             done.stdout + done.stderr)
            with open(self.path(name + ".pem"), "w") as file:
                for part in ("signed.pem", "mine/authority.pem"):
                    with open(self.path(part)) as one:
                        file.write(one.read())
            why = refusal(port, self.folder, name)
            self.assertEqual(why is None, fine, why)
        self.revoke("authority:1", self.listen[0])
        self.assertIn("revoked", refusal(port, self.folder, "inside"))


if __name__ == "__main__":
    unittest.main()
