"""Random combinations of flags, held against what is promised of each: one hash
whoever computes, resumed as uninterrupted, evaluated as `evaluate`, planned as
trained, every sample counted and a loss that falls where steps run free;
success or one line and status 1 or 2, never a signal; and nothing is left.

Draws are made for TROUPE_DRAWS_SECONDS (30), or TROUPE_DRAWS=2000 of them, from
TROUPE_DRAWS_SEED (1) on; what fails is told with the number that repeats it,
TROUPE_DRAWS_ONLY=1:37."""
# ctest: TIMEOUT 1200

import collections
import concurrent.futures
import json
import math
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest

import flag_draws as draws
from cluster import (TROUPE as PROGRAM, checkpoint_steps, wait_for,
                     wait_until_nobody_listens)
from processes import processes_of
from same_bits_test import instruction_sets

TROUPE = os.path.abspath(PROGRAM)
SECONDS = float(os.environ.get("TROUPE_DRAWS_SECONDS", "30"))
COUNT = int(os.environ.get("TROUPE_DRAWS", "0"))
SEED = int(os.environ.get("TROUPE_DRAWS_SEED", "1"))
ONLY = os.environ.get("TROUPE_DRAWS_ONLY")
AT_ONCE = int(os.environ.get("TROUPE_DRAWS_AT_ONCE", "2"))
MOST_FINDINGS = 12
DEADLINE_S = 120  # of one run
DIGESTS = ("weights_sha256", "state_sha256")
KINDS = {"same": 34, "resumed": 20, "evaluated": 10, "free": 10, "fast": 9,
         "limited": 4, "changed": 4, "any": 18}
# What is known no sooner than when the run is under way; `plan` says the rest.
LATE = re.compile(r"take both from one set|not a finite number"
                  r"|--data-memory"
                  r"|holds checkpoints|metrics address"
                  r"|--listen \S+: (?!address not local)|lacks it")


class Finding(AssertionError):
    pass


def expect(holds, *what):
    if not holds:
        raise Finding(" ".join(str(x) for x in what))


