"""--report and `troupe report`: one file with the whole of a run, as a block of
data that programs read, and drawn in Debian's Chromium."""
# ctest: TIMEOUT 600

import json
import os
import re
import shutil
import sys
import unittest
import urllib.parse
import urllib.request

from chromium import Chromium, PROGRAM
from cluster import ENDLESS, Run, troupe, wait_for
from own_folder import OwnFolder
from roles import Role

JOB = ["--data", "synthetic:digits?samples=2000", "--model", "mlp:784-64-10"]
SERVED = ["--strategy", "parameter_server", "--workers", "2", "--ps", "1"]
BEGIN = '<script type="application/json" id="run">'
CAUSES = ["compute", "exchange", "data", "start", "recovery", "unrecorded",
          "idle"]


def parts_of(path):
    """The page without its data, and these."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    before, rest = text.split(BEGIN)
    data, after = rest.split("</script>", 1)
    return before + after, data


class Reports(OwnFolder):
    def check_report(self, path, summary=None):
        """Returns its data."""
        page, data = parts_of(path)
        self.assertTrue(page.startswith("<!DOCTYPE html>"))
        self.assertLess(len(page), 150 << 10)
        self.assertEqual(re.findall(r'(?:src|href)="(?!data:)', page), [])
        self.assertIn("default-src 'none'", page)
        self.assertNotRegex(data, "[<>&]")
        run = json.loads(data)
        if summary is not None:
            self.assertEqual(run, summary)
        curve = run["curve"]
        columns = [curve[name] for name in ("seconds", "step", "loss",
                                            "samples_per_second")]
        self.assertEqual({len(column) for column in columns},
                         {len(curve["step"])})
        self.assertTrue(0 < len(curve["step"]) <= 300)
        self.assertEqual(curve["seconds"], sorted(curve["seconds"]))
        self.assertEqual(curve["step"][-1], run["steps"])
        if run["final_loss"] is None:  # all reports of the last step were late
            self.assertIn(" --async ", run["command"])
            self.assertIsNone(curve["loss"][-1])
        else:
            self.assertAlmostEqual(curve["loss"][-1], run["final_loss"],
                                   delta=1e-5 * abs(run["final_loss"]))
        self.assertLess(len(data), 60_000)
        return run

    def check_ledger(self, run, roles):
        """Of every second of each role it is known what it went to."""
        ledger = run["ledger"]
        self.assertEqual(sorted(ledger["roles"]), roles)
        for role, spent in ledger["roles"].items():
            self.assertEqual(list(spent), CAUSES)
            self.assertAlmostEqual(100 * sum(spent.values())
                                   / ledger["seconds"], 100, delta=0.5,
                                   msg=role)
            self.assertGreater(spent["compute"], 0, role)

    def wait_for_reports(self, job, *roles):
        """Until each of them has said how much memory its process has."""
        def told():
            with urllib.request.urlopen(
                    f"http://{job.metrics_address()}/metrics",
                    timeout=10) as answer:
                text = answer.read().decode()
            return all(f'process_resident_memory_bytes{{role="{role}"}}'
                       in text for role in roles)
        wait_for(told, "reports of " + ", ".join(roles))

    def report_of(self, *flags, job=tuple(JOB)):
        """Of a run to its end, with its summary."""
        path = self.path("run.html")
        with Run(*job, *flags, "--report", path) as run:
            summary = run.finish()
        return self.check_report(path, summary)


class Data(Reports):
    """Without a browser."""

    def test_strategies(self):
        members = ["worker:0", "worker:1"]
        for flags, roles in (
                (["--strategy", "one_device"], ["worker:0"]),
                (["--strategy", "mirrored", "--devices", "cpu:2"], members),
                ([*SERVED, "--in-process"], ["ps:0", *members]),
                ([*SERVED, "--async"], ["ps:0", *members]),
                (["--strategy", "multi_worker_mirrored", "--workers", "2"],
                 members),
                (["--strategy", "central_storage", "--devices", "cpu:2"],
                 members),
                (["--strategy", "pipeline", "--stages", "2", "--processes"],
                 ["stage:0", "stage:1"]),
                (["--strategy", "fully_sharded", "--workers", "2"],
                 ["ps:0", "ps:1", *members]),
                (["--strategy", "tensor", "--tensor", "2", "--processes"],
                 ["tensor:0", "tensor:1"]),
                (["--strategy", "hybrid", "--mesh", "data=2,stage=2",
                  "--processes"], [f"stage:{i}" for i in range(4)]),
                (["--strategy", "hybrid", "--mesh", "data=2,tensor=2",
                  "--in-process"], [f"tensor:{i}" for i in range(4)])):
            with self.subTest(flags=flags):
                run = self.report_of(*flags, "--steps", "30",
                                     "--eval-fraction", "0.2")
                self.check_ledger(run, roles)
                self.assertEqual(run["strategy"], flags[1])
                self.assertEqual(run["model"], "mlp:784-64-10")
                self.assertIn(" --model mlp:784-64-10 ", run["command"])
                self.assertIn(" --strategy " + flags[1], run["command"])
                self.assertIsNone(run["stopped"])
                self.assertLessEqual(set(run["roles"]), set(roles))
                self.assertIn("epoch", [x["kind"] for x in run["events"]])

    def test_waiting_for_what_crosses_is_exchange(self):
        run = self.report_of("--model", "sleep:12ms+4ms-64", "--strategy",
                             "pipeline", "--stages", "2", "--processes",
                             "--steps", "25", job=JOB[:2])
        self.check_ledger(run, ["stage:0", "stage:1"])
        wall = run["wall_seconds"]
        first, second = (run["ledger"]["roles"][f"stage:{i}"] for i in (0, 1))
        # Each of 4 micro-batches has one pass forward and two halves backward.
        self.assertGreater(first["compute"], 25 * 4 * 3 * 0.012)
        self.assertGreater(second["exchange"], 0.4 * wall)
        for spent in (first, second):
            self.assertLess(spent["idle"], 0.25 * wall, run["ledger"])

    def test_more_than_a_recorder_keeps_is_booked_all_the_same(self):
        run = self.report_of("--model", "mlp:784-10", "--strategy", "pipeline",
                             "--stages", "1", "--virtual-ranks", "64",
                             "--steps", "400", job=JOB[:2])
        self.check_ledger(run, ["stage:0"])
        spent = run["ledger"]["roles"]["stage:0"]
        self.assertEqual(spent["unrecorded"], 0)
        # 51,200 passes, of which it keeps fewer than 32,768.
        self.assertGreater(spent["compute"], 51_200 * 1e-6)
        self.assertLess(spent["start"],
                        run["ledger"]["seconds"] - 0.9 * run["wall_seconds"])

    def test_a_run_whose_metrics_nobody_reads_is_told_as_well(self):
        run = self.report_of("--strategy", "one_device", "--steps", "20",
                             "--log-level", "error", "--quiet")
        self.assertGreater(run["curve"]["step"][-1], run["curve"]["step"][0])

    def test_a_worker_s_death(self):
        path = self.path("run.html")
        with Run(*JOB, *SERVED, "--processes", *ENDLESS, "--report",
                 path) as job:
            job.wait_for_step(20)
            job.kill_and_wait("worker:1", 2)
            self.wait_for_reports(job, "worker:0")
            summary = job.end()
        run = self.check_report(path, summary)
        self.check_ledger(run, ["ps:0", "worker:0", "worker:1"])
        self.assertGreater(run["ledger"]["roles"]["worker:1"]["recovery"], 0)
        self.assertEqual([x["role"] for x in run["recoveries"]], ["worker:1"])
        self.assertTrue(any(x["kind"] == "death" and "worker:1" in x["text"]
                            for x in run["events"]), run["events"])
        self.assertRegex(run["stopped"], rf"^terminated after step "
                         rf"{run['steps']} of 100000000$")
        self.assertGreater(run["roles"]["worker:0"]["peak_memory_bytes"], 0)

    def test_the_peak_of_memory_is_not_that_of_who_began_the_run(self):
        """The system counts what a process was before it became a program."""
        held = b"x" * (600 << 20)
        with Run(*JOB, "--strategy", "one_device", "--steps", "20") as run:
            summary = run.finish()
        self.assertGreater(summary["peak_memory_bytes"], 10 << 20)
        self.assertLess(summary["peak_memory_bytes"], len(held))

    def test_a_coordinator_s_death_takes_no_point_and_no_event(self):
        path = self.path("run.html")
        with Run(*JOB, *SERVED, "--processes", *ENDLESS, "--report",
                 path) as job:
            job.wait_for_step(20)
            job.kill_and_wait("worker:1", 2)
            before = job.step()
            old = job.kill("coordinator")
            wait_for(lambda: job.children().get("coordinator")
                     not in (None, old), "the next coordinator")
            job.wait_for_step(before + 50)
            summary = job.end()
        run = self.check_report(path, summary)
        self.assertLess(run["curve"]["step"][0], before)
        self.assertIn("coordinator", [x["role"] for x in run["recoveries"]])
        for role in ("worker:1", "coordinator"):
            self.assertTrue(any(x["kind"] == "death" and role in x["text"]
                                for x in run["events"]), run["events"])
        self.assertEqual(run["events"], sorted(run["events"],
                                               key=lambda x: x["seconds"]))

    def test_twenty_faults_lose_no_second_of_any_role(self):
        path = self.path("run.html")
        with Run(*JOB, *SERVED, "--processes", *ENDLESS, "--report",
                 path) as job:
            job.wait_for_step(20)
            for fault in range(20):
                role, epochs = (("worker:0", 2), ("ps:0", 1),
                                ("worker:1", 2))[fault % 3]
                job.kill_and_wait(role, epochs)
                job.wait_for_step(job.step() + 20)
            summary = job.end()
        run = self.check_report(path, summary)
        self.check_ledger(run, ["ps:0", "worker:0", "worker:1"])
        self.assertEqual(len(run["recoveries"]), 20)
        for role, spent in run["ledger"]["roles"].items():
            print(f"\n  {role}: " + ", ".join(
                f"{cause} {100 * s / run['ledger']['seconds']:.1f} %"
                for cause, s in spent.items()), end="", file=sys.stderr)
            self.assertGreater(spent["recovery"], 0, role)
            self.assertLess(spent["unrecorded"], 0.01, role)

    def test_a_run_with_a_report_alone_leaves_nothing_else(self):
        state, path = self.path("state"), self.path("run.html")
        os.mkdir(state)
        troupe("train", *JOB, "--strategy", "one_device", "--steps", "5",
               "--report", path, environment={"XDG_STATE_HOME": state})
        self.check_ledger(self.check_report(path), ["worker:0"])
        self.assertEqual([files for _, _, files in os.walk(state) if files],
                         [])
        self.assertEqual(sorted(os.listdir(self.folder)),
                         ["run.html", "state"])

    def test_roles_by_hand_that_record_on_the_coordinator_s_host(self):
        path, flight = self.path("run.html"), self.path("flight")
        certificates = self.path("certificates")
        coordinator = Role(
            self.addCleanup, "coordinator", "--certificates", certificates,
            *JOB, *SERVED, "--steps", "30", "--flight", flight, "--report",
            path)
        address = coordinator.address()
        members = [Role(self.addCleanup, role, "--coordinator", address,
                        "--certificates", certificates, "--flight", flight)
                   for role in ("ps:0", "worker:0", "worker:1")]
        coordinator.finish()
        for member in members:
            member.finish()
        run = self.check_report(path)
        self.check_ledger(run, ["ps:0", "worker:0", "worker:1"])
        self.assertTrue(run["command"].startswith("troupe role coordinator "),
                        run["command"])
        self.assertEqual(run["roles"]["worker:0"]["host"], "127.0.0.1")

    def test_what_a_job_says_ends_no_block(self):
        os.mkdir(self.path("<"))
        model = self.path("<", "script><img src=x onerror='x'>&<!--.json")
        with open(model, "w") as file:
            file.write(troupe("model", "show", "cnn", "--format", "json"))
        path = self.path("run.html")
        troupe("train", *JOB[:2], "--model", model, "--strategy", "one_device",
               "--steps", "2", "--report", path)
        self.assertEqual(self.check_report(path)["model"], model)

    def test_a_summary_becomes_a_report(self):
        summary, path = self.path("run.json"), self.path("run.html")
        troupe("train", *JOB, "--strategy", "one_device", "--steps", "20",
               "--summary", summary)
        self.assertEqual(troupe("report", summary, path), f"report {path}\n")
        with open(summary) as file:
            lines = file.read().splitlines()
        self.check_report(path, json.loads("\n".join(lines)))
        self.assertLess(len(lines), 100)  # columns are a line each

    def test_mistakes_are_one_line(self):
        good, path = self.path("run.json"), self.path("run.html")
        troupe("train", *JOB, "--strategy", "one_device", "--steps", "1",
               "--summary", good)
        for name, text in (("text", "no JSON"), ("list", "[1]"),
                           ("other", '{"version": "1"}'), ("empty", ""),
                           ("deep", "[" * 100_000)):
            with open(self.path(name), "w") as file:
                file.write(text)
            self.assertRegex(troupe("report", self.path(name), path, status=1),
                             r"^troupe: \S+: it is (not the summary|nested)"
                             r".*\n$")
        for arguments, status, line in (
                ([], 2, "needs the summary of a run and a file"),
                ([good], 2, "needs the summary of a run and a file"),
                ([good, path, "more"], 2, "unexpected argument more"),
                ([good, good], 2, "would write over the summary"),
                ([self.path("none"), path], 1, "none"),
                ([good, self.path("none", "x")], 1, "no folder")):
            self.assertRegex(troupe("report", *arguments, status=status),
                             rf"^troupe: .*{line}.*\n$")
        self.assertFalse(os.path.exists(path))
        for flags, status, line in (
                (["--summary", good, "--report", good], 2,
                 "and --summary name one place"),
                (["--report", self.folder], 1, "is a folder"),
                (["--report", self.path("none", "x")], 1, "there is no folder")):
            self.assertRegex(troupe("train", *JOB, *flags, status=status),
                             rf"^troupe: --report .*{line}.*\n$")

    def test_a_report_that_cannot_be_written_keeps_no_other_file(self):
        # Its name is free until the first checkpoint.
        kept, other = self.path("kept"), self.path("other")
        taken = os.path.join(kept, "step-000000000004")
        os.mkdir(kept)
        line = troupe("train", *JOB, "--strategy", "one_device", "--steps",
                      "4", "--checkpoint-dir", kept, "--report", taken,
                      "--summary", other, status=1)
        self.assertRegex(line, r"^troupe: .*; no report: .*step-0+4.*\n$")
        with open(other) as file:
            self.assertEqual(json.load(file)["steps"], 4)
        shutil.rmtree(kept)
        os.mkdir(kept)
        name = self.path("run.html")
        line = troupe("train", *JOB, "--strategy", "one_device", "--steps",
                      "4", "--checkpoint-dir", kept, "--summary", taken,
                      "--report", name, status=1)
        self.assertRegex(line, r"; no summary: ")
        self.check_report(name)

    def test_print_config_has_it(self):
        self.assertRegex(troupe("train", *JOB, "--report", "run.html",
                                "--print-config"),
                         r'(?m)^report = .run\.html.$')


@unittest.skipIf(PROGRAM is None, "chromium is missing")
class Drawn(Reports):
    def browse(self, path):
        browser = Chromium(self.addCleanup)
        browser.open("file://" + urllib.parse.quote(path))
        wait_for(lambda: self.text(browser, "#facts dd"), "the report is drawn")
        return browser

    def text(self, browser, selector):
        return browser.value("document.querySelector("
                             f"{json.dumps(selector)})?.textContent") or ""

    def check_nobody_was_asked(self, browser):
        self.assertTrue(all(request.startswith(("file:///", "data:"))
                            for request in browser.requests), browser.requests)
        self.assertEqual(sum(request.startswith("file:")
                             for request in browser.requests), 1)
        self.assertEqual(browser.complaints, [])

    def test_a_run_with_a_death(self):
        path = self.path("run.html")
        with Run("--data", "synthetic:digits?samples=20000", "--model",
                 "mlp:784-512-256-10", "--eval-fraction", "0.1", *SERVED,
                 "--processes", *ENDLESS, "--report", path) as job:
            job.wait_for_step(200)
            job.kill_and_wait("worker:1", 2)
            self.wait_for_reports(job, "ps:0", "worker:0")
            summary = job.end(200)
        self.check_report(path, summary)
        browser = self.browse(path)
        self.assertEqual(self.text(browser, "#name"), "mlp:784-512-256-10")
        self.assertIn("terminated after step", self.text(browser, "#state"))
        for curve in ("loss", "rate"):
            self.assertGreater(browser.value(
                f'document.querySelector("#{curve} polyline")'
                '.getAttribute("points").split(" ").length'), 3)
            self.assertEqual(browser.value(
                f'document.querySelectorAll("#{curve} .mark").length'), 1)
        rows = browser.value("""[...document.querySelectorAll("#ledger tr")]
            .map(row => [...row.children].map(cell => cell.textContent))""")
        self.assertEqual([row[0] for row in rows],
                         ["", "all", "ps:0", "worker:0", "worker:1"])
        self.assertEqual({row[1 + len(CAUSES)] for row in rows[1:]}, {"100.0 %"})
        self.assertEqual(browser.value(
            'document.querySelectorAll("#bars .bar").length'), 4)
        self.assertRegex(self.text(browser, "#recoveries"),
                         r"worker:1\w+\d+.* ms")
        self.assertRegex(self.text(browser, "#roles"), r"worker:0.*MiB")
        self.assertRegex(self.text(browser, "#events"), r"death.*worker:1")
        bounds = browser.value("""[...document.querySelectorAll("#if li")]
            .map(line => line.textContent)""")
        for begin in ("With 1 recovery for nothing: at most ", "With exchange and ",
                      "With members there at once: "):
            self.assertTrue(any(line.startswith(begin) for line in bounds),
                            bounds)
        factors = [float(x) for line in bounds
                   for x in re.findall(r"([\d.]+) times as fast", line)]
        self.assertTrue(all(x >= 1 for x in factors), bounds)
        self.assertIn(summary["weights_sha256"], self.text(browser, "#facts"))
        self.check_nobody_was_asked(browser)
        if picture := os.environ.get("TROUPE_REPORT_PICTURE"):
            browser.picture(picture, (1280, 1250))

    def test_what_a_job_says_is_text(self):
        os.mkdir(self.path("<"))
        model = self.path("<", "script><img src=x onerror='window.struck=1'>"
                          "<b>.json")
        with open(model, "w") as file:
            file.write(troupe("model", "show", "cnn", "--format", "json"))
        path = self.path("run.html")
        troupe("train", *JOB[:2], "--model", model, "--strategy", "one_device",
               "--steps", "2", "--report", path)
        browser = self.browse(path)
        self.assertEqual(self.text(browser, "#name"), model)
        self.assertIsNone(browser.value("window.struck"))
        self.assertEqual(browser.value(
            "document.querySelectorAll('img, h1 b').length"), 0)
        self.check_nobody_was_asked(browser)

    def test_a_summary_of_a_stranger_is_drawn_as_far_as_it_goes(self):
        summary = self.path("run.json")
        struck = "<img src=x onerror='window.struck=1'>"
        with open(summary, "w") as file:
            json.dump({"steps": struck, "weights_sha256": [struck],
                       "strategy": {struck: struck}, "curve": struck,
                       "events": [struck, {"seconds": struck, "text": 1}],
                       "ledger": {"seconds": 1, "roles": {struck: struck}},
                       "recoveries": [1, {"role": struck}], "roles": [struck],
                       "wall_seconds": -1, "libraries": None}, file)
        troupe("report", summary, self.path("run.html"))
        browser = self.browse(self.path("run.html"))
        self.assertIn(struck, self.text(browser, "#what"))
        self.assertIsNone(browser.value("window.struck"))
        self.check_nobody_was_asked(browser)


if __name__ == "__main__":
    unittest.main()
