"""Who would change the weights, or cannot take part, is refused by name and ends
with that line: it costs the job nothing but itself, before the first step as
later, and another process may take its name. So with data of the same shape and
other contents, another numeric class, no data, a wrong address, one too many."""
# Symptoms: roles that were started in another folder trained on the data there,
# with a status of 0 and other weights; workers that were too many, or of another
# class, stayed for ever without a word; one wrong --listen ended the whole job.
# ctest: TIMEOUT 900

import json
import os
import re
import unittest

from cluster import ENDLESS, TROUPE, Run, wait_for
from own_folder import OwnFolder, run_tests
from roles import Role

MODEL = ["--model", "mlp:2-8-4", "--global-batch", "32", "--seed", "7"]
SERVED = ["--strategy", "parameter_server", "--workers", "2", "--ps", "1"]
REPLICAS = ["--strategy", "multi_worker_mirrored", "--workers", "2"]
READ = [*SERVED, "--readers", "1"]
DIGITS = ["--data", "synthetic:digits?samples=2000", "--model",
          "mlp:784-48-10", "--seed", "7"]
OTHERS = ("has other data than the coordinator: --data csv:x.csv there has "
          "other contents; give both the same files")
TOLD_S = 10


def write_table(folder, number=lambda i: i / 160, kind=lambda i: i % 4):
    os.makedirs(folder)
    with open(os.path.join(folder, "x.csv"), "w") as file:
        file.write("a,b,kind\n")
        for i in range(160):
            file.write(f"{i % 4},{number(i)},{kind(i)}\n")


def has_fma():
    with open("/proc/cpuinfo") as file:
        return "fma" in file.read().split()


