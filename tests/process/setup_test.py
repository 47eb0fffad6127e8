"""cmake/setup says in the first seconds what cannot work, in one line, and takes
CAF's source from nobody whose files are not those of the release."""

import os
import signal
import subprocess
import tarfile
import tempfile
import time
import unittest
from pathlib import Path

from cluster import wait_for

ROOT = Path(__file__).resolve().parents[2]
SETUP = ROOT / "cmake" / "setup"


def unshared(*flags):
    """A command's words that run what follows in namespaces of its own; none
    where that is not allowed."""
    words = ["unshare", *(["-r"] if os.getuid() else []), *flags]
    tried = subprocess.run([*words, "true"], capture_output=True, check=False)
    return words if tried.returncode == 0 else None


def is_group(group):
    """Whether any process of the group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


class Setup(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def refused(self, *arguments, before=(), **variables):
        """The one line of a set-up that gives up at once."""
        environment = {key: value for key, value in os.environ.items()
                       if key not in ("CXX", "CMAKE_PREFIX_PATH")}
        environment.update(TROUPE_CACHE=str(self.folder / "cache"))
        environment.update({key: str(value)
                            for key, value in variables.items()})
        done = subprocess.run([*before, str(SETUP), *arguments],
                              capture_output=True, text=True, timeout=120,
                              check=False, env=environment)
        lines = done.stderr.splitlines()
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        said = [line for line in lines if line.startswith("cmake/setup: ")]
        self.assertEqual(len(said), 1, done.stderr)
        return said[0]

    def compiler(self, name, version, text):
        """A program that calls itself a compiler of this version."""
        path = self.folder / name
        path.write_text("#!/bin/sh\ncase $1 in -dump*) echo " + version
                        + ";; *) echo '" + text + "';; esac\n")
        path.chmod(0o755)
        return path

    def on_system(self, release):
        """Words that run what follows where /etc/os-release says so."""
        words = unshared("-m")
        if words is None:
            self.skipTest("no mount namespace can be made here")
        file = self.folder / "os-release"
        file.write_text(release)
        return [*words, "sh", "-c",
                'mount --bind "$0" "$(readlink -f /etc/os-release)" && "$@"',
                str(file)]

    def test_an_archive_with_other_files_is_refused_by_its_sum(self):
        inside = self.folder / "release"
        inside.mkdir()
        (inside / "CMakeLists.txt").write_text("project(CAF)\n")
        archive = self.folder / "caf.tar.gz"
        with tarfile.open(archive, "w:gz") as tar:
            tar.add(inside, "release")
        line = self.refused("--caf-only", TROUPE_CAF_ARCHIVE=archive)
        self.assertIn("its files are not those of the release", line)
        self.assertIn(str(archive), line)
        self.assertFalse(list((self.folder / "cache").glob("caf-source*")))

    def shell(self, script, **variables):
        """What a script prints, and how long until its end is read."""
        began = time.monotonic()
        done = subprocess.run(
            ["bash", "-c", "set -euo pipefail\n" + script], cwd=ROOT,
            capture_output=True, text=True, timeout=60, check=False,
            env={**os.environ, "TROUPE_PROGRESS_S": "0.5",
                 "FOLDER": str(self.folder), **variables})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout, time.monotonic() - began

    def test_a_build_says_how_far_it_is(self):
        said, _ = self.shell("""
program=here logs=$FOLDER
source cmake/steps
{ for i in 1 2 3 4; do echo "[$i/4] compiling"; sleep 0.6; done; } \\
  | watch_build "$FOLDER/log"
""")
        self.assertRegex(said, r"(?m)^building    \[1/4\], \d s$")
        self.assertRegex(said, r"(?m)^building    \[[34]/4\], \d s$")
        self.assertEqual((self.folder / "log").read_text().count("\n"), 4)

    def test_how_long_a_build_may_still_take_is_told_once_it_is_known(self):
        said, _ = self.shell("""
