"""One job over unlike machines: workers that pin unlike instruction sets of one
numeric class get the weights of one device, also when one that is killed comes
back with another set. A worker of another class, or whose kernels are off by one
unit in the last place, is refused by name (docs/numeric_classes.md).

Symptom: worker:0 with avx2 and worker:1 with avx512 were refused, though their
bits were the same; those of convolutions were not."""
# ctest: TIMEOUT 900

import json
import os
import unittest

from cluster import (ENDLESS, TROUPE, Run, metric_of, metrics_address,
                     wait_for)
from own_folder import OwnFolder
from roles import Role

PLANTED = os.path.join(os.path.dirname(os.path.abspath(TROUPE)), "..", "tests",
                       "liboff_by_one_ulp.so")
JOBS = {
    "mlp": ["--model", "mlp:784-48-10", "--data",
            "synthetic:digits?samples=2000"],
    "cnn": ["--model", "cnn", "--data", "synthetic:digits?samples=640"],
    "resnet8": ["--model", "resnet8", "--data",
                "synthetic:digits?samples=640"],
    "transformer": ["--model", "transformer:L2-H2-D32-T16", "--data",
                    "synthetic:text?samples=2000"],
    "llama": ["--model", "llama:L2-H4-K2-D32-T16", "--data",
              "synthetic:text?samples=2000"],
    "dlrm": ["--model", "dlrm", "--data", "synthetic:clicks?samples=2000",
             "--optimizer", "sgd"],
}
COMMON = ["--global-batch", "64", "--seed", "7", "--eval-every", "0"]
SERVED = ["--strategy", "parameter_server", "--workers", "2", "--ps", "2"]
CHAINS = [*SERVED, "--chain", "2"]
REPLICAS = ["--strategy", "multi_worker_mirrored", "--workers", "2"]


def highest_set():
    with open("/proc/cpuinfo") as file:
        flags = file.read().split()
    if "fma" not in flags:
        return "sse4"
    return "avx512" if "avx512vl" in flags else "avx2"


