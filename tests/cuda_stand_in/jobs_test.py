"""Whole jobs on devices that are stand-ins: the same weights whichever of them
computed, and in spite of kills and of devices that fail. TROUPE_IN_FULL=1: 200
kills of members that sum by NCCL, and 50 collectives that fail."""
# ctest: TIMEOUT 1800 COST 330 PROCESSORS 1

import json
import os
import random
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "process"))

from chaos_runs import ChaosRuns  # noqa: E402
from cluster import ENDLESS, Run, findings, troupe  # noqa: E402

IN_FULL = os.environ.get("TROUPE_IN_FULL") == "1"
JOB = ["--data", "synthetic:digits?samples=1994", "--model", "mlp:784-48-10",
       "--eval-fraction", "0.1", "--global-batch", "64", "--virtual-ranks",
       "4", "--seed", "7", "--optimizer", "adam"]
ONE_DEVICE = ["--strategy", "one_device", "--devices", "cuda:0"]
MIRRORED = ["--strategy", "mirrored"]
WORKERS = ["--strategy", "multi_worker_mirrored", "--workers", "2"]
SERVED = ["--strategy", "parameter_server", "--sync", "--workers", "2",
          "--ps", "2", "--processes"]
# To the stand-in two processes are two hosts, whose GPUs have the same names.
NCCL = ["--all-reduce", "nccl"]
LAYOUTS = [
    ONE_DEVICE,
    [*MIRRORED, "--devices", "cuda:0,cuda:1"],
    [*MIRRORED, "--devices", "cuda:0*2"],
    [*MIRRORED, "--devices", "cuda:0*2,cuda:1"],
    [*WORKERS, "--devices", "cuda:0"],
    [*WORKERS, "--devices", "cuda:0,cuda:1"],
    [*SERVED, "--devices", "cuda:1"],
    [*MIRRORED, "--devices", "cuda:0,cuda:1", *NCCL],
    [*WORKERS, "--devices", "cuda:0", *NCCL],
    [*WORKERS, "--devices", "cuda:0,cuda:1", *NCCL],
]

# Parts of a model, with layers in two slices, and a role to be killed.
SLICED = [*JOB, "--virtual-slices", "2"]
SLICED[SLICED.index("mlp:784-48-10")] = "mlp:784-48-32-10"
STAGES = ["--strategy", "pipeline", "--stages", "2"]
MESH = ["--strategy", "hybrid", "--mesh"]
PARTS = [
    (STAGES, "stage:1"),
    (["--strategy", "tensor", "--tensor", "2"], "tensor:1"),
    ([*MESH, "data=2,stage=2", "--sync-data", "parameter_server", "--ps",
      "2"], "stage:2"),
    (["--strategy", "fully_sharded", "--workers", "3"], "sharded:1"),
]


def other(job, *flags):
    """A job with flags in place of those that it has of the same name."""
    names = flags[::2]
    pairs = zip(job[::2], job[1::2])
    return [word for name, value in pairs if name not in names
            for word in (name, value)] + [*flags]


MESSAGES = tempfile.TemporaryDirectory() # of NCCL's stand-in


def stand_in(settings=""):
    return {"CUDA_STAND_IN": "devices=2" + settings,
            "NCCL_STAND_IN": MESSAGES.name}


def digests(*flags, steps=29, settings="", job=JOB):
    with Run(*job, *flags, "--epochs", "0", "--steps", str(steps),
             environment=stand_in(settings)) as run:
        summary = run.finish()
        return summary["weights_sha256"], summary["state_sha256"]


