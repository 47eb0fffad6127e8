"""A step of a run that all look at, beside one of a run that nobody looks at:
with flight recorders, timeline, TensorBoard, Prometheus that scrapes and a page
that asks, against none of these. By turns; the medians of the pairs count, by the
clock and by what all processes of the run take of the cores, which other work
beside does not lengthen."""
# nightly
# ctest: TIMEOUT 900 RUN_SERIAL TRUE

import os
import statistics
import sys
import threading
import unittest
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "process"))
from cluster import Run  # noqa: E402: lies there
from own_folder import OwnFolder  # noqa: E402

ALTERNATIONS = int(os.environ.get("TROUPE_ALTERNATIONS", "20"))
STEPS = os.environ.get("TROUPE_WATCHED_STEPS", "1500")
MOST = 1.02
TICKS = os.sysconf("SC_CLK_TCK")
JOB = ["--data", "synthetic:digits", "--eval-every", "0", "--epochs", "0",
       "--steps", STEPS, "--processes", "--seed", "7"]
PROCESSES = 5 # the launcher and the coordinator, and three roles
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
    """Of a run's processes, until the first role ends: what the launcher draws
    after that is no step's."""

    def __init__(self, run):
        self.run, self.used, self.over = run, {}, threading.Event()
        self.thread = threading.Thread(target=self.look)
        self.thread.start()

    def look(self):
        roles = set()
        while not self.over.wait(0.02):
            pids = [self.run.process.pid, *self.run.children().values()]
            if roles and not roles <= set(pids):
                return
            if len(pids) == PROCESSES:
                roles = set(pids)
            for pid in pids:
                try:
                    with open(f"/proc/{pid}/stat") as file:
                        fields = file.read().rsplit(")", 1)[1].split()
                except OSError:
                    return
                self.used[pid] = sum(map(int, fields[11:13])) / TICKS

    def end(self):
        self.over.set()
        self.thread.join()
        return sum(self.used.values())


class WatchedStep(OwnFolder):
    def step_ms(self, flags, watched):
        """By the clock, and of the cores; and the weights."""
        own = []
        if watched:
            folder = self.path(f"run-{len(os.listdir(self.folder))}")
            os.mkdir(folder)
            own = ["--log-dir", f"{folder}/logs", "--timeline",
                   f"{folder}/run.trace.json", "--tensorboard",
                   f"{folder}/board", "--report", f"{folder}/run.html"]
        with Run(*JOB, *flags, *own) as run:
            cores = CoreSeconds(run)
            asks = None
            try:
                asks = Watched(run.metrics_address()) if watched else None
                summary = run.finish()
            finally:
                used = cores.end()
                if asks:
                    asks.end()
            if watched:
                self.assertGreater(asks.asked, 0)
        return (1e3 * summary["plan"]["global_batch"]
                / summary["samples_per_second"],
                1e3 * used / summary["steps"], summary["weights_sha256"])

    def compare(self, name, flags):
        took = {False: [], True: []}
        hashes = set()
        for turn in range(ALTERNATIONS):
            for watched in ((False, True) if turn % 2 == 0 else (True, False)):
                clock, cores, weights = self.step_ms(flags, watched)
                took[watched].append((clock, cores))
                hashes.add(weights)
        ratios = []
        for at, what in enumerate(("by the clock", "of the cores")):
            off, on = ([x[at] for x in took[y]] for y in (False, True))
            pairs = [y / x for x, y in zip(off, on)]
            ratios.append(statistics.median(pairs))
            print(f"\n  {name}, {what}: {statistics.median(off):.3f} ms a step,"
                  f" watched {statistics.median(on):.3f}: {ratios[-1]:.3f} "
                  f"(median of {ALTERNATIONS}, {min(pairs):.3f} to "
                  f"{max(pairs):.3f}), load {os.getloadavg()[0]:.0f}", end="",
                  file=sys.stderr, flush=True)
        self.assertEqual(len(hashes), 1)
        self.assertLessEqual(max(ratios), MOST)

    def test_a_parameter_server(self):
        self.compare("parameter server", SERVED)

    def test_replicas(self):
        self.compare("replicas", MIRRORED)


if __name__ == "__main__":
    unittest.main()
