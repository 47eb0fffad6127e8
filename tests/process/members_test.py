"""Who a process is, as its certificate says: what it may do, how it gets one, how
long it holds, and how it is taken away."""
# ctest: TIMEOUT 600

import json
import os
import re
import signal
import socket
import ssl
import subprocess
import time
import unittest

from cluster import TROUPE, Run, troupe, wait_for
from own_folder import OwnFolder
from roles import Role, certificate_of
from sockets import listening_addresses

DATA = ["--data", "synthetic:digits?samples=640", "--model", "mlp:784-4-10",
        "--seed", "3"]
SERVED = ["--strategy", "parameter_server", "--workers", "1", "--ps", "1",
          "--link", "tcp", "--virtual-ranks", "2", "--eval-every", "0"]
TESTS = os.path.join(os.path.dirname(os.path.abspath(TROUPE)), "..", "tests")
PLUGIN = os.path.join(TESTS, "libplain_rules.so")
DEVICE = os.path.join(TESTS, "libpjrt_stand_in.so")


class Members(OwnFolder):
    def setUp(self):
        super().setUp()
        self.own = self.path("own")  # with the authority's key

    def new(self, member, *more):
        """A folder with that member's certificate and nothing else."""
        folder = self.path("only-" + member.replace(":", "-"))
        troupe("certificates", "new", member, "--certificates", self.own,
               "--out", folder, *more)
        return folder

    def coordinator(self, *more, folder=None):
        return Role(self.addCleanup, "coordinator", *DATA, *SERVED,
                    "--certificates", folder or self.own, "--summary",
                    self.path("summary.json"), *more)

    def role(self, name, folder, coordinator, *more):
        return Role(self.addCleanup, name, "--coordinator",
                    coordinator.address(), "--certificates", folder, *more)

    def knock(self, address, folder, member):
        """Connects as TLS does, and waits for the other side to have had
        enough; returns why, or nothing where it had not."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.load_cert_chain(os.path.join(folder, member + ".pem"),
                                os.path.join(folder, member + ".key"))
        host, port = address.rsplit(":", 1)
        with socket.create_connection((host, int(port)), 5) as plain:
            plain.settimeout(2)
            try:
                with context.wrap_socket(plain) as connection:
                    return None if connection.recv(1) else "it ended"
            except socket.timeout:
                return None
            except (OSError, ssl.SSLError) as why:
                return str(why)

    # --- names ---------------------------------------------------------------

    def test_each_role_with_its_own_certificate_and_no_more(self):
        """All members shared one key."""
        certificates = {name: self.new(name) for name in
                        ("coordinator", "ps:0", "worker:0")}
        for folder in certificates.values():
            self.assertEqual(len(os.listdir(folder)), 3)
        coordinator = self.coordinator("--epochs", "2",
                                       folder=certificates["coordinator"])
        members = [self.role(name, certificates[name], coordinator)
                   for name in ("ps:0", "worker:0")]
        coordinator.finish()
        for member in members:
            member.finish()

    def test_a_certificate_is_good_for_its_own_name_alone(self):
        folder = self.new("worker:0")
        for file in ("pem", "key"):  # under another's name, too
            os.link(os.path.join(folder, "worker-0." + file),
                    os.path.join(folder, "ps-0." + file))
        for name, part in (("worker:1", "no certificate for worker:1"),
                           ("ps:0", "is that of worker:0, and this is ps:0"),
                           ("coordinator", "no certificate for coordinator")):
            more = DATA if name == "coordinator" else ["--coordinator",
                                                       "127.0.0.1:9"]
            line = troupe("role", name, *more, "--certificates", folder,
                          status=1)
            self.assertRegex(line, r"\Atroupe: certificates: [^\n]+\n\Z")
            self.assertIn(part, line)
        line = troupe("ctl", "consistency", "async", "--coordinator",
                      "127.0.0.1:9", "--certificates", folder, status=1)
        self.assertIn("no certificate for operator", line)

    def sign(self, name, extension):
        """A certificate of a company's authority."""
        def openssl(*arguments):
            subprocess.run(["openssl", *arguments], check=True, timeout=60,
                           capture_output=True)

        folder = self.path("company")
        os.makedirs(folder, exist_ok=True)
        authority = [os.path.join(folder, "ca.pem"), self.path("company.key")]
        curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                 "-nodes"]
        if not os.path.exists(authority[0]):
            openssl("req", "-x509", *curve, "-subj", "/CN=company", "-days",
                    "9", "-out", authority[0], "-keyout", authority[1])
        request = self.path("request")
        openssl("req", "-new", *curve, "-subj", "/CN=" + name, "-out", request,
                "-keyout", os.path.join(folder, name + ".key"))
        with open(self.path("extension"), "w") as file:
            file.write(extension + "\n")
        openssl("x509", "-req", "-in", request, "-CA", authority[0], "-CAkey",
                authority[1], "-CAcreateserial", "-CAserial",
                self.path("serial"), "-days", "9", "-extfile",
                self.path("extension"), "-out",
                os.path.join(folder, name + ".pem"))
        return folder

    def test_a_companys_certificate_is_a_member_only_by_its_name(self):
        """Its web server's switched a running job's consistency."""
        for name, uri in (("coordinator", "coordinator"), ("ps-0", "ps:0"),
                          ("worker-0", "worker:0")):
            folder = self.sign(name, "subjectAltName=URI:troupe:" + uri)
        folder = self.sign("web", "subjectAltName=DNS:www.example.org")
        coordinator = self.coordinator("--epochs", "100000", folder=folder)
        address = coordinator.address()
        self.assertIsNotNone(self.knock(address, folder, "web"))
        self.assertIsNone(self.knock(address, folder, "worker-0"))
        wait_for(lambda: "names no member of a job" in coordinator.error(),
                 "a line about the stranger")
        self.role("ps:0", folder, coordinator)
        self.role("worker:0", folder, coordinator)
        wait_for(lambda: "epoch " in coordinator.output(), "an epoch")
        line = troupe("ctl", "consistency", "async", "--coordinator", address,
                      "--certificates", folder, status=1)
        self.assertIn("no certificate for operator", line)

    # --- connections -----------------------------------------------------------

    def speaks(self, door, version):
        """Whether a handshake of that version of TLS comes about at a port."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.load_cert_chain(*certificate_of("worker:0", self.own))
        context.minimum_version = context.maximum_version = version
        with socket.create_connection(door, 5) as plain:
            plain.settimeout(5)
            try:
                with context.wrap_socket(plain) as connection:
                    return connection.version() is not None
            except ssl.SSLError:
                return False

    def test_every_port_of_a_job_speaks_one_version_of_tls(self):
        """Control ports spoke what CAF does, TLS 1.2 too."""
        coordinator = self.coordinator("--epochs", "100000")
        address = coordinator.address()
        voter = Role(self.addCleanup, "--listen", "127.0.0.1:0", "--journal",
                     self.path("vote.db"), "--certificates", self.own,
                     command="voter")
        voter.address("voter")
        members = [self.role(name, self.own, coordinator)
                   for name in ("ps:0", "worker:0")]
        wait_for(lambda: "epoch " in coordinator.output(), "an epoch")
        host, port = address.rsplit(":", 1)
        doors = {(host, int(port))}  # its other port has metrics, in plain
        for role in (*members, voter):
            doors |= {("127.0.0.1", port) for _, port
                      in listening_addresses([role.process.pid])}
        self.assertGreaterEqual(len(doors), 5)
        for door in doors:
            with self.subTest(door=door):
                self.assertTrue(self.speaks(door, ssl.TLSVersion.TLSv1_3))
                self.assertFalse(self.speaks(door, ssl.TLSVersion.TLSv1_2))

    # --- code ----------------------------------------------------------------

    def cannot_take_part(self, role, flag, coordinator):
        """Another one may take its name; before, the run ended."""
        line = rf"(?m)^{role} cannot take part: the job has {flag} "
        wait_for(lambda: re.search(line, coordinator.output()), line, 10)

    def test_a_coordinator_names_no_code_for_a_role_to_load(self):
        coordinator = self.coordinator("--plugin", PLUGIN, "--server-rule",
                                       "plain_sgd", "--epochs", "1",
                                       "--optimizer", "sgd")
        shard = self.role("ps:0", self.own, coordinator)
        self.assertRegex(shard.finish(1), r"--plugin .*libplain_rules.so, and "
                         r"this role was started without it")
        self.cannot_take_part("ps:0", "--plugin", coordinator)
        for name in ("ps:0", "worker:0"):
            self.role(name, self.own, coordinator, "--plugin", PLUGIN)
        coordinator.finish()

    def test_nor_a_library_of_devices(self):
        """Symptom: whatever file a job's --devices pjrt: named was loaded."""
        device = ["--devices", "pjrt:" + DEVICE]
        coordinator = self.coordinator(*device, "--steps", "2")
        worker = self.role("worker:0", self.own, coordinator)
        self.assertRegex(worker.finish(1), r"--devices pjrt:.*libpjrt_stand_in"
                         r"\.so, and this role was started without it")
        self.cannot_take_part("worker:0", "--devices", coordinator)
        self.role("ps:0", self.own, coordinator)  # it has no device
        self.role("worker:0", self.own, coordinator, *device)
        coordinator.finish()

    # --- keys ----------------------------------------------------------------

    def test_a_launcher_that_is_killed_leaves_no_key(self):
        places = {name: self.path(name) for name in ("TMPDIR",
                                                     "XDG_STATE_HOME")}
        for place in places.values():
            os.mkdir(place)
        with Run(*DATA, *SERVED, "--processes", "--epochs", "100000",
                 environment=places) as run:
            run.wait_for_step(5)
            run.kill("worker:0")  # comes back with a certificate of its own
            run.wait_for_step(run.step() + 20)
            run.process.kill()
            run.process.wait()
            found = []
            for place in places.values():
                for folder, _, files in os.walk(place):
                    for name in files:
                        with open(os.path.join(folder, name), "rb") as file:
                            if b"PRIVATE KEY" in file.read():
                                found.append(name)
            self.assertEqual(found, [])

    # --- tokens --------------------------------------------------------------

    def token(self, member, *more):
        return troupe("certificates", "token", member, "--certificates",
                      self.own, *more).strip()

    def test_a_token_lets_one_member_join_once(self):
        coordinator = self.coordinator("--epochs", "100000")
        coordinator.address()
        shard = self.path("shard")
        token = self.token("ps:0")
        self.role("ps:0", shard, coordinator, "--token", token)
        self.role("worker:0", self.path("worker"), coordinator, "--token",
                  self.token("worker:0"))
        wait_for(lambda: "epoch " in coordinator.output(), "an epoch")
        self.assertEqual(set(os.listdir(shard)),
                         {"ca.pem", "ps-0.pem", "ps-0.key"})

        def refused(name, token, folder="other"):
            line = troupe("role", name, "--coordinator", coordinator.address(),
                          "--certificates", self.path(folder), "--token",
                          token, status=1)
            self.assertRegex(line, r"\Atroupe: [^\n]+\n\Z")
            self.assertFalse(os.path.exists(self.path(folder)))
            return line

        self.assertIn("used before", refused("ps:0", token))
        self.assertIn("is for ps:0", refused("worker:1", token))
        late = self.token("ps:0", "--token-seconds", "1")
        time.sleep(2.1)
        self.assertIn("held until", refused("ps:0", late))
        forged = self.token("worker:1").replace("worker:1", "ps:0")
        self.assertIn("not made for this job", refused("ps:0", forged))
        self.assertIn("no token", refused("ps:0", "abc"))
        # Another job's authority is not what the token says.
        troupe("certificates", "new", "operator", "--certificates",
               self.path("strange"))
        strange = troupe("certificates", "token", "ps:0", "--certificates",
                         self.path("strange")).strip()
        self.assertIn("certificate", refused("ps:0", strange))

    # --- dates ---------------------------------------------------------------

    def test_certificates_are_renewed_while_a_job_runs(self):
        """They ended after 30 days without a word, and the next death ended
        the run."""
        short = ["--certificate-seconds", "8"]
        coordinator = self.coordinator("--epochs", "100000", *short)
        coordinator.address()
        members = [self.role("ps:0", self.path("shard"), coordinator, "--token",
                             self.token("ps:0")),
                   self.role("worker:0", self.own, coordinator, *short)]
        for process in (coordinator, *members):
            wait_for(lambda p=process: p.error().count("is renewed") >= 3,
                     "three renewals")
        # Everybody's first certificate has ended: this takes the new ones.
        members[1].process.kill()
        members[1].process.wait()
        members[1] = self.role("worker:0", self.own, coordinator, *short)
        before = coordinator.output().count("epoch ")
        wait_for(lambda: coordinator.output().count("epoch ") > before + 2,
                 "it goes on")
        coordinator.process.send_signal(signal.SIGINT)
        coordinator.finish(130)
        with open(self.path("summary.json")) as file:
            roles = {x["role"] for x in json.load(file)["recoveries"]}
        self.assertEqual(roles, {"worker:0"})

    def test_dates_are_named_on_a_host_whose_clock_is_wrong(self):
        """It asked whether the coordinator was running."""
        folder = self.new("worker:0")
        for hours, part in ((-2, "is valid from"), (31 * 24, "is valid from")):
            clock = {"TROUPE_CLOCK_OFFSET_S": str(hours * 3600)}
            line = troupe("role", "worker:0", "--coordinator", "127.0.0.1:9",
                          "--certificates", folder, status=1,
                          environment=clock)
            self.assertRegex(line, r"\Atroupe: certificates: [^\n]+\n\Z")
            self.assertIn(part, line)
            self.assertRegex(line, r"this host's clock says \d{4}-\d\d-\d\d ")
        # One that makes its own certificate finds the coordinator's too old.
        coordinator = self.coordinator("--epochs", "100000")
        line = troupe("ctl", "consistency", "async", "--coordinator",
                      coordinator.address(), "--certificates", self.own,
                      status=1, environment={"TROUPE_CLOCK_OFFSET_S": str(
                          31 * 24 * 3600)})
        self.assertIn("the certificate of coordinator is valid from", line)

    def test_what_cannot_be_renewed_is_said_in_time(self):
        """Certificates ended without a word. A voter has nobody to ask."""
        began = time.monotonic()
        voter = Role(self.addCleanup, "--listen", "127.0.0.1:0", "--journal",
                     self.path("vote.db"), "--certificates",
                     self.new("voter", "--certificate-seconds", "12"),
                     command="voter")
        wait_for(lambda: "is not renewed" in voter.error(), "a line")
        self.assertLess(time.monotonic() - began, 12)
        self.assertRegex(voter.error(), r"\Avoter: the certificate of voter ends "
                         r"at \d{4}-\S+ \S+ UTC and is not renewed: [^\n]+\n\Z")
        self.assertIsNone(voter.process.poll())

    def test_what_a_folder_has_is_shown(self):
        shown = troupe("certificates", "show", "--certificates",
                       self.new("worker:0"))
        self.assertRegex(shown, r"(?m)^worker-0.pem: worker:0, from \d{4}-")
        self.assertRegex(shown, r"(?m)^ca.pem: no member's, from \d{4}-")

    # --- revocation ----------------------------------------------------------

    def test_who_is_revoked_is_cut_off_and_stays_out(self):
        coordinator = self.coordinator("--epochs", "100000")
        address = coordinator.address()
        folder = self.new("worker:0")
        self.role("ps:0", self.own, coordinator)
        worker = self.role("worker:0", folder, coordinator)
        wait_for(lambda: "epoch " in coordinator.output(), "an epoch")
        line = troupe("certificates", "revoke", "worker:0", "--coordinator",
                      address, "--certificates", self.new("ps:0"), status=1)
        self.assertIn("no certificate for operator", line)
        troupe("certificates", "revoke", "worker:0", "--coordinator", address,
               "--certificates", self.own)
        self.assertIsNotNone(self.knock(address, folder, "worker-0"))
        wait_for(lambda: "worker:0 is revoked" in coordinator.error(),
                 "a line about it")
        line = troupe("certificates", "renew", "worker:0", "--coordinator",
                      address, "--certificates", folder, status=1)
        self.assertRegex(line, r"\Atroupe: certificates: [^\n]+\n\Z")
        # One that is made from now on is taken again.
        worker.stop()
        time.sleep(1.1)
        before = coordinator.output().count("epoch ")
        self.role("worker:0", self.new("worker:0"), coordinator)
        wait_for(lambda: coordinator.output().count("epoch ") > before,
                 "it goes on")


if __name__ == "__main__":
    unittest.main()
