"""Files that cannot be written or read: each fault at each place of a run's
files, with its one line, the right status, and what was saved.

Disks are size-limited tmpfs in a mount namespace of this test's own, so the
machine's mounts are never touched.
"""
# ctest: TIMEOUT 1200 RUN_SERIAL TRUE

import contextlib
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

from cluster import TROUPE, Run, wait_for

SHIM = os.path.join(os.path.dirname(os.path.abspath(TROUPE)), "..", "tests",
                    "libfaulty_disk.so")
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


class Disk:
    """A small file system of its own, and what may happen to it."""

    def __init__(self, folder, size="8m"):
        self.folder = folder
        os.makedirs(folder)
        mount("-t", "tmpfs", "-o", f"size={size}", "none", folder)
        self.switch = folder + ".fault"
        self.closed = False

    def environment(self, fault):
        how = {"broken": "write", "slow": "slow", "unreadable": "read"}
        if fault not in how:
            return {}
        return {"LD_PRELOAD": SHIM, "FAULT_DIR": self.folder,
                "FAULT_HOW": how[fault], "FAULT_WHILE": self.switch,
                "FAULT_MS": "1200"}

    def begin(self, fault):
        if fault in ("broken", "slow", "unreadable"):
            open(self.switch, "w").close()
        elif fault == "full":
            with contextlib.suppress(OSError), \
                    open(self.path("filler"), "wb", buffering=0) as file:
                while True:
                    file.write(bytes(4096))
        elif fault == "read-only":
            mount("--bind", self.folder, self.folder)
            mount("-o", "remount,bind,ro", self.folder)
            self.closed = True
        elif fault == "removed":
            for entry in os.listdir(self.folder):
                path = self.path(entry)
                shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
        else:
            raise AssertionError(fault)

    def end(self):
        """What lasted is over; what was removed stays so."""
        if self.closed:
            self.closed = False
            subprocess.run(["umount", "-l", self.folder], check=True)
        for path in (self.switch, self.path("filler")):
            with contextlib.suppress(FileNotFoundError):
                os.remove(path)

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


