"""`troupe top` of real runs: one page as text, and a terminal that shows roles,
takes keys, and is what it was before, however the program ends."""
# ctest: TIMEOUT 300

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
import unittest

from cluster import ENDLESS, TROUPE, Run, troupe, wait_for
from own_folder import OwnFolder

JOB = ["--data", "synthetic:digits?samples=2000", "--model", "mlp:784-64-10",
       "--eval-every", "0", *ENDLESS]
SERVED = ["--strategy", "parameter_server", "--workers", "2", "--ps", "1",
          "--processes"]
ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?25h\x1b[?1049l"
SIZE = (30, 120)


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, *arguments, job=False):
        """job: as a job of a shell's, which Ctrl-Z can stop."""
        self.ours, self.theirs = pty.openpty()
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ,
                    struct.pack("HHHH", *SIZE, 0, 0))
        self.before = termios.tcgetattr(self.theirs)
        self.process = subprocess.Popen(
            [*(["bash", "-c", 'set -m; "$@"; sleep 2; fg; sleep 100', "bash"]
               if job else []),
             TROUPE, *arguments], stdin=self.theirs, stdout=self.theirs,
            stderr=self.theirs, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(self.theirs, termios.TIOCSCTTY, 0),
            env={**os.environ, "TERM": "xterm-256color"})
        self.written = b""

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.ours)
        os.close(self.theirs)

    def read(self):
        while select.select([self.ours], [], [], 0.02)[0]:
            self.written += os.read(self.ours, 65536)
        return self.written

    def screen(self):
        """The newest whole page, without styles."""
        pages = re.findall(rb"\x1b\[H(.*?)\x1b\[J", self.read(), re.DOTALL)
        plain = re.sub(rb"\x1b\[[0-9;]*[A-Za-z]", b"",
                       pages[-1] if pages else b"")
        return plain.decode().replace("\r", "")

    def shows(self, pattern):
        return wait_for(lambda: re.search(pattern, self.screen()), pattern, 20)

    def type(self, text):
        os.write(self.ours, text.encode())

    def end(self):
        """The exit status; the terminal has to be what it was."""
        def ended():
            self.read()
            return self.process.poll() is not None
        wait_for(ended, "top ends", 20)
        written = self.read()
        assert written.count(ENTER) == written.count(LEAVE) > 0, written
        assert termios.tcgetattr(self.theirs) == self.before
        return self.process.returncode


