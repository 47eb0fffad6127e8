"""Many workers stream from four readers: eight as processes and, with
TROUPE_IN_FULL=1, a hundred as actors. Nobody starves, all readers read, none
holds more than workers may ask for, and a coordinator's messages a worker and
step are as many with eight as with two."""
# ctest: TIMEOUT 600 PROCESSORS 1

import os
import re
import tempfile
import time
import unittest
import urllib.request

from cluster import ENDLESS, Run, metrics_address, wait_for
import pictures
from pictures import GREY, IN_FILES

FULL = "TROUPE_IN_FULL" in os.environ
READERS = 4
STEPS = 300 if FULL else 100
LEAST_S = 8 if FULL else 4  # roles tell their metrics once a second


class Figures:
    """A run's metrics at one time."""

    def __init__(self, address):
        with urllib.request.urlopen(f"http://{address}/metrics",
                                    timeout=20) as answer:
            self.text = answer.read().decode()

    def of(self, name):
        """{role: value} of a metric with roles."""
        return {role: float(value) for role, value in re.findall(
            rf'^{name}\{{[^}}]*role="([^"]+)"[^}}]*\}} (\S+)', self.text,
            re.MULTILINE)}

    def step(self):
        return float(re.search(r"^troupe_steps_committed_total\{[^}]*\} (\S+)",
                               self.text, re.MULTILINE)[1])


class ManyReaders(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        with open(cls.folder + "/all.tar", "wb") as file:
            file.write(pictures.archive(pictures.drawn_samples(2400)))

    def watched(self, workers, where, batch):
        """What STEPS steps came to; the readers' requests now and then."""
        requests = []
        with Run("--model", pictures.JOB[1], "--data",
                 f"tar:{self.folder}/all.tar{GREY}", *IN_FILES,
                 "--global-batch", str(batch), "--virtual-ranks", str(workers),
                 "--strategy", "parameter_server", where, "--ps", "2",
                 "--workers", str(workers), "--readers", str(READERS),
                 *ENDLESS, environment={"TROUPE_CACHE": self.folder + "/c"}
                 ) as run:
            run.wait_for_step(20)
            wait_for(lambda: run.metric("troupe_reader_samples_total") > 0,
                     "readers tell what they read")
            address = metrics_address(run)
            first, begin = Figures(address), time.monotonic()
            while True:
                last = Figures(address)
                requests += last.of("troupe_reader_requests").values()
                if (last.step() >= first.step() + STEPS
                        and time.monotonic() > begin + LEAST_S):
                    break
                time.sleep(0.1)
            seconds = time.monotonic() - begin
            run.end(5)
        return first, last, seconds, max(requests)

    def check(self, workers, where, batch):
        first, last, seconds, requests = self.watched(workers, where, batch)
        steps = last.step() - first.step()

        def grown(name):
            before = first.of(name)
            return {role: value - before.get(role, 0)
                    for role, value in last.of(name).items()}
        waits = grown("troupe_data_wait_seconds_sum")
        taken = grown("troupe_data_wait_seconds_count")
        served = grown("troupe_reader_samples_total")
        self.assertEqual(len(taken), workers)
        # All have taken samples, step by step.
        self.assertGreater(min(taken.values()), 0.5 * steps, taken)
        # Roles report each second: of one a report more may be in between.
        self.assertGreater(min(taken.values()) + 1.2 * steps / seconds,
                           0.9 * max(taken.values()), taken)
        self.assertEqual(len(served), READERS)
        if workers >= READERS:
            self.assertGreater(min(served.values()),
                               0.5 * sum(served.values()) / READERS, served)
        # A worker asks three steps ahead at most, and again of another reader.
        self.assertLessEqual(requests, 2 * 3 * -(-workers // READERS))
        mean = sum(waits.values()) / sum(taken.values())
        worst = max(waits[x] / taken[x] for x in waits)
        messages = grown("caf_system_processed_messages_total")
        coordinator = messages.get("coordinator", 0) / steps / workers
        print(f"| {workers} {where[2:]}, {READERS} readers, batch {batch} | "
              f"{steps / seconds:.0f} steps/s | wait {1e3 * mean:.1f} ms, "
              f"{1e3 * worst:.1f} ms of the one that waited most | samples a "
              f"reader {min(served.values()):.0f} to "
              f"{max(served.values()):.0f} | {requests:.0f} requests at a "
              f"reader at most | "
              + (f"{coordinator:.1f} messages of the coordinator a worker and "
                 "step |" if where == "--processes" else "|"), flush=True)
        return coordinator, seconds / steps

    def test_eight_processes_stream_from_four_readers(self):
        few, _ = self.check(2, "--processes", 16)
        many, step_s = self.check(8, "--processes", 64)
        # And up to 30 a second, however long steps take.
        self.assertLess(many, 1.5 * few + 30 * step_s)

    @unittest.skipUnless(FULL, "takes a minute")
    def test_a_hundred_actors_stream_from_four_readers(self):
        self.check(100, "--in-process", 200)


if __name__ == "__main__":
    unittest.main()
