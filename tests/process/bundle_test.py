#!/usr/bin/env python3
"""cmake/bundle: its folder runs where nothing but glibc and libstdc++ is."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TROUPE = os.environ.get("TROUPE")
SYSTEM = ("libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0",
          "librt.so.1", "libresolv.so.2", "libstdc++.so.6", "libgcc_s.so.1",
          "ld-linux-x86-64.so.2")


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def system_library(name):
    """Where this machine has a library that every machine has."""
    listed = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True,
                            check=True, env={"PATH": "/sbin:/usr/sbin:/bin"})
    for line in listed.stdout.splitlines():
        if line.split()[:1] == [name] and "x86-64" in line:
            return Path(line.split("=>")[1].strip())
    return None


def enter(root):
    """A command's words that run what follows with `root` as the root."""
    for words in (["chroot"], ["unshare", "-r", "chroot"]):
        tried = subprocess.run([*words, "/", "true"], capture_output=True,
                               check=False)
        if tried.returncode == 0:
            return [*words, str(root)]
    return None


def make_bundle(output):
    return subprocess.run(
        [ROOT / "cmake" / "bundle", Path(TROUPE).parents[1], output],
        capture_output=True, text=True, check=False)


class Bundle(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.memory = tempfile.TemporaryDirectory()
        cls.root = Path(cls.memory.name) / "root"
        cls.bundle = cls.root / "bundle"
        cls.bundle.mkdir(parents=True)
        cls.archive = Path(cls.memory.name) / "troupe.tar.gz"
        made = make_bundle(cls.archive)
        if made.returncode == 77:
            skip(made.stderr.strip())
        assert made.returncode == 0, made.stderr
        subprocess.run(["tar", "-C", cls.bundle, "-xzf", cls.archive],
                       check=True)
        cls.words = enter(cls.root)
        if cls.words is None:
            skip("chroot and unshare -r are not allowed here")
        for folder in ("lib", "lib64", "tmp"):
            (cls.root / folder).mkdir()
        for name in SYSTEM:
            if (found := system_library(name)) is not None:
                shutil.copy(found, cls.root / "lib" / name)
        shutil.copy(cls.root / "lib" / "ld-linux-x86-64.so.2",
                    cls.root / "lib64")

    @classmethod
    def tearDownClass(cls):
        cls.memory.cleanup()

    def run_inside(self, *words):
        # Without it the loader does not know where $ORIGIN is.
        program = self.root / "proc" / "self" / "exe"
        program.parent.mkdir(parents=True, exist_ok=True)
        program.unlink(missing_ok=True)
        program.symlink_to(words[0])
        return subprocess.run([*self.words, *words], capture_output=True,
                              text=True, timeout=120, check=False,
                              env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})

    def test_programs_start_in_an_empty_root(self):
        done = self.run_inside("/bundle/troupe", "--version")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("troupe", done.stdout)
        for name in ("test_kernels", "test_gpu"):
            if (self.bundle / name).exists():
                done = self.run_inside(f"/bundle/{name}", "--list_content")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("_test", done.stderr + done.stdout)

    def test_a_missing_gpu_is_the_only_complaint(self):
        if not (self.bundle / "gpu_step").exists():
            self.skipTest("gpu_step is not built")
        done = self.run_inside("/bundle/gpu_step")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "cuda:0: (no usable GPU|this build)")
        done = self.run_inside("/bundle/gpu_step", "--device", "cpu:0",
                               "--batch", "4", "--steps", "1", "--runs", "1",
                               "--skipped", "0")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('"losses"', done.stdout)

    def test_what_is_there_is_left_alone(self):
        for output, why in ((self.bundle, "is not empty"),
                            (self.archive, "is there already")):
            again = make_bundle(output)
            self.assertEqual(again.returncode, 1)
            self.assertIn(why, again.stderr)


if __name__ == "__main__":
    if not TROUPE or not Path(TROUPE).exists():
        skip("troupe is not built")
    unittest.main()
