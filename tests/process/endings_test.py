"""Rough endings: SIGTERM, SIGINT or SIGHUP to every process of a job at once, to
some, to one, at any moment. The step under way commits, all that was asked for
is saved, and nothing is left. A pipe that is closed, Ctrl-Z and a second signal
as well.

Symptom: SIGTERM to all, as systemd and `scancel` send it, lost the work of a job
(parameter_server saved nothing, multi_worker_mirrored rolled back and wrote step
2 over its weights). Cause: each role asked to leave by itself; the last one, and
whoever asked while the run ended, was refused and died of that.

TROUPE_ENDINGS_ROUNDS=200 draws so many more endings by TROUPE_ENDINGS_SEED."""
# ctest: TIMEOUT 1200

import collections
import contextlib
import fcntl
import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import termios
import time
import unittest

from cluster import (TROUPE, Run, metadata_of, wait_for,
                     wait_until_nobody_listens)
from own_folder import OwnFolder
from processes import holds_back, processes_of, state_of
from roles import Role

ROUNDS = int(os.environ.get("TROUPE_ENDINGS_ROUNDS", "0"))
SEED = int(os.environ.get("TROUPE_ENDINGS_SEED", "1"))
TOTAL = 600
LASTING = 100_000_000  # steps of a run that only a signal ends
JOB = ["--data", "synthetic:digits?samples=2000", "--model", "mlp:784-64-10",
       "--eval-every", "0", "--epochs", "0", "--global-batch", "64",
       "--virtual-ranks", "4", "--seed", "7"]
ONE_DEVICE = ["--strategy", "one_device"]
SLICED = ["--virtual-slices", "2"]
SERVED = ["--strategy", "parameter_server", "--workers", "2", "--ps", "2"]
REPLICAS = ["--strategy", "multi_worker_mirrored", "--workers", "2"]
WAYS = {"served": [*SERVED, "--processes"],
        "async": [*SERVED, "--processes", "--async"],
        "replicas": [*REPLICAS, "--processes"],
        "chain": [*SERVED, "--processes", "--chain", "2"],
        "standby": [*SERVED, "--processes", "--standby"],
        "one_device": ONE_DEVICE,
        "mirrored": ["--strategy", "mirrored", "--devices", "cpu:2"],
        "central": ["--strategy", "central_storage", "--devices", "cpu:2"],
        "pipeline": ["--strategy", "pipeline", "--stages", "2", "--processes"],
        "sharded": ["--strategy", "fully_sharded", "--workers", "2"],
        "tensor": ["--strategy", "tensor", "--tensor", "2", *SLICED,
                   "--processes"],
        "hybrid": ["--strategy", "hybrid", "--mesh", "data=2,stage=2",
                   "--processes"],
        "launched": REPLICAS,
        "launched, served": SERVED,
        "by hand": SERVED}
LAUNCH = [TROUPE, "launch", "-H", "localhost:4", "--"]
ALONE = {"one_device", "mirrored", "central"}
SIGNALS = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]
WORDS = {signal.SIGTERM: "terminated", signal.SIGINT: "interrupted",
         signal.SIGHUP: "hung up"}
# An agent (`troupe node`) is that of a host which goes down alone.
TARGETS = ["all", "half", "launcher", "coordinator", "role", "agent"]
MOMENTS = ["start", "step", "checkpoint", "end"]
HEADS = {"launcher", "coordinator"}

Ending = collections.namedtuple("Ending", "way how target moment")

