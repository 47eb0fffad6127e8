"""troupe chaos with more than deaths: roles stand still, compute slowly and lose
a link, by a seed and by a plan; nothing is lost, and nothing is left behind."""
# ctest: TIMEOUT 1200 COST 120 PROCESSORS 1

import os
import subprocess
import tempfile
import tomllib
import unittest

from chaos_runs import ChaosRuns
from cluster import TROUPE

FAULTS = os.environ.get("TROUPE_FAULTS", "8")
SERVED = ["--strategy", "parameter_server", "--workers", "3", "--ps", "2",
          "--chain", "2", "--processes", "--seed", "5", "--epochs", "0",
          "--partitioner", "max_size:65536",
          "--data", "synthetic:digits?samples=2000"]
REPLICAS = ["--strategy", "multi_worker_mirrored", "--workers", "3",
            "--processes", "--seed", "5", "--epochs", "0",
            "--data", "synthetic:digits?samples=2000"]
PARTS = ["--processes", "--seed", "5", "--epochs", "0",
         "--data", "synthetic:digits?samples=2000",
         "--model", "mlp:784-64-48-10"]
STAGED = ["--strategy", "pipeline", "--stages", "3", *PARTS]
TENSOR = ["--strategy", "tensor", "--tensor", "4", *PARTS]
MESHED = ["--strategy", "hybrid", *PARTS, "--mesh"]
PLAN = """
[[strike]]
at_step = 40
[[strike.fault]]
role = "worker:1"
kind = "stop"
phase = "reduce"
ms = 250

[[strike]]
after_steps = 20
[[strike.fault]]
role = "worker:2"
phase = "push"
passes = 1
[[strike.fault]]
role = "worker:0"
kind = "slow"
phase = "compute"
ms = 300
"""


