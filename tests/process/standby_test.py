"""Two coordinators, --standby: when the one that leads dies or stops, the other
goes on from the journal that a majority of three keeps; no step is lost and no
bit changes. TROUPE_KILLS sets how many die (default 4)."""
# ctest: TIMEOUT 300 RUN_SERIAL TRUE

import os
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
STEPS_A_KILL = {"parameter_server": 2500, "multi_worker_mirrored": 8000}


class Standby(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.journal = os.path.join(self.folder.name, "run.db")

    def run_job(self, kills, *flags):
        self.steps = STEPS_A_KILL[flags[1]] * (kills + 1)
        return Run(*DATA, "--steps", str(self.steps), "--journal",
                   self.journal, *flags)

    def coordinators(self, run):
        """The processes of both, by the voter that is theirs."""
        found = {}
        for entry in os.listdir("/proc"):
            try:
                with open(f"/proc/{entry}/cmdline", "rb") as file:
                    words = file.read().decode().split("\0")
                with open(f"/proc/{entry}/stat") as file:
                    parent = int(file.read().rsplit(")", 1)[1].split()[1])
            except (OSError, ValueError):
                continue
            if parent == run.process.pid and "--voter" in words:
                found[words[words.index("--voter") + 1]] = int(entry)
        return found

    def leads(self):
        """How often one has begun to lead."""
        return len(self.events("--kind", "address").splitlines())

    def events(self, *arguments):
        done = subprocess.run([TROUPE, "events", self.journal, *arguments],
                              capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def strike(self, run, leader, signal_number):
        """Strikes the one that leads; returns once the other does, and steps
        go on."""
        both = wait_for(lambda: len(self.coordinators(run)) == 2
                        and self.coordinators(run), "both run")
        before = self.leads()
        os.kill(both[leader], signal_number)
        wait_for(lambda: self.leads() > before, "the other one leads")
        run.wait_for_step(run.step() + 50)
        return both[leader]

    def check_bits(self, summary):
        with Run(*DATA, "--steps", str(self.steps), "--strategy",
                 "one_device") as run:
            expected = run.finish()
        for name in ("weights_sha256", "state_sha256", "steps"):
            self.assertEqual(summary[name], expected[name])
        self.assertEqual(summary["steps_rolled_back"], 0)

    def check_kills(self, kills, *flags):
        with self.run_job(kills, *flags) as run:
            for kill in range(kills):
                run.wait_for_step(run.step() + 100)
                self.strike(run, "12"[kill % 2], signal.SIGKILL)
            self.assertIn("this host", run.output())
            summary = run.finish(deadline_s=200)
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
        self.check_kills(1, *MIRRORED)

    def test_a_stopped_coordinator_is_deposed_and_stands_by_again(self):
        with self.run_job(2, *SERVED) as run:
            run.wait_for_step(100)
            stopped = self.strike(run, "1", signal.SIGSTOP)
            os.kill(stopped, signal.SIGCONT)
            wait_for(lambda: "exit status 75" in run.output(),
                     "it knows that it was deposed")
            self.strike(run, "2", signal.SIGKILL)
            summary = run.finish(deadline_s=200)
        self.check_bits(summary)

    def test_a_standby_that_dies_is_no_loss(self):
        with self.run_job(1, *SERVED) as run:
            run.wait_for_step(100)
            both = wait_for(lambda: len(self.coordinators(run)) == 2
                            and self.coordinators(run), "both run")
            os.kill(both["2"], signal.SIGKILL)
            wait_for(lambda: self.coordinators(run).get("2", both["2"])
                     != both["2"], "it is started again")
            summary = run.finish(deadline_s=200)
        self.check_bits(summary)
        self.assertEqual(self.leads(), 1)

    def test_a_standby_without_processes_is_refused(self):
        done = subprocess.run([TROUPE, "train", *DATA, "--steps", "9", "--standby"],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"\Atroupe: --standby .*--processes\n\Z")


if __name__ == "__main__":
    unittest.main()
