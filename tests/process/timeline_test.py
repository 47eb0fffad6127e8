"""--timeline and `troupe timeline` of real runs: the trace has what each role
did, step by step, also of roles that were killed. TROUPE_IN_FULL=1: the run that
is killed as a whole has run for longer than what `troupe events --flight` shows."""
# ctest: TIMEOUT 300

import glob
import json
import os
import re
import signal
import time
import unittest

from cluster import ENDLESS, Run, troupe, wait_for
from own_folder import OwnFolder

JOB = ["--data", "synthetic:digits?samples=2000", "--model", "mlp:784-64-10",
       "--eval-every", "0"]
SERVED = ["--strategy", "parameter_server", "--workers", "2", "--ps", "1"]

LAST_S = 75 if os.environ.get("TROUPE_IN_FULL") == "1" else 6


class Trace:
    def __init__(self, path):
        with open(path) as file:
            events = json.load(file)["traceEvents"]
        self.names = {x["pid"]: x["args"]["name"] for x in events
                      if x["name"] == "process_name"}
        self.spans = [x for x in events if x["ph"] == "X"]

    def roles(self):
        return sorted(re.match(r"\S+", x).group() for x in self.names.values())

    def of(self, role, activity):
        return [x for x in self.spans if x["name"] == activity
                and self.names[x["pid"]].startswith(role + " ")]


