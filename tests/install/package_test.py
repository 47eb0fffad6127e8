"""The Debian package: what is in it and what it asks for; with TROUPE_PACKAGE_ROOT=1
it is installed in a bare root of this Debian, trains there and is removed again."""

# ctest: TIMEOUT 900

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BUILD = os.environ["TROUPE_BUILD"]
os.environ.setdefault("TROUPE", f"{BUILD}/apps/troupe")
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "process"))
from hosts import Hosts  # noqa: E402: it lies there
ROOT = os.environ.get("TROUPE_PACKAGE_ROOT") == "1"
MAIN_JOB = ("troupe train --data synthetic:digits?samples=4000 --eval-fraction 0.1 "
            "--model mlp:784-64-10 --epochs 2 --strategy parameter_server "
            "--workers 2 --ps 2 --processes --save /tmp/weights.safetensors")


def run(*words, timeout=600):
    done = subprocess.run([str(word) for word in words], capture_output=True,
                          text=True, timeout=timeout, check=False)
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.memory = tempfile.TemporaryDirectory()
        run("cpack", "--config", f"{BUILD}/CPackConfig.cmake", "-B",
            cls.memory.name)
        cls.package, = Path(cls.memory.name).glob("troupe_*.deb")

    @classmethod
    def tearDownClass(cls):
        cls.memory.cleanup()

    def test_it_holds_the_program_and_what_its_users_look_at(self):
        files = run("dpkg-deb", "-c", self.package)
        for name in ("/usr/bin/troupe", "/usr/share/doc/troupe/copyright",
                     "/usr/share/doc/troupe/operations.md",
                     "/usr/lib/systemd/system/troupe@.service",
                     "/usr/share/troupe/monitoring/grafana/troupe.json"):
            self.assertIn(f".{name}\n", files)
        self.assertNotIn("/include/", files)
        self.assertNotIn(".a\n", files)

    def test_every_package_that_it_needs_is_one_of_this_debian(self):
        needed = run("dpkg-deb", "-f", self.package, "Depends")
        names = re.findall(r"([a-z][\w.+-]*)", re.sub(r"\(.*?\)", "", needed))
        self.assertIn("libc6", names)
        for name in names:
            run("apt-cache", "show", name)

    def bare_root(self, name):
        """One of this Debian, and what runs commands in it. TROUPE_BARE_ROOT: one
        that is there, which is copied."""
        root = Path(self.memory.name) / name
        release = dict(line.split("=", 1) for line in
                       Path("/etc/os-release").read_text().splitlines()
                       if "=" in line)
        mirror = run("apt-get", "indextargets", "--format", "$(REPO_URI)",
                     "MetaKey: main/binary-amd64/Packages", "Origin: Debian")
        if "TROUPE_BARE_ROOT" in os.environ:
            run("cp", "-a", os.environ["TROUPE_BARE_ROOT"], root)
        else:
            run("debootstrap", "--variant=minbase", "--include=ca-certificates",
                release["VERSION_CODENAME"], root, mirror.splitlines()[0],
                timeout=1200)
        shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
        (root / "etc/apt/apt.conf.d/50-copy").write_text(
            'Acquire::Check-Valid-Until "false";\n')

        def inside(command, user="0:0", folder="/", settings=("HOME=/home",)):
            return run("unshare", "-m", "bash", "-c",
                       "for name in proc sys dev; do mount --rbind /$name "
                       f"{root}/$name; done; exec chroot --userspec={user} "
                       f"{root} env -i "
                       "PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "
                       f"{' '.join(settings)} sh -c 'cd \"$1\" && eval "
                       "\"$2\"' inside \"$1\" \"$2\"", "inside", folder,
                       command)
        return root, inside

    @unittest.skipUnless(ROOT, "only with TROUPE_PACKAGE_ROOT=1: makes a root")
    def test_what_the_image_is_made_of_runs_as_it_stands(self):
        """The recipe's own instructions, one after the other, in a bare root in
        place of the slim image."""
        root, inside = self.bare_root("image")
        text = Path("cmake/image/Containerfile").read_text()
        text = re.sub(r"(?m)^#.*\n", "", text).replace("\\\n", " ")
        arguments = {"PACKAGE": "troupe.deb"}
        user, folder, settings = "0:0", "/", []
        entry, words = [], []
        done = []
        for line in text.splitlines():
            what, _, rest = line.partition(" ")
            rest = rest.strip()
            done.append(what)
            if what == "COPY":
                source, target = rest.replace(
                    "${PACKAGE}", arguments["PACKAGE"]).split()
                self.assertEqual(source, "troupe.deb")
                shutil.copy(self.package, root / target.lstrip("/"))
            elif what == "RUN":
                inside(rest, user, folder, settings)
            elif what == "USER":
                user = rest
            elif what == "ENV":
                settings.append(rest)
            elif what == "WORKDIR":
                folder = rest
            elif what == "ENTRYPOINT":
                entry = json.loads(rest)
            elif what == "CMD":
                words = json.loads(rest)
            else:
                self.assertIn(what, ("ARG", "FROM"))
        self.assertIn("RUN", done)
        self.assertFalse((root / "tmp/troupe.deb").exists())
        self.assertIn("troupe train", inside(
            shlex.join([*entry, *words]), user, folder, settings))
        # As documented; and what a pod's container does: it may write to /kept.
        printed = inside(shlex.join(
            [*entry, "train", "--data", "synthetic:digits?samples=4000",
             "--epochs", "1", "--strategy", "parameter_server", "--workers",
             "2", "--ps", "1", "--processes", "--save", "w.safetensors"]), user,
            folder, settings)
        self.assertIn("weights saved to w.safetensors", printed)
        self.assertEqual((root / "kept/w.safetensors").stat().st_uid, 10001)
        self.assertIn("refused", inside("touch /usr/x 2>&1 || echo refused",
                                        user, folder, settings))
        self.check_pods(root)

    def check_pods(self, root):
        """What `troupe launch --kubernetes` prints, in roots of the image that
        share a network: names, ports, paths and users as they stand."""
        try:
            import kubernetes_test as kubernetes
        except SystemExit:
            self.skipTest("needs python3-yaml")
        folder = Path(self.memory.name) / "pods"
        folder.mkdir(mode=0o755)
        (root / "etc/hosts").write_text(
            f"127.0.0.1 localhost {kubernetes.NAME}-coordinator-0."
            f"{kubernetes.NAME}\n")
        hosts = Hosts(1)
        self.addCleanup(hosts.close)

        class Pod(kubernetes.Pod):
            def here(self, text, container):
                return text

            def inside(self, container):
                user = self.spec["securityContext"]["runAsUser"]
                lines = ["set -e", "mount --make-rprivate /"] + [
                    f"mount --rbind /{name} {root}/{name}"
                    for name in ("proc", "sys", "dev")]
                for mount in container["volumeMounts"]:
                    source = (self.kept if mount["name"] == "kept"
                              else self.path(mount["name"]))
                    run("chown", "-R", f"{user}:{user}", source)
                    place = f"{root}{mount['mountPath']}"
                    lines += [f"mkdir -p {place}",
                              f"mount --bind {source} {place}"]
                start = ["chroot", f"--userspec={user}:{user}", root, "env",
                         "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/tmp",
                         *(f"{name}={value}" for name, value in
                           self.environment(container).items()),
                         "sh", "-c", 'cd "$0" && exec "$@"',
                         container.get("workingDir", "/"),
                         *self.words(container)]
                lines.append("exec " + shlex.join(map(str, start)))
                return [*hosts.on(0), "unshare", "--mount", "sh", "-c",
                        "\n".join(lines)]

            def prepare(self):
                for container in self.spec["initContainers"]:
                    run(*self.inside(container), timeout=60)

            def start(self):
                container, = self.spec["containers"]
                with open(self.path("output"), "w") as output:
                    self.process = subprocess.Popen(
                        self.inside(container), stdin=subprocess.DEVNULL,
                        stdout=output, stderr=subprocess.STDOUT)

        _, objects = kubernetes.manifest(
            *kubernetes.DIGITS, *kubernetes.JOBS["served"], "--summary",
            "summary.json")
        secrets = kubernetes.by_kind(objects, "Secret")
        pods = []
        for job in kubernetes.by_kind(objects, "Job").values():
            for index in range(job["spec"]["completions"]):
                pods.append(Pod(str(folder), job, index, secrets, {}))
                self.addCleanup(pods[-1].stop)
                pods[-1].prepare()
        for pod in reversed(pods):
            pod.start()
        for pod in pods:
            pod.finish()
        with kubernetes.Run(*kubernetes.DIGITS, "--strategy",
                            "one_device") as one:
            expected = one.finish()["weights_sha256"]
        summary = json.loads(Path(pods[0].kept, "summary.json").read_text())
        self.assertEqual(summary["weights_sha256"], expected)

    @unittest.skipUnless(ROOT, "only with TROUPE_PACKAGE_ROOT=1: makes a root")
    def test_in_a_bare_root_it_installs_trains_and_leaves_nothing(self):
        root, inside = self.bare_root("root")
        shutil.copy(self.package, root / "tmp/troupe.deb")

        def files():
            return set(inside("find / -xdev -type f -not -path '/var/*' "
                              "-not -path '/etc/ld.so.cache'").splitlines())

        inside("apt-get update")
        inside("apt-get install -y --no-install-recommends /tmp/troupe.deb")
        installed = files()
        printed = inside(MAIN_JOB)
        self.assertRegex(printed, r"accuracy 0\.\d+")
        inside("apt-get purge -y troupe")
        left = {name for name in files() if "troupe" in name}
        self.assertEqual(left, {"/tmp/troupe.deb"})
        self.assertEqual(files() - installed, {"/tmp/weights.safetensors"})


if __name__ == "__main__":
    for tool in ("dpkg-deb", "dpkg-shlibdeps", "apt-cache",
                 *(["debootstrap", "chroot"] if ROOT else [])):
        if shutil.which(tool, path=os.environ["PATH"] + ":/usr/sbin") is None:
            print(f"skipped: {tool} is missing")
            sys.exit(77)
    unittest.main()
