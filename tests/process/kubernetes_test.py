"""`troupe launch --kubernetes`: the objects that it prints fit together, and the
commands of their pods, run as they stand with each pod an address of this
machine, train to the bits of one device. What a pod sees at a path (/secret,
/kept, …) is a folder here; what the cluster puts into a pod's environment is put
there."""
# ctest: TIMEOUT 600 COST 20

import os
import re
import shlex
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
import unittest

from cluster import DEADLINE_S, TROUPE, Run, troupe, wait_for
from own_folder import OwnFolder

try:
    import yaml
except ImportError:
    print("needs python3-yaml")
    raise SystemExit(77) from None

DIGITS = ["--data", "synthetic:digits?samples=2000", "--model", "mlp:784-48-10",
          "--seed", "7", "--epochs", "2"]
JOBS = {
    "served": ["--strategy", "parameter_server", "--workers", "2", "--ps", "2"],
    "replicas": ["--strategy", "multi_worker_mirrored", "--workers", "2"],
    "stages": ["--strategy", "pipeline", "--stages", "2"],
    "shared": ["--strategy", "fully_sharded", "--workers", "2"]}
NAME = "job"
# What custom resource definition podmonitors.monitoring.coreos.com (of operator
# 0.91.0, and 0.93.0) says of the fields that are used here: of an object its fields, with *
# those that it must have; of a list what is in it; of a text its pattern.
DURATION = (r"(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?"
            r"(([0-9]+)s)?(([0-9]+)ms)?)")
KEY_OF_SECRET = {"key*": ".*", "name": ".*"}
POD_MONITOR = {
    "apiVersion": r"monitoring\.coreos\.com/v1", "kind": "PodMonitor",
    "metadata": {"name": ".*", "namespace": ".*", "labels": {"": ".*"}},
    "spec*": {
        "selector*": {"matchLabels": {"": ".*"}},
        "podMetricsEndpoints": [{
            "port": ".*", "scheme": "http|https|HTTP|HTTPS",
            "interval": DURATION,
            "authorization": {"credentials": KEY_OF_SECRET, "type": ".*"},
            "tlsConfig": {"ca": {"secret": KEY_OF_SECRET}, "serverName": ".*"},
        }]}}


def misfits(value, rule, place="it"):
    """Where a value is not as a rule has it, which is written as above."""
    if isinstance(rule, str):
        if not isinstance(value, str) or not re.fullmatch(rule, value):
            yield f"{place} is {value!r}"
    elif isinstance(rule, list):
        for i, one in enumerate(value if isinstance(value, list) else [None]):
            yield from misfits(one, rule[0], f"{place}[{i}]")
    elif not isinstance(value, dict):
        yield f"{place} is no object"
    else:
        fields = {name.rstrip("*"): of for name, of in rule.items()}
        for name in rule:
            if name.endswith("*") and name[:-1] not in value:
                yield f"{place} has no {name[:-1]}"
        for name, one in value.items():
            if name in fields or "" in fields:
                yield from misfits(one, fields.get(name, fields.get("")),
                                   f"{place}.{name}")
            else:
                yield f"{place} has a field {name}"


def manifest(*job, flags=()):
    text = troupe("launch", "--kubernetes", "--name", NAME, *flags, "--",
                  "train", *job)
    return text, list(yaml.safe_load_all(text))


