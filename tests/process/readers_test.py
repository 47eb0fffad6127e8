"""Readers: roles of their own read and decode samples for workers. The weights
are those of workers that read for themselves, whatever readers there are and
whatever becomes of them (I3), and each sample counts once (I6)."""
# ctest: TIMEOUT 1200 PROCESSORS 1

import json
import os
import re
import signal
import subprocess
import tempfile
import time
import unittest

from cluster import (ENDLESS, TROUPE, Run, check_samples, metric_of, metrics_address,
                     troupe, wait_for)
import pictures
from pictures import seeds
from roles import Role

SAMPLES = 500
JOB = ["--data", f"synthetic:digits?samples={SAMPLES}", "--model",
       "mlp:784-16-10", "--global-batch", "64", "--virtual-ranks", "4",
       "--seed", "7"]
SHORT = [*JOB, "--epochs", "3"]
ONE = ["--strategy", "one_device"]
SERVED = ["--strategy", "parameter_server", "--workers", "2", "--ps", "1"]
REPLICAS = ["--strategy", "multi_worker_mirrored", "--workers", "2"]


def worlds():
    """Who computes, and who reads."""
    for workers in (1, 2, 4):
        for readers in (1, 3):
            yield ["--strategy", "parameter_server", "--in-process",
                   "--workers", str(workers), "--readers", str(readers)]
    yield [*SERVED, "--readers", "2", "--processes"]
    yield [*REPLICAS, "--readers", "1", "--processes"]
    yield [*REPLICAS, "--readers", "3", "--in-process"]
    yield [*SERVED, "--readers", "1", "--in-process", "--threads-per-device",
           "3"]
    yield [*SERVED, "--readers", "1", "--in-process", "--data-memory",
           "500000000"]


