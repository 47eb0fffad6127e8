"""Who was started by hand is started again by the same command, the coordinator
and a shard too, and nothing is undone. While roles are missing the coordinator
says who, and waits for the next one from the last one on."""
# Symptom: a coordinator that was killed began anew, and roles ended with
# caf::sec::remote_lookup_failed; a shard's death undid all steps; roles that
# came one after the other were given up half a minute after the first.
# ctest: TIMEOUT 600

import glob
import hashlib
import json
import os
import re
import subprocess
import time
import unittest

import clicks
from cluster import ENDLESS, TROUPE, Run, wait_for
from own_folder import OwnFolder
from roles import Role

JOB = ["--data", "synthetic:digits?samples=2000", "--model", "mlp:784-48-10",
       "--global-batch", "64", "--seed", "7"]
LENGTH = ["--epochs", "40"]
HELD_OUT = ["--eval-fraction", "0.1", "--eval-every", "1"]
SERVED = ["--strategy", "parameter_server", "--workers", "2", "--ps", "1"]
MEMBERS = ["ps:0", "worker:0", "worker:1"]


def kept_memory(address, role):
    """Where a shard that nobody supervises keeps its states."""
    name = hashlib.sha256(f"{address} {role}".encode()).hexdigest()[:16]
    return f"/dev/shm/troupe-{os.geteuid()}-{name}"


