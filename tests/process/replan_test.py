"""--on-loss replan: a stage or tensor member that is started no more has its layers
dealt anew to the devices that are left; the job goes on with the bits of one device,
under one journal, and no step is undone where a copy of the layers is left."""
# ctest: TIMEOUT 900

import os
import re
import signal
import unittest
from pathlib import Path

from cluster import ENDLESS, Run, wait_for
from own_folder import OwnFolder
from split_models import ONE, STRUCK, SplitModels, call, digests, summary_of

NEVER = ["--restarts", "0", "--on-loss", "replan"]


def mesh(*axes):
    return ["--strategy", "hybrid", "--mesh", ",".join(axes), "--processes"]


def memory_of(run, role):
    """Where the launcher keeps a role's states."""
    folder = f"/proc/{run.process.pid}/fd"
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        try:
            if os.readlink(path).startswith(f"/memfd:{role} "):
                return path
        except FileNotFoundError:  # it was closed meanwhile
            pass
    raise AssertionError(f"no memory of {role}")


class Replan(SplitModels, OwnFolder):
    def kept(self, *more):
        return ["--checkpoint-dir", self.path("kept"), *NEVER, *more]

    def lose(self, run, role, times, steps=40):
        """Kills it, and waits until the job has been laid out so often, and has
        gone on: meanwhile nobody tells how far it is."""
        before = run.step()
        run.kill(role)
        wait_for(lambda: run.output().count("is gone for good: its layers are "
                                            "dealt anew") >= times
                 or run.process.poll() is not None, f"{role} is gone for good")
        self.assertIsNone(run.process.poll(), run.error())
        run.wait_for_step(before + steps)

    def check_lost(self, job, layout, roles, one=None):
        """They are gone for good, one after the other."""
        self.one = one or ONE
        with Run(*job, *ENDLESS, *layout, *self.kept()) as run:
            for number, role in enumerate(roles):
                run.wait_for_step(run.step() + 30)
                self.lose(run, role, number + 1)
            summary = run.end(30)
            said = run.output()
        self.check_undisturbed(summary, *job)
        self.assertEqual([(r["role"], r["kind"]) for r in summary["recoveries"]],
                         [(role, "layers_dealt_anew") for role in roles])
        self.assertEqual(said.count("no step is undone"), len(roles))
        return summary

    def test_pipelines_go_on_with_fewer_devices(self):
        self.check_lost(STRUCK, mesh("data=2", "stage=2"),
                        ["stage:3", "stage:0"])

    def test_a_pipeline_goes_on_from_what_its_stages_have_kept(self):
        self.check_lost(STRUCK, ["--strategy", "pipeline", "--stages", "3",
                                 "--processes"], ["stage:1"])

    def test_tensor_members_go_on_with_fewer_devices(self):
        sliced = [*ONE, "--virtual-slices", "4"]
        self.check_lost(STRUCK, mesh("data=2", "tensor=2"), ["tensor:2"], sliced)
        self.folder += "-"  # another folder of checkpoints
        self.check_lost(STRUCK, ["--strategy", "tensor", "--tensor", "2",
                                 "--processes"], ["tensor:1"], sliced)

    def test_one_journal_and_one_address_tell_all_of_it(self):
        log_dir = self.path("logs")
        with Run(*STRUCK, *ENDLESS, *mesh("data=2", "stage=2"), *self.kept(),
                 "--log-dir", log_dir) as run:
            run.wait_for_step(30)
            before = run.metrics_address()
            self.lose(run, "stage:2", 1)
            run.wait_for_step(run.step() + 30)
            self.assertEqual(run.metrics_address(), before)
            summary = run.end(10)
        told = call("events", log_dir)
        self.assertEqual(told.returncode, 0, told.stderr)
        self.assertRegex(told.stdout, r"replan +stage:2 is gone for good: .*"
                         r" of 3 devices: a step of ")
        jobs = call("events", log_dir, "--kind", "job")
        self.assertEqual(jobs.stdout.count("\n"), 1, jobs.stdout)
        self.check_undisturbed(summary, *STRUCK)

    def test_the_coordinator_may_die_afterwards(self):
        job = ["--model", "sleep:300ms+300ms+300ms+300ms-16", "--data",
               "synthetic:digits?samples=2000", "--virtual-ranks", "4",
               "--global-batch", "4", "--optimizer", "sgd", "--seed", "7"]
        with Run(*job, *ENDLESS, *mesh("data=2", "stage=2"),
                 "--checkpoint-dir", self.path("kept"), "--restarts", "1",
                 "--on-loss", "replan") as run:
            run.wait_for_step(3)
            old = run.kill("stage:1")
            wait_for(lambda: run.children().get("stage:1") not in (None, old),
                     "stage:1 is started again")
            self.lose(run, "stage:1", 1, 2)
            old = run.kill("coordinator")
            wait_for(lambda: run.children().get("coordinator")
                     not in (None, old), "the coordinator is started again")
            run.wait_for_step(run.step() + 2)
            summary = run.end(2)
        whole = summary_of("--model", "sleep:0ms+0ms+0ms+0ms-16", *job[2:],
                           "--epochs", "0", "--steps", str(summary["steps"]),
                           *ONE)
        self.assertEqual(digests(summary), digests(whole))
        self.assertIn("coordinator_restarted",
                      [r["kind"] for r in summary["recoveries"]])

    def lose_with_memory(self, run, role):
        """Its states go as well, before the launcher can look at them."""
        memory = memory_of(run, role)
        os.kill(run.process.pid, signal.SIGSTOP)
        try:
            pid = run.kill(role)
            wait_for(lambda: Path(f"/proc/{pid}/stat").read_text()
                     .rsplit(")", 1)[1].split()[0] == "Z", f"{role} is dead")
            with open(memory, "r+b") as file:
                file.write(bytes(4096))
        finally:
            os.kill(run.process.pid, signal.SIGCONT)

    def test_where_states_are_lost_a_peer_has_them(self):
        with Run(*STRUCK, *ENDLESS, *mesh("data=2", "stage=2"),
                 *self.kept()) as run:
            run.wait_for_step(30)
            self.lose_with_memory(run, "stage:3")
            run.wait_for_step(run.step() + 60)
            summary = run.end(30)
            self.assertIn("no step is undone", run.output())
        self.check_undisturbed(summary, *STRUCK)

    def test_where_nobody_has_them_the_newest_checkpoint_has(self):
        # Far from the checkpoint before and the next one: a member that is lost
        # in the very step of one takes no step along.
        with Run(*STRUCK, *ENDLESS, "--strategy", "pipeline", "--stages", "3",
                 "--processes", *self.kept("--checkpoint-every", "300")) as run:
            run.wait_for_step(400)
            self.lose_with_memory(run, "stage:1")
            said = wait_for(
                lambda: re.search(r"from step \d+, (\d+) steps? (?:are|is) "
                                  r"undone", run.output()),
                "the rollback is told")
            summary = run.end(60)
        self.assertEqual(summary["steps_rolled_back"], int(said[1]))
        whole = summary_of(*STRUCK, "--epochs", "0", "--steps",
                           str(summary["steps"]), *ONE)
        self.assertEqual(digests(summary), digests(whole))

    def test_where_there_is_none_the_run_ends_with_a_line(self):
        with Run(*STRUCK, *ENDLESS, "--strategy", "pipeline", "--stages", "3",
                 "--processes", *self.kept()) as run:
            run.wait_for_step(30)
            self.lose_with_memory(run, "stage:1")
            run.finish(1)
            self.assertRegex(
                run.error(), r"^troupe: stage:1 died .*its layers cannot be dealt "
                r"anew: nobody has a copy of what it held, and there is no "
                r"checkpoint\n")

    def test_without_the_flag_the_run_ends(self):
        with Run(*STRUCK, *ENDLESS, *mesh("data=2", "stage=2"),
                 "--restarts", "0") as run:
            run.wait_for_step(30)
            run.kill("stage:3")
            run.finish(1)
            self.assertRegex(run.error(),
                             r"^troupe: stage:3 died .*restarts are off\n")

    def test_the_rate_is_that_of_the_best_plan(self):
        """Short: docs/benchmarks.md has the figure. Devices wait 20 ms a layer."""
        job = ["--model", "sleep:" + "+".join(["20ms"] * 8) + "-16", "--data",
               "synthetic:digits?samples=20000", "--virtual-ranks", "8",
               "--global-batch", "8", "--optimizer", "sgd", "--seed", "7"]
        planned = call("plan", *job, *mesh("data=2", "stage=4"),
                       "--best-mesh-of", "7")
        self.assertEqual(planned.returncode, 0, planned.stderr)
        best = re.search(r"(?m)^(\S+) of 7 devices: a step of (\d+) ms",
                         planned.stdout)
        with Run(*job, "--epochs", "0", "--steps", "24",
                 *mesh("data=2", "stage=4"), *self.kept()) as run:
            run.wait_for_step(4)
            self.lose(run, "stage:5", 1, 2)
            summary = run.finish()
            self.assertIn(f"{best[1]} of 7 devices", run.output())
        whole = summary_of("--model", "sleep:" + "+".join(["0ms"] * 8) + "-16",
                           *job[2:], "--epochs", "0", "--steps", "24", *ONE)
        self.assertEqual(digests(summary), digests(whole))
        # Other processes may have the processors; waiting takes none.
        self.assertLess(summary["step_ms"]["p50"], 1.5 * int(best[2]))

    def test_what_cannot_be_is_refused_in_one_line(self):
        flag = ["--on-loss", "replan"]
        kept = ["--checkpoint-dir", self.path("kept")]
        meshed = ["--strategy", "hybrid"]
        self.check_refusals(STRUCK, (
            ([*meshed, "--processes", *flag],
             r"--on-loss replan .*add --checkpoint-dir DIR"),
            ([*meshed, "--in-process", *kept, *flag],
             r"--on-loss replan .*add --processes"),
            (["--strategy", "mirrored", *kept, *flag],
             r"--on-loss replan .*mirrored"),
            ([*meshed, "--processes", "--standby", *kept, *flag],
             r"--on-loss replan .*--standby")))
        for done, line in (
                (call("launch", "--kubernetes", "--", "train", *STRUCK,
                      *meshed, *kept, *flag),
                 r"launch: .*--on-loss"),
                (call("role", "coordinator", *STRUCK, *meshed, *kept, *flag,
                      "--certificates", self.path("certs")),
                 r"--on-loss replan .*started by hand"),
                (call("plan", *STRUCK, "--best-mesh-of", "7"),
                 r"--best-mesh-of .*--strategy hybrid")):
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertRegex(done.stderr, rf"^troupe: {line}.*\n$")


if __name__ == "__main__":
    unittest.main()
