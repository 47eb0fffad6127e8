"""`troupe launch` of 60 workers and 30 shards on eight hosts that are network
namespaces, with a real sshd each: what it costs from the command to the first
committed step. With the coordinator, eight agents and the launcher there are 100
processes. TROUPE_LAUNCH=HOSTS,WORKERS,SHARDS,SLOTS: as many others."""
# nightly
# ctest: TIMEOUT 900 RUN_SERIAL TRUE

import os
import re
import signal
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "process"))
from cluster import TROUPE, Run, wait_for  # noqa: E402: lie there
from hosts import Hosts  # noqa: E402
from own_folder import OwnFolder  # noqa: E402
from sshd import Sshd, program  # noqa: E402

HOSTS, WORKERS, SHARDS, SLOTS = map(
    int, os.environ.get("TROUPE_LAUNCH", "8,60,30,12").split(","))
ROLES = WORKERS + SHARDS + 1 + HOSTS + 1
JOB = ["--data", "synthetic:digits?samples=2000", "--model", "mlp:784-64-10",
       "--partitioner", "max_size:4096", "--seed", "7", "--global-batch", "120",
       "--virtual-ranks", "60", "--eval-every", "0"]
SERVED = ["--strategy", "parameter_server", "--workers", str(WORKERS), "--ps",
          str(SHARDS), "--threads-per-device", "1"]
# Two cores that 91 processes share may leave one of them alone for seconds.
ENDLESS = ["--epochs", "0", "--steps", "100000000", "--log-every", "1",
           "--loss-ms", "60000"]
TRIALS = int(os.environ.get("TROUPE_LAUNCHES", "3"))
CORE_S_A_ROLE, SECONDS = 0.3, 20
TICKS = os.sysconf("SC_CLK_TCK")


class LaunchMany(OwnFolder):
    def setUp(self):
        super().setUp()
        self.hosts = Hosts(1 + HOSTS)
        self.addCleanup(self.hosts.close)
        self.sshd = Sshd(self, self.hosts, self.folder, HOSTS)
        self.networks = {
            os.readlink(f"/proc/{keeper.pid}/ns/net")
            for keeper in self.hosts.keepers[1:]}

    def core_seconds(self):
        """Of all processes on the hosts, sshd's and ssh's included, and of those
        of theirs that have ended; by kind."""
        out = {}
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.readlink(f"/proc/{entry}/ns/net") not in self.networks:
                    continue
                with open(f"/proc/{entry}/stat") as file:
                    fields = file.read().rsplit(")", 1)[1].split()
                with open(f"/proc/{entry}/cmdline", "rb") as file:
                    words = file.read().decode().split("\0")
            except OSError:
                continue
            name = os.path.basename(words[0].split(" ")[0].rstrip(":"))
            if name.startswith("troupe"):
                name = " ".join([words[1], *(words[2].split(":")[:1]
                                             if words[1] == "role" else [])])
            used = sum(map(int, fields[11:15])) / TICKS
            out[name] = out.get(name, 0) + used
        return out

    def launch(self):
        where = ",".join(f"h{host}:{SLOTS}" for host in range(1, HOSTS + 1))
        run = Run(*JOB, *SERVED, *ENDLESS, command=[
            *self.hosts.on(0), TROUPE, "launch", "-H", where, "--ssh",
            self.sshd.ssh(), "--connect-deadline-s", "60", "--"])
        self.addCleanup(run.__exit__)
        return run

    def first_step(self, run):
        if run.process.poll() is not None:
            raise AssertionError(f"it ended: {run.error()}{run.output()}")
        return re.search(r"(?m)^step \d+ of", run.output())

    def measure(self):
        before = self.core_seconds()
        began = time.monotonic()
        run = self.launch()
        wait_for(lambda: self.first_step(run), "a step", 120)
        took = time.monotonic() - began
        used = {name: seconds - before.get(name, 0)
                for name, seconds in self.core_seconds().items()}
        run.process.send_signal(signal.SIGTERM)
        summary = run.finish(143, 120)
        self.assertIsNotNone(summary, run.error() + run.output()[-3000:])
        wait_for(lambda: not [pid for host in range(1 + HOSTS)
                              for pid, _ in self.sshd.processes(host)],
                 "nothing is left", 60)
        return took, used, summary

    def test_a_hundred_processes_begin(self):
        self.measure()  # the program is copied, which is not measured
        totals, times = [], []
        for _ in range(TRIALS):
            took, used, summary = self.measure()
            total = sum(used.values())
            totals.append(total / ROLES)
            times.append(took)
            print(f"\n  {took:.1f} s, {total:.1f} core-s, {total / ROLES:.3f} a "
                  "role: " + ", ".join(
                      f"{name} {seconds:.1f}" for name, seconds in
                      sorted(used.items(), key=lambda x: -x[1])
                      if seconds >= 0.1), end="", file=sys.stderr)
        with Run(*JOB, "--strategy", "one_device", "--epochs", "0", "--steps",
                 str(summary["steps"])) as run:
            self.assertEqual(run.finish()["weights_sha256"],
                             summary["weights_sha256"])
        self.assertLessEqual(min(totals), CORE_S_A_ROLE)
        self.assertLessEqual(min(times), SECONDS)


if __name__ == "__main__":
    program()
    unittest.main()
