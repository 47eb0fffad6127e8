"""Troubles that are planted at random in running jobs, one at a time: `troupe
doctor` names the role and the cause. TROUPE_IN_FULL=1 plants 200, and more
kinds, on hosts that are network namespaces, too; TROUPE_CULPRIT_SEED and
TROUPE_CULPRIT_TRIALS say which and how many."""
# ctest: TIMEOUT 300 PROCESSORS 1

import collections
import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
import unittest

from cluster import ENDLESS, TROUPE, Run, metrics_address, wait_for
from hosts import Hosts, skip_unless_possible
from own_folder import OwnFolder
from roles import Role

IN_FULL = os.environ.get("TROUPE_IN_FULL") == "1"
SEED = int(os.environ.get("TROUPE_CULPRIT_SEED", "1"))
TRIALS = int(os.environ.get("TROUPE_CULPRIT_TRIALS", "200" if IN_FULL else "4"))
RIGHT_SHARE = 0.95 if IN_FULL else 0.75 # of few, one may be wrong
# Nobody counts as lost while a test looks at it.
JOB = ["--data", "synthetic:digits?samples=3000", "--eval-every", "0",
       "--loss-ms", "600000", *ENDLESS]
SERVED = ["--strategy", "parameter_server", "--workers", "3", "--ps", "1",
          "--virtual-ranks", "6"]
VERDICT_S = 20  # for as long a trouble may go unnoticed


class Trouble:
    """Whom the doctor is to name, and with which words."""

    def __init__(self, kind, roles, words, undo):
        self.kind, self.roles, self.words, self.undo = kind, roles, words, undo


class World:
    """A running job. `host` is what comes before a command that asks it."""

    def __init__(self, name, address, step, pids, host=()):
        self.name, self.address, self.step = name, address, step
        self.pids, self.host = pids, list(host)

    def diagnose(self):
        """Kind, role and finding of the first line."""
        done = subprocess.run([*self.host, TROUPE, "doctor", self.address],
                              capture_output=True, text=True, timeout=60,
                              check=False)
        found = re.match(r"(\S+) +(\S+) +(.*)", done.stdout)
        return found.groups() if found else ("none", "", done.stderr)

    def stop(self, role):
        pid = self.pids()[role]
        os.kill(pid, signal.SIGSTOP)
        return Trouble("stopped role", {role},
                       "is silent|does not serve samples in time",
                       lambda: os.kill(pid, signal.SIGCONT))

    def slow(self, role):
        """Its core has time for it a tenth of the time."""
        pid = self.pids()[role]
        over = threading.Event()

        def take_turns():
            while not over.is_set():
                os.kill(pid, signal.SIGSTOP)
                time.sleep(0.09)
                os.kill(pid, signal.SIGCONT)
                time.sleep(0.01)
        turns = threading.Thread(target=take_turns)
        turns.start()

        def undo():
            over.set()
            turns.join()
        return Trouble("slow core", {role},
                       "times as long|holds the others up|computes", undo)


@contextlib.contextmanager
def launched(name, *flags):
    with Run(*JOB, *flags, "--processes") as run:
        run.wait_for_step(3)
        yield World(name, run.metrics_address(), run.step, run.children)
        run.end()


@contextlib.contextmanager
def on_hosts():
    """A shard and three workers, each on a host of its own, over TCP."""
    folder = OwnFolder()
    folder.setUp()
    clean = contextlib.ExitStack()
    hosts = clean.enter_context(Hosts(5))
    certificates = folder.path("certificates")
    coordinator = Role(
        clean.callback, "coordinator", "--listen", f"{hosts.address(0)}:7000",
        "--certificates", certificates, *JOB, "--metrics-address",
        "127.0.0.1:0", *SERVED[:6], "--virtual-ranks", "3", "--model",
        "sleep:20ms-200000", on=hosts.on(0))
    address = coordinator.address()
    pids = {}
    for host, role in enumerate(("ps:0", "worker:0", "worker:1", "worker:2"),
                                1):
        pids[role] = Role(
            clean.callback, role, "--coordinator", address, "--certificates",
            certificates, on=hosts.on(host)).process.pid

    def step():
        found = re.findall(r"step (\d+)", subprocess.run(
            [*hosts.on(0), TROUPE, "status", metrics_address(coordinator)],
            capture_output=True, text=True, timeout=60, check=False).stdout)
        return int(found[0]) if found else 0
    wait_for(lambda: step() > 3, "some steps")
    world = World("hosts", metrics_address(coordinator), step, lambda: pids,
                  hosts.on(0))
    world.hosts = hosts
    yield world
    clean.close()
    folder.doCleanups()


