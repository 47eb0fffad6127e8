"""The page that a running job's coordinator serves beside its metrics, in
Debian's Chromium: curves, members, a worker's death, what roles did last; it asks
nobody else for anything, and goes on with the coordinator that follows."""
# ctest: TIMEOUT 600

import json
import os
import re
import signal
import unittest
import urllib.error
import urllib.request

from chromium import Chromium, PROGRAM
from cluster import ENDLESS, Run, troupe, wait_for
from own_folder import OwnFolder
from prometheus_test import free_port
from roles import Role

JOB = ["--data", "synthetic:digits?samples=2000", "--model", "mlp:784-64-10",
       "--eval-every", "0", *ENDLESS]
SERVED = ["--strategy", "parameter_server", "--workers", "2", "--ps", "1",
          "--processes"]
# A step of these takes a while, so that a run has no millions.
SLOW = ["--data", "synthetic:digits?samples=2000", "--model",
        "mlp:784-512-256-10", "--eval-every", "0", *ENDLESS]


def ask(address, target, method="GET", headers=None):
    """Status, headers and body."""
    request = urllib.request.Request(f"http://{address}{target}",
                                     method=method, headers=headers or {})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as answer:
        return answer.code, answer.headers, answer.read().decode()


def snapshot(address, cursor=""):
    status, _, body = ask(address, "/snapshot"
                          + (f"?after={cursor}" if cursor else ""))
    assert status == 200, body
    return json.loads(body)


class Jobs(OwnFolder):
    def run_job(self, *flags):
        run = Run(*flags)
        self.addCleanup(run.__exit__)
        run.wait_for_step(3)
        return run


class Served(Jobs):
    """What is served, without a browser."""

    def test_a_run_says_where_its_page_is_and_what_there_is(self):
        run = self.run_job(*JOB, *SERVED)
        address = run.metrics_address()
        self.assertIn(f"page: http://{address}/\n", run.output())
        status, headers, page = ask(address, "/")
        self.assertEqual(status, 200)
        self.assertTrue(page.startswith("<!DOCTYPE html>"))
        self.assertLess(len(page), 150 << 10)
        self.assertIn("default-src 'none'", headers["Content-Security-Policy"])
        self.assertNotIn("Access-Control-Allow-Origin", headers)
        for target, method, expected in (
                ("/nothing", "GET", (404, "404 Not Found: what is here: "
                                     "/metrics, / and /snapshot\n")),
                ("/../metrics", "GET", (404, None)),
                ("/snapshot", "POST", (405, "405 Method Not Allowed: whoever "
                                       "asks here only reads: GET and HEAD\n")),
                ("/", "DELETE", (405, None))):
            status, headers, body = ask(address, target, method)
            self.assertEqual(status, expected[0])
            self.assertEqual(body, expected[1] or body)
            self.assertEqual(body.count("\n"), 1)
        run.end()

    def test_a_snapshot_goes_on_where_the_one_before_ended(self):
        run = self.run_job(*JOB, *SERVED)
        address = run.metrics_address()
        first = wait_for(lambda: (x := snapshot(address))["points"] and x,
                         "a point of the curves")
        self.assertEqual(first["run"]["strategy"], "parameter_server")
        last = first["points"][-1][0]
        later = wait_for(
            lambda: (x := snapshot(address, first["cursor"]))["points"] and x,
            "another point")
        self.assertTrue(all(point[0] > last for point in later["points"]))
        wait_for(lambda: {"coordinator", "ps:0", "worker:0", "worker:1"}
                 <= {role["role"] for role in snapshot(
                     address, later["cursor"])["now"]["roles"]},
                 "all that report")
        self.assertLess(len(json.dumps(later)), 20_000)
        run.end()

    def test_a_run_in_one_process_has_a_page_with_its_epoch(self):
        run = self.run_job(*JOB, "--strategy", "one_device")
        address = run.metrics_address()
        events = wait_for(lambda: snapshot(address)["events"], "an event")
        self.assertEqual([kind for _, kind, _ in events], ["epoch"])
        run.end()


