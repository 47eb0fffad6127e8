"""Shards and workers come and go, and slices move, while a job trains: the bits
do not change, nothing is rolled back, every lease is consumed once."""
# ctest: TIMEOUT 1200

import re
import signal
import subprocess
import unittest

from cluster import (DEADLINE_S, ENDLESS, TROUPE, Run, check_samples,
                     wait_for)

JOB = ["--data", "synthetic:digits?samples=2000", "--model", "mlp:784-64-10",
       "--seed", "5", "--partitioner", "max_size:32768", "--eval-every", "0"]
ROLES = ["--strategy", "parameter_server", "--workers", "2", "--ps", "2",
         "--processes"]
SERVED = [*JOB, *ROLES, *ENDLESS]
TABLES = ["--data", "synthetic:clicks?samples=3000&buckets=2000", "--model",
          "dlrm", "--tables", "sparse", "--lr", "0.05", "--seed", "3",
          "--eval-every", "0"]
ONE_DEVICE = [*JOB, "--strategy", "one_device"]
DIGESTS = ("weights_sha256", "state_sha256")


def connection(run):
    """Flags that lead to the run's coordinator."""
    found = wait_for(lambda: re.search(
        r"coordinator: (\S+), certificates (\S+)", run.output()),
        "the coordinator's address")
    return ["--coordinator", found.group(1), "--certificates", found.group(2)]


def ask(run, *words):
    """Sends a command to the run's coordinator; returns the process."""
    return subprocess.run(
        [TROUPE, "ctl", *words, *connection(run)],
        capture_output=True, text=True, timeout=DEADLINE_S, check=False)


