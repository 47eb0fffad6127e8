"""kill -9 of the coordinator: another one goes on from its journal, roles wait
and register again, no step is lost and no bit changes. TROUPE_KILLS sets the
number of kills (default 4)."""
# ctest: TIMEOUT 1200

import array
import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import unittest

from cluster import ENDLESS, TROUPE, Run, wait_for
from own_folder import OwnFolder
from roles import Role

KILLS = int(os.environ.get("TROUPE_KILLS", "4"))
SEED = int(os.environ.get("TROUPE_KILLS_SEED", "1"))
DATA = ["--data", "synthetic:digits?samples=2000", "--seed", "5"]
MLP = ["--model", "mlp:784-64-10"]
SERVED = ["--strategy", "parameter_server", "--workers", "3", "--ps", "2",
          "--processes", "--partitioner", "max_size:65536"]
CHAINED = [*SERVED, "--chain", "2"]
MIRRORED = ["--strategy", "multi_worker_mirrored", "--workers", "2",
            "--processes"]
COUNT = ["--model", "count:1ms-50000", "--optimizer", "sgd", "--lr", "1"]


def parameters(path):
    """All values of a safetensors file of float32."""
    with open(path, "rb") as file:
        header = int.from_bytes(file.read(8), "little")
        file.seek(8 + header)
        values = array.array("f")
        values.frombytes(file.read())
    return values


