"""The folder with a job's certificates: made whole or not at all, and of nobody
else, as ssh asks of its own."""
# ctest: TIMEOUT 600

import os
import shutil
import stat
import subprocess
import tempfile
import unittest

from cluster import TROUPE

JOB = ["--data", "synthetic:digits?samples=64", "--model", "mlp:784-4-10",
       "--join-deadline-ms", "200"]
FILES = {"ca.pem", "ca.key"}


class Certificates(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.parent = folder.name
        self.folder = os.path.join(folder.name, "certs")

    def coordinator(self, folder=None):
        """Makes them, or takes those that are there, and gives up as nobody
        joins."""
        return subprocess.run(
            [TROUPE, "role", "coordinator", *JOB, "--certificates",
             folder or self.folder], capture_output=True, text=True,
            timeout=60, check=False)

    def worker(self):
        return subprocess.run(
            [TROUPE, "role", "worker:0", "--coordinator", "127.0.0.1:9",
             "--certificates", self.folder], capture_output=True, text=True,
            timeout=60, check=False)

    @staticmethod
    def files(folder):
        """Without those of the coordinator's own journal."""
        return {name for name in os.listdir(folder)
                if not name.startswith("journal-")}

    def make(self):
        self.assertIn("did not join", self.coordinator().stderr)
        self.assertEqual(self.files(self.folder), FILES)

    def refused(self, *parts):
        for answer in (self.coordinator(), self.worker()):
            self.assertEqual(answer.returncode, 1, answer.stderr)
            self.assertRegex(answer.stderr,
                             r"\Atroupe: certificates: [^\n]+\n\Z")
            for part in parts:
                self.assertIn(part, answer.stderr)

    def mode(self, *name):
        return stat.S_IMODE(os.stat(os.path.join(self.folder, *name)).st_mode)

    def test_they_are_made_private_and_whole(self):
        self.make()
        self.assertEqual(self.mode(), 0o700)
        for name in FILES:
            self.assertEqual(self.mode(name), 0o600)
        self.assertEqual(os.listdir(self.parent), ["certs"])
        self.make()  # the same again

    def test_the_mode_of_a_folder_that_is_there_stays_what_it_is(self):
        """A folder of the user's was made 0700 without a word."""
        os.mkdir(self.folder)
        os.chmod(self.folder, 0o755)
        self.make()
        self.assertEqual(self.mode(), 0o755)
        self.assertEqual(self.mode("ca.key"), 0o600)

    def test_a_key_that_others_may_read_is_refused(self):
        self.make()
        for mode in (0o640, 0o604, 0o666):
            os.chmod(os.path.join(self.folder, "ca.key"), mode)
            self.refused("ca.key", f"{mode:04o}", "chmod 600")

    def test_a_place_that_others_may_write_to_is_refused(self):
        self.make()
        os.chmod(self.folder, 0o770)
        self.refused("others may write", "chmod go-w")
        os.chmod(self.folder, 0o700)
        os.chmod(os.path.join(self.folder, "ca.pem"), 0o602)
        self.refused("ca.pem", "others may write", "chmod go-w")

    @unittest.skipIf(os.geteuid() != 0, "only root gives files away")
    def test_what_belongs_to_another_user_is_refused(self):
        self.make()
        for name in ("", *FILES):
            path = os.path.join(self.folder, name)
            os.chown(path, 12345, -1)
            self.refused("belongs to another user (number 12345)")
            os.chown(path, 0, -1)
        self.make()

    def test_half_a_set_says_what_is_missing(self):
        """It said "File exists"."""
        self.make()
        os.remove(os.path.join(self.folder, "ca.pem"))
        self.refused("half a set", "ca.pem is missing")
        shutil.rmtree(self.folder)
        self.make()
        os.remove(os.path.join(self.folder, "ca.key"))
        self.refused("has no certificate for")
        for name in ("coordinator", "worker-0"):
            shutil.copy(os.path.join(self.folder, "ca.pem"),
                        os.path.join(self.folder, name + ".pem"))
        self.refused("half a set", ".key is missing")

    def test_one_that_was_being_made_by_somebody_killed_is_no_hindrance(self):
        os.mkdir(self.folder + ".new-abcdef")
        self.make()

    def test_two_coordinators_that_make_them_at_once_have_the_same(self):
        both = [subprocess.Popen(
            [TROUPE, "role", "coordinator", *JOB, "--certificates",
             self.folder], stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True) for _ in range(2)]
        for one in both:
            self.assertIn("did not join", one.communicate(timeout=60)[1])
        self.assertEqual(os.listdir(self.parent), ["certs"])
        self.make()


if __name__ == "__main__":
    unittest.main()
