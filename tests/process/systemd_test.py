"""A job as a service of systemd, started by a systemd that is the first process of
namespaces of its own: `systemctl stop` sends SIGTERM to every process at once, and
what was asked for is saved before it sends SIGKILL.

Symptom: SIGTERM to all lost the work of a job; with `Restart=` the next run began
anew. endings_test draws such endings; here the sequence is systemd's own."""
# ctest: TIMEOUT 600 RUN_SERIAL TRUE

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from cluster import TROUPE, Run, metadata_of
from own_folder import run_tests

SYSTEMD = "/lib/systemd/systemd"
JOB = ["--data", "synthetic:digits?samples=2000", "--model", "mlp:784-64-10",
       "--eval-every", "0", "--epochs", "0", "--global-batch", "64",
       "--virtual-ranks", "4", "--seed", "7"]
WAYS = {"served": ["--strategy", "parameter_server", "--workers", "2", "--ps",
                   "2", "--processes"],
        "replicas": ["--strategy", "multi_worker_mirrored", "--workers", "2",
                     "--processes"],
        "one_device": ["--strategy", "one_device"]}

# Only what one service needs: no devices, no login, nothing of this system's own.
UNIT = "[Unit]\nDefaultDependencies=no\n"
DRIVER = """
set -e
for way in {ways}; do
  systemctl start job-$way.service
  for try in $(seq 600); do
    grep -q 'step ' {folder}/$way/output 2>/dev/null && break
    sleep 0.1
  done
  sleep 0.$((RANDOM % 10))
  began=$(date +%s%N)
  systemctl stop job-$way.service
  took=$((($(date +%s%N) - began) / 1000000))
  systemctl show job-$way.service -p Result -p ExecMainCode -p ExecMainStatus \\
    > {folder}/$way/result
  echo "milliseconds=$took" >> {folder}/$way/result
done
"""
FIRST_PROCESS = """
set -e
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
[ "$(stat -fc %T /sys/fs/cgroup)" = cgroup2fs ] || umount -l /sys/fs/cgroup/*
umount -l /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup # systemd 256 and later want no other
mount -t tmpfs tmpfs /etc/systemd/system
cp "$1"/units/* /etc/systemd/system/
ln -s /dev/null /etc/systemd/system/tmp.mount # the jobs' folders are below it
exec env -i container=namespaces PATH="$PATH" {systemd} --system \\
  --unit=all.target --log-target=console --log-level=warning
"""


class Systemd(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = scratch.name
        os.mkdir(f"{self.folder}/units")

    def unit(self, name, text):
        with open(f"{self.folder}/units/{name}", "w") as file:
            file.write(UNIT + text)

    def job(self, way):
        home = f"{self.folder}/{way}"
        os.mkdir(home)
        command = [os.path.realpath(TROUPE), "train", *JOB, *WAYS[way],
                   "--steps", "10000000", "--save", f"{home}/weights.safetensors",
                   "--checkpoint-dir", f"{home}/checkpoints",
                   "--summary", f"{home}/summary.json"]
        self.unit(f"job-{way}.service",
                  "[Service]\nType=exec\nTimeoutStopSec=20\n"
                  f"WorkingDirectory={home}\nEnvironment=HOME={home}\n"
                  f"ExecStart={' '.join(command)}\n"
                  f"StandardOutput=append:{home}/output\n"
                  f"StandardError=append:{home}/error\n")

    def boot(self):
        """Runs a systemd until the driver has gone through all jobs."""
        self.unit("basic.target", "")
        self.unit("all.target", "Wants=drive.service\n")
        self.unit("drive.service",
                  "[Service]\nType=oneshot\n"
                  f"ExecStart=/bin/bash {self.folder}/driver\n"
                  "ExecStopPost=/bin/systemctl exit 0\n"
                  f"StandardError=append:{self.folder}/driver.log\n")
        with open(f"{self.folder}/driver", "w") as file:
            file.write(DRIVER.format(ways=" ".join(WAYS), folder=self.folder))
        return subprocess.run(
            ["unshare", "--pid", "--fork", "--kill-child", "--mount", "--cgroup",
             "--ipc", "--uts", "bash", "-c",
             FIRST_PROCESS.format(systemd=SYSTEMD), "first", self.folder],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300,
            check=False)

    def result(self, way):
        with open(f"{self.folder}/{way}/result") as file:
            return dict(line.strip().split("=", 1) for line in file)

    def test_a_service_that_is_stopped_has_saved_what_it_was_asked_for(self):
        for way in WAYS:
            self.job(way)
        done = self.boot()
        if not os.path.exists(f"{self.folder}/driver.log"):
            self.skipTest(f"no systemd comes up here: {done.stdout}{done.stderr}")
        for way in WAYS:
            with self.subTest(way=way):
                home = f"{self.folder}/{way}"
                self.assertTrue(os.path.exists(f"{home}/result"),
                                done.stdout + done.stderr)
                found = self.result(way)
                print(way, found, flush=True)
                self.assertEqual(found["ExecMainStatus"], "143", found)
                self.assertEqual(found["ExecMainCode"], "1")  # it exited itself
                step = int(metadata_of(f"{home}/weights.safetensors")["step"])
                self.assertGreater(step, 0)
                with Run(*JOB, "--strategy", "one_device", "--steps",
                         str(step)) as run:
                    undisturbed = run.finish()
                with open(f"{home}/summary.json") as file:
                    summary = json.load(file)
                self.assertEqual(summary["steps"], step)
                self.assertEqual(summary["weights_sha256"],
                                 undisturbed["weights_sha256"])
                with Run(*JOB, *WAYS[way], "--steps", str(step + 50),
                         "--checkpoint-dir", f"{home}/checkpoints",
                         "--resume") as run:
                    self.assertEqual(run.finish()["resumed_from"]["step"], step)


if __name__ == "__main__":
    if os.geteuid() != 0 or not os.path.exists(SYSTEMD) or shutil.which(
            "systemctl") is None or subprocess.run(
                ["unshare", "--pid", "--fork", "--mount", "--cgroup", "true"],
                capture_output=True, check=False).returncode != 0:
        print("needs root, namespaces and systemd's package")
        sys.exit(77)
    run_tests()
