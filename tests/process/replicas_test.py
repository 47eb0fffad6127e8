"""multi_worker_mirrored in real processes: a killed replica takes its state from
a peer and no step is lost (I3); sums in any order and compressed ones learn."""
# ctest: TIMEOUT 1200

import os
import re
import signal
import subprocess
import tempfile
import time
import unittest
import urllib.request

from cluster import ENDLESS, TROUPE, Run, wait_for

WORKERS = ["--strategy", "multi_worker_mirrored", "--workers"]
LINKS = (["--link", "shm"], ["--link", "tcp"],
         ["--link", "tcp", "--link-encryption", "on"])


JOB = ["--data", "synthetic:digits?samples=6000", "--model",
       "mlp:784-128-64-10", "--eval-fraction", "0.1", "--global-batch", "64",
       "--virtual-ranks", "4", "--seed", "7"]
ENDED = [*JOB, *ENDLESS]  # by the test


def job(epochs):
    return [*JOB, "--epochs", str(epochs)]


class Replicas(unittest.TestCase):
    expected = {}

    def undisturbed(self, epochs):
        if epochs not in self.expected:
            with Run(*job(epochs), "--strategy", "one_device") as run:
                self.expected[epochs] = run.finish()
        return self.expected[epochs]

    def check_same(self, summary):
        with Run(*JOB, "--epochs", "0", "--steps", str(summary["steps"]),
                 "--strategy", "one_device") as run:
            expected = run.finish()
        for name in ("weights_sha256", "state_sha256", "samples"):
            self.assertEqual(summary[name], expected[name], name)

    def test_a_killed_replica_takes_its_state_from_a_peer(self):
        for link in LINKS:
            with self.subTest(link=link), \
                    Run(*ENDED, *WORKERS, "3", *link) as run:
                for step, role in ((100, "worker:0"), (600, "worker:2")):
                    run.wait_for_step(step)
                    run.kill_and_wait(role, 2)
                summary = run.end(100)
                self.check_same(summary)
                self.assertEqual(summary["steps_rolled_back"], 0)
                self.assertEqual([r["role"] for r in summary["recoveries"]],
                                 ["worker:0", "worker:2"])
                # The others went on at once, but on a busy machine, and
                # computed no leaf of theirs again: of V = 4 a worker has two.
                self.assertLessEqual({r["kind"] for r in summary["recoveries"]},
                                     {"ranks_taken_over", "worker_restarted"})
                self.assertLessEqual(summary["leaves_recomputed"], 4)

    def test_two_killed_at_once_leave_one_to_take_the_state_from(self):
        with Run(*ENDED, *WORKERS, "3") as run:
            run.wait_for_step(100)
            epoch = run.metric("troupe_membership_epoch")
            old = [run.kill(role) for role in ("worker:0", "worker:1")]
            wait_for(lambda: not {None, *old} & {
                run.children().get(role) for role in ("worker:0", "worker:1")},
                "both are started again")
            run.wait_for_epoch(epoch + 2)
            summary = run.end(100)
        self.check_same(summary)
        self.assertEqual(summary["steps_rolled_back"], 0)
        self.assertEqual({r["role"] for r in summary["recoveries"]},
                         {"worker:0", "worker:1"})

    def test_without_a_survivor_all_begin_again_and_say_so(self):
        with Run(*ENDED, *WORKERS, "2") as run:
            run.wait_for_step(100)
            for role in ("worker:0", "worker:1"):
                os.kill(run.role(role), signal.SIGSTOP)
            epoch = run.metric("troupe_membership_epoch")
            for role in ("worker:0", "worker:1"):
                run.kill(role)
            run.wait_for_epoch(epoch + 1)
            summary = run.end(100)
        self.check_same(summary)
        self.assertGreaterEqual(summary["steps_rolled_back"], 100)
        self.assertEqual({r["kind"] for r in summary["recoveries"]},
                         {"rollback"})

    def test_a_stopped_replica_is_replaced(self):
        with Run(*ENDED, *WORKERS, "2") as run:
            run.wait_for_step(100)
            epoch = run.metric("troupe_membership_epoch")
            run.kill("worker:1", signal.SIGSTOP)
            run.wait_for_epoch(epoch + 2)
            summary = run.end(100)
        self.check_same(summary)
        self.assertEqual([r["role"] for r in summary["recoveries"]],
                         ["worker:1"])

    # Symptom: those that were left were replaced as well, one after the other,
    # until the restarts were spent. Cause: a pass of more than 5 s, which goes
    # on when another replica dies, was more than they had to seal.
    def test_passes_of_many_seconds_are_waited_for(self):
        job = [*JOB[:2], "--model", "sleep:7000ms", "--virtual-ranks", "3",
               "--epochs", "0", "--steps", "2"]
        with Run(*job, *WORKERS, "3") as run:
            run.wait_for_step(1)
            run.kill("worker:1")
            summary = run.finish()
            self.assertNotIn("left out", run.output())
        self.assertEqual([r["role"] for r in summary["recoveries"]],
                         ["worker:1"])
        self.assertEqual(summary["steps_rolled_back"], 0)
        self.assertEqual(summary["leaves_recomputed"], 0)

    def test_any_order_learns_with_every_all_reduce(self):
        expected = self.undisturbed(2)
        for name in ("auto", "ring", "halving_doubling", "hierarchical"):
            with self.subTest(name), \
                    Run(*job(2), *WORKERS, "3", "--reduction", "fast",
                        "--all-reduce", name, "--link", "tcp") as run:
                summary = run.finish()
                self.assertAlmostEqual(summary["final_loss"],
                                       expected["final_loss"], delta=0.01)
                self.assertEqual(summary["steps"], expected["steps"])

    def test_compressed_gradients_learn(self):
        expected = self.undisturbed(6)["eval"]["accuracy"]
        for name in ("fp16", "bf16", "int8", "onebit", "topk:0.1"):
            with self.subTest(name), \
                    Run(*job(6), *WORKERS, "2", "--reduction", "fast",
                        "--compress", name, "--link", "tcp") as run:
                summary = run.finish()
                self.assertGreater(summary["eval"]["accuracy"],
                                   expected - 0.03)

    def test_metrics_show_carriers_waits_and_what_compression_saves(self):
        def seen(run, pattern):
            url = f"http://{run.metrics_address()}/metrics"
            with urllib.request.urlopen(url, timeout=5) as answer:
                text = answer.read().decode()
            return [match.group(0) for match in
                    re.finditer(pattern, text, re.MULTILINE)]

        for link, carrier in zip(LINKS, ("shm", "tcp", r"tcp\+tls")):
            with self.subTest(link=link), \
                    Run(*ENDED, *WORKERS, "2", *link) as run:
                for one, other in ((0, 1), (1, 0)):
                    wait_for(lambda: seen(
                        run, r"^troupe_link_carrier\{.*carrier="
                        f'"{carrier}",.*peer="worker:{other}",'
                        fr'.*role="worker:{one}".*\}} 1'),
                        f"worker:{one} shows its link to worker:{other}")
                status = subprocess.run(
                    [TROUPE, "status", run.metrics_address()],
                    capture_output=True, text=True, timeout=20)
                self.assertEqual(status.returncode, 0, status.stderr)
                self.assertRegex(status.stdout, rf"(?m)^worker:0 +worker:1 by "
                                 rf"{carrier}$")
                self.assertRegex(status.stdout, r"^step \d+, data epoch \d+, "
                                 r"loss .* membership epoch 1, ")
                wait_for(lambda: seen(
                    run, r"^troupe_all_reduce_wait_seconds_count\{.*\} [1-9]"),
                    "waits for sums")
        with Run(*job(2), *WORKERS, "2", "--reduction", "fast", "--compress",
                 "fp16", "--link", "tcp") as run:
            sent = run.finish()["all_reduce"]
        self.assertGreater(sent["sent_bytes"], 0)
        self.assertLess(sent["sent_bytes"], 0.55 * sent["plain_bytes"])

    def test_ctrl_c_saves_what_all_have_reached(self):
        with tempfile.TemporaryDirectory() as folder:
            weights = os.path.join(folder, "weights.safetensors")
            with Run(*ENDED, *WORKERS, "2", "--save", weights) as run:
                run.wait_for_step(50)
                begin = time.monotonic()
                run.process.send_signal(signal.SIGINT)
                summary = run.finish(130, 10)
                self.assertLess(time.monotonic() - begin, 2)
            self.check_same(summary)


if __name__ == "__main__":
    unittest.main()
