"""What is shipped to run Troupe on other people's machines: the units are
systemd's language and their commands the program's, an agent behind the socket
unit trains what troupe launch asks it for, and the image's script builds what it
says."""
# ctest: TIMEOUT 300

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from cluster import DEADLINE_S, TROUPE, Run, troupe, wait_for
from own_folder import OwnFolder

SOURCE = Path(__file__).resolve().parents[2]
UNITS = SOURCE / "cmake" / "systemd"
IMAGE = SOURCE / "cmake" / "image"
DIGITS = ["--data", "synthetic:digits?samples=2000", "--model", "mlp:784-48-10",
          "--seed", "7", "--epochs", "2"]
# What `ssh HOST COMMAND` is where a key is bound to the socket: the command is
# not looked at.
OVER_SOCKET = """#!{python}
import os, socket, sys, threading
there = socket.socket(socket.AF_UNIX)
there.connect({path!r})
def copy(source, sink, close):
    while data := source(1 << 16):
        sink(data)
    close()
def write(data):
    while data:
        data = data[os.write(1, data):]
threading.Thread(target=copy, args=(lambda n: os.read(0, n), there.sendall,
                 lambda: there.shutdown(socket.SHUT_WR)), daemon=True).start()
copy(there.recv, write, lambda: None)
"""


def lines_of(unit, key):
    return re.findall(rf"(?m)^{key}=(.*)$", (UNITS / unit).read_text())


