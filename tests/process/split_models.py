"""Models that are split over members, and what they have in common with one
device that has all of them; for the tests beside."""

import os
import re
import signal
import subprocess
import tempfile

from cluster import ENDLESS, TROUPE, Run, resident_bytes, wait_for

DIGITS = ["--data", "synthetic:digits?samples=500", "--global-batch", "48",
          "--seed", "7", "--steps", "25"]
MODELS = {
    "mlp": ["--model", "mlp:784-64-48-10", *DIGITS, "--eval-fraction", "0.1"],
    "cnn": ["--model", "cnn", *DIGITS],
    "transformer": ["--model", "transformer:L2-H2-D32-T32-P0.1",
                    "--data", "synthetic:text", "--global-batch", "10",
                    "--virtual-ranks", "5", "--seed", "7", "--steps", "8"],
    "dlrm": ["--model", "dlrm", "--data", "synthetic:clicks?samples=500",
             "--global-batch", "50", "--virtual-ranks", "7", "--seed", "7",
             "--steps", "12"],
}
# To be struck; the last step of a data epoch is a short one.
STRUCK = ["--model", "mlp:784-64-48-10", "--data",
          "synthetic:digits?samples=500", "--global-batch", "48", "--seed", "7"]
ONE = ["--strategy", "one_device"]
UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
DIGESTS = ("weights_sha256", "state_sha256", "steps", "samples")


def summary_of(*arguments):
    with Run(*arguments) as run:
        return run.finish()


def digests(summary):
    return {name: summary[name] for name in DIGESTS}


def call(*arguments):
    """What became of a command that ends by itself."""
    return subprocess.run([TROUPE, *arguments], capture_output=True, text=True,
                          timeout=60, check=False)


def planned_bytes(*job):
    """What each role needs, as `plan` says."""
    done = call("plan", *job)
    assert done.returncode == 0, done.stderr
    return {role: float(number) * UNITS[unit] for role, number, unit in
            re.findall(r"(?m)^  (\S+) needs about ([\d.]+) (\w+) \(",
                       done.stdout)}


def resident_by_role(*job, roles):
    """Bytes of each role's process while the job trains."""
    with Run(*job, "--steps", "100000") as run:
        run.wait_for_step(4)
        found = {role: resident_bytes(run.role(role)) for role in roles}
        run.process.send_signal(signal.SIGINT)
        run.finish(130, 60)
    return found