class SameBits(unittest.TestCase):
    def test_every_layout_of_gpus_gives_the_same_weights(self):
        want = digests(*ONE_DEVICE)
        for seed, flags in enumerate(LAYOUTS):
            with self.subTest(" ".join(flags)):
                self.assertEqual(digests(*flags, settings=f",seed={seed}"),
                                 want)

    def test_parts_of_a_model_on_gpus_give_the_weights_of_one(self):
        text = ["--data", "synthetic:text?samples=400", "--model",
                "transformer:L2-H2-D16-T8-P0.1", "--eval-fraction", "0.1",
                "--global-batch", "16", "--virtual-ranks", "4", "--seed", "7",
                "--virtual-slices", "2"]
        ways = [[*STAGES, "--schedule", "zero_bubble"],
                [*STAGES, "--schedule", "interleaved", "--chunks", "2",
                 "--recompute", "full"],
                [*MESH, "data=2,stage=2,tensor=2"], PARTS[-1][0]]
        for job, layouts in ((SLICED, ways), (text, ways[2:]),
                             # A processor that has no bfloat16.
                             ([*text, "--precision", "bfloat16", "--isa",
                               "avx2"], ways)):
            want = digests(*ONE_DEVICE, steps=4, job=job)
            for flags in layouts:
                with self.subTest(" ".join([*job, *flags])):
                    self.assertEqual(
                        digests(*flags, "--devices", "cuda:0,cuda:1", steps=4,
                                job=job), want)

    def test_statistics_of_all_ranks_are_equal_however_a_model_is_cut(self):
        with tempfile.TemporaryDirectory() as folder:
            model = os.path.join(folder, "model.json")
            norm = {"kind": "batch_norm", "cross_replica": True}
            with open(model, "w", encoding="utf-8") as file:
                json.dump({"sample": {"features": [28, 28, 1], "classes": 10},
                           "operators": [
                               {"kind": "conv2d", "units": 2, "kernel": 3,
                                "stride": 2}, norm,
                               {"kind": "activation", "activation": "relu"},
                               {"kind": "reshape"},
                               {"kind": "dense", "units": 12}, norm,
                               {"kind": "dense", "units": 10},
                               {"kind": "softmax_cross_entropy"}]}, file)
            job = ["--data", "synthetic:digits?samples=200", "--model", model,
                   "--global-batch", "16", "--virtual-ranks", "4", "--seed",
                   "7", "--devices", "cuda:0,cuda:1"]
            found = {digests(*flags, steps=4, job=job) for flags in (
                STAGES, [*STAGES[:3], "3"], [*MESH, "data=2,stage=2"])}
            self.assertEqual(len(found), 1, found)

    def test_sums_pass_through_the_host_in_every_way(self):
        three = [*MIRRORED, "--devices", "cuda:0*2,cuda:1"]
        two = [*WORKERS, "--devices", "cuda:0"]
        central = ["--strategy", "central_storage", *three[2:]]
        for job, ways in (
                # Members with several nodes each, of a step that ends short.
                (other(JOB, "--virtual-ranks", "8", "--clip-norm", "0.05"),
                 ((three, ""), ([*two, "--link", "tcp"], ""),
                  ([*MIRRORED, "--devices", "cuda:0*2", "--all-reduce",
                    "reduction_to_one_device"], ",pins=0"),
                  (two, ",pins=0"), ([*two, *NCCL], ""),
                  ([*WORKERS[:2], "--workers", "3", "--devices", "cuda:0",
                    *NCCL], ""),
                  ([*three, "--bucket-mb", "0.01"], ""))),
                # Updates of the host and of a device, by one ratio for all
                # pieces of a layer.
                (other(JOB, "--optimizer", "lamb", "--weight-decay", "0.01",
                       "--clip-norm", "0.05", "--virtual-slices", "2"),
                 ((central, ""), (three, ""), ([*two, *NCCL], ""))),
                (other(JOB, "--optimizer", "momentum"),
                 ((central, ""), (three, "")))):
            want = digests(*ONE_DEVICE, job=job)
            for flags, settings in ways:
                with self.subTest(" ".join([*job, *flags, settings])):
                    self.assertEqual(
                        digests(*flags, settings=settings, job=job), want)

    def test_a_job_goes_on_from_its_checkpoint_with_other_devices(self):
        with tempfile.TemporaryDirectory() as folder:
            want = digests(*ONE_DEVICE)
            ways = [[*WORKERS, "--devices", "cuda:0"],
                    [*MIRRORED, "--devices", "cuda:0,cuda:1"],
                    ONE_DEVICE]
            for steps, flags in zip((11, 20, 29), ways):
                kept = ["--checkpoint-dir", os.path.join(folder, "kept"),
                        "--checkpoint-every", "5"]
                resume = [] if flags is ways[0] else ["--resume"]
                found = digests(*flags, *kept, *resume, steps=steps)
            self.assertEqual(found, want)

    def test_models_give_the_same_weights_on_one_gpu_and_on_two(self):
        for model, data in (
                ("cnn", "synthetic:digits?samples=200"),
                ("transformer:L1-H2-D32-T16",
                 "synthetic:text?samples=20000")):
            with self.subTest(model):
                job = ["--data", data, "--model", model, "--global-batch", "8",
                       "--virtual-ranks", "2", "--seed", "7",
                       "--eval-fraction", "0.1"]
                self.assertEqual(
                    digests(*ONE_DEVICE, steps=3, job=job),
                    digests(*MIRRORED, "--devices", "cuda:0,cuda:1", steps=3,
                            job=job))

    def test_who_convolves_is_of_cudnns_class(self):
        for model, named in (("cnn", True), ("mlp:784-10", False)):
            with self.subTest(model):
                with Run("--data", "synthetic:digits?samples=200", "--model",
                         model, *ONE_DEVICE, "--steps", "1", "--eval-every",
                         "0", environment=stand_in()) as run:
                    found = run.finish()["numeric_class"]
                self.assertEqual("cuDNN 9.1.0" in found, named, found)

    def test_an_asynchronous_job_has_workers_of_both_kinds(self):
        mixed = ["--strategy", "parameter_server", "--workers", "2", "--ps",
                 "1", "--devices", "cuda:0,cpu:1", "--epochs", "0"]
        for processes in (["--in-process"], ["--processes"]):
            with Run(*JOB, *mixed, "--async", *processes, "--steps", "40",
                     environment=stand_in()) as run:
                summary = run.finish()
            self.assertLess(summary["final_loss"], 1.5)
            self.assertRegex(summary["numeric_class"],
                             r"^CUDA float32 \(.*, sm_90, 132 "
                             r"multiprocessors\) and FMA float32$")
        with Run(*JOB, *mixed, "--sync", environment=stand_in()) as run:
            run.finish(status=2)
            self.assertIn("get different bits", run.error())

    def test_a_gpu_that_is_not_there_is_refused_in_a_line(self):
        error = troupe("train", *JOB, "--devices", "cuda:2", status=1,
                       environment=stand_in())
        self.assertIn("cuda:2: this machine has 2 usable CUDA devices, cuda:0 "
                      "to cuda:1", error)

    def test_the_doctor_tries_gpus(self):
        found = findings("--devices", "cuda:all", environment=stand_in())
        for line in (r"ok +GPUs +2 usable by CUDA",
                     r"ok +cuda:1 +CUDA float32 \(.*sm_90",
                     r"ok +NCCL +\d+\.\d+\.\d+",
                     r"ok +--devices +cuda:all: loss 2\.\d+ .*as on a processor"):
            self.assertRegex(found, rf"(?m)^{line}")
        both = findings("--devices", "cuda:0,cpu:2,cuda:1",
                        environment=stand_in())
        for kind in ("cuda:0,cuda:1: loss", "cpu:2: loss"):
            self.assertRegex(both, rf"(?m)^ok +--devices +{kind}")
        self.assertRegex(findings(environment=stand_in(",devices=0")),
                         r"(?m)^ok +GPUs +no usable GPU: the driver shows none")
        self.assertRegex(findings(environment=stand_in(",driver=11080")),
                         r"(?m)^ok +GPUs +no usable GPU: NVIDIA's driver is one "
                         r"of CUDA 11\.8, and this build wants CUDA 99\.0")
        self.assertRegex(findings("--devices", "cuda:2",
                                  environment=stand_in()),
                         r"(?m)^WRONG +--devices +cuda:2: this machine has 2")


