"""Who has no part in a job may say anything at any of its ports: the job ends
with the bits of one that nobody disturbed, takes no memory for what strangers
claim, and says little about them (PITFALLS of CAF and of sockets)."""
# ctest: TIMEOUT 1200

import json
import os
import re
import shutil
import signal
import socket
import ssl
import struct
import tempfile
import threading
import time
import unittest
import urllib.request

from cluster import Run, wait_for
from roles import Role, certificate_of
from sockets import listening_addresses

JOB = ["--data", "synthetic:digits?samples=2000", "--model", "mlp:784-48-10",
       "--eval-fraction", "0.1", "--global-batch", "64", "--virtual-ranks",
       "4", "--seed", "7"]
SERVED = ["--strategy", "parameter_server", "--workers", "2", "--ps", "1",
          "--link", "tcp"]
MEMBERS = ["ps:0", "worker:0", "worker:1"]
GET = b"GET /metrics HTTP/1.1\r\nHost: x\r\n"
MOST_CLAIMED = 1 << 30  # bytes of address space: less than anybody claims


def endpoint(address):
    host, port = address.rsplit(":", 1)
    return host, int(port)


def basp_header(operation, payload_bytes, words=b""):
    """A header of CAF's protocol, by which a peer's actors are reached."""
    return struct.pack(">BBBBIQQQ", operation, 0, 0, 1, payload_bytes, 1, 1,
                       1) + words


def greeting(revision=4, purpose=1, key="0" * 32, epoch=1, name="ps:0"):
    """What a link says first (actors/links/hello.hpp)."""
    def text(value):
        return struct.pack("<H", len(value)) + value.encode()

    body = struct.pack("<IIB", 0x6f6c6c68, revision, purpose) + text(key) \
        + struct.pack("<QQQQ", 7, 7, 1, epoch) + text(name) \
        + text("worker:0") + struct.pack("<IIBBB", 0, 2, 0, 0, 0)
    return struct.pack("<I", len(body)) + body


def tls_records(length):
    """The beginning of a ClientHello that claims more than it brings."""
    return struct.pack(">BHH", 22, 0x0301, length) \
        + struct.pack(">I", 0x01ffffff) + b"\x03\x03" + b"x" * 64


# Said without TLS, at every port.
PLAIN = {
    "noise": os.urandom(4096),
    "zeros": bytes(4096),
    "http": GET + b"\r\n",
    "half a request": GET,
    "endless line": b"GET /" + b"x" * (1 << 20),
    "endless headers": GET + b"x: y\r\n" * 50_000,
    "huge body": b"POST /metrics HTTP/1.1\r\nHost: x\r\n"
                 b"Content-Length: 9223372036854775807\r\n\r\nxx",
    "huge chunk": b"POST /metrics HTTP/1.1\r\nHost: x\r\n"
                  b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nxx",
    "half a record": b"\x16\x03\x01\x02",
    "huge record": tls_records(0xffff),
    "handshake without payload": basp_header(1, 0),
    "huge payload": basp_header(0, 0xffffffff, b"x" * 64),
    "frame": b"TRLK\x01\x00\x40\x00" + b"\xff" * 72,
    "greeting": greeting(),
    "huge greeting": b"\xff" * 64,
}
# Said by a member of the job that takes the port for another's: the links'.
GREETINGS = {
    "another job's": greeting(key="f" * 32),
    "another epoch's": greeting(epoch=1 << 60),
    "another build's": greeting(revision=99),
    "huge": b"\xff\xff\xff\xff" + b"x" * 64,
    "half": greeting()[:20],
    "no": os.urandom(512),
}


def talk(connection, data):
    """Says it and waits for the other side to have had enough."""
    connection.settimeout(5)
    connection.sendall(data)
    if data is PLAIN["half a record"]:
        return b""  # it may wait for the rest
    answer = b""
    while part := connection.recv(65536):
        answer += part
    return answer


def speak_plainly(address, data):
    with socket.create_connection(address, 5) as connection:
        return talk(connection, data)