@unittest.skipIf(PROGRAM is None, "chromium is missing")
class Page(Jobs):
    def browse(self, address):
        browser = Chromium(self.addCleanup)
        browser.open(f"http://{address}/")
        return browser

    def points(self, browser, curve="loss"):
        """How many the curve has."""
        return browser.value(f"""document.querySelectorAll(
            "#{curve} polyline").length && document.querySelector(
            "#{curve} polyline").getAttribute("points").split(" ").length""")

    def text(self, browser, selector):
        return browser.value("document.querySelector("
                             f"{json.dumps(selector)})?.textContent") or ""

    def has_text(self, browser, selector, pattern, deadline_s=90):
        wait_for(lambda: re.search(pattern, self.text(browser, selector)),
                 f"{pattern} in {selector}", deadline_s)

    def check_nobody_else_was_asked(self, browser, *addresses):
        self.assertGreaterEqual(len(browser.requests), 2)
        for request in browser.requests:
            self.assertTrue(
                request.startswith(("data:", *(f"http://{address}/"
                                               for address in addresses))),
                request)
        self.assertEqual(browser.complaints, [])

    def test_curves_members_and_a_worker_s_death(self):
        run = self.run_job(*SLOW, *SERVED, "--log-dir", self.path("logs"))
        address = run.metrics_address()
        browser = self.browse(address)
        for curve in ("loss", "rate"):
            wait_for(lambda: (self.points(browser, curve) or 0) >= 3,
                     f"three points of {curve}")
        self.assertEqual(self.text(browser, "#name"), "mlp:784-512-256-10")
        self.has_text(browser, "#state", "^live")
        for role in ("coordinator", "ps:0", "worker:0", "worker:1"):
            self.has_text(browser, f'[data-role="{role}"]', f"^{role}")
        self.has_text(browser, "#parts", r"worker:0[\d.]+k? ms")
        # Every recorder of the run is drawn, with spans of its activities.
        wait_for(lambda: browser.value(
            "seen.spans && Object.keys(seen.spans.roles).sort().join()")
            == "ps:0,worker:0,worker:1", "what roles did last")
        self.assertGreater(browser.value("""(() => {
            const canvas = document.getElementById("stream");
            const data = canvas.getContext("2d").getImageData(
                100, 0, canvas.width - 100, canvas.height).data;
            let drawn = 0;
            for (let i = 3; i < data.length; i += 4) drawn += data[i] > 0;
            return drawn; })()"""), 100)

        run.kill("worker:1")
        self.has_text(browser, "#events", r"deathworker:1 after step \d+")
        self.has_text(browser, "#events", r"restart[^\n]*role worker:1")
        self.has_text(browser, "#lines", r"worker:1 died \(signal 9")
        self.has_text(browser, '[data-role="worker:1"]', "^worker:1 ↻1$")
        browser.value("""document.querySelector(
            '[data-role="worker:1"]').click()""")
        self.has_text(browser, "#member", r"roleworker:1.*restarts1")
        before = self.points(browser)
        wait_for(lambda: self.points(browser) > before, "the curve goes on")
        self.check_nobody_else_was_asked(browser, address)
        if path := os.environ.get("TROUPE_PAGE_PICTURE"):
            browser.picture(path, (1280, 1100))
        run.end()
        self.has_text(browser, "#state", "^no answer for ")

    def test_what_a_job_says_is_text(self):
        name = "<img src=x onerror='window.struck=1'><b>.json"
        with open(self.path(name), "w") as file:
            file.write(troupe("model", "show", "cnn", "--format",
                              "json"))
        run = self.run_job("--data", "synthetic:digits?samples=2000",
                           "--model", self.path(name), "--eval-every", "0",
                           *ENDLESS)
        browser = self.browse(run.metrics_address())
        self.has_text(browser, "#name", re.escape(name))
        wait_for(lambda: self.points(browser), "a point")
        self.assertIsNone(browser.value("window.struck"))
        self.assertEqual(browser.value(
            "document.querySelectorAll('img, h1 b').length"), 0)
        self.check_nobody_else_was_asked(browser, run.metrics_address())
        run.end()

    def test_it_goes_on_with_the_standby(self):
        run = self.run_job(*SLOW, *SERVED, "--standby")
        address = run.metrics_address()
        browser = self.browse(address)
        wait_for(lambda: (self.points(browser) or 0) >= 3, "a curve")
        self.has_text(browser, "#what", "coordinator 1 ")
        first = browser.value("seen.points[0][1]")
        leader = [pid for pid, words in run.role_processes()
                  if "--voter" in words
                  and words[words.index("--voter") + 1] == "1"]
        os.kill(leader[0], signal.SIGKILL)
        self.has_text(browser, "#what", "coordinator 2 ")
        self.has_text(browser, "#state", "^live")
        at = browser.value("seen.now.step")
        wait_for(lambda: browser.value("seen.points[seen.points.length-1][1]")
                 > at, "the curve goes on")
        self.assertEqual(browser.value("seen.points[0][1]"), first)
        self.has_text(browser, "#events", r"deathcoordinator|recovery")
        self.check_nobody_else_was_asked(browser, address)
        run.end()

    def test_it_goes_to_where_the_standby_is_when_its_own_host_is_silent(self):
        port = free_port()
        hosts = ["127.0.0.1", "127.0.0.2"]
        voters = ",".join(f"{host}:{free_port()}"
                          for host in (*hosts, "127.0.0.3"))
        certificates = self.path("certificates")
        both = [f"{host}:{free_port()}" for host in hosts]

        def coordinator(which):
            return Role(self.addCleanup, "coordinator", "--certificates",
                        certificates, "--listen", both[which], "--voters",
                        voters, "--voter", str(which), "--journal",
                        self.path(f"vote-{which}.db"), "--metrics-address",
                        f"{hosts[which]}:{port}", *SLOW, "--strategy",
                        "parameter_server", "--workers", "1", "--ps", "1")

        first = coordinator(0)
        wait_for(lambda: os.path.exists(os.path.join(certificates, "ca.pem")),
                 "certificates")
        Role(self.addCleanup, "--listen", voters.split(",")[2], "--journal",
             self.path("vote-2.db"), "--certificates", certificates,
             command="voter").address("voter")
        first.address()
        second = coordinator(1)
        members = [Role(self.addCleanup, role, "--coordinator", ",".join(both),
                        "--certificates", certificates)
                   for role in ("ps:0", "worker:0")]
        browser = self.browse(f"{hosts[0]}:{port}")
        wait_for(lambda: (self.points(browser) or 0) >= 2, "a curve")
        # As a host that is lost: it takes connections no more, or says nothing.
        first.process.send_signal(signal.SIGSTOP)
        self.addCleanup(first.process.send_signal, signal.SIGCONT)
        second.address()
        wait_for(lambda: browser.value("location.host")
                 == f"{hosts[1]}:{port}", "the page has gone on")
        wait_for(lambda: (self.points(browser) or 0) >= 2, "its curve")
        self.check_nobody_else_was_asked(
            browser, *(f"{host}:{port}" for host in hosts))
        second.process.send_signal(signal.SIGTERM)
        second.finish(143)
        for member in members:
            member.finish(0, 60)


if __name__ == "__main__":
    unittest.main()
