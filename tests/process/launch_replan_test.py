"""`troupe launch` and `--on-loss replan`, on hosts that are network namespaces: what
roles that are started no more have left on their hosts, or peers of a host that is
lost, goes on on the hosts that are left, with the bits of one device."""
# ctest: TIMEOUT 600 COST 60 PROCESSORS 1

import os
import re
import signal
import subprocess
import unittest

from cluster import DEADLINE_S, TROUPE, Run, checkpoint_steps, wait_for
from launch_hosts_test import LaunchHosts
from own_folder import OwnFolder
from split_models import ONE, STRUCK, SplitModels, digests, summary_of
from sshd import program

ENDLESS = ["--epochs", "0", "--steps", "100000000", "--log-every", "20"]
DEALT = "is gone for good: its layers are dealt anew, "


def mesh(*axes):
    return ["--strategy", "hybrid", "--mesh", ",".join(axes)]


class LaunchReplan(SplitModels, LaunchHosts):
    OTHERS = 3

    def begin(self, where, *job):
        run = Run(*STRUCK, *ENDLESS, *job, "--on-loss", "replan", "--restarts",
                  "0", "--checkpoint-dir", self.path("kept"),
                  command=self.command(where))
        self.addCleanup(run.__exit__)
        self.wait_for_step(run, 40)
        return run

    def wait_until_dealt(self, run, times, steps=60):
        """And until the job has gone on."""
        wait_for(lambda: run.output().count(DEALT) >= times
                 or run.process.poll() is not None, "layers are dealt anew")
        self.assertIsNone(run.process.poll(), run.error())
        step = self.step(run)
        self.wait_for_step(run, step + steps)

    def cut_connection(self, host):
        """Its agent and roles end; the host would be there again."""
        pid = next(pid for pid, words in self.sshd.processes(0)
                   if words[0].endswith("ssh") and f"h{host}" in words)
        os.kill(pid, signal.SIGKILL)

    def end(self, run, roles, times=None):
        """The run has lost these, one after the other or so often, and no step.
        """
        run.process.send_signal(signal.SIGTERM)
        summary = run.finish(143)
        self.check_undisturbed(summary, *STRUCK)
        self.assertEqual({(r["role"], r["kind"]) for r in summary["recoveries"]},
                         {(role, "layers_dealt_anew") for role in roles})
        self.assertEqual(run.output().count("no step is undone"),
                         times or len(roles))
        self.nothing_is_left(flights=True)
        for host in range(1, 1 + self.OTHERS):
            self.assertEqual(self.sshd.memory_files(host), [])

    def test_roles_that_are_gone_for_good_cost_their_devices_alone(self):
        run = self.begin("h1:2,h2:2", *mesh("data=2", "stage=2"))
        os.kill(self.roles()["stage:3"], signal.SIGKILL)
        self.wait_until_dealt(run, 1)
        self.assertRegex(run.output(), r"stage:3 is gone for good: .* of 3 devices")
        self.assertLessEqual(len(self.sshd.roles(2)), 1)
        old = self.roles()["coordinator"]
        os.kill(self.roles()["stage:0"], signal.SIGKILL)
        self.wait_until_dealt(run, 2)
        self.assertRegex(run.output(), r"stage:0 is gone for good: .* of 2 devices")
        self.assertNotEqual(self.roles()["coordinator"], old)
        self.end(run, ["stage:3", "stage:0"])

    def test_one_pipeline_goes_on_from_what_its_stages_have_left(self):
        """Nobody has a copy: each slice is from the host of its stage."""
        run = self.begin("h1,h2,h3", "--strategy", "pipeline", "--stages", "3")
        os.kill(self.roles()["stage:1"], signal.SIGKILL)
        self.wait_until_dealt(run, 1)
        self.end(run, ["stage:1"])

    def test_tensor_members_go_on_with_fewer_devices(self):
        self.one = [*ONE, "--virtual-slices", "4"]
        run = self.begin("h1:2,h2:2", *mesh("data=2", "tensor=2"))
        os.kill(self.roles()["tensor:2"], signal.SIGKILL)
        self.wait_until_dealt(run, 1)
        self.end(run, ["tensor:2"])

    def test_a_slot_to_spare_takes_the_place_of_one_that_is_gone(self):
        run = self.begin("h1:3,h2:2", *mesh("data=2", "stage=2"))
        victim = min(self.sshd.roles(2))
        os.kill(self.roles()[victim], signal.SIGKILL)
        self.wait_until_dealt(run, 1)
        self.assertRegex(run.output(),
                         rf"{victim} is gone for good: .* of 4 devices")
        run.process.send_signal(signal.SIGTERM)
        self.check_undisturbed(run.finish(143), *STRUCK)
        self.nothing_is_left(flights=True)

    def test_a_host_that_is_lost_with_its_memory_is_not_needed(self):
        run = self.begin("h1:2,h2,h3", *mesh("data=2", "stage=2"))
        pipeline = set(self.sshd.roles(1))
        self.assertEqual(pipeline, {"stage:0", "stage:1"})
        self.hosts.unplug(1)
        wait_for(lambda: DEALT in run.output(), "layers are dealt anew")
        # Its agent and its roles, which live yet, are of a layout that is over,
        # and end by themselves.
        self.hosts.plug(1)
        self.wait_until_dealt(run, 1)
        gone = re.search(r"(stage:\d) " + DEALT + r".* of 2 devices",
                         run.output())
        self.assertTrue(gone, run.output())
        self.assertIn(gone[1], pipeline)
        self.assertRegex(run.output(), r"(?m)^h1 is lost: it gets no role any "
                         r"more, also where it comes back$")
        wait_for(lambda: not self.sshd.roles(1), "its roles end", 60)
        self.wait_for_step(run, self.step(run) + 40)
        self.assertEqual(self.sshd.roles(1), {})
        self.end(run, pipeline, 1)

    def test_where_nobody_has_a_copy_the_newest_checkpoint_has(self):
        run = self.begin("h1,h2", "--strategy", "pipeline", "--stages", "2",
                         "--checkpoint-every", "30")
        wait_for(lambda: checkpoint_steps(self.path("kept")), "a checkpoint")
        self.cut_connection(2)
        self.wait_until_dealt(run, 1)
        undone = re.search(r"from step (\d+), (\d+) steps? (?:are|is) undone|"
                           r"from step (\d+), no step is undone", run.output())
        self.assertTrue(undone, run.output())
        run.process.send_signal(signal.SIGTERM)
        summary = run.finish(143)
        self.assertEqual(summary["steps_rolled_back"], int(undone[2] or 0))
        self.assertEqual(int(undone[1] or undone[3]) % 30, 0)
        whole = summary_of(*STRUCK, "--epochs", "0", "--steps",
                           str(summary["steps"]), *ONE)
        self.assertEqual(digests(summary), digests(whole))
        self.nothing_is_left(flights=True)

    def test_where_there_is_none_the_run_ends_with_a_line(self):
        run = self.begin("h1,h2", "--strategy", "pipeline", "--stages", "2")
        self.cut_connection(2)
        run.finish(1)
        self.assertRegex(
            run.error(), r"\Atroupe: stage:1 \(h2\) died .*its layers cannot be "
            r"dealt anew: nobody has a copy of what it held, and there is no "
            r"checkpoint\n\Z")
        self.nothing_is_left(flights=True)

    def test_where_no_host_is_left_the_run_ends_with_a_line(self):
        run = self.begin("h1:2", "--strategy", "pipeline", "--stages", "2")
        self.cut_connection(1)
        run.finish(1)
        self.assertRegex(run.error(), r"\Atroupe: stage:\d \(h1\) died .*its "
                         r"layers cannot be dealt anew: no device is left\n\Z")
        self.nothing_is_left(flights=True)

    def test_hosts_that_do_not_see_the_checkpoints_are_named(self):
        kept = self.path("only-here", "kept")
        line = self.refused(*mesh("data=2", "stage=2"), "--on-loss",
                            "replan", "--checkpoint-dir", kept,
                            where="h1:2,h2:2")
        self.assertRegex(line, r"--on-loss replan: h1 does not see \S+/trial-\S+ "
                         r"\(No such file or directory\); h2 does not see .*: "
                         r"name a --checkpoint-dir that all hosts have")
        self.assertFalse(os.path.exists(kept))

    def test_what_cannot_be_is_refused_in_one_line(self):
        flag = ["--on-loss", "replan"]
        kept = ["--checkpoint-dir", self.path("kept")]
        for flags, job, line in (
                ([], [*mesh("data=2", "stage=2"), *flag],
                 "--on-loss replan .*add --checkpoint-dir DIR"),
                ([], ["--strategy", "parameter_server", *kept, *flag],
                 "--on-loss replan .*parameter_server"),
                (["--address", "10.77.0.1"],
                 [*mesh("data=2", "stage=2"), "--standby", *kept, *flag],
                 "--on-loss replan .*--standby")):
            done = subprocess.run(
                [*self.command("h1:2,h2:2", flags=flags), "train", *STRUCK,
                 *job], capture_output=True, text=True, timeout=DEADLINE_S,
                check=False)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertRegex(done.stderr, rf"\Atroupe: .*{line}[^\n]*\n\Z")


class Localhost(SplitModels, OwnFolder):
    def test_slots_of_this_machine_are_devices_like_others(self):
        run = Run(*STRUCK, *ENDLESS, *mesh("data=2", "stage=2"), "--on-loss",
                  "replan", "--restarts", "0", "--checkpoint-dir",
                  self.path("kept"),
                  command=[TROUPE, "launch", "-H", "localhost:4", "--"])
        self.addCleanup(run.__exit__)
        run.wait_for_step(40)
        run.kill("stage:2")
        wait_for(lambda: DEALT in run.output()
                 or run.process.poll() is not None, "layers are dealt anew")
        self.assertIsNone(run.process.poll(), run.error())
        self.assertRegex(run.output(), r"stage:2 is gone for good: .* of 3 devices")
        summary = run.end(60)
        self.check_undisturbed(summary, *STRUCK)


def load_tests(loader, *_):
    """Its own alone, not those that it inherits."""
    return unittest.TestSuite(
        case(name) for case in (LaunchReplan, Localhost) for name in vars(case)
        if name.startswith("test_"))


if __name__ == "__main__":
    program()
    unittest.main()