source cmake/report_progress
for of in '[10/310] 30' '[ 50%] 200' '[1/400] 19' '[7/7] 60' ' 60'; do
  echo "so$(time_left "${of% *}" "${of##* }")"
done
""")
        self.assertEqual(said, "so, about 15 min left\nso, about 4 min left\n"
                         + "so\n" * 3)

    # The shell was in the build, and heard of it when that was done.
    def test_a_build_that_is_told_to_end_ends(self):
        for sent, status in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
            with self.subTest(sent), subprocess.Popen(
                    ["bash", "-c", """
set -euo pipefail
program=here logs=$FOLDER
source cmake/steps
attend watched "$FOLDER/log" sh -c 'echo $$ >"$FOLDER/build"; sleep 99; :'
"""], cwd=ROOT, stderr=subprocess.PIPE, text=True,
                    env={**os.environ, "FOLDER": str(self.folder)}) as shell:
                build = self.folder / "build"
                wait_for(lambda: build.exists() and build.read_text(),
                         "the build")
                group = os.getpgid(int(build.read_text()))
                build.unlink()
                shell.send_signal(sent)
                self.assertEqual(shell.wait(10), status)
                self.assertIn("here: interrupted; call it again",
                              shell.stderr.read())
                wait_for(lambda: not is_group(group), "the build's end")

    def test_so_does_a_set_up_and_nothing_of_it_is_left(self):
        source = """
cache=$FOLDER compiler=g++ variant=release root=$PWD quiet=%d
source cmake/caf_steps
run_long 'doing it' "$FOLDER/log" sh -c 'echo done; sleep 1.2'
! run_long 'failing' "$FOLDER/log" false
"""
        said, _ = self.shell(source % 0)
        self.assertRegex(said, r"\A(setup: doing it, \d s\n)+\Z")
        self.assertEqual(self.shell(source % 1)[0], "")
        self.assertEqual((self.folder / "log").read_text(), "done\n" * 2)
        # Whoever reads is not kept by what waits for the next line.
        _, took = self.shell(source % 0, TROUPE_PROGRESS_S="20")
        self.assertLess(took, 10)

    def test_an_archive_that_is_not_there_is_named(self):
        line = self.refused("--caf-only", TROUPE_CAF_ARCHIVE="/no/such.tar.gz")
        self.assertIn("/no/such.tar.gz: there is no such file", line)

    def test_without_a_network_both_origins_and_the_remedy_are_named(self):
        words = unshared("-n")
        if words is None:
            self.skipTest("no network namespace can be made here")
        line = self.refused("--caf-only", before=words)
        self.assertIn("debian: ", line)
        self.assertIn("upstream: ", line)
        self.assertIn("TROUPE_CAF_ARCHIVE=FILE", line)

    def test_compilers_that_are_too_old_or_not_there_are_named(self):
        old = self.compiler("old-g++", "11", "g++ 11.4.0")
        self.assertIn("GCC 12 is the oldest", self.refused(CXX=old))
        old = self.compiler("old-clang", "15.0.7", "clang version 15.0.7")
        self.assertIn("clang 16 is the oldest", self.refused(CXX=old))
        line = self.refused(CXX="/no/compiler")
        self.assertIn("looking for the compiler /no/compiler", line)

    def test_systems_that_are_too_old_are_named(self):
        for release, name in (
                ('ID=debian\nVERSION_ID="11"\nPRETTY_NAME="Debian 11"\n',
                 "Debian 11"),
                ('ID=ubuntu\nVERSION_ID="22.04"\nPRETTY_NAME="Ubuntu 22.04"\n',
                 "Ubuntu 22.04")):
            line = self.refused(before=self.on_system(release))
            self.assertIn(name, line)
            self.assertIn("Debian 12 or Ubuntu 24.04", line)

    def test_a_cache_without_room_or_place_is_named(self):
        line = self.refused(TROUPE_CACHE="/proc/cache")
        self.assertIn("TROUPE_CACHE=DIR", line)
        words = unshared("-m")
        if words is None:
            self.skipTest("no mount namespace can be made here")
        small = self.folder / "small"
        small.mkdir()
        line = self.refused(
            before=[*words, "sh", "-c",
                    'mount -t tmpfs -o size=20m none "$0" && "$@"', str(small)],
            TROUPE_CACHE=small)
        self.assertIn("20 MiB are free", line)


if __name__ == "__main__":
    unittest.main()