class Top(OwnFolder):
    def run_job(self, *flags):
        run = Run(*JOB, *flags)
        self.addCleanup(run.__exit__)
        run.wait_for_step(3)
        return run

    def watch(self, *arguments):
        terminal = Terminal("top", *arguments)
        self.addCleanup(terminal.close)
        return terminal

    def test_one_page_as_text(self):
        run = self.run_job(*SERVED)
        page = troupe("top", run.metrics_address(), "--once")
        self.assertRegex(page, r"step \d+ of \d+ +ETA \S+ +loss \d")
        self.assertRegex(page, r"members 3 of 3 present, 0 left out")
        for role in ("coordinator", "ps:0", "worker:0", "worker:1"):
            row, = re.findall(rf"(?m)^{role} .*$", page)
            self.assertRegex(row, r" \d+% +[\d.]+ [KMG]iB ", page)
        self.assertNotIn("\x1b", page)
        rates = re.search(r"([\d.]+k?) steps/s", page).group(1)
        self.assertGreater(float(rates.replace("k", "e3")), 0)
        busy = troupe("top", run.metrics_address(), "--once", "--sort",
                      "compute", "--filter", "worker")
        self.assertEqual(len(re.findall(r"(?m)^worker:\d", busy)), 2)
        self.assertNotIn("\ncoordinator", busy)
        group = troupe("top", run.metrics_address(), "--once", "--group")
        self.assertRegex(group, r"(?m)^worker x2 ")
        run.end()

    def test_a_run_in_one_process_has_its_rate(self):
        run = self.run_job("--strategy", "one_device")
        page = troupe("top", run.metrics_address(), "--once")
        self.assertRegex(page, r"(?m)^coordinator +\d+% ")
        self.assertNotRegex(page, r"(?<![\d.])0\.0 steps/s|- steps/s")

    def test_keys_on_a_terminal(self):
        logs = self.path("logs")
        run = self.run_job(*SERVED, "--log-dir", logs, "--log-level", "debug")
        top = self.watch(run.metrics_address(), "--log-dir", logs)
        top.shows(r"(?m)^worker:1 +\d+%")
        top.shows(r"log of coordinator|log of ps:0")
        self.assertRegex(top.written, rb"\x1b\[\d+m")  # colours
        top.type("l")
        wait_for(lambda: "log of" not in top.screen(), "the log is gone")
        top.type("/worker\r")
        wait_for(lambda: "\ncoordinator" not in top.screen(), "workers alone")
        top.type("g")
        top.shows(r"(?m)^worker x2 ")
        top.type("\x1b")
        top.type("s")
        top.shows(r"sort \(trouble\)")
        # Another size.
        fcntl.ioctl(top.theirs, termios.TIOCSWINSZ,
                    struct.pack("HHHH", 10, 40, 0, 0))
        os.kill(top.process.pid, signal.SIGWINCH)
        wait_for(lambda: len(top.screen().split("\n")) == 10, "ten lines")
        self.assertLessEqual(max(map(len, top.screen().split("\n"))), 40)
        top.type("q")
        self.assertEqual(top.end(), 0)
        run.end()

    def test_a_death_is_shown(self):
        run = self.run_job(*SERVED)
        top = self.watch(run.metrics_address())
        top.shows(r"(?m)^worker:1 +\d+%")
        run.kill_and_wait("worker:1", 2)
        top.shows(r"restarts 1 ")
        top.shows(r"(?m)^worker:1 .* 1( |$)")
        run.end()
        top.shows("no answer")
        self.assertEqual(top.end(), 0)
        self.assertRegex(top.written.decode(),
                         r"no answer any more at step \d+: metrics at")

    def test_signals_leave_the_terminal_as_it_was(self):
        run = self.run_job("--strategy", "one_device")
        for how, status in (("\x03", 0), (signal.SIGTERM, 143),
                            (signal.SIGHUP, 129), (signal.SIGINT, 130)):
            with self.subTest(how=how):
                top = self.watch(run.metrics_address(), "--no-color")
                top.shows("coordinator")
                self.assertNotRegex(top.written, rb"\x1b\[\d+m")
                if isinstance(how, str):
                    top.type(how)
                else:
                    top.process.send_signal(how)
                self.assertEqual(top.end(), status)

    def test_stopped_and_continued(self):
        run = self.run_job("--strategy", "one_device")
        top = Terminal("top", run.metrics_address(), job=True)
        self.addCleanup(top.close)
        top.shows("coordinator")
        shell = top.process.pid
        with open(f"/proc/{shell}/task/{shell}/children") as file:
            pid = int(file.read().split()[0])
        top.type("\x1a")

        def state():
            with open(f"/proc/{pid}/stat") as file:
                return file.read().rsplit(")", 1)[1].split()[0]
        wait_for(lambda: top.read() and state() == "T", "it stands", 10)
        self.assertEqual(termios.tcgetattr(top.theirs), top.before)
        self.assertEqual(top.written.count(ENTER), top.written.count(LEAVE))
        wait_for(lambda: top.read().count(ENTER) == 2, "it is back", 10)
        top.type("q")
        wait_for(lambda: top.read().count(LEAVE) == 2, "it has ended", 10)

    def test_nobody_there_is_one_line(self):
        begin = time.monotonic()
        self.assertRegex(troupe("top", "127.0.0.1:1", status=1),
                         r"^troupe: metrics at 127\.0\.0\.1:1: .*\n$")
        self.assertLess(time.monotonic() - begin, 10)
        self.assertRegex(troupe("top", status=2), "needs the address")


if __name__ == "__main__":
    unittest.main()
