"""Files that cannot be written or read: each fault at each place of a run's
files, with its one line, the right status, and what was saved.

Disks are size-limited tmpfs in a mount namespace of this test's own, so the
machine's mounts are never touched.
"""
# ctest: TIMEOUT 1200 COST 45 PROCESSORS 1

import concurrent.futures
import contextlib
import ctypes
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import unittest

from cluster import TROUPE, Run, wait_for
from own_folder import OwnFolder

SHIM = os.path.abspath(os.path.join(os.path.dirname(TROUPE), "..", "tests",
                                    "libfaulty_disk.so"))
INSIDE = "TROUPE_FILE_FAULTS_INSIDE"
# Each parameter counts its updates: what was saved tells of how many steps.
MODEL = ["--data", "synthetic:digits?samples=400", "--model", "count:5ms-100",
         "--optimizer", "sgd", "--lr", "1", "--global-batch", "4",
         "--virtual-ranks", "1", "--eval-fraction", "0.1"]
STEPS = 150
JOB = [*MODEL, "--epochs", "0", "--steps", str(STEPS)]
ONE = ["--strategy", "one_device"]
PROCESSES = ["--strategy", "parameter_server", "--processes", "--workers", "1",
             "--ps", "1"]
NO_ROOM = "No space left on device|full"
BROKEN = "Input/output error|I/O error"
GONE = "No such file or directory"
READ_ONLY = "Read-only file system"
FORBIDDEN = "Permission denied"
REMOVED = "was removed, and is there again|readonly"
REFUSALS = "|".join((NO_ROOM, BROKEN, GONE, READ_ONLY, FORBIDDEN, REMOVED,
                     "cannot be written"))
AT_ONCE = 2
PLACES = ("save", "summary", "checkpoint", "journal", "log", "temporary")
# What is said of a fault at each of these places, once; empty: it does no harm.
TABLE = {
    "full": (NO_ROOM, NO_ROOM, NO_ROOM, NO_ROOM, NO_ROOM, NO_ROOM),
    # No room for another file. Journal and logs are open.
    "crowded": (NO_ROOM, NO_ROOM, NO_ROOM, "", "", ""),
    # What is open may still be written, here and where modes forbid the rest.
    "read-only": (READ_ONLY, READ_ONLY, READ_ONLY, "", "", ""),
    "slow": ("", "", "", "", "", ""),
    "broken": (BROKEN, BROKEN, BROKEN, BROKEN, BROKEN, BROKEN),
    # Logs are not synced.
    "unsynced": (BROKEN, BROKEN, BROKEN, BROKEN, "", BROKEN),
    # What is written is not read again.
    "unreadable": ("", "", "", "", "", ""),
    "forbidden": (FORBIDDEN, FORBIDDEN, FORBIDDEN, "", "", ""),
    "removed": (GONE, GONE, "another folder|" + GONE, REMOVED, GONE, REMOVED),
    # The files alone. What was saved before is written anew anyway.
    "emptied": ("", "", "", REMOVED, "", REMOVED),
}


def enter_namespace():
    """Goes on in a mount namespace; without one to be had, as a skip (77)."""
    if os.environ.get(INSIDE):
        return
    prefix = ["unshare", "--mount", "--propagation", "private"]
    if os.geteuid() != 0:
        prefix[1:1] = ["--user", "--map-root-user"]
    if shutil.which("unshare") is None or subprocess.run(
            [*prefix, "mount", "-t", "tmpfs", "none", "/mnt"],
            capture_output=True).returncode != 0:
        print("skipped: no mount namespaces here")
        sys.exit(77)
    os.environ[INSIDE] = "1"
    os.execvp(prefix[0], [*prefix, sys.executable, *sys.argv])


def mount(*arguments):
    subprocess.run(["mount", *arguments], check=True)


