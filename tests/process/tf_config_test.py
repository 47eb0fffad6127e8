"""The same command on each host, TF_CONFIG says who is who: also for `troupe
train`, with a chief, among equals where worker 0 is it, and with an evaluator,
which judges what the job checkpoints."""
# Symptom: `troupe train` did not look at the task: two hosts trained two models.
# ctest: TIMEOUT 600

import json
import os
import socket
import unittest

from cluster import Run, wait_for
from own_folder import OwnFolder
from roles import Role

JOB = ["--data", "synthetic:digits?samples=2000", "--model", "mlp:784-48-10",
       "--eval-fraction", "0.1", "--global-batch", "64", "--seed", "7"]


def free_addresses(count):
    """Where nobody listened a moment ago."""
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    out = [f"127.0.0.1:{one.getsockname()[1]}" for one in taken]
    for one in taken:
        one.close()
    return out


class TfConfig(OwnFolder):
    @classmethod
    def setUpClass(cls):
        with Run(*JOB, "--epochs", "2", "--strategy", "one_device") as run:
            cls.expected = run.finish()

    def setUp(self):
        super().setUp()
        # One folder for all hosts, made before.
        Role(self.addCleanup, "coordinator", "--certificates",
             self.path("certificates"), *JOB, "--join-deadline-ms",
             "1").finish(1)

    def start(self, cluster, kind, index, *arguments, command="train"):
        return Role(self.addCleanup, "--certificates",
                    self.path("certificates"), "--summary",
                    self.path(f"{kind}-{index}.json"), *JOB, "--epochs", "2",
                    *arguments, command=command,
                    tf_config={"cluster": cluster,
                               "task": {"type": kind, "index": index}})

    def summary(self, name):
        with open(self.path(f"{name}.json")) as file:
            return json.load(file)

    def check(self, name):
        summary = self.summary(name)
        for key in ("weights_sha256", "state_sha256", "steps"):
            self.assertEqual(summary[key], self.expected[key])
        self.assertEqual(summary["workers"], 2)

    def test_with_a_chief_each_host_trains_its_part_of_one_model(self):
        chief, shard, first, second = free_addresses(4)
        cluster = {"chief": [chief], "ps": [shard], "worker": [first, second]}
        roles = [self.start(cluster, "worker", 1),
                 self.start(cluster, "ps", 0),
                 self.start(cluster, "worker", 0),
                 self.start(cluster, "chief", 0)]
        for role in reversed(roles):
            role.finish()
        self.check("chief-0")
        self.assertEqual(self.summary("chief-0")["strategy"],
                         "parameter_server")
        self.assertFalse(os.path.exists(self.path("worker-1.json")))

    def test_without_a_chief_worker_0_is_it(self):
        for command in ("train", "role"):
            with self.subTest(command=command):
                cluster = {"worker": free_addresses(2)}
                roles = [self.start(cluster, "worker", index, command=command)
                         for index in (1, 0)]
                for role in reversed(roles):
                    role.finish()
                self.check("worker-0")
                self.assertEqual(self.summary("worker-0")["strategy"],
                                 "multi_worker_mirrored")
                self.assertFalse(os.path.exists(self.path("worker-1.json")))

    def test_one_worker_alone_just_trains(self):
        role = self.start({"worker": free_addresses(1)}, "worker", 0,
                          "--strategy", "one_device")
        role.finish()
        self.assertEqual(self.summary("worker-0")["weights_sha256"],
                         self.expected["weights_sha256"])

    def test_a_cluster_that_nobody_leads_is_refused(self):
        one, two, three = free_addresses(3)
        role = self.start({"ps": [one], "worker": [two, three]}, "ps", 0)
        self.assertRegex(role.finish(2), r"\Atroupe: TF_CONFIG: .*chief.*\n\Z")

    # --- the evaluator --------------------------------------------------------

    def test_the_evaluator_judges_what_the_job_checkpoints(self):
        chief, shard, first, second = free_addresses(4)
        cluster = {"chief": [chief], "ps": [shard], "worker": [first, second]}
        kept = ["--checkpoint-dir", self.path("kept"), "--checkpoint-every",
                "10", "--checkpoint-keep", "9"]
        evaluator = self.start(cluster, "evaluator", 0, *kept)
        roles = [self.start(cluster, kind, index, *kept)
                 for kind, index in (("worker", 1), ("ps", 0), ("worker", 0),
                                     ("chief", 0))]
        for role in (*reversed(roles), evaluator):
            role.finish()
        self.check("chief-0")
        judged = self.summary("evaluator-0")["evaluations"]
        trained = self.summary("chief-0")
        last = judged[-1]
        self.assertEqual(last["step"], trained["steps"])
        self.assertEqual(last["samples"], 200)
        self.assertEqual(last["weights_sha256"], trained["weights_sha256"])
        self.assertEqual(last["eval"]["accuracy"],
                         trained["eval"]["accuracy"])
        self.assertAlmostEqual(last["eval"]["loss"], trained["eval"]["loss"],
                               9)
        self.assertRegex(evaluator.output(),
                         rf"(?m)^step {last['step']}  eval loss ")

    def test_nobody_waits_for_the_evaluator_nor_misses_it(self):
        address = free_addresses(1)[0]
        kept = ["--checkpoint-dir", self.path("kept"), "--checkpoint-every",
                "20"]
        coordinator = Role(self.addCleanup, "coordinator", "--listen", address,
                           "--certificates", self.path("certificates"),
                           "--summary", self.path("chief-0.json"), *JOB,
                           "--epochs", "40", "--workers", "1", "--ps", "1",
                           *kept)
        joining = ["--coordinator", coordinator.address(), "--certificates",
                   self.path("certificates")]
        evaluator = Role(self.addCleanup, "evaluator:0", *joining, *kept[:2])
        members = [Role(self.addCleanup, role, *joining)
                   for role in ("ps:0", "worker:0")]
        wait_for(lambda: "eval loss" in evaluator.output(), "an evaluation")
        evaluator.process.terminate()
        self.assertEqual(evaluator.finish(0, 10), "")
        self.assertIsNone(coordinator.process.poll(), "the run was too short")
        for role in (coordinator, *members):
            role.finish()
        self.assertEqual(self.summary("chief-0")["recoveries"], [])

    def test_an_evaluator_without_anything_to_judge_says_so(self):
        coordinator = Role(self.addCleanup, "coordinator", "--certificates",
                           self.path("certificates"), *JOB, "--epochs", "1",
                           "--workers", "1", "--ps", "1")
        joining = ["--coordinator", coordinator.address(), "--certificates",
                   self.path("certificates")]
        evaluator = Role(self.addCleanup, "evaluator:0", *joining,
                         "--checkpoint-dir", self.path("nothing"))
        for role in ("ps:0", "worker:0"):
            Role(self.addCleanup, role, *joining)
        coordinator.finish()
        self.assertRegex(evaluator.finish(1, 20),
                         r"\Atroupe: evaluator:0: .*nothing.*\n\Z")


if __name__ == "__main__":
    unittest.main()