# What failed most, and one of each kind; the others are drawn.
CHOSEN = [
    Ending("replicas", signal.SIGTERM, "all", "step"),
    Ending("served", signal.SIGTERM, "all", "step"),
    Ending("served", signal.SIGHUP, "half", "checkpoint"),
    Ending("async", signal.SIGTERM, "all", "checkpoint"),
    Ending("replicas", signal.SIGINT, "all", "start"),
    Ending("one_device", signal.SIGHUP, "all", "step"),
    Ending("by hand", signal.SIGTERM, "all", "step"),
    Ending("replicas", signal.SIGTERM, "role", "end"),
    Ending("pipeline", signal.SIGTERM, "all", "step"),
    Ending("sharded", signal.SIGTERM, "half", "step"),
    Ending("tensor", signal.SIGHUP, "all", "checkpoint"),
    Ending("hybrid", signal.SIGINT, "role", "step"),
    Ending("launched", signal.SIGTERM, "all", "step"),
    Ending("launched, served", signal.SIGINT, "agent", "step"),
]


def send(pid, how):
    try:
        os.kill(pid, how)
    except ProcessLookupError:
        pass  # it has ended


def with_step(weights, step):
    """The bytes of a file of weights, as if it were of another step."""
    length, = struct.unpack("<Q", weights[:8])
    header = json.loads(weights[8:8 + length])
    header["__metadata__"]["step"] = str(step)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + weights[8 + length:]


def contents(path):
    with open(path, "rb") as file:
        return file.read()


class ByHand:
    """A job whose roles were started one by one, in the manner of a Run."""

    def __init__(self, clean_up_with, folder, scratch, arguments):
        self.summary_path = os.path.join(folder, "summary.json")
        certificates = os.path.join(folder, "certificates")
        os.environ["TMPDIR"] = os.environ["XDG_STATE_HOME"] = scratch
        try:
            self.head = Role(clean_up_with, "coordinator", "--certificates",
                             certificates, "--summary", self.summary_path,
                             *arguments)
            address = self.head.address()
            self.roles = {
                name: Role(clean_up_with, name, "--coordinator", address,
                           "--certificates", certificates)
                for name in ("ps:0", "ps:1", "worker:0", "worker:1")}
        finally:
            del os.environ["TMPDIR"], os.environ["XDG_STATE_HOME"]
        self.process = self.head.process
        for role in self.roles.values():  # the loader hears no signals
            wait_for(lambda pid=role.process.pid:
                     holds_back(pid, signal.SIGTERM), "a role begins")

    def children(self):
        return {name: role.process.pid for name, role in self.roles.items()
                if role.process.poll() is None}

    def output(self):
        return self.head.output()

    def error(self):
        return self.head.error() + "".join(
            f"{name}: {role.error()}" for name, role in self.roles.items())

    def step(self):
        return Run.metric(self, "troupe_steps_committed_total")

    def metrics_address(self):
        return Run.metrics_address(self)

    def wait_for_step(self, step):
        Run.wait_for_step(self, step)

    def metric(self, name):
        return Run.metric(self, name)


