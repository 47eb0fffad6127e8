"""A folder for each test, and an end that tells a skip; for the tests beside."""

import os
import sys
import tempfile
import unittest


class OwnFolder(unittest.TestCase):
    """Tests with a folder each, which goes with the test."""

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, *names):
        return os.path.join(self.folder, *names)


def run_tests():
    """unittest.main, but that all tests that are skipped are a skip (77)."""
    result = unittest.main(exit=False).result
    if result.skipped and len(result.skipped) == result.testsRun:
        print("skipped:", result.skipped[0][1])
        sys.exit(77)
    sys.exit(not result.wasSuccessful())
