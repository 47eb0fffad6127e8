"""Debian's Chromium without a window, driven over two pipes; for the tests
beside."""

import base64
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PROGRAM = shutil.which("chromium")
ANSWER_S = 60
GONE_S = 5  # a process that nobody reaps may be counted for ever


def skip_without_chromium():
    """Ends a test's file as one that cannot run here."""
    if PROGRAM is None:
        print("skipped: chromium is missing")
        sys.exit(77)


class Chromium:
    """One page. What it asks for over the network, what its scripts throw and
    what its policy refuses is kept."""

    def __init__(self, clean_up_with, size=(1280, 1000), dark=False):
        self.folder = tempfile.TemporaryDirectory()
        clean_up_with(self.folder.cleanup)
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()
        self.process = subprocess.Popen(
            ["bash", "-c", 'exec "${@:3}" 3<&"$1" 4>&"$2"', "bash",
             str(theirs_in), str(theirs_out), PROGRAM, "--headless",
             "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--disable-background-networking", "--disable-component-update",
             "--disable-sync", "--disable-extensions", "--no-first-run",
             "--hide-scrollbars", f"--window-size={size[0]},{size[1]}",
             *(["--force-dark-mode"] if dark else []),
             f"--user-data-dir={self.folder.name}",
             "--remote-debugging-pipe", "about:blank"],
            pass_fds=(theirs_in, theirs_out), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": self.folder.name},
            start_new_session=True)
        os.close(theirs_in)
        os.close(theirs_out)
        self.input, self.output = ours_out, ours_in
        clean_up_with(self.stop)
        self.received = b""
        self.number = 0
        self.requests = []  # addresses
        self.complaints = []  # of scripts and of the policy
        target = self.call("Target.createTarget", session=None,
                           url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", session=None,
                                 targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(domain + ".enable")

    def stop(self):
        """All of its processes end: one that lives on writes into its folder
        while that is removed."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        end = time.monotonic() + GONE_S
        with contextlib.suppress(ProcessLookupError):
            while time.monotonic() < end:
                os.killpg(self.process.pid, 0)
                time.sleep(0.01)
        os.close(self.input)
        os.close(self.output)

    def call(self, method, session="own", **parameters):
        """Waits for the answer; notes what happens meanwhile."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = self.session
        os.write(self.input, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + ANSWER_S
        while time.monotonic() < end:
            for heard in self.messages(end - time.monotonic()):
                if heard.get("id") == self.number:
                    assert "result" in heard, (method, heard)
                    return heard["result"]
                self.note(heard)
        raise AssertionError(f"no answer of Chromium to {method}")

    def messages(self, timeout_s):
        if not select.select([self.output], [], [], max(0, timeout_s))[0]:
            return
        part = os.read(self.output, 1 << 20)
        assert part, f"Chromium ended: {self.process.poll()}"
        self.received += part
        *whole, self.received = self.received.split(b"\0")
        yield from map(json.loads, whole)

    def note(self, event):
        what, said = event.get("method"), event.get("params", {})
        if what == "Network.requestWillBeSent":
            self.requests.append(said["request"]["url"])
        elif what == "Runtime.exceptionThrown":
            details = said["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get(
                "description", details["text"]))
        elif (what == "Log.entryAdded" and said["entry"]["level"] == "error"
              and said["entry"]["source"] != "network"):
            self.complaints.append(said["entry"]["text"])

    def open(self, address):
        self.call("Page.navigate", url=address)

    def value(self, expression):
        """Of a script's expression on the page; None: it cannot be had, as
        while another page is coming."""
        answer = self.call("Runtime.evaluate", expression=expression,
                           returnByValue=True, awaitPromise=True)
        return answer["result"].get("value")

    def picture(self, path, size):
        """Of the page as a window of that size shows it, as a PNG."""
        self.call("Emulation.setDeviceMetricsOverride", width=size[0],
                  height=size[1], deviceScaleFactor=1, mobile=False)
        time.sleep(2)  # it draws itself anew
        shot = self.call("Page.captureScreenshot", format="png")
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))
