"""Metrics that leave the host: Debian's Prometheus and troupe status read them
over TLS with a token, and nobody else does. The test is in a network namespace
of its own, where 10.77.0.1 is an address of the machine."""

import base64
import http.client
import os
import shutil
import socket
import ssl
import stat
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from cluster import TROUPE, Run, wait_for
from hosts import skip_unless_possible
from prometheus_test import MONITORING, Process, Prometheus, free_port, program

HOST = "10.77.0.1"
INSIDE = "TROUPE_REMOTE_METRICS_TEST"
DIGITS = ["--data", "synthetic:digits?samples=2000", "--model", "mlp:784-16-10",
          "--epochs", "1000000"]
SERVED = ["--strategy", "parameter_server", "--workers", "1", "--ps", "1"]
REQUEST_S = 2  # request_patience of monitoring/page_server.cpp


class Remote(Prometheus):
    """Prometheus with the configuration that is shipped, in a folder."""

    def __init__(self, target, folder):
        config = Path(folder) / "remote.yml"
        config.write_text((MONITORING / "prometheus" / "remote.yml").read_text()
                          .replace("10.0.0.1:9400", target)
                          .replace("interval: 5s", "interval: 1s"))
        shutil.copy(MONITORING / "prometheus" / "rules.yml", folder)
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        Process.__init__(
            self, [program("prometheus"), f"--config.file={config}",
                   f"--storage.tsdb.path={folder}/data",
                   f"--web.listen-address=127.0.0.1:{port}"], folder)