class EqualMembers(OwnFolder):
    def setUp(self):
        super().setUp()
        write_table(self.path("own"))
        write_table(self.path("other"), number=lambda i: i / 161)
        write_table(self.path("flipped"), kind=lambda i: 3 - i % 4)
        # One of 160 samples is another.
        write_table(self.path("one"), number=lambda i: (i + i // 159) / 160)
        os.mkdir(self.path("empty"))

    def within(self, folder):
        return ("env", "-C", self.path(folder))

    def coordinator(self, *arguments):
        self.summary = self.path("summary.json")
        self.leader = Role(self.addCleanup, "coordinator", "--certificates",
                           self.path("certificates"), "--summary",
                           self.summary, *arguments, on=self.within("own"))
        self.address = self.leader.address()

    def member(self, role, *arguments, folder="own", **options):
        return Role(self.addCleanup, role, "--coordinator", self.address,
                    "--certificates", self.path("certificates"), *arguments,
                    on=self.within(folder), **options)

    def joined(self, role, *arguments, **options):
        one = self.member(role, *arguments, **options)
        wait_for(lambda: "joins the job of" in one.output(), f"{role} joins")
        return one

    def turned_away(self, one, role, why):
        """It ends with that line, and the coordinator says so and goes on."""
        self.assertRegex(one.finish(1, TOLD_S),
                         rf"\Atroupe: ({role}: cannot take part: )?{why}[^\n]*"
                         r"\n\Z")
        line = rf"(?m)^{role} cannot take part: {why}"
        wait_for(lambda: re.search(line, self.leader.output()), line, TOLD_S)
        self.assertIsNone(self.leader.process.poll(), self.leader.error())

    def finish(self, members, expected, lost=frozenset()):
        self.leader.finish()
        for member in members:
            member.finish(0, TOLD_S)
        with open(self.summary) as file:
            found = json.load(file)
        self.assertEqual(found["weights_sha256"], expected["weights_sha256"])
        # The shard in its process had joined.
        self.assertLessEqual({x["role"] for x in found["recoveries"]}, lost)

    # --- data -----------------------------------------------------------------

    def test_other_contents_of_the_same_shape_are_refused_by_name(self):
        job = ["--data", "csv:x.csv", *MODEL, "--epochs", "3"]
        with Run(*job, "--strategy", "one_device",
                 command=[*self.within("own"), TROUPE]) as run:
            expected = run.finish()
        for strategy, roles, last in (
                (SERVED, ["ps:0", "worker:0"], "worker:1"),
                (REPLICAS, ["worker:0"], "worker:1"),
                (READ, ["ps:0", "worker:0", "worker:1"], "reader:0"),
                (["--strategy", "pipeline", "--stages", "2"], ["stage:0"],
                 "stage:1"),
                (["--strategy", "fully_sharded", "--workers", "2"],
                 ["sharded:0"], "sharded:1")):
            for folder in ("other", "flipped", "one"):
                with self.subTest(strategy=strategy, folder=folder):
                    self.coordinator(*job, *strategy)
                    members = [self.member(role) for role in roles]
                    wrong = self.member(last, folder=folder)
                    error = wrong.finish(1, TOLD_S)
                    self.assertIn(OTHERS, error)
                    name = last.replace("sharded", "worker")
                    wait_for(lambda: f"{name} cannot take part: {OTHERS}"
                             in self.leader.output(), "the coordinator's line")
                    self.finish([*members, self.member(last)], expected,
                                {"ps:1"} if last == "sharded:1" else set())

    def test_who_reads_nothing_needs_no_data(self):
        self.coordinator("--data", "csv:x.csv", *MODEL, "--epochs", "3", *READ)
        members = [self.member(role, folder=folder) for role, folder in (
            ("ps:0", "empty"), ("worker:0", "other"), ("worker:1", "empty"),
            ("reader:0", "own"))]
        self.leader.finish()
        for member in members:
            member.finish(0, TOLD_S)

    def test_a_worker_of_a_running_job_comes_back_with_other_data(self):
        self.coordinator("--data", "csv:x.csv", *MODEL, *ENDLESS, *SERVED)
        members = [self.member(role) for role in ("ps:0", "worker:0",
                                                  "worker:1")]
        wait_for(lambda: "epoch 3 " in self.leader.output(), "three epochs")
        members[2].stop()
        self.turned_away(self.member("worker:1", folder="other"), "worker:1",
                         OTHERS)
        members[2] = self.member("worker:1")
        wait_for(lambda: "worker:1 is back" in self.leader.output(),
                 "another takes its name")
        self.leader.end(3)
        for member in members:
            member.finish(0, TOLD_S)

    # --- a running job --------------------------------------------------------

    def running(self, *arguments):
        self.coordinator(*DIGITS, *ENDLESS, *SERVED, *arguments)
        members = [self.member(role) for role in ("ps:0", "worker:0",
                                                  "worker:1")]
        wait_for(lambda: "epoch 2 " in self.leader.output(), "two epochs")
        return members

    def test_workers_that_are_too_many_end_with_a_line(self):
        members = self.running()
        more = [self.member(f"worker:{i}") for i in (3, 4, 5, 6)]

        def over():
            return [one for one in more if one.process.poll() is not None]
        wait_for(lambda: len(over()) == 2, "two of four end", 20)
        for one in over():
            self.assertRegex(one.finish(1), r"\Atroupe: worker:[3-6]: [^\n]*"
                             r"5 workers need as many virtual ranks[^\n]*\n\Z")
        stayed = [one for one in more if one.process.poll() is None]
        self.leader.end(2)
        for one in (*members, *stayed):
            one.finish(0, TOLD_S)

    @unittest.skipUnless(has_fma(), "no fused multiply-add here")
    def test_a_worker_of_another_class_ends_with_a_line(self):
        members = self.running("--isa", "avx2")
        self.turned_away(self.member("worker:2", "--isa", "sse4"), "worker:2",
                         "computes in the numeric class SSE float32, and the "
                         "workers before it in FMA float32")
        self.leader.end(2)
        for one in members:
            one.finish(0, TOLD_S)

    # --- before the first step ------------------------------------------------

    @unittest.skipUnless(has_fma(), "no fused multiply-add here")
    def test_a_faulty_role_costs_nothing_but_itself(self):
        job = ["--data", "csv:x.csv", *MODEL, "--epochs", "3"]
        with Run(*job, "--strategy", "one_device",
                 command=[*self.within("own"), TROUPE]) as run:
            expected = run.finish()
        for strategy in (SERVED, REPLICAS):
            with self.subTest(strategy):
                self.coordinator(*job, *strategy, "--isa", "avx2")
                members = [] if strategy == REPLICAS else [self.member("ps:0")]
                members.append(self.joined("worker:0"))
                for arguments, folder, why in (
                        (["--listen", "203.0.113.1:0"], "own",
                         r"[^\n]*203\.0\.113\.1"),
                        ([], "empty", r"[^\n]*x\.csv"),
                        (["--isa", "sse4"], "own",
                         "computes in the numeric class SSE float32")):
                    self.turned_away(
                        self.member("worker:1", *arguments, folder=folder),
                        "worker:1", why)
                self.finish([*members, self.member("worker:1")], expected)

    @unittest.skipUnless(has_fma(), "no fused multiply-add here")
    def test_the_first_may_be_the_faulty_one(self):
        """Who was before it was of another class, and has left."""
        self.coordinator("--data", "csv:x.csv", *MODEL, "--epochs", "3",
                         *SERVED)
        self.joined("worker:0", "--isa", "sse4").stop()
        wait_for(lambda: "worker:0 is left out" in self.leader.output(),
                 "it has left")
        members = [self.member(role) for role in ("ps:0", "worker:0",
                                                  "worker:1")]
        self.leader.finish()
        for member in members:
            member.finish(0, TOLD_S)


if __name__ == "__main__":
    run_tests()
