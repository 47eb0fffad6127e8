"""A host's clock is set while a run goes on: roles that die are started again,
an operator is heard, and the bits are those of a run that nobody disturbed."""
# Symptom: after a step of days back, the next role that died could not begin:
# its certificate, the coordinator's and the authority's were not valid yet, and
# five restarts later the run ended.
# ctest: TIMEOUT 300

import os
import re
import unittest

from cluster import ENDLESS, TROUPE, Run, troupe, wait_for
from own_folder import OwnFolder

SHIM = os.path.abspath(os.path.join(os.path.dirname(TROUPE), "..", "tests",
                                    "libset_clock.so"))
JOB = ["--data", "synthetic:digits?samples=2000", "--model", "mlp:784-48-10",
       "--seed", "7"]
SERVED = ["--strategy", "parameter_server", "--workers", "2", "--ps", "1",
          "--processes"]
DAY_S = 24 * 3600


class SetClock(OwnFolder):
    def setUp(self):
        super().setUp()
        self.clock = self.path("clock")
        self.set_clock(0)

    def set_clock(self, seconds):
        """By how much it is off from here on."""
        text = f"{seconds:<16}".encode()
        with open(self.clock, "r+b" if os.path.exists(self.clock) else
                  "wb") as file:
            file.write(text + b"\0" * (4096 - len(text)))

    def environment(self):
        return {"LD_PRELOAD": SHIM, "SET_CLOCK": self.clock}

    def test_whoever_dies_after_it_is_started_again(self):
        with Run(*JOB, *SERVED, *ENDLESS,
                 environment=self.environment()) as run:
            run.wait_for_step(20)
            for seconds, role, epochs in (
                    (-3 * DAY_S, "worker:1", 2), (-3 * DAY_S, "ps:0", 1),
                    (40 * DAY_S, "worker:0", 2)):
                self.set_clock(seconds)
                run.kill_and_wait(role, epochs)
                run.wait_for_step(run.step() + 20)
            # The coordinator, too; and who has the run's address is heard.
            self.set_clock(-DAY_S)
            old = run.kill("coordinator")
            wait_for(lambda: run.children().get("coordinator")
                     not in (None, old), "the coordinator again")
            run.wait_for_step(run.step() + 20)
            address, certificates = re.findall(
                r"coordinator: (\S+), certificates (\S+)", run.output())[-1]
            troupe("ctl", "workers", "add", "--coordinator", address,
                   "--certificates", certificates,
                   environment=self.environment())
            wait_for(lambda: run.children().get("worker:2"), "a third worker")
            summary = run.end(20)
        self.assertEqual(summary["steps_rolled_back"], 0)
        kinds = {one["kind"] for one in summary["recoveries"]}
        self.assertIn("coordinator_restarted", kinds)
        with Run(*JOB, "--epochs", "0", "--steps", str(summary["steps"]),
                 "--strategy", "one_device") as run:
            expected = run.finish()
        for name in ("weights_sha256", "state_sha256"):
            self.assertEqual(summary[name], expected[name])


if __name__ == "__main__":
    unittest.main()
