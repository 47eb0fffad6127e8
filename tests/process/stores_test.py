"""Data at https:// and s3://: the same weights as from files, whoever computes
and dies, over a store that fails and is slow; what cannot be had is one line;
keys are written nowhere."""
# ctest: TIMEOUT 1200 COST 60 PROCESSORS 1

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from cluster import ENDLESS, Run, TROUPE, wait_for
from object_server import KEYS, Objects
import pictures
from pictures import GREY, IN_FILES, ONE

SAMPLES = 240
JOB = [*pictures.JOB, "--virtual-ranks", "4"]
SHORT = ["--steps", "24", "--quiet"]
SERVED = ["--strategy", "parameter_server", "--ps", "1", "--processes"]


def made_files():
    """{name: bytes} of the same samples; records in three files."""
    samples = pictures.drawn_samples(SAMPLES)
    table = "".join(",".join(str(x) for x in (*pixels, label)) + "\n"
                    for pixels, label in samples)
    return {**pictures.thirds(pictures.pixel_records(samples)),
            "pictures.tar": pictures.archive(samples),
            "table.csv": table.encode()}


def one_in_twenty(kinds):
    """Every twentieth request ends badly, a tenth of the others are late."""
    def fault(number, _):
        if number % 20 == 7:
            return kinds[number // 20 % len(kinds)]
        return "slow" if number % 10 == 3 else None
    return fault


class Stores(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.root)
        cls.files = made_files()
        for name, data in cls.files.items():
            with open(os.path.join(cls.root, name), "wb") as file:
                file.write(data)
        cls.expected = {
            kind: cls.weights(f"{kind}:{os.path.join(cls.root, name)}")
            for kind, name in (("tfrecord", "part-*.tfrecord"),
                               ("tar", "pictures.tar" + GREY),
                               ("csv", "table.csv?header=false"))}

    def setUp(self):
        self.folder = tempfile.mkdtemp(dir=self.root)
        self.environment = {"TROUPE_CACHE": os.path.join(self.folder, "cache"),
                            "HOME": self.folder}

    @classmethod
    def weights(cls, data, *more, environment=None):
        with Run(*JOB, *SHORT, "--data", data, *(more or ONE),
                 environment=environment) as run:
            summary = run.finish()
            assert run.error() == "", run.error()
        return summary["weights_sha256"]

    def train(self, data, *more, server=None):
        environment = {**self.environment,
                       **(server.environment if server else {})}
        return self.weights(data, *more, environment=environment)

    def path(self, name):
        return os.path.join(self.folder, name)

    def refused(self, data, *more, environment=None):
        """The one line, and how long it took."""
        begun = time.monotonic()
        done = subprocess.run(
            [TROUPE, "data", "info", "--data", data, *more], text=True,
            capture_output=True, timeout=90, check=False,
            env={**os.environ, **self.environment, **(environment or {})})
        self.assertIn(done.returncode, (1, 2), done.stdout)
        self.assertRegex(done.stderr, r"\Atroupe: [^\n]+\n\Z")
        return done.stderr, time.monotonic() - begun

    def http_list(self, server):
        path = self.path("list")
        with open(path, "w") as file:
            for i in range(3):
                file.write(f"{server.place}/part-{i}.tfrecord\n")
        return "@" + path

    def served(self, prefix="/", **options):
        return Objects({prefix + name: data
                        for name, data in self.files.items()}, **options)

    # --- the same samples -----------------------------------------------------

    def test_samples_over_http_are_those_of_the_files(self):
        with self.served() as server:
            places = {"tfrecord": self.http_list(server),
                      "tar": server.place + "/pictures.tar" + GREY,
                      "csv": server.place + "/table.csv?header=false"}
            for kind, place in places.items():
                with self.subTest(kind):
                    self.assertEqual(self.train(f"{kind}:{place}"),
                                     self.expected[kind])
                    if kind == "csv":
                        continue
                    for _ in range(2):  # found anew, then by the kept index
                        self.assertEqual(self.train(
                            f"{kind}:{place}", *ONE, *IN_FILES),
                            self.expected[kind])

    def test_samples_of_a_bucket_are_those_of_the_files(self):
        with self.served("/bucket/set a/", s3=True, page=2) as server:
            for kind, name in (("tfrecord", "part-*.tfrecord"),
                               ("tfrecord", "part-?.tf[a-r]ecord"),
                               ("tar", "pictures.tar" + GREY),
                               ("csv", "table.csv?header=false")):
                data = f"{kind}:s3://bucket/set a/{name}"
                data = data.replace("part-?", "part-%3F")
                with self.subTest(data):
                    self.assertEqual(self.train(data, server=server),
                                     self.expected[kind])
            self.assertGreater(len([x for x in server.requests("/bucket/")]),
                               2)  # a listing has several pages

    def test_all_objects_below_a_prefix_are_one_data_set(self):
        objects = {"/bucket/below/deeper/" + name: data
                   for name, data in self.files.items() if "part" in name}
        objects["/bucket/below/"] = b""  # some tools make such folders
        with Objects(objects, s3=True) as server:
            self.assertEqual(self.train("tfrecord:s3://bucket/below/",
                                        server=server),
                             self.expected["tfrecord"])

    def test_a_store_that_lists_tags_without_quotes_is_read(self):
        with self.served("/bucket/set/", s3=True, quotes="") as server:
            self.assertEqual(self.train(
                "tfrecord:s3://bucket/set/part-*.tfrecord", server=server),
                self.expected["tfrecord"])

    def test_a_folder_of_images_may_be_a_prefix(self):
        samples = sorted(enumerate(pictures.drawn_samples(SAMPLES)),
                         key=lambda x: x[1][1])
        objects = {}
        for i, (pixels, label) in samples:
            name = f"class{label}/{i:06}.png"
            objects["/bucket/set/" + name] = pictures.png(pixels)
            os.makedirs(self.path(f"set/class{label}"), exist_ok=True)
            with open(self.path("set/" + name), "wb") as file:
                file.write(objects["/bucket/set/" + name])
        with Objects(objects, s3=True, page=50) as server:
            keys = "?channels=1"
            expected = self.train(f"images:{self.path('set')}{keys}")
            for way in ((), IN_FILES):
                self.assertEqual(self.train(f"images:s3://bucket/set{keys}",
                                            *ONE, *way, server=server),
                                 expected)

    def test_packed_tables_and_held_out_samples_come_from_there_too(self):
        import gzip
        table = self.files["table.csv"]
        with Objects({"/t.csv.gz": gzip.compress(table)}) as server:
            place = f"csv:{server.place}/t.csv.gz?header=false"
            self.assertEqual(self.train(place), self.expected["csv"])
            self.assertEqual(self.train(place, *ONE, "--eval-data", place),
                             self.expected["csv"])
            info = subprocess.run(
                [TROUPE, "data", "info", "--data", place], check=True,
                capture_output=True, text=True).stdout
            self.assertIn(f"{SAMPLES} samples", info)

    # --- a store that fails ---------------------------------------------------

    def check_faulty(self, kind, place, server, workers, *more):
        with self.subTest(kind=kind, workers=workers):
            before = len(server.struck)
            self.assertEqual(
                self.train(f"{kind}:{place}", *SERVED, "--workers",
                           str(workers), *more, server=server),
                self.expected[kind])
            self.assertGreater(len(server.struck), before)

    def test_failures_and_delays_change_no_bit(self):
        faults = one_in_twenty(["503", "drop", "500", "drop"])
        with self.served("/bucket/", s3=True, faults=faults) as server:
            for workers in (1, 2, 3):
                self.check_faulty("tfrecord", "s3://bucket/part-*.tfrecord",
                                  server, workers, *IN_FILES)
                self.check_faulty("tar", "s3://bucket/pictures.tar" + GREY,
                                  server, workers, *IN_FILES)
        # A table is read in one piece, so that failures must come oftener.
        with self.served("/bucket/", s3=True, faults=lambda number, _: (
                "drop" if number % 3 == 1 else None)) as server:
            for workers in (1, 3):
                self.check_faulty("csv", "s3://bucket/table.csv?header=false",
                                  server, workers)

    def test_workers_that_are_killed_go_on_from_the_store(self):
        faults = one_in_twenty(["503", "drop"])
        with self.served("/bucket/", s3=True, faults=faults) as server:
            environment = {**self.environment, **server.environment}
            data = ["--data", "tfrecord:s3://bucket/part-*.tfrecord",
                    *IN_FILES, "--data-cache", self.path("blocks") + ":20M"]
            with Run(*JOB, *data, *SERVED, "--workers", "2", *ENDLESS,
                     "--metrics-address", "127.0.0.1:0",
                     environment=environment) as run:
                for kill in range(3):
                    run.wait_for_step(run.step() + 15)
                    run.kill_and_wait(f"worker:{kill % 2}", 2)
                summary = run.end()
            self.assertGreaterEqual(len(summary["recoveries"]), 3)
            with Run(*JOB, "--steps", str(summary["steps"]), "--epochs", "0",
                     "--quiet", "--data", "tfrecord:" + os.path.join(
                         self.root, "part-*.tfrecord"), *ONE) as run:
                self.assertEqual(run.finish()["weights_sha256"],
                                 summary["weights_sha256"])

    def test_an_object_that_changes_under_a_run_ends_it_in_one_line(self):
        with self.served() as server:
            for strategy in (ONE, [*SERVED, "--workers", "2"]):
                with self.subTest(strategy[1]), Run(
                        *JOB, "--data", f"tfrecord:{self.http_list(server)}",
                        "--steps", "1000000", *strategy, *IN_FILES,
                        "--metrics-address", "127.0.0.1:0",
                        environment=self.environment) as run:
                    run.wait_for_step(20)
                    old = server.objects["/part-1.tfrecord"]
                    server.objects["/part-1.tfrecord"] = old[:-1] + b"x"
                    run.finish(1)
                    # A worker that was started again finds what is there now.
                    self.assertRegex(
                        run.error().splitlines()[-1],
                        r"\Atroupe: .*/part-1\.tfrecord: (changed while|byte)")
                    server.objects["/part-1.tfrecord"] = old

    # --- what cannot be had ---------------------------------------------------

    def test_what_cannot_be_had_is_one_line(self):
        with self.served(faults=lambda _, path: (
                "refuse" if "private" in path else None)) as server:
            for name, words in (("none.csv", r"is not there \(404\)"),
                                ("private.csv", r"is refused \(403\).*signed")):
                line, _ = self.refused(f"csv:{server.place}/{name}")
                self.assertRegex(line, words)
                self.assertIn(f"{server.place}/{name}", line)
        line, spent = self.refused("csv:https://no-such-host.invalid/a.csv")
        self.assertRegex(line, r"no-such-host.invalid/a.csv: its host's name "
                         r"has no address, after 4 tries")
        self.assertLess(spent, 60)
        with socket.socket() as nobody:
            nobody.bind(("127.0.0.1", 0))
            port = nobody.getsockname()[1]
            line, _ = self.refused(f"csv:http://127.0.0.1:{port}/a.csv")
        self.assertIn("nobody answers there", line)

    def test_a_server_that_ignores_ranges_is_one_line(self):
        with self.served(ranges=False) as server:
            line, _ = self.refused(f"csv:{server.place}/table.csv")
            self.assertRegex(line, r"sends all of it when asked for a part; .*"
                             r"range requests")

    def test_a_server_that_never_does_it_is_given_up_in_time(self):
        for fault, words in (("drop", "ended the connection too early"),
                             ("503", r"is busy \(503\)"),
                             ("stall", "is too slow")):
            with self.subTest(fault), self.served(
                    faults=lambda number, _, fault=fault: (
                        fault if number > 0 else None)) as server:
                line, spent = self.refused(f"csv:{server.place}/table.csv",
                                           "--data-timeout", "3")
                self.assertRegex(line, words + r".*--data-timeout")
                self.assertLess(spent, 30)
                self.assertGreater(len(server.struck), 0)

    def test_a_certificate_that_nobody_vouches_for_is_one_line(self):
        made = subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes",
             "-days", "2", "-subj", "/CN=127.0.0.1", "-addext",
             "subjectAltName=IP:127.0.0.1", "-keyout", self.path("key.pem"),
             "-out", self.path("cert.pem")], capture_output=True, check=False)
        self.assertEqual(made.returncode, 0, made.stderr)
        with self.served(tls=(self.path("cert.pem"),
                              self.path("key.pem"))) as server:
            data = f"csv:{server.place}/table.csv?header=false"
            line, _ = self.refused(data)
            self.assertRegex(line, "certificate is not trusted.*CURL_CA_BUNDLE")
            self.environment["CURL_CA_BUNDLE"] = self.path("cert.pem")
            self.assertEqual(self.train(data), self.expected["csv"])

    def test_a_bucket_s_mistakes_are_one_line(self):
        with self.served("/bucket/", s3=True) as server:
            ours = server.environment
            data = "csv:s3://bucket/table.csv"
            line, _ = self.refused(data, environment={
                **ours, "AWS_SECRET_ACCESS_KEY": "other"})
            self.assertRegex(line, r"403 SignatureDoesNotMatch\); check what "
                             r"the keys may do")
            nothing = {"AWS_ENDPOINT_URL": server.place}
            line, _ = self.refused(data, environment=nothing)
            self.assertRegex(line, r"403.*no keys were found")
            line, _ = self.refused("csv:s3://bucket/none.csv",
                                   environment=ours)
            self.assertRegex(line, r"404 NoSuchKey")
            line, _ = self.refused("csv:s3://bucket/none-*.csv",
                                   environment=ours)
            self.assertIn("matches no object", line)
            line, _ = self.refused(data, environment={
                **nothing, "AWS_PROFILE": "none"})
            self.assertIn("AWS_PROFILE", line)

    # Symptom: a store that always has another page was asked 100,000 times.
    def test_a_listing_without_end_is_one_line(self):
        with self.served("/bucket/", s3=True, endless=True) as server:
            line, _ = self.refused("csv:s3://bucket/part-*.csv",
                                   environment=server.environment)
            self.assertIn("list of objects cannot be read", line)
            self.assertLess(len(server.requests()), 1100)

    # --- what is kept on this machine -----------------------------------------

    def test_what_was_read_once_comes_from_the_cache(self):
        with self.served("/bucket/", s3=True) as server:
            cache = self.path("blocks")
            way = [*ONE, *IN_FILES, "--data-cache", cache + ":20M"]
            data = "tfrecord:s3://bucket/part-*.tfrecord"
            fetched = []
            for _ in range(2):
                before = len(server.requests())
                self.assertEqual(self.train(data, *way, server=server),
                                 self.expected["tfrecord"])
                fetched.append([x for x in server.requests()[before:]
                                if x[0] != "/bucket/"])
            self.assertEqual(len(fetched[0]), 3)  # a block each
            self.assertEqual(fetched[1], [])
            self.damage(cache)
            self.assertEqual(self.train(data, *way, server=server),
                             self.expected["tfrecord"])
            # Another state of an object is another one.
            for name, old in list(server.objects.items()):
                if "part" in name:
                    server.objects[name] = old + old
            self.assertNotEqual(self.train(data, *way, server=server),
                                self.expected["tfrecord"])

    def test_what_stores_and_the_cache_do_is_counted(self):
        faults = lambda number, _: "503" if number % 4 == 1 else None
        with self.served("/bucket/", s3=True, faults=faults) as server, Run(
                *JOB, *SERVED, "--workers", "1", *IN_FILES, *ENDLESS,
                "--data", "tfrecord:s3://bucket/part-*.tfrecord",
                "--data-cache", self.path("blocks") + ":20M",
                environment={**self.environment,
                             **server.environment}) as run:
            run.wait_for_step(20)

            def of(name):
                return run.metric(f"troupe_{name}_total",
                                  r'[^}]*role="worker:0"[^}]*') or 0
            # The coordinator may have fetched the blocks, which are read here.
            wait_for(lambda: of("data_cache_hits") > 20 * 16,
                     "reads of the cache are counted")
            self.assertGreater(of("store_requests"), 0)
            self.assertGreater(of("store_retries"), 0)
            self.assertGreaterEqual(of("store_requests"),
                                    2 * of("store_retries"))
            self.assertEqual(of("data_cache_damaged"), 0)
            self.damage(self.path("blocks"))
            wait_for(lambda: of("data_cache_damaged") > 0,
                     "damaged blocks are counted")
            wait_for(lambda: of("store_bytes") > 0 and
                     of("data_cache_misses") > 0 and
                     of("store_wait_seconds") > 0,
                     "what comes from the store is counted")
            run.end()

    def test_a_store_alone_is_measured(self):
        with self.served() as server:
            path = self.path("rows.json")
            done = subprocess.run(
                [TROUPE, "bench", "data", "--data",
                 f"tfrecord:{self.http_list(server)}", "--data-memory", "1",
                 "--seconds", "1", "--threads", "1", "--json", path],
                capture_output=True, text=True, timeout=90,
                env={**os.environ, **self.environment})
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, r"(?m)^ +store \d+ requests, 0 of "
                             r"them again, .*; cache: 0 hits, 0 misses$")
            with open(path) as file:
                row, = json.load(file)
            self.assertGreater(row["store_requests"], 0)
            self.assertGreater(row["store_bytes"], 0)
            self.assertGreater(row["store_wait_seconds"], 0)

    def damage(self, cache):
        blocks = [os.path.join(place, name)
                  for place, _, names in os.walk(cache) for name in names
                  if name.endswith(".block")]
        self.assertEqual(len(blocks), 3)
        for block in blocks:
            with open(block, "r+b") as file:
                file.seek(9000)
                byte = file.read(1)
                file.seek(9000)
                file.write(bytes([byte[0] ^ 1]))

    def test_workers_of_a_host_share_the_cache(self):
        with self.served("/bucket/", s3=True) as server:
            cache = self.path("blocks")
            self.assertEqual(
                self.train("tfrecord:s3://bucket/part-*.tfrecord", *SERVED,
                           "--workers", "3", *IN_FILES, "--data-cache",
                           cache + ":20M", server=server),
                self.expected["tfrecord"])
            # Whoever came first: far fewer than a request a sample.
            self.assertLess(len(server.requests()), 60)
            used = sum(os.path.getsize(os.path.join(place, name))
                       for place, _, names in os.walk(cache)
                       for name in names)
            self.assertLess(used, 20 << 20)

    def test_a_cache_that_cannot_be_is_one_line(self):
        with open(self.path("file"), "w"):
            pass
        data = "csv:https://127.0.0.1:1/a.csv"
        os.mkdir(self.path("open"))
        os.chmod(self.path("open"), 0o777)
        for place, words in ((self.path("file") + ":20M", "cannot be used"),
                             (self.path("open") + ":20M", "others may write"),
                             (self.path("c") + ":1M", "16 blocks"),
                             ("c", "DIR:SIZE"), ("c:20X", "DIR:SIZE")):
            line, _ = self.refused(data, "--data-cache", place)
            self.assertIn(words, line)
        line, _ = self.refused("csv:" + os.path.join(self.root, "table.csv"),
                               "--data-cache", "c:20M")
        self.assertIn("has no effect with data of this machine", line)

    # --- secrets --------------------------------------------------------------

    def test_keys_are_written_nowhere(self):
        with self.served("/bucket/", s3=True) as server:
            environment = {**self.environment, **server.environment}
            with Run(*JOB, "--data", "tfrecord:s3://bucket/part-*.tfrecord",
                     *IN_FILES, *SERVED, "--workers", "2", *ENDLESS,
                     "--journal", self.path("run.db"), "--log-dir",
                     self.path("logs"), "--log-level", "debug",
                     "--checkpoint-dir", self.path("kept"),
                     "--checkpoint-every", "5", "--save",
                     self.path("w.safetensors"), "--data-cache",
                     self.path("blocks") + ":20M", "--metrics-address",
                     "127.0.0.1:0", environment=environment) as run:
                run.wait_for_step(15)
                run.kill_and_wait("worker:1", 2)
                run.wait_for_step(run.step() + 10)
                lines = []
                for pid in [run.process.pid, *run.children().values()]:
                    with open(f"/proc/{pid}/cmdline") as file:
                        lines.append(file.read())
                run.end()
                lines += [run.output(), run.error()]
            found = [self.files_with(self.folder, secret)
                     for secret in KEYS]
            self.assertEqual(found, [[], [], []])
            self.assertGreater(len(os.listdir(self.path("kept"))), 0)
            self.assertGreater(len(os.listdir(self.path("logs"))), 0)
            for line in lines:
                for secret in KEYS:
                    self.assertNotIn(secret, line)

    def files_with(self, folder, secret):
        found = []
        for place, _, names in os.walk(folder):
            for name in names:
                with open(os.path.join(place, name), "rb") as file:
                    if secret.encode() in file.read():
                        found.append(name)
        return found

    def test_a_url_with_a_secret_stands_in_a_list_and_is_not_shown(self):
        with self.served() as server:
            secret = "X-Amz-Signature=hush"
            line, _ = self.refused(f"csv:{server.place}/table.csv?{secret}")
            self.assertNotIn("hush", line)
            line, _ = self.refused(f"csv:{server.place}/table.csv%3F{secret}")
            self.assertNotIn("hush", line)
            self.assertIn("@FILE", line)
            line, _ = self.refused(
                "csv:http://me:hush@127.0.0.1/table.csv")
            self.assertNotIn("hush", line)
            with open(self.path("list"), "w") as file:
                file.write(f"{server.place}/table.csv?{secret}\n")
            data = f"csv:@{self.path('list')}?header=false"
            self.assertEqual(self.train(data), self.expected["csv"])
            server.objects.clear()
            line, _ = self.refused(data)
            self.assertIn("table.csv: is not there", line)
            self.assertNotIn("hush", line)