def cut(world, draw):
    """Nothing gets from a worker's host to the shard's any more. (What fits into
    the system's buffers waits there, where nobody sees it.)"""
    host = draw.randint(2, 4)
    world.hosts.block(host, 1)
    return Trouble("one-way cut", {f"worker:{host - 2}", "ps:0"},
                   "wait for a link|no link",
                   lambda: world.hosts.unblock(host, 1))


def of(kind, *roles):
    """A trouble of one of these roles."""
    return lambda world, draw: getattr(world, kind)(draw.choice(roles))


WORKERS = ("worker:0", "worker:1", "worker:2")
SHORT = [(lambda: launched("served", *SERVED, "--readers", "2", "--model",
                           "sleep:20ms-64"),
          [of("stop", *WORKERS), of("stop", "ps:0"),
           of("stop", "reader:0", "reader:1"), of("slow", *WORKERS)])]
LONG = [*SHORT,
        (lambda: launched("replicas", "--strategy", "multi_worker_mirrored",
                          "--workers", "3", "--virtual-ranks", "3", "--model",
                          "sleep:20ms-64"),
         [of("stop", *WORKERS), of("slow", *WORKERS)]),
        (lambda: launched("stages", "--strategy", "pipeline", "--stages", "3",
                          "--model", "sleep:3ms+3ms+3ms-64"),
         [of("stop", "stage:0", "stage:1", "stage:2")]),
        (on_hosts, [of("stop", *WORKERS), of("stop", "ps:0"), cut])]


class Culprit(unittest.TestCase):
    def settle(self, world):
        """The trouble is over, and its last traces are gone from the rates."""
        step = world.step()
        wait_for(lambda: world.step() > step + 5, f"{world.name} goes on")
        time.sleep(4)

    def judge(self, world, trouble):
        """What is said of it first, and whether that is right."""
        end = time.monotonic() + VERDICT_S
        kind, role, found = "ok", "", "nothing"
        while kind not in ("WRONG", "none") and time.monotonic() < end:
            kind, role, found = world.diagnose()
        return (kind == "WRONG" and role in trouble.roles
                and re.search(trouble.words, found) is not None,
                f"{kind} {role} {found}")

    def test_troubles_are_named_with_role_and_cause(self):
        draw = random.Random(SEED)
        worlds = LONG if IN_FULL else SHORT
        share = {}
        for number, (make, kinds) in enumerate(worlds):
            count = TRIALS // len(worlds) + (number < TRIALS % len(worlds))
            with make() as world:
                for trial in range(count):
                    trouble = kinds[trial % len(kinds)](world, draw)
                    try:
                        right, said = self.judge(world, trouble)
                    finally:
                        trouble.undo()
                    name = f"{world.name}: {trouble.kind}"
                    share.setdefault(name, []).append(right)
                    if not right:
                        print(f"\n  {name} of {'/'.join(trouble.roles)}: "
                              f"{said}", end="", file=sys.stderr)
                    self.settle(world)
        for name, rights in share.items():
            print(f"\n  {name}: {sum(rights)} of {len(rights)}", end="",
                  file=sys.stderr)
        rights = [x for of_kind in share.values() for x in of_kind]
        self.assertEqual(len(rights), TRIALS)
        self.assertGreaterEqual(sum(rights) / len(rights), RIGHT_SHARE,
                                collections.Counter(rights))


if __name__ == "__main__":
    if IN_FULL:
        skip_unless_possible()
    unittest.main()
