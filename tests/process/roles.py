"""Starts roles one by one, without a launcher; for the tests beside."""

import hashlib
import json
import os
import re
import resource
import signal
import subprocess
import tempfile

from cluster import TROUPE, wait_for


def certificate_of(member, folder):
    """The files of a member's certificate and key, made with the authority's key
    in the folder where they are not there."""
    stem = os.path.join(folder, member.replace(":", "-"))
    if not os.path.exists(stem + ".pem"):
        subprocess.run([TROUPE, "certificates", "new", member, "--certificates",
                        folder], check=True, timeout=60,
                       stdout=subprocess.DEVNULL)
    return stem + ".pem", stem + ".key"


def lose_memory(address, role):
    """What a shard keeps on its host for its next process, as a host's death
    takes it."""
    key = hashlib.sha256(f"{address} {role}".encode()).hexdigest()[:16]
    os.remove(f"/dev/shm/troupe-{os.geteuid()}-{key}")


class Role:
    """One process of `troupe role`, or another command, started as on a machine
    of its own; `on` comes before it (Hosts.on)."""

    def __init__(self, clean_up_with, *arguments, tf_config=None, on=(),
                 command="role", max_files=None, preload=None,
                 environment=None, program=(TROUPE,)):
        """`max_files`: descriptors that it may open, as `ulimit -n` says;
        `preload`: a library that comes before its own; `program`: words that
        run another `troupe`."""
        def bound():
            resource.setrlimit(resource.RLIMIT_NOFILE, (max_files, max_files))

        self.folder = tempfile.TemporaryDirectory()
        clean_up_with(self.folder.cleanup)
        environment = {**os.environ, "TF_CONFIG": json.dumps(tf_config),
                       **(environment or {})}
        if tf_config is None:
            environment.pop("TF_CONFIG")
        if preload is not None:
            environment["LD_PRELOAD"] = preload
        with open(self.path("output"), "w") as output, \
                open(self.path("error"), "w") as error:
            self.process = subprocess.Popen(
                [*on, *program, command, *arguments],
                stdin=subprocess.DEVNULL, stdout=output, stderr=error,
                env=environment,
                preexec_fn=bound if max_files else None)
        clean_up_with(self.stop)

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def output(self):
        with open(self.path("output")) as file:
            return file.read()

    def error(self):
        with open(self.path("error")) as file:
            return file.read()

    def finish(self, status=0, deadline_s=60):
        found = self.process.wait(deadline_s)
        assert found == status, (f"status {found}, expected {status}: "
                                 f"{self.error()} {self.output()}")
        return self.error()

    def end(self, epochs=1):
        """Ends a coordinator's run in order once it has trained so many data
        epochs more."""
        def trained():
            return len(re.findall(r"(?m)^epoch \d+ ", self.output()))

        goal = trained() + epochs
        wait_for(lambda: self.process.poll() is not None or trained() >= goal,
                 "a data epoch")
        self.process.send_signal(signal.SIGTERM)
        return self.finish(143)

    def address(self, what="coordinator"):
        def find():
            assert self.process.poll() is None, self.error()
            match = re.search(rf"^{what} listens on (\S+)$", self.output(),
                              re.MULTILINE)
            return match and match.group(1)
        return wait_for(find, f"the {what}'s address", 30)
