"""SIGTERM in a process's first moments, before it can watch for signals: while
it is linked, or before its main. A launcher may die of it as long as it has begun
nothing; a role that a launcher starts never does, and is not taken for a failure.
"""
# ctest: TIMEOUT 1200 COST 40 PROCESSORS 1

import collections
import glob
import json
import os
import shutil
import signal
import time
import unittest

from cluster import TROUPE, Run, wait_for
from own_folder import OwnFolder
from processes import children_of, processes_of, state_of
from roles import Role
from sockets import listening_addresses

JOB = ["--data", "synthetic:digits?samples=2000", "--model", "mlp:784-48-10",
       "--eval-every", "0", "--epochs", "0", "--global-batch", "64",
       "--virtual-ranks", "4", "--seed", "7"]
LONG = ["--steps", "100000000"]  # whoever is told to end ends before
ONE_DEVICE = ["--strategy", "one_device"]
SHAPE = ["--strategy", "parameter_server", "--workers", "2", "--ps", "2"]
SERVED = [*SHAPE, "--processes"]
REPLICAS = ["--strategy", "multi_worker_mirrored", "--processes", "--workers",
            "2"]
EARLY = os.path.join(os.path.dirname(os.path.abspath(TROUPE)), "..",
                     "tests", "libearly_signal.so")
MOMENTS_S = [x / 1000 for x in range(0, 61, 3)]
TERMINATED = 128 + signal.SIGTERM


