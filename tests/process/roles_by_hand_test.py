"""Roles started one by one, by flags and by TF_CONFIG: the same weights as one
process makes (I3). Who has no certificate of the job has no part in it, and
nothing of a job listens beyond this machine unless told to."""
# ctest: TIMEOUT 1200

import json
import os
import re
import signal
import socket
import ssl
import tempfile
import threading
import time
import unittest

from cluster import Run, wait_for
from roles import Role
from sockets import listening_addresses

JOB = ["--data", "synthetic:digits?samples=2000", "--model", "mlp:784-48-10",
       "--eval-fraction", "0.1", "--global-batch", "64", "--virtual-ranks",
       "4", "--seed", "7"]
# Seconds: time enough for strangers to knock at the door.
LONG_JOB = [*JOB, "--epochs", "60"]
TWO_WORKERS = ["--workers", "2", "--ps", "1"]
MEMBERS = ["ps:0", "worker:0", "worker:1"]
LOOPBACK_4 = "0100007F"


def endpoint(address):
    host, port = address.rsplit(":", 1)
    return host, int(port)


def free_ports(count):
    """Ports that nobody used a moment ago."""
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in taken]
    for one in taken:
        one.close()
    return ports


class RolesByHand(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.expected = cls.in_process(JOB)
        cls.expected_long = cls.in_process(LONG_JOB)

    @classmethod
    def in_process(cls, job):
        with Run(*job, "--strategy", "one_device") as run:
            return run.finish()

    def certificates(self, name="certificates"):
        """A folder of this test's own; coordinators make what it holds."""
        return os.path.join(self.folder.name, self.id(), name)

    def coordinator(self, *arguments, certificates=None):
        summary = os.path.join(self.folder.name, f"{self.id()}.json")
        role = Role(self.addCleanup, "coordinator", "--certificates",
                    certificates or self.certificates(), "--summary", summary,
                    *arguments)
        role.summary_path = summary
        return role

    def member(self, role, coordinator, certificates=None):
        return Role(self.addCleanup, role, "--coordinator",
                    coordinator.address(), "--certificates",
                    certificates or self.certificates())

    def strange_certificates(self):
        """What another job's authority signed."""
        strange = self.certificates("strange")
        other = self.coordinator(*JOB, "--join-deadline-ms", "1",
                                 certificates=strange)
        other.finish(1)
        return strange

    def check_undisturbed(self, coordinator, members, expected):
        coordinator.finish()
        for member in members:
            member.finish(0, 10)
        with open(coordinator.summary_path) as file:
            summary = json.load(file)
        for name in ("weights_sha256", "state_sha256", "steps"):
            self.assertEqual(summary[name], expected[name])
        self.assertEqual(summary["recoveries"], [])
        self.assertEqual(summary["steps_rolled_back"], 0)
        self.assertEqual([line for line in coordinator.error().splitlines()
                          if not line.startswith("coordinator: control: ")],
                         [])

    def start_long_job(self):
        coordinator = self.coordinator(*LONG_JOB, *TWO_WORKERS)
        members = [self.member(role, coordinator) for role in MEMBERS]
        wait_for(lambda: "epoch 1 " in coordinator.output(), "an epoch's end")
        return coordinator, members

    # --- roles that belong ----------------------------------------------------

    def test_roles_by_flags_make_the_same_weights(self):
        coordinator = self.coordinator(*JOB, *TWO_WORKERS)
        members = [self.member(role, coordinator) for role in MEMBERS]
        address = re.escape(coordinator.address())
        self.check_undisturbed(coordinator, members, self.expected)
        for role, member in zip(MEMBERS, members):
            self.assertRegex(member.output(), rf"{role}: joins the job of {address}"
                             rf"\n{role}: is done\n\Z")
        self.assertNotIn("still being written", coordinator.output())

    def test_roles_by_tf_config_make_the_same_weights_in_any_order(self):
        certificates = self.certificates()
        self.coordinator(*JOB, "--join-deadline-ms", "1").finish(1)
        chief, shard, first, second = (f"127.0.0.1:{port}"
                                       for port in free_ports(4))
        cluster = {"chief": [chief], "ps": [shard], "worker": [first, second]}

        def role(kind, index, *arguments):
            return Role(self.addCleanup, "--certificates", certificates,
                        *arguments, tf_config={"cluster": cluster,
                                   "task": {"type": kind, "index": index}})

        members = [role("worker", 1), role("ps", 0), role("worker", 0)]
        summary = os.path.join(self.folder.name, f"{self.id()}.json")
        coordinator = role("chief", 0, *JOB, "--summary", summary)
        coordinator.summary_path = summary
        self.assertEqual(coordinator.address(), chief)
        self.check_undisturbed(coordinator, members, self.expected)

    def test_a_role_that_never_joins_is_named_and_the_others_end(self):
        coordinator = self.coordinator(*JOB, *TWO_WORKERS,
                                       "--join-deadline-ms", "3000")
        members = [self.member(role, coordinator)
                   for role in ("ps:0", "worker:0")]
        error = coordinator.finish(1)
        self.assertRegex(error, r"\A(coordinator: control: [^\n]+\n)*"
                         r"troupe: worker:1 did not join .*\n\Z")
        self.assertFalse(os.path.exists(coordinator.summary_path))
        for member in members:
            wait_for(lambda: member.process.poll() is not None,
                     "a role without coordinator ends", 5)

    def test_ctrl_c_ends_a_coordinator_whose_roles_are_not_there(self):
        coordinator = self.coordinator(*JOB, *TWO_WORKERS)
        coordinator.address()
        begin = time.monotonic()
        coordinator.process.send_signal(signal.SIGINT)
        error = coordinator.finish(130, 30)
        self.assertLess(time.monotonic() - begin, 2)
        # Who gives up waiting may say so just as the coordinator has ended.
        self.assertRegex(error, r"\A(troupe: interrupted .*\n){1,2}\Z")

    # --- strangers ------------------------------------------------------------

    def test_a_worker_with_other_certificates_does_not_join(self):
        strange = self.strange_certificates()
        coordinator = self.coordinator(*JOB, *TWO_WORKERS,
                                       "--join-deadline-ms", "4000")
        self.member("ps:0", coordinator)
        self.member("worker:0", coordinator)
        self.member("worker:1", coordinator, strange)
        self.assertRegex(coordinator.finish(1),
                         r"\A(coordinator: control: [^\n]+\n)*"
                         r"troupe: worker:1 did not join .*\n\Z")

    def test_a_worker_with_other_certificates_changes_nothing(self):
        strange = self.strange_certificates()
        coordinator, members = self.start_long_job()
        stranger = self.member("worker:0", coordinator, strange)
        self.assertRegex(stranger.finish(1, 20),
                         r"\Atroupe: .*certificates.*\n\Z")
        self.check_undisturbed(coordinator, members, self.expected_long)

    def test_a_shard_refuses_other_certificates_too(self):
        coordinator, members = self.start_long_job()
        addresses = listening_addresses([members[0].process.pid])
        self.assertEqual(len(addresses), 2)  # actors, links
        for _, port in addresses:
            self.assertRaises((ssl.SSLError, OSError), self.speak_tls,
                              f"127.0.0.1:{port}", b"x" * 64)
        self.check_undisturbed(coordinator, members, self.expected_long)

    def speak_tls(self, address, data):
        """A client that trusts everybody and shows no certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        with socket.create_connection(endpoint(address), 10) as plain:
            plain.settimeout(10)
            with context.wrap_socket(plain) as wrapped:
                wrapped.sendall(data)
                answer = wrapped.recv(64)
                if not answer:
                    raise ConnectionResetError("closed")
                self.fail(f"it answered {answer}")

    def speak_plainly(self, address, data):
        with socket.create_connection(endpoint(address), 10) as plain:
            plain.settimeout(10)
            plain.sendall(data)
            while plain.recv(4096):
                pass

    def disturb(self, coordinator, *disturbances):
        """Calls all of them again and again until the job is over; returns how
        often each did its worst while the job ran."""
        counts = [0] * len(disturbances)
        address = coordinator.address()

        def repeat(index):
            while coordinator.process.poll() is None:
                try:
                    disturbances[index](address)
                except (OSError, ssl.SSLError):
                    pass  # refused, as it should be
                if coordinator.process.poll() is None:
                    counts[index] += 1

        threads = [threading.Thread(target=repeat, args=[index])
                   for index in range(len(disturbances))]
        for thread in threads:
            thread.start()
        coordinator.process.wait(90)
        for thread in threads:
            thread.join(30)
        return counts

    def test_garbage_at_the_coordinators_port_changes_nothing(self):
        coordinator, members = self.start_long_job()
        garbage = os.urandom(4096)
        held = [socket.create_connection(endpoint(coordinator.address()), 10)
                for _ in range(8)]  # open, silent and half a greeting
        for one in held:
            self.addCleanup(one.close)
            one.sendall(b"\x16\x03\x01\x02")
        counts = self.disturb(
            coordinator,
            lambda address: self.speak_plainly(address, garbage),
            lambda address: self.speak_plainly(
                address, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
            lambda address: self.speak_tls(address, garbage))
        self.check_undisturbed(coordinator, members, self.expected_long)
        for count in counts:
            self.assertGreater(count, 2)

    def test_roles_join_while_garbage_arrives(self):
        coordinator = self.coordinator(*LONG_JOB, *TWO_WORKERS)
        garbage = os.urandom(256)
        members = []
        starter = threading.Thread(target=lambda: members.extend(
            self.member(role, coordinator) for role in MEMBERS))
        coordinator.address()
        starter.start()
        self.disturb(coordinator,
                     lambda address: self.speak_plainly(address, garbage),
                     lambda address: self.speak_tls(address, garbage))
        starter.join(30)
        self.check_undisturbed(coordinator, members, self.expected_long)

    # --- listeners ------------------------------------------------------------

    def test_every_listener_of_a_job_is_on_loopback(self):
        with Run(*LONG_JOB, "--strategy", "parameter_server", "--processes",
                 "--workers", "2", "--ps", "2") as run:
            run.wait_for_step(20)
            children = run.children()
            self.assertEqual(len(children), 5)
            listening = listening_addresses([run.process.pid,
                                             *children.values()])
            # Coordinator, metrics, two shards, and the links of each role.
            self.assertEqual(len(listening), 8, listening)
            self.assertEqual({address for address, _ in listening},
                             {LOOPBACK_4})
            run.finish()


if __name__ == "__main__":
    unittest.main()