@unittest.skipUnless(shutil.which("nginx"), "nginx is not installed")
class Nginx(unittest.TestCase):
    """The same over a server that others wrote."""

    def test_samples_over_nginx_are_those_of_the_files(self):
        root = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, root)
        os.chmod(root, 0o755)
        os.mkdir(os.path.join(root, "files"))
        files = made_files()
        for name, data in files.items():
            with open(os.path.join(root, "files", name), "wb") as file:
                file.write(data)
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
        with open(os.path.join(root, "nginx.conf"), "w") as file:
            file.write(f"""
daemon off; worker_processes 1; pid {root}/pid; error_log {root}/error;
events {{ worker_connections 256; }}
http {{ access_log off; client_body_temp_path {root}/b;
  proxy_temp_path {root}/p; fastcgi_temp_path {root}/f;
  uwsgi_temp_path {root}/u; scgi_temp_path {root}/s;
  server {{ listen 127.0.0.1:{port}; root {root}/files; }} }}
""")
        nginx = subprocess.Popen(["nginx", "-c", os.path.join(
            root, "nginx.conf"), "-e", os.path.join(root, "error")])
        self.addCleanup(lambda: (nginx.send_signal(signal.SIGTERM),
                                 nginx.wait(10)))

        def answers():
            with socket.socket() as attempt:
                return attempt.connect_ex(("127.0.0.1", port)) == 0
        wait_for(answers, "nginx")
        place = f"http://127.0.0.1:{port}"
        with open(os.path.join(root, "list"), "w") as file:
            for i in range(3):
                file.write(f"{place}/part-{i}.tfrecord\n")
        environment = {"TROUPE_CACHE": os.path.join(root, "cache")}
        for kind, name, there in (
                ("tfrecord", "part-*.tfrecord", "@" + root + "/list"),
                ("tar", "pictures.tar" + GREY, f"{place}/pictures.tar{GREY}"),
                ("csv", "table.csv?header=false",
                 f"{place}/table.csv?header=false")):
            with self.subTest(kind):
                expected = Stores.weights(f"{kind}:{root}/files/{name}")
                for way in ((), () if kind == "csv" else IN_FILES):
                    self.assertEqual(Stores.weights(
                        f"{kind}:{there}", *ONE, *way,
                        environment=environment), expected)
        line = subprocess.run(
            [TROUPE, "data", "info", "--data", f"csv:{place}/none.csv"],
            capture_output=True, text=True, check=False).stderr
        self.assertRegex(line, r"\Atroupe: .*none\.csv: is not there \(404\); ")


if __name__ == "__main__":
    unittest.main()
