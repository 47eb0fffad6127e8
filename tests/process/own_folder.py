"""A folder for each test; for the tests beside."""

import os
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
