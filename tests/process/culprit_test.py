"""Troubles that are planted at random in running jobs, one at a time: `troupe
doctor` names the role and the cause. TROUPE_IN_FULL=1 plants 200, and more
kinds, on hosts that are network namespaces, too; TROUPE_CULPRIT_SEED and
TROUPE_CULPRIT_TRIALS say which and how many, TROUPE_CULPRIT_WORLDS (names) where.
TROUPE_CULPRIT_CALM_S: for how long nobody is accused on cores that have twice as
much to do as they can. Nothing else runs beside: whom other tests hold up is
named as well."""
# ctest: TIMEOUT 300 RUN_SERIAL TRUE

import collections
import contextlib
import os
import random
import re
import signal
import statistics
import struct
import subprocess
import sys
import threading
import time
import unittest
import zlib

from cluster import ENDLESS, TROUPE, Run, metrics_address, wait_for
from hosts import DYING_TOO, Hosts, skip_unless_possible, skip_without_slow_wires
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
WORLDS = os.environ.get("TROUPE_CULPRIT_WORLDS", "").split()
CALM_S = float(os.environ.get("TROUPE_CULPRIT_CALM_S",
                              "3600" if IN_FULL else "20"))
FAULTY_DISK = os.path.realpath(os.path.join(
    os.path.dirname(TROUPE), "..", "tests", "libfaulty_disk.so"))
WORKERS = ("worker:0", "worker:1", "worker:2")
READERS = ("reader:0", "reader:1")
STAGES = ("stage:0", "stage:1", "stage:2")
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
def by_hand(name, hosts, folder, job, readers=0, strategy=SERVED[:6],
            shards=("ps:0",), **options):
    """A shard and three workers, each by itself; `hosts`: each on its own.
    `options`: role -> those of its Role."""
    with contextlib.ExitStack() as clean:
        def on(host):
            return hosts.on(host) if hosts else ()
        here = hosts.address(0) if hosts else "127.0.0.1"
        certificates = os.path.join(folder, "certificates")
        coordinator = Role(
            clean.callback, "coordinator", "--listen", f"{here}:0",
            "--certificates", certificates, *job, "--metrics-address",
            "127.0.0.1:0", *strategy, "--virtual-ranks", "3",
            *(["--readers", str(readers)] if readers else []), on=on(0),
            **options.get("coordinator", {}))
        address = coordinator.address()
        pids = {}
        for host, role in enumerate(
                (*shards, *WORKERS, *READERS[:readers]), 2 - len(shards)):
            pids[role] = Role(
                clean.callback, role, "--coordinator", address,
                "--certificates", certificates, on=on(host),
                **options.get(role, {})).process.pid
        metrics = metrics_address(coordinator)

        def step():
            said = subprocess.run([*on(0), TROUPE, "status", metrics],
                                  capture_output=True, text=True, timeout=60,
                                  check=False).stdout
            found = re.findall(r"step (\d+)", said)
            return int(found[0]) if found else 0
        wait_for(lambda: step() > 3, "some steps")
        world = World(name, metrics, step, lambda: pids, on(0))
        world.hosts, world.folder = hosts, folder
        yield world


@contextlib.contextmanager
def own_folder():
    folder = OwnFolder()
    folder.setUp()
    try:
        yield folder.folder
    finally:
        folder.doCleanups()


RATE_MBIT = 100


@contextlib.contextmanager
def on_hosts():
    """Each role on a host of its own, over TCP; workers' cables are slow enough
    for half of it to matter."""
    with own_folder() as folder, Hosts(5) as hosts:
        for host in (2, 3, 4):
            hosts.slow(host, f"{RATE_MBIT}mbit")
        with by_hand("hosts", hosts, folder,
                     [*JOB, "--model", "sleep:20ms-200000"]) as world:
            yield world


@contextlib.contextmanager
def group_on_hosts():
    """Workers that sum with one another, over such cables."""
    with own_folder() as folder, Hosts(5) as hosts:
        for host in (2, 3, 4):
            hosts.slow(host, f"{RATE_MBIT}mbit")
        with by_hand("group", hosts, folder,
                     [*JOB, "--model", "sleep:20ms-200000"], shards=(),
                     strategy=["--strategy", "multi_worker_mirrored",
                               "--workers", "3"]) as world:
            yield world


