"""Three hosts, which are network namespaces, whose cables are cut, one way or
both, and which die as wholes: who was cut off finds out and is back, the run
goes on, and the weights are those of a run without a cut.

TROUPE_CABLES=full takes the full measure: 50 cuts of 0.5 to 30 s and 20 deaths
of a host for each strategy, which takes hours."""
# ctest: TIMEOUT 900 COST 40 PROCESSORS 1

import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from cluster import DEADLINE_S, TROUPE, Run, wait_for
from hosts import Hosts, certificates_on, skip_unless_possible
from roles import Role

JOB = ["--data", "synthetic:digits?samples=2000", "--model", "mlp:784-48-10",
       "--seed", "7", "--log-every", "50"]
SCRAPE = """import sys, urllib.request as web
print(web.urlopen(sys.argv[1], timeout=5).read().decode())"""
MEASURE = os.environ.get("TROUPE_CABLES") == "full"
LOSS_S = 3
BACK_S = 3
FORGOTTEN_S = 62  # DeadLinks::Options::forget_ms
STEPS_A_SECOND = 1000  # of the undisturbed run, at least, on a busy machine
SERVED = ["--strategy", "parameter_server", "--workers", "2", "--ps", "1"]
CHAINS = [*SERVED, "--chain", "2"]
CHAIN_PLACES = {"ps:0": 1, "ps:1": 2, "worker:0": 1, "worker:1": 2}
ASYNC = [*SERVED, "--async"]
ASYNC_PLACES = {"ps:0": 0, "worker:0": 1, "worker:1": 2}
READ = [*SERVED, "--readers", "2"]
READ_PLACES = {"ps:0": 0, "worker:0": 1, "worker:1": 1, "reader:0": 0,
               "reader:1": 2}
MIRRORED = ["--strategy", "multi_worker_mirrored", "--workers", "2"]
MIRRORED_PLACES = {"worker:0": 1, "worker:1": 2}