class Failures(unittest.TestCase):
    def test_a_killed_worker_of_gpus_is_repaired(self):
        for flags in ([*WORKERS, "--devices", "cuda:0"],
                      [*WORKERS, "--devices", "cuda:0,cuda:1"],
                      [*WORKERS, "--devices", "cuda:0,cuda:1", *NCCL],
                      [*SERVED, "--devices", "cuda:1"]):
            with self.subTest(" ".join(flags)), \
                    Run(*JOB, *ENDLESS, *flags,
                        environment=stand_in()) as run:
                run.wait_for_step(5)
                run.kill_and_wait("worker:1", 2)
                run.wait_for_step(run.step() + 5)
                run.kill("worker:0") # the other has all from it
                run.wait_for_step(run.step() + 10)
                summary = run.end()
                self.assertEqual(summary["steps_rolled_back"], 0)
                self.assertIn("worker:1", [x["role"] for x in
                                           summary["recoveries"]])
                want = digests(*ONE_DEVICE, steps=summary["steps"])
                self.assertEqual((summary["weights_sha256"],
                                  summary["state_sha256"]), want)

    def test_a_killed_part_of_a_model_is_repaired(self):
        for flags, role in PARTS:
            with self.subTest(" ".join(flags)), \
                    Run(*SLICED, *ENDLESS, *flags, "--devices",
                        "cuda:0,cuda:1", "--processes",
                        environment=stand_in()) as run:
                run.wait_for_step(5)
                run.kill(role)
                run.wait_for_step(run.step() + 8)
                summary = run.end()
                self.assertEqual(summary["steps_rolled_back"], 0)
                self.assertIn(role.replace("sharded", "worker"),
                              [x["role"] for x in summary["recoveries"]])
                want = digests(*ONE_DEVICE, steps=summary["steps"], job=SLICED)
                self.assertEqual((summary["weights_sha256"],
                                  summary["state_sha256"]), want)

    def test_a_gradient_that_is_not_finite_is_a_line(self):
        lines = set()
        for flags in (ONE_DEVICE, [*MIRRORED, "--devices", "cuda:0*2"],
                      [*WORKERS, "--devices", "cuda:0,cuda:1"]):
            with self.subTest(" ".join(flags)), \
                    Run(*other(JOB, "--optimizer", "sgd", "--lr", "1e30"),
                        *flags, environment=stand_in()) as run:
                run.finish(1)
                self.assertRegex(run.error(), r"\Atroupe: NaN loss at step \d+"
                                              r" in virtual rank [0-3]: ")
                lines.add(run.error().split(" in virtual")[0])
        self.assertEqual(len(lines), 1, lines)

    def test_nccl_is_refused_where_sums_cannot_be_made_by_it(self):
        mirrored = [*MIRRORED, "--devices", "cuda:0,cuda:1", *NCCL]
        own = "needs a GPU of its own for each replica"
        for flags, line in (
                ([*MIRRORED, "--devices", "cuda:0*2", *NCCL], own),
                ([*MIRRORED, "--devices", "cpu:2", *NCCL], own),
                ([*mirrored, "--bucket-mb", "1"],
                 "--bucket-mb has no effect with --all-reduce nccl")):
            with self.subTest(" ".join(flags)):
                error = troupe("train", *JOB, *flags, "--steps", "3",
                               "--epochs", "0", status=2,
                               environment=stand_in())
                self.assertIn(line, error)

    def test_a_collective_that_fails_is_taken_anew(self):
        want = digests(*ONE_DEVICE)
        mirrored = [*MIRRORED, "--devices", "cuda:0,cuda:1", *NCCL]
        workers = [*WORKERS, "--devices", "cuda:0", *NCCL]
        faults = [(1, workers), (22, mirrored), (43, workers)]
        if IN_FULL:
            draw = random.Random(1) # a member takes two in each step
            faults = [(draw.randint(1, 57), draw.choice([mirrored, workers]))
                      for _ in range(50)]
        for number, flags in faults:
            with self.subTest(f"{number} {flags[1]}"), \
                    tempfile.TemporaryDirectory() as folder:
                token = os.path.join(folder, "failed")
                with Run(*JOB, "--epochs", "0", "--steps", "29", *flags,
                         environment=stand_in(f",fail_nccl={number},"
                                              f"fault_once={token}")) as run:
                    summary = run.finish()
                    self.assertTrue(os.path.exists(token))
                    self.assertEqual((summary["weights_sha256"],
                                      summary["state_sha256"]), want)
                    self.assertEqual(summary["steps_rolled_back"], 0)

    def test_a_device_that_fails_once_ends_its_role_alone(self):
        want = {str(job): digests(*ONE_DEVICE, job=job)
                for job in (JOB, SLICED)}
        for settings, job, flags in (
                ("fail_launch=100", JOB, SERVED),
                ("fail_malloc=5", JOB, SERVED),
                # In the middle of a pass, of an update, of what comes first.
                ("fail_launch=100", JOB, WORKERS),
                ("fail_launch=211", JOB, WORKERS),
                ("fail_launch=305", JOB, WORKERS),
                ("fail_malloc=5", JOB, WORKERS),
                ("fail_launch=170", JOB, [*WORKERS, *NCCL]),
                *(("fail_launch=130", SLICED, [*flags, "--processes"])
                  for flags, _ in PARTS)):
            with self.subTest(settings + " " + flags[1]), \
                    tempfile.TemporaryDirectory() as folder:
                token = os.path.join(folder, "failed")
                with Run(*job, "--epochs", "0", "--steps", "29", *flags,
                         "--devices", "cuda:0", environment=stand_in(
                             f",{settings},fault_once={token}")) as run:
                    summary = run.finish()
                    self.assertTrue(os.path.exists(token), "nothing failed")
                    self.assertRegex(run.error() + run.output(),
                                     r"(worker|stage|tensor):\d died "
                                     r".*cuda:0: .*(unspecified launch failure|"
                                     r"execution failed|out of memory: )")
                    self.assertEqual((summary["weights_sha256"],
                                      summary["state_sha256"]), want[str(job)])
                    if settings.startswith("fail_launch"):  # it had joined
                        self.assertGreater(len(summary["recoveries"]), 0)