class NumericClasses(OwnFolder):
    def setUp(self):
        super().setUp()
        if highest_set() == "sse4":
            self.skipTest("this processor has no fused multiply-add")

    def coordinator(self, job):
        coordinator = Role(self.addCleanup, "coordinator", "--certificates",
                           self.path("certificates"), "--summary",
                           self.path("summary.json"), *COMMON, *job)
        self.address = coordinator.address()
        return coordinator

    def member(self, role, *arguments, **options):
        return Role(self.addCleanup, role, "--coordinator", self.address,
                    "--certificates", self.path("certificates"), *arguments,
                    **options)

    def start(self, job, second, preload=None):
        """A job and its second worker, which has these words; the first one has
        the highest set of the machine."""
        coordinator = self.coordinator(job)
        shards = ["ps:0", "ps:1"] if "--ps" in job else []
        if "--chain" in job:
            shards += ["ps:2", "ps:3"]
        for role in [*shards, "worker:0"]:
            self.member(role)
        return coordinator, self.member("worker:1", *second, preload=preload)

    def summary(self):
        with open(self.path("summary.json")) as file:
            return json.load(file)

    def expected(self, job):
        with Run(*COMMON, *job, "--strategy", "one_device", "--isa",
                 "avx2") as run:
            summary = run.finish()
        self.assertEqual(summary["numeric_class"], "FMA float32")
        return summary["weights_sha256"]

    def test_unlike_sets_are_one_job(self):
        for name, job in JOBS.items():
            job = [*job, "--epochs", "2"]
            expected = self.expected(job)
            layouts = [SERVED]
            if name in ("cnn", "mlp"):
                layouts += [REPLICAS, CHAINS]
            for layout in layouts:
                with self.subTest(model=name, layout=layout):
                    coordinator, worker = self.start([*job, *layout],
                                                     ["--isa", "avx2"])
                    coordinator.finish()
                    worker.finish()
                    summary = self.summary()
                    self.assertEqual(summary["weights_sha256"], expected)
                    self.assertEqual(summary["numeric_class"], "FMA float32")

    def test_classes_may_differ_in_an_asynchronous_job(self):
        job = [*JOBS["mlp"], *SERVED, "--async", "--steps", "60"]
        coordinator, worker = self.start(job, ["--isa", "sse4"])
        coordinator.finish()
        worker.finish()
        self.assertEqual(self.summary()["numeric_class"],
                         "FMA float32 and SSE float32")

    def test_who_goes_on_in_another_class_is_told(self):
        job = [*COMMON, *JOBS["mlp"], "--checkpoint-dir", self.path("saved")]
        said = {}
        for at, (isa, steps) in enumerate((("avx2", 5), (highest_set(), 10),
                                           ("sse4", 15))):
            with Run(*job, "--steps", str(steps), "--isa", isa,
                     *(["--resume"] if at else [])) as run:
                run.finish()
                said[isa] = run.output()
        line = "goes on in the numeric class"
        self.assertIn(f"note: {line} SSE float32 from steps that were "
                      "computed in FMA float32: ", said.pop("sse4"))
        for words in said.values():
            self.assertNotIn(line, words)

    def test_a_worker_comes_back_with_another_set(self):
        for layout in (SERVED, CHAINS, REPLICAS):
            with self.subTest(layout=layout):
                self.come_back(JOBS["cnn"], layout)

    def come_back(self, job, layout):
        kills = int(os.environ.get("TROUPE_CLASS_KILLS", "4"))
        coordinator, worker = self.start([*job, *ENDLESS, *layout],
                                         ["--isa", "avx2"])
        metrics = metrics_address(coordinator)
        for kill in range(kills):
            done = metric_of(metrics, "troupe_steps_committed_total")
            wait_for(lambda: metric_of(
                metrics, "troupe_steps_committed_total") > done + 5, "steps")
            epoch = metric_of(metrics, "troupe_membership_epoch")
            worker.process.kill()
            worker.process.wait()
            worker = self.member("worker:1", "--isa",
                                 highest_set() if kill % 2 == 0 else "avx2")
            # On a busy machine a replica may be back before the others are
            # without it.
            wait_for(lambda: "joins the job of" in worker.output()
                     and metric_of(metrics, "troupe_membership_epoch")
                     > epoch + (layout is not REPLICAS), "it is there again")
        coordinator.end()
        worker.finish()
        summary = self.summary()
        self.assertEqual(summary["weights_sha256"],
                         self.expected([*job, "--epochs", "0", "--steps",
                                        str(summary["steps"])]))
        self.assertEqual(summary["steps_rolled_back"], 0)
        self.assertEqual(len(summary["recoveries"]), kills)

    def refused(self, line, second, **options):
        """The worker that comes second ends with this line, and another one
        takes its name; before, the whole run ended."""
        job = [*JOBS["cnn"], *SERVED, "--steps", "20"]
        coordinator = self.coordinator(job)
        for role in ("ps:0", "ps:1", "worker:0"):
            first = self.member(role)
        wait_for(lambda: "joins the job of" in first.output(), "worker:0")
        self.assertRegex(
            self.member("worker:1", *second, **options).finish(1),
            rf"\Atroupe: worker:1: cannot take part: {line}\n\Z")
        self.assertRegex(coordinator.output(),
                         rf"(?m)^worker:1 cannot take part: {line}$")
        self.member("worker:1")
        coordinator.finish()

    def test_another_class_is_refused_by_name(self):
        self.refused("computes in the numeric class SSE float32, and the "
                     "workers before it in FMA float32: use machines of one "
                     "class, or pin --isa", ["--isa", "sse4"])

    def test_one_unit_in_the_last_place_is_refused_by_name(self):
        self.refused("gets other bits than the workers before it, though all "
                     "are of the numeric class FMA float32: another build, a "
                     "plug-in or a faulty processor", [], preload=PLANTED)


if __name__ == "__main__":
    unittest.main()