def events(where, *arguments):
    done = subprocess.run([TROUPE, "events", where, *arguments],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def event_list(where, *arguments):
    return [json.loads(line)
            for line in events(where, *arguments, "--json").splitlines()]


class Coordinator(OwnFolder):
    def undisturbed(self, steps, model=MLP):
        with Run(*DATA, *model, "--strategy", "one_device", "--epochs", "0",
                 "--steps", str(steps)) as run:
            return run.finish()

    def kill_and_wait(self, run, *others):
        """Kills the coordinator and, at the same moment, others; waits until
        each has a new process and an epoch has begun."""
        epoch = run.metric("troupe_membership_epoch")
        old = {role: run.kill(role) for role in ("coordinator", *others)}
        for role, pid in old.items():
            wait_for(lambda role=role, pid=pid:
                     run.children().get(role) not in (None, pid),
                     f"{role} is started again")
        wait_for(lambda: run.metric("troupe_membership_epoch") > epoch,
                 "the next epoch")

    def check(self, summary, kills, steps):
        own = [x for x in summary["recoveries"] if x["role"] == "coordinator"]
        self.assertEqual([x["kind"] for x in own],
                         ["coordinator_restarted"] * kills)
        for recovery in summary["recoveries"]:
            self.assertGreaterEqual(recovery["resumed_ms"],
                                    recovery["detected_ms"])
        print("next commit after the new process began, ms:",
              [round(x["resumed_ms"] - x["detected_ms"]) for x in own])
        self.assertEqual(summary["steps"], steps)
        self.assertEqual(summary["steps_rolled_back"], 0)
        self.assertEqual(summary["samples"], self.samples(steps))

    @staticmethod
    def samples(steps):
        """32 steps a data epoch, the last of which is shorter."""
        return steps // 32 * 2000 + steps % 32 * 64

    def killed_often(self, *arguments, steps=None, others=()):
        """`others` die at the same moments. Without `steps`, the run is ended
        after the last of them."""
        chance = random.Random(SEED)
        length = ENDLESS if steps is None else ["--epochs", "0", "--steps",
                                                str(steps)]
        with Run(*DATA, *length, *arguments, "--save", self.weights) as run:
            run.wait_for_step(1)
            for kill in range(KILLS):
                run.wait_for_step(run.step() + chance.randrange(5, 40))
                self.kill_and_wait(run, *others[kill:kill + 1])
            summary = run.end(60) if steps is None else run.finish()
        self.check(summary, KILLS, steps or summary["steps"])
        return summary

    def setUp(self):
        super().setUp()
        self.weights = os.path.join(self.folder, "weights.safetensors")

    # --- what is told ---------------------------------------------------------

    def test_each_of_its_deaths_is_told_in_a_line(self):
        # Now and then the line went to the coordinator that had died.
        with Run(*DATA, *ENDLESS, *MLP, *SERVED) as run:
            for _ in range(6):
                run.wait_for_step(run.step() + 1)
                self.kill_and_wait(run)
            wait_for(lambda: run.output().count("coordinator died (signal 9")
                     == 6, "six lines", 20)
            run.process.send_signal(signal.SIGINT)
            run.finish(130)

    LOSSES = re.compile(r"^(step \d+|data epoch \d+)(?: of \d+|, step \d+)"
                        r"(?:,|:) +loss +(\S+?),? ", re.MULTILINE)

    def losses(self, run):
        return dict(self.LOSSES.findall(run.output()))

    def test_each_loss_that_is_shown_is_that_of_its_step(self):
        """Steps go on while it is dead, and workers report to nobody. Those
        steps had the loss of the last one before, or of some workers' samples
        alone."""
        for strategy in (CHAINED, MIRRORED):
            with self.subTest(strategy=strategy[1]):
                with Run(*DATA, *ENDLESS, *MLP, *strategy, "--log-every",
                         "1") as run:
                    for _ in range(KILLS):
                        run.wait_for_step(run.step() + 20)
                        self.kill_and_wait(run)
                    run.wait_for_step(run.step() + 5)
                    steps = run.end(60)["steps"]
                    shown = self.losses(run)
                with Run(*DATA, *MLP, "--strategy", "one_device", "--epochs",
                         "0", "--steps", str(steps), "--log-every",
                         "1") as run:
                    run.finish()
                    expected = self.losses(run)
                self.assertGreater(len(shown), 20 * KILLS // 2)
                untrue = {step: (loss, expected[step])
                          for step, loss in shown.items()
                          if loss != expected[step]}
                self.assertEqual(untrue, {})

    # --- bits -----------------------------------------------------------------

    def test_synchronous_bits_do_not_change(self):
        summary = self.killed_often(*MLP, *CHAINED)
        expected = self.undisturbed(summary["steps"])
        self.assertGreater(summary["final_loss"], 0)
        for digest in ("weights_sha256", "state_sha256"):
            self.assertEqual(summary[digest], expected[digest])

    def test_a_role_that_dies_with_the_coordinator_costs_nothing_either(self):
        others = ("worker:0", "ps:1", "worker:2", "ps:3") * KILLS
        summary = self.killed_often(*MLP, *CHAINED, others=others)
        self.assertEqual(summary["weights_sha256"],
                         self.undisturbed(summary["steps"])["weights_sha256"])
        self.assertGreaterEqual(len(summary["recoveries"]), 2 * KILLS)

    def test_replicas_wait_and_go_on(self):
        summary = self.killed_often(*MLP, *MIRRORED)
        self.assertEqual(summary["weights_sha256"],
                         self.undisturbed(summary["steps"])["weights_sha256"])

    def test_asynchronous_leases_are_applied_once(self):
        steps = 200 * (KILLS + 2)
        for how in (["--async"], ["--staleness", "2"]):
            with self.subTest(how=how):
                self.killed_often(*COUNT, *CHAINED, *how, steps=steps)
                self.assertEqual(set(parameters(self.weights)), {4.0 * steps})

    # --- the journal ----------------------------------------------------------

    def test_events_tell_what_happened(self):
        logs = os.path.join(self.folder, "logs")
        with Run(*DATA, *MLP, *SERVED, *ENDLESS, "--log-dir", logs) as run:
            run.wait_for_step(20)
            self.kill_and_wait(run)
            run.kill_and_wait("worker:1", 2)
            summary = run.end(100)
        told = event_list(logs)
        self.assertEqual([x["id"] for x in told],
                         list(range(1, len(told) + 1)))
        self.assertEqual([x["term"] for x in told
                          if x["kind"] == "coordinator"], [1, 2])
        epochs = [x["epoch"] for x in told if x["kind"] == "epoch"]
        self.assertEqual(epochs, sorted(set(epochs)))
        reasons = [x["reason"] for x in told if x["kind"] == "epoch"]
        self.assertIn("the run begins; every slice has version 0", reasons)
        # On a busy machine it may be back before the others have gone on.
        self.assertRegex("\n".join(reasons), r"worker:1 (was lost|has joined); "
                         r"every slice has version \d+")
        self.assertEqual(
            [(x["role"], x["recovery_kind"]) for x in told
             if x["kind"] == "recovery"],
            [(x["role"], x["kind"]) for x in summary["recoveries"]])
        commits = [x for x in told if x["kind"] == "commits"]
        steps = summary["steps"]
        self.assertEqual(commits[-1]["first"] + commits[-1]["count"], steps)
        self.assertEqual(told[-1]["kind"], "over")
        self.check_filters(logs, told, steps)

    def check_filters(self, logs, told, steps):
        self.assertEqual(event_list(logs, "--kind", "epoch"),
                         [x for x in told if x["kind"] == "epoch"])
        own = event_list(logs, "--role", "worker:1", "--kind", "death")
        self.assertEqual([x["role"] for x in own], ["worker:1"])
        # After the kills.
        late = event_list(logs, "--since-step", str(steps - 50))
        self.assertEqual(late, told[-len(late):])
        self.assertLess(len(late), len(told))
        self.assertIn("coordinator_restarted", events(logs))

    def test_a_journal_is_not_written_over_and_not_continued_once_over(self):
        journal = os.path.join(self.folder, "run.db")
        job = [*DATA, *MLP, *SERVED, "--epochs", "0", "--steps", "5",
               "--journal", journal]
        with Run(*job, "--certificates",
                 os.path.join(self.folder, "certificates")) as run:
            run.finish()
        with Run(*job) as run:
            run.finish(1)
            self.assertRegex(run.error(), r"^troupe: .*is there already.*\n$")
        again = Role(self.addCleanup, "coordinator", "--certificates",
                     os.path.join(self.folder, "certificates"), *job)
        self.assertRegex(again.finish(1), r"^troupe: .*its run is over.*\n$")

    def test_one_that_is_killed_while_it_reads_its_data_is_started_again(self):
        """The run ended, as with one that fails."""
        many = ["--data", "synthetic:digits?samples=40000", "--seed", "5"]
        job = [*many, *MLP, *SERVED, "--epochs", "0", "--steps", "5"]
        with Run(*job) as run:
            run.kill("coordinator")
            summary = run.finish()
            self.assertRegex(run.output(), r"(?s)\A((?!coordinator: ).)*"
                             r"coordinator died \(signal 9 \(Killed\)\): restart "
                             r"1 of 5\n.*coordinator: ")
        with Run(*many, *MLP, "--strategy", "one_device", "--epochs", "0",
                 "--steps", "5") as run:
            self.assertEqual(run.finish()["weights_sha256"],
                             summary["weights_sha256"])
        with Run(*job, "--restarts", "0") as run:
            run.kill("coordinator")
            run.finish(1)
            self.assertEqual(run.error(), "troupe: the coordinator ended with "
                             "signal 9 (Killed)\n")

    def test_a_start_that_is_refused_leaves_no_journal(self):
        """It was there, and the next start was refused for it."""
        kept = os.path.join(self.folder, "kept")
        job = [*DATA, *MLP, "--strategy", "parameter_server", "--epochs", "0",
               "--steps", "5", "--checkpoint-dir", kept]
        with Run(*job) as run:
            run.finish()
        before = sorted(os.listdir(self.folder))
        journal = ["--journal", os.path.join(self.folder, "run.db")]
        for where in ([], ["--processes"]):
            with Run(*job, *journal, *where) as run:
                run.finish(1)
                self.assertIn("add --resume", run.error())
            self.assertEqual(sorted(os.listdir(self.folder)), before)
        with Run(*job, *journal, "--resume") as run:
            run.finish()
        self.assertEqual(event_list(journal[1])[-1]["kind"], "over")

    def test_a_damaged_journal_ends_the_run_in_one_line(self):
        journal = os.path.join(self.folder, "run.db")
        with Run(*DATA, *MLP, *SERVED, *ENDLESS, "--journal", journal) as run:
            run.wait_for_step(5)
            with sqlite3.connect(journal) as database:
                database.execute(
                    "UPDATE events SET body = body || ' ' WHERE id = 2")
            database.close()
            run.kill("coordinator")
            run.finish(1)
            self.assertRegex(run.error(),
                             r"^troupe: journal .*does not fit its checksum.*"
                             r"\n$")
        done = subprocess.run([TROUPE, "events", journal],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"^troupe: journal .*event 2.*\n$")

    # --- by hand --------------------------------------------------------------

    def test_a_coordinator_started_again_by_hand_goes_on(self):
        arguments = ["coordinator", "--certificates",
                     os.path.join(self.folder, "certificates"), "--journal",
                     os.path.join(self.folder, "run.db"), "--summary",
                     os.path.join(self.folder, "summary.json"), *DATA, *MLP,
                     "--strategy", "parameter_server", "--workers", "2",
                     "--ps", "1", *ENDLESS]
        first = Role(self.addCleanup, *arguments)
        address = first.address()
        members = [Role(self.addCleanup, role, "--coordinator",
                        address, "--certificates",
                        os.path.join(self.folder, "certificates"))
                   for role in ("ps:0", "worker:0", "worker:1")]
        wait_for(lambda: "epoch 2 " in first.output(), "two epochs of data")
        first.process.kill()
        first.process.wait()
        second = Role(self.addCleanup, *arguments)
        self.assertEqual(second.address(), address)
        wait_for(lambda: re.search(r"(?m)^epoch \d+ ", second.output()),
                 "one more")
        second.process.send_signal(signal.SIGTERM)
        second.finish(143)
        for member in members:
            member.finish()
        with open(os.path.join(self.folder, "summary.json")) as file:
            summary = json.load(file)
        steps = summary["steps"]
        self.check(summary, 1, steps)
        self.assertEqual(summary["weights_sha256"],
                         self.undisturbed(steps)["weights_sha256"])


if __name__ == "__main__":
    unittest.main()