def write_png(path, value):
    """8 x 8, of one grey."""
    def chunk(kind, data):
        return (struct.pack(">I", len(data)) + kind + data
                + struct.pack(">I", zlib.crc32(kind + data)))
    rows = b"".join(b"\0" + bytes([value] * 8) for _ in range(8))
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n"
                   + chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 0, 0, 0, 0))
                   + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


@contextlib.contextmanager
def on_disks(name, model, readers=0):
    """Roles whose calls on files the seam delays, once there is a file with the
    role's name."""
    with own_folder() as folder:
        for label in ("a", "b"):
            os.makedirs(os.path.join(folder, "images", label))
            for number in range(150):
                write_png(os.path.join(folder, "images", label,
                                       f"{number}.png"), number)
        kept = os.path.join(folder, "kept")
        os.mkdir(kept)

        def seam(role, how, where, ms):
            return {"preload": FAULTY_DISK, "environment": {
                "TROUPE_CACHE": os.path.join(folder, "cache"),
                "FAULT_HOW": how, "FAULT_DIR": where, "FAULT_MS": str(ms),
                "FAULT_WHILE": os.path.join(folder, role)}}
        slow = {role: seam(role, "slow-read", os.path.join(folder, "images"), 20)
                for role in (*WORKERS, *READERS)}
        with by_hand(name, None, folder,
                     ["--data", f"images:{folder}/images?size=8&channels=1",
                      *JOB[2:], "--model", model, "--checkpoint-dir", kept,
                      "--checkpoint-every", "100", "--data-memory", "1"],
                     readers, coordinator=seam("coordinator", "slow", kept, 2000),
                     **slow) as world:
            yield world


def slow_disk(world, draw, kind="slow disk of data"):
    role = draw.choice(READERS if kind == "slow reader" else WORKERS)
    switch = os.path.join(world.folder, role)
    with open(switch, "w"):
        pass
    return Trouble(kind, {role}, "for its samples", lambda: os.remove(switch))


def slow_reader(world, draw):
    return slow_disk(world, draw, "slow reader")


def slow_checkpoints(world, _):
    switch = os.path.join(world.folder, "coordinator")
    with open(switch, "w"):
        pass
    return Trouble("slow disk of checkpoints", {"coordinator"},
                   "has been writing a checkpoint", lambda: os.remove(switch))


def cut(world, draw):
    """Nothing gets from a worker's host to the shard's any more."""
    host = draw.randint(2, 4)
    world.hosts.block(host, 1)
    return Trouble("one-way cut", {f"worker:{host - 2}"},
                   "packets are lost between them",
                   lambda: world.hosts.unblock(host, 1))


def listening_ports(pid):
    with open(f"/proc/{pid}/net/tcp") as file:
        rows = [line.split() for line in file.readlines()[1:]]
    return {int(row[1].split(":")[1], 16) for row in rows if row[3] == "0A"}


def blocked_port(world, draw):
    """A firewall that drops what goes to the shard's port, on a worker's host."""
    host = draw.randint(2, 4)
    for port in listening_ports(world.pids()["ps:0"]):
        world.hosts.block_port(host, 1, port)
    return Trouble("blocked port", {f"worker:{host - 2}"},
                   "packets are lost between them",
                   lambda: world.hosts.unblock_ports(host))


def half_rate(world, draw):
    host = draw.randint(2, 4)
    world.hosts.change_rate(host, f"{RATE_MBIT // 2}mbit")
    return Trouble("half a rate", {f"worker:{host - 2}"}, "its link is slow",
                   lambda: world.hosts.change_rate(host, f"{RATE_MBIT}mbit"))


def of(kind, *roles):
    """A trouble of one of these roles."""
    return lambda world, draw: getattr(world, kind)(draw.choice(roles))


SERVED_WITH_READERS = [*SERVED, "--readers", "2", "--model", "sleep:20ms-64"]
SHORT = {"served": (lambda: launched("served", *SERVED_WITH_READERS),
                    [of("stop", *WORKERS), of("stop", "ps:0"),
                     of("stop", *READERS), of("slow", *WORKERS)])}
