"""Machines with little: quotas of processor time, few descriptors or threads,
no temporary folder, /proc, memory files or working directory, files that may not
grow, a container without another init, a terminal that knows no escapes. Each
is honoured, or named in one line before anything else."""
# ctest: TIMEOUT 1200 RUN_SERIAL TRUE

import collections
import ctypes
import os
import platform
import pty
import re
import resource
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import unittest

from cluster import TROUPE, Run, wait_for
from groups import Group
from own_folder import OwnFolder
from processes import children_of

DATA = ["--data", "synthetic:digits?samples=2000"]
JOB = [*DATA, "--model", "mlp:784-48-10", "--global-batch", "64",
       "--virtual-ranks", "4", "--seed", "7"]
ONE_DEVICE = ["--strategy", "one_device"]
MIRRORED = ["--strategy", "mirrored", "--devices", "cpu:2"]
SERVED = ["--strategy", "parameter_server", "--processes", "--workers", "2",
          "--ps", "2"]
REPLICAS = ["--strategy", "multi_worker_mirrored", "--processes", "--workers",
            "2"]
EVERY_WAY = (ONE_DEVICE, MIRRORED, SERVED, REPLICAS)
ENDLESS = ["--epochs", "1000000"]
NOBODY = 54321  # a user without processes


def limits(**values):
    """A preexec_fn that sets these of resource.RLIMIT_*, soft and hard."""
    def set_them():
        for name, value in values.items():
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"),
                               (value, value))
    return set_them


def without_memory_files():
    """A preexec_fn after which the kernel knows no memfd_create."""
    number = {"x86_64": 319, "aarch64": 279}.get(platform.machine())
    if number is None:
        raise unittest.SkipTest("the number of memfd_create is not known here")

    def filter_calls():
        # BPF: load the call's number; ENOSYS for that one, others go through.
        program = b"".join(struct.pack("HBBI", *line) for line in (
            (0x20, 0, 0, 0), (0x15, 0, 1, number),
            (0x06, 0, 0, 0x00050000 | 38), (0x06, 0, 0, 0x7fff0000)))
        kept = ctypes.create_string_buffer(program, len(program))
        header = struct.pack("HxxxxxxP", 4, ctypes.addressof(kept))
        libc = ctypes.CDLL(None, use_errno=True)
        if (libc.prctl(38, 1, 0, 0, 0) != 0
                or libc.prctl(22, 2, ctypes.create_string_buffer(header)) != 0):
            os._exit(99)
    return filter_calls


