"""An outside project finds an installed Troupe and trains with it."""

# ctest: TIMEOUT 600

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILD = os.environ["TROUPE_BUILD"]


class Install(unittest.TestCase):
    def run_quietly(self, *words):
        done = subprocess.run([str(word) for word in words],
                              capture_output=True, text=True, timeout=500)
        self.assertEqual(done.returncode, 0,
                         f"{words}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def test_an_outside_project_builds_and_trains_on_its_own_arrays(self):
        with tempfile.TemporaryDirectory() as folder:
            prefix, build = Path(folder) / "prefix", Path(folder) / "build"
            self.run_quietly("cmake", "--install", BUILD, "--prefix", prefix)
            self.assertTrue((prefix / "include/troupe/actors/trainer.hpp")
                            .exists())
            self.run_quietly("cmake", "-S", HERE / "project", "-B", build,
                             "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                             f"-DCMAKE_PREFIX_PATH={prefix}")
            # It must not see this checkout.
            ninja = (build / "build.ninja").read_text()
            self.assertNotIn(f"{HERE.parents[1]}/actors", ninja)
            self.run_quietly("cmake", "--build", build)
            printed = self.run_quietly(build / "outside")
            self.assertRegex(printed, r"loss \d")
            accuracy = float(re.search(r"accuracy ([\d.]+)", printed).group(1))
            self.assertGreater(accuracy, 0.9)


if __name__ == "__main__":
    if not (HERE.parents[1] / "actors" / "trainer.hpp").exists():
        print("skipped: there is no actors/trainer.hpp yet")
        sys.exit(77)
    unittest.main()