class Chaos(ChaosRuns):
    deadline_s = 1800 if IN_FULL else 400

    def setUp(self):
        super().setUp()
        for name, value in stand_in().items():
            os.environ[name] = value
            self.addCleanup(os.environ.pop, name)

    @unittest.skipUnless(IN_FULL, "takes minutes")
    def test_200_kills_of_members_that_sum_by_nccl(self):
        verdict, _ = self.passed(
            ["--faults", "200", "--kinds", "kill", "--seed", "5"],
            [*other(JOB, *WORKERS[:2], "--workers", "3", "--devices", "cuda:0",
                    "--virtual-ranks", "8", *NCCL),
             "--processes", "--epochs", "0"])
        self.assertEqual(verdict["weights_sha256"],
                         verdict["undisturbed"]["weights_sha256"])
        self.assertEqual(verdict["steps_rolled_back"], 0)

    def test_faults_of_replicas_on_gpus_change_no_bit(self):
        three = other(JOB, *WORKERS[:2], "--workers", "3", "--devices",
                      "cuda:0", "--virtual-ranks", "8")
        jobs = [other(JOB, *WORKERS, "--devices", "cuda:0"), [*three, *NCCL]]
        if IN_FULL:
            jobs.append(other(three, "--devices", "cuda:0,cuda:1"))
        for job in jobs:
            with self.subTest(" ".join(job)):
                verdict, _ = self.passed(
                    ["--faults", "6", "--kinds", "kill,nan,device", "--seed",
                     "3"], [*job, "--processes", "--epochs", "0"])
                self.assertEqual(verdict["weights_sha256"],
                                 verdict["undisturbed"]["weights_sha256"])
                self.assertEqual(verdict["steps_rolled_back"], 0)
                self.assertEqual(set(verdict["faults"]),
                                 {"kill", "nan", "device"})


if __name__ == "__main__":
    unittest.main()