class FileFaults(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.count = 0

    def path(self, name):
        return os.path.join(self.folder, name)

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
        surroundings = {"HOME": home, "XDG_STATE_HOME": "",
                        **(disk.environment(fault) if disk else {}),
                        **environment}
        run = Run(*arguments, environment=surroundings, summary=summary)
        self.addCleanup(run.__exit__)
        return run

    def rescued(self, run):
        """The file that the run's last line names in place of --save."""
        name = re.search(r"weights saved to (\S+) instead", run.error())
        self.assertIsNotNone(name, run.error())
        self.addCleanup(os.remove, name.group(1))
        return name.group(1)

    def said(self, run, pattern, times=1):
        text = run.output() + run.error()
        self.assertEqual(len(re.findall(pattern, text)), times,
                         f"{pattern}: {text}")

    # --- the table ------------------------------------------------------------

    def check_save(self, fault, why):
        disk = self.disk()
        os.mkdir(disk.path("out"))
        asked = disk.path("out/w.safetensors")
        run = self.start(*JOB, *ONE, "--save", asked, disk=disk, fault=fault)
        run.wait_for_step(10)
        disk.begin(fault)
        summary = run.finish(1 if why else 0)
        disk.end()
        self.assertEqual(summary["steps"], STEPS)
        if why:
            self.assertRegex(run.error(), rf"\Atroupe: .*(?:{why}).*\n\Z")
        saved = self.rescued(run) if why else asked
        self.assertEqual(values(saved), {float(STEPS)})

    def check_summary(self, fault, why, strategy):
        disk = self.disk()
        out = disk.path("out")
        os.mkdir(out)
        saved = self.path("w.safetensors")
        run = self.start(*JOB, *strategy, "--save", saved, disk=disk,
                         fault=fault, summary=out + "/s.json")
        run.wait_for_step(10)
        disk.begin(fault)
        run.finish(1 if why else 0)
        disk.end()
        self.assertEqual(values(saved), {float(STEPS)})
        if why:
            self.assertRegex(run.error(),
                             rf"\Atroupe: .*no summary: .*(?:{why}).*\n\Z")
        else:
            with open(out + "/s.json") as file:
                self.assertEqual(json.load(file)["steps"], STEPS)

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
            self.assertIn(f"step-{STEPS:012d}", os.listdir(kept))
            return
        self.said(run, rf"no checkpoint of step \d+: .*(?:{why})")
        self.assertRegex(run.error(), r"\Atroupe: the last checkpoint is "
                         rf"missing: .*(?:{why}).*; weights saved to .*\n\Z")

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
        self.said(run, f"journal {journal}: .*(?:{why})", 1 if why else 0)
        if why and fault != "removed":
            self.said(run, "is written again, nothing is missing")
        disk.end()
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
        summary = run.finish()
        disk.end()
        os.remove(self.path("run.db"))
        self.assertEqual(values(saved), {float(summary["steps"])})
        self.said(run, rf"log \S+: cannot be written \((?:{why})\)",
                  1 if why else 0)

    def check_temporary(self, fault, why):
        """The home cannot be used, so the run's own files are in TMPDIR."""
        disk = self.disk()
        saved = self.path("w.safetensors")
        run = self.start(*JOB, *PROCESSES, "--save", saved, disk=disk,
                         fault=fault, TMPDIR=disk.folder, HOME="/proc")
        run.wait_for_step(10)
        disk.begin(fault)
        if fault == "removed":
            wait_for(lambda: re.search(why, run.output()), "the journal's line")
            run.kill("worker:0")
        summary = run.finish()
        disk.end()
        self.assertEqual(values(saved), {float(STEPS)})
        self.assertEqual(len(summary["recoveries"]), int(fault == "removed"))
        self.said(run, f"journal .*(?:{why})", 1 if why else 0)

    def for_each(self, check, rows):
        for fault, *expected in rows:
            with self.subTest(check=check.__name__, fault=fault):
                check(fault, *expected)

    def test_the_weights_find_another_place_and_the_summary_its_own(self):
        self.for_each(self.check_save, (
            ("full", NO_ROOM), ("read-only", READ_ONLY), ("slow", ""),
            ("broken", BROKEN), ("removed", GONE)))

    def test_a_summary_without_a_place_is_said_with_status_1(self):
        self.for_each(self.check_summary, (
            ("full", NO_ROOM, ONE), ("read-only", READ_ONLY, PROCESSES),
            ("slow", "", PROCESSES), ("broken", BROKEN, PROCESSES),
            ("removed", GONE, PROCESSES)))

    def test_a_checkpoint_costs_a_line_and_the_last_one_the_status(self):
        self.for_each(self.check_checkpoint, (
            ("full", NO_ROOM), ("read-only", READ_ONLY), ("slow", ""),
            ("broken", BROKEN), ("removed", "another folder|" + GONE)))

    def test_a_journal_is_said_once_and_has_everything_at_the_end(self):
        self.for_each(self.check_journal, (
            ("full", "cannot be written.*full"), ("read-only", ""),
            ("slow", ""), ("broken", "cannot be written.*I/O error"),
            ("removed", "was removed, and is there again|readonly")))

    def test_a_log_costs_its_lines_alone(self):
        self.for_each(self.check_log, (
            ("full", NO_ROOM), ("read-only", ""), ("slow", ""),
            ("broken", BROKEN), ("removed", GONE)))

    def test_the_temporary_folder_is_not_missed(self):
        self.for_each(self.check_temporary, (
            ("full", "cannot be written.*full"), ("read-only", ""),
            ("slow", ""), ("broken", "cannot be written.*I/O error"),
            ("removed", "was removed, and is there again|readonly")))

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
        self.assertEqual(os.listdir(small.folder), ["k"])
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
            env={**os.environ, **disk.environment("unreadable")})
        self.assertEqual(verdict.returncode, 1)
        self.assertNotIn("damaged: ", verdict.stdout)
        disk.end()
        run = self.start(*JOB, *ONE, "--checkpoint-dir", kept, "--resume")
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
