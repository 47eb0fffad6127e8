"""Every command that README.md and docs/ show is run, in a scratch folder of
its document, in the order in which they stand; or it is listed here with the
reason why not. TROUPE_DOCS_WHOLE=1 runs them on all samples; otherwise on fewer."""
# ctest: TIMEOUT 1200

import collections
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from cluster import TROUPE, wait_for
from docs_commands import Command, Script, commands_of, has_placeholder, is_name

SOURCE = Path(__file__).resolve().parents[2]
DOCUMENTS = ["README.md", *sorted(f"docs/{x.name}" for x in
                                  (SOURCE / "docs").glob("*.md"))]
WHOLE = os.environ.get("TROUPE_DOCS_WHOLE") == "1"
DEADLINE_S = 300
MISSING = "of Python's packages that are missing"

# (document, what the command begins with, label, why it is not run as it
# stands). Labels: build (of the tree, or its tests), hours (what a page of
# figures was measured with), gpu, hosts (several, or others' roles), hand (is
# for somebody who watches), beside (run below, beside what it needs).
LISTED = [
    ("README.md", "apps/quickstart", "build", "installs and builds"),
    ("README.md", "tests/run", "build", "runs this test"),
    ("docs/testing.md", "tests/aarch64", "build", "a root, and an emulator"),
    ("README.md", "prometheus ", "beside", "prometheus_test"),
    ("README.md", "kill -9 ", "hand", "strikes by name; supervision_test"),
    ("README.md", "troupe status ", "beside", "the run of its address"),
    ("README.md", "troupe doctor 127", "beside", "doctor_test"),
    ("README.md", "troupe top ", "beside", "a page of a run; top_test"),
    ("docs/command_line.md", "troupe timeline ", "beside", "timeline_test"),
    ("docs/command_line.md", "troupe report ", "beside", "report_test"),
    ("README.md", "troupe train --data synthetic:digits --epochs 20 ",
     "beside", "with the status of its address"),
    ("README.md", "troupe role ", "beside", "roles by hand, together"),
    ("README.md", "troupe launch ", "hosts", "launch_hosts_test"),
    ("README.md", "troupe certificates token ", "beside", "roles by hand"),
    ("README.md", "export TF_CONFIG", "beside", "tasks of TF_CONFIG"),
    ("docs/operations.md", "cmake", "build", "package_test, operations_test"),
    ("docs/benchmarks.md", "", "hours", "what its figures were taken with"),
    ("docs/cuda.md", "", "gpu", "of a host with a GPU, and hours there"),
    ("docs/tpu.md", "troupe train ", "gpu", "of a host with a TPU; tpu_test"),
    ("docs/tpu.md", "troupe role ", "gpu", "the same"),
    ("docs/tpu.md", "troupe doctor ", "gpu", "the same"),
    ("docs/tpu.md", "python3 -m venv ", "hand", "downloads a plugin"),
    ("docs/data.md", "troupe predict ", "hand",
     "of a table that the page shows in part; table_data_test"),
    ("docs/command_line.md", "troupe voter ", "hosts", "standby_hosts_test"),
    ("docs/command_line.md", "troupe role ", "hosts", "standby_hosts_test"),
    ("docs/reliability.md", "test_sim", "build", "programs of the tests"),
    ("docs/reliability.md", "tests/soak", "hours", "a million worlds"),
    ("docs/reliability.md", "TROUPE_", "hours", "tests in full measure"),
    ("docs/security.md", "troupe role ", "hosts", "authorities_test"),
    ("docs/security.md", "troupe certificates revoke ", "hosts",
     "authorities_test"),
]
# What a document's commands take for granted.
PREPARED = {
    "README.md": ["train --data synthetic:digits --save digits.safetensors"],
    "docs/command_line.md": [
        "train --data synthetic:digits --save digits.safetensors",
        "certificates new operator --certificates certs"],
}


def listed(command):
    for document, begin, label, why in LISTED:
        if command.document == document and command.text.startswith(begin):
            return label, why
    return None


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def smaller(text):
    """The same on fewer samples."""
    if WHOLE:
        return text
    return re.sub(r"synthetic:(digits|clicks|text)(?![?\w])",
                  r"synthetic:\1?samples=2560", text)


def command_names():
    """As `troupe --help` lists them."""
    text = subprocess.run([TROUPE, "--help"], capture_output=True, text=True,
                          check=True).stdout
    text = text[text.index("\nCommands\n"):]
    names = set(re.findall(r"(?m)^  ?(?! )([a-z]+(?: [a-z-]+)*)(?:  |$)", text))
    return names | {x.split()[0] for x in names} | {"--help"}