class Cables(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.hosts = Hosts(3)
        self.addCleanup(self.hosts.close)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def begin(self, flags, places):
        """Starts a job that only a signal ends."""
        self.flags = flags
        self.coordinator = Role(
            self.addCleanup, "coordinator", "--certificates",
            self.path("certificates-0"), "--summary", self.path("summary"),
            "--listen", f"{self.hosts.address(0)}:0", *JOB, "--epochs",
            "100000", "--loss-ms", str(1000 * LOSS_S), *flags,
            on=self.hosts.on(0))
        address = self.coordinator.address()
        self.members = {
            role: Role(self.addCleanup, role, "--coordinator", address,
                       "--certificates", certificates_on(host, self.folder.name),
                       "--listen",
                       f"{self.hosts.address(host)}:0",
                       on=self.hosts.on(host))
            for role, host in places.items()}
        self.wait_for_steps("the first steps")

    def metric(self, name, **labels):
        """What the coordinator shows; None where it shows none."""
        line = [line for line in self.coordinator.output().splitlines()
                if line.startswith("metrics: ")][-1]
        done = subprocess.run(
            [*self.hosts.on(0), sys.executable, "-c", SCRAPE,
             line.split(" ")[1]], capture_output=True, text=True, timeout=30)
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        for line in done.stdout.splitlines():
            series = line.rsplit(" ", 1)
            if series[0].split("{")[0] == name and all(
                    x in series[0] for x in wanted):
                return float(series[1])
        return None

    def steps(self):
        """How often it has told of steps."""
        return self.coordinator.output().count("\nstep ")

    def wait_for_steps(self, what, deadline_s=DEADLINE_S):
        before = self.steps()
        wait_for(lambda: self.steps() > before, what, deadline_s)

    def left_out(self):
        """Who is, as the coordinator told one after the other."""
        out = set()
        for role, how in re.findall(r"^(\S+) is (left out|back)\b",
                                    self.coordinator.output(), re.MULTILINE):
            (out.add if how == "left out" else out.discard)(role)
        return out

    def wait_until_whole(self, deadline_s):
        wait_for(lambda: not self.left_out(), "all are back", deadline_s)

    def cut(self, one, other, seconds, both_ways=True):
        """Cuts a cable for so long; returns when it is whole again."""
        ways = [(one, other), (other, one)] if both_ways else [(one, other)]
        for at, to in ways:
            self.hosts.block(at, to)
        time.sleep(seconds)  # the cable's time, not the test's
        for at, to in ways:
            self.hosts.unblock(at, to)

    def end(self, same_weights):
        """Ends the run, and checks what it says of itself."""
        self.coordinator.process.send_signal(2)
        self.coordinator.process.wait(60)
        for role, member in self.members.items():
            member.process.wait(20)
            self.assertNotIn("damaged", member.error())
        with open(self.path("summary")) as file:
            summary = json.load(file)
        self.assertEqual(summary["steps_rolled_back"], 0)
        if same_weights:
            self.check_weights(summary)

    def check_weights(self, summary):
        with Run(*JOB, "--epochs", "0", "--steps", str(summary["steps"]),
                 "--strategy", "one_device") as run:
            expected = run.finish(
                deadline_s=DEADLINE_S + summary["steps"] / STEPS_A_SECOND)
        for name in ("weights_sha256", "state_sha256", "steps"):
            self.assertEqual(summary[name], expected[name])

    def check_cut_off(self, flags, places, role, same_weights,
                      both_ways=True, spared=None):
        """A cut of 4 s between a member and the coordinator: it is left out,
        says so, and is back within 3 s of the cable. It takes part as before:
        the run goes on without another one that is killed then."""
        self.begin(flags, places)
        self.cut(places[role], 0, LOSS_S + 1, both_ways)
        self.assertRegex(self.coordinator.output(),
                         rf"(?m)^{role} is left out: silent for ")
        self.wait_until_whole(BACK_S)
        self.wait_for_steps("steps with all of them")
        self.assertRegex(self.members[role].error(),
                         rf"\A{role}: left out of the job "
                         r"\(silent for [^\n]*\); joins again\n\Z")
        wait_for(lambda: self.metric("troupe_members", state="present")
                 == len(self.members), "the coordinator shows all of them")
        self.assertEqual(self.metric("troupe_members", state="left_out"), 0)
        if spared:
            self.members.pop(spared).process.kill()
            wait_for(lambda: self.left_out() == {spared}, "it is left out", 20)
            self.wait_for_steps("steps without it")
        self.end(same_weights)

    def test_a_worker_that_was_cut_off_for_a_while_joins_again(self):
        self.check_cut_off(CHAINS, CHAIN_PLACES, "worker:1", True,
                           spared="worker:0")

    def test_a_replica_of_a_chain_that_was_cut_off_joins_again(self):
        self.check_cut_off(CHAINS, {**CHAIN_PLACES, "worker:1": 0}, "ps:1",
                           True)

    def test_an_asynchronous_worker_that_cannot_say_anything_joins_again(self):
        self.check_cut_off(ASYNC, ASYNC_PLACES, "worker:1", False, False)

    def test_a_replica_that_was_cut_off_joins_again(self):
        self.check_cut_off(MIRRORED, MIRRORED_PLACES, "worker:1", True,
                           spared="worker:0")

    def test_a_reader_that_was_cut_off_joins_again(self):
        """It said that it was back, was left out once more, as the Join that it
        had said again counted, and was then refused as a second process."""
        self.check_cut_off(READ, READ_PLACES, "reader:1", True)

    def test_a_coordinator_that_stands_still_for_a_while_loses_nobody(self):
        """Its host answers: it is no cable that was cut. So it is on a host on
        which too many want the processor."""
        self.begin(READ, READ_PLACES)
        told = self.coordinator.output()
        self.coordinator.process.send_signal(signal.SIGSTOP)
        time.sleep(LOSS_S + 3)
        self.coordinator.process.send_signal(signal.SIGCONT)
        self.wait_for_steps("it goes on")
        time.sleep(1)
        self.wait_for_steps("and on")
        new = self.coordinator.output()[len(told):]
        self.assertNotRegex(new, "left out|is back|is lost|joins")
        for role, member in self.members.items():
            self.assertIsNone(member.process.poll(), role)
            self.assertNotIn("joins again", member.error())
        self.end(same_weights=True)

    def test_an_evaluator_that_was_cut_off_goes_on(self):
        """It ended as if the job were over, with a status of 0."""
        kept = ["--checkpoint-dir", self.path("kept")]
        self.begin([*MIRRORED, *kept, "--checkpoint-every", "200",
                    "--eval-fraction", "0.1"], MIRRORED_PLACES)
        evaluator = Role(
            self.addCleanup, "evaluator:0", "--coordinator",
            self.coordinator.address(), "--certificates",
            certificates_on(2, self.folder.name), *kept, on=self.hosts.on(2))

        def judged():
            return [int(x) for x in re.findall(r"(?m)^step (\d+)  eval ",
                                               evaluator.output())]
        wait_for(judged, "an evaluation")
        self.hosts.block(0, 2)
        self.hosts.block(2, 0)
        time.sleep(LOSS_S + 3)  # the cable's time, not the test's
        self.hosts.unblock(0, 2)
        self.hosts.unblock(2, 0)
        self.wait_until_whole(BACK_S)
        before = judged()[-1]
        wait_for(lambda: judged()[-1] > before, "another evaluation")
        self.end(False)
        self.assertEqual(evaluator.finish(0, 20), "")
        with open(self.path("summary")) as file:
            self.assertEqual(judged()[-1], json.load(file)["steps"])

    def test_an_evaluator_without_a_coordinator_says_so(self):
        kept = ["--checkpoint-dir", self.path("kept")]
        self.begin([*MIRRORED, *kept, "--eval-fraction", "0.1"],
                   MIRRORED_PLACES)
        evaluator = Role(
            self.addCleanup, "evaluator:0", "--coordinator",
            self.coordinator.address(), "--certificates",
            certificates_on(2, self.folder.name), *kept, on=self.hosts.on(2))
        wait_for(lambda: "eval loss" in evaluator.output()
                 or self.steps() > 4, "it looks")
        self.coordinator.stop()
        self.assertRegex(evaluator.finish(1, 45),
                         r"\Atroupe: evaluator:0: the coordinator has been away "
                         r"for 30 s\n\Z")

    def test_a_dead_cable_between_two_members_costs_one_of_them(self):
        """Both reach the coordinator: PROTOCOL 17. It is the only link between
        these hosts."""
        self.begin(CHAINS, {"ps:0": 1, "ps:1": 0, "worker:0": 0, "worker:1": 2})
        for at, to in ((1, 2), (2, 1)):
            self.hosts.block(at, to)
        wait_for(lambda: self.left_out(), "somebody is left out", 40)
        self.assertEqual(self.left_out(), {"worker:1"})
        out, = self.left_out()
        self.assertRegex(self.coordinator.output(),
                         rf"(?m)^{out} is left out: no link to ")
        self.wait_for_steps("steps without it", 10)
        wait_for(lambda: self.metric("troupe_left_out", member=out) == 1,
                 "the coordinator shows who is left out", 10)
        for at, to in ((1, 2), (2, 1)):
            self.hosts.unblock(at, to)
        self.wait_until_whole(BACK_S)
        self.assertRegex(self.members[out].error(),
                         r"joins again once its links work\n")
        self.wait_for_steps("steps with all of them", 10)
        self.end(True)

    def check_hole(self, flags, places, holes):
        """Large packets get lost on a link, small ones pass, and both ends show
        signs of life. Whoever sends them gives the link up, and the other side,
        which waits for what they carry, has to hear of that: it stood there
        until the run was given up, as the end of a stream waits behind what does
        not get through."""
        self.begin(flags, places)
        for at, to in holes:
            self.hosts.narrow(at, to)
        wait_for(lambda: self.left_out(), "somebody is left out", 40)
        self.assertEqual(self.left_out(), {"worker:1"})
        self.assertRegex(self.coordinator.output(),
                         r"(?m)^worker:1 is left out: no link to ")
        self.wait_for_steps("steps without it", 10)
        # What it tries the link with gets lost as well: before, a connection
        # passed for a link that works, and it came back to be left out again.
        time.sleep(LOSS_S + 2)  # the hole's time, not the test's
        self.wait_for_steps("steps without it, still", 10)
        self.assertNotIn("worker:1 is back", self.coordinator.output())
        for _, to in holes:
            self.hosts.widen(to)
        self.wait_until_whole(BACK_S)
        self.wait_for_steps("steps with all of them", 10)
        self.end(True)

    def test_a_shards_large_packets_get_lost(self):
        self.check_hole(SERVED, {"ps:0": 1, "worker:0": 0, "worker:1": 2},
                        [(1, 2)])

    def test_large_packets_get_lost_both_ways(self):
        self.check_hole(CHAINS, {"ps:0": 1, "ps:1": 0, "worker:0": 0,
                                 "worker:1": 2}, [(1, 2), (2, 1)])

    def test_a_replicas_large_packets_get_lost(self):
        self.check_hole(MIRRORED, MIRRORED_PLACES, [(1, 2)])

    def test_a_host_that_dies_silently_costs_the_loss_time(self):
        self.begin(CHAINS, CHAIN_PLACES)
        self.hosts.unplug(2)
        began = time.monotonic()
        wait_for(lambda: {"ps:1", "worker:1"} <= self.left_out(),
                 "both of its roles are left out", LOSS_S + 1)
        self.wait_for_steps("the next commit",
                            LOSS_S + 1 - (time.monotonic() - began))
        for role in ("ps:1", "worker:1"):
            self.members.pop(role).stop()
        self.end(True)


@unittest.skipUnless(MEASURE, "TROUPE_CABLES=full takes the full measure")
class FullMeasure(unittest.TestCase):
    """Two coordinators and a voter on a host each, a worker on each, the
    replicas of a chain on two."""

    WORKERS = {f"worker:{host}": host for host in range(3)}
    SHARDS = {"ps:0": 1, "ps:1": 2}
    SERVED = ["--strategy", "parameter_server", "--workers", "3", "--ps", "1",
              "--chain", "2"]

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.hosts = Hosts(3)
        self.addCleanup(self.hosts.close)
        self.draw = random.Random(20)
        self.cut_long_ago = {}

    path = Cables.path

    def start(self, name):
        """Starts one process where it belongs, with the same command as
        ever."""
        host = self.places[name]
        at = self.hosts.address(host)
        voters = ",".join(f"{self.hosts.address(x)}:7001" for x in range(3))
        both = ",".join(f"{self.hosts.address(x)}:7000" for x in range(2))
        common = ["--certificates", self.path("certificates-0") if host == 0
                  else certificates_on(host, self.folder.name)]
        journal = ["--journal", self.path(f"vote-{host}.db")]
        if name == "voter":
            arguments = ["--listen", f"{at}:7001", *journal, *common]
        elif name.startswith("coordinator"):
            arguments = ["coordinator", "--listen", f"{at}:7000", "--voters",
                         voters, "--voter", str(host), *journal, *common,
                         "--summary", self.path(f"summary-{host}"), *JOB,
                         "--epochs", "1000000", "--loss-ms",
                         str(1000 * LOSS_S), *self.flags]
        else:
            arguments = [name, "--coordinator", both, "--listen", f"{at}:0",
                         *common]
        self.processes[name] = Role(
            self.addCleanup, *arguments, on=self.hosts.on(host),
            command="voter" if name == "voter" else "role")
        return self.processes[name]

    def begin(self, flags, places):
        self.flags = flags
        self.processes = {}
        self.places = {"coordinator 0": 0, "coordinator 1": 1, "voter": 2,
                       **places}
        self.roles = set(places)
        self.start("coordinator 0")
        wait_for(lambda: os.path.exists(
            self.path("certificates-0/ca.pem")), "certificates")
        for name in list(self.places)[1:]:
            self.start(name)
        self.wait_for_steps("the first steps")
        wait_for(lambda: not self.missing(), "all are members", 10)

    def tell(self):
        """What everybody said lately, for who reads of a failure."""
        return "\n".join(
            f"--- {name}, {process.process.poll()}: "
            f"{process.output()[-1500:]}{process.error()[-1500:]}"
            for name, process in self.processes.items())

    def leader(self):
        """The coordinator that leads, as far as it knows; None: neither."""
        leads = [self.processes[name]
                 for name in ("coordinator 0", "coordinator 1")
                 if self.processes[name].process.poll() is None
                 and "coordinator listens on" in self.processes[name].output()]
        return leads[-1] if leads else None

    def steps(self):
        return sum(
            len(re.findall(r"^step ", self.processes[name].output(), re.M))
            for name in ("coordinator 0", "coordinator 1"))

    def wait_for_steps(self, what, deadline_s=DEADLINE_S):
        before = self.steps()
        began = time.monotonic()
        wait_for(lambda: self.steps() > before, what, deadline_s)
        return time.monotonic() - began

    def missing(self):
        """Who is no member of the newest epoch that any journal has."""
        newest = ""
        for host in range(2):
            done = subprocess.run(
                [TROUPE, "events", self.path(f"vote-{host}.db"), "--kind",
                 "epoch"], capture_output=True, text=True, timeout=60)
            for line in done.stdout.splitlines()[-1:]:
                newest = max(newest, line, key=epoch_of)
        return self.roles - set(newest.split(";")[0].split())

    def mend_deposed(self):
        """A coordinator that gave way ends; the operator starts it again.
        Returns whether one had."""
        ended = [name for name in ("coordinator 0", "coordinator 1")
                 if self.processes[name].process.poll() is not None]
        for name in ended:
            self.start(name)
        return bool(ended)

    def all_back(self):
        self.mend_deposed()
        return not self.missing()

    def settle(self):
        """Before the next fault: one at a time is survived, and a voter that
        has ended with its coordinator is one. It may have given way after the
        fault before was over."""
        deadline = time.monotonic() + 40
        while self.mend_deposed() or self.missing():
            self.assertLess(time.monotonic(), deadline, "not settled")
            time.sleep(2)  # of a coordinator to begin, and to give way again

    def look(self, what):
        for name, process in self.processes.items():
            if name in self.roles:
                self.assertIsNone(process.process.poll(),
                                  f"{what}: {name}: {process.error()}")
                self.assertNotIn("damaged", process.error())

    def one_cut(self, number):
        pair = [(0, 1), (1, 2), (0, 2)][number % 3]
        if self.draw.random() < 0.5:
            pair = pair[::-1]
        seconds = 0.5 * 60 ** self.draw.random()
        if seconds > 2 * LOSS_S:  # rule 17's delay has to be forgotten
            last = self.cut_long_ago.get(frozenset(pair), 0)
            time.sleep(max(0, last + FORGOTTEN_S - time.monotonic()))
        self.settle()
        both_ways = self.draw.random() < 0.5
        what = (f"cut {number} of {pair}, {seconds:.1f} s, "
                f"{'both ways' if both_ways else 'one way'}")
        Cables.cut(self, *pair, seconds, both_ways)
        mended = time.monotonic()
        if seconds > 2 * LOSS_S:
            self.cut_long_ago[frozenset(pair)] = mended
        wait_for(self.all_back, f"all are back after {what}", 40)
        self.wait_for_steps(f"steps after {what}", 40)
        back = time.monotonic() - mended
        self.look(what)
        self.mend_deposed()
        print(f"{what}: back within {back:.1f} s", flush=True)
        return back

    def one_death(self, number):
        host = number % 3
        self.settle()
        self.hosts.unplug(host)
        there = [name for name, at in self.places.items() if at == host]
        for name in there:
            self.processes[name].process.kill()
        commit = self.wait_for_steps(f"a commit after death {number}", 40)
        for name in there:
            self.processes[name].process.wait()
        self.hosts.plug(host)
        for name in there:
            self.start(name)
        wait_for(self.all_back, "all are back", 40)
        self.wait_for_steps("steps with all of them", 40)
        self.mend_deposed()
        self.look(f"death {number}")
        print(f"death {number} of host {host}: the next commit after "
              f"{commit:.1f} s", flush=True)
        return commit

    def measure(self, flags, places, same_weights):
        try:
            self.measure_it(flags, places, same_weights)
        except AssertionError as failure:
            raise AssertionError(f"{failure}\n{self.tell()}") from failure

    def measure_it(self, flags, places, same_weights):
        self.begin(flags, places)
        cuts = int(os.environ.get("TROUPE_CABLES_CUTS", "50"))
        deaths = int(os.environ.get("TROUPE_CABLES_DEATHS", "20"))
        back = [self.one_cut(number) for number in range(cuts)]
        commits = [self.one_death(number) for number in range(deaths)]
        leader = self.leader()
        host = int(next(name for name, process in self.processes.items()
                        if process is leader).split(" ")[1])
        leader.process.send_signal(2)
        leader.process.wait(60)
        with open(self.path(f"summary-{host}")) as file:
            summary = json.load(file)
        print(f"{cuts} cuts, back within {max(back, default=0):.1f} s; "
              f"{deaths} deaths, a commit within "
              f"{max(commits, default=0):.1f} s; {summary['steps']} steps, "
              f"{summary['steps_rolled_back']} rolled back", flush=True)
        self.assertEqual(summary["steps_rolled_back"], 0)
        if same_weights:
            Cables.check_weights(self, summary)
        self.assertLessEqual(max(back, default=0), BACK_S)
        self.assertLessEqual(max(commits, default=0), LOSS_S + 1)

    def test_sync_with_chains_of_2(self):
        self.measure(self.SERVED, {**self.WORKERS, **self.SHARDS}, True)

    def test_async(self):
        self.measure([*self.SERVED, "--async"],
                     {**self.WORKERS, **self.SHARDS}, False)

    def test_multi_worker_mirrored(self):
        self.measure(["--strategy", "multi_worker_mirrored", "--workers",
                      "3"], self.WORKERS, True)


def epoch_of(line):
    found = re.search(r"(\d+) from step", line)
    return int(found.group(1)) if found else 0


if __name__ == "__main__":
    skip_unless_possible()
    unittest.main()
