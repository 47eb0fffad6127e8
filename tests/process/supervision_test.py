"""kill -9 of workers and shards in real runs: the run goes on, and the weights
are those of an undisturbed one (I3)."""
# ctest: TIMEOUT 1200

import json
import os
import signal
import subprocess
import tempfile
import threading
import time
import unittest

from cluster import ENDLESS, TROUPE, Run, wait_for
from roles import lose_memory

def job(model="mlp:784-128-64-10"):
    return ["--data", "synthetic:digits?samples=6000", "--model", model,
            "--eval-fraction", "0.1", "--global-batch", "64",
            "--virtual-ranks", "4", "--seed", "7"]


def served(**options):
    return [*job(**options), *ENDLESS, "--strategy", "parameter_server",
            "--workers", "2", "--ps", "2", "--processes"]


def undisturbed(steps, flags=job()):
    with Run(*flags, "--epochs", "0", "--steps", str(steps), "--strategy",
             "one_device") as run:
        return run.finish()


def alive(pid):
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


class Roles:
    """Roles of one job, each started by hand."""

    def __init__(self, certificates):
        self.certificates = certificates
        self.lines = []
        self.processes = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()
            if process.stdout:
                process.stdout.close()

    def coordinator(self, *arguments):
        process = subprocess.Popen(
            [TROUPE, "role", "coordinator", "--certificates",
             self.certificates, *arguments],
            stdout=subprocess.PIPE, text=True)
        self.processes.append(process)
        threading.Thread(target=self.read, args=[process.stdout],
                         daemon=True).start()
        prefix = "coordinator listens on "
        line = wait_for(lambda: next((line for line in self.lines
                                      if line.startswith(prefix)), None),
                        "the coordinator's address")
        return process, line[len(prefix):].strip()

    def read(self, stream):
        for line in stream:
            self.lines.append(line)

    def wait_for_epoch_line(self, epoch):
        wait_for(lambda: any(line.startswith(f"epoch {epoch} ")
                             for line in self.lines), f"epoch {epoch}")

    def start(self, role, address):
        process = subprocess.Popen(
            [TROUPE, "role", role, "--coordinator", address, "--certificates",
             self.certificates])
        self.processes.append(process)
        return process