class RemoteMetrics(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.certificates = os.path.join(folder.name, "certs")
        cls.run_ = cls.enterClassContext(Run(
            *DIGITS, *SERVED, "--certificates", cls.certificates,
            "--metrics-address", f"{HOST}:0"))
        cls.address = wait_for(cls.find_address, "the address of the metrics")
        # What a reader gets, and no more.
        cls.reader = os.path.join(folder.name, "reader")
        os.mkdir(cls.reader, 0o700)
        for name in ("ca.pem", "metrics-token"):
            shutil.copy(os.path.join(cls.certificates, name), cls.reader)

    @classmethod
    def find_address(cls):
        assert cls.run_.process.poll() is None, cls.run_.error()
        lines = [line for line in cls.run_.output().splitlines()
                 if line.startswith(f"metrics: https://{HOST}:")]
        return lines and lines[-1].split("/")[2]

    def token(self):
        with open(os.path.join(self.reader, "metrics-token")) as file:
            return file.read().strip()

    def ask(self, headers=None, path="/metrics"):
        """The status, and the page."""
        context = ssl.create_default_context(
            cafile=os.path.join(self.reader, "ca.pem"))
        host, port = self.address.split(":")
        wire = context.wrap_socket(socket.create_connection((host, int(port)),
                                                            5),
                                   server_hostname="coordinator.troupe.internal")
        connection = http.client.HTTPConnection(host)
        connection.sock = wire
        connection.request("GET", path, headers=headers or {})
        answer = connection.getresponse()
        page = answer.read().decode()
        connection.close()
        return answer.status, page

    def test_prometheus_reads_them_as_its_shipped_configuration_says(self):
        prometheus = Remote(self.address, self.reader)
        self.addCleanup(prometheus.stop)
        wait_for(lambda: (prometheus.target() or {}).get("health") == "up",
                 "the target is up", 60)
        wait_for(lambda: prometheus.query("troupe_steps_committed_total > 0"),
                 "steps are seen", 30)
        subprocess.run([program("promtool"), "check", "config",
                        f"{self.reader}/remote.yml"], check=True, timeout=30,
                       stdout=subprocess.DEVNULL)

    def test_status_reads_them_with_two_files(self):
        for operand in (self.address, f"https://{self.address}/metrics"):
            done = subprocess.run(
                [TROUPE, "status", operand, "--certificates", self.reader],
                capture_output=True, text=True, timeout=30)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("worker:0", done.stdout)

    def test_who_has_no_token_or_another_one_gets_nothing(self):
        for headers in ({}, {"Authorization": "Bearer x"},
                        {"Authorization": "Bearer " + self.token() + "0"},
                        {"Authorization": "Basic " + self.token()}):
            self.assertEqual(self.ask(headers), (401, self.ask()[1]))
        status, page = self.ask({"authorization": "bearer  " + self.token()})
        self.assertEqual(status, 200)
        self.assertIn("troupe_steps_committed_total", page)

    def test_a_browser_shows_the_token_as_a_password(self):
        for path in ("/", "/snapshot", "/metrics"):
            status, line = self.ask({}, path)
            self.assertEqual(status, 401)
            self.assertRegex(line, r"\A401 Unauthorized: the job's metrics-token "
                             r"is missing.*\n\Z")
            name = base64.b64encode(f"me:{self.token()}".encode()).decode()
            status, page = self.ask({"Authorization": "Basic " + name}, path)
            self.assertEqual(status, 200)
            self.assertNotIn(self.token(), page)
            other = base64.b64encode(f"{self.token()}:".encode()).decode()
            self.assertEqual(
                self.ask({"Authorization": "Basic " + other}, path)[0], 401)
        self.assertIn(f"page: https://{self.address}/\n", self.run_.output())

    def test_the_token_is_for_its_owner_alone(self):
        path = os.path.join(self.certificates, "metrics-token")
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        self.assertGreaterEqual(len(self.token()), 32)
        open_to_all = os.path.join(self.reader, "read-by-all")
        shutil.copy(path, open_to_all)
        os.chmod(open_to_all, 0o644)
        done = subprocess.run(
            [TROUPE, "status", self.address, "--certificates", self.reader,
             "--metrics-token", open_to_all], capture_output=True, text=True,
            timeout=30)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"\Atroupe: .*others may read it.*\n\Z")

    def test_readers_of_another_job_are_told_so(self):
        other = tempfile.TemporaryDirectory()
        self.addCleanup(other.cleanup)
        done = subprocess.run(
            [TROUPE, "certificates", "new", "worker:0", "--certificates",
             self.certificates, "--out", other.name], capture_output=True,
            timeout=30)
        self.assertEqual(done.returncode, 0)
        shutil.copy(os.path.join(self.reader, "metrics-token"), other.name)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=x",
                        "-keyout", os.path.join(other.name, "x.key"), "-out",
                        os.path.join(other.name, "ca.pem")], check=True,
                       capture_output=True, timeout=30)
        done = subprocess.run([TROUPE, "status", self.address,
                               "--certificates", other.name],
                              capture_output=True, text=True, timeout=30)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"\Atroupe: metrics at .*TLS: .*\n\Z")

    def test_plain_requests_and_silent_clients_are_let_go(self):
        host, port = self.address.split(":")
        plain = socket.create_connection((host, int(port)), 5)
        plain.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        silent = socket.create_connection((host, int(port)), 5)
        half = socket.create_connection((host, int(port)), 5)
        half.sendall(b"\x16\x03\x01\x02\x00\x01")  # a hello's beginning
        began = time.monotonic()
        for wire in (plain, silent, half):
            wire.settimeout(5 * REQUEST_S)
            said = b""
            try:
                while part := wire.recv(4096):
                    said += part
            except ConnectionResetError:
                pass
            self.assertNotIn(b"troupe", said)
            wire.close()
        self.assertLess(time.monotonic() - began, 5 * REQUEST_S)

    def test_hundreds_of_silent_connections_keep_nobody_waiting(self):
        host, port = self.address.split(":")
        silent = [socket.create_connection((host, int(port)), 5)
                  for _ in range(500)]
        status, _ = self.ask({"Authorization": "Bearer " + self.token()})
        self.assertEqual(status, 200)
        for wire in silent:
            wire.close()


class InOneProcess(unittest.TestCase):
    def test_a_run_without_processes_has_the_same(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        certificates = os.path.join(folder.name, "certs")
        with Run(*DIGITS, "--strategy", "one_device", "--certificates",
                 certificates, "--metrics-address", f"{HOST}:0") as run:
            line = wait_for(lambda: [x for x in run.output().splitlines()
                                     if x.startswith("metrics: https://")],
                            "the address")[0]
            done = subprocess.run(
                [TROUPE, "status", line.split(" ")[1], "--certificates",
                 certificates], capture_output=True, text=True, timeout=30)
            self.assertEqual(done.returncode, 0, done.stderr)
            refused = subprocess.run(
                [TROUPE, "status", line.split(" ")[1]], capture_output=True,
                text=True, timeout=30)
            self.assertIn("add --certificates DIR", refused.stderr)


if __name__ == "__main__":
    skip_unless_possible()
    if INSIDE not in os.environ:
        os.environ[INSIDE] = "1"
        os.execvp("unshare", [
            "unshare", "--net", "sh", "-c",
            f"ip link set lo up && ip address add {HOST}/32 dev lo && "
            'exec "$@"', "sh", sys.executable, *sys.argv])
    unittest.main()