class Scratch:
    """A folder in which `troupe` is the program."""

    def __init__(self):
        self.missing = set()  # names of files that scripts would have written
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = os.path.join(self.temporary.name, "work")
        os.mkdir(self.folder)
        programs = os.path.join(self.temporary.name, "bin")
        os.mkdir(programs)
        os.symlink(os.path.abspath(TROUPE), os.path.join(programs, "troupe"))
        self.environment = {
            **{k: v for k, v in os.environ.items() if k != "TF_CONFIG"},
            "PATH": f"{programs}:{os.environ['PATH']}"}

    def cleanup(self):
        self.temporary.cleanup()

    def run(self, text, **environment):
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", smaller(text)],
            cwd=self.folder, env={**self.environment, **environment},
            stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=DEADLINE_S, check=False)

    def start(self, text, **environment):
        """In the background; `exec`, so that its process is the program."""
        output = tempfile.TemporaryFile("w+", dir=self.temporary.name)
        process = subprocess.Popen(
            ["bash", "-c", "exec " + smaller(text)], cwd=self.folder,
            env={**self.environment, **environment},
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        process.said = lambda: os.pread(output.fileno(), 1 << 20, 0).decode()
        process.close = output.close
        return process


class DocsCommands(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.found = {document: commands_of(document,
                                           (SOURCE / document).read_text())
                     for document in DOCUMENTS}
        cls.names = command_names()

    def setUp(self):
        self.scratch = Scratch()
        self.addCleanup(self.scratch.cleanup)

    def those(self, document, begin):
        return [x for x in self.found[document] if isinstance(x, Command)
                and x.text.startswith(begin)]

    def background(self, text, **environment):
        process = self.scratch.start(text, **environment)

        def end():
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(30)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
            process.close()
        self.addCleanup(end)
        return process

    def check_done(self, done, command):
        self.assertEqual(done.returncode, 0, f"{command.where}: {command.text}"
                         f"\n{done.stdout}\n{done.stderr}")

    # --- those that run as they stand -----------------------------------------

    def test_every_command_that_can_be_is_run(self):
        labels = collections.Counter()
        for document, found in self.found.items():
            scratch = Scratch()
            self.addCleanup(scratch.cleanup)
            for words in PREPARED.get(document, []):
                scratch.run(f"troupe {words}").check_returncode()
            for command in found:
                with self.subTest(at=command.where):
                    labels[self.try_it(scratch, command)] += 1
        print(dict(labels), flush=True)
        self.assertGreater(labels["run"], 30)

    def try_it(self, scratch, command):
        """Runs it where that is to be; says what became of it."""
        if isinstance(command, Script):
            return self.try_script(scratch, command)
        if is_name(command, self.names):
            return "a name"
        if reason := listed(command):
            self.check_taken(scratch, command)
            return reason[0]
        if has_placeholder(command):
            self.check_pattern(command)
            return "a pattern"
        if any(name in command.text for name in scratch.missing):
            return MISSING  # what a script would have written
        self.check_done(scratch.run(command.text), command)
        return "run"

    def try_script(self, scratch, script):
        """Python of a reader, who has NumPy and safetensors."""
        compile(script.text, script.where, "exec")
        wanted = re.findall(r"(?m)^(?:import|from) ([\w.]+)", script.text)
        python = os.environ.get("TROUPE_PYTHON", sys.executable)
        there = subprocess.run(
            [python, "-c", "; ".join(f"import {x}" for x in wanted)],
            capture_output=True, check=False)
        names = set(re.findall(r'"([\w-]+\.\w+)"', script.text))
        if there.returncode != 0:
            scratch.missing |= {x for x in names if not os.path.exists(
                os.path.join(scratch.folder, x))}
            return MISSING
        done = subprocess.run([python, "-c", script.text], cwd=scratch.folder,
                              env=scratch.environment, capture_output=True,
                              text=True, check=False, timeout=DEADLINE_S)
        self.assertEqual(done.returncode, 0, f"{script.where}: {done.stderr}")
        return "run"

    def check_taken(self, scratch, command):
        """Of one that is not run: its flags are the program's."""
        if has_placeholder(command) or not command.text.startswith("troupe "):
            return
        words = command.words()[1:]
        if "--" in words:
            words = words[words.index("--") + 1:]
        words = [re.sub(r"10\.0\.0\.\d", "127.0.0.1", x) for x in words]
        if words[0] not in ("train", "plan", "role") \
                and words[:2] not in (["bench", "step"], ["bench", "kernels"]):
            return  # it prints no configuration
        if words[:2] == ["role", "--certificates"]:
            return  # of a task of TF_CONFIG
        done = subprocess.run(
            [os.path.abspath(TROUPE), *words, "--print-config"],
            cwd=scratch.folder, capture_output=True, text=True, timeout=60,
            check=False)
        self.check_done(done, command)

    def check_pattern(self, command):
        """What stands for something is of a command that there is."""
        words = [x for x in re.split(r"[\s|;]+", command.text)[1:]
                 if re.fullmatch(r"[a-z-]+", x)]
        self.assertTrue(not words or words[0] in self.names, command.where)

    # --- those that need others beside them -----------------------------------

    def test_every_listing_is_of_a_command_that_is_there(self):
        for document, begin, _, why in LISTED:
            self.assertTrue(self.those(document, begin) if document
                            in self.found else [], (document, begin, why))

    def test_a_run_and_its_status(self):
        train, = self.those("README.md",
                            "troupe train --data synthetic:digits --epochs 20")
        status, = self.those("README.md", "troupe status ")
        address = status.text.split()[-1]
        self.assertIn(address, train.text)
        here = f"127.0.0.1:{free_port()}"
        run = self.background(train.text.replace(address, here).replace(
            "--epochs 20", "--epochs 20000"))
        wait_for(lambda: here in run.said() or run.poll() is not None,
                 "the address")
        done = self.scratch.run(status.text.replace(address, here))
        self.check_done(done, status)
        self.assertRegex(done.stdout, r"^step \d+, data epoch \d+")

    def by_hand(self, texts, **environment):
        """All of them at once; each ends well."""
        running = [(text, self.background(text, **environment))
                   for text in texts]
        for text, process in running:
            self.assertEqual(process.wait(DEADLINE_S), 0,
                             f"{text}\n{process.said()}")

    # "To try it on one machine, write 127.0.0.1 everywhere."
    def test_roles_by_hand_on_one_machine(self):
        port = free_port()

        def here(command):
            text = re.sub(r"\s#.*", "", command.text)
            return re.sub(r"10\.0\.0\.\d:7000", f"127.0.0.1:{port}", text)
        head, *rest = [x for x in self.those("README.md", "troupe role ")
                       if "--coordinator 10." in x.text
                       or "--listen 10." in x.text]
        self.assertEqual(len(rest), 3)
        coordinator = self.background(here(head))
        wait_for(lambda: "listens on" in coordinator.said()
                 or coordinator.poll() is not None, "the coordinator")
        token, = self.those("README.md", "troupe certificates token ")
        done = self.scratch.run(token.text)
        self.check_done(done, token)
        *others, last = rest
        with_token = here(last).replace("--certificates certs",
                                        "--certificates mine --token "
                                        + done.stdout.strip())
        self.by_hand([*map(here, others), with_token])
        self.assertEqual(coordinator.wait(DEADLINE_S), 0, coordinator.said())
        self.assertTrue(os.path.exists(os.path.join(self.scratch.folder,
                                                    "digits.safetensors")))

    def test_tasks_of_a_tf_config(self):
        export, = self.those("README.md", "export TF_CONFIG")
        role, = [x for x in self.those("README.md", "troupe role ")
                 if "--coordinator" not in x.text and "--listen" not in x.text]
        ports = collections.defaultdict(free_port)
        config = re.search(r"'(.*)'", export.text, re.DOTALL).group(1)
        config = re.sub(r"10\.0\.0\.\d:\d+",
                        lambda x: f"127.0.0.1:{ports[x.group(0)]}", config)

        def task(kind, index):
            return {"TF_CONFIG": re.sub(
                r'"task": \{.*?\}',
                f'"task": {{"type": "{kind}", "index": {index}}}', config)}
        chief = self.background(
            f"{role.text} --data synthetic:digits", **task("chief", 0))
        wait_for(lambda: "listens on" in chief.said()
                 or chief.poll() is not None, "the chief")
        tasks = [self.background(role.text, **task(*who)) for who in
                 (("ps", 0), ("worker", 0), ("worker", 1))]
        for process in (*tasks, chief):
            self.assertEqual(process.wait(DEADLINE_S), 0, process.said())


if __name__ == "__main__":
    unittest.main()