class SplitModels:
    """Checks, for a unittest.TestCase. `layout`: of several processes."""

    one = ONE  # the layout of one device that has the bits

    def check_layouts(self, job, layouts, one=None):
        """Each has the bits of one device."""
        whole = summary_of(*job, *(one or self.one))
        for layout in layouts:
            with self.subTest(job=job, layout=layout):
                summary = summary_of(*job, *layout)
                self.assertEqual(digests(summary), digests(whole))
                self.assertEqual(summary["eval"], whole["eval"])
                self.assertEqual(summary["final_loss"], whole["final_loss"])

    def check_undisturbed(self, summary, *job):
        """It has the bits of a run that nobody disturbed."""
        whole = summary_of(*job, "--epochs", "0", "--steps",
                           str(summary["steps"]), *self.one)
        self.assertEqual(digests(summary), digests(whole))
        self.assertEqual(summary["steps_rolled_back"], 0)

    def check_killed_in_turn(self, job, layout, roles):
        """One after the other goes on from its memory, and no step is lost."""
        with Run(*job, *ENDLESS, *layout) as run:
            for role in roles:
                run.wait_for_step(run.step() + 50)
                run.kill_and_wait(role, 1)
            summary = run.end(50)
        self.check_undisturbed(summary, *job)
        self.assertEqual(
            [(r["role"], r["kind"]) for r in summary["recoveries"]],
            [(role, role.split(":")[0] + "_restored") for role in roles])

    def check_dead_at_once(self, job, layout, roles):
        """The coordinator dies, and then these at once; no step is lost."""
        with Run(*job, *ENDLESS, *layout) as run:
            run.wait_for_step(100)
            run.kill_and_wait("coordinator", 1)
            run.wait_for_step(run.step() + 50)
            epoch = run.metric("troupe_membership_epoch")
            for role in roles:
                run.kill(role)
            run.wait_for_epoch(epoch + 1)
            summary = run.end(50)
        self.check_undisturbed(summary, *job)
        return summary

    def check_deaths_together(self, job, layout, roles):
        """The same, each going on from its memory."""
        summary = self.check_dead_at_once(job, layout, roles)
        self.assertEqual(
            sorted((r["role"], r["kind"]) for r in summary["recoveries"]),
            [("coordinator", "coordinator_restarted"),
             *((role, role.split(":")[0] + "_restored") for role in roles)])

    def check_stopped(self, job, layout, role):
        """It stands still, and is replaced."""
        with Run(*job, *ENDLESS, *layout) as run:
            run.wait_for_step(200)
            stopped = run.role(role)
            os.kill(stopped, signal.SIGSTOP)
            wait_for(lambda: role + " is left out" in run.output() + run.error()
                     or run.children().get(role) not in (None, stopped),
                     f"{role}, which stands still, is replaced")
            summary = run.end(100)
        self.check_undisturbed(summary, *job)

    def check_interrupted(self, job, layout):
        """Ctrl-C ends with what all have."""
        with Run(*job, *ENDLESS, *layout) as run:
            run.wait_for_step(50)
            run.process.send_signal(signal.SIGINT)
            summary = run.finish(130, 10)
        self.check_undisturbed(summary, *job)

    def check_not_finite(self, job, layout):
        """A gradient that is not finite ends the run with a line."""
        with Run(*job, "--steps", "100", *layout, "--lr", "1e30") as run:
            run.finish(1)
            self.assertRegex(run.error(),
                             r"^troupe: (NaN loss at|the gradient of) step \d+ "
                             r".*lower --lr")

    def check_memory(self, layout, roles, narrow, wide):
        """Roles with 48 MiB for layers take that much beyond a narrow model."""
        def resident(*model):
            return resident_by_role(
                "--model", *model, "--data", "synthetic:text",
                "--global-batch", "16", "--seed", "7", *layout, roles=roles)

        base = resident(narrow)
        for role, bytes_ in resident(wide, "--device-memory", "48MiB").items():
            self.assertLess(bytes_ - base[role], 48 << 20)
            self.assertGreater(bytes_ - base[role], 16 << 20)

    def check_planned_memory(self, job, narrow, wide):
        """What a wider model takes beyond a narrow one is what `plan` says, or a
        little less: pages that nobody has touched yet."""
        narrow, wide = (["--model", model, *job] for model in (narrow, wide))
        plans = [planned_bytes(*one) for one in (narrow, wide)]
        found = [resident_by_role(*one, roles=plans[0])
                 for one in (narrow, wide)]
        for role in plans[0]:
            more = found[1][role] - found[0][role]
            self.assertAlmostEqual(
                more / (plans[1][role] - plans[0][role]), 0.95, delta=0.1,
                msg=f"{role}, {more} bytes, planned {plans[1][role]}")

    def check_refusals(self, job, cases):
        """Each is refused in one line that has the pattern."""
        for arguments, pattern in cases:
            with self.subTest(arguments=arguments):
                done = call("train", *job, *arguments)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertRegex(done.stderr,
                                 rf"\Atroupe: .*{pattern}.*\n\Z")

    def check_resumed(self, job, pairs, steps):
        """A checkpoint half way goes on under another layout."""
        whole = summary_of(*job, "--steps", str(steps), *self.one)
        for first, second in pairs:
            with self.subTest(first=first, second=second), \
                    tempfile.TemporaryDirectory() as folder:
                kept = ["--checkpoint-dir", folder]
                summary_of(*job, "--steps", str(steps // 2), *first, *kept)
                summary = summary_of(*job, "--steps", str(steps), *second,
                                     *kept, "--resume")
                for name in DIGESTS[:2]:
                    self.assertEqual(summary[name], whole[name], name)
