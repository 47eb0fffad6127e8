"""A step of a run that all look at, beside one of a run that nobody looks at:
with flight recorders, logs, timeline, TensorBoard, a report, Prometheus that
scrapes and a page that asks, against none of these, nor the recorders that a run
has where nobody asks for them (--flight none). The medians of the pairs count: by
the clock by turns; and by what all processes of a run take of the cores, of two
runs side by side, since other work lengthens that as well."""
# nightly
# ctest: TIMEOUT 1800 RUN_SERIAL TRUE

import os
import statistics
import sys
import threading
import time
import unittest
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "process"))
from cluster import ENDLESS, Run  # noqa: E402: lies there
from own_folder import OwnFolder  # noqa: E402

ALTERNATIONS = int(os.environ.get("TROUPE_ALTERNATIONS", "20"))
STEPS = os.environ.get("TROUPE_WATCHED_STEPS", "1500")
MOST = 1.02
JOB = ["--data", "synthetic:digits", "--eval-every", "0", "--processes",
       "--seed", "7"]
FIRST = 50 # step of which the cores' time is looked at
SERVED = ["--strategy", "parameter_server", "--workers", "2", "--ps", "1"]
MIRRORED = ["--strategy", "multi_worker_mirrored", "--workers", "3",
            "--virtual-ranks", "3"]


class Watched:
    """Asks what a browser and Prometheus ask, once a second."""

    def __init__(self, address):
        self.address, self.over, self.asked = address, threading.Event(), 0
        self.thread = threading.Thread(target=self.ask)
        self.thread.start()

    def ask(self):
        cursor = ""
        while not self.over.wait(1):
            try:
                self.get("metrics")
                told = self.get("snapshot?after=" + cursor)
                cursor = told.split('"cursor":"', 1)[1].split('"')[0]
                self.asked += 1
            except (OSError, IndexError):
                return # it has ended

    def get(self, what):
        with urllib.request.urlopen(f"http://{self.address}/{what}",
                                    timeout=10) as answer:
            return answer.read().decode()

    def end(self):
        self.over.set()
        self.thread.join()


class CoreSeconds:
    """Of a run's processes, and of its steps, from one step to a later one: what
    it takes to start, and what the launcher draws at the end, is no step's."""

    def __init__(self, run):
        self.run = run
        self.pids = [run.process.pid, *run.children().values()]
        self.before, self.first = self.taken(), run.step()

    def taken(self):
        """In seconds by thread."""
        taken = {}
        for pid in self.pids:
            for thread in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{thread}/schedstat") as file:
                    taken[thread] = int(file.read().split()[0]) / 1e9
        return taken

    def ms_a_step(self):
        used = sum(used - self.before.get(thread, 0)
                   for thread, used in self.taken().items())
        return 1e3 * used / (self.run.step() - self.first)


class WatchedStep(OwnFolder):
    def own(self, watched):
        """The flags of a run that all look at, or nobody."""
        if not watched:
            return ["--flight", "none"]
        folder = self.path(f"run-{len(os.listdir(self.folder))}")
        os.mkdir(folder)
        return ["--log-dir", f"{folder}/logs", "--timeline",
                f"{folder}/run.trace.json", "--tensorboard", f"{folder}/board",
                "--report", f"{folder}/run.html"]

    def clock_ms(self, flags, watched):
        """A step's; and the weights."""
        with Run(*JOB, "--epochs", "0", "--steps", STEPS, *flags,
                 *self.own(watched)) as run:
            asks = None
            try:
                asks = Watched(run.metrics_address()) if watched else None
                summary = run.finish()
            finally:
                if asks:
                    asks.end()
            if watched:
                self.assertGreater(asks.asked, 0)
        return (1e3 * summary["plan"]["global_batch"]
                / summary["samples_per_second"], summary["weights_sha256"])

    def cores_ms(self, flags, order):
        """A step's, of a run that nobody looks at and of one beside it that all
        do: what else these cores have to do lengthens both."""
        runs = {}
        try:
            for watched in order:
                runs[watched] = Run(*JOB, *ENDLESS, *flags, *self.own(watched))
            for run in runs.values():
                run.wait_for_step(FIRST)
            asks = Watched(runs[True].metrics_address())
            try:
                cores = {x: CoreSeconds(run) for x, run in runs.items()}
                last = FIRST + int(STEPS)
                while any(run.step() < last for run in runs.values()):
                    time.sleep(0.5)
                took = [cores[watched].ms_a_step() for watched in (False, True)]
            finally:
                asks.end()
            self.assertGreater(asks.asked, 0)
            for run in runs.values():
                run.end(0)
        finally:
            for run in runs.values():
                run.__exit__()
        return took

    def check(self, name, what, pairs):
        """Of pairs of milliseconds; returns the median of their ratios."""
        off, on = ([x[at] for x in pairs] for at in (0, 1))
        ratios = [y / x for x, y in pairs]
        print(f"\n  {name}, {what}: {statistics.median(off):.3f} ms a step,"
              f" watched {statistics.median(on):.3f}: "
              f"{statistics.median(ratios):.3f} (median of {len(pairs)}, "
              f"{min(ratios):.3f} to {max(ratios):.3f}), load "
              f"{os.getloadavg()[0]:.0f}", end="", file=sys.stderr, flush=True)
        return statistics.median(ratios)

    def compare(self, name, flags):
        hashes, clock, cores = set(), [], []
        for turn in range(ALTERNATIONS):
            order = (False, True) if turn % 2 == 0 else (True, False)
            took = {}
            for watched in order:
                took[watched], weights = self.clock_ms(flags, watched)
                hashes.add(weights)
            clock.append((took[False], took[True]))
            cores.append(self.cores_ms(flags, order))
        ratios = [self.check(name, "by the clock", clock),
                  self.check(name, "of the cores, side by side", cores)]
        self.assertEqual(len(hashes), 1)
        self.assertLessEqual(max(ratios), MOST)

    def test_a_parameter_server(self):
        self.compare("parameter server", SERVED)

    def test_replicas(self):
        self.compare("replicas", MIRRORED)


if __name__ == "__main__":
    unittest.main()
