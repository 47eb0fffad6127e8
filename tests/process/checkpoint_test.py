"""Checkpoints (I7): a run that is killed whole goes on from its newest one with
another strategy and other numbers, and ends with the bits of a run that nobody
disturbed; damage and a full disk cost a checkpoint, never the run."""
# ctest: TIMEOUT 1200

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

from cluster import TROUPE, Run, wait_for

JOB = ["--data", "synthetic:digits?samples=1994", "--model", "mlp:784-48-10",
       "--global-batch", "64", "--seed", "7"]
STEPS = 500  # of a whole run, or after the newest checkpoint of a killed one
SERVED = ["--strategy", "parameter_server"]
DIGESTS = ("weights_sha256", "state_sha256")


def whole(steps=STEPS):
    return [*JOB, "--steps", str(steps)]


def undisturbed(steps=STEPS):
    with Run(*whole(steps), "--strategy", "one_device") as run:
        return digests(run.finish())


def digests(summary):
    return {name: summary[name] for name in DIGESTS}


def troupe(*arguments):
    return subprocess.run([TROUPE, *arguments], capture_output=True, text=True,
                          timeout=60, check=False)


def checkpoints(folder):
    return sorted(name for name in os.listdir(folder)
                  if name.startswith("step-"))


def step_of(checkpoint):
    return int(checkpoint.removeprefix("step-"))


def flip(path, at=-5):
    with open(path, "r+b") as file:
        file.seek(at, os.SEEK_END)
        byte = file.read(1)
        file.seek(at, os.SEEK_END)
        file.write(bytes([byte[0] ^ 0x10]))


class CheckpointTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.join(folder.name, "kept")

    def kept(self, every=20, *more):
        return ["--checkpoint-dir", self.folder, "--checkpoint-every",
                str(every), *more]

    def killed(self, *arguments):
        """A run that dies whole, by kill -9, once it has two checkpoints.
        Returns how many steps the one that goes on shall have."""
        with Run(*JOB, "--steps", "1000000", *arguments,
                 *self.kept(10)) as run:
            wait_for(lambda: run.process.poll() is not None
                     or (os.path.isdir(self.folder)
                         and len(checkpoints(self.folder)) >= 2),
                     "two checkpoints")
            self.assertIsNone(run.process.poll(), run.error())
            children = run.children()
            run.process.kill()
            run.process.wait()
            wait_for(lambda: not any(os.path.exists(f"/proc/{pid}")
                                     for pid in children.values()),
                     "all roles end with their launcher")
        return step_of(checkpoints(self.folder)[-1]) + STEPS

    def resumed(self, steps, *arguments):
        with Run(*whole(steps), *arguments,
                 *self.kept(10, "--resume")) as run:
            summary = run.finish()
            self.assertIn("resumed from", run.output())
        self.assertEqual(summary["resumed_from"]["step"], steps - STEPS)
        self.assertEqual(summary["steps"], steps)
        return digests(summary)

    def test_a_killed_job_goes_on_with_other_numbers_and_strategies(self):
        for before, after in (
                ([*SERVED, "--workers", "3", "--ps", "2", "--chain", "2",
                  "--processes"],
                 [*SERVED, "--workers", "2", "--ps", "1", "--processes"]),
                ([*SERVED, "--workers", "2", "--ps", "3", "--in-process"],
                 ["--strategy", "one_device"]),
                (["--strategy", "one_device"],
                 [*SERVED, "--workers", "4", "--ps", "2", "--chain", "2",
                  "--in-process"]),
                (["--strategy", "mirrored", "--devices", "cpu:2"],
                 ["--strategy", "central_storage", "--devices", "cpu:3"]),
                (["--strategy", "multi_worker_mirrored", "--workers", "2",
                  "--processes"],
                 ["--strategy", "mirrored", "--devices", "cpu:4"])):
            with self.subTest(before=before, after=after):
                shutil.rmtree(self.folder, ignore_errors=True)
                steps = self.killed(*before)
                self.assertEqual(self.resumed(steps, *after),
                                 undisturbed(steps))

    def test_a_finished_run_resumes_to_the_same_and_goes_on_when_it_is_longer(
            self):
        with Run(*JOB, "--steps", "100", *SERVED, "--in-process",
                 *self.kept()) as run:
            first = run.finish()
        self.assertGreater(first["checkpoints"], 0)
        with Run(*JOB, "--steps", "100", "--strategy", "one_device",
                 *self.kept(20, "--resume")) as run:
            again = run.finish()
        self.assertEqual(digests(again), digests(first))
        self.assertEqual(again["resumed_from"]["step"], 100)
        with Run(*whole(), "--strategy", "one_device",
                 *self.kept(20, "--resume")) as run:
            longer = run.finish()
        self.assertEqual(digests(longer), undisturbed())

    def test_ctrl_c_leaves_a_checkpoint_of_where_it_stopped(self):
        with Run(*JOB, "--steps", "100000", *SERVED, "--in-process",
                 "--checkpoint-dir", self.folder) as run:
            run.wait_for_step(20)
            run.process.send_signal(signal.SIGINT)
            stopped = run.finish(130)
            self.assertIn("checkpoint in", run.error() + run.output())
        [name] = checkpoints(self.folder)
        self.assertEqual(step_of(name), stopped["steps"])
        with Run(*JOB, "--steps", str(stopped["steps"] + 50), "--strategy",
                 "one_device", "--checkpoint-dir", self.folder,
                 "--resume") as run:
            resumed = run.finish()
        with Run(*JOB, "--steps", str(stopped["steps"] + 50), "--strategy",
                 "one_device") as run:
            self.assertEqual(digests(resumed), digests(run.finish()))

    def test_the_newest_stay_and_older_ones_go(self):
        seen = set()
        with Run(*JOB, "--steps", "1000000", "--strategy", "one_device",
                 *self.kept(20, "--checkpoint-keep", "2")) as run:
            wait_for(lambda: os.path.isdir(self.folder) and (
                seen.update(checkpoints(self.folder)) or len(seen) > 3),
                     "checkpoints come and go")
            run.process.send_signal(signal.SIGINT)
            summary = run.finish(130)
        kept = checkpoints(self.folder)
        self.assertEqual(len(kept), 2)
        self.assertEqual(kept[-1], f"step-{summary['steps']:012d}")
        self.assertGreater(summary["checkpoints"], 2)
        self.assertEqual(sorted(os.listdir(self.folder)), kept)

    def test_runs_that_write_one_each_keep_twice_as_many_at_most(self):
        for steps in range(10, 70, 10):
            with Run(*whole(steps), "--strategy", "one_device",
                     *self.kept(0, "--checkpoint-keep", "2",
                                "--resume")) as run:
                run.finish()
        self.assertEqual([step_of(name) for name in checkpoints(self.folder)],
                         [30, 40, 50, 60])

    def test_a_link_to_what_is_not_there_is_not_taken_for_damage(self):
        with Run(*whole(40), "--strategy", "one_device",
                 *self.kept()) as run:
            run.finish()
        before = checkpoints(self.folder)
        newest = os.path.join(self.folder, before[-1])
        elsewhere = self.folder + ".late"
        os.rename(newest, elsewhere + ".hidden")
        os.symlink(elsewhere, newest)
        resumed = [*whole(60), "--strategy", "one_device",
                   *self.kept(0, "--resume")]
        with Run(*resumed) as run:
            run.finish(1)
            self.assertEqual(
                run.error(), f"troupe: {newest}: leads to {elsewhere}, which "
                "is not there; try again once it is, or move that checkpoint "
                "away\n")
        self.assertEqual(checkpoints(self.folder), before)
        os.rename(elsewhere + ".hidden", elsewhere)
        with Run(*resumed) as run:
            self.assertEqual(run.finish()["resumed_from"]["step"], 40)

    def test_a_damaged_newest_is_named_and_the_one_before_is_taken(self):
        steps = self.killed(*SERVED, "--in-process")
        *_, before, newest = checkpoints(self.folder)
        flip(os.path.join(self.folder, newest, "optimizer.safetensors"))
        verdict = troupe("checkpoint", "verify", self.folder)
        self.assertEqual(verdict.returncode, 1)
        self.assertRegex(verdict.stderr, r"tensor adam_v/\S+ is not what")
        self.assertEqual(len(verdict.stderr.splitlines()), 1)
        self.assertIn(f"whole: {self.folder}/{before}", verdict.stdout)
        with Run(*whole(steps), "--strategy", "one_device",
                 *self.kept(10, "--resume")) as run:
            summary = run.finish()
            self.assertIn("passed over: ", run.output())
            self.assertEqual(summary["resumed_from"]["step"], step_of(before))
        self.assertEqual(digests(summary), undisturbed(steps))
        self.assertEqual(troupe("checkpoint", "verify", os.path.join(
            self.folder, checkpoints(self.folder)[-1])).returncode, 0)

    def test_an_unreadable_newest_is_named_and_the_one_before_is_taken(self):
        def emptied(path):
            os.remove(path)
            os.mkdir(path)

        with Run(*JOB, "--steps", "40", "--strategy", "one_device",
                 *self.kept()) as run:
            run.finish()
        whole = self.folder + ".whole"
        os.rename(self.folder, whole)
        for file in ("parameters.safetensors", "manifest.json"):
            for damage in (os.remove, emptied,
                           lambda path: os.truncate(path, 100)):
                shutil.rmtree(self.folder, ignore_errors=True)
                shutil.copytree(whole, self.folder)
                *_, before, newest = checkpoints(self.folder)
                damage(os.path.join(self.folder, newest, file))
                verdict = troupe("checkpoint", "verify", self.folder)
                self.assertEqual(verdict.returncode, 1)
                self.assertEqual(len(verdict.stderr.splitlines()), 1,
                                 verdict.stderr)
                self.assertIn(f"{newest}/{file}", verdict.stderr)
                self.assertIn(f"whole: {self.folder}/{before}",
                              verdict.stdout)
        with Run(*JOB, "--steps", "60", "--strategy", "one_device",
                 *self.kept(20, "--resume")) as run:
            summary = run.finish()
            self.assertEqual(run.output().count("passed over: "), 1)
        self.assertEqual(summary["resumed_from"]["step"], 20)

    def test_another_job_is_refused_by_the_first_thing_that_differs(self):
        with Run(*JOB, "--steps", "40", "--strategy", "one_device",
                 *self.kept()) as run:
            run.finish()
        base = {"--seed": "7", "--global-batch": "64", "--virtual-ranks": "4",
                "--optimizer": "adam", "--model": "mlp:784-48-10",
                "--data": "synthetic:digits?samples=1994"}
        for flag, value, says in (
                ("--seed", "8", "--seed 8 (7 in"),
                ("--global-batch", "32", "--global-batch 32 (64 in"),
                ("--virtual-ranks", "2", "--virtual-ranks 2 (4 in"),
                ("--virtual-slices", "4", "--virtual-slices 4 (1 in"),
                ("--optimizer", "sgd", "--optimizer sgd (adam in"),
                ("--model", "mlp:784-32-10", "--model mlp:784-32-10 ("),
                ("--data", "synthetic:digits?samples=1994&seed=3",
                 "this --data")):
            with self.subTest(flag=flag):
                flags = [word for pair in {**base, flag: value}.items()
                         for word in pair]
                with Run(*flags, "--steps", "80", "--strategy", "one_device",
                         *self.kept(20, "--resume")) as run:
                    run.finish(1)
                    self.assertIn(says, run.error())
                    self.assertEqual(len(run.error().splitlines()), 1)

    def test_a_run_that_is_refused_leaves_a_damaged_one_where_it_is(self):
        with Run(*JOB, "--steps", "40", "--strategy", "one_device",
                 *self.kept()) as run:
            run.finish()
        flip(os.path.join(self.folder, checkpoints(self.folder)[-1],
                          "optimizer.safetensors"))
        before = sorted(os.listdir(self.folder))
        other = ["--seed", "8"]
        for world in (["--strategy", "one_device"],
                      [*SERVED, "--processes"]):
            with Run(*JOB[:-2], *other, "--steps", "80", *world,
                     *self.kept(20, "--resume")) as run:
                run.finish(1)
                self.assertIn("--seed 8 (7 in", run.error())
            self.assertEqual(sorted(os.listdir(self.folder)), before)

    def test_what_may_differ_is_said(self):
        with Run(*JOB, "--steps", "40", "--strategy", "one_device",
                 *self.kept()) as run:
            run.finish()
        with Run(*JOB, "--steps", "60", "--lr", "0.01", "--strategy",
                 "one_device", *self.kept(20, "--resume")) as run:
            run.finish()
            self.assertIn("--lr 0.01 (0.001 in the checkpoint)", run.output())

    def test_a_folder_with_checkpoints_is_not_written_over(self):
        with Run(*JOB, "--steps", "40", "--strategy", "one_device",
                 *self.kept()) as run:
            run.finish()
        before = checkpoints(self.folder)
        with Run(*JOB, "--steps", "40", "--strategy", "one_device",
                 *self.kept()) as run:
            run.finish(1)
            self.assertIn("add --resume", run.error())
        self.assertEqual(checkpoints(self.folder), before)

    def test_a_checkpoint_in_place_of_its_folder_is_refused(self):
        """The run began with step 0, in it."""
        with Run(*JOB, "--steps", "40", "--strategy", "one_device",
                 *self.kept()) as run:
            run.finish()
        newest = os.path.join(self.folder, checkpoints(self.folder)[-1])
        before = sorted(os.listdir(newest))
        for named in (newest, newest + "/"):
            with Run(*JOB, "--steps", "60", "--strategy", "one_device",
                     "--checkpoint-dir", named, "--resume") as run:
                run.finish(1)
                self.assertEqual(
                    run.error(), f"troupe: --checkpoint-dir {named}: is a "
                    f"checkpoint itself; name {self.folder}\n")
        self.assertEqual(sorted(os.listdir(newest)), before)

    def test_an_empty_folder_begins_at_the_beginning_and_says_so(self):
        with Run(*whole(), "--strategy", "one_device",
                 *self.kept(20, "--resume")) as run:
            summary = run.finish()
            self.assertIn("begins with step 0", run.output())
        self.assertEqual(digests(summary), undisturbed())

    def test_a_full_disk_costs_checkpoints_and_not_the_run(self):
        """A limit on the size of files fails writes half-way, for root too."""
        limit = "100000"  # bytes; a checkpoint's first file has 154 KB
        shell = f"trap '' XFSZ; ulimit -f $(({limit} / 1024)); exec \"$@\""
        out = os.path.join(os.path.dirname(self.folder), "summary.json")
        done = subprocess.run(
            ["bash", "-c", shell, "bash", TROUPE, "train", *JOB, "--steps",
             "200", "--strategy", "one_device", "--summary", out,
             *self.kept(20)], capture_output=True, text=True, timeout=90,
            check=False)
        self.assertEqual(done.returncode, 1, done.stderr + done.stdout)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn("the last checkpoint is missing", done.stderr)
        self.assertEqual(done.stdout.count("no checkpoint of step"), 1,
                         done.stdout)
        with open(out) as file:
            summary = json.load(file)
        self.assertEqual(summary["steps"], 200)
        self.assertEqual(summary["checkpoints"], 0)
        self.assertEqual(os.listdir(self.folder), [])

    def test_asynchronous_runs_go_on_with_every_lease_once(self):
        count = ["--model", "count:0ms-4000", "--data",
                 "synthetic:digits?samples=1994", "--global-batch", "64",
                 "--optimizer", "sgd", "--lr", "1", *SERVED, "--async"]
        with Run(*count, "--steps", "1000000", "--workers", "3", "--ps", "2",
                 "--in-process", *self.kept(20)) as run:
            wait_for(lambda: run.process.poll() is not None
                     or (os.path.isdir(self.folder)
                         and len(checkpoints(self.folder)) >= 2),
                     "two checkpoints")
            self.assertIsNone(run.process.poll(), run.error())
            run.process.kill()
            run.process.wait()
        newest = checkpoints(self.folder)[-1]
        step = step_of(newest)
        with Run(*count, "--steps", str(step + 100), "--workers", "2", "--ps",
                 "3", "--in-process", "--save", self.folder + ".safetensors",
                 *self.kept(20, "--resume")) as run:
            summary = run.finish()
        self.assertEqual(summary["steps"], step + 100)
        # Each parameter counts its updates: a lease is one.
        self.assertEqual(set(tensor_values(self.folder + ".safetensors")),
                         {(step + 100) * 4})

    def test_sparse_tables_go_on_by_rows(self):
        job = ["--data", "synthetic:clicks?samples=2000", "--model", "dlrm",
               "--global-batch", "64", "--seed", "7", *SERVED, "--in-process",
               "--table-idle-steps", "30"]
        with Run(*job, "--steps", "80", "--workers", "1") as run:
            wanted = run.finish()
            self.assertIsNotNone(wanted["tables"])
        with Run(*job, "--steps", "40", "--workers", "2", "--ps", "2",
                 *self.kept(10)) as run:
            self.assertGreater(run.finish()["checkpoints"], 1)
        self.assertEqual(
            troupe("checkpoint", "verify", self.folder).returncode, 0)
        with Run(*job, "--steps", "80", "--workers", "3", "--ps", "3",
                 *self.kept(10, "--resume")) as run:
            resumed = run.finish()
        self.assertEqual(resumed["resumed_from"]["step"], 40)
        self.assertEqual(digests(resumed), digests(wanted))
        self.assertEqual(resumed["tables"]["rows"], wanted["tables"]["rows"])

    def test_export_gives_what_save_gives(self):
        saved = os.path.join(os.path.dirname(self.folder), "w.safetensors")
        with Run(*JOB, "--steps", "60", *SERVED, "--in-process", "--save",
                 saved, *self.kept()) as run:
            summary = run.finish()
        out = os.path.join(os.path.dirname(self.folder), "x.safetensors")
        done = troupe("checkpoint", "export", self.folder, "--out", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(summary["weights_sha256"], done.stdout)
        self.assertEqual(tensor_values(out), tensor_values(saved))
        verdict = troupe("checkpoint", "verify", self.folder)
        self.assertIn(
            f"{summary['weights_sha256']}, {summary['numeric_class']}\n",
            verdict.stdout)
        listed = troupe("checkpoint", "ls", self.folder)
        self.assertRegex(
            listed.stdout, r"(?m)^60 .* (end|periodic) .* mlp:784-48-10, "
            + re.escape(summary["numeric_class"]) + "$")

    def test_mistakes_with_the_flags_are_one_line(self):
        for arguments, says in (
                (["--resume"], "--resume has no effect without"),
                (["--checkpoint-every", "5"], "--checkpoint-every has no")):
            with Run(*whole(), *arguments) as run:
                run.finish(2)
                self.assertIn(says, run.error())
        done = troupe("checkpoint", "ls", "/nowhere")
        self.assertEqual(done.returncode, 1)
        self.assertIn("is no folder", done.stderr)


def tensor_values(path):
    import struct
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        file.read(length)
        data = file.read()
    return struct.unpack(f"<{len(data) // 4}f", data)


if __name__ == "__main__":
    unittest.main()