# Faults that the seam plays at the program's calls, and how it names them.
SEAM = {"broken": "write", "unsynced": "sync", "unreadable": "read",
        "unstatable": "stat",
        "slow": "slow"}
CAPBSET_DROP, OVERRIDES_MODES = 24, (1, 2)


def respects_modes():
    """A preexec_fn after which modes of files hold for root as well."""
    for capability in OVERRIDES_MODES:
        ctypes.CDLL(None).prctl(CAPBSET_DROP, capability, 0, 0, 0)


class Disk:
    """A small file system of its own, and what may happen to it."""

    def __init__(self, folder, size="8m"):
        self.folder = folder
        os.makedirs(folder)
        mount("-t", "tmpfs", "-o", f"size={size},nr_inodes=200", "none", folder)
        self.switch = folder + ".fault"
        self.closed = False
        self.modes = {}

    def options(self, fault):
        """What a run needs for which this fault shall happen."""
        out = {"environment": {}}
        if fault in SEAM:
            out["environment"] = {
                "LD_PRELOAD": SHIM, "FAULT_DIR": self.folder,
                "FAULT_HOW": SEAM[fault], "FAULT_WHILE": self.switch,
                "FAULT_MS": "1200"}
        if fault == "forbidden":
            out["preexec_fn"] = respects_modes
        return out

    def begin(self, fault):
        if fault in SEAM:
            open(self.switch, "w").close()
        elif fault == "full":
            with contextlib.suppress(OSError), \
                    open(self.path("filler"), "wb", buffering=0) as file:
                while True:
                    file.write(bytes(4096))
        elif fault == "crowded":
            os.mkdir(self.path("crowd"))
            with contextlib.suppress(OSError):
                for name in range(1000):
                    open(self.path(f"crowd/{name}"), "w").close()
        elif fault == "read-only":
            mount("--bind", self.folder, self.folder)
            mount("-o", "remount,bind,ro", self.folder)
            self.closed = True
        elif fault == "forbidden":
            for folder, _, _ in os.walk(self.folder, topdown=False):
                self.modes[folder] = os.stat(folder).st_mode
                os.chmod(folder, 0)
        elif fault == "removed":
            for entry in os.listdir(self.folder):
                path = self.path(entry)
                shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
        elif fault == "emptied":
            for folder, _, files in os.walk(self.folder):
                for name in files:
                    os.remove(os.path.join(folder, name))
        else:
            raise AssertionError(fault)

    def end(self):
        """What lasted is over; what was removed stays so."""
        if self.closed:
            self.closed = False
            subprocess.run(["umount", "-l", self.folder], check=True)
        for folder, mode in self.modes.items():
            os.chmod(folder, mode)
        self.modes = {}
        for path in (self.switch, self.path("filler")):
            with contextlib.suppress(FileNotFoundError):
                os.remove(path)
        shutil.rmtree(self.path("crowd"), ignore_errors=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def gone(self):
        while os.path.ismount(self.folder):
            subprocess.run(["umount", "-l", self.folder], check=True)


def values(path):
    """The different values of all tensors of a safetensors file."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        file.read(length)
        data = file.read()
    return set(struct.unpack(f"<{len(data) // 4}f", data))


def events(journal):
    done = subprocess.run([TROUPE, "events", journal, "--json"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


class FileFaults(OwnFolder):
    def setUp(self):
        super().setUp()
        self.count = 0

    def disk(self, size="8m"):
        self.count += 1
        disk = Disk(self.path(f"disk{self.count}"), size)
        self.addCleanup(disk.gone)
        return disk

    def start(self, *arguments, disk=None, fault="", summary=None,
              **environment):
        """A run whose home and working folder are this test's."""
        home = self.path("home")
        os.makedirs(home, exist_ok=True)
        options = disk.options(fault) if disk else {"environment": {}}
        options["environment"] = {"HOME": home, "XDG_STATE_HOME": "",
                                  **options["environment"], **environment}
        run = Run(*arguments, summary=summary, cwd=self.folder,
                  program=os.path.abspath(TROUPE), **options)
        self.addCleanup(run.__exit__)
        return run

    def rescued(self, run):
        """The file that the run's last line names in place of --save."""
        name = re.search(r"weights saved to (\S+) instead", run.error())
        self.assertIsNotNone(name, run.error())
        return name.group(1)

    def said(self, run, pattern, times=1):
        text = run.output() + run.error()
        self.assertEqual(len(re.findall(pattern, text)), times,
                         f"{pattern}: {text}")

    # --- the table ------------------------------------------------------------

    def complaints(self, run):
        """All that a run says of what the system refused."""
        text = run.output() + run.error()
        return [line for line in text.splitlines() if re.search(REFUSALS, line)]

    def check_said(self, run, *patterns):
        """These complaints and no other, in this order."""
        found = self.complaints(run)
        self.assertEqual(len(found), len(patterns), found)
        for line, pattern in zip(found, patterns):
            self.assertRegex(line, pattern)
        self.assertNotRegex(run.output() + run.error(), "terminate called")

    def check_save(self, fault, why):
        disk = self.disk()
        os.mkdir(disk.path("out"))
        asked = disk.path("out/w.safetensors")
        with open(asked, "w") as earlier:
            earlier.write("what was saved before")
        run = self.start(*JOB, *ONE, "--save", asked, disk=disk, fault=fault)
        run.wait_for_step(10)
        disk.begin(fault)
        summary = run.finish(1 if why else 0)
        disk.end()
        self.assertEqual(summary["steps"], STEPS)
        if why:
            self.assertRegex(run.error(), r"\Atroupe: .*\n\Z")
        self.check_said(run, *([rf"instead: .*(?:{why})"] if why else []))
        saved = self.rescued(run) if why else asked
        self.assertEqual(values(saved), {float(STEPS)})

    def check_summary(self, fault, why):
        disk = self.disk()
        out = disk.path("out")
        os.mkdir(out)
        with open(out + "/s.json", "w") as earlier:
            earlier.write("{}")
        saved = self.path("w.safetensors")
        strategy = ONE if fault == "full" else PROCESSES
        run = self.start(*JOB, *strategy, "--save", saved, "--report",
                         out + "/r.html", disk=disk, fault=fault,
                         summary=out + "/s.json")
        run.wait_for_step(10)
        disk.begin(fault)
        self.assertEqual(run.process.wait(60), 1 if why else 0, run.error())
        disk.end()
        self.assertEqual(values(saved), {float(STEPS)})
        self.check_said(run, *([rf"\Atroupe: .*no summary: .*(?:{why}).*"
                                rf"; no report: .*(?:{why})"] if why else []))
        if not why:
            self.assertEqual(run.summary()["steps"], STEPS)
            self.assertTrue(os.path.exists(out + "/r.html"))

    def check_checkpoint(self, fault, why):
        disk = self.disk()
        kept = disk.path("kept")
        saved = self.path("w.safetensors")
        run = self.start(*JOB, *ONE, "--save", saved, "--checkpoint-dir", kept,
                         "--checkpoint-every", "10", disk=disk, fault=fault)
        wait_for(lambda: os.path.isdir(kept) and any(
            x.startswith("step-") for x in os.listdir(kept)), "a checkpoint")
        disk.begin(fault)
        summary = run.finish(1 if why else 0)
        disk.end()
        self.assertEqual(values(saved), {float(STEPS)})
        self.assertEqual(summary["steps"], STEPS)
        if not why:
            self.check_said(run)
            self.assertIn(f"step-{STEPS:012d}", os.listdir(kept))
            return
        self.check_said(run, rf"no checkpoint of step \d+: .*(?:{why})",
                        r"\Atroupe: the last checkpoint is missing: .*"
                        rf"(?:{why}).*; weights saved to ")

    def check_journal(self, fault, why):
        disk = self.disk()
        os.mkdir(disk.path("in"))
        journal = disk.path("in/run.db")
        strategy = PROCESSES if fault == "slow" else ONE
        run = self.start(*JOB, "--eval-every", "5", *strategy, "--journal",
                         journal, disk=disk, fault=fault)
        run.wait_for_step(10)
        disk.begin(fault)
        if why:
            wait_for(lambda: re.search(f"journal .*(?:{why})", run.output()),
                     "the journal's line")
        if fault != "slow":
            disk.end()
        run.finish()
        disk.end()
        self.check_said(run, *([f"journal {journal}: .*(?:{why})"]
                               if why else []))
        self.said(run, "is (?:written|there) again, nothing is missing",
                  int(bool(why)))
        found = events(journal)
        self.assertEqual(found[-1]["kind"], "over")
        steps = 0
        for event in found:
            if event["kind"] == "commits":
                self.assertEqual(event["first"], steps)
                steps += event["count"]
        self.assertEqual(steps, STEPS)

    def check_log(self, fault, why):
        disk = self.disk()
        logs = disk.path("logs")
        saved = self.path("w.safetensors")
        run = self.start(*JOB, "--log-every", "1", *PROCESSES, "--save", saved,
                         "--log-dir", logs, "--journal", self.path("run.db"),
                         disk=disk, fault=fault)
        run.wait_for_step(10)
        with open(os.path.join(logs, "coordinator.log"), "ab") as log:
            log.write(b"\n" * (-log.tell() % 4096))  # its last page has no room
        disk.begin(fault)
        if why and fault not in ("removed", "emptied"):
            wait_for(lambda: re.search(why, run.output()), "the log's line")
            disk.end()
        summary = run.finish()
        disk.end()
        self.assertEqual(values(saved), {float(summary["steps"])})
        self.check_said(run, *([rf"log \S+: cannot be written \((?:{why})\)"]
                               if why else []))

    def check_temporary(self, fault, why):
        """The home cannot be used, so the run's own files are in TMPDIR; a role
        that is started again needs some of them."""
        disk = self.disk()
        saved = self.path("w.safetensors")
        run = self.start(*JOB, *PROCESSES, "--save", saved, disk=disk,
                         fault=fault, TMPDIR=disk.folder, HOME="/proc")
        run.wait_for_step(10)
        disk.begin(fault)
        if why:
            wait_for(lambda: re.search(why, run.output()), "the journal's line")
        run.kill("worker:0")
        summary = run.finish()
        disk.end()
        self.assertEqual(values(saved), {float(STEPS)})
        self.assertEqual(len(summary["recoveries"]), 1)
        self.check_said(run, *([rf"journal .*(?:{why})"] if why else []))
        if fault not in ("read-only", "forbidden"):
            self.assertEqual(os.listdir(disk.folder), [])

    @classmethod
    def play(cls, place, fault, why):
        """One case, as a test of its own."""
        case = cls()
        case.setUp()
        try:
            getattr(case, f"check_{place}")(fault, why)
        finally:
            case.doCleanups()

    def test_each_fault_at_each_place(self):
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as rooms:
            cases = {(place, fault): rooms.submit(self.play, place, fault, why)
                     for fault, row in TABLE.items()
                     for place, why in zip(PLACES, row)}
            for (place, fault), case in cases.items():
                with self.subTest(place=place, fault=fault):
                    case.result()
        self.assertEqual(len(cases), 60)

    # --- at the start ---------------------------------------------------------

    def test_an_output_that_cannot_be_written_is_found_before_the_work(self):
        closed, small = self.disk(), self.disk("64k")
        closed.begin("read-only")
        large = ["--model", "mlp:784-100-10"]  # 318 kB of weights
        for arguments, says in (
                (["--save", closed.path("w")], "--save .*" + READ_ONLY),
                (["--journal", closed.path("j")], "--journal .*" + READ_ONLY),
                (["--checkpoint-dir", closed.path("k")], READ_ONLY),
                ([*large, "--save", small.path("w")],
                 r"--save .*needs 0\.3 MB, and 0\.1 MB are free"),
                ([*large, "--checkpoint-dir", small.path("k")],
                 r"needs 1\.0 MB, and 0\.1 MB are free")):
            for strategy in (ONE, PROCESSES):
                with self.subTest(arguments=arguments, strategy=strategy):
                    run = self.start(
                        "--data", "synthetic:digits?samples=400", "--epochs",
                        "100000", *strategy, *arguments, "--quiet")
                    run.finish(1)
                    self.assertRegex(run.error(), r"\Atroupe: [^\n]*\n\Z")
                    self.assertRegex(run.error(), says)
        self.assertEqual(os.listdir(small.folder), [])
        for summary, says in ((closed.path("s"), READ_ONLY),
                              ("/dev/full", "not a regular file")):
            run = self.start(*MODEL, "--epochs", "100000", summary=summary)
            self.assertEqual(run.process.wait(60), 1)
            self.assertRegex(run.error(), rf"\Atroupe: --summary .*{says}.*\n\Z")

    # --- checkpoints ----------------------------------------------------------

    def kept(self, disk):
        kept = disk.path("kept")
        with Run(*MODEL, "--epochs", "0", "--steps", "30", *ONE,
                 "--checkpoint-dir", kept, "--checkpoint-every", "10") as run:
            run.finish()
        return kept

    def test_a_checkpoint_that_cannot_be_read_now_is_not_passed_over(self):
        disk = self.disk()
        kept = self.kept(disk)
        before = sorted(os.listdir(kept))
        disk.begin("unreadable")
        for fresh in ("--resume", "--resume=fresh"):
            run = self.start(*JOB, *ONE, "--checkpoint-dir", kept, fresh,
                             disk=disk, fault="unreadable")
            run.finish(1)
            self.assertRegex(run.error(), r"\Atroupe: \S+/step-0+30/\S+: "
                             rf"cannot be .*{BROKEN.split('|')[0]}.*\n\Z")
            self.assertEqual(sorted(os.listdir(kept)), before)
        verdict = subprocess.run(
            [TROUPE, "checkpoint", "verify", kept], capture_output=True,
            text=True, check=False,
            env={**os.environ, **disk.options("unreadable")["environment"]})
        self.assertEqual(verdict.returncode, 1)
        self.assertNotIn("damaged: ", verdict.stdout)
        disk.end()
        run = self.start(*JOB, *ONE, "--checkpoint-dir", kept, "--resume")
        self.assertEqual(run.finish()["resumed_from"]["step"], 30)

    def test_a_checkpoint_that_is_not_told_of_is_not_passed_over(self):
        """fstat fails: "is not a regular file", and so it was damaged."""
        disk = self.disk()
        kept = self.kept(disk)
        before = sorted(os.listdir(kept))
        disk.begin("unstatable")
        run = self.start(*JOB, *ONE, "--checkpoint-dir", kept, "--resume",
                         disk=disk, fault="unstatable")
        run.finish(1)
        self.assertRegex(run.error(), r"\Atroupe: \S+/step-0+30/\S+: cannot be "
                         rf"read \((?:{BROKEN})\).*\n\Z")
        self.assertEqual(sorted(os.listdir(kept)), before)

    def test_weights_that_cannot_be_read_are_not_written_over(self):
        """They may be of a later step than a run that is ended early has."""
        kept, asked = self.path("kept"), "out/w.safetensors"
        for fault, why in (("unreadable", BROKEN), ("forbidden", FORBIDDEN)):
            with self.subTest(fault=fault):
                disk = self.disk()
                os.mkdir(disk.path("out"))
                saved = disk.path(asked)
                self.start(*MODEL, *ONE, "--epochs", "0", "--steps", "10",
                           "--checkpoint-dir", kept, "--save",
                           saved).finish()
                run = self.start(*MODEL, *ONE, "--epochs", "0", "--steps",
                                 "100000", "--checkpoint-dir", kept,
                                 "--resume", "--save", saved, disk=disk,
                                 fault=fault)
                run.wait_for_step(20)
                if fault == "forbidden":
                    os.chmod(saved, 0)
                else:
                    disk.begin(fault)
                run.process.send_signal(signal.SIGTERM)
                steps = run.finish(143)["steps"]
                disk.end()
                self.assertEqual(values(saved), {10.0})
                self.assertEqual(values(f"{saved}.step-{steps}"),
                                 {float(steps)})
                self.said(run, rf"weights saved to \S+\.step-{steps} "
                          rf"\({saved}: cannot be .*(?:{why})")
                shutil.rmtree(kept)

    def test_a_checkpoint_that_may_not_be_read_is_not_passed_over(self):
        disk = self.disk()
        kept = self.kept(disk)
        before = sorted(os.listdir(kept))
        newest = os.path.join(kept, before[-1])
        files = [os.path.join(newest, name) for name in os.listdir(newest)]
        for file in files:
            os.chmod(file, 0)
        resumed = [*JOB, *ONE, "--checkpoint-dir", kept, "--resume",
                   "--checkpoint-keep", "1"]
        run = self.start(*resumed, disk=disk, fault="forbidden")
        run.finish(1)
        self.assertRegex(run.error(), r"\Atroupe: \S+/step-0+30/\S+: "
                         rf"cannot be .*{FORBIDDEN}.*\n\Z")
        self.assertEqual(sorted(os.listdir(kept)), before)
        for file in files:
            os.chmod(file, 0o600)
        run = self.start(*resumed, disk=disk, fault="forbidden")
        self.assertEqual(run.finish()["resumed_from"]["step"], 30)

    def test_where_all_are_damaged_only_fresh_begins_and_keeps_them(self):
        disk = self.disk()
        kept = self.kept(disk)
        before = sorted(os.listdir(kept))
        for name in before:
            os.truncate(os.path.join(kept, name, "manifest.json"), 10)
        run = self.start(*JOB, *ONE, "--checkpoint-dir", kept, "--resume")
        run.finish(1)
        self.assertRegex(run.error(), r"\Atroupe: .*all \d of its checkpoints "
                         r"are damaged.*--resume=fresh.*\n\Z")
        self.assertEqual(sorted(os.listdir(kept)), before)
        run = self.start(*JOB, *ONE, "--checkpoint-dir", kept, "--resume=fresh",
                         "--checkpoint-every", "10", "--checkpoint-keep", "1")
        summary = run.finish()
        self.assertIsNone(summary["resumed_from"])
        self.said(run, r"passed over: .*kept as \S+/damaged-step-",
                  len(before))
        self.assertEqual(sorted(os.listdir(kept)),
                         sorted(["damaged-" + name for name in before]
                                + [f"step-{STEPS:012d}"]))

    def test_a_mount_that_comes_late_loses_nothing(self):
        late = self.disk()
        self.kept(late)
        here = self.path("kept")
        run = self.start(*JOB, *ONE, "--checkpoint-dir", here, "--resume",
                         "--checkpoint-every", "10", "--checkpoint-keep", "1")
        wait_for(lambda: os.path.isdir(here) and os.listdir(here), "its start")
        mount("--bind", late.path("kept"), here)
        self.addCleanup(subprocess.run, ["umount", "-l", here], check=True)
        before = sorted(os.listdir(here))
        run.finish(1)
        self.said(run, r"no checkpoint of step \d+: .*is another folder")
        self.assertEqual(sorted(os.listdir(here)), before)
        self.assertEqual(len(before), 3)

    # --- two jobs at a time ---------------------------------------------------

    def test_a_log_dir_is_one_runs_alone(self):
        logs = self.path("logs")
        endless = [*MODEL, "--epochs", "100000", *PROCESSES]
        first = self.start(*endless, "--log-dir", logs)
        first.wait_for_step(1)
        second = self.start(*endless, "--log-dir", logs)
        second.finish(1)
        self.assertRegex(second.error(), rf"\Atroupe: --log-dir {logs}: another "
                         rf"run writes its logs there, process "
                         rf"{first.process.pid} \(\S*troupe train .*\n\Z")
        first.process.send_signal(signal.SIGINT)
        first.finish(130)
        kinds = [event["kind"] for event in events(logs)]
        self.assertEqual(kinds.count("coordinator"), 1)
        self.assertEqual(kinds[-1], "over")
        third = self.start(*JOB, *PROCESSES, "--log-dir", logs)
        third.finish()
        self.assertIn("journal-2.db", os.listdir(logs))
        # Recorders of a run in one process lie there, too.
        fourth = self.start(*MODEL, "--epochs", "100000", *ONE, "--log-dir", logs)
        fourth.wait_for_step(1)
        fifth = self.start(*JOB, *ONE, "--log-dir", logs)
        fifth.finish(1)
        self.assertIn("another run writes its logs there", fifth.error())
        fourth.process.send_signal(signal.SIGINT)
        fourth.finish(130)
        recorded = self.path("recorded")
        sixth = self.start(*MODEL, "--epochs", "100000", *PROCESSES, "--flight",
                           recorded)
        sixth.wait_for_step(1)
        seventh = self.start(*JOB, *ONE, "--flight", recorded)
        seventh.finish(1)
        self.assertRegex(seventh.error(), r"\Atroupe: --flight \S+: another run "
                         rf"has its recorders there, process {sixth.process.pid} ")
        sixth.process.send_signal(signal.SIGINT)
        sixth.finish(130)

    def test_the_recorders_of_a_log_dir_are_one_runs_alone(self):
        logs = self.path("logs")
        endless = [*MODEL, "--epochs", "100000"]
        ways = {"--log-dir": logs, "--flight": os.path.join(logs, "flight")}
        for (own, own_place), (other, place) in (
                ways.items(), reversed(ways.items())):
            for way in (ONE, PROCESSES):
                with self.subTest(own=own, way=way):
                    first = self.start(*endless, *way, own, own_place)
                    first.wait_for_step(1)
                    second = self.start(*JOB, *ONE, other, place)
                    second.finish(1)
                    self.assertRegex(
                        second.error(), rf"\Atroupe: {other} {place}: "
                        r"(\S+: )?another run has its recorders there, process "
                        rf"{first.process.pid} [^\n]*\n\Z")
                    first.process.send_signal(signal.SIGINT)
                    first.finish(130)

    def test_the_name_that_a_killed_launcher_took_for_its_journal_is_free(self):
        journal = self.path("run.db")
        with open(journal, "wb"):
            pass
        self.start(*JOB, *PROCESSES, "--journal", journal).finish()
        self.assertEqual(events(journal)[-1]["kind"], "over")

    def test_of_two_jobs_that_name_one_journal_at_once_one_is_refused(self):
        journal = self.path("run.db")
        runs = [self.start(*JOB, *PROCESSES, "--journal", journal)
                for _ in range(2)]
        ends = [run.process.wait(60) for run in runs]
        self.assertEqual(sorted(ends), [0, 1],
                         [run.error() + run.output() for run in runs])
        refused = runs[ends.index(1)]
        self.assertRegex(refused.error(), r"\Atroupe: --journal \S+: is there "
                         r"already .*\n\Z")
        kinds = [event["kind"] for event in events(journal)]
        self.assertEqual(kinds.count("coordinator"), 1)


if __name__ == "__main__":
    enter_namespace()
    unittest.main()
