"""Models that are split over members whose parameters are on shards; for the
tests beside."""

import json
import os
import re
import signal
import tempfile

from cluster import ENDLESS, Run, wait_for
from roles import Role
from split_models import SplitModels, planned_bytes

SERVED = ["--sync-data", "parameter_server"]


class ServedModels(SplitModels):
    def check_killed(self, job, layout, roles, of_shard=1):
        """One after the other goes on within the step, in full again: a shard
        so many epochs later."""
        with Run(*job, *ENDLESS, *layout) as run:
            for role in roles:
                run.wait_for_step(run.step() + 50)
                run.kill_and_wait(role, of_shard if role[0] == "p" else 1)
            summary = run.end(50)
        self.check_undisturbed(summary, *job)
        self.assertEqual([r["role"] for r in summary["recoveries"]], roles)
        return [r["kind"] for r in summary["recoveries"]]

    def check_restored(self, job, layout, roles):
        """The same, each from its memory, or with nothing to restore."""
        kinds = self.check_killed(job, layout, roles)
        names = [role.split(":")[0].replace("ps", "shard") for role in roles]
        self.assertEqual(kinds, [name + "_restored" for name in names])

    def check_by_hand(self, job, layout, roles, needed):
        """The last role, and the first one, die and come back. The job needs
        each: one that is told to leave ends with 1 and `needed`."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        summary = os.path.join(folder.name, "summary.json")
        certificates = ["--certificates", os.path.join(folder.name, "keys")]
        coordinator = Role(self.addCleanup, "coordinator", *certificates,
                           "--summary", summary, *job, *ENDLESS, *layout)
        address = ["--coordinator", coordinator.address()]

        def start(role):
            return Role(self.addCleanup, role, *address, *certificates)

        def count(pattern):
            return len(re.findall(pattern,
                                  coordinator.output() + coordinator.error()))

        def wait_for_more(pattern, than):
            wait_for(lambda: count(pattern) > than, pattern, 60)

        members = {role: start(role) for role in roles}
        struck = [roles[-1], roles[0], roles[-1]]
        for role, how, status in zip(
                struck, (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM),
                (-signal.SIGKILL, -signal.SIGKILL, 1)):
            wait_for_more(r"(?m)^epoch \d+ ", count(r"(?m)^epoch \d+ "))
            back = count(f"{role} is back")
            members[role].process.send_signal(how)
            error = members[role].finish(status)
            if how == signal.SIGTERM:
                self.assertIn(needed, error)
            members[role] = start(role)
            wait_for_more(f"{role} is back", back)
        coordinator.end()
        with open(summary) as file:
            found = json.load(file)
        self.check_undisturbed(found, *job)
        self.assertEqual([r["role"] for r in found["recoveries"]], struck)

    def check_planned_state(self, job):
        """Shards have optimizer state, and nobody else has."""
        adam, sgd = (planned_bytes(*job, "--optimizer", rule)
                     for rule in ("adam", "sgd"))
        for role in adam:
            if role.startswith("ps"):
                # Two banks, and one sum of what two groups push.
                self.assertAlmostEqual(adam[role] / sgd[role], 7 / 3,
                                       delta=0.15)
            else:
                self.assertEqual(adam[role], sgd[role], role)
