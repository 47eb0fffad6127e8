"""`troupe launch` on hosts that are network namespaces, with a real sshd each: one
command, the bits of one device, nothing left behind however it ends, and one
line for what ssh or the network refuses."""
# ctest: TIMEOUT 600 COST 60 PROCESSORS 1

import functools
import glob
import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import time
import unittest

from cluster import DEADLINE_S, TROUPE, Run, wait_for
from hosts import Hosts
from own_folder import OwnFolder
from processes import holds_back
from sshd import Sshd, program

JOB = ["--data", "synthetic:digits?samples=2000", "--model", "mlp:784-48-10",
       "--seed", "7"]
ENDLESS = ["--epochs", "0", "--steps", "100000000", "--log-every", "20"]
SERVED = ["--strategy", "parameter_server", "--workers", "2", "--ps", "2",
          "--chain", "2"]
MIRRORED = ["--strategy", "multi_worker_mirrored", "--workers", "3"]
STAGED = ["--strategy", "pipeline", "--stages", "2"]
SHARED = ["--strategy", "fully_sharded", "--workers", "4", "--chain", "2"]

SEED = int(os.environ.get("TROUPE_KILLS_SEED", "1"))
KILLS = int(os.environ.get(
    "TROUPE_KILLS", "200" if os.environ.get("TROUPE_IN_FULL") == "1" else "3"))
LATEST_KILL_S = 8  # the first step comes after one or two, of a busy machine four


@functools.cache
def hash_of_one_device(*flags):
    with Run(*JOB, *flags, "--strategy", "one_device") as run:
        return run.finish()["weights_sha256"]


