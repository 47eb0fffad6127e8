"""Starts the troupe program and looks at its processes; for the tests beside."""

import json
import os
import re
import signal
import socket
import struct
import subprocess
import tempfile
import time
import urllib.request

from processes import children_of

# A program that `nohup` began would hear of no terminal that closes, as it should;
# tests that are begun so hand that on.
signal.signal(signal.SIGHUP, signal.SIG_DFL)

TROUPE = os.environ.get("TROUPE", "build/release/apps/troupe")
DEADLINE_S = 90
# More steps than any machine makes while a test strikes: Run.end() ends such a
# run, and what it is held against makes as many steps as it has made.
ENDLESS = ["--epochs", "0", "--steps", "100000000"]


def wait_for(condition, what, deadline_s=DEADLINE_S):
    """Polls until condition() is true and returns its value."""
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"not within {deadline_s} s: {what}")


def wait_until_nobody_listens(output):
    """At the addresses that a run printed. A process that is killed lets go of
    its memory, by which processes_of() finds it, before its sockets."""
    def listens(host, port):
        try:
            socket.create_connection((host, int(port)), 1).close()
        except OSError:
            return False
        return True
    for host, port in re.findall(
            r"(?:coordinator: |listens on |http://)([\d.]+):(\d+)", output):
        wait_for(lambda host=host, port=port: not listens(host, port),
                 f"nobody listens at {host}:{port}", 10)


def troupe(*arguments, status=0, environment=None):
    """Runs a command that ends by itself; returns what it printed."""
    done = subprocess.run([TROUPE, *arguments], capture_output=True, text=True,
                          timeout=60, check=False,
                          env={**os.environ, **(environment or {})})
    assert done.returncode == status, (done.returncode, done.stderr)
    return done.stdout if status == 0 else done.stderr


def findings(*arguments, environment=None):
    """What `troupe doctor` says of this machine, whatever else is wrong here."""
    done = subprocess.run([TROUPE, "doctor", *arguments], capture_output=True,
                          text=True, timeout=200, check=False,
                          env={**os.environ, **(environment or {})})
    assert done.stderr == "", done.stderr
    assert done.returncode == (1 if "WRONG" in done.stdout else 0), done
    return done.stdout


def values_of(address, name, labels=r"[^}]*"):
    """The values of a coordinator's metric, of all series with such labels."""
    try:
        with urllib.request.urlopen(f"http://{address}/metrics",
                                    timeout=5) as answer:
            text = answer.read().decode()
    except OSError:
        return []
    return [float(value) for value in
            re.findall(rf"^{name}\{{{labels}\}} (\S+)", text, re.MULTILINE)]


def metric_of(address, name, labels=r"[^}]*"):
    """The first of them; 0 where it has none, or none yet."""
    return next(iter(values_of(address, name, labels)), 0)


def metrics_address(run):
    """Waits until the newest coordinator of a Run, or a Role that is one, has
    said where its metrics are."""
    def find():
        found = re.findall(r"metrics: http://(\S+)/metrics", run.output())
        return found and found[-1]
    return wait_for(find, "the address of the metrics")


def checkpoint_steps(folder):
    """The steps of the checkpoints in it, oldest first; none where it is not
    there yet."""
    if not os.path.isdir(folder):
        return []
    return sorted(int(name.removeprefix("step-"))
                  for name in os.listdir(folder) if name.startswith("step-"))


def metadata_of(path):
    """What a file of weights says of itself."""
    with open(path, "rb") as file:
        length, = struct.unpack("<Q", file.read(8))
        return json.loads(file.read(length))["__metadata__"]


def tensors_in(path):
    """The bytes of a safetensors file after its header."""
    with open(path, "rb") as file:
        length, = struct.unpack("<Q", file.read(8))
        file.seek(length, os.SEEK_CUR)
        return file.read()


def resident_bytes(pid):
    """Of a process, but for what links lend: messages, which come on top of
    what a device may need."""
    total, lent = 0, False
    with open(f"/proc/{pid}/smaps", encoding="ascii") as file:
        for line in file:
            if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
                lent = "/memfd:troupe" in line
            elif line.startswith("Rss:") and not lent:
                total += int(line.split()[1]) << 10
    return total


