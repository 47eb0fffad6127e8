# ctest: TIMEOUT 1200
"""Debian's Prometheus scrapes a real run and answers for it.

Asks for every metric of monitoring/names.hpp and for every query of the
Grafana dashboard. TROUPE is the program under test; TROUPE_SOURCE the
repository, by default the one this file lies in.
"""

import http
import json
import math
import os
import queue
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

SOURCE = Path(os.environ.get("TROUPE_SOURCE",
                             Path(__file__).resolve().parents[2]))
MONITORING = SOURCE / "monitoring"
# From the start of the run until all it must show has been seen; what is
# still missing then is told quickly, one by one.
DEADLINE_S = 150
GRACE_S = 2

COORDINATOR = {"coordinator"}
WORKERS = {"worker:0", "worker:1"}
SHARDS = {"ps:0", "ps:1"}
ANY = set()

# The roles that must show a metric in an undisturbed synchronous run.
EXPECTED = {
    "troupe_steps_committed_total": COORDINATOR,
    "troupe_samples_committed_total": COORDINATOR,
    "troupe_data_epoch": COORDINATOR,
    "troupe_training_loss": COORDINATOR,
    "troupe_evaluation_loss": COORDINATOR,
    "troupe_evaluation_accuracy": COORDINATOR,
    "troupe_last_commit_timestamp_seconds": COORDINATOR,
    "troupe_checkpoints_total": COORDINATOR,
    "troupe_checkpoint_duration_seconds": COORDINATOR,
    "troupe_checkpoint_bytes": COORDINATOR,
    "troupe_checkpoint_step": COORDINATOR,
    "troupe_checkpoint_timestamp_seconds": COORDINATOR,
    "troupe_checkpoint_under_way_seconds": COORDINATOR,
    "troupe_step_duration_seconds": COORDINATOR,
    "troupe_compute_duration_seconds": WORKERS,
    "troupe_push_duration_seconds": WORKERS,
    "troupe_pull_duration_seconds": WORKERS,
    "troupe_pushed_bytes_total": WORKERS,
    "troupe_pulled_bytes_total": WORKERS,
    "troupe_gradients_computed_twice_total": WORKERS,
    "troupe_executor_queue_tasks": WORKERS,
    "troupe_data_wait_seconds": WORKERS,
    "troupe_decode_seconds": WORKERS,
    "troupe_push_staleness_steps": SHARDS,
    "troupe_pushes_too_stale_total": SHARDS,
    "troupe_late_pushes_dropped_total": SHARDS,
    "troupe_pending_nodes": SHARDS,
    "troupe_duplicates_dropped_total": SHARDS,
    "troupe_chain_slices": SHARDS,
    "troupe_chain_forwarded_bytes_total": SHARDS,
    "troupe_chain_copied_bytes_total": SHARDS,
    "troupe_shard_busy_seconds_total": SHARDS,
    "troupe_epoch_pause_seconds": WORKERS | SHARDS,
    "troupe_link_carrier": WORKERS | SHARDS,
    "troupe_link_sent_bytes_total": WORKERS | SHARDS,
    "troupe_link_received_bytes_total": WORKERS | SHARDS,
    "troupe_link_queued_bytes": WORKERS | SHARDS,
    "troupe_link_messages_dropped_total": WORKERS | SHARDS,
    "troupe_restarts_total": ANY,
    "troupe_supervised": COORDINATOR,
    "troupe_restarts_left": COORDINATOR,
    "troupe_restarts_allowed": COORDINATOR,
    "troupe_step_age_seconds": COORDINATOR,
    "troupe_membership_epoch": ANY,
    "troupe_members": COORDINATOR,
    "troupe_loss_seconds": COORDINATOR,
    "troupe_leaves_recomputed_total": ANY,
    "troupe_steps": COORDINATOR,
    "process_cpu_seconds_total": COORDINATOR | WORKERS | SHARDS,
    "process_resident_memory_bytes": COORDINATOR | WORKERS | SHARDS,
    "troupe_metrics_conflicts_total": {"exporter"},
    "troupe_metrics_dropped_total": {"exporter"},
}
# Its label `kind` is not known before something failed; measures of other
# kinds of labels.
WITHOUT_FAULT_ABSENT = {"troupe_recoveries_total", "troupe_evaluation_auc",
                        "troupe_evaluation_perplexity", "troupe_waits_for",
                        "troupe_left_out"}
# A parameter server has no replicas; replicas_test.py looks at theirs.
OF_REPLICAS = {"troupe_all_reduce_wait_seconds",
               "troupe_all_reduce_bytes_total"}
# Its workers read for themselves; readers_test.py looks at readers.
OF_READERS = {"troupe_reader_samples_total", "troupe_reader_bytes_total",
              "troupe_reader_requests", "troupe_read_duration_seconds"}
