"""`troupe launch` in jobs of a real Slurm: Debian's slurmctld on one host and
slurmd on two others, which are network namespaces with an sshd each. Slurm's
packages are unpacked, not installed, and laid over /usr in mount namespaces."""
# nightly
# ctest: TIMEOUT 1800 RUN_SERIAL TRUE

import json
import os
import re
import shutil
import subprocess
import sys
import time
import unittest
from pathlib import Path

from cluster import TROUPE, Run, wait_for
from hosts import DYING_TOO, Hosts
from own_folder import OwnFolder
from sshd import MADE, Sshd, program

UNPACKED = MADE / "troupe" / "slurm"
PACKAGES = ("slurmctld", "slurmd", "slurm-client", "munge")
JOB = ["--data", "synthetic:digits?samples=2000", "--model", "mlp:784-48-10",
       "--seed", "7", "--strategy", "multi_worker_mirrored", "--workers", "4"]
SETTINGS = """\
ClusterName=t
SlurmctldHost=h0({folder_address})
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=10
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MpiDefault=none
ReturnToService=2
SelectType=select/linear
SlurmdParameters=config_overrides
KillWait=30
{nodes}
PartitionName=all Nodes=h1,h2 Default=YES State=UP
"""
# A host's own names, and Slurm's programs over its /usr.
INSIDE = """\
mount --make-rprivate / &&
mount -t overlay overlay -o "lowerdir=$1/usr:/usr" /usr &&
mount --bind "$2/hosts" /etc/hosts &&
hostname "$3" && shift 3 && exec "$@"
"""


def unpacked():
    """Where Slurm's packages lie with what they need besides; ends the program
    with status 77 where they cannot be had."""
    if (UNPACKED / "usr/sbin/slurmctld").exists():
        return UNPACKED
    why = None
    made = UNPACKED.with_name(f"slurm-{os.getpid()}")
    made.mkdir(parents=True)
    try:
        said = subprocess.run(
            ["apt-get", "-s", "--no-install-recommends", "install", *PACKAGES],
            capture_output=True, text=True, timeout=60, check=True).stdout
        missing = re.findall(r"(?m)^Inst (\S+)", said)
        subprocess.run(["apt-get", "download", *missing], cwd=made, check=True,
                       capture_output=True, timeout=300)
        for package in made.glob("*.deb"):
            subprocess.run(["dpkg", "-x", package, made], check=True)
            package.unlink()
        for file in made.glob("usr/sbin/*-wlm"): # as its alternatives are
            file.with_name(file.name[:-4]).symlink_to(file.name)
        made.rename(UNPACKED)
    except (subprocess.SubprocessError, OSError) as failure:
        why = failure
    shutil.rmtree(made, ignore_errors=True)
    if why is not None:
        print(f"skipped: Slurm's packages cannot be had ({why})")
        sys.exit(77)
    return UNPACKED