class LaunchHosts(OwnFolder):
    OTHERS = 2  # hosts besides the launcher's, which is 0

    def setUp(self):
        super().setUp()
        self.hosts = Hosts(1 + self.OTHERS)
        self.addCleanup(self.hosts.close)
        self.sshd = Sshd(self, self.hosts, self.folder, self.OTHERS)

    def command(self, where="h1:3,h2:3", flags=(), seconds="60"):
        return [*self.hosts.on(0), TROUPE, "launch", "-H", where, "--ssh",
                self.sshd.ssh(), "--connect-deadline-s", seconds, *flags, "--"]

    def launch(self, *job, environment=None, **how):
        run = Run(*JOB, *job, command=self.command(**how),
                  environment=environment)
        self.addCleanup(run.__exit__)
        return run

    def refused(self, *job, status=1, **how):
        """The one line of a launch that does not come about, and its seconds."""
        began = time.monotonic()
        done = subprocess.run(
            [*self.command(**how), "train", *JOB, *(job or MIRRORED)],
            capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        took = time.monotonic() - began
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertRegex(done.stderr, r"\Atroupe: [^\n]*\n\Z")
        print(f"\n  {took:.1f} s: {done.stderr.strip()}", end="",
              file=sys.stderr)
        self.nothing_is_left()
        return done.stderr

    def step(self, run):
        if run.process.poll() is not None:
            raise AssertionError(f"the run ended: {run.error()}{run.output()}")
        steps = re.findall(r"step (\d+)", run.output())
        return int(steps[-1]) if steps else 0

    def wait_for_step(self, run, step):
        wait_for(lambda: self.step(run) >= step, f"step {step}")

    def roles(self):
        return {role: pid for host in range(1 + self.OTHERS)
                for role, pid in self.sshd.roles(host).items()}

    def nothing_is_left(self, flights=False):
        """But the program and, where nobody came for them, what recorders of
        roles that were killed have."""
        def left():
            return [words for host in range(1 + self.OTHERS)
                    for _, words in self.sshd.processes(host)] + [
                        port for host in range(1 + self.OTHERS)
                        for port in self.sshd.ports(host)]
        end = time.monotonic() + 15
        while left() and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual(left(), [])
        for host in range(1, 1 + self.OTHERS):
            self.assertEqual(
                [x for x in glob.glob(f"{self.sshd.home(host)}/**/*",
                                      recursive=True, include_hidden=True)
                 if os.path.isfile(x)
                 and not re.search(r"/\.cache/troupe/troupe-[0-9a-f]{16}$", x)
                 and not (flights and re.search(
                     r"/\.local/state/troupe/flight-node-[^/]*/[^/]*$", x))],
                [])

    # --- runs ---

    def test_one_command_gives_the_bits_of_one_device(self):
        for job in (SERVED, MIRRORED, STAGED, SHARED):
            with self.subTest(job[1]):
                trace = self.path(f"{job[1]}.json")
                run = self.launch(*job, "--epochs", "1", "--timeline", trace)
                summary = run.finish()
                self.assertEqual(summary["weights_sha256"],
                                 hash_of_one_device("--epochs", "1"))
                self.nothing_is_left()
                self.check_time_of_roles(summary, trace, {
                    "worker:0" if job is not STAGED else "stage:0",
                    "worker:1" if job is not STAGED else "stage:1"})
                copies = [glob.glob(f"{self.sshd.home(host)}/.cache/troupe/*")
                          for host in (1, 2)]
                self.assertEqual([len(x) for x in copies], [1, 1])

    def check_time_of_roles(self, summary, trace, roles):
        """What recorders of all hosts had has come."""
        ledger = summary["ledger"]
        self.assertLessEqual(roles, set(ledger["roles"]))
        for role, spent in ledger["roles"].items():
            self.assertGreater(spent["compute"], 0, role)
            self.assertGreaterEqual(spent["idle"], -0.01, role)
            self.assertLess(spent["unrecorded"], 0.01, role)
        with open(trace) as file:
            events = json.load(file)["traceEvents"]
        began = {}
        for event in events:
            if event["ph"] == "X":
                began[event["pid"]] = min(event["ts"],
                                          began.get(event["pid"], math.inf))
        self.assertGreaterEqual(len(began), len(roles))
        # All began at about the same time, by one clock.
        self.assertLess(max(began.values()) - min(began.values()), 30e6)

    def test_roles_are_where_the_dry_run_says(self):
        said = subprocess.run(
            [*self.command(flags=["--dry-run"]), "train", *JOB, *SERVED],
            capture_output=True, text=True, timeout=60, check=True).stdout
        planned = {host: set(re.findall(
            r"troupe role (\S+)", re.search(
                rf"(?ms)^h{host}, .*?(?=^\S)", said).group()))
            for host in (1, 2)}
        self.assertEqual(planned[1] & planned[2], set())
        self.nothing_is_left()
        run = self.launch(*SERVED, *ENDLESS)
        self.wait_for_step(run, 20)
        for host in (1, 2):
            self.assertEqual(set(self.sshd.roles(host)), planned[host])
        # Replicas of shard 0 are ps:0 and ps:2.
        for chain in ({"ps:0", "ps:2"}, {"ps:1", "ps:3"}):
            self.assertNotEqual(chain & planned[1], chain)
        # What is secret is on no command line.
        for host in (0, 1, 2):
            for _, words in self.sshd.processes(host):
                self.assertNotRegex(" ".join(words), "KEY|--token")
        run.process.send_signal(signal.SIGTERM)
        run.finish(143)
        self.nothing_is_left()

    def test_dead_roles_agents_and_connections_cost_no_bit(self):
        run = self.launch(*SERVED, *ENDLESS, "--save", self.path("w"))
        self.wait_for_step(run, 20)

        def strike(pid, roles):
            step = self.step(run)
            os.kill(pid, signal.SIGKILL)
            wait_for(lambda: set(self.roles()) >= roles
                     and pid not in self.roles().values(), f"{roles} again")
            self.wait_for_step(run, step + 60)

        for role in ("worker:1", "ps:0", "coordinator"):
            strike(self.roles()[role], {role})
        everybody = set(self.roles())
        # A worker's host loses its agent, or the way to it: replicas of each
        # chain are on the other host.
        agent = next(pid for pid, words in self.sshd.processes(2)
                     if words[1:2] == ["node"])
        strike(agent, everybody)
        connection = next(pid for pid, words in self.sshd.processes(0)
                          if words[0].endswith("ssh") and "h1" in words)
        strike(connection, everybody)
        run.process.send_signal(signal.SIGINT)
        summary = run.finish(130)
        self.assertEqual(summary["weights_sha256"], hash_of_one_device(
            "--epochs", "0", "--steps", str(summary["steps"])))
        self.assertTrue(os.path.exists(self.path("w")))
        self.nothing_is_left(flights=True)

    def test_an_agent_told_before_its_roles_begin_tells_them(self):
        run = self.launch(*MIRRORED, *ENDLESS)
        agent = wait_for(
            lambda: next((pid for pid, words in self.sshd.processes(2)
                          if words[1:2] == ["node"]
                          and holds_back(pid, signal.SIGTERM)), None),
            "an agent")
        os.kill(agent, signal.SIGTERM)
        self.wait_for_step(run, 1)
        wait_for(lambda: not list(self.sshd.processes(2)), "its roles have left")
        self.wait_for_step(run, self.step(run) + 20)
        run.process.send_signal(signal.SIGTERM)
        summary = run.finish(143)
        self.assertEqual(summary["recoveries"], [])
        self.assertEqual(summary["weights_sha256"], hash_of_one_device(
            "--epochs", "0", "--steps", str(summary["steps"])))
        self.nothing_is_left(flights=True)

    def test_ctrl_z_stops_all_hosts(self):
        def states():
            found = []
            for pid in self.roles().values():
                with open(f"/proc/{pid}/stat") as file:
                    found.append(file.read().rsplit(")", 1)[1].split()[0])
            return set(found)

        run = self.launch(*MIRRORED, *ENDLESS)
        self.wait_for_step(run, 20)
        run.process.send_signal(signal.SIGTSTP)
        wait_for(lambda: states() == {"T"}, "all stand still")
        step = self.step(run)
        run.process.send_signal(signal.SIGCONT)
        self.wait_for_step(run, step + 40)
        run.process.send_signal(signal.SIGTERM)
        run.finish(143)
        self.nothing_is_left()

    def test_a_worker_that_comes_later_gets_a_host(self):
        run = self.launch(*SERVED, *ENDLESS)
        self.wait_for_step(run, 20)
        address, certificates = re.search(
            r"coordinator: (\S+), certificates (\S+)", run.output()).groups()
        done = subprocess.run(
            [*self.hosts.on(0), TROUPE, "ctl", "workers", "add",
             "--coordinator", address, "--certificates", certificates],
            capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        wait_for(lambda: "worker:2" in {**self.sshd.roles(1),
                                        **self.sshd.roles(2)}, "worker:2")
        self.wait_for_step(run, self.step(run) + 40)
        run.process.send_signal(signal.SIGTERM)
        summary = run.finish(143)
        self.assertEqual(summary["weights_sha256"], hash_of_one_device(
            "--epochs", "0", "--steps", str(summary["steps"])))
        self.nothing_is_left()

    def test_workers_that_keep_shares_die_and_come_back(self):
        run = self.launch(*SHARED, *ENDLESS)
        self.wait_for_step(run, 20)
        everybody = set(self.roles())
        self.assertTrue(everybody >= {f"sharded:{i}" for i in range(4)})
        neighbours = [set(self.sshd.roles(host)) - {"coordinator"}
                      for host in (1, 2)]
        self.assertEqual(neighbours, [{"sharded:0", "sharded:2"},
                                      {"sharded:1", "sharded:3"}])
        pid = self.roles()["sharded:1"]
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: self.roles().get("sharded:1") not in (None, pid),
                 "it is back")
        self.wait_for_step(run, self.step(run) + 40)
        self.end_undisturbed(run)

    def end_undisturbed(self, run):
        """Nothing was lost, and nothing is left."""
        run.process.send_signal(signal.SIGTERM)
        summary = run.finish(143)
        self.assertEqual(summary["steps_rolled_back"], 0)
        self.assertEqual(summary["weights_sha256"], hash_of_one_device(
            "--epochs", "0", "--steps", str(summary["steps"])))
        self.nothing_is_left()

    def check_cable(self, job, out, dead, whole):
        """A cable between two hosts that both reach the launcher's: the run
        stood still for as long as it was cut, as roles that somebody starts
        again were never left out for their links."""
        run = self.launch(*job, *ENDLESS)
        self.wait_for_step(run, 20)
        before = self.roles()
        dead()
        wait_for(lambda: re.search(rf"(?m)^{out} is left out: no link to ",
                                   run.output()), f"{out} is left out")
        self.wait_for_step(run, self.step(run) + 40)
        self.assertNotRegex(run.output(), rf"(?m)^{out} is back")
        whole()
        wait_for(lambda: re.search(rf"(?m)^{out} is back$", run.output()),
                 f"{out} is back")
        self.wait_for_step(run, self.step(run) + 40)
        self.assertEqual(self.roles(), before)  # no process but those
        self.end_undisturbed(run)

    def test_a_cut_cable_between_two_hosts_costs_the_fewest_roles(self):
        self.check_cable(MIRRORED, "worker:2", lambda: self.hosts.cut(1, 2),
                         lambda: self.hosts.mend(1, 2))

    def test_a_cut_cable_between_the_hosts_of_chains_costs_one_side(self):
        """Two replicas went first, for the links that had failed twice; then
        the rest had dead links too, nobody of it could be spared, and the run
        stood still until the cable was whole."""
        run = self.launch(*SERVED, *ENDLESS)
        self.wait_for_step(run, 20)
        before = self.roles()
        self.hosts.cut(1, 2)
        wait_for(lambda: run.output().count("is left out: no link to ") >= 3,
                 "one side is left out")
        self.wait_for_step(run, self.step(run) + 40)
        out = re.findall(r"(?m)^(\S+) is left out: no link to ", run.output())
        self.assertEqual(len(out), 3, run.output())
        self.assertNotIn("nobody can be spared", run.output())
        self.hosts.mend(1, 2)
        for role in out:
            wait_for(lambda: re.search(rf"(?m)^{role} is back$", run.output()),
                     f"{role} is back")
        self.wait_for_step(run, self.step(run) + 40)
        self.assertEqual(self.roles(), before)
        self.end_undisturbed(run)

    def test_so_do_large_packets_that_get_lost_between_them(self):
        self.check_cable(MIRRORED, "worker:2", lambda: self.hosts.narrow(1, 2),
                         lambda: self.hosts.widen(2))

    def test_a_run_that_can_spare_nobody_says_so_and_waits(self):
        """It told of each try, some seven lines a second, and not of that."""
        run = self.launch(*STAGED, *ENDLESS)
        self.wait_for_step(run, 20)
        before = self.roles()
        self.hosts.cut(1, 2)
        wait_for(lambda: re.search(
            r"(?m)^no link between stage:0 and stage:1, and nobody can be "
            r"spared: .*$", run.output()), "it says so")
        time.sleep(2)  # the cable's time, not the test's
        self.assertLessEqual(run.output().count("links to stage:"), 2)
        self.hosts.mend(1, 2)
        self.wait_for_step(run, self.step(run) + 40)
        self.assertEqual(self.roles(), before)
        run.process.send_signal(signal.SIGTERM)
        summary = run.finish(143)
        self.assertEqual(summary["weights_sha256"], hash_of_one_device(
            "--epochs", "0", "--steps", str(summary["steps"])))
        self.nothing_is_left()

    def test_nothing_outlives_a_killed_launcher(self):
        # At first while hosts are met and the program is copied, then later.
        for wait_s in (0.1, 0.4, 1.0, None):
            run = self.launch(*MIRRORED, *ENDLESS)
            if wait_s is None:
                self.wait_for_step(run, 20)
            else:
                time.sleep(wait_s)
            run.process.kill()
            run.process.wait()
            self.nothing_is_left(flights=True)

    def test_launchers_killed_at_random_moments_leave_nothing(self):
        """But a folder with what the last one kept (flags, journal, flight
        recorder), which the next run on that host removes."""
        chance = random.Random(SEED)
        own = {"XDG_STATE_HOME": self.path("state"), "TMPDIR": self.path("tmp")}
        for folder in own.values():
            os.mkdir(folder)

        def files():
            return [x for folder in own.values()
                    for x in glob.glob(f"{folder}/**/*", recursive=True,
                                       include_hidden=True)
                    if os.path.isfile(x)]
        steps = 0
        for kill in range(KILLS):
            job = (SERVED, MIRRORED, STAGED, SHARED)[kill % 4]
            run = self.launch(*job, *ENDLESS, environment=own)
            time.sleep(chance.uniform(0, LATEST_KILL_S))
            steps += self.step(run) > 0
            run.process.kill()
            run.process.wait()
            self.nothing_is_left(flights=True)
            for host in (1, 2):
                self.assertEqual(self.sshd.memory_files(host), [])
            kept = files()
            folders = {os.path.dirname(x) for x in kept}
            self.assertLessEqual(len({x for x in folders if "/run-" in x}), 1)
            self.assertLessEqual(
                len({x for x in folders if "/flight-" in x}), 4)
            for file in kept:
                self.assertRegex(file, r"/state/troupe/(flight-[^/]+/[^/]+|"
                                 r"run-[^/]+/(job\.toml|journal\.db.*))$")
            run.__exit__()
        with Run(*JOB, *MIRRORED, "--epochs", "1", "--processes",
                 environment=own) as run:
            run.finish()
        self.assertEqual([x for x in files() if "/flight-" not in x], [])
        print(f"\n  {KILLS} kills, {steps} of them of runs that trained", end="",
              file=sys.stderr)

    def test_the_first_cause_is_the_last_line_after_its_roles_words(self):
        # Its data are on the launcher's host alone.
        data = self.path("only-here", "table.csv")
        with open(data, "w") as file:
            file.write("a,b,label\n" + "1,2,0\n2,1,1\n" * 100)
        run = Run("--data", f"csv:{data}?label=label", "--model", "mlp:2-8-2",
                  *MIRRORED, *ENDLESS, command=self.command())
        self.addCleanup(run.__exit__)
        run.finish(1)
        self.assertRegex(run.error(),
                         r"\Atroupe: worker:\d \(h\d\): .*table\.csv[^\n]*"
                         r"\n\Z")
        role = run.error().split()[1].rstrip(":")
        lines = [line for line in run.output().splitlines()
                 if line.startswith("[")]
        self.assertRegex(lines[-1], r"table\.csv")
        self.assertEqual({line.split("]")[0][1:] for line in lines},
                         {role.replace(":", " ")})
        self.nothing_is_left()

    def test_an_allocation_of_slurms_names_the_hosts(self):
        command = self.command()
        at = command.index("-H")
        done = subprocess.run(
            [*command[:at], *command[at + 2:-1], "--dry-run", "--", "train",
             *JOB, *SERVED], capture_output=True, text=True, timeout=60,
            check=True, env={**os.environ, "SLURM_JOB_NODELIST": "h[1-2]",
                             "SLURM_TASKS_PER_NODE": "3(x2)"})
        self.assertIn("\nh1, 3 of 3 slots\n", done.stdout)
        self.assertIn("\nh2, 3 of 3 slots\n", done.stdout)

    # --- refusals: one line each ---

    def test_what_ssh_refuses_is_one_line(self):
        self.assertRegex(self.refused(where="h1:3,nowhere:3"),
                         "nowhere: there is no host of that name")
        self.assertRegex(self.refused(where="h1:3,h0:3"),
                         "h0: its host key is not known|h0: nobody takes")
        self.sshd.know(1)
        self.assertRegex(self.refused(), "h2: its host key is not known here")
        self.sshd.know(1, 2)
        os.rename(self.path("user"), self.path("elsewhere"))
        self.assertRegex(self.refused(), "h1: ssh would ask for a password.*"
                         "ssh-copy-id h1")

    def test_another_program_is_not_overwritten(self):
        other = self.path("other")
        with open(other, "w") as file:
            file.write("#!/bin/sh\necho 'troupe 0.1'\n")
        os.chmod(other, 0o755)
        line = self.refused(flags=["--remote-path", other])
        self.assertRegex(line, r"h[12]: \S*other is another program there \(troupe "
                         r"0\.1, SHA-256 .* remove it")
        with open(other) as file:
            self.assertIn("0.1", file.read())

    def test_a_host_that_drops_ssh_is_named(self):
        self.hosts.unplug(2)
        self.assertRegex(
            self.refused(seconds="2"),
            "h2: it does not answer")

    def test_ways_are_tried_before_the_first_step(self):
        self.hosts.block(1, 2)
        self.assertRegex(self.refused(),
                         r"h1 does not reach h2: 10\.77\.0\.3:\d+ ")
        self.hosts.unblock(1, 2)
        self.hosts.at(self.hosts.keepers[2], "ip", "route", "add",
                      "prohibit", "10.77.0.3/32")
        self.assertRegex(self.refused(), "h1 does not reach h2: ")

    def test_an_address_that_a_host_has_not_is_refused(self):
        file = self.path("hosts")
        with open(file, "w") as out:
            out.write("h1 slots=3\nh2 slots=3 address=10.99.0.1\n")
        done = subprocess.run(
            [*self.hosts.on(0), TROUPE, "launch", "--hosts-file", file, "--ssh",
             self.sshd.ssh(), "--", "train", *JOB, *MIRRORED],
            capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"h2: 10\.99\.0\.1 is no address of this "
                         r"host")


if __name__ == "__main__":
    program()
    unittest.main()
