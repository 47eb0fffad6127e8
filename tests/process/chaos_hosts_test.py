"""troupe chaos strikes whole hosts, which are network namespaces, and their
cables, under roles that were started by hand: everybody is back, and the weights
are those of a run without a fault."""
# ctest: TIMEOUT 900 COST 90 PROCESSORS 1

import tomllib
import unittest

from chaos_runs import ChaosRuns
from hosts import skip_unless_possible

SERVED = ["--strategy", "parameter_server", "--workers", "3", "--ps", "2",
          "--chain", "2", "--processes"]
REPLICAS = ["--strategy", "multi_worker_mirrored", "--workers", "3",
            "--processes"]
JOB = ["--seed", "5", "--epochs", "0", "--loss-ms", "1500",
       "--data", "synthetic:digits?samples=2000"]
MLP = ["--model", "mlp:784-64-10"]
FAULTS = [("worker:1", "host-kill", 500, ""), ("ps:0", "host-cut", 3000, 0),
          ("coordinator", "host-cut", 2500, 2),
          ("worker:2", "host-cut", 600, 5), ("worker:2", "host-slow", 1000, ""),
          ("coordinator", "host-kill", 1000, "")]


def plan_of(faults):
    return "".join(f"""
[[strike]]
after_steps = 30
[[strike.fault]]
role = "{role}"
kind = "{kind}"
ms = {ms}
""" + (f"cable = {cable}\n" if cable != "" else "")
        for role, kind, ms, cable in faults)


class ChaosHosts(ChaosRuns):
    deadline_s = 400

    def check(self, job, faults):
        verdict, _ = self.passed(["--plan", self.path("plan.toml",
                                                  plan_of(faults))],
                             [*JOB, *MLP, *job])
        self.assertEqual(sum(kind["count"] for kind
                             in verdict["faults"].values()), len(faults))
        self.assertEqual(verdict["hosts"], 3)
        self.assertEqual(verdict["steps_rolled_back"], 0)
        for name in ("weights_sha256", "state_sha256"):
            self.assertEqual(verdict[name], verdict["undisturbed"][name])
        return verdict

    def test_a_parameter_server_outlives_its_hosts_and_cables(self):
        verdict = self.check(SERVED, FAULTS)
        self.assertGreaterEqual(verdict["deaths"], 2)

    def test_replicas_outlive_their_hosts_and_cables(self):
        self.check(REPLICAS, [fault for fault in FAULTS
                              if not fault[0].startswith("ps:")])

    def test_asynchronous_updates_are_applied_once(self):
        verdict, _ = self.passed(
            ["--plan", self.path("plan.toml", plan_of(FAULTS[:3]))],
            [*JOB, "--model", "count:4ms-50000", "--async", "--optimizer",
             "sgd", "--lr", "1", "--steps", "1500", *SERVED])
        self.assertEqual(verdict["count"]["least"],
                         verdict["count"]["expected"])
        self.assertEqual(verdict["count"]["largest"],
                         verdict["count"]["expected"])

    def test_faults_that_were_drawn_can_be_done_again(self):
        plan = self.path("struck.toml")
        flags = ["--hosts", "2", "--faults", "2", "--kinds",
                 "host-kill,host-slow", "--seed", "3"]
        job = [*JOB, *MLP, *SERVED]
        self.passed([*flags, "--write-plan", plan], job)
        with open(plan, "rb") as file:
            kinds = [fault["kind"] for strike in tomllib.load(file)["strike"]
                     for fault in strike["fault"]]
        self.assertEqual(kinds, ["host-kill", "host-slow"])

    def test_mistakes_are_told_in_one_line(self):
        for flags, job, status, expected in (
                (["--kinds", "host-kill,kill"], SERVED, 2,
                 "leave out the other kinds"),
                (["--kinds", "host-kill"], [x for x in SERVED if x not in
                                            ("--chain",)][:6] + ["--processes"],
                 2, "give the job --chain 2"),
                (["--kinds", "host-cut"], [*SERVED, "--readers", "1"], 2,
                 "leave out the job's --readers"),
                (["--kinds", "host-cut"], [*SERVED, "--standby"], 2,
                 "leave out the job's --standby")):
            done = self.run_chaos(flags, [*JOB, *MLP, "--steps", "9", *job])
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn(expected, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)


if __name__ == "__main__":
    skip_unless_possible()
    unittest.main()