class ByHandAgain(OwnFolder):
    @classmethod
    def setUpClass(cls):
        with Run(*JOB, *LENGTH, "--strategy", "one_device") as run:
            cls.expected = run.finish()

    def setUp(self):
        super().setUp()
        self.certificates = self.path("certificates")

    def coordinator(self, *arguments, job=SERVED, length=LENGTH):
        return Role(self.addCleanup, "coordinator", "--certificates",
                    self.certificates, "--summary", self.path("summary.json"),
                    *JOB, *length, *job, *arguments)

    def member(self, role, address, *arguments):
        return Role(self.addCleanup, role, "--coordinator", address,
                    "--certificates", self.certificates, *arguments)

    def check(self, kinds):
        with open(self.path("summary.json")) as file:
            summary = json.load(file)
        self.assertEqual(summary["weights_sha256"],
                         self.expected["weights_sha256"])
        self.assertEqual(summary["steps_rolled_back"], 0)
        self.assertEqual(sorted(x["kind"] for x in summary["recoveries"]),
                         kinds)

    def kill_once_begun(self, coordinator, role):
        wait_for(lambda: "epoch 4 " in coordinator.output(), "four epochs")
        self.assertIsNone(coordinator.process.poll(), "the run was too short")
        role.process.kill()
        role.process.wait()

    def test_a_refused_start_is_no_job_to_go_on_with(self):
        # Training began at step 0, though it had said "resumed from", and wrote
        # over the weights of later steps.
        kept = ["--checkpoint-dir", self.path("kept")]
        with Run(*JOB, "--epochs", "0", "--steps", "200", "--strategy",
                 "one_device", *kept) as run:
            run.finish()
        how = [*kept, "--journal", self.path("journal.db")]
        refused = self.coordinator(*how, length=["--epochs", "0", "--steps",
                                                 "300"])
        refused.finish(1)
        self.assertIn("add --resume", refused.error())
        coordinator = self.coordinator(*how, "--resume",
                                       length=["--epochs", "0", "--steps",
                                               "400"])
        members = [self.member(role, coordinator.address())
                   for role in MEMBERS]
        coordinator.finish()
        for member in members:
            member.finish()
        told = subprocess.run([TROUPE, "events", self.path("journal.db"),
                               "--kind", "epoch", "--json"], check=True,
                              capture_output=True, text=True, timeout=60)
        first = json.loads(told.stdout.splitlines()[0])
        self.assertEqual(first["version"], 200)
        self.assertNotIn("is back", coordinator.output())

    def test_a_coordinator_is_started_again_and_its_roles_come_back(self):
        first = self.coordinator()
        address = first.address()
        members = [self.member(name, address) for name in MEMBERS]
        self.kill_once_begun(first, first)
        second = self.coordinator()
        self.assertEqual(second.address(), address)
        second.finish()
        for member in members:
            member.finish(0, 10)
        self.check(["coordinator_restarted"])
        left = [x for x in os.listdir(self.certificates) if "journal" in x]
        self.assertEqual([x for x in left if not x.endswith(".lock")], [])

    def test_data_epochs_that_end_without_it_are_told_when_it_is_back(self):
        """They were told at the run's end, after all others: their evaluation
        was waited for."""
        first = self.coordinator(*HELD_OUT, length=ENDLESS)
        members = [self.member(name, first.address()) for name in MEMBERS]
        self.kill_once_begun(first, first)
        time.sleep(1)  # for epochs to end meanwhile
        second = self.coordinator(*HELD_OUT, length=ENDLESS)
        second.end(3)
        for member in members:
            member.finish(0, 10)
        told = [int(x) for x in re.findall(r"(?m)^epoch (\d+) ",
                                           second.output())]
        self.assertEqual(told, list(range(told[0], told[0] + len(told))))
        before = re.findall(r"(?m)^epoch (\d+) ", first.output())
        self.assertLessEqual(told[0], int(before[-1]) + 2)

    def test_another_job_does_not_go_on_with_the_journal(self):
        first = self.coordinator()
        members = [self.member(name, first.address()) for name in MEMBERS]
        self.kill_once_begun(first, first)
        other = self.coordinator("--seed", "8")  # given twice: refused as such
        self.assertEqual(other.process.wait(20), 2)
        other = Role(self.addCleanup, "coordinator", "--certificates",
                     self.certificates, *JOB, *SERVED, "--lr", "0.5")
        self.assertRegex(other.finish(1),
                         r"\Atroupe: journal .*of a job with other flags "
                         r"\(.*--lr is 0\.001 there and 0\.5 here.*\); .*"
                         r"remove the file.*\n\Z")
        for member in members:
            member.stop()

    def test_two_coordinators_share_certificates(self):
        first = self.coordinator()
        first.address()
        second = self.coordinator()
        self.assertNotEqual(second.address(), first.address())
        wait_for(lambda: "no journal is kept" in second.output(), "a line")
        for one in (first, second):
            one.process.terminate()
            one.finish(143)

    def test_a_shard_is_started_again_and_nothing_is_undone(self):
        coordinator = self.coordinator()
        address = coordinator.address()
        members = {name: self.member(name, address) for name in MEMBERS}
        kept = kept_memory(address, "ps:0")
        self.kill_once_begun(coordinator, members["ps:0"])
        self.assertTrue(os.path.exists(kept))
        members["ps:0"] = self.member("ps:0", address)
        coordinator.finish()
        for member in members.values():
            member.finish(0, 10)
        self.check(["shard_restored"])
        self.assertFalse(os.path.exists(kept))

    def test_everybody_is_killed_and_started_again(self):
        first = self.coordinator()
        address = first.address()
        members = [self.member(name, address) for name in MEMBERS]
        self.kill_once_begun(first, first)
        for member in members:
            member.process.kill()
            member.process.wait()
        again = self.coordinator()
        members = [self.member(name, address) for name in MEMBERS]
        again.finish()
        for member in members:
            member.finish(0, 10)
        with open(self.path("summary.json")) as file:
            summary = json.load(file)
        self.assertEqual(summary["weights_sha256"],
                         self.expected["weights_sha256"])
        self.assertEqual(summary["steps_rolled_back"], 0)

    def test_a_coordinator_that_is_started_again_knows_the_numeric_class(self):
        """It took whoever came first, and steps of two classes were one run."""
        if " fma " not in open("/proc/cpuinfo").read():
            self.skipTest("this processor has no fused multiply-add")
        saved = ["--checkpoint-dir", self.path("saved")]
        first = self.coordinator(*saved)
        address = first.address()
        members = [self.member(name, address) for name in MEMBERS]
        self.kill_once_begun(first, first)
        for member in members[1:]:
            member.process.kill()
            member.process.wait()
        again = self.coordinator(*saved)
        line = ("computes in the numeric class SSE float32, and the job's "
                "workers until now in FMA float32: use machines of one class, "
                "or pin --isa")
        self.assertEqual(
            self.member("worker:1", address, "--isa", "sse4").finish(1),
            f"troupe: worker:1: cannot take part: {line}\n")
        members[1:] = [self.member(name, address) for name in MEMBERS[1:]]
        again.finish()
        for member in members:
            member.finish(0, 10)
        with open(self.path("summary.json")) as file:
            self.assertEqual(json.load(file)["weights_sha256"],
                             self.expected["weights_sha256"])
        (manifest,) = glob.glob(self.path("saved") + "/*/manifest.json")
        with open(manifest) as file:
            self.assertEqual(json.load(file)["checkpoint"]["settings"]
                             ["numeric-classes"],
                             "FMA float32")

    def test_what_a_job_that_was_killed_kept_goes_with_the_next_one(self):
        """It stayed in the host's memory for good."""
        first = self.coordinator(job=["--strategy", "parameter_server",
                                      "--workers", "2", "--ps", "2"])
        address = first.address()
        members = [self.member(name, address) for name in (*MEMBERS, "ps:1")]
        self.kill_once_begun(first, first)
        for member in members:
            member.process.kill()
            member.process.wait()
        kept = kept_memory(address, "ps:1")
        self.assertTrue(os.path.exists(kept))
        self.certificates = self.path("others")
        second = self.coordinator("--listen", address)
        self.assertEqual(second.address(), address)
        members = [self.member("worker:0", address)]
        wait_for(lambda: not os.path.exists(kept), "it goes", 20)
        members += [self.member(name, address) for name in MEMBERS
                    if name != "worker:0"]
        second.finish()
        for member in members:
            member.finish(0, 10)
        self.check([])
        self.assertFalse(os.path.exists(kept_memory(address, "ps:0")))

    # --- a machine with little memory for files -------------------------------

    def on_small_memory(self, kib):
        """What stands before a command whose /dev/shm has so much, and which
        says at its end what is left there."""
        inside = ["unshare", "--mount"]
        if os.geteuid() != 0:
            inside += ["--user", "--map-root-user"]
        mount = f"mount -t tmpfs -o size={kib}k none /dev/shm"
        tried = subprocess.run([*inside, "sh", "-c", mount],
                               capture_output=True, text=True)
        if tried.returncode != 0:
            self.skipTest(f"no mount namespaces here: {tried.stderr}")
        return [*inside, "sh", "-c",
                f'{mount} && "$0" "$@"; status=$?; echo left: '
                "$(ls /dev/shm); exit $status"]

    def test_a_state_without_room_in_dev_shm_is_kept_in_the_process(self):
        """It died of SIGBUS, without a word, and left its file."""
        coordinator = self.coordinator()
        address = coordinator.address()
        shard = Role(self.addCleanup, "ps:0", "--coordinator", address,
                     "--certificates", self.certificates,
                     on=self.on_small_memory(512))
        workers = [self.member(name, address) for name in MEMBERS[1:]]
        coordinator.finish()
        for member in (shard, *workers):
            member.finish(0, 10)
        self.check([])
        self.assertRegex(
            shard.output(), r"ps:0: its death will undo steps: "
            r"/dev/shm/troupe-\d+-[0-9a-f]{16}: 1(\.\d)? MiB are needed there and "
            r"512 KiB are free; make it larger \(docker run --shm-size\)\n")
        self.assertTrue(shard.output().endswith("left:\n"), shard.output())

    def test_a_table_that_outgrows_dev_shm_is_a_line(self):
        coordinator = Role(
            self.addCleanup, "coordinator", "--certificates", self.certificates,
            *clicks.job(steps="2000"), *clicks.SERVED, "--tables", "sparse",
            "--workers", "1", "--ps", "1")
        address = coordinator.address()
        shard = Role(self.addCleanup, "ps:0", "--coordinator", address,
                     "--certificates", self.certificates,
                     on=self.on_small_memory(3600))
        worker = self.member("worker:0", address)
        self.assertRegex(shard.finish(1), r"\Atroupe: ps:0: [^\n]*/dev/shm/\S+: "
                         r"\S+ \S+ are needed there and [^\n]*\n\Z")
        for member in (coordinator, worker):
            member.stop()

    # --- many that come one after the other -----------------------------------

    def test_who_is_missing_is_said_and_the_last_arrival_counts(self):
        coordinator = self.coordinator(
            "--join-deadline-ms", "4000",
            job=["--strategy", "parameter_server", "--workers", "4", "--ps",
                 "1"])
        address = coordinator.address()
        begin = time.monotonic()
        members = []
        for name in ("ps:0", "worker:0", "worker:1", "worker:2"):
            members.append(self.member(name, address))
            line = f"{len(members)} of 5 roles have joined, missing: "
            wait_for(lambda: line in coordinator.output(), line, 10)
            if name == "worker:0":
                self.assertIn(f"{line}worker:1 to worker:3",
                              coordinator.output())
            time.sleep(0.5)
        # Longer than the deadline, counted from the beginning.
        self.assertGreater(time.monotonic() - begin, 4)
        members.append(self.member("worker:3", address))
        coordinator.finish()
        self.check([])

    def test_who_never_came_is_said_with_how_many_did(self):
        coordinator = self.coordinator(
            "--join-deadline-ms", "2000",
            job=["--strategy", "parameter_server", "--workers", "4", "--ps",
                 "1"])
        members = [self.member(name, coordinator.address())
                   for name in ("ps:0", "worker:0")]
        self.assertRegex(
            coordinator.finish(1),
            r"\Atroupe: worker:1 to worker:3 did not join within 2 s of the "
            r"last of 2 of 5 roles that did: .*--join-deadline-ms\n\Z")
        for member in members:
            member.process.wait(10)


if __name__ == "__main__":
    unittest.main()
