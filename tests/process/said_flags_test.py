"""What was said holds, and is said back: flags of whole runs, their lines and
the figures that other commands show of them."""
# ctest: TIMEOUT 600

import os
import re
import subprocess
import unittest
import urllib.request

from cluster import TROUPE, Run, wait_for
from own_folder import OwnFolder

DIGITS = ["--data", "synthetic:digits?samples=640"]
SERVED = ["--strategy", "parameter_server", "--workers", "2", "--ps", "2"]


def troupe(*arguments, status=0, cwd=None):
    """What a command prints on both outputs."""
    done = subprocess.run([TROUPE, *arguments], capture_output=True, text=True,
                          timeout=60, check=False, cwd=cwd)
    assert done.returncode == status, (
        f"{arguments}: status {done.returncode}: {done.stderr}")
    return done.stdout + done.stderr


def series(address, name):
    """{labels as text: value} of a metric, histograms by their count."""
    with urllib.request.urlopen(f"http://{address}/metrics",
                                timeout=5) as answer:
        text = answer.read().decode()
    found = re.findall(rf"^{name}\{{([^}}]*)\}} (\S+)$", text, re.MULTILINE)
    return {labels: float(value) for labels, value in found}


class SaidFlags(OwnFolder):
    def train(self, *flags):
        with Run(*flags) as run:
            summary = run.finish()
            return summary, run.output()

    # It pinned devices, epochs and in-process, so that --steps had no effect
    # beyond an epoch and another strategy was refused.
    def test_a_printed_configuration_leaves_defaults_open(self):
        text = troupe("train", *DIGITS, "--lr", "0.01", "--print-config")
        self.assertRegex(text, r"(?m)^lr = 0\.01$")
        self.assertRegex(text, r"(?m)^# epochs = 1$")
        config = self.path("job.toml")
        with open(config, "w") as file:
            file.write(text)
        summary, _ = self.train("--config", config, "--steps", "25")
        self.assertEqual(summary["steps"], 25)  # 10 are an epoch
        summary, _ = self.train("--config", config, *SERVED)
        self.assertEqual(summary["steps"], 10)

    def test_lines_of_progress_are_at_the_multiples_that_were_asked_for(self):
        for strategy in ([], SERVED):
            summary, output = self.train(
                *DIGITS, *strategy, "--steps", "350", "--log-every", "100")
            self.assertEqual(summary["steps"], 350)
            self.assertEqual(re.findall(r"(?m)^step (\d+) of 350", output),
                             ["100", "200", "300"])

    def test_a_run_of_exactly_the_steps_of_warming_up_has_a_rate(self):
        for steps in ("10", "11"):
            summary, output = self.train(*DIGITS, "--steps", steps)
            self.assertGreater(summary["samples_per_second"], 0)
            self.assertNotIn(" 0 samples/s", output)

    def test_nothing_held_out_is_a_mistake_of_the_flags(self):
        for strategy in ([], SERVED):
            line = troupe("train", *DIGITS, *strategy, "--eval-fraction",
                          "0.0001", status=2)
            self.assertRegex(line, r"troupe: --eval-fraction: of 640 samples")

    def test_many_more_samples_a_step_than_there_are_work(self):
        summary, _ = self.train("--data", "synthetic:digits?samples=100",
                                "--global-batch", "16777216", "--steps", "2")
        self.assertEqual(summary["steps"], 2)

    # That of bench step named no data, which it needs.
    def test_examples_of_the_help_are_taken(self):
        for command in ("train", "plan", "evaluate", "predict", "role",
                        "bench step", "model show"):
            text = troupe(*command.split(), "--help")
            text = text[text.index("Examples\n"):text.index("\nFlags")]
            lines = re.findall(r"(?m)^  troupe (.*)$",
                               text.replace("\\\n   ", ""))
            self.assertTrue(lines, command)
            for line in lines:
                words = re.split(r" [>|] ", line)[0].split()
                if words[0] != command.split()[0] or "job.toml" in words:
                    continue
                with self.subTest(line=line):
                    troupe(*words, *([] if "--print-config" in words
                                     else ["--print-config"]))
                if command == "bench step":
                    troupe(*words, "--epochs", "0", "--steps", "12",
                           cwd=self.folder)
                    self.assertTrue(os.path.exists(self.path("step.json")))

    def test_a_schedule_that_follows_the_total_says_when_that_changed(self):
        for schedule in ("step", "cosine"):
            kept = ["--checkpoint-dir", self.path(schedule), "--lr-schedule",
                    schedule]
            self.train(*DIGITS, *kept, "--steps", "10")
            _, output = self.train(*DIGITS, *kept, "--resume", "--steps", "20")
            self.assertRegex(output, r"--steps 20 \(10 in the checkpoint\)")

    def test_kinds_of_events_are_known_by_name(self):
        journal = self.path("run.db")
        self.train(*DIGITS, *SERVED, "--journal", journal)
        self.assertIn("steps 0 to", troupe("events", journal, "--kind",
                                           "commits"))
        self.assertRegex(
            troupe("events", journal, "--kind", "commit", status=2),
            r"--kind commit: unknown; use .*epoch.*commits")
        kinds = set(re.findall(r'"kind":"(\w+)"',
                               troupe("events", journal, "--json")))
        for kind in kinds:
            self.assertTrue(troupe("events", journal, "--kind", kind))

    def test_status_shows_links_and_tells_epochs_apart(self):
        for link, carrier in (("shm", "shm"), ("tcp", "tcp")):
            with Run(*DIGITS, *SERVED, "--link", link, "--epochs", "0",
                     "--steps", "1000000") as run:
                run.wait_for_step(20)
                address = run.metrics_address()
                wait_for(lambda: len(series(address, "troupe_link_carrier"))
                         >= 8, "both ends of four links")
                text = troupe("status", address)
                self.assertRegex(text, r"^step \d+, data epoch [1-9]\d*, loss "
                                       r"\S+, membership epoch 1, 0 restarts")
                for worker in (0, 1):
                    self.assertRegex(
                        text, rf"(?m)^worker:{worker} +ps:0 by {carrier}, "
                              rf"ps:1 by {carrier}$")
                self.check_traffic(address)

    def check_traffic(self, address):
        """What one end sends, the other receives: lent tensors count alike."""
        def bytes_of(which, role, peer):
            return sum(value for labels, value in series(
                address, f"troupe_link_{which}_bytes_total").items()
                       if f'role="{role}"' in labels
                       and f'peer="{peer}"' in labels)

        wait_for(lambda: bytes_of("received", "worker:0", "ps:0") > 0,
                 "bytes are counted")
        sent = bytes_of("sent", "ps:0", "worker:0")
        received = bytes_of("received", "worker:0", "ps:0")
        # Roles report once a second, not at the same moment.
        self.assertGreater(received, sent / 20)

    def test_asynchronous_pushes_are_timed(self):
        with Run(*DIGITS, *SERVED, "--async", "--epochs", "0", "--steps",
                 "1000000") as run:
            run.wait_for_step(20)
            address = run.metrics_address()
            wait_for(lambda: sum(series(
                address, "troupe_push_duration_seconds_count").values()) > 10,
                     "pushes that are timed")

    def test_a_switch_to_the_present_mode_is_recorded(self):
        with Run(*DIGITS, *SERVED, "--epochs", "0", "--steps",
                 "1000000") as run:
            run.wait_for_step(5)
            match = wait_for(lambda: re.search(
                r"coordinator: (\S+), certificates (\S+)", run.output()),
                             "the coordinator's address")
            text = troupe("ctl", "consistency", "sync", "--coordinator",
                          match.group(1), "--certificates", match.group(2))
            self.assertIn("it is sync already", text)
            line = troupe("ctl", "consistency", "asink", "--coordinator",
                          match.group(1), "--certificates", match.group(2),
                          status=2)
            line += troupe("ctl", "shards", "remove", "ps:7", "--coordinator",
                           match.group(1), "--certificates", match.group(2),
                           status=1)
            self.assertNotRegex(line, r"caf::|invalid_argument|sec::")
            run.process.terminate()
            summary = run.finish(143)
            self.assertEqual([row["mode"] for row in
                              summary["consistency"]["switches"]], ["sync"])

    def test_a_refusal_of_the_coordinator_is_said_in_words(self):
        with Run("--data", "synthetic:clicks?samples=640", "--model", "dlrm",
                 "--optimizer", "lamb", *SERVED, "--tables", "dense",
                 "--epochs", "0", "--steps", "1000000") as run:
            run.wait_for_step(1)
            match = wait_for(lambda: re.search(
                r"coordinator: (\S+), certificates (\S+)", run.output()),
                             "the coordinator's address")
            line = troupe("ctl", "consistency", "async", "--coordinator",
                          match.group(1), "--certificates", match.group(2),
                          status=1)
            self.assertRegex(line, r"^troupe: consistency async: the "
                                   r"coordinator refused: optimizer lamb")
            self.assertNotRegex(line, r"caf::|invalid_argument|sec::")


if __name__ == "__main__":
    unittest.main()