LONG = {
    **SHORT,
    "replicas": (lambda: launched(
        "replicas", "--strategy", "multi_worker_mirrored", "--workers", "3",
        "--virtual-ranks", "3", "--model", "sleep:20ms-64"),
        [of("stop", *WORKERS), of("slow", *WORKERS)]),
    "stages": (lambda: launched(
        "stages", "--strategy", "pipeline", "--stages", "3", "--model",
        "sleep:3ms+3ms+3ms-64"), [of("stop", *STAGES), of("slow", *STAGES)]),
    "hosts": (on_hosts, [of("stop", *WORKERS), of("stop", "ps:0"), cut,
                         blocked_port, half_rate]),
    "group": (group_on_hosts, [of("stop", *WORKERS), half_rate]),
    "disks": (lambda: on_disks("disks", "mlp:64-32-2"), [slow_disk, slow_checkpoints]),
    "readers": (lambda: on_disks("readers", "mlp:64-1024-1024-2", 2), [slow_reader]),
}


class Culprit(unittest.TestCase):
    def settle(self, world):
        """The trouble is over, and its last traces are gone from the rates."""
        step = world.step()
        wait_for(lambda: world.step() > step + 5, f"{world.name} goes on")
        time.sleep(4)
        wait_for(lambda: world.diagnose()[0] in ("ok", "note"),
                 f"{world.name} is well")

    def judge(self, world, trouble):
        """What is said of it first, whether that is right, and after how many
        seconds."""
        began = time.monotonic()
        kind, role, found = "ok", "", "nothing"
        while (kind not in ("WRONG", "none")
               and time.monotonic() < began + VERDICT_S):
            kind, role, found = world.diagnose()
        return (kind == "WRONG" and role in trouble.roles
                and re.search(trouble.words, found) is not None,
                f"{kind} {role} {found}", time.monotonic() - began)

    def show(self, share, world):
        for name, verdicts in share.items():
            if not name.startswith(f"{world}: "):
                continue
            took = [seconds for _, seconds in verdicts]
            print(f"\n  {name}: {sum(right for right, _ in verdicts)} of "
                  f"{len(verdicts)}, {statistics.median(took):.1f} s "
                  f"({max(took):.1f})", end="", file=sys.stderr, flush=True)

    def test_troubles_are_named_with_role_and_cause(self):
        draw = random.Random(SEED)
        worlds = {name: world for name, world
                  in (LONG if IN_FULL else SHORT).items()
                  if not WORLDS or name in WORLDS}
        share = {}
        # As many of each kind.
        all_kinds = sum(len(kinds) for _, kinds in worlds.values())
        numbers = {}
        for trial in range(TRIALS):
            at = trial % all_kinds
            for name, (_, kinds) in worlds.items():
                if at < len(kinds):
                    numbers.setdefault(name, []).append(kinds[at])
                    break
                at -= len(kinds)
        for name, planted in numbers.items():
            with worlds[name][0]() as world:
                for plant in planted:
                    trouble = plant(world, draw)
                    try:
                        right, said, took = self.judge(world, trouble)
                    finally:
                        trouble.undo()
                    name = f"{world.name}: {trouble.kind}"
                    share.setdefault(name, []).append((right, took))
                    if not right:
                        print(f"\n  {name} of {'/'.join(trouble.roles)}: "
                              f"{said}", end="", file=sys.stderr)
                    self.settle(world)
            self.show(share, world.name)
        rights = [right for verdicts in share.values()
                  for right, _ in verdicts]
        self.assertEqual(len(rights), TRIALS)
        self.assertGreaterEqual(sum(rights) / len(rights), RIGHT_SHARE,
                                collections.Counter(rights))

    def test_nobody_is_accused_where_cores_have_twice_as_much_to_do(self):
        """Three workers and a shard that compute, and a process for each core
        that does so beside."""
        burn = [subprocess.Popen([*DYING_TOO, sys.executable, "-c",
                                  "while True: pass"])
                for _ in range(len(os.sched_getaffinity(0)))]
        try:
            with launched("calm", *SERVED, "--model",
                          "mlp:784-256-256-10") as world:
                time.sleep(4)
                said = collections.Counter()
                end = time.monotonic() + CALM_S
                while time.monotonic() < end:
                    kind, role, found = world.diagnose()
                    said[kind] += 1
                    if kind not in ("ok", "note"):
                        print(f"\n  accused: {role} {found}", end="",
                              file=sys.stderr)
        finally:
            for process in burn:
                process.kill()
                process.wait()
        print(f"\n  {dict(said)}", end="", file=sys.stderr)
        self.assertEqual(said["WRONG"] + said["none"], 0)


if __name__ == "__main__":
    if IN_FULL:
        skip_unless_possible()
        skip_without_slow_wires()
    unittest.main()