def by_kind(objects, kind):
    return {x["metadata"]["name"]: x for x in objects if x["kind"] == kind}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Pod:
    """A pod of an indexed Job: its containers' commands as processes here."""

    def __init__(self, folder, job, index, secrets, ports):
        self.spec = job["spec"]["template"]["spec"]
        self.name = f"{job['metadata']['name']}-{index}"
        self.folder = os.path.join(folder, self.name)
        self.index = index
        self.ports = ports
        self.kept = os.path.join(folder, "kept")
        os.makedirs(self.kept, exist_ok=True)
        os.mkdir(self.folder)
        for volume in self.spec["volumes"]:
            if "emptyDir" in volume:
                os.mkdir(self.path(volume["name"]))
            elif "secret" in volume:
                os.mkdir(self.path("secret"))
                files = secrets[volume["secret"]["secretName"]]["stringData"]
                for name, text in files.items():
                    with open(self.path("secret", name), "w") as file:
                        file.write(text)
        self.process = None

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def here(self, text, container):
        """What stands for a path, a port and a host of the cluster."""
        places = {x["mountPath"]: self.kept if x["name"] == "kept"
                  else self.path(x["name"]) for x in container["volumeMounts"]}
        paths = "|".join(map(re.escape, sorted(places, key=len, reverse=True)))
        host = rf"\b{NAME}-coordinator-0\.{NAME}\b"

        def one(found):
            if found["path"]:
                return places[found["path"]]
            return "localhost" if found["host"] \
                else str(self.ports[int(found["port"])])
        return re.sub(rf"(?<![\w/])(?P<path>{paths})(?![\w-])|(?P<host>{host})"
                      r"|\b(?P<port>7000|9400)\b", one, text)

    def environment(self, container):
        """Its variables; a field of the pod is what the cluster would say."""
        fields = {
            "metadata.annotations['batch.kubernetes.io/job-completion-index']":
                str(self.index),
            "metadata.labels['batch.kubernetes.io/controller-uid']": "run-1"}
        out = {}
        for one in container["env"]:
            out[one["name"]] = one["value"] if "value" in one else fields[
                one["valueFrom"]["fieldRef"]["fieldPath"]]
        return out

    def words(self, container):
        """As kubelet expands them: $(NAME), and $$ for a dollar sign."""
        own = self.environment(container)
        return [self.here(re.sub(
            r"\$\$|\$\((\w+)\)",
            lambda x: own[x.group(1)] if x.group(1) else "$", word), container)
            for word in container["command"] + container.get("args", [])]

    def prepare(self):
        for container in self.spec["initContainers"]:
            done = subprocess.run(
                self.words(container), env={
                    "PATH": os.environ["PATH"], **self.environment(container)},
                capture_output=True, text=True, timeout=DEADLINE_S, check=False)
            assert done.returncode == 0, done.stderr

    def start(self):
        container, = self.spec["containers"]
        words = self.words(container)
        assert words[0] == "troupe", words
        with open(self.path("output"), "w") as output:
            self.process = subprocess.Popen(
                [os.path.realpath(TROUPE), *words[1:]],
                cwd=self.here(container["workingDir"], container),
                env={"PATH": os.environ["PATH"], **self.environment(container)},
                stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT)

    def probe(self, name):
        """Whether a probe by a command passes."""
        container, = self.spec["containers"]
        words = [self.here(x, container) for x in
                 container[name]["exec"]["command"]]
        words = [re.sub(r"/proc/1/", f"/proc/{self.process.pid}/", x)
                 for x in words]
        if words[0] == "troupe":
            words[0] = os.path.realpath(TROUPE)
        return subprocess.run(words, capture_output=True, timeout=DEADLINE_S,
                              check=False).returncode == 0

    def output(self):
        with open(self.path("output")) as file:
            return file.read()

    def stop(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def finish(self):
        status = self.process.wait(DEADLINE_S)
        assert status == 0, f"{self.name}: {status}: {self.output()}"


class Kubernetes(OwnFolder):
    def pods(self, objects):
        secrets = by_kind(objects, "Secret")
        ports = {7000: free_port(), 9400: free_port()}
        pods = []
        for job in by_kind(objects, "Job").values():
            for index in range(job["spec"]["completions"]):
                pods.append(Pod(self.folder, job, index, secrets, ports))
                self.addCleanup(pods[-1].stop)
                pods[-1].prepare()
        self.assertEqual(pods[0].name, f"{NAME}-coordinator-0")
        return pods

    def test_the_commands_of_the_pods_train(self):
        with Run(*DIGITS, "--strategy", "one_device") as run:
            expected = run.finish()["weights_sha256"]
        for way, flags in JOBS.items():
            with self.subTest(way=way), tempfile.TemporaryDirectory() as folder:
                self.folder = folder
                _, objects = manifest(*DIGITS, *flags, "--summary",
                                      "summary$(HOME).json", "--checkpoint-dir",
                                      "checkpoints")
                pods = self.pods(objects)
                for pod in reversed(pods):  # the coordinator comes last
                    pod.start()
                for pod in pods:
                    pod.finish()
                kept = os.listdir(pods[0].kept)
                self.assertIn("summary$(HOME).json", kept)
                self.assertIn("journal-run-1.db", kept)
                with open(f"{pods[0].kept}/summary$(HOME).json") as file:
                    self.assertIn(f'"{expected}"', file.read())
                self.assertTrue(os.listdir(f"{pods[0].kept}/checkpoints"))

    def test_probes_pass_in_pods_that_live_and_fail_in_one_that_stands(self):
        _, objects = manifest(*DIGITS[:-1], "0", "--steps", "100000000",
                              *JOBS["replicas"])
        pods = self.pods(objects)
        for pod in pods:
            pod.start()
        wait_for(lambda: "epoch 1 " in pods[0].output(), "a data epoch")
        container, = pods[0].spec["containers"]
        for name in ("startupProbe", "readinessProbe"):
            self.assertEqual(container[name]["tcpSocket"]["port"],
                             container["ports"][0]["containerPort"])
        socket.create_connection(("127.0.0.1", pods[0].ports[7000]), 10).close()
        self.assertTrue(pods[0].probe("livenessProbe"))
        worker = pods[1]
        for _ in range(3):  # its threads have run in between
            self.assertTrue(worker.probe("livenessProbe"))
            time.sleep(1)
        worker.process.send_signal(signal.SIGSTOP)
        wait_for(lambda: not worker.probe("livenessProbe"), "a probe that fails")
        worker.process.send_signal(signal.SIGCONT)
        pods[0].process.send_signal(signal.SIGTERM)
        self.assertEqual(pods[0].process.wait(DEADLINE_S), 143,
                         pods[0].output())

    def test_the_objects_fit_together(self):
        text, objects = manifest(
            *DIGITS, *JOBS["served"], "--threads-per-device", "3",
            flags=["--namespace", "team", "--image", "example/troupe:1",
                   "--claim", "mnist:/data", "--storage", "5Gi"])
        kinds = {x["kind"] for x in objects}
        self.assertEqual(kinds, {"Secret", "PersistentVolumeClaim", "Service",
                                 "Job", "PodMonitor"})
        claims = by_kind(objects, "PersistentVolumeClaim")
        secrets = by_kind(objects, "Secret")
        service, = by_kind(objects, "Service").values()
        self.assertEqual(service["spec"]["clusterIP"], "None")
        self.assertTrue(service["spec"]["publishNotReadyAddresses"])
        jobs = by_kind(objects, "Job")
        self.assertEqual({x: y["spec"]["completions"] for x, y in jobs.items()},
                         {f"{NAME}-coordinator": 1, f"{NAME}-worker": 2,
                          f"{NAME}-ps": 2})
        for one in objects:
            self.assertEqual(one["metadata"]["namespace"], "team")
        for job in jobs.values():
            template = job["spec"]["template"]
            pod, labels = template["spec"], template["metadata"]["labels"]
            self.assertEqual(job["spec"]["completionMode"], "Indexed")
            self.assertEqual(pod["subdomain"], service["metadata"]["name"])
            self.assertEqual(labels, {**labels, **service["spec"]["selector"]})
            volumes = {x["name"]: x for x in pod["volumes"]}
            self.assertIn(volumes["secret"]["secret"]["secretName"], secrets)
            for volume in volumes.values():
                claim = volume.get("persistentVolumeClaim", {}).get("claimName")
                self.assertIn(claim, [None, "mnist", *claims])
            self.assertTrue(pod["securityContext"]["runAsNonRoot"])
            self.assertGreater(pod["securityContext"]["runAsUser"], 0)
            for container in pod["initContainers"] + pod["containers"]:
                security = container["securityContext"]
                self.assertFalse(security["allowPrivilegeEscalation"])
                self.assertTrue(security["readOnlyRootFilesystem"])
                self.assertEqual(security["capabilities"], {"drop": ["ALL"]})
                self.assertEqual(container["image"], "example/troupe:1")
                for mount in container["volumeMounts"]:
                    self.assertIn(mount["name"], volumes)
        worker, = jobs[f"{NAME}-worker"]["spec"]["template"]["spec"]["containers"]
        self.assertEqual(worker["resources"]["requests"]["cpu"], "3")
        monitor, = by_kind(objects, "PodMonitor").values()
        endpoint, = monitor["spec"]["podMetricsEndpoints"]
        coordinator = jobs[f"{NAME}-coordinator"]["spec"]["template"]
        labels = coordinator["metadata"]["labels"]
        self.assertEqual(labels, {
            **labels, **monitor["spec"]["selector"]["matchLabels"]})
        self.assertIn(endpoint["port"], [
            x["name"] for x in coordinator["spec"]["containers"][0]["ports"]])
        for what in (endpoint["authorization"]["credentials"],
                     endpoint["tlsConfig"]["ca"]["secret"]):
            self.assertIn(what["key"], secrets[what["name"]]["stringData"])
        # The authority's key is the coordinator's alone, and nobody's twice.
        holders = [x for x, y in secrets.items() if "ca.key" in y["stringData"]]
        self.assertEqual(holders, [f"{NAME}-coordinator"])
        keys = re.findall(r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END",
                          text)
        self.assertEqual(len(keys), 1 + 2 + 2)
        self.assertEqual(len(set(keys)), len(keys))

    def test_the_monitor_is_one_for_prometheus_operator(self):
        for flags in ([], ["--namespace", "team"]):
            _, objects = manifest(*DIGITS, *JOBS["served"], flags=flags)
            monitor, = by_kind(objects, "PodMonitor").values()
            self.assertEqual(list(misfits(monitor, POD_MONITOR)), [])
        # What it would refuse is seen.
        for change in (
                lambda x: x["spec"].pop("selector"),
                lambda x: x["spec"].update(endpoints=[]),
                lambda x: x["spec"]["podMetricsEndpoints"][0].update(
                    interval="5 s"),
                lambda x: x["spec"]["podMetricsEndpoints"][0].update(
                    scheme="tls"),
                lambda x: x["spec"]["podMetricsEndpoints"][0].update(port=1),
                lambda x: x["spec"]["podMetricsEndpoints"][0]["authorization"]
                ["credentials"].pop("key")):
            _, objects = manifest(*DIGITS, *JOBS["served"])
            monitor, = by_kind(objects, "PodMonitor").values()
            change(monitor)
            self.assertEqual(len(list(misfits(monitor, POD_MONITOR))), 1)

    def test_the_objects_pass_the_schemas_of_kubernetes(self):
        """By kubernetes-validate (PyPI), of its newest version; the monitor by
        the definition that TROUPE_POD_MONITOR_CRD names."""
        python = os.environ.get("TROUPE_PYTHON", sys.executable)
        if subprocess.run([python, "-c", "import kubernetes_validate, yaml"],
                          check=False, capture_output=True).returncode != 0:
            self.skipTest("no kubernetes-validate here")
        for way, flags in JOBS.items():
            text, objects = manifest(*DIGITS, *flags)
            done = subprocess.run([python, "-c", """
import os, sys, jsonschema, kubernetes_validate, yaml
count = 0
for one in yaml.safe_load_all(sys.stdin):
    if one["kind"] != "PodMonitor":
        kubernetes_validate.validate(
            one, kubernetes_validate.latest_version(), strict=True)
        count += 1
    elif path := os.environ.get("TROUPE_POD_MONITOR_CRD"):
        with open(path) as file:
            version, = yaml.safe_load(file)["spec"]["versions"]
        schema = version["schema"]["openAPIV3Schema"]

        def close(x):  # as a cluster does, which drops other fields
            if isinstance(x, dict):
                if "properties" in x:
                    x.setdefault("additionalProperties", False)
                for inner in x.values():
                    close(inner)
            if isinstance(x, list):
                for inner in x:
                    close(inner)
        close(schema)
        jsonschema.validate(one, schema)
        count += 1
print(count)
"""], input=text, capture_output=True, text=True, timeout=100, check=False)
            self.assertEqual(done.returncode, 0, f"{way}: {done.stderr}")
            self.assertGreaterEqual(int(done.stdout), len(objects) - 1)

    def test_a_pod_that_is_replaced_keeps_what_it_renewed(self):
        _, objects = manifest(*DIGITS, *JOBS["served"])
        pod = next(x for x in self.pods(objects) if x.name == f"{NAME}-worker-1")
        folder = pod.path("private", "certificates")
        self.assertEqual(sorted(os.listdir(folder)),
                         ["ca.pem", "worker-1.key", "worker-1.pem"])
        for name in ("", "worker-1.key"):
            self.assertEqual(stat.S_IMODE(os.stat(f"{folder}/{name}").st_mode)
                             & 0o077, 0)
        with open(f"{folder}/worker-1.pem", "w") as file:
            file.write("renewed")
        pod.prepare()
        with open(f"{folder}/worker-1.pem") as file:
            self.assertEqual(file.read(), "renewed")

    def test_what_pods_cannot_have_is_one_line(self):
        def refused(pattern, *job, flags=()):
            done = subprocess.run(
                [TROUPE, "launch", "--kubernetes", *flags, "--", "train", *job],
                capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual((done.returncode, done.stdout), (2, ""),
                             done.stderr)
            self.assertRegex(done.stderr, rf"\Atroupe: .*{pattern}.*\n\Z")

        served = [*DIGITS, *JOBS["served"]]
        refused("--data is missing", *JOBS["served"])
        refused("--listen is chosen by --kubernetes", *served, "--listen",
                "127.0.0.1:0")
        refused("--config", *served, "--config=job.toml")
        refused("in a pod: --log-dir", *served, "--log-dir", "logs")
        refused("in a pod: --standby", *served, "--standby")
        refused("one GPU", *served, "--devices", "cuda:0,cuda:1")
        refused("--strategy|--processes", *DIGITS, "--strategy", "one_device")
        refused("--hosts", *served, flags=["-H", "a"])

    def test_who_may_read_the_keys_is_said(self):
        for mode, said in ((0o600, False), (0o644, True)):
            path = self.path(f"job-{mode:o}.yaml")
            with open(path, "w") as file:
                os.chmod(path, mode)
                done = subprocess.run(
                    shlex.split(f"{TROUPE} launch --kubernetes -- train")
                    + [*DIGITS, *JOBS["served"]], stdout=file,
                    stderr=subprocess.PIPE, text=True, timeout=60, check=True)
            self.assertEqual("chmod 600" in done.stderr, said, done.stderr)


if __name__ == "__main__":
    unittest.main()
