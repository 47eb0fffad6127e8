"""Files whose checksums are right and whose meaning is hostile: whoever can
write into a shared folder can make them. Each ends in one line, with nothing
read or deleted that is not the job's, and with memory looked at before it is
taken."""
# ctest: TIMEOUT 1200

import gzip
import json
import os
import re
import resource
import shutil
import sqlite3
import struct
import subprocess
import unittest

from checksum import crc32c
from cluster import TROUPE, Run
from own_folder import OwnFolder

DIGITS = ["--data", "synthetic:digits?samples=256", "--model", "mlp:784-16-10",
          "--global-batch", "64", "--seed", "7"]
CLICKS = ["--data", "synthetic:clicks?samples=512&buckets=8192", "--model",
          "dlrm", "--optimizer", "adagrad", "--global-batch", "64",
          "--seed", "7"]
SERVED = ["--strategy", "parameter_server", "--workers", "1", "--ps", "1",
          "--in-process"]
ESCAPE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e"
GIB = 1 << 30


def troupe(*arguments, max_bytes=None, deadline_s=60):
    """Runs it; `max_bytes` of address space, if any."""
    def bound():
        resource.setrlimit(resource.RLIMIT_AS, (max_bytes, max_bytes))

    return subprocess.run([TROUPE, *arguments], capture_output=True,
                          timeout=deadline_s, check=False,
                          preexec_fn=bound if max_bytes else None)


