"""Roles of split models that are started by hand, so that the memory of one can be
taken as well; for the tests beside."""

import json

from cluster import Run, wait_for
from own_folder import OwnFolder
from roles import Role, lose_memory
from split_models import digests


class LostMemory(OwnFolder):
    JOB = ["--data", "synthetic:digits?samples=2000", "--model",
           "mlp:784-48-32-10", "--global-batch", "64", "--seed", "7",
           "--epochs", "40"]

    def check_copied(self, layout, members, struck, one):
        """Two of `members` die one after the other, with their memory: each gets
        a copy, and the bits are those of one device, `one`."""
        with Run(*self.JOB, *one) as run:
            expected = run.finish()
        certificates = self.path("certificates")
        coordinator = Role(self.addCleanup, "coordinator", "--certificates",
                           certificates, "--summary",
                           self.path("summary.json"), *self.JOB, *layout)
        address = coordinator.address()

        def start(name):
            return Role(self.addCleanup, name, "--coordinator", address,
                        "--certificates", certificates)

        roles = {name: start(name) for name in members}
        for epochs, name in zip((4, 8), struck):
            wait_for(lambda: f"epoch {epochs} " in coordinator.output(),
                     f"{epochs} epochs")
            self.assertIsNone(coordinator.process.poll())
            roles[name].process.kill()
            roles[name].process.wait()
            lose_memory(address, name)
            roles[name] = start(name)
        coordinator.finish()
        for role in roles.values():
            role.finish(0, 10)
        with open(self.path("summary.json")) as file:
            summary = json.load(file)
        self.assertEqual(digests(summary), digests(expected))
        self.assertEqual(summary["steps_rolled_back"], 0)
        self.assertEqual(
            [(r["role"], r["kind"]) for r in summary["recoveries"]],
            [(name, name.split(":")[0] + "_restored") for name in struck])