# Nor do they ask stores; stores_test.py looks at those.
OF_STORES = {"troupe_store_requests_total", "troupe_store_retries_total",
             "troupe_store_bytes_total", "troupe_store_wait_seconds_total",
             "troupe_data_cache_hits_total", "troupe_data_cache_misses_total",
             "troupe_data_cache_damaged_total"}
# On one host links are in memory; culprit_test.py looks at those over TCP.
OF_CABLES = {"troupe_link_delivered_bytes_total",
             "troupe_link_busy_seconds_total", "troupe_link_stalled_seconds"}
OF_STAGES = {"troupe_receive_wait_seconds"}
WITHOUT_FAULT_ABSENT |= (OF_REPLICAS | OF_READERS | OF_STORES | OF_CABLES
                         | OF_STAGES)

CAF_EXPECTED = {
    "caf_system_running_actors": COORDINATOR | WORKERS | SHARDS,
    "caf_system_processed_messages_total": COORDINATOR | WORKERS | SHARDS,
    "caf_system_rejected_messages_total": COORDINATOR | WORKERS | SHARDS,
}

# Queries of the dashboard that find nothing in an undisturbed run of classes.
EMPTY_WITHOUT_FAULT = {"Recoveries", "Membership changes", "AUC", "Perplexity",
                       "Wait for sums by replica (p50)",
                       "Gradients between replicas", "Pause of epoch changes (p99)", "Who waits for whom",
                       "Samples read by readers", "Bytes served by readers",
                       "Reading a request (p99)", "Busy readers",
                       "Requests that wait for a reader",
                       "Requests to stores", "Bytes from stores",
                       "Waiting for stores", "Hits of the data cache",
                       "Pace of TCP links", "Busy TCP links",
                       "Stalled TCP links", "Wait for other stages (p50)"}


def listed_metrics():
    """Name -> kind, of names.hpp and its like."""
    text = "".join(file.read_text() for file in MONITORING.glob("*names.hpp"))
    found = re.findall(r'MetricSample::Kind::(\w+),\s*"(\w+)"', text)
    return {name: kind for kind, name in found}


def dashboard():
    return json.loads((MONITORING / "grafana" / "troupe.json").read_text())


def dashboard_queries():
    """(title, PromQL with variables substituted) of all that Grafana asks."""
    out = []

    def visit(node, title):
        if isinstance(node, dict):
            title = node.get("title") or node.get("name") or title
            if isinstance(node.get("expr"), str):
                out.append((title, node["expr"]))
            for child in node.values():
                visit(child, title)
        elif isinstance(node, list):
            for child in node:
                visit(child, title)

    board = dashboard()
    visit(board["panels"], "")
    visit(board["annotations"], "")
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            call = re.fullmatch(r"label_values\((.+), (\w+)\)",
                                variable["query"]["query"])
            out.append((variable["name"],
                        f"count by ({call[2]}) ({call[1]})"))
    return [(title, substituted(expression)) for title, expression in out]


def substituted(expression):
    for variable, value in (("$__rate_interval", "10s"), ("$instance", ".*"),
                            ("$role", ".*")):
        expression = expression.replace(variable, value)
    return expression


def metrics_of(expression):
    """Metric names of a query, those of a histogram without suffix."""
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in
            re.findall(r"\b(?:troupe|caf|process)_\w+", expression)}


