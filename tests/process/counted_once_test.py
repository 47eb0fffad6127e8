"""A model that counts: what it has learnt is the sum of the samples that it was
trained on, as many times as each. Workers and shards are killed, and so is the
whole of the run; another number of them goes on from a checkpoint. No sample is
lost and none counts twice, in steps and in leases (I6). TROUPE_IN_FULL=1: ten
million samples in 200 files, 50 kills."""
# ctest: TIMEOUT 600

import itertools
import json
import os
import random
import shutil
import signal
import struct
import tempfile
import unittest

from cluster import Run, wait_for

FULL = "TROUPE_IN_FULL" in os.environ
FILES, OF_FILE = (200, 50_000) if FULL else (20, 1_000)
SAMPLES = FILES * OF_FILE
STEPS = 10_000 if FULL else 2_500  # of an epoch
BATCH = SAMPLES // STEPS
RANKS = 4
KILLS = 50 if FULL else 6
WIDTH = 8
RATE = 2e-15
# So little is learnt that each answer stays 0 beside the number wanted, 1: each
# sample adds its own numbers to the weights, whatever came before.
MODEL = {
    "name": "counting",
    "sample": {"features": [WIDTH], "label": "number"},
    "operators": [
        {"kind": "dense", "name": "sum", "units": 1, "bias": False,
         "initializer": "zeros"},
        {"kind": "mean_squared_error", "name": "loss"}]}
# A number is a byte's distance from the middle. One that is lost or counts
# twice moves all eight sums, by 74 as a rule; rounding moves them by less than
# this.
MOST = 10 if FULL else 4


def learnt(path):
    """The weights of a file."""
    with open(path, "rb") as file:
        data = file.read()
    length, = struct.unpack("<Q", data[:8])
    head = json.loads(data[8:8 + length])
    (name,) = [x for x in head if x != "__metadata__"]
    begin, end = head[name]["data_offsets"]
    assert end - begin == 4 * WIDTH, head[name]
    return struct.unpack(f"<{WIDTH}f", data[8 + length:][begin:end])


class CountedOnce(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.root)
        shown = [str(x - 127.5) for x in range(256)]
        cls.sums = [0.0] * WIDTH
        draw = random.Random(6)
        for number in range(FILES):
            data = draw.randbytes(WIDTH * OF_FILE)
            with open(os.path.join(cls.root, f"{number:03}.jsonl"),
                      "w") as file:
                for i in range(0, len(data), WIDTH):
                    numbers = ",".join([shown[x] for x in data[i:i + WIDTH]])
                    file.write(f'{{"x":[{numbers}],"label":1}}\n')
            for k in range(WIDTH):
                cls.sums[k] += sum(data[k::WIDTH]) - 127.5 * OF_FILE
        cls.model = os.path.join(cls.root, "model.json")
        with open(cls.model, "w") as file:
            json.dump(MODEL, file)
        cls.environment = {"TROUPE_CACHE": os.path.join(cls.root, "cache")}
        cls.job = ["--data", f"jsonl:{cls.root}/*.jsonl?task=regression",
                   "--model", cls.model, "--optimizer", "sgd", "--lr",
                   str(RATE), "--global-batch", str(BATCH), "--virtual-ranks",
                   str(RANKS), "--data-memory", "1", "--seed", "3"]
        # Where samples lie is looked up once, not by all processes at a time.
        with Run(*cls.job, "--steps", "1", "--strategy", "one_device",
                 environment=cls.environment) as run:
            run.finish()

    def expect_each(self, times, weights, batch=BATCH):
        """`batch`: samples whose mean an update is."""
        unit = 2 * RATE / batch
        found = [x / unit for x in weights]
        gaps = [x - times * s for x, s in zip(found, self.sums)]
        print(f"{SAMPLES} samples, {times} times each: sums are off by "
              f"{max(map(abs, gaps)):.2f} at most; one sample moves them by "
              "74 as a rule")
        self.assertLess(max(map(abs, gaps)), MOST, (found, self.sums))

    def strike(self, run, draw, most, until):
        """Kills roles, one after the other, up to a step, or the end of the
        run; returns how many."""
        killed = 0
        try:
            while killed < most:
                run.wait_for_step(run.step() + draw.randrange(
                    1, max(2, STEPS // 50)))
                if run.step() >= until:
                    break
                role = draw.choice(sorted(set(run.children())
                                          - {"coordinator"}))
                old = run.kill(role)
                killed += 1
                wait_for(lambda: run.process.poll() is not None
                         or run.children().get(role) not in (None, old),
                         f"{role} is started again")
        except (AssertionError, OSError):
            if run.process.poll() is None:
                raise
        return killed

    @staticmethod
    def kill_all(run):
        for pid in [run.process.pid, *(x for x, _ in run.role_processes())]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        run.process.wait()

    def counted(self, mode):
        draw = random.Random(2)
        saved = os.path.join(self.root, mode + ".safetensors")
        flags = [*self.job, "--strategy", "parameter_server", "--processes",
                 "--" + mode, "--checkpoint-dir", os.path.join(self.root, mode),
                 "--checkpoint-every", str(STEPS // 20), "--save", saved]
        numbers = itertools.cycle([(3, 2), (2, 3), (4, 1)])
        killed = 0
        epochs = 2
        resume = []
        summary = None
        while killed < KILLS or summary is None:
            workers, shards = next(numbers)
            with Run(*flags, "--epochs", str(epochs), "--workers", str(workers),
                     "--ps", str(shards), *resume,
                     environment=self.environment) as run:
                run.wait_for_step(1)
                until = (epochs - 1) * STEPS + STEPS // 5
                killed += self.strike(
                    run, draw, KILLS - killed if resume else KILLS // 2, until)
                if not resume:  # in the midst of a data epoch
                    run.wait_for_step(until)
                    self.kill_all(run)
                    resume = ["--resume"]
                    continue
                summary = run.finish()
            self.assertEqual(summary["steps"], STEPS * epochs)
            self.expect_each(epochs, learnt(saved),
                             BATCH if mode == "sync" else BATCH // RANKS)
            epochs += 1
        print(f"{mode}: {killed} kills, {epochs - 1} data epochs")

    def test_the_model_counts(self):
        """One lost sample, or one that counts twice, is seen."""
        with Run(*self.job, "--epochs", "2", "--strategy", "one_device",
                 "--save", os.path.join(self.root, "all.safetensors"),
                 environment=self.environment) as run:
            run.finish()
        weights = learnt(os.path.join(self.root, "all.safetensors"))
        self.expect_each(2, weights)
        with open(os.path.join(self.root, "000.jsonl")) as file:
            sample = json.loads(file.readline())["x"]
        unit = 2 * RATE / BATCH
        for sign in (-1, 1):
            with self.assertRaises(AssertionError):
                self.expect_each(2, [w + sign * unit * x for w, x in
                                          zip(weights, sample)])

    def test_synchronous_steps(self):
        self.counted("sync")

    def test_asynchronous_leases(self):
        self.counted("async")


if __name__ == "__main__":
    unittest.main()
