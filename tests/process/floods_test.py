"""A job that was started by hand, on one processor core, beside a crowd on the
other that is at all its ports for a minute: nobody ends, the bits are those of a
run that nobody disturbed, and a step takes hardly more of the processor than
beside a crowd that merely spins. Members from elsewhere come in."""
# Symptom: TLS handshakes of strangers took a third of the job's core, and idle
# connections that came again and again a tenth.
# ctest: TIMEOUT 3000 RUN_SERIAL TRUE

import json
import os
import re
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request
from pathlib import Path

from cluster import Run, wait_for
from roles import Role
from sockets import connections, listening_addresses

# The short form is for each run.
FULL = "TROUPE_IN_FULL" in os.environ
JOB = ["--data", "synthetic:digits?samples=2000", "--model", "mlp:784-48-10",
       "--eval-fraction", "0.1", "--global-batch", "64", "--virtual-ranks",
       "4", "--seed", "7"]
SERVED = ["--strategy", "parameter_server", "--workers", "2", "--ps", "2",
          "--link", "tcp"]
MEMBERS = ["ps:0", "ps:1", "worker:0", "worker:1"]
# What strangers may take of the job's steps, and for how long they are there.
LEAST = 0.9
FLOOD_S = 60 if FULL else 3
WINDOW_S = 4
KINDS = [("idle", 1100), ("idle", 10_000), ("hellos", 256), ("visits", 1000)] \
    if FULL else [("hellos", 256)]
TICKS = os.sysconf("SC_CLK_TCK")


def processor_seconds(roles):
    """User and system time of processes, so far."""
    total = 0
    for role in roles:
        words = Path(f"/proc/{role.process.pid}/stat").read_text() \
            .rsplit(")", 1)[1].split()
        total += int(words[11]) + int(words[12])
    return total / TICKS


class Floods(unittest.TestCase):
    def setUp(self):
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) < 2:
            self.skipTest("one core for the job and one for the crowd")
        self.job_core, self.crowd_core = cores[:2]
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.own = os.path.join(self.folder, "own")
        self.summary = os.path.join(self.folder, "summary.json")

    def path(self, name):
        return os.path.join(self.folder, name)

    def role(self, *arguments, **options):
        return Role(self.addCleanup, *arguments, "--certificates", self.own,
                    on=["taskset", "-c", str(self.job_core)], **options)

    def start(self):
        Role(self.addCleanup, "coordinator", *JOB, "--join-deadline-ms", "1",
             "--certificates", self.own).finish(1)
        self.voter = self.role("--listen", "127.0.0.1:0", "--journal",
                               self.path("vote.db"), command="voter")
        self.voter.address("voter")
        self.coordinator = self.role(
            "coordinator", *JOB, *SERVED, "--epochs", "1000000", "--summary",
            self.summary, "--journal", self.path("run.db"))
        self.coordinator.address()
        self.members = [self.member(name) for name in MEMBERS]
        self.roles = [self.coordinator, *self.members, self.voter]
        wait_for(lambda: "epoch 1 " in self.coordinator.output(), "an epoch")
        self.metrics = re.search(r"metrics: (http://\S+)",
                                 self.coordinator.output()).group(1)
        self.doors = [f"127.0.0.1:{port}" for role in self.roles for _, port
                      in listening_addresses([role.process.pid])]
        self.assertEqual(len(self.doors), 9)

    def member(self, name):
        return self.role(name, "--coordinator", self.coordinator.address())

    def step(self):
        """As Prometheus would: a few tries, if need be."""
        def ask():
            try:
                with urllib.request.urlopen(self.metrics, timeout=5) as answer:
                    text = answer.read().decode()
            except OSError:
                return None
            return re.search(r"^troupe_steps_committed_total\S* (\S+)", text,
                             re.MULTILINE)
        return float(wait_for(ask, "metrics").group(1))

    def flood(self, kind, count, own="127.0.0.1"):
        said = open(self.path("flood"), "w")
        flood = subprocess.Popen(
            ["taskset", "-c", str(self.crowd_core), sys.executable,
             os.path.join(os.path.dirname(__file__), "flood.py"), kind,
             str(count), own, *self.doors], stdout=said)
        said.close()

        def stop():
            flood.kill()
            flood.wait()
        self.addCleanup(stop)
        return stop

    def made(self):
        """What the flood has done so far."""
        lines = Path(self.path("flood")).read_text().splitlines()
        return json.loads(lines[-1])["made"] if lines else 0

    def step_cost(self):
        """Processor seconds of all roles for a step, over a while: on a machine
        that others use as well, time says less."""
        step, spent = self.step(), processor_seconds(self.roles)
        time.sleep(WINDOW_S)
        spent = processor_seconds(self.roles) - spent
        return spent / max(1, self.step() - step)

    def beside(self, kind, count):
        stop = self.flood(kind, count)
        try:
            wait_for(lambda: kind == "spin" or self.made() > 0, "a crowd")
            return self.step_cost()
        finally:
            stop()

    def stand(self, kind, count):
        """The crowd first for its whole time, then by turns with a spinner."""
        stop = self.flood(kind, count)
        end = time.monotonic() + FLOOD_S
        while time.monotonic() < end:
            self.all_live()
            time.sleep(0.5)
        self.assertGreater(self.made(), count)
        stop()
        shares = [self.beside("spin", 0) / self.beside(kind, count)
                  for _ in range(3)]
        print(f"{kind} {count}: {statistics.median(shares):.3f} of the steps",
              file=sys.stderr)
        self.all_live()
        self.assertGreaterEqual(statistics.median(shares), LEAST, shares)

    def all_live(self):
        for role in self.roles:
            self.assertIsNone(role.process.poll(), role.error())

    def check_bits(self, recoveries=()):
        self.coordinator.process.send_signal(signal.SIGINT)
        self.coordinator.finish(130)
        for member in self.members:
            member.finish(0, 10)
        with open(self.summary) as file:
            summary = json.load(file)
        self.assertEqual([row["role"] for row in summary["recoveries"]],
                         list(recoveries))
        self.assertEqual(summary["steps_rolled_back"], 0)
        with Run(*JOB, "--strategy", "one_device", "--steps",
                 str(summary["steps"])) as run:
            expected = run.finish(deadline_s=600)
        for name in ("weights_sha256", "state_sha256", "steps"):
            self.assertEqual(summary[name], expected[name])

    def test_a_job_stands_and_goes_on_as_fast(self):
        self.start()
        for kind, count in KINDS:
            with self.subTest(kind=kind, count=count):
                self.stand(kind, count)
        self.check_bits()

    def test_a_member_comes_back_past_a_crowd_of_another_network(self):
        self.start()
        stop = self.flood("hellos", 256, own="127.0.0.2")
        wait_for(lambda: self.made() > 5000, "a crowd")
        place = MEMBERS.index("worker:1")
        self.members[place].process.kill()
        self.members[place].process.wait()
        again = self.members[place] = self.member("worker:1")
        self.roles[1 + place] = again
        epochs = self.coordinator.output().count("epoch ")
        wait_for(lambda: again.process.poll() is not None
                 or len(connections([again.process.pid])) >= 2
                 and self.coordinator.output().count("epoch ") > epochs + 1,
                 "it is back")
        self.all_live()
        stop()
        self.check_bits(["worker:1"])


if __name__ == "__main__":
    unittest.main()
