"""`troupe doctor` of this machine, of what flags name, and of running jobs with
a trouble each: the culprit and its cause."""
# ctest: TIMEOUT 300

import contextlib
import os
import re
import signal
import socket
import subprocess
import threading
import time
import unittest

from cluster import ENDLESS, TROUPE, Run, findings, wait_for
from own_folder import OwnFolder

JOB = ["--data", "synthetic:digits?samples=2000", "--eval-every", "0",
       *ENDLESS]
SERVED = ["--strategy", "parameter_server", "--workers", "3", "--ps", "1",
          "--virtual-ranks", "3", "--processes"]


def slow_way(clean, address, seconds):
    """HOST:PORT at which one gets to an address, so much later."""
    host, port = address.rsplit(":", 1)
    door = socket.create_server(("127.0.0.1", 0))

    def hand_over(source, to):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                to.sendall(data)
            to.shutdown(socket.SHUT_WR)

    def serve():
        with contextlib.suppress(OSError):  # the door is shut, or the run over
            while True:
                visitor, _ = door.accept()
                time.sleep(seconds)
                with visitor, socket.create_connection((host, int(port))) as run:
                    back = threading.Thread(target=hand_over,
                                            args=(run, visitor))
                    back.start()
                    hand_over(visitor, run)
                    back.join()
    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    clean(lambda: (door.shutdown(socket.SHUT_RDWR), door.close(),
                   thread.join()))
    return "127.0.0.1:" + str(door.getsockname()[1])


def doctor(*arguments, **options):
    done = subprocess.run([TROUPE, "doctor", *arguments], capture_output=True,
                          text=True, timeout=60, check=False, **options)
    return done.returncode, done.stdout, done.stderr


class Machine(OwnFolder):
    def test_what_a_run_needs_is_looked_at(self):
        status, found, error = doctor()
        self.assertEqual(error, "")
        for what in ("program", "processor", "memory", "open files",
                     "shared memory", "temporary files", "clock", "huge pages",
                     "GPUs", "own name", "network", "ports"):
            self.assertRegex(found, rf"(?m)^(ok|note|WRONG) +{what}  +\S")
        self.assertEqual(status, 1 if "WRONG" in found else 0)
        self.assertRegex(found, r"numeric class \S")

    def check_wrong(self, what, pattern, *arguments, **options):
        status, found, _ = doctor(*arguments, **options)
        self.assertEqual(status, 1, found)
        self.assertRegex(found, rf"(?m)^WRONG +{what}  .*{pattern}")

    def test_what_flags_name_is_tried(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            self.check_wrong("--listen", "in use", "--listen",
                             f"127.0.0.1:{port}")
            _, found, _ = doctor("--coordinator", f"127.0.0.1:{port}")
            self.assertRegex(found, r"(?m)^ok +--coordinator .*takes connec")
        self.check_wrong("--listen", "Cannot assign", "--listen",
                         "192.0.2.1:7000")
        self.check_wrong("--coordinator", "nobody listens", "--coordinator",
                         f"127.0.0.1:{port}")
        self.check_wrong("--coordinator", "is not known", "--coordinator",
                         "no-such-host.invalid:7000")
        self.check_wrong("--certificates", "ca.pem", "--certificates",
                         self.path("none"))
        self.check_wrong("--data", "none.csv", "--data",
                         f"csv:{self.path('none.csv')}")
        _, found, _ = doctor("--data", "synthetic:digits?samples=200",
                             "--listen", "127.0.0.1:0")
        self.assertRegex(found, r"(?m)^ok +--data .* 200 samples$")
        self.assertRegex(found, r"(?m)^ok +--listen .* is free$")

    def test_devices_train_a_little(self):
        self.assertRegex(findings("--devices", "cpu:2"),
                         r"(?m)^ok +--devices +cpu:2: loss 2\.\d+ after 4 "
                         r"steps in .* s, as on a processor; \S")
        self.check_wrong("--devices", "cuda:63: (no usable GPU|this )",
                         "--devices", "cuda:63")
        self.check_wrong("--devices", "pjrt:/nowhere.so: there is no such file",
                         "--devices", "pjrt:/nowhere.so")
        status, found, error = doctor("--devices", "gpu:0")
        self.assertEqual((status, found), (2, ""))
        self.assertIn("--devices", error)

    def test_a_folder_for_temporary_files_has_to_be_there(self):
        self.check_wrong("temporary files", "none",
                         env={**os.environ, "TMPDIR": self.path("none")})


class Jobs(OwnFolder):
    def run_job(self, *flags):
        run = Run(*JOB, *flags)
        self.addCleanup(run.__exit__)
        run.wait_for_step(3)
        return run

    def check_culprit(self, run, pattern, address=None):
        def found():
            status, text, error = doctor(address or run.metrics_address())
            self.said = (status, text, error)
            return re.search(pattern, text)
        wait_for(found, pattern, 30)

    def test_a_job_without_trouble(self):
        run = self.run_job("--model", "sleep:20ms", *SERVED)
        status, found, _ = doctor(run.metrics_address())
        self.assertRegex(found, r"^(ok|note) +\S+ +.*ms a step")
        self.assertEqual(status, 0)
        run.end()

    def test_a_slow_worker_is_named(self):
        run = self.run_job("--model", "sleep:20ms", *SERVED,
                           "--slow-worker", "1:4")
        self.check_culprit(run, r"^WRONG +worker:1  holds the others up: worker:\d "
                           r"waits .* worker:1 hardly waits")
        run.end()

    def test_a_stopped_shard_is_named(self):
        run = self.run_job("--model", "sleep:20ms", *SERVED, "--loss-ms",
                           "60000")
        pid = run.kill("ps:0", signal.SIGSTOP)
        try:
            self.check_culprit(run, r"^WRONG +ps:0  the step is late: ps:0 is "
                               r"silent.*\n.*kill -CONT")
        finally:
            os.kill(pid, signal.SIGCONT)
        run.end()

    def test_so_it_is_where_answers_take_their_time(self):
        """Looks were 6 s apart, and none of them said for how long."""
        run = self.run_job("--model", "sleep:20ms", *SERVED, "--loss-ms",
                           "60000")
        address = slow_way(self.addCleanup, run.metrics_address(), 0.3)
        pid = run.kill("ps:0", signal.SIGSTOP)
        try:
            self.check_culprit(run, r"^WRONG +ps:0  the step is late: ps:0 is "
                               r"silent", address)
        finally:
            os.kill(pid, signal.SIGCONT)
        self.check_culprit(run, r"^(ok|note) .*ms a step", address)
        run.end()

    def test_a_run_that_is_not_there_is_one_line(self):
        status, _, error = doctor("127.0.0.1:1")
        self.assertEqual(status, 1)
        self.assertRegex(error, r"^troupe: metrics at 127\.0\.0\.1:1: .*\n$")
        status, _, error = doctor("127.0.0.1:1", "--data", "synthetic:digits")
        self.assertEqual(status, 2)
        self.assertRegex(error, r"^troupe: --data is of a machine")


if __name__ == "__main__":
    unittest.main()