class Machine:
    """What this one can compute with."""

    def __init__(self, folder):
        self.isas = instruction_sets()
        done = subprocess.run(
            [TROUPE, "train", "--data", "synthetic:digits?samples=64",
             "--precision", "bfloat16", "--steps", "1"], cwd=folder,
            capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        self.bfloat16 = done.returncode == 0


class Once:
    """Summaries of the runs that others are held against, each made once."""

    def __init__(self):
        self.lock = threading.Lock()
        self.known = {}

    def get(self, words, make):
        with self.lock:
            future = self.known.get(words)
            if future is None:
                future = concurrent.futures.Future()
                self.known[words] = future
                mine = True
            else:
                mine = False
        if mine:
            try:
                future.set_result(make())
            except BaseException as failure:
                future.set_exception(failure)
        return future.result()


class Trial:
    """One draw: its folder, its calls of the program, what they left."""

    def __init__(self, number, files, machine, once):
        self.number = number
        self.draw = random.Random(number)
        self.files = files
        self.machine = machine
        self.once = once
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = self.temporary.name
        self.scratch = self.path("scratch")
        os.mkdir(self.scratch)
        self.calls = []
        self.runs = 0

    def path(self, name):
        return os.path.join(self.folder, name)

    def environment(self):
        kept = {name: value for name, value in os.environ.items()
                if name != "TF_CONFIG"}
        return {**kept, "TMPDIR": self.scratch,
                "XDG_STATE_HOME": self.scratch}

    def start(self, *words):
        self.calls.append([TROUPE, *words])
        return subprocess.Popen(
            self.calls[-1], cwd=self.folder, env=self.environment(),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True)

    def finish(self, process):
        try:
            output, error = process.communicate(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            for pid in processes_of(self.scratch):
                os.kill(pid, signal.SIGKILL)
            process.kill()
            output, error = process.communicate()
            raise Finding(f"not over within {DEADLINE_S} s:", error,
                          output) from None
        return process.returncode, output, error

    def call(self, *words):
        """Status and both outputs, of a program that left as it should."""
        status, output, error = self.finish(self.start(*words))
        self.check_end(status, output, error)
        return status, output, error

    def check_end(self, status, output, error):
        expect(0 <= status <= 2, "status", status, error, output)
        if status == 0:
            expect(error == "", "said on standard error:", error)
        else:
            expect(re.fullmatch(r"troupe: [^\n]+\n", error),
                   "not one line:", repr(error))
        self.check_left(output)

    def check_left(self, output):
        try:
            wait_for(lambda: not processes_of(self.scratch), "no process", 15)
        except AssertionError:
            raise Finding("processes are left:",
                          processes_of(self.scratch)) from None
        state = os.path.join(self.scratch, "troupe")
        left = [x for x in os.listdir(self.scratch) if x != "troupe"]
        left += os.listdir(state) if os.path.isdir(state) else []
        expect(not left, "files are left:", left)
        try:
            wait_until_nobody_listens(output)
        except AssertionError as found:
            raise Finding(str(found)) from None

    def summary(self, *words, note=None):
        """Of a run that goes to its end, and whose plan is a plan."""
        self.runs += 1
        path = self.path(f"summary-{self.runs}.json")
        self.check_plan(words, 0)
        status, output, error = self.call("train", *words, "--summary", path)
        expect(status == 0, "status", status, error)
        if note:
            expect(re.search(note, output), "not said:", note, output)
        with open(path) as file:
            return json.load(file)

    def check_plan(self, words, status):
        found, _, error = self.call("plan", *words)
        expect(found == status, f"plan: status {found}, train: {status}",
               error)

    def alone(self, words, reference=(*draws.ONE_DEVICE,)):
        """What one device gives; made once."""
        return self.once.get((*words, *reference), lambda: self.summary(
            *words, *reference))

    def check_same(self, found, expected):
        for name in (*DIGESTS, "steps", "samples", "eval"):
            expect(found[name] == expected[name], name, found[name],
                   "expected", expected[name])
        self.check_calm(found)

    @staticmethod
    def check_calm(summary):
        expect(summary["recoveries"] == [], "recoveries:",
               summary["recoveries"])
        expect(summary["steps_rolled_back"] == 0, "steps were rolled back")

    def job(self, **options):
        return draws.draw_job(self.draw, self.files, self.machine, **options)

    # --- promises -------------------------------------------------------------

    def same(self):
        job = self.job()
        expected = self.alone(job.words())
        for _ in range(2):
            world = draws.draw_world(self.draw, job)
            self.check_same(self.summary(*job.words(), *world), expected)

    def resumed(self):
        job = self.job()
        expected = self.alone(job.words())
        first = draws.draw_world(self.draw, job)
        kept = ["--checkpoint-dir", self.path("kept")]
        words = [*job.flags, *job.evaluates]
        total = expected["steps"]
        # Half of them are cut short by a smaller number of steps.
        step = self.draw.randrange(1, total + 1)
        note = None
        if self.draw.random() < 0.5:
            self.summary(*words, *first, *kept, "--steps", str(step))
            if job.follows_total() and step != total:
                note = rf"--steps {total} \({step} in the checkpoint\)"
        else:
            self.summary(*words, *first, *kept, *job.total,
                         "--checkpoint-every", "1", "--checkpoint-keep", "99")
            step = self.lose_checkpoints_from(step)
        second = draws.draw_world(self.draw, job,
                                  draws.writes_dense(job, first))
        ending = ["--steps", str(total)] if note else job.total
        summary = self.summary(*words, *second, *kept, *ending, "--resume",
                               note=note)
        expect(summary["resumed_from"]["step"] == step, "resumed from",
               summary["resumed_from"], "expected", step)
        if note is None:
            self.check_same(summary, expected)
        else:
            expect(summary["steps"] == total, summary["steps"])

    def lose_checkpoints_from(self, step):
        """Leaves what is before that step, or the first one; says which."""
        folder = self.path("kept")
        there = checkpoint_steps(folder)
        stay = [x for x in there if x <= step] or there[:1]
        for name in there:
            if name not in stay:
                shutil.rmtree(os.path.join(folder, f"step-{name:012d}"))
        return stay[-1]

    def evaluated(self):
        job = self.job()
        while not job.evaluates or job.precision != "float32":
            job = self.job()
        saved = self.path("w.safetensors")
        files = draws.one_of(self.draw, "--save", saved) \
            if self.draw.random() < 0.6 else ["--checkpoint-dir",
                                              self.path("kept")]
        world = draws.draw_world(self.draw, job)
        if "--save" not in files and not draws.writes_dense(job, world) \
                and job.tables:
            files = ["--save", saved]  # rows by rows are not weights
        summary = self.summary(*job.words(), *world, *files)
        path = self.path("evaluated.json")
        isa = self.after(job.flags, "--isa")
        status, _, error = self.call(
            "evaluate", "--data", job.data, "--model", job.model,
            *job.evaluates[:2], *isa,
            *self.after(job.flags, "--virtual-slices"), "--checkpoint",
            files[1], "--summary", path)
        expect(status == 0, "evaluate: status", status, error)
        with open(path) as file:
            found = json.load(file)
        expect(found["weights_sha256"] == summary["weights_sha256"],
               "other weights")
        measures = {**summary["eval"]}
        expect(measures.pop("samples") == found["samples"], "other samples")
        expect(measures == found["eval"], "train:", measures, "evaluate:",
               found["eval"])

    @staticmethod
    def after(words, name):
        at = words.index(name) if name in words else None
        return [] if at is None else words[at:at + 2]

    def learner(self, rate):
        """A job whose loss falls, and what it is at first."""
        job = self.job(kinds=["mlp", "dlrm", "text", "numbers", "wide_deep"],
                       plain=True)
        # On what it is trained on: others may be learnt by heart only.
        job.evaluates = ["--eval-data", job.data]
        job.steps = 60 if job.most_steps > 10 else 20
        job.total = ["--steps", str(job.steps)]
        at = job.flags.index("--lr") + 1
        still = [*job.flags[:at], "1e-9", *job.flags[at + 1:]]
        job.flags[at] = rate
        first = self.alone([*still, *job.evaluates, "--steps", "1"])
        return job, first["eval"]["loss"]

    def check_learnt(self, job, summary, before, expected, forgets=False):
        """`forgets`: rows are given up, and what they had learnt with them."""
        self.check_calm(summary)
        expect(summary["steps"] == job.steps, "steps", summary["steps"])
        dropped = summary["consistency"].get("late_gradients_dropped", 0)
        samples = summary["samples"]
        expect(samples == expected["samples"]
               or dropped > 0 and samples < expected["samples"], "samples",
               samples, "expected", expected["samples"])
        loss = summary["eval"]["loss"]
        expect(math.isfinite(loss) and (loss < before or forgets), "loss",
               loss, "before it", before)

    def free(self):
        # So short a run may be over before the parameters of its first steps
        # have gone down a chain: at a usual rate Adam would run away.
        job, before = self.learner("0.0005")
        world = draws.draw_free(self.draw, job)
        summary = self.summary(*job.words(), *world)
        self.check_learnt(job, summary, before, self.alone(job.words()),
                          "--table-bytes" in world
                          or "--table-idle-steps" in world)
        mode = summary["consistency"]
        expect(mode["mode"].startswith(("async", "staleness")), mode)
        expect(not mode.get("leases_rolled_back"), mode)
        bound = self.after(world, "--staleness")
        if bound and "max_lead" in mode:
            expect(mode["max_lead"] <= int(bound[1]), mode)

    def fast(self):
        job, before = self.learner("0.003")
        world, loose = draws.draw_fast(self.draw, job)
        summary = self.summary(*job.words(), *world)
        expected = self.alone(job.words())
        self.check_learnt(job, summary, before, expected)
        if not loose:
            other = expected["eval"]["loss"]
            expect(abs(summary["eval"]["loss"] - other)
                   < 0.01 * max(1, abs(other)), "loss",
                   summary["eval"]["loss"], "in order", other)

    def limited(self):
        """Rows are given up alike by any number of workers and shards."""
        job = self.job(kinds=["dlrm", "wide_deep", "logreg", "ids"])
        while job.exact:
            job = self.job(kinds=["dlrm", "wide_deep", "logreg", "ids"])
        limits = draws.draw_limits(self.draw)
        least = [*draws.SERVED, "--in-process", "--workers", "1", "--ps", "1",
                 "--tables", "sparse", *limits]
        expected = self.summary(*job.words(), *least)
        world = [*draws.draw_shape(self.draw, job), "--tables", "sparse",
                 *limits, *draws.maybe(self.draw, 0.3, "--chain", "2"),
                 *draws.apart(self.draw)]
        found = self.summary(*job.words(), *world)
        self.check_same(found, expected)
        expect(found["tables"]["rows"] == expected["tables"]["rows"],
               "rows", found["tables"], expected["tables"])

    def changed(self):
        """By `troupe ctl`, while it runs."""
        workers = self.draw.randint(1, 3)
        shards = self.draw.randint(1, 3)
        tables = self.draw.random() < 0.3
        job = (["--data", "synthetic:clicks?samples=300&buckets=100",
                "--model", "dlrm"] if tables else
               ["--data", "synthetic:digits?samples=300", "--model",
                "mlp:784-16-10", "--partitioner", "max_size:16384"])
        job += ["--seed", str(self.draw.randrange(9)), "--optimizer",
                self.draw.choice(("sgd", "adam", "adagrad")), "--epochs", "0",
                "--lr-schedule", self.draw.choice(("constant",
                                                   "inverse_sqrt"))]
        changes, ran_free = draws.draw_changes(self.draw, workers, shards, 4)
        path = self.path("changed.json")
        # A pipe that nobody empties would stop it.
        with open(self.path("output"), "w") as output:
            self.calls.append([
                TROUPE, "train", *job, *draws.SERVED, "--workers",
                str(workers), "--ps", str(shards), "--steps", "100000000",
                "--summary", path])
            run = subprocess.Popen(
                self.calls[-1], cwd=self.folder, env=self.environment(),
                stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT)
        try:
            self.change(run, changes)
        finally:
            run.send_signal(signal.SIGTERM)
            try:
                status = run.wait(DEADLINE_S)
            except subprocess.TimeoutExpired:
                run.kill()
                raise
        expect(status == 143, "status", status, self.output())
        self.check_left(self.output())
        with open(path) as file:
            summary = json.load(file)
        self.check_calm(summary)
        if ran_free or summary["steps"] == 0:  # told before its first step
            return
        expected = self.summary(*job, *draws.ONE_DEVICE, "--steps",
                                str(summary["steps"]))
        for name in (*DIGESTS, "samples"):
            expect(summary[name] == expected[name], name, summary[name],
                   "expected", expected[name])

    def output(self):
        with open(self.path("output")) as file:
            return file.read()

    def change(self, run, changes):
        def begun():
            expect(run.poll() is None, "the run ended:", self.output())
            return re.search(r"coordinator: (\S+), certificates (\S+)",
                             self.output())
        found = wait_for(begun, "the coordinator's address")
        where = ["--coordinator", found.group(1), "--certificates",
                 found.group(2)]
        for words in changes:
            self.calls.append([TROUPE, "ctl", *words, *where])
            done = wait_for(lambda: self.granted(self.calls[-1]),
                            "the job begins")
            expect(done.returncode == 0 or "keeps nothing that" in done.stderr,
                   words, done.stderr)
            time.sleep(self.draw.uniform(0, 0.2))

    @staticmethod
    def granted(words):
        done = subprocess.run(words, capture_output=True, text=True,
                              timeout=DEADLINE_S, check=False)
        return None if "has not begun yet" in done.stderr else done

    def any(self):
        flags = draws.draw_any(self.draw)
        words = [word.replace("DIR", self.folder)
                 for row in flags.values() for word in row]
        path = self.path("any.json")
        status, output, error = self.call("train", *words, "--summary", path)
        quiet = "quiet" in flags
        expect(not quiet or output == "" or status != 0, "said, quiet:",
               output)
        planned, _, refusal = self.call("plan", *words)
        if status == 0:
            expect(planned == 0, "plan: status", planned, refusal)
        elif status == 2:
            expect(planned == 2 and refusal == error, "train:", error,
                   "plan:", planned, refusal)
        else:
            expect(LATE.search(error) or (planned, refusal) == (1, error),
                   "status 1, and late:", error, "plan:", planned, refusal)
        self.status = status
        if status == 0:
            self.check_any(flags, path)

    def check_any(self, flags, path):
        with open(path) as file:
            summary = json.load(file)
        expect(summary["steps"] == 8, "steps", summary["steps"])
        loose = draws.LOOSE.intersection(flags) - {
            name for name in ("backup-workers", "compress")
            if flags.get(name, [0])[-1] in ("0", "none")}
        norms = ("clip-norm" in flags
                 or flags.get("optimizer", [0])[-1] == "lamb")
        if loose or flags.get("reduction", [0])[-1] == "fast" \
                or (norms and "dlrm" in flags["model"]):
            return
        words = [word for name, row in flags.items()
                 if name not in draws.WORLD for word in row]
        if "virtual-ranks" not in flags:
            words += ["--virtual-ranks", "4"]
        if (flags.get("strategy", [0])[-1] == "tensor"
                or "tensor=" in flags.get("mesh", [""])[-1]) \
                and "virtual-slices" not in flags:
            words += ["--virtual-slices", "4"]
        expected = self.alone(words)
        for name in DIGESTS:
            expect(summary[name] == expected[name], name, summary[name],
                   "expected", expected[name])

    # --- all of it ------------------------------------------------------------

    def run(self):
        """The kind, and what was found, if anything."""
        kind = self.draw.choices(list(KINDS), list(KINDS.values()))[0]
        self.status = 0
        try:
            getattr(self, kind)()
        except (Finding, AssertionError, KeyError, OSError,
                subprocess.SubprocessError) as found:
            return kind, self.told(kind, found)
        finally:
            self.temporary.cleanup()
        return kind, None

    def told(self, kind, found):
        calls = "\n".join(f"  {shlex.join(x)}" for x in self.calls[-4:])
        return (f"TROUPE_DRAWS_ONLY={self.number} ({kind}): "
                f"{type(found).__name__}: {found}\n{calls}")


class RandomFlags(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.files = draws.Files(folder.name)
        self.machine = Machine(folder.name)
        self.once = Once()
        self.kinds = collections.Counter()
        self.statuses = collections.Counter()
        self.findings = []
        self.lock = threading.Lock()
        self.begun = 0
        self.end = time.monotonic() + SECONDS

    def next_number(self):
        """Of the next draw; None where these were all."""
        with self.lock:
            over = (self.begun >= COUNT if COUNT
                    else time.monotonic() > self.end)
            if over or len(self.findings) >= MOST_FINDINGS:
                return None
            self.begun += 1
            return f"{SEED}:{self.begun - 1}"

    def one(self, number):
        trial = Trial(number, self.files, self.machine, self.once)
        kind, found = trial.run()
        with self.lock:
            self.kinds[kind] += 1
            if kind == "any":
                self.statuses[trial.status] += 1
            if found:
                self.findings.append(found)
                print(found, flush=True)

    def draw_on(self):
        while number := self.next_number():
            self.one(number)

    def test_every_combination_keeps_what_is_promised_of_it(self):
        if ONLY:
            self.one(ONLY)
        else:
            with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
                for done in [pool.submit(self.draw_on)
                             for _ in range(AT_ONCE)]:
                    done.result()
        print(f"{sum(self.kinds.values())} draws from seed {SEED}:",
              dict(self.kinds), "statuses of any:", dict(self.statuses),
              flush=True)
        self.assertEqual(self.findings, [])
        if not ONLY and not COUNT:
            self.assertGreater(self.kinds["same"], 0)


if __name__ == "__main__":
    unittest.main()