class Slurm(OwnFolder):
    def setUp(self):
        super().setUp()
        self.hosts = Hosts(3)
        self.addCleanup(self.hosts.close)
        self.sshd = Sshd(self, self.hosts, self.folder, 2)
        with open(self.path("hosts"), "w") as file:
            file.write("127.0.0.1 localhost\n" + "".join(
                f"{self.hosts.address(host)} h{host}\n" for host in range(3)))
        with open(self.path("slurm.conf"), "w") as file:
            file.write(SETTINGS.format(
                folder=self.folder, folder_address=self.hosts.address(0),
                nodes="\n".join(
                    f"NodeName=h{host} NodeAddr={self.hosts.address(host)} "
                    "CPUs=2 State=UNKNOWN" for host in (1, 2))))
        os.mkdir(self.path("state"))
        os.chmod(self.folder, 0o755)
        with open(self.path("munge.key"), "wb") as file:
            file.write(os.urandom(128))
        os.chmod(self.path("munge.key"), 0o400)
        self.start(0, "munged", "--foreground", "--force",
                   f"--key-file={self.path('munge.key')}",
                   f"--socket={self.path('munge.socket')}",
                   f"--pid-file={self.path('munged.pid')}",
                   f"--log-file={self.path('munged.log')}",
                   f"--seed-file={self.path('munged.seed')}")
        wait_for(lambda: os.path.exists(self.path("munge.socket")), "munge")
        self.start(0, "slurmctld", "-D")
        for host in (1, 2):
            self.start(host, "slurmd", "-D", "-N", f"h{host}")
        wait_for(lambda: self.ask("sinfo", "-h", "-o", "%D %t").strip()
                 == "2 idle", "two nodes")

    def within(self, host, *command):
        return [*self.hosts.on(host), "unshare", "--mount", "--uts", "sh", "-c",
                INSIDE, "sh", str(UNPACKED), self.folder, f"h{host}", *command]

    def environment(self):
        return {**os.environ, "SLURM_CONF": self.path("slurm.conf")}

    def start(self, host, *command):
        with open(self.path(f"{command[0]}-{host}.said"), "w") as said:
            process = subprocess.Popen(
                self.within(host, *command), stdin=subprocess.DEVNULL,
                stdout=said, stderr=said, env=self.environment())

        def stop():
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.addCleanup(stop)

    def ask(self, *command, check=False):
        done = subprocess.run(
            self.within(0, *command), capture_output=True, text=True,
            timeout=60, check=False, env=self.environment(), cwd=self.folder)
        if check and done.returncode != 0:
            raise AssertionError(done.stderr)
        return done.stdout

    def submit(self, *job, options=()):
        with open(self.path("batch.sh"), "w") as file:
            file.write("#!/bin/sh\nexec " + " ".join(
                [os.path.realpath(TROUPE), "launch", "--ssh",
                 f"'{self.sshd.ssh()}'", "--connect-deadline-s", "60", "--",
                 "train"] + [f"'{word}'" for word in (*JOB, *job)]) + "\n")
        said = self.ask("sbatch", "-N", "2", "--ntasks-per-node", "2",
                        "--output", self.path("out"), "--open-mode=append",
                        *options, self.path("batch.sh"), check=True)
        return re.search(r"(\d+)", said).group()

    def state(self, job):
        return re.search(r"JobState=(\S+)", self.ask(
            "scontrol", "show", "job", job)).group(1)

    def output(self):
        try:
            with open(self.path("out")) as file:
                return file.read()
        except OSError:
            return ""

    def wait_for_state(self, job, states, deadline_s=180):
        try:
            wait_for(lambda: self.state(job) in states, f"{states}", deadline_s)
        except AssertionError as late:
            raise AssertionError(f"{late}: {self.state(job)} "
                                 f"{self.output()}") from late

    def wait_for_step(self, step):
        def reached():
            steps = re.findall(r"step (\d+)", self.output())
            return steps and int(steps[-1]) >= step
        try:
            wait_for(reached, f"step {step}", 120)
        except AssertionError as late:
            raise AssertionError(f"{late}: {self.output()}") from late

    def nothing_is_left(self):
        def left():
            return [words for host in (1, 2)
                    for _, words in self.sshd.processes(host)
                    if "troupe" in words[0]]
        wait_for(lambda: not left(), "all have ended", 30)

    def hash_of_one_device(self, steps):
        with Run(*JOB[:6], "--strategy", "one_device", "--epochs", "0",
                 "--steps", str(steps)) as run:
            return run.finish()["weights_sha256"]

    def check_hash(self, file):
        with open(self.path("summary.json")) as summary_file:
            summary = json.load(summary_file)
        self.assertEqual(summary["weights_sha256"],
                         self.hash_of_one_device(summary["steps"]), file)
        return summary

    def test_a_job_by_sbatch_has_the_bits_of_one_device(self):
        job = self.submit("--epochs", "1", "--summary",
                          self.path("summary.json"))
        self.wait_for_state(job, {"COMPLETED", "FAILED"})
        self.assertEqual(self.state(job), "COMPLETED", self.output())
        self.check_hash("summary.json")
        self.nothing_is_left()

    def test_a_job_that_is_queued_again_goes_on(self):
        endless = ["--epochs", "0", "--steps", "100000000", "--log-every",
                   "100", "--checkpoint-dir", self.path("kept"),
                   "--checkpoint-every", "100", "--resume", "--summary",
                   self.path("summary.json")]
        job = self.submit(*endless, options=["--requeue"])
        self.wait_for_step(300)
        self.ask("scontrol", "requeue", job, check=True)
        self.wait_for_state(job, {"PENDING"})
        before = int(re.findall(r"step (\d+)", self.output())[-1])
        self.assertGreaterEqual(before, 300)
        self.wait_for_state(job, {"RUNNING"}, 240)
        self.wait_for_step(before + 300)
        self.assertRegex(self.output(), r"resumed from \S+/kept/step-")
        self.ask("scancel", "--batch", "--signal=TERM", job, check=True)
        self.wait_for_state(job, {"COMPLETED", "FAILED", "CANCELLED"})
        summary = self.check_hash("summary.json")
        self.assertGreaterEqual(summary["resumed_from"]["step"], 300)
        self.nothing_is_left()

    def test_the_end_of_its_time_saves_it(self):
        job = self.submit(
            "--epochs", "0", "--steps", "100000000", "--log-every", "100",
            "--checkpoint-dir", self.path("kept"), "--checkpoint-every",
            "1000000", "--summary", self.path("summary.json"),
            options=["--time=1", "--signal=B:TERM@20"])
        began = time.monotonic()
        self.wait_for_step(10)
        self.wait_for_state(job, {"COMPLETED", "FAILED", "TIMEOUT"}, 240)
        took = time.monotonic() - began
        summary = self.check_hash("summary.json")
        self.assertRegex(summary["stopped"], "^terminated after step")
        newest = max(Path(self.path("kept")).glob("step-*"))
        self.assertEqual(int(newest.name.split("-")[1]), summary["steps"])
        print(f"\n  {self.state(job)} after {took:.0f} s, step "
              f"{summary['steps']}", end="", file=sys.stderr)
        self.nothing_is_left()


if __name__ == "__main__":
    program()
    unpacked()
    unittest.main()