class Readers(unittest.TestCase):
    def hash_of(self, *flags):
        with Run(*flags, "--quiet") as run:
            summary = run.finish()
            self.assertEqual(run.error(), "")
        return summary["weights_sha256"]

    def expect_undisturbed(self, summary, job):
        """As many steps without readers, workers and faults end alike."""
        steps = ["--epochs", "0", "--steps", str(summary["steps"])]
        self.assertEqual(summary["weights_sha256"],
                         self.hash_of(*job, *ONE, *steps))

    def test_bits_do_not_depend_on_who_reads(self):
        expected = self.hash_of(*SHORT, *ONE)
        for world in worlds():
            with self.subTest(world):
                self.assertEqual(self.hash_of(*SHORT, *world), expected)

    def test_kinds_of_samples_arrive_with_all_their_bits(self):
        for data, model in (
                ("synthetic:clicks?samples=300&buckets=50", "wide_deep"),
                ("synthetic:clicks?samples=300&scale=standard", "logreg"),
                ("synthetic:text?samples=600",
                 "transformer:L1-H2-D16-T16")):
            with self.subTest(data):
                job = ["--data", data, "--model", model, "--global-batch",
                       "60", "--epochs", "0", "--steps", "8"]
                self.assertEqual(
                    self.hash_of(*job, *SERVED, "--in-process", "--readers",
                                 "2"),
                    self.hash_of(*job, *SERVED, "--in-process", "--tables",
                                 "dense"))

    def test_what_is_drawn_of_images_is_the_same_whoever_decodes(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "train.tar")
            with open(path, "wb") as file:
                file.write(pictures.archive(pictures.drawn_samples(90)))
            job = [*pictures.JOB, "--virtual-ranks", "2", "--epochs", "3",
                   "--data", f"tar:{path}?channels=1&augment="
                   "random_resized_crop:8,flip"]
            expected = self.hash_of(*job, *ONE)
            self.assertEqual(
                self.hash_of(*job, *SERVED, "--in-process", "--readers", "2"),
                expected)

    def test_each_sample_counts_once_in_asynchronous_leases(self):
        with Run(*JOB, *SERVED, "--async", "--processes", "--readers", "2",
                 "--epochs", "0", "--steps", "400") as run:
            run.wait_for_step(5)
            run.kill("reader:0")
            summary = run.finish()
            self.assertRegex(run.output(), r"reader:0 died \(signal 9")
        check_samples(self, summary, SAMPLES)

    def strike(self, world, how):
        """Readers are struck one after the other, five times in all, with
        steps in between."""
        with Run(*JOB, *world, *ENDLESS) as run:
            run.wait_for_step(5)
            for strike in range(5):
                role = f"reader:{strike % 2}"
                old = run.kill(role, how)
                wait_for(lambda: run.children().get(role) not in (None, old),
                         f"{role} is started again")
                run.wait_for_step(run.step() + 5)
            summary = run.end()
            self.assertEqual(
                len([x for x in run.output().splitlines()
                     if x.startswith("reader:") and " died (" in x]), 5)
        self.expect_undisturbed(summary, JOB)
        self.assertEqual(summary["steps_rolled_back"], 0)

    def test_readers_are_killed_beside_shards(self):
        self.strike([*SERVED, "--readers", "2"], signal.SIGKILL)

    def test_readers_are_killed_beside_replicas(self):
        self.strike([*REPLICAS, "--readers", "2"], signal.SIGKILL)

    def test_readers_are_stopped(self):
        self.strike([*SERVED, "--readers", "2"], signal.SIGSTOP)

    def test_workers_and_the_only_reader_are_killed(self):
        with Run(*JOB, *SERVED, "--readers", "1", *ENDLESS) as run:
            run.wait_for_step(5)
            for role in ("reader:0", "worker:1", "reader:0", "worker:0"):
                old = run.kill(role)
                wait_for(lambda: run.children().get(role) not in (None, old),
                         f"{role} is started again")
                run.wait_for_step(run.step() + 5)
            summary = run.end()
        self.expect_undisturbed(summary, JOB)

    def test_a_reader_that_hangs_as_another_coordinator_leads_is_replaced(self):
        # Symptom: nobody missed it, and its workers waited for good.
        with tempfile.TemporaryDirectory() as folder, \
                Run(*JOB, *SERVED, "--readers", "1", "--journal",
                    os.path.join(folder, "run.db"), *ENDLESS) as run:
            run.wait_for_step(5)
            hung = run.kill("reader:0", signal.SIGSTOP)
            run.kill("coordinator")
            wait_for(lambda: run.children().get("reader:0") not in (None, hung),
                     "reader:0 is started again")
            run.wait_for_step(run.step() + 5)
            summary = run.end()
        self.expect_undisturbed(summary, JOB)

    def test_metrics_tell_what_is_read_and_how_long_workers_wait(self):
        with Run(*JOB, *SERVED, "--readers", "2", *ENDLESS) as run:
            run.wait_for_step(20)

            def of(name, role):
                return run.metric(name, rf'[^}}]*role="{role}"[^}}]*')
            for reader in ("reader:0", "reader:1"):
                wait_for(lambda: of("troupe_reader_samples_total", reader)
                         >= 16 * 20, "samples are counted")
                wait_for(lambda: of("troupe_read_duration_seconds_count",
                                    reader) >= 20, "reads are timed")
                # 784 features of 4 bytes, and a label.
                self.assertEqual(
                    of("troupe_reader_bytes_total", reader) % (785 * 4), 0)
                self.assertGreater(of("troupe_reader_bytes_total", reader), 0)
                self.assertLess(of("troupe_reader_requests", reader), 100)
            for worker in ("worker:0", "worker:1"):
                wait_for(lambda: of("troupe_data_wait_seconds_count", worker)
                         >= 20, "waits are timed")
                self.assertGreater(of("troupe_data_wait_seconds_sum", worker),
                                   0)
            page = troupe("top", "--once", metrics_address(run))
            for reader in ("reader:0", "reader:1"):
                self.assertRegex(page, rf"(?m)^{reader} +\d+% .* \d+% ")
            run.end()

    def test_workers_that_decode_say_how_long_that_takes(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "some.jsonl")
            with open(path, "w") as out:
                for i in range(SAMPLES):
                    out.write(json.dumps({"x": [i, 1.5] * 392,
                                          "label": i % 10}) + "\n")
            for memory, decoded in (("20000", True), ("2000000", False)):
                with Run("--data", f"jsonl:{path}", *JOB[2:], *SERVED,
                         "--data-memory", memory, *ENDLESS) as run:
                    run.wait_for_step(20)

                    def of(name):
                        return run.metric(name, r'[^}]*role="worker:0"[^}]*')
                    wait_for(lambda: of("troupe_decode_seconds_count") >= 20,
                             "steps are timed")
                    self.assertEqual(of("troupe_decode_seconds_sum") > 0,
                                     decoded)
                    run.end()

    def test_a_reader_that_stands_still_is_named(self):
        with Run(*JOB, *SERVED, "--readers", "1", "--loss-ms", "30000",
                 *ENDLESS) as run:
            run.wait_for_step(5)
            run.kill("reader:0", signal.SIGSTOP)
            address = metrics_address(run)

            def named(command, line):
                def says():
                    done = subprocess.run([TROUPE, command, address], text=True,
                                          capture_output=True, timeout=60)
                    return re.search(line, done.stdout)
                wait_for(says, f"troupe {command} says {line}")
            named("status", r"(?m)^  worker:[01] waits for reader:0: samples$")
            named("status", "the step is late, reader:0 is silent for")
            named("doctor", r"(?m)^WRONG +reader:0  .*reader:0 is silent for")
            self.assertRegex(run.output(), r"(?m)^step \d+ is late: reader:0 ")
            run.kill("reader:0", signal.SIGCONT)
            run.wait_for_step(run.step() + 5)
            wait_for(lambda: "waits for reader:0" not in
                     troupe("status", address), "nobody waits for it any more")
            summary = run.end()
        self.expect_undisturbed(summary, JOB)

    def test_tables_that_are_dense_because_of_readers_are_told_of(self):
        with Run("--data", "synthetic:clicks?samples=300&buckets=50",
                 "--model", "wide_deep", "--global-batch", "60", "--epochs",
                 "0", "--steps", "2", *SERVED, "--in-process", "--readers",
                 "1") as run:
            run.finish()
            self.assertRegex(run.output(),
                             "(?m)^note: --readers has --tables dense: ")

    def test_a_reader_by_hand_beside_supervised_ones_comes_and_goes(self):
        # Symptom: every five seconds, to the end, a line about one that left.
        with tempfile.TemporaryDirectory() as certificates, \
                Run(*JOB, *SERVED, "--readers", "1", "--certificates",
                    certificates, *ENDLESS) as run:
            run.wait_for_step(5)
            words = next(words for _, words in run.role_processes()
                         if words[2] == "worker:0")
            address = words[words.index("--coordinator") + 1]

            def start(role):
                return Role(self.addCleanup, role, "--coordinator", address,
                            "--certificates", certificates)

            def told(line, times):
                wait_for(lambda: len(re.findall(line, run.output())) == times,
                         f"{line}, {times} times")
                run.wait_for_step(run.step() + 5)

            def present(count):
                wait_for(lambda: run.metric(
                    "troupe_members", '[^}]*state="present"[^}]*') == count,
                    f"{count} roles are present")

            for times in (1, 2):
                present(4)
                guest = start("reader:5")
                present(5)
                guest.stop()
                told(r"(?m)^reader:5 is left out: its connection ended$", times)
            time.sleep(11)  # twice as long as one that is started again may be
            self.assertEqual(run.output().count("reader:5 is left out"), 2)
            run.end()

    # --- by hand --------------------------------------------------------------

    def test_a_reader_whose_place_another_took_ends(self):
        with tempfile.TemporaryDirectory() as folder:
            coordinator, start, here, _ = self.by_hand(
                folder, *SERVED, "--readers", "1", *ENDLESS)
            for role in ("ps:0", "worker:0", "worker:1"):
                start(role)
            old = start("reader:0", here)

            def steps():
                return metric_of(metrics_address(coordinator),
                                 "troupe_steps_committed_total")
            wait_for(lambda: steps() >= 5, "step 5")
            old.process.send_signal(signal.SIGSTOP)
            wait_for(lambda: "reader:0 is left out" in coordinator.output(),
                     "the old one is left out")
            start("reader:0", here)
            now = steps()
            wait_for(lambda: steps() >= now + 5, "the new one reads")
            old.process.send_signal(signal.SIGCONT)
            self.assertRegex(old.finish(1), "another one took its place")
            now = steps()
            wait_for(lambda: steps() >= now + 5, "the new one goes on")

    def by_hand(self, folder, *job):
        """A coordinator; a function that starts other roles; where."""
        certificates = os.path.join(folder, "certificates")
        summary = os.path.join(folder, "summary.json")
        here = ("env", "-C", os.path.join(folder, "with"))
        elsewhere = ("env", "-C", os.path.join(folder, "without"))
        for place in (here, elsewhere):
            os.mkdir(place[2])
        with open(os.path.join(here[2], "train.tfrecord"), "wb") as file:
            file.write(seeds.tfrecord(*pictures.pixel_records(
                pictures.drawn_samples(180))))
        coordinator = Role(self.addCleanup, "coordinator", "--certificates",
                           certificates, "--summary", summary,
                           *pictures.JOB, "--data", "tfrecord:train.tfrecord",
                           *job, on=here)

        def start(role, on=elsewhere):
            return Role(self.addCleanup, role, "--coordinator",
                        coordinator.address(), "--certificates", certificates,
                        on=on)
        return coordinator, start, here, summary

    def test_only_readers_need_the_data(self):
        with tempfile.TemporaryDirectory() as folder:
            coordinator, start, here, summary = self.by_hand(
                folder, *SERVED, "--readers", "1", "--epochs", "4")
            early = [start(role) for role in ("ps:0", "worker:0", "worker:1")]
            wait_for(lambda: "3 of 4 roles have joined, missing: reader:0"
                     in coordinator.output(), "a reader is waited for")
            members = [*early, start("reader:0", here)]
            coordinator.finish()
            for member in members:
                member.finish(0, 20)
            with open(summary) as file:
                found = json.load(file)
            path = os.path.join(here[2], "train.tfrecord")
            self.assertEqual(found["weights_sha256"], self.hash_of(
                *pictures.JOB, "--data", f"tfrecord:{path}", *ONE, "--epochs",
                "4"))

    def test_a_worker_that_waits_for_a_reader_loses_nothing(self):
        # Symptom: "worker:0 did not seal epoch 3 within 5 s", and all since the
        # last checkpoint was undone.
        with tempfile.TemporaryDirectory() as folder:
            coordinator, start, here, summary = self.by_hand(
                folder, *REPLICAS, "--readers", "1", *ENDLESS)
            members = {role: start(role, here)
                       for role in ("worker:0", "worker:1", "reader:0")}

            def steps():
                return metric_of(metrics_address(coordinator),
                                 "troupe_steps_committed_total")
            wait_for(lambda: steps() >= 5, "step 5")
            for role in ("reader:0", "worker:1"):
                members[role].stop()
            wait_for(lambda: "waits for samples: no reader is there"
                     in members["worker:0"].error(), "worker:0 waits")
            members["worker:1"] = start("worker:1")
            time.sleep(7)  # longer than a seal may take
            start("reader:0", here)
            now = steps()
            wait_for(lambda: steps() >= now + 5, "it goes on")
            coordinator.process.send_signal(signal.SIGTERM)
            coordinator.finish(143)
            self.assertNotIn("did not seal", coordinator.output())
            with open(summary) as file:
                self.assertEqual(json.load(file)["steps_rolled_back"], 0)

    def test_a_reader_without_the_data_stays_out_with_a_line(self):
        with tempfile.TemporaryDirectory() as folder:
            coordinator, start, here, _ = self.by_hand(
                folder, *SERVED, "--readers", "1")
            for role in ("ps:0", "worker:0", "worker:1"):
                start(role)
            self.assertRegex(start("reader:0").finish(1), "train.tfrecord")
            wait_for(lambda: re.search(
                r"(?m)^reader:0 cannot take part: .*train\.tfrecord",
                coordinator.output()), "the coordinator says so")
            start("reader:0", here)
            coordinator.finish()

    # Symptom: "worker:0: worker:0: no samples within …".
    def test_a_worker_that_waited_too_long_is_named_once(self):
        with tempfile.TemporaryDirectory() as folder:
            coordinator, start, here, _ = self.by_hand(
                folder, *SERVED, "--readers", "1", "--data-timeout", "2",
                *ENDLESS)
            start("ps:0")
            workers = [start("worker:0"), start("worker:1")]
            reader = start("reader:0", here)
            wait_for(lambda: metric_of(metrics_address(coordinator),
                                       "troupe_steps_committed_total") >= 5,
                     "step 5")
            reader.stop()
            for i, worker in enumerate(workers):
                self.assertRegex(
                    worker.finish(1),
                    rf"(?m)^troupe: worker:{i}: no samples within 2 s: ")

    def test_data_that_are_gone_end_the_run_with_a_line(self):
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, name) for name in ("a", "b")]
            samples = pictures.pixel_records(pictures.drawn_samples(180))
            for path in paths:
                with open(path + ".tfrecord", "wb") as file:
                    file.write(seeds.tfrecord(*samples))
            with Run(*pictures.JOB, "--data", f"tfrecord:{folder}/*.tfrecord",
                     *SERVED, "--readers", "1", *pictures.IN_FILES, *ENDLESS,
                     environment={"TROUPE_CACHE": folder}) as run:
                run.wait_for_step(5)
                with open(paths[1] + ".tfrecord", "r+b") as file:
                    file.write(bytes(os.path.getsize(file.name)))
                run.finish(1)
                self.assertRegex(run.error().splitlines()[-1],
                                 r"\Atroupe: reader:0: .*/b\.tfrecord")

    def test_a_job_without_readers_lets_none_in(self):
        with tempfile.TemporaryDirectory() as folder:
            _, start, here, _ = self.by_hand(folder, *SERVED)
            self.assertRegex(start("reader:0", here).finish(1),
                             "was started without --readers")

    # --- what is refused, and planned -----------------------------------------

    def test_who_cannot_be_read_for_is_refused_with_one_line(self):
        for flags, why in (
                (["--strategy", "pipeline"], "not those of strategy pipeline"),
                (["--strategy", "mirrored"], "not those of strategy mirrored"),
                (["--strategy", "fully_sharded"],
                 "not those of strategy fully_sharded"),
                ([*SERVED, "--tables", "sparse"], "--tables dense")):
            with self.subTest(flags):
                self.assertRegex(
                    troupe("train", *JOB, *flags, "--readers", "2", status=2),
                    rf"\Atroupe: [^\n]*{why}[^\n]*\n\Z")

    def test_the_plan_lists_readers(self):
        self.assertRegex(troupe("plan", *SERVED, "--readers", "2"),
                         r"(?m)^reader:1 +cpu ")


if __name__ == "__main__":
    unittest.main()