class ChaosKinds(ChaosRuns):
    def chaos(self, flags, job, show=False):
        verdict, said = self.passed(flags, job)
        self.assertEqual(verdict["left"], [])
        self.assertIsNotNone(verdict["held"]["after"])
        for what in ("processes", "descriptors", "memory_files"):
            self.assertLessEqual(verdict["held"]["after"][what],
                                 verdict["held"]["before"][what], what)
        return (verdict, said) if show else verdict

    def test_faults_of_all_kinds_change_no_bit_and_leave_nothing(self):
        plan = self.path("faults.toml")
        faults = 2 * int(FAULTS) # half of the turns are kill's
        verdict = self.chaos(["--faults", str(faults), "--kinds",
                              "kill,stop,slow,cut", "--seed", "1",
                              "--write-plan", plan],
                             ["--model", "mlp:784-64-10", *SERVED])
        for kind in ("kill", "stop", "slow", "cut"):
            self.assertGreaterEqual(verdict["faults"][kind]["count"],
                                    int(FAULTS) // 4)
        self.assertEqual(verdict["weights_sha256"],
                         verdict["undisturbed"]["weights_sha256"])
        self.assertLessEqual(verdict["leaves_recomputed"],
                             verdict["leaves_of_the_lost"])
        with open(plan, "rb") as file:
            strikes = tomllib.load(file)["strike"]
        self.assertEqual(sum(len(fault.get("phases", ["one"]))
                             for strike in strikes
                             for fault in strike["fault"]), faults)

    def test_stages_and_tensor_members_bear_faults_of_all_kinds(self):
        for job in (STAGED, TENSOR):
            kept = tempfile.mkdtemp(dir=self.folder)
            verdict = self.chaos(
                ["--faults", "20", "--kinds",
                 "kill,stop,slow,cut,cut-control,flip,stall,signal-all",
                 "--seed", "6"], [*job, "--checkpoint-dir", kept])
            self.assertEqual(len(verdict["faults"]), 8)
            self.assertEqual(verdict["steps_rolled_back"], 0)
            self.assertEqual(verdict["weights_sha256"],
                             verdict["undisturbed"]["weights_sha256"])

    # In both of the pipelines, groups or stages of one, and in each phase.
    def test_meshes_bear_deaths_on_both_sides_of_an_axis(self):
        for layout in (["data=2,stage=2"], ["data=2,tensor=2"],
                       ["stage=2,tensor=2"]):
            verdict = self.chaos(["--faults", "16", "--seed", "3"],
                                 [*MESHED, *layout])
            roles = {x["role"] for x in verdict["recoveries"]}
            kind = "tensor" if "tensor" in layout[0] else "stage"
            for side in ((0, 1), (2, 3)):
                self.assertTrue(roles & {f"{kind}:{k}" for k in side}, roles)
            self.assertEqual(verdict["steps_rolled_back"], 0)
            for digest in ("weights_sha256", "state_sha256"):
                self.assertEqual(verdict[digest],
                                 verdict["undisturbed"][digest])

    def test_a_plan_strikes_whom_it_names_where_it_says(self):
        verdict = self.chaos(["--plan", self.path("plan.toml", PLAN)],
                             ["--model", "mlp:784-64-10", *REPLICAS])
        self.assertEqual(
            {kind: fault["by_phase"]
             for kind, fault in verdict["faults"].items()},
            {"kill": {"push": 1}, "slow": {"compute": 1},
             "stop": {"reduce": 1}})
        self.assertEqual([x["role"] for x in verdict["recoveries"]],
                         ["worker:2"])
        self.assertEqual(verdict["weights_sha256"],
                         verdict["undisturbed"]["weights_sha256"])

    def test_readers_are_killed_and_stopped_and_no_bit_changes(self):
        for job in (SERVED, REPLICAS):
            plan = self.path("readers.toml", "".join(f"""
[[strike]]
after_steps = 20
[[strike.fault]]
role = "reader:{strike % 2}"
kind = "{kind}"
{'ms = 250' if kind == 'stop' else ''}
""" for strike, kind in enumerate(("kill", "stop", "kill", "stop"))) + """
[[strike]]
after_steps = 20
[[strike.fault]]
role = "worker:1"
[[strike.fault]]
role = "reader:1"
kind = "stop"
ms = 2500
""")
            verdict, said = self.chaos(
                ["--plan", plan],
                ["--model", "mlp:784-64-10", *job, "--readers", "2"],
                show=True)
            self.assertEqual({kind: fault["count"] for kind, fault
                              in verdict["faults"].items()},
                             {"kill": 3, "stop": 3})
            self.assertEqual([x["role"] for x in verdict["recoveries"]],
                             ["worker:1"])
            self.assertIn("reader:0 died in at-once and is back", said)
            self.assertIn("reader:1 bore stop in at-once", said)
            self.assertIn("reader:1 was lost by stop in at-once and is back",
                          said)
            for digest in ("weights_sha256", "state_sha256"):
                self.assertEqual(verdict[digest],
                                 verdict["undisturbed"][digest])

    def test_readers_are_struck_by_a_seed_too(self):
        for kind, job, struck in (
                ("kill", REPLICAS, r"reader:\d died in at-once and is back"),
                ("stop", SERVED, r"reader:\d (bore|was lost by) stop")):
            verdict, said = self.chaos(
                ["--faults", "8", "--kinds", kind, "--seed", "2"],
                ["--model", "mlp:784-64-10", *job, "--readers", "2"],
                show=True)
            self.assertRegex(said, struck)
            self.assertEqual(verdict["weights_sha256"],
                             verdict["undisturbed"]["weights_sha256"])

    def test_bad_links_change_no_bit(self):
        kinds = "stall,one-way,throttle,flip,cut"
        for job in (SERVED, REPLICAS):
            verdict = self.chaos(["--faults", "5", "--kinds", kinds, "--seed",
                                  "3"],
                                 ["--model", "mlp:784-64-10", *job])
            self.assertEqual({kind: fault["count"] for kind, fault
                              in verdict["faults"].items()},
                             dict.fromkeys(kinds.split(","), 1))
            self.assertEqual(verdict["weights_sha256"],
                             verdict["undisturbed"]["weights_sha256"])

    def test_machines_that_err_disks_that_are_full_and_lost_coordinators(self):
        kinds = "nan,device,full-disk,cut-control,slow-control"
        for job in (SERVED, REPLICAS):
            kept = tempfile.mkdtemp(dir=self.folder)
            plan = self.path("struck.toml")
            verdict, said = self.chaos(
                ["--faults", "5", "--kinds", kinds, "--seed", "4",
                 "--write-plan", plan],
                ["--model", "mlp:784-64-10", "--checkpoint-dir", kept,
                 "--checkpoint-every", "25", *job],
                show=True)
            self.assertEqual({kind: fault["by_phase"] for kind, fault
                              in verdict["faults"].items()
                              if kind != "cut-control"},
                             {"nan": {"compute": 1}, "device": {"compute": 1},
                              "full-disk": {"at-once": 1},
                              "slow-control": {"at-once": 1}})
            self.assertEqual(verdict["faults"]["cut-control"]["count"], 1)
            self.assertEqual(len(verdict["recoveries"]), 2)
            self.assertEqual(verdict["weights_sha256"],
                             verdict["undisturbed"]["weights_sha256"])
            self.assertRegex(said, "full-disk: [1-9][0-9]* writes had no space")
            checked = subprocess.run([TROUPE, "checkpoint", "verify", kept],
                                     capture_output=True, text=True,
                                     timeout=60)
            self.assertEqual(checked.returncode, 0, checked.stderr)
            # and once more, as it was
            verdict, _ = self.chaos(
                ["--plan", plan],
                ["--model", "mlp:784-64-10",
                 "--checkpoint-dir", tempfile.mkdtemp(dir=self.folder),
                 "--checkpoint-every", "25", *job], show=True)
            self.assertEqual(sum(fault["count"] for fault
                                 in verdict["faults"].values()), 5)

    def test_a_plan_cuts_links_of_an_all_reduce_where_it_says(self):
        plan = self.path("cuts.toml", "".join(f"""
[[strike]]
after_steps = 20
[[strike.fault]]
role = "worker:{link}"
kind = "cut"
phase = "{phase}"
link = {link}
""" for link, phase in enumerate(("push", "reduce", "compute"))))
        verdict = self.chaos(["--plan", plan],
                             ["--model", "mlp:784-64-10", *REPLICAS])
        self.assertEqual(verdict["faults"]["cut"]["by_phase"],
                         {"push": 1, "reduce": 1, "compute": 1})
        self.assertEqual(verdict["recoveries"], [])
        self.assertEqual(verdict["weights_sha256"],
                         verdict["undisturbed"]["weights_sha256"])

    def test_a_coordinator_that_stands_still_holds_nobody_up(self):
        plan = self.path("still.toml", """
[[strike]]
at_step = 40
[[strike.fault]]
role = "coordinator"
kind = "stop"
ms = 1500
""")
        verdict = self.chaos(["--plan", plan],
                             ["--model", "mlp:784-64-10", *SERVED])
        self.assertEqual(verdict["faults"]["stop"]["count"], 1)
        self.assertEqual(verdict["recoveries"], [])

    def test_a_job_that_ends_and_begins_again_goes_on_as_if_it_had_not(self):
        kinds = "signal-all,unreadable,slow-disk,memory-limit"
        for job in (SERVED, REPLICAS):
            kept = tempfile.mkdtemp(dir=self.folder)
            plan = self.path("struck.toml")
            verdict, said = self.chaos(
                ["--faults", "6", "--kinds", kinds, "--seed", "2",
                 "--write-plan", plan],
                ["--model", "count:3ms-5000", "--optimizer", "sgd", "--lr", "1",
                 "--checkpoint-dir", kept, "--checkpoint-every", "50", *job],
                show=True)
            self.assertEqual({kind: fault["by_phase"] for kind, fault
                              in verdict["faults"].items()},
                             {"signal-all": {"at-once": 2},
                              "unreadable": {"at-once": 2},
                              "slow-disk": {"at-once": 1},
                              "memory-limit": {"compute": 1}})
            self.assertEqual(verdict["weights_sha256"],
                             verdict["undisturbed"]["weights_sha256"])
            self.assertEqual(verdict["count"]["least"],
                             verdict["count"]["expected"])
            self.assertEqual([ending["kind"] for ending in verdict["endings"]],
                             ["signal-all", "unreadable"] * 2)
            steps = [ending["steps"] for ending in verdict["endings"]]
            self.assertEqual(steps, sorted(steps))
            self.assertGreater(steps[0], 0)
            for ending in verdict["endings"]:
                self.assertEqual(ending["refused"] > 0,
                                 ending["kind"] == "unreadable")
            self.assertEqual(len(verdict["recoveries"]), 1)
            self.assertRegex(said, "slow-disk: [1-9][0-9]* syncs took a second")
            with open(plan, "rb") as file:
                strikes = tomllib.load(file)["strike"]
            self.assertEqual([strike["fault"][0]["kind"] for strike in strikes],
                             (kinds.split(",") * 2)[:6])

    def test_a_worker_without_memory_is_told_so_and_started_again(self):
        plan = self.path("memory.toml", """
[[strike]]
at_step = 20
[[strike.fault]]
role = "worker:1"
kind = "memory-limit"
""")
        for job in (SERVED, REPLICAS):
            verdict = self.chaos(["--plan", plan],
                                 ["--model", "mlp:784-64-10", *job])
            self.assertEqual([x["role"] for x in verdict["recoveries"]],
                             ["worker:1"])

    def test_asynchronous_updates_outlive_pauses_and_broken_links(self):
        verdict = self.chaos(["--faults", "4", "--kinds", "stop,cut"],
                             ["--model", "count:1ms-50000", "--async",
                              "--optimizer", "sgd", "--lr", "1", "--steps",
                              "1500", *SERVED])
        self.assertEqual(verdict["count"]["least"],
                         verdict["count"]["expected"])
        self.assertEqual(verdict["count"]["largest"],
                         verdict["count"]["expected"])

    def test_mistakes_are_told_in_one_line(self):
        absent = self.path("absent.toml")
        wrong = self.path("wrong.toml", PLAN.replace("reduce", "forward"))
        for flags, job, status, expected in (
                (["--kinds", "burn"], SERVED, 2, "--kinds burn: unknown"),
                (["--kinds", "flip"], [*REPLICAS, "--steps", "9", "--link",
                                       "shm"], 2, "--link shm"),
                (["--plan", wrong], [*SERVED, "--steps", "9"], 2,
                 "wrong.toml:7:9: worker:1 has no phase forward"),
                (["--plan", absent], [*SERVED, "--steps", "9"], 1, "absent.toml"),
                (["--kinds", "nan,full-disk"], [*SERVED, "--steps", "9"], 2,
                 "give it --checkpoint-dir DIR --checkpoint-every N"),
                (["--kinds", "slow-control"], [*SERVED, "--steps", "9",
                                               "--standby"], 2,
                 "leave out the job's --standby"),
                (["--kinds", "signal-all"], [*SERVED, "--steps", "9"], 2,
                 "give it --checkpoint-dir DIR"),
                (["--kinds", "slow-disk"], [*SERVED, "--steps", "9",
                                            "--standby"], 2,
                 "leave out the job's --standby"),
                (["--plan", wrong, "--faults", "3"], SERVED, 2,
                 "--faults has no effect with --plan"),
                (["--write-plan", "/absent/x.toml"], SERVED, 1,
                 "there is no folder"),
                ([], [*SERVED, "--steps", "9", "--journal", absent], 2,
                 "leave out its --journal")):
            done = self.run_chaos(flags, job)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn(expected, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)


if __name__ == "__main__":
    unittest.main()