class FirstMoments(OwnFolder):
    def setUp(self):
        super().setUp()
        self.scratch = self.path("scratch")
        os.mkdir(self.scratch)
        self.saved = self.path("w.safetensors")

    def start(self, *arguments):
        run = Run(*JOB, *arguments, "--save", self.saved, environment={
            "TMPDIR": self.scratch, "XDG_STATE_HOME": self.scratch})
        self.addCleanup(run.__exit__)
        return run

    def check_nothing_is_left(self):
        wait_for(lambda: not processes_of(self.scratch), "all have ended", 10)
        left = [name for _, folders, files in os.walk(self.scratch)
                for name in folders + files]
        self.assertIn(left, ([], ["troupe"]))

    def check_bits(self, summary):
        with Run(*JOB, *ONE_DEVICE, "--steps", str(summary["steps"])) as run:
            expected = run.finish()
        self.assertEqual(summary["weights_sha256"], expected["weights_sha256"])

    def check_end(self, run, *statuses):
        """One of these, without a role that failed or a file that is left."""
        status = run.process.wait(60)
        words = f"status {status}: {run.error()} {run.output()}"
        self.assertIn(status, statuses, words)
        self.assertNotRegex(run.output() + run.error(), "died|restart|rolled",
                            words)
        self.check_nothing_is_left()
        if not os.path.exists(self.saved):
            self.assertNotRegex(run.output(), r"step [1-9]", words)
        return status

    def test_a_launcher_ends_well_or_has_begun_nothing(self):
        for way in (ONE_DEVICE, SERVED, REPLICAS):
            ends = collections.Counter()
            for moment in MOMENTS_S:
                with self.subTest(way=way, moment=moment):
                    run = self.start(*way, *LONG)
                    time.sleep(moment)
                    run.process.send_signal(signal.SIGTERM)
                    status = self.check_end(run, TERMINATED, -signal.SIGTERM)
                    ends[status] += 1
                    if status < 0:
                        self.assertEqual(run.output() + run.error(), "")
            print(way[1], dict(ends), flush=True)

    # It died of it: libraries take most of the time that there is before main.
    def test_a_signal_among_the_libraries_initialisers_is_heard(self):
        with Run(*JOB, *LONG, *ONE_DEVICE,
                 environment={"LD_PRELOAD": EARLY}) as run:
            run.finish(TERMINATED)
            self.assertRegex(run.error(), r"\Atroupe: terminated before the "
                                          r"first step: nothing was saved\n")

    def test_a_role_that_has_just_begun_leaves_and_does_not_fail(self):
        for count, moment in enumerate(MOMENTS_S):
            nth = 1 + count % 5  # the first one is the coordinator
            with self.subTest(nth=nth, moment=moment):
                run = self.start(*SERVED, *LONG)
                wait_for(lambda: len(children_of(run.process.pid)) >= nth,
                         "a role begins")
                newest = children_of(run.process.pid)[-1]
                time.sleep(moment)
                os.kill(newest, signal.SIGTERM)
                if nth > 1:  # it leaves, and the others go on
                    wait_for(lambda: newest not in
                             children_of(run.process.pid), "it has left")
                    run.wait_for_step(run.step() + 20)
                    run.process.send_signal(signal.SIGTERM)
                self.check_end(run, TERMINATED)
                if nth > 1:
                    self.check_bits(run.summary())
                    self.assertEqual(run.summary()["recoveries"], [])

    def test_all_who_have_just_begun_end_in_good_order(self):
        for way in (SERVED, REPLICAS):
            for count, moment in enumerate(MOMENTS_S):
                nth = 1 + count % (5 if way is SERVED else 3)
                with self.subTest(way=way, nth=nth, moment=moment):
                    run = self.start(*way, *LONG)
                    wait_for(lambda: len(children_of(run.process.pid)) >= nth,
                             "a role begins")
                    time.sleep(moment)
                    for pid in (*children_of(run.process.pid), run.process.pid):
                        os.kill(pid, signal.SIGTERM)
                    self.check_end(run, TERMINATED)

    def test_a_coordinator_told_before_it_is_met_ends_the_run(self):
        """Symptom: status 1, "cannot reach the coordinator: nobody listens".
        Cause: it had said where it listens, and ended in good order before its
        launcher connected. Here that one stands still meanwhile."""
        for told in ("coordinator", "both"):
            with self.subTest(told=told):
                run = self.start(*SERVED, *LONG)
                launcher = run.process.pid
                wait_for(lambda: children_of(launcher), "the coordinator begins")
                os.kill(launcher, signal.SIGSTOP)
                coordinator, = children_of(launcher)
                wait_for(lambda: listening_addresses([coordinator]),
                         "the coordinator listens")
                os.kill(coordinator, signal.SIGTERM)
                wait_for(lambda: state_of(coordinator) == "Z", "the coordinator ends")
                if told == "both":
                    os.kill(launcher, signal.SIGTERM)
                os.kill(launcher, signal.SIGCONT)
                self.check_end(run, TERMINATED)
                self.assertIn("terminated before the first step", run.error())

    def test_a_coordinator_by_hand_leaves_whole_certificates_or_none(self):
        certificates = self.path("certificates")
        for moment in (x / 100 for x in range(12)):
            with self.subTest(moment=moment):
                shutil.rmtree(certificates, ignore_errors=True)
                head = Role(self.addCleanup, "coordinator", "--certificates",
                            certificates, *JOB, *LONG, *SHAPE)
                time.sleep(moment)
                head.process.send_signal(signal.SIGTERM)
                self.assertIn(head.process.wait(20),
                              (TERMINATED, -signal.SIGTERM), head.error())
                self.assertEqual(glob.glob(certificates + ".new*"), [])
                left = glob.glob(certificates + "/*")
                self.assertIn(sorted(map(os.path.basename, left)),
                              ([], ["ca.key", "ca.pem"]))

    def test_a_role_by_hand_may_be_started_again_with_the_same_command(self):
        certificates = self.path("certificates")
        summary = self.path("summary.json")
        head = Role(self.addCleanup, "coordinator", "--certificates",
                    certificates, "--summary", summary, *JOB, *LONG, *SHAPE)
        address = head.address()

        def role(name):
            return Role(self.addCleanup, name, "--coordinator", address,
                        "--certificates", certificates)

        ends = collections.Counter()
        for moment in (*MOMENTS_S, 1.0):  # by then it waits for the others
            told = role("worker:0")
            time.sleep(moment)
            told.process.send_signal(signal.SIGTERM)
            ends[told.process.wait(20)] += 1
            self.assertIsNone(head.process.poll(), head.error())
        print("by hand", dict(ends), flush=True)
        self.assertLessEqual(set(ends), {TERMINATED, -signal.SIGTERM, 0}, ends)
        for name in ("ps:0", "ps:1", "worker:0", "worker:1"):
            role(name)
        head.end()
        with open(summary) as file:
            self.check_bits(json.load(file))


if __name__ == "__main__":
    unittest.main()
