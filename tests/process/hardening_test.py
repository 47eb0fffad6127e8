"""The program that users get is hardened: a mistake in memory ends it."""

import re
import subprocess
import unittest

from cluster import TROUPE


class Hardening(unittest.TestCase):
    def check(self, flag, pattern):
        """What readelf says of the program."""
        said = subprocess.run(["readelf", "--wide", flag, TROUPE], check=True,
                              capture_output=True, text=True,
                              timeout=120).stdout
        self.assertTrue(re.search(pattern, said), f"readelf {flag}: {pattern}")

    def test_the_program_lies_where_nobody_expects_it(self):
        self.check("--file-header", r"Type: +DYN ")
        self.check("--dynamic", r"FLAGS_1.*\bPIE\b")

    def test_its_tables_of_addresses_cannot_be_written(self):
        self.check("--program-headers", r"GNU_RELRO")
        self.check("--dynamic", r"BIND_NOW|FLAGS.*\bNOW\b")

    def test_its_stack_holds_no_code(self):
        self.check("--program-headers", r"GNU_STACK.* RW +0x")

    def test_overflows_are_noticed(self):
        for function in (r"\b__stack_chk_fail\b",
                         r"\b__(memcpy|snprintf|vsnprintf|read|pread)_chk\b",
                         r"__glibcxx_assert_fail"):
            self.check("--dyn-syms", function)


if __name__ == "__main__":
    unittest.main()