class Endings(OwnFolder):
    @classmethod
    def setUpClass(cls):
        cls.folder_of_all = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder_of_all.cleanup)
        cls.undisturbed = {}

    def setUp(self):
        super().setUp()
        self.scratch = self.path("scratch")
        os.mkdir(self.scratch)
        self.saved = self.path("weights.safetensors")
        self.kept = self.path("kept")

    def own_folders(self):
        """Where a run's own folder goes: with its key, it must go with it."""
        return {"TMPDIR": self.scratch, "XDG_STATE_HOME": self.scratch}

    def left(self):
        """What lies in there, but for the folder that holds such folders."""
        state = os.path.join(self.scratch, "troupe")
        return ([name for name in os.listdir(self.scratch) if name != "troupe"]
                + (os.listdir(state) if os.path.isdir(state) else []))

    def start(self, *arguments, command=None):
        run = Run(*JOB, *arguments, environment=self.own_folders(),
                  command=command)
        self.addCleanup(run.__exit__)
        return run

    def weights_after(self, steps, sliced=()):
        """The file that a run of so many steps saves, which nothing disturbs."""
        key = steps, *sliced
        if key not in self.undisturbed:
            path = os.path.join(self.folder_of_all.name, str(len(
                self.undisturbed)))
            with Run(*JOB, *ONE_DEVICE, *sliced, "--steps", str(steps),
                     "--save", path) as run:
                run.finish()
            self.undisturbed[key] = contents(path)
        return self.undisturbed[key]

    def check_nothing_is_left(self, run):
        wait_for(lambda: not processes_of(self.scratch), "all have ended", 10)
        self.assertEqual(self.left(), [])
        wait_until_nobody_listens(run.output())

    def check_saved(self, summary, way):
        steps = summary["steps"]
        asynchronous = way == "async"
        sliced = SLICED if way == "tensor" else []
        self.assertEqual(summary["steps_rolled_back"], 0)
        self.assertEqual(metadata_of(self.saved)["step"], str(steps))
        if steps > 0 and not asynchronous:
            self.assertEqual(contents(self.saved),
                             self.weights_after(steps, sliced))
        if steps > 0:
            self.check_resumes(steps, asynchronous, sliced)

    def check_resumes(self, steps, asynchronous, sliced):
        further = str(steps + 3)
        strategy = ([*SERVED, "--in-process", "--async"] if asynchronous
                    else [*ONE_DEVICE, *sliced])
        saved = self.path("resumed.safetensors")
        with Run(*JOB, *strategy, "--steps", further, "--checkpoint-dir",
                 self.kept, "--resume", "--save", saved) as run:
            self.assertEqual(run.finish()["steps"], steps + 3)
            self.assertNotIn("begins at step 0", run.output())
        if not asynchronous:
            self.assertEqual(contents(saved),
                             self.weights_after(steps + 3, sliced))

    # --- drawn endings --------------------------------------------------------

    def wait_for_moment(self, run, moment, draw):
        if moment == "start":
            wait_for(lambda: holds_back(run.process.pid, signal.SIGTERM),
                     "the run begins")
            children = draw.randrange(6)
            wait_for(lambda: len(run.children()) >= children
                     or run.process.poll() is not None or not children
                     or self.is_alone, "roles start")
        elif moment == "step":
            run.wait_for_step(draw.randrange(1, TOTAL // 3))
        elif moment == "checkpoint":
            folders = draw.randrange(1, 4)
            wait_for(lambda: os.path.isdir(self.kept)
                     and len(os.listdir(self.kept)) > folders
                     or run.process.poll() is not None, "checkpoints")
        else:
            run.wait_for_step(TOTAL - draw.randrange(1, 40))

    def processes(self, run):
        if isinstance(run, ByHand):
            return {**run.children(), "coordinator": run.process.pid}
        return {"launcher": run.process.pid,
                **{"standby" if "2" in words and "--voters" in words
                   else words[2] if words[1] == "role" else "agent": pid
                   for pid, words in run.processes()}}

    def chosen(self, processes, target, draw):
        names = sorted(processes)
        if target == "half":
            names = draw.sample(names, (len(names) + 1) // 2)
        elif target in HEADS:
            names = [x for x in names if x == target] or [
                x for x in names if x in HEADS]
        elif target == "agent" and target in names:
            names = [target]
        elif target in ("role", "agent"):
            names = [draw.choice([x for x in names if x not in HEADS]
                                 or names)]
        draw.shuffle(names)
        return names

    def play(self, ending, seed):
        draw = random.Random(seed)
        self.is_alone = ending.way in ALONE
        arguments = [*WAYS[ending.way], "--steps", str(TOTAL), "--save",
                     self.saved, "--checkpoint-dir", self.kept,
                     "--checkpoint-every", "25"]
        if ending.way == "by hand":
            run = ByHand(self.addCleanup, self.folder, self.scratch,
                         [*JOB, *arguments])
        else:
            run = self.start(*arguments, command=LAUNCH if ending.way.startswith(
                "launched") else None)
        try:
            self.wait_for_moment(run, ending.moment, draw)
        except AssertionError:
            if run.process.poll() is None:
                raise  # else it was over before
        processes = self.processes(run)
        target = ending.target
        if ending == ("by hand", ending.how, target, "start"):
            target = "all"  # nobody starts a role again, and the job waits
        told = self.chosen(processes, target, draw)
        for name in told:
            send(processes[name], ending.how)
        status = run.process.wait(60)
        words = (f"told {told}, status {status}: {run.error()[-2000:]} "
                 f"{run.output()[-2000:]}")
        self.check_nothing_is_left(run)
        summary = None
        if os.path.exists(run.summary_path):
            with open(run.summary_path) as file:
                summary = json.load(file)
        stopped = {128 + ending.how}
        if "agent" in told:
            stopped.add(128 + signal.SIGHUP)  # with which it tells its roles
        self.assertIn(status, {0} | stopped, words)
        if status == 0:
            self.assertEqual(summary["steps"], TOTAL, words)
        elif not HEADS & set(told):
            self.assertRegex(run.output() + run.error(),
                             "all (workers|shards|stages|members) were told to "
                             "leave", words)
        if HEADS & set(told) and summary and summary["steps"] < TOTAL:
            self.assertIn(status, stopped, words)
        if summary is None:  # no step was made
            self.assertEqual(ending.moment, "start", words)
            self.assertRegex(run.error(), "nothing was saved")
            self.assertFalse(os.path.exists(self.saved))
        else:
            self.check_saved(summary, ending.way)
        if ending.way == "by hand":
            for name, role in run.roles.items():
                if name not in told and ending.moment == "start":
                    continue  # it still looks for the coordinator
                self.assertIn(role.process.wait(10), {0} | stopped,
                              f"{name}: {words}")

    def test_chosen_endings_save_and_leave_nothing(self):
        for count, ending in enumerate(CHOSEN):
            with self.subTest(ending=ending):
                self.setUp()
                self.play(ending, count)

    @unittest.skipUnless(ROUNDS, "TROUPE_ENDINGS_ROUNDS draws more")
    def test_drawn_endings_save_and_leave_nothing(self):
        counts = collections.Counter()
        for count in range(ROUNDS):
            draw = random.Random(f"{SEED} {count}")
            ending = Ending(draw.choice(list(WAYS)), draw.choice(SIGNALS),
                            draw.choice(TARGETS), draw.choice(MOMENTS))
            counts.update(ending)
            with self.subTest(round=count, ending=ending):
                self.setUp()
                self.play(ending, f"{SEED} {count} play")
        print(f"{ROUNDS} endings: {dict(counts)}")

    # --- each by itself -------------------------------------------------------

    def step_of_stopped(self, run, workers):
        """Stops the workers; returns the step that the run then stands at."""
        for pid in workers:
            os.kill(pid, signal.SIGSTOP)
        wait_for(lambda: all(state_of(pid) == "T" for pid in workers),
                 "the workers stand still")
        seen = []
        def settled():
            seen.append(run.step())
            return len(seen) > 2 and len(set(seen[-3:])) == 1
        wait_for(settled, "no step is committed")
        return seen[-1]

    def test_what_is_saved_after_a_rollback_is_named_by_its_step(self):
        """The weights of step 200 were saved as those of 234, from which the
        run had just gone back, and the summary said so too."""
        run = self.start(*WAYS["replicas"], "--steps", str(LASTING), "--save",
                         self.saved, "--checkpoint-dir", self.kept,
                         "--checkpoint-every", "50")
        run.wait_for_step(80)
        workers = [run.role(name) for name in ("worker:0", "worker:1")]
        while self.step_of_stopped(run, workers) % 50 == 0:
            for pid in workers:  # there would be nothing to roll back
                os.kill(pid, signal.SIGCONT)
        for pid in workers:  # at once, or one takes over from the other
            os.kill(pid, signal.SIGKILL)
        run.process.send_signal(signal.SIGTERM)
        summary = run.finish(143)
        self.assertGreater(summary["steps_rolled_back"], 0)
        self.assertEqual(metadata_of(self.saved)["step"], str(summary["steps"]))
        self.assertEqual(contents(self.saved),
                         self.weights_after(summary["steps"]))

    def test_a_second_signal_ends_at_once_and_takes_the_folder_along(self):
        run = self.start(*WAYS["served"], "--steps", "1000000", "--report",
                         self.path("run.html"))  # whose recorders go as well
        run.wait_for_step(5)
        for role in ("worker:0", "worker:1"):  # so that the first takes a while
            run.kill(role, signal.SIGSTOP)
        self.assertNotEqual(self.left(), [])
        run.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)  # longer than what counts as the same wish
        run.process.send_signal(signal.SIGTERM)
        self.assertEqual(run.process.wait(10), 143)
        self.assertRegex(run.error(), "at once")
        self.check_nothing_is_left(run)

    def test_a_coordinator_that_stands_still_is_replaced_and_the_run_ends(self):
        # It was waited for without end, by whoever was told.
        run = self.start(*WAYS["served"], "--steps", "10000000", "--save",
                         self.saved)
        run.wait_for_step(20)
        run.kill("coordinator", signal.SIGSTOP)
        run.process.send_signal(signal.SIGTERM)
        summary = run.finish(143)
        self.assertEqual([r["role"] for r in summary["recoveries"]],
                         ["coordinator"])
        self.assertEqual(summary["steps_rolled_back"], 0)
        self.assertEqual(contents(self.saved), self.weights_after(
            summary["steps"]))

    def test_a_run_ends_though_its_coordinator_stands_still_and_its_standby_left(self):
        # Where that one left, since it was told to end, nobody replaced it; now
        # and then it takes over before it hears of that.
        run = self.start(*WAYS["standby"], "--steps", "10000000", "--save",
                         self.saved)
        run.wait_for_step(20)
        leader, standby = sorted(pid for pid, words in run.role_processes()
                                 if words[2] == "coordinator")
        os.kill(leader, signal.SIGSTOP)
        run.process.send_signal(signal.SIGTERM)
        os.kill(standby, signal.SIGTERM)
        summary = run.finish(143)
        self.assertEqual(summary["steps_rolled_back"], 0)
        self.assertEqual(contents(self.saved), self.weights_after(
            summary["steps"]))
        self.check_nothing_is_left(run)

    def test_what_a_coordinator_was_told_outlives_it(self):
        # Training went on for good: nobody else had been told.
        for pace_ms in (1_000, 8_000):  # of a virtual rank; a step has two
            run = Run(*JOB[:2], "--model", f"sleep:{pace_ms}ms", "--epochs", "0",
                      "--steps", "1000", *WAYS["served"],
                      environment=self.own_folders())
            self.addCleanup(run.__exit__)
            run.wait_for_step(1)
            coordinator = run.role("coordinator")
            os.kill(coordinator, signal.SIGTERM)
            time.sleep(pace_ms / 1000)  # it waits for the step under way
            with contextlib.suppress(ProcessLookupError):
                os.kill(coordinator, signal.SIGKILL)
            summary = run.finish(143)
            struck = [r["role"] for r in summary["recoveries"]]
            if "coordinator" in struck:
                return
        self.fail(f"it had ended before it was killed: {struck}")

    def test_the_same_signal_twice_in_a_moment_is_one_wish(self):
        # As `timeout` sends it: to its child, then to the group.
        run = self.start(*WAYS["served"], "--steps", "1000000", "--save",
                         self.saved)
        run.wait_for_step(5)
        run.process.send_signal(signal.SIGTERM)
        time.sleep(0.02)
        run.process.send_signal(signal.SIGTERM)
        summary = run.finish(143)
        self.assertEqual(metadata_of(self.saved)["step"],
                         str(summary["steps"]))

    def test_slurms_early_warning_ends_a_run_as_sigterm_does(self):
        # The launcher died of it, saved nothing and left its folder.
        for way in ("one_device", "served"):
            for warning in (signal.SIGUSR1, signal.SIGUSR2):
                with self.subTest(way=way, warning=warning):
                    run = self.start(*WAYS[way], "--steps", str(LASTING),
                                     "--save", self.saved)
                    run.wait_for_step(5)
                    for pid in (run.process.pid, *run.children().values()):
                        send(pid, warning)
                    summary = run.finish(143)
                    self.assertEqual(metadata_of(self.saved)["step"],
                                     str(summary["steps"]))
                    self.check_nothing_is_left(run)
                    os.remove(self.saved)

    def test_all_workers_that_are_told_to_leave_end_the_run(self):
        for way, names in (("replicas", ("worker:0", "worker:1")),
                           ("served", ("ps:0", "ps:1"))):
            with self.subTest(way=way):
                self.setUp()
                run = self.start(*WAYS[way], "--steps", "1000000", "--save",
                                 self.saved)
                run.wait_for_step(20)
                for name in names:
                    run.kill(name, signal.SIGTERM)
                summary = run.finish(143)
                self.assertEqual(summary["steps_rolled_back"], 0)
                self.assertEqual(summary["recoveries"], [])
                self.assertEqual(contents(self.saved),
                                 self.weights_after(summary["steps"]))

    def test_a_role_leaves_well_although_the_run_ends_while_it_does(self):
        run = self.start(*WAYS["served"], "--steps", "1000000", "--save",
                         self.saved)
        run.wait_for_step(20)
        run.kill("ps:1", signal.SIGTERM)
        run.kill("worker:0", signal.SIGTERM)
        run.wait_for_step(run.step() + 1)
        run.process.send_signal(signal.SIGINT)
        summary = run.finish(130)
        self.assertEqual(summary["recoveries"], [])
        self.assertNotRegex(run.output() + run.error(), "died|handing over")
        self.assertEqual(contents(self.saved),
                         self.weights_after(summary["steps"]))

    def test_a_run_that_is_ended_early_keeps_newer_weights(self):
        self.start(*ONE_DEVICE, "--steps", "40", "--checkpoint-dir",
                   self.kept).finish()
        with open(self.saved, "wb") as file:
            file.write(with_step(self.weights_after(40), 999_999))
        newer = contents(self.saved)
        run = self.start(*ONE_DEVICE, "--steps", "1000000", "--save",
                         self.saved, "--checkpoint-dir", self.kept, "--resume")
        run.wait_for_step(41)
        run.process.send_signal(signal.SIGTERM)
        steps = run.finish(143)["steps"]
        self.assertEqual(contents(self.saved), newer)
        self.assertEqual(contents(f"{self.saved}.step-{steps}"),
                         self.weights_after(steps))

    def test_a_run_that_found_no_checkpoint_keeps_newer_weights(self):
        """The folder of its checkpoints may be a mount that is late."""
        with open(self.saved, "wb") as file:
            file.write(with_step(self.weights_after(40), 999_999))
        newer = contents(self.saved)
        for resume, kept in (("--resume", True), ("--resume=fresh", False)):
            shutil.rmtree(self.kept, ignore_errors=True)
            run = self.start(*ONE_DEVICE, "--steps", "1000000", "--save",
                             self.saved, "--checkpoint-dir", self.kept, resume)
            run.wait_for_step(5)
            run.process.send_signal(signal.SIGTERM)
            steps = run.finish(143)["steps"]
            self.assertEqual(contents(self.saved) == newer, kept)
            self.assertEqual(
                contents(f"{self.saved}.step-{steps}" if kept else self.saved),
                self.weights_after(steps))

    def test_a_long_name_has_room_for_what_is_added_to_it(self):
        self.start(*ONE_DEVICE, "--steps", "40", "--checkpoint-dir",
                   self.kept).finish()
        saved = os.path.join(os.path.dirname(self.saved), "é" * 125 + ".st")
        with open(self.saved, "wb") as file:
            file.write(with_step(self.weights_after(40), 999_999))
        os.rename(self.saved, saved)
        newer = contents(saved)
        run = self.start(*ONE_DEVICE, "--steps", "1000000", "--save", saved,
                         "--checkpoint-dir", self.kept, "--resume")
        run.wait_for_step(41)
        run.process.send_signal(signal.SIGTERM)
        steps = run.finish(143)["steps"]
        self.assertEqual(contents(saved), newer)
        beside = [name for name in os.listdir(os.path.dirname(saved))
                  if name.endswith(f".step-{steps}")]
        self.assertEqual(len(beside), 1, run.output())
        self.assertTrue(beside[0].startswith("é" * 110))
        self.assertEqual(contents(os.path.join(os.path.dirname(saved),
                                               beside[0])),
                         self.weights_after(steps))

    def test_nohup_goes_on_when_the_terminal_closes(self):
        for way in ("one_device", "served"):
            with self.subTest(way=way):
                before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
                try:
                    run = self.start(*WAYS[way], "--steps", str(LASTING))
                finally:
                    signal.signal(signal.SIGHUP, before)
                run.wait_for_step(5)
                for pid in (run.process.pid, *run.children().values()):
                    send(pid, signal.SIGHUP)
                run.end(200)  # by SIGTERM, not by that

    def test_a_terminal_that_closes_ends_the_run_in_good_order(self):
        terminal, side = os.openpty()
        summary_path = self.path("summary.json")
        process = subprocess.Popen(
            [TROUPE, "train", *JOB, *WAYS["served"], "--steps", "1000000",
             "--summary", summary_path, "--save", self.saved,
             "--checkpoint-dir", self.kept, "--checkpoint-every", "10"],
            stdin=side, stdout=side, stderr=side, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(side, termios.TIOCSCTTY, 0),
            env={**os.environ, **self.own_folders()})
        self.addCleanup(process.kill)
        os.close(side)
        wait_for(lambda: os.path.isdir(self.kept)
                 and len(os.listdir(self.kept)) > 1
                 or not os.read(terminal, 4096), "a checkpoint")
        os.close(terminal)
        self.assertEqual(process.wait(30), 129)
        wait_for(lambda: not processes_of(self.scratch), "all have ended", 10)
        self.assertEqual(self.left(), [])
        with open(summary_path) as file:
            steps = json.load(file)["steps"]
        self.assertEqual(contents(self.saved), self.weights_after(steps))

    def test_a_closed_pipe_silences_progress_and_not_training(self):
        for way in ("one_device", "served"):
            with self.subTest(way=way):
                summary = self.path(f"{way}.json")
                process = subprocess.Popen(
                    [TROUPE, "train", *JOB, *WAYS[way], "--steps", str(TOTAL),
                     "--log-every", "5", "--summary", summary],
                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
                self.addCleanup(process.kill)
                process.stdout.readline()
                process.stdout.close()
                self.assertEqual(process.wait(60), 0)
                with open(summary) as file:
                    self.assertEqual(json.load(file)["steps"], TOTAL)

    def test_ctrl_z_stops_the_whole_job_and_no_deadline_counts_that(self):
        run = self.start(*WAYS["served"], "--steps", str(LASTING),
                         "--save", self.saved)
        run.wait_for_step(20)
        processes = [run.process.pid, *run.children().values()]
        self.assertEqual(len(processes), 6)
        run.process.send_signal(signal.SIGTSTP)
        wait_for(lambda: all(state_of(x) == "T" for x in processes),
                 "all stand still", 10)
        time.sleep(7)  # longer than a member may be silent, or away
        self.assertTrue(all(state_of(x) == "T" for x in processes))
        run.process.send_signal(signal.SIGCONT)
        summary = run.end(50)
        self.assertEqual(summary["recoveries"], [])
        self.assertEqual(summary["steps_rolled_back"], 0)
        self.assertEqual(contents(self.saved),
                         self.weights_after(summary["steps"]))


if __name__ == "__main__":
    unittest.main()
