"""More strangers than a process has descriptors, at every port of a job that
was started by hand: nobody ends, members come in, and the bits are those of a
run that nobody disturbed."""
# ctest: TIMEOUT 1200

import json
import os
import resource
import shutil
import signal
import socket
import ssl
import tempfile
import unittest

from cluster import Run, wait_for
from roles import Role, certificate_of
from sockets import connections, held_by_doors, listening_addresses

JOB = ["--data", "synthetic:digits?samples=2000", "--model", "mlp:784-48-10",
       "--eval-fraction", "0.1", "--global-batch", "64", "--virtual-ranks",
       "4", "--seed", "7"]
SERVED = ["--strategy", "parameter_server", "--workers", "2", "--ps", "1",
          "--link", "tcp"]
FILES = 1024  # `ulimit -n` of a shell
STRANGERS = 1100  # at each port


class IdleStrangers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.own = os.path.join(self.folder, "own")
        self.summary = os.path.join(self.folder, "summary.json")
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        if most != resource.RLIM_INFINITY and most < 8 * STRANGERS:
            self.skipTest("this test may not open as many connections")
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

    def role(self, *arguments, certificates=None):
        return Role(self.addCleanup, *arguments, "--certificates",
                    certificates or self.own, max_files=FILES)

    def member(self, name, certificates=None):
        return self.role(name, "--coordinator", self.coordinator.address(),
                         certificates=certificates)

    def start(self, *more):
        self.coordinator = self.role("coordinator", *JOB, *SERVED, "--epochs",
                                     "100000", "--summary", self.summary,
                                     *more)
        self.coordinator.address()
        self.members = {name: self.member(name)
                        for name in ("ps:0", "worker:0", "worker:1")}
        self.wait_for_epochs(1)

    def epochs(self):
        return self.coordinator.output().count("epoch ")

    def wait_for_epochs(self, more):
        wanted = self.epochs() + more
        wait_for(lambda: self.epochs() >= wanted
                 or self.coordinator.process.poll() is not None,
                 f"{more} epochs more")
        self.all_live()

    def kill(self, name):
        self.members[name].process.kill()
        self.members[name].process.wait()

    def bring_back(self, name, certificates=None):
        """Until it has a part in the job: it is linked with the shard."""
        again = self.members[name] = self.member(name, certificates)
        wait_for(lambda: again.process.poll() is not None
                 or len(connections([again.process.pid])) >= 2,
                 f"{name} is linked")
        self.wait_for_epochs(3)

    def all_live(self):
        for role in (self.coordinator, *self.members.values()):
            self.assertIsNone(role.process.poll(), role.error())

    def doors(self):
        roles = [self.coordinator, *self.members.values()]
        return [("127.0.0.1", port) for role in roles
                for _, port in listening_addresses([role.process.pid])]

    def crowd(self, door):
        """Connections that say nothing."""
        made = []
        for _ in range(STRANGERS):
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex(door)
            self.addCleanup(one.close)
            made.append(one)
        return made

    def check(self, recoveries):
        self.coordinator.process.send_signal(signal.SIGINT)
        self.coordinator.finish(130)
        for member in self.members.values():
            member.finish(0, 10)
        with open(self.summary) as file:
            summary = json.load(file)
        self.assertEqual([row["role"] for row in summary["recoveries"]],
                         recoveries)
        self.assertEqual(summary["steps_rolled_back"], 0)
        with Run(*JOB, "--strategy", "one_device", "--steps",
                 str(summary["steps"])) as run:
            expected = run.finish()
        for name in ("weights_sha256", "state_sha256", "steps"):
            self.assertEqual(summary[name], expected[name])

    # --- the tests ------------------------------------------------------------

    def test_nobody_ends_under_more_idle_connections_than_descriptors(self):
        """CAF read its certificates for each connection and threw where there
        was no descriptor left: coordinator and shard ended in 2 s."""
        self.start()
        doors = self.doors()
        self.assertEqual(len(doors), 6)  # control, metrics, shard's 2, links
        crowds = [self.crowd(door) for door in doors]
        self.wait_for_epochs(3)
        # A member comes in through the crowd, and the crowd is let go.
        self.kill("worker:1")
        crowds.append(self.crowd(doors[0]))
        self.bring_back("worker:1")
        self.wait_until_let_go([one for crowd in crowds for one in crowd])
        self.check(["worker:1"])

    def wait_until_let_go(self, strangers):
        """Half-open handshakes are closed after two seconds, by whom they were
        opened to."""
        pairs = set()
        for one in strangers:
            try:
                pairs.add((one.getpeername()[1], one.getsockname()[1]))
            except OSError:
                pass  # not connected, or over
        ports = {door for door, _ in pairs}
        wait_for(lambda: not pairs & held_by_doors(ports),
                 "strangers are let go", 20)

    def test_a_voter_stands_as_well(self):
        listen = "127.0.0.1:0"
        Role(self.addCleanup, "coordinator", *JOB, "--join-deadline-ms", "1",
             "--certificates", self.own).finish(1)
        voter = Role(self.addCleanup, "--listen", listen, "--journal",
                     os.path.join(self.folder, "run.db"), "--certificates",
                     self.own, command="voter", max_files=FILES)
        host, port = voter.address("voter").rsplit(":", 1)
        strangers = self.crowd((host, int(port)))
        wait_for(lambda: held_by_doors({int(port)}),
                 "strangers are there")
        self.wait_until_let_go(strangers)
        self.assertIsNone(voter.process.poll(), voter.error())

    def test_certificates_are_read_once(self):
        """With the folder away, the next connection by anybody ended the
        process at which it arrived."""
        self.start()
        copy = os.path.join(self.folder, "copy")
        shutil.copytree(self.own, copy)
        shutil.rmtree(self.own)
        strange = os.path.join(self.folder, "strange")
        Role(self.addCleanup, "coordinator", *JOB, "--join-deadline-ms", "1",
             "--certificates", strange).finish(1)
        for door in self.doors():
            for certificates in (strange, None):
                self.knock(door, certificates)
        self.wait_for_epochs(2)
        self.kill("worker:1")
        self.bring_back("worker:1", copy)
        self.check(["worker:1"])

    def knock(self, door, certificates):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        if certificates:
            context.load_cert_chain(*certificate_of("worker:0", certificates))
        with socket.create_connection(door, 5) as plain:
            plain.settimeout(5)
            try:
                with context.wrap_socket(plain) as connection:
                    connection.recv(1)
            except (OSError, ssl.SSLError):
                pass  # refused, as it should be

    def test_a_job_that_goes_on_gets_no_new_authority(self):
        """A coordinator that was started again made one, which the copies of
        other hosts do not match."""
        journal = os.path.join(self.folder, "run.db")
        self.start("--journal", journal)
        self.coordinator.process.kill()
        self.coordinator.process.wait()
        away = os.path.join(self.folder, "away")
        os.rename(self.own, away)
        again = ["coordinator", *JOB, *SERVED, "--epochs", "100000",
                 "--summary", self.summary, "--journal", journal]
        line = self.role(*again).finish(1)
        self.assertRegex(line, r"\Atroupe: certificates: .* goes on [^\n]+\n\Z")
        self.assertFalse(os.path.exists(self.own))
        os.rename(away, self.own)
        self.coordinator = self.role(*again)
        self.coordinator.address()
        self.wait_for_epochs(3)
        self.coordinator.process.send_signal(signal.SIGINT)
        self.coordinator.finish(130)
        for member in self.members.values():
            member.finish(0, 10)


if __name__ == "__main__":
    unittest.main()