def speak_tls(address, data, certificates=None):
    """A client that trusts everybody."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if certificates:
        context.load_cert_chain(*certificate_of("worker:0", certificates))
    with socket.create_connection(address, 5) as plain:
        plain.settimeout(5)
        with context.wrap_socket(plain) as connection:
            return talk(connection, data)


def address_space(pid):
    """The most that a process had, in bytes."""
    with open(f"/proc/{pid}/status") as file:
        return int(re.search(r"VmPeak:\s+(\d+)", file.read()).group(1)) << 10


class Strangers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.own = os.path.join(self.folder, "own")
        self.strange = os.path.join(self.folder, "strange")
        self.summary = os.path.join(self.folder, "summary.json")
        self.answers = []  # (port, what was said, what came back)

    def role(self, *arguments, certificates=None):
        return Role(self.addCleanup, *arguments, "--certificates",
                    certificates or self.own)

    def start(self):
        self.coordinator = self.role("coordinator", *JOB, *SERVED, "--epochs",
                                     "100000", "--summary", self.summary)
        self.control = endpoint(self.coordinator.address())
        self.members = [self.role(name, "--coordinator",
                                  self.coordinator.address())
                        for name in MEMBERS]
        wait_for(lambda: "epoch 1 " in self.coordinator.output(),
                 "an epoch's end")
        self.roles = [self.coordinator, *self.members]
        self.spaces = [address_space(role.process.pid) for role in self.roles]

    def ports(self, role):
        return [("127.0.0.1", port) for _, port in
                listening_addresses([role.process.pid])]

    def metrics(self):
        found = [one for one in self.ports(self.coordinator)
                 if one != self.control]
        self.assertEqual(len(found), 1)
        return found[0]

    def links(self):
        """Where workers meet their links; of a shard, CAF's port is there."""
        found = self.ports(self.members[1])
        self.assertEqual(len(found), 1)
        return found[0]

    def disturb(self, *speakers):
        """All of them at once, while the job goes on."""
        threads = [threading.Thread(target=speaker) for speaker in speakers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(90)
            self.assertFalse(thread.is_alive())
        for role, before in zip(self.roles, self.spaces):
            self.assertIsNone(role.process.poll(), role.error())
            self.assertLess(address_space(role.process.pid) - before,
                            MOST_CLAIMED)

    def speaker(self, door, sayings, speak, *more):
        """Says one after the other, each twice."""
        def say_all():
            for what, data in [*sayings.items()] * 2:
                try:
                    answer = speak(door, data, *more)
                except (OSError, ssl.SSLError):
                    continue  # refused, as it should be
                if answer:
                    self.answers.append((door, what, answer[:120]))
        return say_all

    def check_undisturbed(self):
        """Ends the job; one that nobody disturbed has the same bits there."""
        self.coordinator.process.send_signal(signal.SIGINT)
        self.coordinator.finish(130)
        for member in self.members:
            member.finish(0, 10)
        with open(self.summary) as file:
            summary = json.load(file)
        self.assertEqual(summary["recoveries"], [])
        self.assertEqual(summary["steps_rolled_back"], 0)
        with Run(*JOB, "--strategy", "one_device", "--steps",
                 str(summary["steps"])) as run:
            expected = run.finish()
        for name in ("weights_sha256", "state_sha256", "steps"):
            self.assertEqual(summary[name], expected[name])

    def check_few_lines(self, seconds):
        """Of each kind at most one line in ten seconds; nothing else."""
        self.check_coordinator_said_little(seconds)
        for name, member in zip(MEMBERS, self.members):
            self.check_lines(name, member.error().splitlines(), seconds)

    def check_lines(self, name, lines, seconds):
        for kind in ("links: dropped a stranger:", "control:"):
            found = [line for line in lines
                     if line.startswith(f"{name}: {kind}")]
            self.assertLessEqual(len(found), 1 + seconds / 10, found)
            for line in found:
                self.assertRegex(line, r"\A[ -~]+ \(\d+ so far\)\Z")
            lines = [line for line in lines if line not in found]
        self.assertEqual(lines, [])

    def check_coordinator_said_little(self, seconds):
        *lines, last = self.coordinator.error().splitlines()
        self.assertRegex(last, r"\Atroupe: interrupted after step \d+ of ")
        self.check_lines("coordinator", lines, seconds)

    # --- the tests ------------------------------------------------------------

    def test_a_job_takes_no_notice_of_what_strangers_say_at_its_ports(self):
        self.role("coordinator", *JOB, "--join-deadline-ms", "1",
                  certificates=self.strange).finish(1)
        begin = time.monotonic()
        self.start()
        doors = [self.control, *(door for member in self.members
                                 for door in self.ports(member))]
        self.assertEqual(len(doors), 5)  # control, the shard's two, the links
        self.disturb(*(
            speaker for door in doors for speaker in (
                self.speaker(door, PLAIN, speak_plainly),
                self.speaker(door, {"noise": PLAIN["noise"]}, speak_tls),
                self.speaker(door, GREETINGS, speak_tls, self.strange))))
        self.check_undisturbed()
        self.check_few_lines(time.monotonic() - begin)
        for member in self.members:
            self.assertNotEqual(member.error(), "")
        # At most a TLS alert.
        for door, what, answer in self.answers:
            self.assertEqual(answer[:1], b"\x15", (door, what))

    def test_a_member_who_greets_wrongly_is_a_stranger_too(self):
        begin = time.monotonic()
        self.start()
        self.disturb(self.speaker(self.links(), GREETINGS, speak_tls,
                                  self.own))
        self.check_undisturbed()
        self.check_few_lines(time.monotonic() - begin)
        self.assertIn("links: dropped a stranger", self.members[1].error())
        # Told why: whoever is of another build, and nobody else.
        for _, what, answer in self.answers:
            self.assertEqual(what, "another build's")
            self.assertIn(b"use the same build", answer)
        self.assertTrue(self.answers)

    def test_the_metrics_go_on_whatever_is_asked_of_them(self):
        self.start()
        door = self.metrics()
        pages = []

        def scrape():
            """As a Prometheus would, while strangers hold connections."""
            for _ in range(3):
                held = [socket.create_connection(door, 5) for _ in range(8)]
                for number, one in enumerate(held):
                    one.sendall((b"", GET)[number % 2])
                url = f"http://{door[0]}:{door[1]}/metrics"
                with urllib.request.urlopen(url, timeout=30) as answer:
                    pages.append(answer.read())
                for one in held:
                    one.close()

        # Most are let go after two seconds only: all at once.
        self.disturb(scrape,
                     *(self.speaker(door, {what: data}, speak_plainly)
                       for what, data in PLAIN.items()),
                     self.speaker(door, {"noise": PLAIN["noise"]}, speak_tls))
        self.check_undisturbed()
        self.check_coordinator_said_little(0)
        self.assertEqual(len(pages), 3)
        for page in pages:
            self.assertIn(b"troupe_steps_committed_total", page)


if __name__ == "__main__":
    unittest.main()