class SmallMachine(OwnFolder):
    def start(self, *arguments, **options):
        run = Run(*JOB, *arguments, **options)
        self.addCleanup(run.__exit__)
        return run

    def check_refused(self, pattern, *arguments, **options):
        """Status 1 and one line, within a time in which nothing was tried."""
        run = self.start(*arguments, **options)
        run.finish(1, 60)
        self.assertRegex(run.error(), r"\Atroupe: [^\n]+\n\Z")
        self.assertRegex(run.error(), pattern)

    # --- processors -----------------------------------------------------------

    def test_a_quota_of_processor_time_is_honoured(self):
        if len(os.sched_getaffinity(0)) < 2:
            self.skipTest("one processor is all that there is")
        group = Group.find("cpu")
        if group is None:
            self.skipTest("no control group with a quota can be made")
        self.addCleanup(group.remove)

        def devices():
            shown = subprocess.run(
                [TROUPE, "train", *JOB, "--print-config"], text=True,
                capture_output=True, preexec_fn=group.enter, check=True)
            return re.search(r"devices = '(cpu:\d+)'", shown.stdout).group(1)
        group.limit_processors(0.5)
        self.assertEqual(devices(), "cpu:1")
        group.limit_processors(2.5)
        self.assertEqual(devices(), "cpu:2")

    # --- descriptors and threads ----------------------------------------------

    def test_too_few_descriptors_are_named_at_the_start(self):
        for strategy in EVERY_WAY:
            with self.subTest(strategy=strategy):
                self.check_refused(
                    r"ulimit -n allows 20 open files a process, and this run "
                    r"may need \d+: raise it \(ulimit -n \d+\)", *strategy,
                    *ENDLESS, preexec_fn=limits(NOFILE=20))

    def test_as_many_descriptors_as_it_asks_for_are_enough(self):
        many = [*SERVED[:-3], "4", "--ps", "4"]
        ring = ["--strategy", "mirrored", "--devices", "cpu:4", "--reduction",
                "fast", "--all-reduce", "ring"]
        for strategy in (*EVERY_WAY, many, [*many, "--link", "tcp"], ring,
                         [*SERVED, "--standby"]):
            with self.subTest(strategy=strategy):
                refused = self.start(*strategy, preexec_fn=limits(NOFILE=20))
                refused.finish(1)
                needed = int(re.search(r"may need (\d+)",
                                       refused.error()).group(1))
                run = self.start(*strategy, "--epochs", "2",
                                 preexec_fn=limits(NOFILE=needed))
                self.assertEqual(run.finish()["recoveries"], [])

    def test_a_soft_limit_of_descriptors_is_raised(self):
        run = self.start(*SERVED, "--epochs", "1", preexec_fn=lambda:
                         resource.setrlimit(resource.RLIMIT_NOFILE, (20, 4096)))
        self.assertEqual(run.finish()["recoveries"], [])

    def test_too_few_threads_are_named_at_the_start(self):
        options = {"preexec_fn": limits(NPROC=12)}
        if os.geteuid() == 0:  # root is not limited
            program = os.path.join(self.folder, "troupe")
            shutil.copy2(TROUPE, program)
            os.chmod(self.folder, 0o777)
            options.update(program=program,
                           summary=os.path.join(self.folder, "summary.json"),
                           user=NOBODY, group=NOBODY, extra_groups=[],
                           cwd=self.folder)
        for strategy in EVERY_WAY:
            with self.subTest(strategy=strategy):
                self.check_refused(
                    r"does not give the \d+ threads that this run needs: "
                    r"ulimit -u allows 12 ", *strategy, *ENDLESS, **options)

    # --- what a system should have --------------------------------------------

    def test_a_temporary_folder_that_is_not_there_is_named(self):
        # It is the last place where a run's own folder may be.
        gone = os.path.join(self.folder, "gone")
        nowhere = {"TMPDIR": gone, "HOME": "/proc/none",
                   "XDG_STATE_HOME": "/proc/none"}
        self.check_refused(
            rf"cannot create a folder in .*; {gone} \(No such file or "
            r"directory\): set TMPDIR", *SERVED, environment=nowhere)
        with open(gone, "w"):
            self.check_refused(
                rf"cannot create a folder in .*; {gone} \(Not a directory\)",
                *SERVED, environment=nowhere)

    def in_namespace(self, script):
        """What stands before a command that runs after `script`, as root of a
        mount namespace of its own."""
        prefix = ["unshare", "--mount"]
        if os.geteuid() != 0:
            prefix += ["--user", "--map-root-user"]
        attempt = subprocess.run([*prefix, "sh", "-c", script],
                                 capture_output=True, text=True)
        if attempt.returncode != 0:
            self.skipTest(f"no mount namespaces here: {attempt.stderr}")
        path = os.path.join(self.folder, "inside")
        with open(path, "w") as file:
            words = " ".join(prefix)
            file.write(f"#!/bin/sh\nexec {words} sh -c '{script} && exec "
                       f"{TROUPE} \"$@\"' inside \"$@\"\n")
        os.chmod(path, 0o755)
        return path

    def test_no_proc_is_named(self):
        program = self.in_namespace("mount -t tmpfs none /proc")
        for strategy in (SERVED, REPLICAS):
            with self.subTest(strategy=strategy):
                self.check_refused(r"/proc/self/exe cannot be opened \(No such "
                                   r"file or directory\): [^\n]*mount /proc",
                                   *strategy, program=program)
        run = self.start(*MIRRORED, "--epochs", "1", program=program)
        run.finish()

    def test_no_memory_files_are_named_where_they_are_needed(self):
        for strategy in EVERY_WAY[1:]:
            with self.subTest(strategy=strategy):
                self.check_refused(
                    r"memfd_create: Function not implemented: ", *strategy,
                    preexec_fn=without_memory_files())
        for strategy in (ONE_DEVICE, [*SERVED[:2], "--in-process"]):
            with self.subTest(strategy=strategy):
                self.start(*strategy, "--epochs", "1",
                           preexec_fn=without_memory_files()).finish()

    def test_a_working_directory_that_was_removed_is_named(self):
        for strategy in EVERY_WAY:
            with self.subTest(strategy=strategy):
                gone = tempfile.mkdtemp(dir=self.folder)
                self.check_refused(
                    r"the working directory cannot be used \(No such file or "
                    r"directory\): was it removed\?", *strategy,
                    program=os.path.abspath(TROUPE),
                    preexec_fn=lambda: (os.chdir(gone), os.rmdir(gone)))

    def test_a_run_outlives_its_working_directory(self):
        gone = tempfile.mkdtemp(dir=self.folder)
        run = self.start(*SERVED, *ENDLESS, cwd=gone,
                         program=os.path.abspath(TROUPE))
        run.wait_for_step(10)
        os.rmdir(gone)
        pid = run.kill("worker:0")
        wait_for(lambda: run.process.poll() is not None
                 or run.children().get("worker:0", pid) != pid, "a restart")
        run.process.send_signal(signal.SIGINT)
        recoveries = run.finish(130)["recoveries"]
        self.assertIn("worker:0", [x["role"] for x in recoveries])

    # --- files that may not grow ----------------------------------------------

    def test_a_file_that_may_not_grow_is_an_error_of_that_file(self):
        # It was the end of the process, by SIGXFSZ, after the training.
        saved = os.path.join(self.folder, "weights.safetensors")
        self.check_refused(rf"{saved}: needs 0.2 MB, and files of this process "
                           r"may have 0.1 MB; raise the limit \(ulimit -f\)",
                           *ONE_DEVICE, "--epochs", "1", "--save", saved,
                           preexec_fn=limits(FSIZE=64 << 10))
        self.assertEqual(os.listdir(self.folder), [])

    def test_a_checkpoint_that_may_not_grow_costs_that_checkpoint(self):
        kept = os.path.join(self.folder, "kept")
        run = self.start(*ONE_DEVICE, "--epochs", "1", "--checkpoint-dir", kept,
                         "--checkpoint-every", "10",
                         preexec_fn=limits(FSIZE=64 << 10))
        run.finish(1)  # the last one is asked for in any case
        self.assertRegex(run.output(), r"File too large")
        self.assertRegex(run.error(), r"\Atroupe: [^\n]*File too large[^\n]*\n")

    # --- as the first process of a container ----------------------------------

    def check_reaps(self, *arguments):
        prefix = ["unshare", "--pid", "--fork", "--mount-proc"]
        if os.geteuid() != 0:
            prefix += ["--user", "--map-root-user"]
        attempt = subprocess.run([*prefix, "true"], capture_output=True,
                                 text=True)
        if attempt.returncode != 0:
            self.skipTest(f"no process namespaces here: {attempt.stderr}")
        path = os.path.join(self.folder, "output")
        log = open(path, "w")
        self.addCleanup(log.close)

        def runs():
            with open(path) as file:
                return "metrics:" in file.read()
        outer = subprocess.Popen(
            [*prefix, "--kill-child", TROUPE, "train", *JOB, *arguments,
             *ENDLESS], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        self.addCleanup(outer.wait)
        self.addCleanup(outer.kill)
        first = wait_for(lambda: children_of(outer.pid), "the first process")[0]
        wait_for(runs, "the run runs")
        # Its parent ends at once; the first process is given it.
        subprocess.run(["nsenter", "--target", str(first), "--pid", "sh", "-c",
                        "(sleep 0.3; exit 0) & exit 0"], check=True,
                       stdin=subprocess.DEVNULL)
        given = wait_for(lambda: [pid for pid in children_of(first)
                                  if command_of(pid)[:1] == ["sh"]],
                         "an orphan was given to the first process")[0]
        wait_for(lambda: not os.path.exists(f"/proc/{given}"),
                 "the orphan is reaped", 20)
        self.assertIsNone(outer.poll())
        os.kill(first, signal.SIGTERM)  # it is heard all the same
        self.assertEqual(outer.wait(60), 143)

    def test_as_first_process_a_run_reaps_what_it_is_given(self):
        self.check_reaps(*MIRRORED)

    def test_as_first_process_a_launcher_reaps_what_it_is_given(self):
        self.check_reaps(*SERVED)

    def test_too_little_address_space_is_a_line_and_no_hang(self):
        ends = collections.Counter()
        for way, limits in ((SERVED, ("-v 150000", "-v 240000", "-v 250000",
                                      "-v 280000", "-v 310000", "-v 450000",
                                      "-v 700000", "-d 70000")),
                            (ONE_DEVICE, ("-d 15000", "-d 30000", "-v 100000",
                                   "-v 300000"))):
            for limit in limits:
                with self.subTest(way=way, limit=limit), Run(
                        *JOB, *way, "--steps", "20", "--threads-per-device",
                        "1", command=[
                            "bash", "-c", f'ulimit {limit}; exec "$0" "$@"',
                            TROUPE]) as run:
                    status = run.process.wait(60)
                    ends[status] += 1
                    self.assertIn(status, (0, 1), run.error() + run.output())
                    if status:
                        self.assertRegex(run.error(), rf"\Atroupe: [^\n]*\(ulimit "
                                         rf"{limit[:2]}\)[^\n]*\n\Z")
        print(dict(ends))
        self.assertGreater(ends[1], 3)

    def test_a_launcher_whose_shell_ignores_ends_of_children_ends(self):
        with Run(*JOB, *SERVED, "--epochs", "1",
                 command=["env", "--ignore-signal=CHLD", TROUPE]) as run:
            run.finish()

    # --- terminals ------------------------------------------------------------

    def shown_on_terminal(self, kind):
        """What a terminal of that kind gets; None: TERM is not set."""
        environment = {**os.environ, "TERM": kind or ""}
        if kind is None:
            environment.pop("TERM")
        master, slave = pty.openpty()
        self.addCleanup(os.close, master)
        process = subprocess.Popen(
            [TROUPE, "train", *JOB, *MIRRORED, "--epochs", "20"], stdin=slave,
            stdout=slave, stderr=slave, env=environment)
        os.close(slave)
        shown = b""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if select.select([master], [], [], 1)[0]:
                try:
                    part = os.read(master, 65536)
                except OSError:  # nobody has the other end any more
                    break
                shown += part
        self.assertEqual(process.wait(10), 0, shown)
        return shown

    def test_a_dumb_terminal_gets_no_escapes(self):
        self.assertIn(b"\x1b", self.shown_on_terminal("xterm"))
        for kind in ("dumb", None):
            shown = self.shown_on_terminal(kind)
            self.assertNotIn(b"\x1b", shown)
            self.assertRegex(shown, rb"epoch 1  step \d+  loss ")


def command_of(pid):
    try:
        with open(f"/proc/{pid}/cmdline") as file:
            return file.read().split("\0")
    except OSError:
        return []


if __name__ == "__main__":
    unittest.main()