class Units(OwnFolder):
    def test_systemd_takes_every_unit_without_a_word(self):
        for unit in UNITS.iterdir():
            text = unit.read_text().replace("/usr/bin/troupe",
                                            os.path.realpath(TROUPE))
            with open(self.path(unit.name), "w") as file:
                file.write(text)
        for template, instance in (("troupe@.service", "troupe@digits.service"),
                                   ("troupe-node@.service",
                                    "troupe-node@1.service")):
            shutil.copy(self.path(template), self.path(instance))
        for unit in ("troupe@digits.service", "troupe-node@1.service",
                     "troupe-node.socket"):
            done = subprocess.run(
                ["systemd-analyze", "verify", "--man=no", self.path(unit)],
                capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            own = [line for line in done.stderr.splitlines() if "troupe" in line]
            self.assertEqual(own, [])

    def test_the_job_unit_trains_what_its_file_says_and_goes_on(self):
        command, = lines_of("troupe@.service", "ExecStart")
        words = command.replace("/etc/troupe/%i.toml", "job.toml").split()
        self.assertEqual(words[:2], ["/usr/bin/troupe", "train"])
        with open(self.path("job.toml"), "w") as file:
            file.write(troupe("train", *DIGITS, "--print-config"))
        with Run(*DIGITS) as run:
            expected = run.finish()["weights_sha256"]
        # Started again after its end there is nothing left to train.
        for step in (0, 64):
            with Run(*words[2:], cwd=self.folder) as run:
                summary = run.finish()
            self.assertEqual(summary["weights_sha256"], expected)
            resumed = summary["resumed_from"]
            self.assertEqual(resumed["step"] if resumed else 0, step)

    @unittest.skipUnless(shutil.which("systemd-socket-activate"),
                         "needs systemd-socket-activate")
    def test_an_agent_behind_the_socket_is_a_host_of_launch(self):
        words = lines_of("troupe-node@.service", "ExecStart")[0].split()
        self.assertEqual(words, ["/usr/bin/troupe", "node"])
        # systemd's own stand-in for a socket unit with Accept=yes.
        listener = subprocess.Popen(
            ["systemd-socket-activate", "--accept", "--inetd", "--listen",
             self.path("node"), os.path.realpath(TROUPE), *words[1:]],
            stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(listener.wait)
        self.addCleanup(listener.kill)
        wait_for(lambda: os.path.exists(self.path("node")), "a socket")
        with open(self.path("over-socket"), "w") as file:
            file.write(OVER_SOCKET.format(python=sys.executable,
                                          path=self.path("node")))
            os.fchmod(file.fileno(), 0o700)
        with open(self.path("hosts"), "w") as file:
            file.write("other slots=2 address=127.0.0.1\n")
        with Run(*DIGITS, "--strategy", "one_device") as run:
            expected = run.finish()["weights_sha256"]
        done = subprocess.run(
            [TROUPE, "launch", "--hosts-file", self.path("hosts"), "--address",
             "127.0.0.1", "--ssh", self.path("over-socket"), "--", "train",
             *DIGITS, "--strategy", "multi_worker_mirrored", "--workers", "2",
             "--summary", self.path("summary.json")],
            capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(f'"{expected}"', Path(self.path("summary.json")).read_text())

        def children():
            return subprocess.run(["pgrep", "--parent", str(listener.pid)],
                                  capture_output=True, check=False).stdout
        wait_for(lambda: not children(), "the agent's end")


class Image(OwnFolder):
    def package(self, depends):
        """A package without files, of a Debian with these."""
        os.makedirs(self.path("deb", "DEBIAN"), exist_ok=True)
        with open(self.path("deb", "DEBIAN", "control"), "w") as file:
            file.write("Package: troupe\nVersion: 1.2.3\nArchitecture: all\n"
                       "Maintainer: nobody <nobody@troupe.invalid>\n"
                       f"Depends: {depends}\nDescription: none\n")
        subprocess.run(["dpkg-deb", "--build", self.path("deb"),
                        self.path("troupe.deb")], check=True, timeout=60,
                       stdout=subprocess.DEVNULL)
        return self.path("troupe.deb")

    def call(self, *arguments, status=0, path=None):
        done = subprocess.run(
            [IMAGE / "build", *arguments], capture_output=True, text=True,
            timeout=60, check=False,
            env={**os.environ, "PATH": path or os.environ["PATH"]})
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout if status == 0 else done.stderr

    def test_the_base_is_the_debian_that_the_package_was_built_on(self):
        for depends, debian in (("libc6, libssl3 (>= 3.0.0)", "bookworm"),
                                ("libc6, libssl3t64 (>= 3.0.0)", "trixie")):
            said = self.call("--package", self.package(depends), "--print",
                             "--with", "docker")
            self.assertRegex(said, r"\Adocker build --file "
                             rf"cmake/image/Containerfile .*=?{debian} ")
            self.assertIn(" --tag troupe:1.2.3 ", said)
        self.assertIn("cannot tell", self.call(
            "--package", self.package("libc6"), "--print", status=1))

    def test_it_calls_the_builder_with_the_package_and_nothing_else(self):
        os.mkdir(self.path("bin"))
        with open(self.path("bin", "buildah"), "w") as file:
            file.write('#!/bin/sh\nfor last; do :; done\necho "$@" > '
                       f'{self.path("called")}\nls -A "$last" > '
                       f'{self.path("context")}\n')
            os.fchmod(file.fileno(), 0o700)
        said = self.call("--package", self.package("libssl3"), "--name",
                         "mine:1", path=f"{self.path('bin')}:"
                         f"{os.environ['PATH']}")
        self.assertEqual(said, "mine:1\n")
        called = Path(self.path("called")).read_text().split()
        self.assertEqual(called[0], "build")
        self.assertIn("DEBIAN=bookworm", called)
        self.assertEqual(Path(self.path("context")).read_text(), "troupe.deb\n")
        # What the recipe asks for is what it is given.
        recipe = (IMAGE / "Containerfile").read_text()
        given = [x.split("=")[0] for x in called if re.match(r"[A-Z]+=", x)]
        self.assertEqual(sorted(re.findall(r"(?m)^ARG (\w+)", recipe)),
                         sorted(given))
        # Pods say the same user (apps/launch/kubernetes.cpp).
        user = re.search(r"(?m)^USER (\d+)", recipe).group(1)
        source = (SOURCE / "apps/launch/kubernetes.cpp").read_text()
        self.assertIn(f"user = {user};", source.replace("'", ""))

    def test_a_mistake_is_one_line(self):
        self.assertRegex(self.call("--colour", status=2), r"\A.*unknown.*\n\Z")
        self.assertRegex(self.call("--package", "none.deb", status=1),
                         r"\A.*there is no such package\n\Z")
        with tempfile.TemporaryDirectory() as empty:
            for name in ("bash", "dpkg-deb", "dirname", "tar", "sed", "env"):
                os.symlink(shutil.which(name), os.path.join(empty, name))
            self.assertIn("none of buildah", self.call(
                "--package", self.package("libssl3"), status=77, path=empty))


if __name__ == "__main__":
    for tool in ("systemd-analyze", "dpkg-deb", "pgrep"):
        if shutil.which(tool) is None:
            print(f"needs {tool}")
            sys.exit(77)
    unittest.main()
