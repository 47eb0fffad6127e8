"""Control groups of this machine, made for a test and gone with it."""

import itertools
import os
import re
import subprocess
import time

NUMBERS = itertools.count()


def mounts():
    """(version, controllers, mount point) of each hierarchy."""
    with open("/proc/self/mountinfo") as file:
        for line in file:
            fields, kind = line.rstrip().split(" - ")
            kind, _, options = kind.split(" ")[:3]
            if kind in ("cgroup", "cgroup2"):
                yield kind, set(options.split(",")), fields.split(" ")[4]


class Group:
    """A group in which `controller` limits; None from find() where the kernel,
    or who this is, permits none."""

    def __init__(self, path, version):
        self.path = path
        self.version = version

    @staticmethod
    def find(controller):
        for kind, controllers, point in mounts():
            version = 2 if kind == "cgroup2" else 1
            if version == 2:
                try:
                    with open(f"{point}/cgroup.subtree_control") as file:
                        controllers = set(file.read().split())
                except OSError:
                    continue
            if controller not in controllers:
                continue
            path = f"{point}/troupe-test-{os.getpid()}-{next(NUMBERS)}"
            try:
                os.mkdir(path)
            except OSError:
                continue
            return Group(path, version)
        return None

    def write(self, name, text):
        with open(f"{self.path}/{name}", "w") as file:
            file.write(str(text))

    def read(self, name):
        with open(f"{self.path}/{name}") as file:
            return file.read()

    def limit_processors(self, share):
        if self.version == 2:
            self.write("cpu.max", f"{int(share * 100000)} 100000")
        else:
            self.write("cpu.cfs_quota_us", int(share * 100000))

    def limit_memory(self, limit):
        if self.version == 2:
            self.write("memory.max", limit)
            self.write("memory.swap.max", 0)
        else:
            self.write("memory.limit_in_bytes", limit)

    def memory_kills(self):
        name = "memory.events" if self.version == 2 else "memory.oom_control"
        found = re.search(r"^oom_kill (\d+)$", self.read(name), re.MULTILINE)
        return int(found.group(1))

    def enter(self):
        """Puts the calling process into the group."""
        self.write("cgroup.procs", os.getpid())

    def remove(self):
        """Once all that was in it is gone."""
        end = time.monotonic() + 30
        while time.monotonic() < end:
            try:
                os.rmdir(self.path)
                return
            except OSError:
                time.sleep(0.02)
        subprocess.run(["cat", f"{self.path}/cgroup.procs"], check=False)
        raise AssertionError(f"{self.path} is still in use")
