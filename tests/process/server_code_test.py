"""Code of the user's own in the shards: a plug-in's filter and rule, by name."""

import os
import unittest

from cluster import TROUPE, Run

PLUGIN = os.path.join(os.path.dirname(os.path.abspath(TROUPE)), "..", "tests",
                      "libplain_rules.so")
JOB = ["--data", "synthetic:digits?samples=600", "--model", "mlp:784-16-10",
       "--steps", "12", "--optimizer", "sgd", "--seed", "3"]
SERVED = ["--strategy", "parameter_server", "--workers", "2", "--ps", "2"]


def weights(*arguments):
    with Run(*JOB, *arguments) as run:
        return run.finish()["weights_sha256"]


def refusal(*arguments):
    with Run(*JOB, *arguments) as run:
        run.finish(status=2)
        return run.error()


class ServerCode(unittest.TestCase):
    def test_a_rule_of_a_plugin_updates_like_the_same_rule_built_in(self):
        plain = weights(*SERVED, "--lr", "0.5")
        own = ["--plugin", PLUGIN, "--server-rule", "plain_sgd", "--lr", "0.5"]
        self.assertEqual(weights(*SERVED, *own), plain)
        # In processes, of which each loads it, and down a chain.
        self.assertEqual(weights(*SERVED, *own, "--processes", "--chain", "2"),
                         plain)

    def test_a_filter_changes_what_the_rule_sees(self):
        halved = weights(*SERVED, "--plugin", PLUGIN, "--server-filter",
                         "halve", "--lr", "0.5")
        self.assertEqual(halved, weights(*SERVED, "--lr", "0.25"))
        self.assertNotEqual(halved, weights(*SERVED, "--lr", "0.5"))

    def test_a_filter_that_is_built_in_needs_no_plugin(self):
        self.assertEqual(weights(*SERVED, "--server-filter", "finite"),
                         weights(*SERVED))

    def test_what_is_not_there_is_named(self):
        self.assertIn("there are: finite",
                      refusal(*SERVED, "--server-filter", "absent"))
        self.assertIn("load one with --plugin",
                      refusal(*SERVED, "--server-rule", "absent"))
        self.assertIn("parameter_server",
                      refusal("--server-filter", "finite"))
        with Run(*JOB, *SERVED, "--plugin", "absent.so") as run:
            run.finish(status=1)
            self.assertIn("--plugin absent.so: ", run.error())


if __name__ == "__main__":
    unittest.main()