class HostileFiles(OwnFolder):
    def setUp(self):
        super().setUp()
        self.kept = os.path.join(self.folder, "kept")

    def refused(self, answer, *parts):
        """One line on stderr that holds these."""
        line = answer.stderr.decode()
        self.assertEqual(answer.returncode, 1, line)
        self.assertRegex(line, r"\Atroupe: [^\n]+\n\Z")
        for part in parts:
            self.assertIn(part, line)

    def checkpoint(self, *job):
        """A checkpoint of two steps; returns its folder."""
        answer = troupe("train", *job, "--steps", "2", "--checkpoint-dir",
                        self.kept)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return os.path.join(self.kept, sorted(os.listdir(self.kept))[-1])

    def rewrite(self, folder, change):
        """Lets change() alter the manifest; its checksum is right again."""
        path = os.path.join(folder, "manifest.json")
        with open(path, encoding="utf-8") as file:
            manifest = json.load(file)
        change(manifest["checkpoint"])
        body = json.dumps(manifest["checkpoint"], separators=(",", ":"),
                          ensure_ascii=False)
        manifest["crc32c"] = crc32c(body.encode())
        with open(path, "w", encoding="utf-8") as file:
            json.dump(manifest, file, ensure_ascii=False)

    def resume(self, *job):
        return troupe("train", *job, "--steps", "4", "--checkpoint-dir",
                      self.kept, "--resume", deadline_s=30)

    def journal(self, *rows):
        """A journal of these (kind, body), as troupe writes one."""
        path = self.path("journal.db")
        base = sqlite3.connect(path)
        base.executescript(
            f"PRAGMA application_id={0x54524a31}; PRAGMA user_version=2; "
            "CREATE TABLE events (id INTEGER PRIMARY KEY, unix_ms INTEGER NOT "
            "NULL, term INTEGER NOT NULL, kind TEXT NOT NULL, body TEXT NOT "
            "NULL, checksum INTEGER NOT NULL)")
        check = 0
        for number, (kind, body) in enumerate(rows, 1):
            row = (number, 1000, 1, kind, body)
            check = crc32c("|".join(map(str, row)).encode(), check)
            base.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)",
                         (*row, check))
        base.commit()
        base.close()
        return path

    # --- checkpoints ----------------------------------------------------------

    def test_a_part_of_a_table_with_narrower_rows_is_not_read_past_its_end(
            self):
        """Only the width of part 0 was compared: of another part with fewer
        values a row, what lies behind the buffer became weights."""
        folder = self.checkpoint(*CLICKS, *SERVED)

        def narrow(manifest):
            for tensor in reversed(manifest["tensors"]):
                if tensor["name"].endswith("/rows") \
                        and not tensor["name"].endswith("/part-0/rows") \
                        and tensor["shape"][0] > 0:
                    tensor["shape"][1] = 1
                    tensor["bytes"] = 4 * tensor["shape"][0]
                    with open(os.path.join(folder, tensor["file"]),
                              "rb") as file:
                        file.seek(tensor["offset"])
                        tensor["crc32c"] = crc32c(file.read(tensor["bytes"]))
                    return
            self.fail("no table has two parts")

        self.rewrite(folder, narrow)
        self.refused(self.resume(*CLICKS, *SERVED), "different widths",
                     "use another")

    def test_counts_of_updates_that_fit_no_step_are_refused(self):
        """The coordinator counted from the one to the other: for ever."""
        for job, number in ((DIGITS, 1 << 62), ([*DIGITS, *SERVED], 1 << 62),
                            ([*DIGITS, *SERVED], 3),
                            ([*DIGITS, *SERVED, "--async"], 1 << 62)):
            with self.subTest(job=job[len(DIGITS):], updates=number):
                shutil.rmtree(self.kept, ignore_errors=True)

                def count(manifest):
                    for mark in manifest["slices"]:
                        mark["updates"] = number

                self.rewrite(self.checkpoint(*job), count)
                self.refused(self.resume(*job), "does not fit", "use another")

    def test_a_link_in_a_checkpoint_folder_leads_to_nobodys_end(self):
        """.new-… and .old-… are what killed writers leave: removed, and
        what is in them too, also where they were links to something else."""
        os.mkdir(self.kept)
        precious = self.path("precious")
        os.mkdir(precious)
        for name in (".new-x", ".old-x", "step-000000000001"):
            with open(os.path.join(precious, name + "-thesis"), "w") as file:
                file.write("years")
            os.symlink(precious, os.path.join(self.kept, name))
        before = sorted(os.listdir(precious))
        with Run(*DIGITS, "--steps", "12", "--checkpoint-every", "4",
                 "--checkpoint-keep", "1", "--checkpoint-dir",
                 self.kept, "--resume=fresh") as run:
            run.finish()
        self.assertEqual(sorted(os.listdir(precious)), before)
        self.assertEqual([name for name in os.listdir(self.kept)
                          if name.startswith(".")], [])

    def test_lists_of_checkpoints_steer_no_terminal(self):
        def dress(manifest):
            manifest["cause"] = ESCAPE
            manifest["written_at"] = ESCAPE
            manifest["facts"] = {"model": ESCAPE, "optimizer": ESCAPE}

        self.rewrite(self.checkpoint(*DIGITS), dress)
        answer = troupe("checkpoint", "ls", self.kept)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.plain(answer.stdout.decode())

    def test_what_a_run_goes_on_from_steers_no_terminal(self):
        def dress(manifest):
            manifest["written_at"] = ESCAPE
            manifest["settings"]["lr"] = ESCAPE
            manifest["settings"]["numeric-classes"] = ESCAPE + "; " + 5000 * "x"

        self.rewrite(self.checkpoint(*DIGITS), dress)
        answer = self.resume(*DIGITS)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        said = answer.stdout.decode()
        self.plain(said)
        self.assertIn("goes on with --lr", said)
        line, = re.findall("goes on in the numeric class .*", said)
        self.assertLess(len(line), 2500)

    def plain(self, text):
        self.assertEqual([c for c in text if c in ESCAPE
                          and not c.isprintable() and c != "\n"], [])

    # --- journals -------------------------------------------------------------

    def test_a_deeply_nested_journal_is_refused(self):
        """200,000 brackets: printing them called itself as often, and the
        stack ended `troupe events` with a signal."""
        body = '{"a":' + "[" * 200_000 + "]" * 200_000 + "}"
        self.refused(troupe("events", self.journal(("change", body))),
                     "nested too deeply")

    def test_a_journal_whose_events_never_end_is_refused(self):
        """`troupe events` did not end, and took gigabytes: its table was a
        view."""
        path = self.journal(("restart", "{}"))
        base = sqlite3.connect(path)
        base.executescript(
            "ALTER TABLE events RENAME TO others; CREATE VIEW events AS WITH "
            "RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT "
            "x AS id, unix_ms, term, kind, body, checksum FROM c JOIN others")
        base.close()
        self.refused(troupe("events", path), "is no journal of a run")

    def test_a_journal_that_is_no_file_is_not_waited_for(self):
        path = self.path("waits.db")
        os.mkfifo(path)
        self.refused(troupe("events", path), "is not a regular file")

    def test_events_steer_no_terminal(self):
        path = self.journal(
            ("restart", json.dumps({"role": ESCAPE, "how": ESCAPE})),
            ("odd" + ESCAPE, json.dumps({ESCAPE: ESCAPE},
                                        ensure_ascii=False)))
        for more in ([], ["--json"]):
            answer = troupe("events", path, *more)
            self.assertEqual(answer.returncode, 0, answer.stderr)
            self.assertEqual(answer.stdout.count(b"\n"), 2)
            self.plain(answer.stdout.decode())

    # --- what waits -------------------------------------------------------------

    def fifo(self, *names):
        """Whoever opened it waited, without end."""
        os.makedirs(os.path.dirname(self.path(*names)), exist_ok=True)
        os.mkfifo(self.path(*names))
        return self.path(*names)

    def test_a_log_that_is_no_file_costs_its_lines(self):
        log = self.fifo("logs", "coordinator.log")
        answer = troupe("train", *DIGITS, "--steps", "4", "--log-level",
                        "debug", "--strategy", "multi_worker_mirrored",
                        "--workers", "2", "--processes", "--log-dir",
                        self.path("logs"))
        self.assertEqual(answer.returncode, 0, answer.stderr)
        said = (answer.stdout + answer.stderr).decode()
        self.assertEqual(said.count(f"log {log}: cannot be written"), 1, said)
        self.assertIn("the run goes on without it", said)

    def test_hosts_that_are_no_file_are_refused(self):
        self.refused(troupe("launch", "--hosts-file", self.fifo("hosts"), "--",
                            "train", *DIGITS, "--strategy",
                            "multi_worker_mirrored"),
                     "--hosts-file ", "is not a regular file")

    def test_certificates_that_are_no_file_are_refused(self):
        certificates = self.path("certificates")
        made = troupe("certificates", "new", "worker:0", "--certificates",
                      certificates)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.fifo("certificates", "odd.pem")
        shown = troupe("certificates", "show", "--certificates", certificates)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn(b"odd.pem: no certificate\n", shown.stdout)
        self.assertIn(b"worker-0.pem: worker:0, from", shown.stdout)
        self.fifo("certificates", "revoked")
        self.refused(troupe("role", "coordinator", "--listen", "127.0.0.1:0",
                            "--certificates", certificates, *DIGITS,
                            "--strategy", "multi_worker_mirrored"),
                     "certificates: ", "revoked: is not a regular file")
        os.remove(os.path.join(certificates, "ca.pem"))
        self.fifo("certificates", "ca.pem")
        doctor = troupe("doctor", "--certificates", certificates)
        self.assertEqual(doctor.returncode, 1, doctor.stderr)
        self.assertIn(b"ca.pem: is not a regular file", doctor.stdout)

    # --- more than there is memory --------------------------------------------

    def test_a_file_that_inflates_without_end_is_refused_with_a_line(self):
        """1.5 GiB of zeros in 1.5 MB of gzip ended in std::bad_alloc."""
        blank = bytes(1 << 24)
        text = "{'descr': '|u1', 'fortran_order': False, 'shape': " \
               f"({3 * (1 << 19)}, 1024), }}".ljust(117) + "\n"
        with gzip.open(self.path("x.npy.gz"), "wb", 1) as file:
            file.write(b"\x93NUMPY\1\0" + struct.pack("<H", len(text))
                       + text.encode())
            for _ in range(96):
                file.write(blank)
        shutil.copy(self.path("x.npy.gz"), self.path("y.npy.gz"))
        with gzip.open(self.path("x.csv.gz"), "wb", 1) as file:
            for _ in range(24):
                file.write(b"1,0\n" * (1 << 22))
        npy = f"npy:{self.path('x.npy.gz')}?labels={self.path('y.npy.gz')}"
        for data in (npy, f"csv:{self.path('x.csv.gz')}?header=false"):
            with self.subTest(data=data[:3]):
                self.refused(
                    troupe("train", "--data", data, "--model", "mlp:1024-10",
                           "--steps", "1", "--in-process",
                           max_bytes=GIB), ".gz: ", "iB of memory",
                    "take a part")

    def test_a_model_beyond_the_memory_is_refused_with_a_line(self):
        """3.8 G parameters ended in std::bad_alloc, half-way."""
        for strategy in ("one_device", "parameter_server"):
            self.refused(
                troupe("train", "--data", "synthetic:digits?samples=64",
                       "--model", "mlp:784-1000000-3000-10", "--strategy",
                       strategy, "--steps", "1", "--in-process",
                       max_bytes=8 * GIB),
                "needs about", "iB of memory", "a smaller model")
        self.refused(
            troupe("role", "coordinator", "--listen", "127.0.0.1:0",
                   "--certificates", self.path("certificates"), "--strategy",
                   "parameter_server", "--data",
                   "synthetic:digits?samples=64", "--model",
                   "mlp:784-1000000-3000-10", "--steps", "1",
                   max_bytes=8 * GIB),
            "parameters", "iB of memory", "take a smaller model")


if __name__ == "__main__":
    unittest.main()