class Timeline(OwnFolder):
    def draw(self, *flags):
        path = self.path("run.trace.json")
        with Run(*JOB, *flags, "--timeline", path) as run:
            summary = run.finish()
            self.assertRegex(run.output(), r"timeline \S+: \d+ spans of \d+")
        return Trace(path), summary

    def check_steps(self, spans, last):
        """Each step once, in order, none before the one before has ended."""
        steps = [x["args"]["step"] for x in spans]
        self.assertEqual(steps, list(range(last + 1 - len(steps), last + 1)))
        for one, next_ in zip(spans, spans[1:]):
            self.assertLessEqual(one["ts"] + one["dur"], next_["ts"] + 1)

    def check_ledger(self, summary, roles):
        """Every second of each role has a cause."""
        ledger = summary["ledger"]
        self.assertEqual(sorted(ledger["roles"]), roles)
        self.assertGreater(ledger["seconds"], summary["wall_seconds"] * 0.9)
        for role, causes in ledger["roles"].items():
            self.assertAlmostEqual(sum(causes.values()), ledger["seconds"],
                                   delta=ledger["seconds"] * 1e-6, msg=role)
            self.assertGreaterEqual(min(causes.values()), 0, role)
            self.assertGreater(causes["compute"], 0, role)
            self.assertGreater(causes["start"] + causes["unrecorded"], 0,
                               role)

    def test_a_parameter_server(self):
        for way in ([], ["--processes"]):
            with self.subTest(way=way):
                trace, summary = self.draw(*SERVED, *way, "--steps", "60")
                self.assertEqual(trace.roles(), ["ps:0", "worker:0",
                                                 "worker:1"])
                self.check_ledger(summary, trace.roles())
                for worker in ("worker:0", "worker:1"):
                    self.check_steps(trace.of(worker, "compute"),
                                     summary["steps"])
                    self.assertGreaterEqual(len(trace.of(worker, "pull")), 50)
                    self.assertGreaterEqual(len(trace.of(worker, "push")), 50)
                self.assertGreater(len(trace.of("ps:0", "serve")), 60)

    def test_replicas(self):
        trace, summary = self.draw("--strategy", "multi_worker_mirrored",
                                   "--workers", "2", "--processes", "--steps",
                                   "60")
        for worker in ("worker:0", "worker:1"):
            self.check_steps(trace.of(worker, "compute"), summary["steps"])
            self.check_steps(trace.of(worker, "reduce"), summary["steps"])

    def test_readers_read(self):
        roles = ["ps:0", "reader:0", "worker:0", "worker:1"]
        for way in ([], ["--processes"]):
            with self.subTest(way=way):
                trace, summary = self.draw(*SERVED, *way, "--readers", "1",
                                           "--steps", "60")
                self.assertEqual(trace.roles(), roles)
                self.check_ledger(summary, roles)
                self.assertGreaterEqual(len(trace.of("reader:0", "read")), 120)
                for worker in roles[2:]:
                    self.check_steps(trace.of(worker, "compute"),
                                     summary["steps"])

    def test_a_wait_for_samples_is_no_computing(self):
        path = self.path("run.trace.json")
        with Run(*JOB, *SERVED, "--processes", "--readers", "1", "--loss-ms",
                 "30000", "--timeline", path, *ENDLESS) as run:
            run.wait_for_step(20)
            run.kill("reader:0", signal.SIGSTOP)
            wait_for(lambda: run.metric(
                "troupe_waits_for", r'[^}]*awaited="reader:0"[^}]*') == 1,
                "a worker waits for the reader")
            run.kill("reader:0", signal.SIGCONT)
            run.wait_for_step(run.step() + 5)
            summary = run.end()
        trace = Trace(path)
        self.check_ledger(summary, trace.roles())
        roles = summary["ledger"]["roles"]
        waits = [(span["dur"] / 1e6, span["args"]["step"], worker)
                 for worker in ("worker:0", "worker:1")
                 for span in trace.of(worker, "data")]
        longest, step, worker = max(waits)
        self.assertGreater(longest, 0.5)
        self.assertGreater(step, 20)
        self.assertGreaterEqual(roles[worker]["data"], longest * 0.999)
        self.assertEqual(roles["reader:0"]["data"], 0)
        around, = [span for span in trace.of(worker, "compute")
                   if span["args"]["step"] == step]
        self.assertGreaterEqual(around["dur"] / 1e6, longest)

    def test_stages_have_each_micro_batch_forward_and_backward(self):
        trace, summary = self.draw(
            "--strategy", "pipeline", "--stages", "2", "--processes",
            "--virtual-ranks", "4", "--steps", "20")
        for stage in ("stage:0", "stage:1"):
            for activity in ("forward", "backward"):
                found = sorted((x["args"]["step"], x["args"]["virtual_rank"])
                               for x in trace.of(stage, activity))
                self.assertEqual(found, [
                    (step, rank) for step in range(1, summary["steps"] + 1)
                    for rank in range(4)])
            self.assertEqual(len(trace.of(stage, "update")), 20)

    def test_what_a_killed_run_did_is_in_its_logs(self):
        logs = self.path("logs")
        with Run(*JOB, *SERVED, "--processes", *ENDLESS, "--log-dir",
                 logs) as run:
            run.wait_for_step(20)
            old = run.role("worker:1")
            run.kill_and_wait("worker:1", 2)
            pids = [run.process.pid, *run.children().values()]
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            run.process.wait()
        out = self.path("run.trace.json")
        troupe("timeline", os.path.join(logs, "flight"), "--out", out)
        trace = Trace(out)
        self.assertEqual(trace.roles(), ["ps:0", "worker:0", "worker:1",
                                         "worker:1"])
        self.assertTrue(any(f"{old})" in x for x in trace.names.values()))
        self.assertGreater(len(trace.of("worker:1", "compute")), 20)

    def test_the_last_minute_of_each_role_is_there_after_all_were_killed(self):
        logs = self.path("logs")
        with Run(*JOB, *SERVED, "--processes", *ENDLESS, "--log-dir",
                 logs) as run:
            run.wait_for_step(20)
            begin = time.time()
            time.sleep(LAST_S)
            step = run.step()
            pids = [run.process.pid, *run.children().values()]
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            killed = time.time()
            run.process.wait()
        self.assertGreater(step, 0)
        shown = [json.loads(line) for line in troupe(
            "events", "--flight", logs, "--json").splitlines()]
        self.assertEqual({line["role"] for line in shown},
                         {"ps:0", "worker:0", "worker:1"})
        for role in ("ps:0", "worker:0", "worker:1"):
            own = [line for line in shown if line["role"] == role]
            # Of a minute, but for seconds in which others had the cores.
            times = [line["unix_ms"] for line in own]
            self.assertEqual(sorted(set(times)), times)
            self.assertGreater(len(own), (times[-1] - times[0]) / 2000)
            self.assertLess(killed - own[-1]["unix_ms"] / 1000, 2.5)
            self.assertLess(own[0]["unix_ms"] / 1000,
                            max(begin, killed - 59) + 1.5)
            self.assertLessEqual(len(own), 60)
            did = "serve" if role == "ps:0" else "compute"
            # A second may have nothing but a wait, as the first and the last.
            self.assertGreater(sum(did in line["seconds"] for line in own),
                               len(own) / 2)
            if role != "ps:0":
                self.assertGreaterEqual(
                    max(line["last_step"] for line in own), step)
        self.assertRegex(
            troupe("events", "--flight", os.path.join(logs, "flight"),
                   "--role", "worker:1"),
            r"\A(20\S+ [\d:.]+  worker:1 +\d+  (steps? [\d-]+: )?"
            r"\w+ [<\d]+%.*\n)+\Z")

    def test_a_death_is_booked_to_recovery(self):
        with Run(*JOB, *SERVED, "--processes", *ENDLESS, "--log-dir",
                 self.path("logs")) as run:
            run.wait_for_step(20)
            run.kill_and_wait("worker:1", 2)
            summary = run.end()
        self.check_ledger(summary, ["ps:0", "worker:0", "worker:1"])
        roles = summary["ledger"]["roles"]
        self.assertGreater(roles["worker:1"]["recovery"], 0)
        self.assertEqual(roles["worker:0"]["recovery"], 0)

    def test_the_run_of_a_timeline_leaves_nothing_else(self):
        state = self.path("state")
        os.mkdir(state)
        path = self.path("run.trace.json")
        with Run(*JOB, "--strategy", "one_device", "--steps", "5",
                 "--timeline", path,
                 environment={"XDG_STATE_HOME": state}) as run:
            run.finish()
        self.assertEqual([files for _, _, files in os.walk(state) if files],
                         [])
        self.assertEqual(len(Trace(path).of("worker:0", "compute")), 5)

    def folders_of_recorders(self, state):
        return glob.glob(f"{state}/troupe/flight-*")

    def test_recorders_are_there_where_nobody_asked_for_them(self):
        """Also after all was killed; a run that ends well leaves nothing."""
        state = self.path("state")
        own = {"XDG_STATE_HOME": state}
        with Run(*JOB, *SERVED, "--processes", *ENDLESS,
                 environment=own) as run:
            run.wait_for_step(20)
            folder, = self.folders_of_recorders(state)
            for pid in [run.process.pid, *run.children().values()]:
                os.kill(pid, signal.SIGKILL)
            run.process.wait()
        files = glob.glob(f"{folder}/*.flight")
        self.assertEqual(len(files), 3)
        for file in files:
            self.assertLess(os.path.getsize(file), 2 << 20)
        shown = [json.loads(line) for line in troupe(
            "events", "--flight", folder, "--json").splitlines()]
        self.assertEqual({line["role"] for line in shown},
                         {"ps:0", "worker:0", "worker:1"})
        for flags in ([], ["--flight", "none"]):
            with Run(*JOB, *SERVED, "--processes", "--steps", "20", *flags,
                     environment=own) as run:
                self.assertEqual("ledger" in run.finish(), not flags)
            self.assertEqual(self.folders_of_recorders(state), [folder])

    def test_a_run_that_ends_badly_leaves_its_recorders(self):
        state = self.path("state")
        with Run(*JOB, *SERVED, "--processes", "--restarts", "0", *ENDLESS,
                 environment={"XDG_STATE_HOME": state}) as run:
            run.wait_for_step(20)
            run.kill("worker:1")
            self.assertNotEqual(run.process.wait(60), 0)
            folder, = self.folders_of_recorders(state)
            self.assertIn(f"what each role did last: troupe events --flight "
                          f"'{folder}'", run.output())
        self.assertIn("worker:1", troupe("events", "--flight", folder))

    def test_mistakes_are_one_line(self):
        self.assertRegex(troupe("timeline", status=2), "needs a folder")
        self.assertRegex(
            troupe("train", *JOB, "--flight", "none", "--timeline",
                   self.path("x"), status=2), "drop --flight none")
        self.assertRegex(
            troupe("timeline", self.folder, "--out", self.path("x"), status=1),
            r"^troupe: .*no flight recorder's files.*\n$")
        self.assertRegex(
            troupe("events", "--flight", self.folder, status=1),
            r"^troupe: .*no flight recorder's files.*\n$")
        self.assertRegex(
            troupe("events", "x.db", "--flight", self.folder, status=2),
            "a journal or, with --flight, what recorders kept")


if __name__ == "__main__":
    unittest.main()