def check_samples(test, summary, of, batch=64, ranks=4):
    """A run counts each sample once: in order those of its steps, or, where it
    ended asynchronously, of its first leases, up to V - 1 beyond its last step.
    A data epoch has `of`; batch and V are the defaults."""
    steps = summary["steps"]
    leases = summary["consistency"].get("leases", steps * ranks)
    test.assertEqual(leases // ranks, steps)
    test.assertEqual(summary["samples"], sum(
        min(batch, of - lease // ranks % -(-of // batch) * batch) // ranks
        for lease in range(leases)))


class Run:
    """One run of `troupe train`, with its output read as it comes. `command` is
    what comes before "train"; `options` are those of subprocess.Popen."""

    def __init__(self, *arguments, environment=None, summary=None,
                 program=TROUPE, command=None, **options):
        self.folder = tempfile.TemporaryDirectory()
        self.summary_path = summary or os.path.join(self.folder.name,
                                                    "summary.json")
        self.output_path = os.path.join(self.folder.name, "output")
        self.error_path = os.path.join(self.folder.name, "error")
        with open(self.output_path, "w") as output, \
                open(self.error_path, "w") as error:
            self.process = subprocess.Popen(
                [*(command or [program]), "train", "--summary",
                 self.summary_path, *arguments],
                stdout=output, stderr=error, stdin=subprocess.DEVNULL,
                env={**os.environ, **(environment or {})}, **options)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.folder.cleanup()

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def output(self):
        with open(self.output_path) as file:
            return file.read()

    def error(self):
        with open(self.error_path) as file:
            return file.read()

    def summary(self):
        with open(self.summary_path) as file:
            return json.load(file)

    def finish(self, status=0, deadline_s=DEADLINE_S):
        """Waits for the end, checks the status, returns the summary."""
        try:
            found = self.process.wait(deadline_s)
        except subprocess.TimeoutExpired as late:
            raise AssertionError(
                f"not over within {deadline_s} s, at step {self.step()}: "
                f"{self.error()} {self.output()}") from late
        assert found == status, (
            f"status {found}, expected {status}: {self.error()} "
            f"{self.output()}")
        return self.summary() if os.path.exists(self.summary_path) else None

    def end(self, steps=10):
        """Ends the run in order once it has made so many steps more; returns
        the summary."""
        self.wait_for_step(self.step() + steps)
        self.process.send_signal(signal.SIGTERM)
        return self.finish(143)

    def processes(self):
        """The id and the command's words of each role's process, and of the
        agent that a launcher has on this host."""
        waiting = children_of(self.process.pid)
        while waiting:
            pid = waiting.pop(0)
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    words = file.read().decode().split("\0")
            except (OSError, ValueError):
                continue
            if words[1:2] == ["node"]:
                waiting += children_of(pid)
            if words[1:2] in (["role"], ["node"]):
                yield pid, words

    def role_processes(self):
        """The id and the command's words of each role's process."""
        return (x for x in self.processes() if x[1][1] == "role")

    def children(self):
        """Maps each role ("worker:0") to the id of its process."""
        return {words[2]: pid for pid, words in self.role_processes()}

    def role(self, name):
        """Waits until a role has a process; returns its id."""
        return wait_for(lambda: self.children().get(name), f"{name} runs")

    def metrics_address(self):
        return metrics_address(self)

    def metric(self, name, *labels):
        return metric_of(metrics_address(self), name, *labels)

    def step(self):
        """The newest committed step, from the run's own metrics."""
        return self.metric("troupe_steps_committed_total")

    def wait_for_step(self, step):
        def reached():
            if self.process.poll() is not None:
                raise AssertionError(f"the run ended: {self.error()}")
            return self.step() >= step
        wait_for(reached, f"step {step}")

    def wait_for_epoch(self, epoch):
        """Of the membership."""
        wait_for(lambda: self.metric("troupe_membership_epoch") >= epoch,
                 f"membership epoch {epoch}")

    def kill(self, role, how=signal.SIGKILL):
        """Sends a signal to a role's process; returns the process's id."""
        pid = self.role(role)
        os.kill(pid, how)
        return pid

    def places_in_chains(self):
        """How often slices are kept, as shards' newest reports say."""
        return sum(values_of(self.metrics_address(), "troupe_chain_slices"))

    def kill_and_wait(self, role, epochs):
        """Kills a role and waits until it takes part again: so many epochs of
        the membership later. (A worker: 2, without it and with it; a shard of
        a chain: 3, as it is a replica then, or 2 if what it kept was as new as
        its chain still; one that all wait for: 1.)"""
        epoch = self.metric("troupe_membership_epoch") + epochs
        places = self.places_in_chains()
        old = self.kill(role)
        wait_for(lambda: self.children().get(role) not in (None, old),
                 f"{role} is started again")
        if epochs < 3:
            self.wait_for_epoch(epoch)
            return
        self.wait_for_epoch(epoch - 1)
        reported = time.monotonic() + 5
        wait_for(lambda: self.metric("troupe_membership_epoch") >= epoch
                 or (time.monotonic() > reported
                     and self.places_in_chains() >= places),
                 f"{role} is a replica again")