class Moves(unittest.TestCase):
    def change(self, run, *words):
        done = ask(run, *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "")
        return done.stdout

    def gone(self, run, role):
        wait_for(lambda: role not in run.children(), f"{role} has ended")

    def everything(self, *arguments, chain=1, job=JOB):
        """Adds, moves, spreads and removes while the job trains."""
        added = f"ps:{2 * chain}"
        with Run(*job, *ROLES, *ENDLESS, *arguments, "--chain",
                 str(chain)) as run:
            run.wait_for_step(20)
            self.assertIn("moved", self.change(run, "shards", "add"))
            self.assertIn(added, run.children())
            self.change(run, "workers", "add", "2")
            self.change(run, "move-slices", "--from", added, "--to", "ps:0")
            self.change(run, "rebalance")
            self.change(run, "shards", "remove", "ps:1")
            self.gone(run, "ps:1")
            self.change(run, "workers", "remove", "worker:0")
            self.gone(run, "worker:0")
            summary = run.end()
        self.assertEqual(summary["recoveries"], [])
        self.assertEqual(summary["steps_rolled_back"], 0)
        made = {x["change"].split()[0]: x for x in summary["changes"]}
        self.assertEqual(len(summary["changes"]), 6)
        for change in summary["changes"]:
            self.assertGreater(change["epochs"], 0)
            self.assertGreater(change["push_pause_ms"], 0)
        self.assertGreater(made["move-slices"]["slices"], 0)
        self.assertGreater(made["move-slices"]["bytes"], 0)
        return summary

    def check_bits(self, found, *undisturbed):
        """They are those of a run of as many steps that nothing happened to."""
        with Run(*undisturbed, "--epochs", "0", "--steps",
                 str(found["steps"])) as run:
            expected = run.finish()
        for digest in DIGESTS:
            self.assertEqual(found[digest], expected[digest])
        return expected

    def test_bits_stay_while_members_come_and_go(self):
        for chain in (1, 2):
            with self.subTest(chain=chain):
                self.check_bits(self.everything(chain=chain), *ONE_DEVICE)

    def test_bits_stay_while_parts_of_tables_move(self):
        # Adam's rows move in steps that touch them only: the run that is not
        # disturbed has sparse tables too. Evicted rows do not come back.
        for chain, rule in ((1, ["--optimizer", "adam"]),
                            (2, ["--optimizer", "adagrad",
                                 "--table-idle-steps", "16"])):
            with self.subTest(chain=chain):
                found = self.everything(*rule, chain=chain, job=TABLES)
                expected = self.check_bits(
                    found, *TABLES, *rule, "--strategy", "parameter_server",
                    "--workers", "1", "--ps", "1", "--in-process")
                self.assertEqual(found["tables"]["rows"],
                                 expected["tables"]["rows"])

    def test_members_die_while_others_come_and_go(self):
        with Run(*SERVED, "--chain", "2") as run:
            run.wait_for_step(20)
            for words, victim in (
                    (["shards", "add"], "ps:0"),
                    (["move-slices", "--from", "ps:4", "--to", "ps:1"], "ps:4"),
                    (["rebalance"], "worker:0"),
                    (["shards", "remove", "ps:2"], "ps:3"),
                    (["workers", "add"], "ps:1"),
                    (["workers", "remove", "worker:1"], "worker:2")):
                epoch = run.metric("troupe_membership_epoch")
                with subprocess.Popen([TROUPE, "ctl", *words,
                                       *connection(run)],
                                      stdout=subprocess.DEVNULL) as change:
                    wait_for(lambda change=change, epoch=epoch:
                             change.poll() is not None
                             or run.metric("troupe_membership_epoch") > epoch,
                             "the change begins")
                    run.kill(victim)
                    self.assertEqual(change.wait(DEADLINE_S), 0)
                # Answered when all that are wanted are replicas again.
                self.change(run, "rebalance")
            summary = run.end()
        self.assertEqual(len(summary["recoveries"]), 6)
        self.assertEqual(summary["steps_rolled_back"], 0)
        self.check_bits(summary, *ONE_DEVICE)

    def test_scalars_over_all_variables_move_along(self):
        lamb = ["--optimizer", "lamb", "--clip-norm", "0.5"]
        self.check_bits(self.everything(*lamb), *ONE_DEVICE, *lamb)

    def test_every_lease_is_consumed_once(self):
        for chain in (1, 2):
            with self.subTest(chain=chain):
                found = self.everything("--async", chain=chain)
                check_samples(self, found, of=2000)

    def test_every_lease_is_consumed_once_where_parts_of_tables_move(self):
        found = self.everything("--async", "--optimizer", "adagrad",
                                job=TABLES)
        check_samples(self, found, of=3000)

    def test_a_role_that_is_asked_to_end_hands_over_first(self):
        with Run(*SERVED) as run:
            run.wait_for_step(20)
            for role in ("ps:0", "worker:1"):
                run.kill(role, signal.SIGTERM)
                self.gone(run, role)
            summary = run.end()
        self.assertEqual([x["change"] for x in summary["changes"]],
                         ["shards remove ps:0", "workers remove worker:1"])
        self.assertEqual(summary["recoveries"], [])
        self.check_bits(summary, *ONE_DEVICE)

    def test_roles_beyond_the_plan_take_part_when_started_by_hand(self):
        with Run(*SERVED) as run:
            guests = {}
            for role in ("worker:5", "ps:3", "worker:7"):
                guests[role] = subprocess.Popen(
                    [TROUPE, "role", role, *connection(run)])
                self.addCleanup(guests[role].wait)
                self.addCleanup(guests[role].kill)
                wait_for(lambda role=role: f"{role} joins" in run.output(),
                         f"{role} joins")
            guests["worker:5"].kill()  # nobody starts it again, nobody waits
            guests["worker:7"].terminate()
            self.assertEqual(guests["worker:7"].wait(DEADLINE_S), 0)
            summary = run.end()
            self.assertEqual(guests["ps:3"].wait(DEADLINE_S), 0)
        self.assertEqual(summary["steps_rolled_back"], 0)
        self.assertEqual([x["change"] for x in summary["changes"]],
                         ["ps:3 joins", "workers remove worker:7"])
        self.assertGreater(summary["changes"][0]["slices"], 0)
        self.check_bits(summary, *ONE_DEVICE)

    def test_what_cannot_be_is_refused_with_one_line(self):
        with Run(*SERVED) as run:
            run.wait_for_step(5)
            for words, part in (
                    (["shards", "remove", "ps:7"], "ps:7 is not a role"),
                    (["workers", "remove", "worker:7"], "not a role"),
                    (["workers", "add", "9"], "--virtual-ranks 11"),
                    (["move-slices", "--from", "ps:0", "--to", "ps:0"],
                     "no move")):
                done = ask(run, *words)
                self.assertEqual(done.returncode, 1, words)
                self.assertIn(part, done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1)
            self.change(run, "shards", "remove", "ps:1")
            self.assertIn("last shard",
                          ask(run, "shards", "remove", "ps:0").stderr)


if __name__ == "__main__":
    unittest.main()
