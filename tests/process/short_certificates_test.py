"""A job whose certificates are valid for a minute runs for three: each process
renews its own at least twice, and no link is lost by that."""
# ctest: TIMEOUT 600
# nightly

import json
import os
import signal
import subprocess
import tempfile
import time
import unittest

from cluster import TROUPE, wait_for
from roles import Role

SECONDS = 180
JOB = ["--data", "synthetic:digits?samples=640", "--model", "mlp:784-4-10",
       "--seed", "3", "--strategy", "parameter_server", "--workers", "2",
       "--ps", "2", "--link", "tcp", "--link-encryption", "on",
       "--virtual-ranks", "2", "--eval-every", "0", "--epochs", "1000000000"]
SHORT = ["--certificate-seconds", "60"]


class ShortCertificates(unittest.TestCase):
    def test_a_job_outlives_its_certificates(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        own = os.path.join(folder.name, "own")
        summary = os.path.join(folder.name, "summary.json")
        journal = os.path.join(folder.name, "run.db")
        coordinator = Role(self.addCleanup, "coordinator", *JOB, *SHORT,
                           "--certificates", own, "--summary", summary,
                           "--journal", journal)
        address = coordinator.address()
        processes = {"coordinator": coordinator}
        for name in ("ps:0", "ps:1", "worker:0", "worker:1"):
            # Half of them ask the coordinator, half have the authority's key.
            more = ["--certificates", own]
            if name.endswith(":1"):
                token = subprocess.run(
                    [TROUPE, "certificates", "token", name, "--certificates",
                     own], capture_output=True, text=True, timeout=60,
                    check=True).stdout.strip()
                more = ["--certificates", os.path.join(folder.name, name[:-2]),
                        "--token", token]
            processes[name] = Role(self.addCleanup, name, "--coordinator",
                                   address, *more, *SHORT)
        wait_for(lambda: "epoch " in coordinator.output(), "an epoch")
        begin = time.monotonic()
        while time.monotonic() < begin + SECONDS:
            for name, process in processes.items():
                self.assertIsNone(process.process.poll(),
                                  f"{name}: {process.error()}")
            time.sleep(1)
        renewals = {name: process.error().count("is renewed: until")
                    for name, process in processes.items()}
        print("renewals:", renewals)
        for name, count in renewals.items():
            self.assertGreaterEqual(count, 2, name)
        coordinator.process.send_signal(signal.SIGINT)
        coordinator.finish(130)
        with open(summary) as file:
            found = json.load(file)
        self.assertEqual(found["recoveries"], [])
        self.assertEqual(found["steps_rolled_back"], 0)
        events = subprocess.run(
            [TROUPE, "events", journal, "--kind", "epoch"], timeout=60,
            capture_output=True, text=True, check=True).stdout
        # One to begin with: a link that is lost brings another.
        self.assertEqual(len(events.splitlines()), 1, events)


if __name__ == "__main__":
    unittest.main()
