"""`troupe launch` and hosts that drop off the network: their roles end by
themselves, and the run goes on with them once they are back; launchers that are
killed at any moment leave nothing but what recorders have."""
# nightly
# ctest: TIMEOUT 1800

import os
import random
import signal
import time
import unittest

from cluster import wait_for
from launch_hosts_test import ENDLESS, MIRRORED, SERVED, LaunchHosts
from sshd import program

KILLS = int(os.environ.get("TROUPE_LAUNCH_KILLS", "200"))
SEED = int(os.environ.get("TROUPE_LAUNCH_SEED", "1"))


class LaunchLostHosts(LaunchHosts):
    def test_a_host_that_was_cut_off_ends_its_roles_by_itself(self):
        run = self.launch(*MIRRORED, *ENDLESS)
        self.wait_for_step(run, 20)
        self.assertTrue(self.sshd.roles(2))
        self.hosts.unplug(2)
        run.process.kill()
        run.process.wait()
        # Nobody can tell it: an agent hears nothing for half a minute.
        wait_for(lambda: not list(self.sshd.processes(2)), "the roles end", 60)
        self.hosts.plug(2)
        self.nothing_is_left(flights=True)

    def test_a_host_that_comes_back_is_used_again(self):
        run = self.launch(*SERVED, *ENDLESS)
        self.wait_for_step(run, 20)
        roles = set(self.sshd.roles(2))
        old = set(self.sshd.roles(2).values())
        self.hosts.unplug(2)
        wait_for(lambda: "is lost" in run.output(), "the host is lost", 60)
        self.hosts.plug(2)
        wait_for(lambda: set(self.sshd.roles(2)) >= roles
                 and not old & set(self.sshd.roles(2).values()),
                 "its roles are back", 120)
        self.wait_for_step(run, self.step(run) + 40)
        run.process.send_signal(signal.SIGTERM)
        run.finish(143)
        self.nothing_is_left(flights=True)

    def test_a_host_that_was_away_for_a_while_spends_no_restart(self):
        """Each of its roles that was ended for its silence spent one (10 s: its
        agent's connection lasts), and so did each try to reach it (40 s: it does
        not). Nothing can be committed without them."""
        for seconds, restarts in ((10, 1), (40, 2)):
            with self.subTest(seconds=seconds):
                run = self.launch("--strategy", "pipeline", "--stages", "3",
                                  "--restarts", str(restarts),
                                  "--join-deadline-ms", "120000", *ENDLESS,
                                  where="h1,h2:2")
                self.wait_for_step(run, 20)
                old = set(self.sshd.roles(2).values())
                self.assertEqual(len(old), 2)
                self.hosts.unplug(2)
                time.sleep(seconds)
                self.hosts.plug(2)
                wait_for(lambda: run.process.poll() is not None
                         or len(set(self.sshd.roles(2).values()) - old) == 2,
                         "its roles are back", 120)
                self.assertIsNone(run.process.poll(), run.error())
                self.assertIn(": started again", run.output())
                self.wait_for_step(run, self.step(run) + 40)
                run.process.send_signal(signal.SIGTERM)
                run.finish(143)
                self.nothing_is_left(flights=True)

    def test_launchers_are_killed_at_random_moments(self):
        draw = random.Random(SEED)
        for number in range(KILLS):
            with self.subTest(seed=SEED, kill=number):
                run = self.launch(*draw.choice((MIRRORED, SERVED)), *ENDLESS)
                time.sleep(draw.uniform(0, 4))
                run.process.kill()
                run.process.wait()
                self.nothing_is_left(flights=True)


def load_tests(loader, *_):
    """Its own alone, not those that it inherits."""
    return unittest.TestSuite(
        LaunchLostHosts(name) for name in vars(LaunchLostHosts)
        if name.startswith("test_"))


if __name__ == "__main__":
    program()
    unittest.main()
