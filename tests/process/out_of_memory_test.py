"""Too little memory is told as that: by the control group's kill, by ulimit -v,
and before the first step where the plan can know it. What does not fit is not
started again and again. The kernel's kill was "signal 9 (Killed)", as
anybody's."""
# ctest: TIMEOUT 1200 RUN_SERIAL TRUE

import re
import resource
import subprocess
import unittest

from cluster import TROUPE, Run
from groups import Group
from own_folder import run_tests
from split_models import planned_bytes, summary_of

MIB = 1 << 20
DATA = ["--data", "synthetic:digits?samples=2000", "--seed", "7"]
SERVED = ["--strategy", "parameter_server", "--processes", "--workers", "1",
          "--ps", "1"]
# 67 million parameters: 256 MiB, thrice that with Adam's state.
WIDE = ["--model", "mlp:784-8192-7168-10"]
SMALL = ["--model", "mlp:784-48-10"]
MANY = ["--data", "synthetic:digits?samples=150000"]
MORE = ["--data", "synthetic:digits?samples=600000"]


class OutOfMemory(unittest.TestCase):
    def group(self, limit):
        """A group with so much memory."""
        group = Group.find("memory")
        if group is None:
            self.skipTest("no control group with a memory limit can be made")
        self.addCleanup(group.remove)
        group.limit_memory(limit)
        return group

    def start(self, *arguments, **options):
        data = [] if "--data" in arguments else DATA
        run = Run(*data, *arguments, **options)
        self.addCleanup(run.__exit__)
        return run

    def test_what_cannot_fit_is_refused_before_the_first_step(self):
        group = self.group(512 * MIB)
        for strategy in (["--strategy", "one_device"],
                         ["--strategy", "mirrored", "--devices", "cpu:2"],
                         SERVED):
            with self.subTest(strategy=strategy):
                run = self.start(*WIDE, *strategy, "--steps", "5",
                                 preexec_fn=group.enter)
                run.finish(1)
                self.assertRegex(
                    run.error(), r"\Atroupe: this run needs about [\d.]+ "
                    r"[MG]iB of memory \(variables [^)]*\), and the control group "
                    r"has 512 MiB; give it more memory, [^\n]*\n\Z")
        self.assertEqual(group.memory_kills(), 0)

    def test_the_plan_says_what_memory_it_takes(self):
        shown = subprocess.run([TROUPE, "plan", *WIDE, *SERVED, "--optimizer",
                                "adam"], capture_output=True, text=True)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertRegex(shown.stdout, r"(?m)^  worker:0 needs about \d+ MiB "
                         r"\(variables \d+ MiB, gradients \d+ MiB, a step ")
        self.assertRegex(shown.stdout, r"(?m)^  ps:0 needs about 1\.5 GiB ")
        self.assertRegex(shown.stdout, r"(?m)^  all: [12]\.\d GiB$")

    # Neither to begin nor to end does it have the variables twice.
    def test_a_run_takes_what_the_plan_says(self):
        job = [*DATA, "--model", "mlp:784-4096-4096-10", "--strategy",
               "one_device", "--threads-per-device", "2", "--optimizer",
               "adam", "--virtual-ranks", "8", "--epochs", "0", "--steps", "2"]
        # The evaluator's parameters, and two sums that wait in the tree.
        others = 3 * 80 * MIB
        peak = summary_of(*job)["peak_memory_bytes"]
        self.assertLess(peak, sum(planned_bytes(*job).values()) + others
                        + 64 * MIB)

    def test_a_process_without_room_for_it_is_refused_too(self):
        limit = 400 * MIB

        def enter():
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        run = self.start(*WIDE, "--strategy", "one_device", "--steps", "5",
                         preexec_fn=enter)
        run.finish(1)
        self.assertRegex(run.error(), r"\Atroupe: this run needs about [\d.]+ "
                         r"[MG]iB of memory, and ulimit -v allows a process 400 "
                         r"MiB; [^\n]*\n\Z")

    def test_the_kernels_kill_of_a_coordinator_is_told_as_memory(self):
        # Samples, 112 MiB of them, are not in the plan.
        group = self.group(100 * MIB)
        run = self.start(*SMALL, *SERVED, "--epochs", "1", *MANY,
                         preexec_fn=group.enter)
        run.finish(1)
        self.assertEqual(group.memory_kills(), 1)
        self.assertEqual(run.error(), "troupe: the coordinator was ended by the "
                         "kernel: memory, limit 100 MiB\n")

    def test_the_kernels_kills_of_roles_are_told_as_memory(self):
        # How little is too little differs between machines: less by a quarter
        # until the kernel has to kill.
        limit = 128
        while limit > 8:
            group = self.group(limit * MIB)
            run = self.start(*SMALL, "--strategy", "parameter_server",
                             "--processes", "--workers", "2", "--ps", "2",
                             "--epochs", "80", preexec_fn=group.enter)
            status = run.process.wait(90)
            # A death in the last moments of a run that ends well is not told.
            if group.memory_kills() > 0 and (status != 0 or " died " in
                                             run.output()):
                break
            self.assertEqual(status, 0, run.error())
            limit -= limit // 4
        self.assertGreater(group.memory_kills(), 0)
        self.assertNotEqual(status, -9, "the launcher itself was killed")
        shown = run.output() + run.error()
        self.assertNotIn("signal 9", shown)
        self.assertIn(f"ended by the kernel: memory, limit {limit} MiB", shown)
        # What ends so twice is not started again.
        for role in ("worker:0", "worker:1", "ps:0", "ps:1", "coordinator"):
            lives = re.findall(rf"^{role} died .*: restart", run.output(),
                               re.MULTILINE)
            self.assertLessEqual(len(lives), 1, shown)

    def test_the_kernel_takes_a_role_before_its_launcher(self):
        run = self.start(*SMALL, *SERVED, "--steps", "1000000")
        run.wait_for_step(1)

        def score(process):
            with open(f"/proc/{process}/oom_score_adj") as file:
                return int(file.read())
        own = score(run.process.pid)
        for role in ("coordinator", "worker:0", "ps:0"):
            self.assertEqual(score(run.role(role)), min(own + 300, 1000), role)

    def test_samples_that_do_not_fit_are_told_as_memory(self):
        limit = 500 * MIB  # room for the program, not for the samples

        def enter():
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        run = self.start(*SMALL, "--strategy", "one_device", "--epochs", "1",
                         "--threads-per-device", "1", *MORE, preexec_fn=enter)
        run.finish(1)
        self.assertRegex(run.error(), r"\Atroupe: synthetic:digits takes \S+ "
                         r"MiB of memory and \S+ [KM]iB are free; draw fewer "
                         r"samples=\n\Z")


if __name__ == "__main__":
    run_tests()
