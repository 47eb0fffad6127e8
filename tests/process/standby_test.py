"""Two coordinators, --standby: when the one that leads dies or stops, the other
goes on from the journal that a majority of three keeps; no step is lost and no
bit changes. TROUPE_KILLS sets how many die (default 4)."""
# ctest: TIMEOUT 1200

import os
import re
import signal
import subprocess
import tempfile
import unittest

from cluster import TROUPE, Run, wait_for

KILLS = int(os.environ.get("TROUPE_KILLS", "4"))
DATA = ["--data", "synthetic:digits?samples=2000", "--seed", "5", "--epochs",
        "0", "--model", "mlp:784-64-10"]
SERVED = ["--strategy", "parameter_server", "--workers", "2", "--ps", "2",
          "--chain", "2", "--processes", "--standby"]
MIRRORED = ["--strategy", "multi_worker_mirrored", "--workers", "2",
            "--processes", "--standby"]


class Standby(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.journal = os.path.join(self.folder.name, "run.db")

    def run_job(self, *flags):
        return Run(*DATA, "--steps", "100000000", "--journal", self.journal,
                   *flags)

    def stop(self, run):
        """Ends the run with Ctrl-C; returns its summary."""
        run.process.send_signal(signal.SIGINT)
        return run.finish(130)

    def coordinators(self, run):
        """The processes of both, by where they listen."""
        return {words[words.index("--listen") + 1]: pid
                for pid, words in run.role_processes() if "--voter" in words}

    def leaders(self):
        """Where those who led, and lead, listen."""
        return re.findall(r"coordinator (\S+),",
                          self.events("--kind", "address"))

    def events(self, *arguments):
        done = subprocess.run([TROUPE, "events", self.journal, *arguments],
                              capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def both(self, run):
        return wait_for(lambda: len(self.coordinators(run)) == 2
                        and self.coordinators(run), "both run")

    def strike(self, run, signal_number):
        """Strikes the one that leads; returns it once the other does, and
        steps go on."""
        both = self.both(run)
        before = self.leaders()
        struck = both[before[-1]]
        os.kill(struck, signal_number)
        wait_for(lambda: len(self.leaders()) > len(before),
                 "the other one leads")
        run.wait_for_step(run.step() + 50)
        return struck

    def check_bits(self, summary):
        with Run(*DATA, "--steps", str(summary["steps"]), "--strategy",
                 "one_device") as run:
            expected = run.finish()
        for name in ("weights_sha256", "state_sha256", "steps"):
            self.assertEqual(summary[name], expected[name])
        self.assertEqual(summary["steps_rolled_back"], 0)

    def check_kills(self, kills, *flags):
        with self.run_job(*flags) as run:
            for _ in range(kills):
                run.wait_for_step(run.step() + 100)
                self.strike(run, signal.SIGKILL)
            self.assertIn("this host", run.output())
            summary = self.stop(run)
        self.check_bits(summary)
        died = [one for one in summary["recoveries"]
                if one["role"] == "coordinator"]
        self.assertEqual(len(died), kills)
        terms = [line.split("term ")[1].split()[0] for line in
                 self.events("--kind", "address").splitlines()]
        self.assertEqual(len(set(terms)), kills + 1)

    def test_the_standby_goes_on_when_the_coordinator_is_killed(self):
        self.check_kills(KILLS, *SERVED)

    def test_replicas_go_on_too(self):
        self.check_kills(2, *MIRRORED)

    def test_a_stopped_coordinator_is_deposed_and_stands_by_again(self):
        with self.run_job(*SERVED) as run:
            run.wait_for_step(100)
            stopped = self.strike(run, signal.SIGSTOP)
            os.kill(stopped, signal.SIGCONT)
            wait_for(lambda: "exit status 75" in run.output(),
                     "it knows that it was deposed")
            self.strike(run, signal.SIGKILL)
            summary = self.stop(run)
        self.check_bits(summary)

    def test_a_standby_that_dies_is_no_loss(self):
        with self.run_job(*SERVED) as run:
            run.wait_for_step(100)
            both = self.both(run)
            [standby] = set(both) - set(self.leaders())
            os.kill(both[standby], signal.SIGKILL)
            wait_for(lambda: self.both(run)[standby] != both[standby],
                     "it is started again")
            run.wait_for_step(run.step() + 100)
            summary = self.stop(run)
        self.check_bits(summary)
        self.assertEqual(len(self.leaders()), 1)

    def test_a_standby_without_processes_is_refused(self):
        done = subprocess.run([TROUPE, "train", *DATA, "--steps", "9", "--standby"],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"\Atroupe: --standby .*--processes\n\Z")


if __name__ == "__main__":
    unittest.main()
