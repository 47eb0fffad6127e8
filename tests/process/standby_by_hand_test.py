"""Two coordinators with three voters, each started by hand: what is wrong with
one of them is said while the others go on."""
# ctest: TIMEOUT 300

import os
import re
import time
import unittest

from cluster import wait_for
from own_folder import OwnFolder
from prometheus_test import free_port
from roles import Role

JOB = ["--data", "synthetic:digits?samples=500", "--model", "mlp:784-8-10",
       "--strategy", "parameter_server", "--workers", "1", "--ps", "1"]
LONG = ["--epochs", "1000000"]


class StandbyByHand(OwnFolder):
    def setUp(self):
        super().setUp()
        self.certificates = self.path("certificates")
        self.places = [f"127.0.0.1:{free_port()}" for _ in range(3)]

    def coordinator(self, which, *flags, length=LONG, journal=None,
                    voters=None):
        return Role(self.addCleanup, "coordinator", "--certificates",
                    self.certificates, "--voters",
                    ",".join(voters or self.places), "--voter", str(which),
                    "--journal", journal or self.path(f"vote-{which}.db"),
                    *JOB, *length, *flags)

    def voter(self, which, journal=None):
        return Role(self.addCleanup, "--listen", self.places[which],
                    "--journal", journal or self.path(f"vote-{which}.db"),
                    "--certificates", self.certificates, command="voter")

    def begun(self, which, *flags, **more):
        """The first one, once there are certificates."""
        one = self.coordinator(which, *flags, **more)
        wait_for(lambda: os.path.exists(self.path("certificates", "ca.pem")),
                 "certificates")
        return one

    def led(self):
        """A voter that is nothing else, and the coordinator that leads."""
        first = self.begun(0)
        voter = self.voter(2)
        voter.address("voter")
        second = self.coordinator(1)
        wait_for(lambda: "listens on" in first.output() + second.output(),
                 "one leads")
        leads = "listens on" in first.output()
        return ((first, second, 1) if leads else (second, first, 0)) + (voter,)

    def test_a_standby_of_other_flags_is_refused_at_once(self):
        """It waited without a word, and the job died when it was needed."""
        leader, standby, which, _ = self.led()
        standby.process.terminate()
        standby.finish(143)
        other = self.coordinator(which, length=["--epochs", "60"])
        self.assertRegex(
            other.finish(1, 20),
            r"\Atroupe: the voters' journal: of a job with other flags "
            r"\(--epochs is 1000000 there and 60 here\); give those of its "
            r"run; to begin anew, remove the files of all voters\n\Z")
        again = self.coordinator(which)
        time.sleep(2)
        self.assertIsNone(again.process.poll(), again.error())
        self.assertIsNone(leader.process.poll(), leader.error())

    # --- files -----------------------------------------------------------------

    def test_two_voters_do_not_share_a_journal(self):
        """Both started, and the later one died in the middle of the run."""
        self.begun(0)
        voter = self.voter(2)
        voter.address("voter")
        refused = (r"\Atroupe: journal {}: process {} \(.*\) keeps it; each "
                   r"voter has a file of its own\n\Z")
        self.places[2] = f"127.0.0.1:{free_port()}"
        self.assertRegex(
            self.voter(2).finish(1, 20),
            refused.format(self.path("vote-2.db"), voter.process.pid))
        self.assertRegex(
            self.coordinator(1, journal=self.path("vote-2.db")).finish(1, 20),
            refused.format(self.path("vote-2.db"), voter.process.pid))
        voter.process.terminate()
        voter.process.wait(20)
        self.assertFalse(os.path.exists(self.path("vote-2.db.lock")))

    def test_a_voter_that_was_killed_is_started_again(self):
        self.begun(0)
        for _ in range(2):
            voter = self.voter(2)
            voter.address("voter")
            voter.process.kill()
            voter.process.wait()

    # --- what it waits for -----------------------------------------------------

    def test_who_is_not_reached_is_said_and_waited_for_until_the_deadline(self):
        """It waited for ever without a line."""
        voters = [self.places[0], self.places[1], "no-such-host.invalid:7001"]
        alone = self.coordinator(0, "--join-deadline-ms", "3000",
                                 voters=voters)
        missing = (rf"1 of 3 voters reached; {voters[1]}: Connection refused; "
                   r"no-such-host\.invalid:7001: no host of this name")
        self.assertRegex(
            alone.finish(1, 30),
            rf"\Atroupe: no majority within 3 s: {missing}; start the others, "
            r"see --voters, or give them longer with --join-deadline-ms\n\Z")
        self.assertEqual(
            len(re.findall(rf"(?m)^waits for a majority: {missing}$",
                           alone.output())), 1, alone.output())

    def test_who_is_no_voter_is_said(self):
        """It counted as one, and the wait had no deadline."""
        other = Role(self.addCleanup, "coordinator", "--certificates",
                     self.certificates, *JOB)
        voters = [self.places[0], other.address(), self.places[2]]
        alone = self.coordinator(0, "--join-deadline-ms", "3000",
                                 voters=voters)
        self.assertIn(f"1 of 3 voters reached; {voters[1]}: no voter is there;"
                      f" {voters[2]}: Connection refused;",
                      alone.finish(1, 30))
        self.assertIsNone(other.process.poll(), other.error())

    def test_a_voter_that_is_named_twice_is_refused(self):
        """It counted as two, which nobody elected, and there was no line."""
        voters = [self.places[0], *self.places[:2]]
        self.assertEqual(
            self.coordinator(0, voters=voters).finish(2, 30),
            f"troupe: --voters {','.join(voters)}: {voters[0]} is named twice,"
            " and has one vote\n")

    def test_it_is_told_to_stop_while_it_waits(self):
        """That another coordinator led was not so."""
        alone = self.begun(0)
        wait_for(lambda: "waits for a majority" in alone.output(), "a line")
        alone.process.terminate()
        said = alone.finish(143) + alone.output()
        self.assertIn("while it waited for a majority of voters", said)
        self.assertNotIn("another coordinator", said)

    def test_a_standby_says_for_whom_it_stands_by(self):
        leader, standby, _, _ = self.led()
        line = f"stands by for the coordinator at {leader.address()}\n"
        wait_for(lambda: line in standby.output(), line)
        self.assertNotIn("stands by", leader.output())
        time.sleep(2)
        self.assertEqual(standby.output().count("stands by"), 1)
        standby.process.terminate()
        said = standby.finish(143) + standby.output()
        self.assertIn("told to stop while another coordinator led", said)

    def test_a_lost_majority_is_no_takeover(self):
        leader, standby, _, voter = self.led()
        for one in (standby, voter):
            one.process.kill()
            one.process.wait()
        said = leader.finish(75, 30) + leader.output()
        self.assertRegex(said, "no majority of voters answers: 1 of 3 voters "
                               "reached; .*Connection refused; .*refused")
        self.assertNotIn("taken over", said)


if __name__ == "__main__":
    unittest.main()