class Supervision(unittest.TestCase):
    def check_recovered(self, summary, roles, kind):
        expected = undisturbed(summary["steps"])
        for name in ("weights_sha256", "state_sha256", "samples"):
            self.assertEqual(summary[name], expected[name])
        self.assertEqual([r["role"] for r in summary["recoveries"]], roles)
        # On a busy machine a worker may be back before the others have gone on.
        self.assertLessEqual({r["kind"] for r in summary["recoveries"]},
                             {kind, "worker_restarted"})

    def run_with_kills(self, kills, kind, epochs):
        with Run(*served()) as run:
            for step, role in kills:
                run.wait_for_step(step)
                run.kill_and_wait(role, epochs)
            summary = run.end(100)
            self.check_recovered(summary, [role for _, role in kills], kind)
            return summary

    def test_survivors_take_a_killed_worker_over_and_no_step_is_lost(self):
        summary = self.run_with_kills([(100, "worker:0"), (500, "worker:1")],
                                      "ranks_taken_over", 2)
        self.assertEqual(summary["steps_rolled_back"], 0)
        # At most what the dead one had of the step that it died in.
        self.assertLessEqual(summary["leaves_recomputed"], 4)
        for recovery in summary["recoveries"]:
            self.assertGreater(recovery["resumed_ms"],
                               recovery["detected_ms"])

    def test_a_killed_worker_of_a_model_larger_than_the_windows_of_links(self):
        """A shard keeps what waits for others' nodes, and grants no more: who
        takes over must not fill its window with what waits for itself, nor
        must what the epoch before left undone."""
        wide = ["--data", "synthetic:digits?samples=2000", "--model",
                "mlp:784-6000-6000-10", "--global-batch", "4",
                "--virtual-ranks", "2", "--optimizer", "sgd", "--seed", "7"]
        for chain in ("1", "2"):
            with self.subTest(chain=chain), \
                 Run(*wide, *ENDLESS, "--strategy", "parameter_server",
                     "--workers", "2", "--ps", "1", "--chain", chain,
                     # Who computes it on a busy machine is silent for long.
                     "--loss-ms", "10000", "--processes") as run:
                for worker in ("worker:1", "worker:0"):
                    run.wait_for_step(run.step() + 3)
                    run.kill_and_wait(worker, 2)
                summary = run.end(3)
                self.assertEqual(len(summary["recoveries"]), 2)
                self.assertEqual(summary["steps_rolled_back"], 0)
                self.assertEqual(summary["weights_sha256"],
                                 undisturbed(summary["steps"],
                                             wide)["weights_sha256"])

    def test_a_killed_shard_takes_its_memory_over(self):
        summary = self.run_with_kills([(100, "ps:0"), (500, "ps:1")],
                                      "shard_restored", 1)
        self.assertEqual(summary["steps_rolled_back"], 0)

    def test_more_kills_than_the_budget_are_fine_with_progress_between(self):
        # Seven restarts with a budget of five: commits refill it.
        roles = ["worker:0", "ps:0", "worker:1", "ps:1", "worker:0", "ps:0",
                 "worker:1"]
        with Run(*served()) as run:
            for role in roles:
                run.wait_for_step(run.step() + 60)
                run.kill_and_wait(role, 2 if role.startswith("worker") else 1)
            summary = run.end(100)
        self.assertEqual(len(summary["recoveries"]), len(roles))
        self.assertEqual(summary["weights_sha256"],
                         undisturbed(summary["steps"])["weights_sha256"])

    def test_restarts_without_progress_are_a_crash_loop(self):
        # The first step takes longer than the test: half a minute and more.
        with Run(*served(model="sleep:20ms-1000"), "--slow-worker",
                 "1:1000") as run:
            wait_for(lambda: run.metric("troupe_membership_epoch") >= 1,
                     "the first epoch")
            for _ in range(6):
                old = run.kill("worker:0")
                wait_for(lambda: run.process.poll() is not None
                         or run.children().get("worker:0") not in (None, old),
                         "worker:0 is started again, or the run has ended")
            run.process.wait(30)
            self.assertEqual(run.process.returncode, 1)
            self.assertRegex(run.error(), r"^troupe: .*worker:0.*\n$")

    def test_a_short_pause_costs_nobody_and_a_long_one_its_process(self):
        with Run(*served()) as run:
            run.wait_for_step(20)
            for role in ("worker:0", "ps:1"):
                pid = run.kill(role, signal.SIGSTOP)
                time.sleep(0.3)  # the pause
                os.kill(pid, signal.SIGCONT)
                run.wait_for_step(run.step() + 5)
                self.assertEqual(run.children().get(role), pid)
            for role in ("ps:0", "worker:1"):
                run.wait_for_step(run.step() + 20)
                pid = run.kill(role, signal.SIGSTOP)
                begin = time.monotonic()
                wait_for(lambda role=role, pid=pid:
                         run.children().get(role) not in (None, pid),
                         f"{role} is replaced")
                print(f"{role} replaced {time.monotonic() - begin:.1f} s "
                      "after it was stopped")
            summary = run.end(100)
        self.assertEqual([x["role"] for x in summary["recoveries"]],
                         ["ps:0", "worker:1"])
        self.assertEqual(summary["steps_rolled_back"], 0)
        self.assertEqual(summary["weights_sha256"],
                         undisturbed(summary["steps"])["weights_sha256"])

    def test_a_shard_whose_memory_is_gone_makes_all_roll_back(self):
        with tempfile.TemporaryDirectory() as folder:
            summary = os.path.join(folder, "summary.json")
            certificates = os.path.join(folder, "certificates")
            roles = Roles(certificates)
            with roles:
                coordinator, address = roles.coordinator(
                    *job(), *ENDLESS, "--strategy", "parameter_server",
                    "--workers", "2", "--ps", "2", "--summary", summary)
                others = {name: roles.start(name, address) for name in
                          ("ps:0", "ps:1", "worker:0", "worker:1")}
                roles.wait_for_epoch_line(2)
                others["ps:1"].kill()
                others["ps:1"].wait()
                lose_memory(address, "ps:1")
                others["ps:1"] = roles.start("ps:1", address)
                epochs = sum(line.startswith("epoch 1 ")
                             for line in roles.lines)
                wait_for(lambda: sum(line.startswith("epoch 1 ")
                                     for line in roles.lines) > epochs,
                         "all have begun again")
                coordinator.send_signal(signal.SIGTERM)
                self.assertEqual(coordinator.wait(60), 143)
                for name, process in others.items():
                    self.assertEqual(process.wait(10), 0, name)
            with open(summary) as file:
                found = json.load(file)
        self.check_recovered(found, ["ps:1"], "rollback")
        self.assertGreater(found["steps_rolled_back"], 100)

    def test_a_killed_launcher_takes_every_role_with_it(self):
        with Run(*served()) as run:
            run.wait_for_step(20)
            pids = list(run.children().values())
            self.assertEqual(len(pids), 5)
            run.process.kill()
            run.process.wait()
            wait_for(lambda: not any(alive(pid) for pid in pids),
                     "every role has ended", 5)

    def test_ctrl_c_ends_within_2_s_saves_and_leaves_no_process(self):
        with tempfile.TemporaryDirectory() as folder:
            weights = os.path.join(folder, "weights.safetensors")
            with Run(*served(), "--save", weights) as run:
                run.wait_for_step(20)
                pids = list(run.children().values())
                begin = time.monotonic()
                run.process.send_signal(signal.SIGINT)
                summary = run.finish(130, 10)
                self.assertLess(time.monotonic() - begin, 2)
                self.assertFalse([pid for pid in pids if alive(pid)])
                self.assertRegex(
                    run.error(),
                    rf"^troupe: interrupted after step {summary['steps']} of "
                    rf"\d+: weights saved to {weights}\n$")
            self.assertTrue(os.path.exists(weights))
            self.assertEqual(summary["weights_sha256"],
                             undisturbed(summary["steps"])["weights_sha256"])


if __name__ == "__main__":
    unittest.main()
