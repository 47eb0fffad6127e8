"""`troupe launch --hosts MIN:MAX` on hosts that are network namespaces, with a real
sshd each: the job begins with the hosts that are there, takes others as they
come, goes on when one is cut off or goes down, and has the bits of one device."""
# ctest: TIMEOUT 600 COST 60 PROCESSORS 1

import os
import re
import signal
import subprocess
import unittest

from cluster import TROUPE, Run, wait_for
from launch_hosts_test import JOB as LAUNCHED
from launch_hosts_test import ENDLESS, LaunchHosts, hash_of_one_device
from sshd import program

# Some milliseconds a step: a minute of it is computed again for its hash.
JOB = ["--strategy", "parameter_server", "--workers", "1:4", "--ps", "1",
       "--chain", "2", "--global-batch", "512"]
WHERE = "h1:2,h2:2,h3:2"


class LaunchElastic(LaunchHosts):
    OTHERS = 3

    def begin(self):
        run = self.launch(*JOB, *ENDLESS, where=WHERE, seconds="10",
                          flags=["--hosts", "2:3"])
        self.wait_for_step(run, 20)
        return run

    def begin_by_file(self, lines, hosts, seconds, *job):
        """The hosts as lines of a file name them."""
        file = self.path("hosts")
        with open(file, "w") as out:
            out.write(lines)
        run = Run(*LAUNCHED, *job, *ENDLESS, command=[
            *self.hosts.on(0), TROUPE, "launch", "--hosts-file", file, "--ssh",
            self.sshd.ssh(), "--connect-deadline-s", seconds, "--hosts", hosts,
            "--"])
        self.addCleanup(run.__exit__)
        self.wait_for_step(run, 20)
        return run

    def wait_for_line(self, run, pattern, deadline_s=90):
        wait_for(lambda: re.search(rf"(?m)^{pattern}$", run.output()), pattern,
                 deadline_s)

    def goes_on(self, run, steps=40):
        self.wait_for_step(run, self.step(run) + steps)

    def on(self, *hosts):
        return {role for host in hosts for role in self.sshd.roles(host)}

    def end(self, run):
        run.process.send_signal(signal.SIGTERM)
        summary = run.finish(143)
        self.assertEqual(summary["steps_rolled_back"], 0)
        self.assertEqual(summary["weights_sha256"], hash_of_one_device(
            "--global-batch", "512", "--epochs", "0", "--steps",
            str(summary["steps"])))
        return summary

    def test_hosts_come_and_go(self):
        self.hosts.unplug(3)
        run = self.begin()
        self.assertEqual(self.on(1, 2),
                         {"ps:0", "ps:1", "worker:0", "worker:1"})
        self.assertEqual(self.on(3), set())
        self.hosts.plug(3)
        self.wait_for_line(run, r"h3 \(10\.77\.0\.4\) is there: "
                           "worker:2, worker:3")
        wait_for(lambda: self.on(3) == {"worker:2", "worker:3"}, "its workers")
        self.goes_on(run)
        lost = self.on(1)
        self.hosts.unplug(1)
        self.wait_for_line(run, "h1 has gone: .*")
        # Shards have no free slot, and go all the same; workers wait.
        shards = {role for role in lost if role.startswith("ps")}
        self.assertEqual(len(shards), 1, lost)
        wait_for(lambda: shards <= self.on(2, 3), "its shard is elsewhere")
        self.goes_on(run)
        self.hosts.plug(1)
        self.wait_for_line(run, r"h1 \(10\.77\.0\.2\) is there: worker:\d")
        wait_for(lambda: lost - shards <= self.on(1), "its worker is back")
        self.goes_on(run)
        self.end(run)
        wait_for(lambda: not list(self.sshd.processes(1)), "old roles end", 60)
        self.nothing_is_left(flights=True)

    def test_a_host_that_others_do_not_reach_is_not_taken(self):
        """It was taken: only whether it reaches them was tried."""
        self.hosts.at(self.hosts.keepers[4], "ip", "address", "add",
                      "10.77.0.40/24", "dev", "eth0")
        # What it asks from its first address is answered.
        hole = ["ip", "route", "add", "blackhole", "10.77.0.40/32"]
        self.hosts.at(self.hosts.keepers[2], *hole)
        self.hosts.unplug(3)
        run = self.begin_by_file("h1 slots=2\nh2 slots=2\nh3 slots=2 "
                                 "address=10.77.0.40\n", "2:3", "10", *JOB)
        self.hosts.plug(3)
        self.wait_for_line(run, r"h3 is not taken: h1 does not reach it: .*")
        self.assertEqual(self.on(3), set())
        hole[2] = "del"
        self.hosts.at(self.hosts.keepers[2], *hole)
        self.wait_for_line(run, r"h3 \(10\.77\.0\.40\) is there: .*")
        self.goes_on(run)
        self.end(run)
        self.nothing_is_left()

    def test_of_two_that_come_together_each_reaches_the_other(self):
        """Both were taken: whom the later one was to reach had been settled
        before the first one was there."""
        self.hosts.at(self.hosts.keepers[3], "ip", "address", "add",
                      "10.77.0.40/24", "dev", "eth0")
        self.hosts.at(self.hosts.keepers[4], "ip", "route", "add", "blackhole",
                      "10.77.0.40/32")
        for host in (2, 3):
            self.hosts.unplug(host)
        run = self.begin_by_file("h1 slots=2\nh2 slots=2 address=10.77.0.40\n"
                                 "h3 slots=2\n", "1:3", "3", *JOB[:6])
        for host in (2, 3):
            self.hosts.plug(host)
        self.wait_for_line(run, r"(h3 is not taken: it does not reach 10\.77\.0"
                           r"\.40:.*|h2 is not taken: h3 does not reach it: .*)")
        self.goes_on(run)
        run.process.send_signal(signal.SIGTERM)
        run.finish(143)
        self.nothing_is_left()

    def test_a_host_that_goes_down_hands_over(self):
        run = self.begin()
        wait_for(lambda: len(self.on(1, 2, 3)) == 6, "all roles")
        host = next(x for x in (1, 2, 3)
                    if all(y.startswith("worker") for y in self.on(x)))
        self.assertEqual(len(self.on(host)), 2)
        agent = next(pid for pid, words in self.sshd.processes(host)
                     if words[1:2] == ["node"])
        os.kill(agent, signal.SIGTERM)
        wait_for(lambda: not self.on(host), "its roles have left")
        self.goes_on(run)
        # It is taken again, and has workers of other numbers.
        self.wait_for_line(run, rf"h{host} \(\S+\) is there")
        wait_for(lambda: self.on(host) == {"worker:4", "worker:5"},
                 "other workers")
        self.goes_on(run)
        summary = self.end(run)
        self.assertEqual(summary["recoveries"], [])
        self.nothing_is_left(flights=True)

    def test_workers_that_a_user_removes_stay_away(self):
        """Others were added for them at once."""
        run = self.begin()
        wait_for(lambda: len(self.on(1, 2, 3)) == 6, "all roles")
        address, certificates = re.search(
            r"coordinator: (\S+), certificates (\S+)", run.output()).groups()
        done = subprocess.run(
            [*self.hosts.on(0), TROUPE, "ctl", "workers", "remove",
             "worker:1", "--coordinator", address, "--certificates", certificates],
            capture_output=True, text=True, timeout=90, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        wait_for(lambda: len(self.on(1, 2, 3)) == 5, "one has left")
        self.goes_on(run, 400)
        self.assertEqual(len(self.on(1, 2, 3)), 5, self.on(1, 2, 3))
        # For what goes with a host others come, and no more.
        host = next(x for x in (1, 2, 3)
                    if all(y.startswith("worker") for y in self.on(x)))
        agent = next(pid for pid, words in self.sshd.processes(host)
                     if words[1:2] == ["node"])
        os.kill(agent, signal.SIGTERM)
        wait_for(lambda: not self.on(host), "its roles have left")
        wait_for(lambda: len(self.on(1, 2, 3)) == 5, "others came for them")
        self.wait_for_line(run, rf"h{host} \(\S+\) is there.*")
        self.goes_on(run, 400)
        self.assertEqual(len(self.on(1, 2, 3)), 5, self.on(1, 2, 3))
        self.end(run)
        self.nothing_is_left(flights=True)

    def test_too_few_hosts_and_jobs_that_keep_theirs_are_one_line(self):
        self.hosts.unplug(2)
        self.hosts.unplug(3)
        line = self.refused(*JOB, where=WHERE, seconds="20",
                            flags=["--hosts", "2:3"])
        # The time that has passed was said to be the flag's.
        said = re.search(r"--hosts asks for 2 hosts, and has 1 after (\d+) s "
                         r"\(--connect-deadline-s 20\): .*h[23].*", line)
        self.assertIsNotNone(said, line)
        self.assertGreaterEqual(int(said[1]), 20)
        for job, reason in (
                (["--strategy", "pipeline", "--stages", "2"],
                 "--strategy pipeline keeps parts"),
                (["--strategy", "multi_worker_mirrored", "--workers", "1:2"],
                 "--strategy multi_worker_mirrored keeps parts"),
                (["--strategy", "parameter_server", "--workers", "2"],
                 "--workers MIN:MAX"),
                (["--strategy", "parameter_server", "--workers", "1:2", "--ps",
                  "1", "--chain", "3"], "--chain 3")):
            line = self.refused(*job, status=2, where=WHERE,
                                flags=["--hosts", "2:3"])
            self.assertIn(reason, line)


def load_tests(loader, *_):
    """Its own alone, not those that it inherits."""
    return unittest.TestSuite(
        LaunchElastic(name) for name in vars(LaunchElastic)
        if name.startswith("test_"))


if __name__ == "__main__":
    program()
    unittest.main()