def program(name):
    path = shutil.which(name)
    if path is None:
        raise AssertionError(f"{name} is missing: apt-get install prometheus")
    return path


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Process:
    """A child whose output is kept; it does not outlive the test."""

    def __init__(self, command, cwd):
        self.command = command
        self.output = []
        self._lines = queue.Queue()
        self.child = subprocess.Popen(
            command, cwd=cwd, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", start_new_session=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        with self.child.stdout as stream:
            for line in stream:
                self.output.append(line)
                self._lines.put(line)
        self._lines.put(None)

    def wait_for_line(self, pattern, deadline_s):
        end = time.monotonic() + deadline_s
        while True:
            try:
                line = self._lines.get(
                    timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                line = None
            if line is None:
                raise AssertionError(f"no line like {pattern!r} from "
                                     + self.describe())
            if found := re.search(pattern, line):
                return found

    def describe(self):
        return " ".join(map(str, self.command)) + ":\n" + "".join(
            self.output[-40:])

    def stop(self):
        if self.child.poll() is None:
            self.child.terminate()
            try:
                self.child.wait(10)
            except subprocess.TimeoutExpired:
                pass
        try:
            os.killpg(self.child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.child.wait()


class Prometheus(Process):
    def __init__(self, target, folder):
        config = Path(folder) / "prometheus.yml"
        config.write_text(json.dumps({  # JSON is YAML
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(MONITORING / "prometheus" / "rules.yml")],
            "scrape_configs": [{
                "job_name": "troupe",
                "static_configs": [{"targets": [target]}]}],
        }))
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        super().__init__(
            [program("prometheus"), f"--config.file={config}",
             f"--storage.tsdb.path={folder}/data",
             f"--web.listen-address=127.0.0.1:{port}"], folder)

    def api(self, path, **parameters):
        body = urllib.parse.urlencode(parameters).encode()
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/{path}",
                                        data=body if parameters else None,
                                        timeout=10) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            if error.code == http.HTTPStatus.SERVICE_UNAVAILABLE:
                raise  # it starts
            raise AssertionError(
                f"{parameters}: {error.read().decode()}") from error

    def query(self, expression):
        """[(labels, value)]; a query that does not evaluate is a failure."""
        data = self.api("query", query=expression)
        return [(series["metric"], float(series["value"][1]))
                for series in data["result"]]

    def target(self):
        """The one target, or None while Prometheus starts."""
        try:
            targets = self.api("targets")["activeTargets"]
        except OSError:
            return None
        return targets[0] if targets else None


class DashboardTest(unittest.TestCase):
    def test_every_query_uses_listed_metrics_only(self):
        known = set(listed_metrics()) | set(CAF_EXPECTED)
        queries = dashboard_queries()
        self.assertGreater(len(queries), 30)
        for title, expression in queries:
            with self.subTest(title=title, expression=expression):
                self.assertNotIn("$", expression)
                self.assertTrue(metrics_of(expression)
                                or "__name__" in expression)
                self.assertLessEqual(metrics_of(expression), known)

    def test_every_listed_metric_is_on_the_dashboard(self):
        shown = set()
        for _, expression in dashboard_queries():
            shown |= metrics_of(expression)
        self.assertEqual(set(listed_metrics()) - shown, set())

    def test_panels_do_not_overlap_and_use_the_chosen_source(self):
        board = dashboard()
        self.assertGreaterEqual(board["schemaVersion"], 36)
        self.assertIn("role",
                      [v["name"] for v in board["templating"]["list"]])
        identities = [panel["id"] for panel in board["panels"]]
        self.assertEqual(len(identities), len(set(identities)))
        taken = {}
        for panel in board["panels"]:
            at = panel["gridPos"]
            self.assertLessEqual(at["x"] + at["w"], 24, panel["title"])
            for x in range(at["x"], at["x"] + at["w"]):
                for y in range(at["y"], at["y"] + at["h"]):
                    other = taken.setdefault((x, y), panel["title"])
                    self.assertEqual(other, panel["title"])
            for target in panel.get("targets", []):
                self.assertEqual(target["datasource"]["uid"],
                                 "${DS_PROMETHEUS}")

    def test_exceptions_name_queries_that_exist(self):
        titles = {title for title, _ in dashboard_queries()}
        self.assertLessEqual(EMPTY_WITHOUT_FAULT, titles)

    def test_expectations_cover_the_list(self):
        self.assertEqual(set(EXPECTED) | WITHOUT_FAULT_ABSENT,
                         set(listed_metrics()))


class RulesTest(unittest.TestCase):
    def promtool(self, *arguments):
        done = subprocess.run([program("promtool"), *map(str, arguments)],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_promtool_accepts_the_example_configuration_and_its_rules(self):
        self.promtool("check", "config",
                      MONITORING / "prometheus" / "prometheus.yml")

    def test_alerts_fire_when_they_should_and_only_then(self):
        self.promtool("test", "rules",
                      MONITORING / "prometheus" / "rules_test.yml")

    def test_rules_use_listed_metrics_only(self):
        text = (MONITORING / "prometheus" / "rules.yml").read_text()
        self.assertLessEqual(metrics_of(text), set(listed_metrics()))


class RunTest(unittest.TestCase):
    """One run and one Prometheus, shared by the tests below."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="troupe-prometheus-")
        cls.addClassCleanup(folder.cleanup)
        cls.end = time.monotonic() + DEADLINE_S
        # More epochs than the test lasts: it ends the run itself.
        cls.run_ = Process(
            [os.environ["TROUPE"], "train",
             "--strategy", "parameter_server", "--workers", "2", "--ps", "2",
             "--processes", "--data", "synthetic:digits?samples=20000",
             "--eval-fraction", "0.1", "--epochs", "1000", "--no-color",
             "--checkpoint-dir", "kept", "--checkpoint-every", "50"],
            folder.name)
        cls.addClassCleanup(cls.run_.stop)
        found = cls.run_.wait_for_line(
            r"metrics: http://(127\.0\.0\.1:\d+)/metrics", DEADLINE_S)
        cls.address = found[1]
        cls.prometheus = Prometheus(cls.address, folder.name)
        cls.addClassCleanup(cls.prometheus.stop)
        cls.wait_until("the target to be up", lambda: (
            (cls.prometheus.target() or {}).get("health") == "up"))

    @classmethod
    def wait_until(cls, what, condition, seen=()):
        """Polls; explains what the run and Prometheus said if in vain."""
        end = max(cls.end, time.monotonic() + GRACE_S)
        while not (value := condition()):
            ended = [p for p in (cls.run_, cls.prometheus)
                     if p.child.poll() is not None]
            if ended or time.monotonic() > end:
                raise AssertionError(
                    f"waited in vain for {what}; seen: {sorted(seen)}\n"
                    + "".join(f"ended: {p.command[0]}\n" for p in ended)
                    + f"target: {cls.prometheus.target()}\n"
                    + cls.run_.describe() + cls.prometheus.describe())
            time.sleep(0.25)
        return value

    def wait_for_roles(self, metric, roles):
        def arrived():
            found = {labels.get("role", "")
                     for labels, _ in self.prometheus.query(metric)}
            seen.update(found)
            return found and roles <= found and "" not in found

        seen = set()
        self.wait_until(f"{metric} of {sorted(roles) or 'any role'}",
                        arrived, seen)

    def test_every_listed_metric_arrives_from_its_roles(self):
        kinds = listed_metrics()
        for metric, roles in EXPECTED.items():
            with self.subTest(metric=metric):
                histogram = kinds[metric] == "histogram"
                self.wait_for_roles(metric + "_count" * histogram, roles)

    def test_the_metrics_of_caf_arrive_from_every_process(self):
        for metric, roles in CAF_EXPECTED.items():
            with self.subTest(metric=metric):
                self.wait_for_roles(metric, roles)

    def test_steps_advance_between_two_scrapes(self):
        def steps():
            return sum(value for _, value in self.prometheus.query(
                "troupe_steps_committed_total"))

        first = self.wait_until("a step", steps)
        self.wait_until(f"more than {first:.0f} steps",
                        lambda: steps() > first)

    def test_types_and_help_are_those_of_the_list(self):
        def metadata():
            answer = self.prometheus.api(
                "targets/metadata?match_target=" + urllib.parse.quote(
                    '{job="troupe"}'))
            return {entry["metric"]: entry for entry in answer}

        for metric, kind in listed_metrics().items():
            if metric in WITHOUT_FAULT_ABSENT:
                continue
            with self.subTest(metric=metric):
                entry = self.wait_until(
                    f"metadata of {metric}",
                    lambda name=metric: metadata().get(name))
                self.assertEqual(entry["type"], kind)
                self.assertTrue(entry["help"])

    def test_no_series_is_refused(self):
        self.wait_until("the exporter's own counters", lambda: (
            self.prometheus.query("troupe_metrics_dropped_total")))
        for labels, value in self.prometheus.query(
                "troupe_metrics_conflicts_total or "
                "troupe_metrics_dropped_total"):
            self.assertEqual(value, 0, labels)
        self.assertNotIn("Error on ingest", "".join(self.prometheus.output))

    def test_every_query_of_the_dashboard_evaluates_and_has_data(self):
        def has_data(expression):
            return any(not math.isnan(value) for _, value in
                       self.prometheus.query(expression))

        for title, expression in dashboard_queries():
            with self.subTest(title=title, expression=expression):
                if title in EMPTY_WITHOUT_FAULT:
                    self.prometheus.query(expression)
                else:
                    self.wait_until(f"{title!r}: {expression}",
                                    lambda e=expression: has_data(e))

    def test_rules_are_healthy_and_no_alert_fires(self):
        def rules():
            groups = self.prometheus.api("rules")["groups"]
            found = [rule for group in groups for rule in group["rules"]]
            return found if found and all(
                rule["health"] != "unknown" for rule in found) else None

        for rule in self.wait_until("the rules", rules):
            self.assertEqual(rule["health"], "ok", rule)
            self.assertEqual(rule["state"], "inactive", rule)

    def test_zz_ctrl_c_ends_the_run_and_its_metrics(self):
        """Runs last: unittest goes by name."""
        self.run_.child.send_signal(signal.SIGINT)
        try:
            status = self.run_.child.wait(30)
        except subprocess.TimeoutExpired:
            self.fail("still alive: " + self.run_.describe())
        self.assertEqual(status, 130, self.run_.describe())
        host, port = self.address.split(":")
        with self.assertRaises(ConnectionRefusedError):
            socket.create_connection((host, int(port)), 5).close()


if __name__ == "__main__":
    unittest.main()
