"""A real sshd on each host of hosts.py, with a home of its own there, and what
ssh needs to reach them; for the tests beside."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from cluster import wait_for
from hosts import skip_unless_possible

PACKAGES = ("openssh-server", "libwrap0", "libwtmpdb0")  # as far as there are
MADE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
UNPACKED = MADE / "troupe" / "sshd"


def known(package):
    """Whether Debian has it, in this release."""
    return subprocess.run(["apt-cache", "show", package], capture_output=True,
                          timeout=60, check=False).returncode == 0


def unpacked():
    """Debian's sshd, unpacked and not installed: an installed one would listen
    on this machine. None where it cannot be had."""
    program = UNPACKED / "usr" / "sbin" / "sshd"
    if program.exists():
        return program
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        return None
    made = UNPACKED.with_name(f"sshd-{os.getpid()}")
    made.mkdir(parents=True)
    try:
        done = subprocess.run(["apt-get", "download", *filter(known, PACKAGES)],
                              cwd=made, capture_output=True, timeout=60,
                              check=False)
        for package in made.glob("*.deb"):
            subprocess.run(["dpkg", "-x", package, made], check=True)
            package.unlink()
        if done.returncode == 0:
            made.rename(UNPACKED)
    except (subprocess.SubprocessError, OSError):
        pass
    shutil.rmtree(made, ignore_errors=True)
    return program if program.exists() else None


def program():
    """The sshd to be started; ends the program with status 77 where there is
    none."""
    skip_unless_possible()
    why = None
    with open("/proc/self/uid_map") as file:
        if file.read().split()[2] == "1":
            why = "it cannot change users as root of a user namespace"
    if why is None and shutil.which("ssh") is None:
        why = "ssh is not installed (openssh-client)"
    found = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin")
    if why is None:
        found = found or unpacked()
        why = None if found else ("sshd is not installed (openssh-server), and "
                                  "its package cannot be had")
    if why is not None:
        print(f"skipped: no sshd here: {why}")
        sys.exit(77)
    return str(found)


def helpers_of(program):
    """Settings of an sshd that was unpacked and, as from OpenSSH 9.8 on, starts
    programs of its own: where those are."""
    folder = Path(program).parents[1] / "lib" / "openssh"
    return "".join(
        f"{setting} {folder / helper}\n" for setting, helper in
        (("SshdSessionPath", "sshd-session"), ("SshdAuthPath", "sshd-auth"))
        if (folder / helper).exists())


SETTINGS = """\
Port 22
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
PidFile none
MaxStartups 100
"""
CLIENT = """\
Host *
  User root
  IdentityFile {folder}/user
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known_hosts
  GlobalKnownHostsFile /dev/null
{hosts}"""
# A host has its own home and its own list of users, on which sshd's own is.
START = """\
mount --make-rprivate / &&
mount --bind "$1/passwd-$2" /etc/passwd &&
mount --bind "$1/shadow" /etc/shadow &&
mkdir -p "$1/only-here" && mount -t tmpfs tmpfs "$1/only-here" &&
mount -t tmpfs tmpfs /dev/shm &&
mount -t tmpfs tmpfs /run && mkdir -m 755 /run/sshd &&
folder=$1 program=$3 && shift 3 &&
exec "$program" -D -e -f "$folder/settings" "$@"
"""


class Sshd:
    """sshd on hosts 1, 2, … of `hosts`; ssh calls them h1, h2, … What is in the
    folder only-here is on host 0 alone."""

    def __init__(self, test, hosts, folder, count):
        self.hosts, self.folder = hosts, folder
        self.program = program()
        self.started = {}  # host -> the process of its sshd
        for name in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f",
                            self.path(name)], check=True)
        self.write("settings", SETTINGS.format(folder=folder)
                   + helpers_of(self.program))
        self.write("shadow", "root:*:19000:0:99999:7:::\n")
        self.write("config", CLIENT.format(folder=folder, hosts="".join(
            f"Host h{host}\n  HostName {hosts.address(host)}\n"
            for host in range(len(hosts.keepers) - 1))))
        self.know(*range(1, count + 1))
        for host in range(1, count + 1):
            self.start(test, host)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)
        os.chmod(self.path(name), 0o600)

    def know(self, *hosts):
        """ssh knows the keys of these hosts, and of no other."""
        with open(self.path("host.pub")) as file:
            key = " ".join(file.read().split()[:2])
        self.write("known_hosts", "".join(
            f"{self.hosts.address(host)} {key}\n" for host in hosts))

    def home(self, host):
        return self.path(f"home-{host}")

    def stop(self, host):
        self.started[host].kill()
        self.started[host].wait()

    def start(self, test, host, *options):
        """`options`: of sshd, beyond what all hosts have."""
        os.makedirs(self.home(host), exist_ok=True)
        self.write(f"passwd-{host}",
                   f"root:x:0:0:root:{self.home(host)}:/bin/sh\n"
                   "sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin\n"
                   "nobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n")
        os.chmod(self.path(f"passwd-{host}"), 0o644)
        log = open(self.path(f"sshd-{host}.log"), "w")
        libraries = UNPACKED / "usr" / "lib" / "x86_64-linux-gnu"
        process = subprocess.Popen(
            [*self.hosts.on(host), "unshare", "--mount", "sh", "-c", START,
             "sh", self.folder, str(host), self.program, *options],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            env={**os.environ, "LD_LIBRARY_PATH": str(libraries)})

        self.started[host] = process

        def stop():
            process.kill()
            process.wait()
            log.close()
        test.addCleanup(stop)

        def listens():
            with open(self.path(f"sshd-{host}.log")) as file:
                said = file.read()
            if process.poll() is not None:
                raise AssertionError(f"sshd ended: {said}")
            return "Server listening" in said
        wait_for(listens, f"sshd on host {host}", 20)

    def ssh(self):
        """What --ssh takes."""
        return f"ssh -F {self.path('config')}"

    def processes(self, host):
        """(id, words) of the processes on a host, by its network, but sshd's
        own and what keeps the host."""
        keeper = self.hosts.keepers[host + 1].pid
        network = os.readlink(f"/proc/{keeper}/ns/net")
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.readlink(f"/proc/{entry}/ns/net") != network:
                    continue
                with open(f"/proc/{entry}/cmdline", "rb") as file:
                    words = file.read().decode().split("\0")
                with open(f"/proc/{entry}/stat") as file:
                    state = file.read().rsplit(")", 1)[1].split()[0]
            except OSError:
                continue
            if state != "Z" and not words[0].startswith(("sshd", "sleep")) \
                    and "sshd" not in words[0]:
                yield int(entry), words

    def memory_files(self, host):
        """What lies in the host's /dev/shm, which no other host has."""
        seen_by = f"/proc/{self.started[host].pid}"
        return os.listdir(os.path.join(seen_by, "root", "dev", "shm"))

    def roles(self, host):
        return {words[2]: pid for pid, words in self.processes(host)
                if words[1:2] == ["role"]}

    def ports(self, host):
        """Ports that somebody listens at on a host, but sshd's."""
        keeper = self.hosts.keepers[host + 1].pid
        found = set()
        for table in ("tcp", "tcp6"):
            with open(f"/proc/{keeper}/net/{table}") as file:
                for line in file.readlines()[1:]:
                    fields = line.split()
                    if fields[3] == "0A":
                        found.add(int(fields[1].rsplit(":", 1)[1], 16))
        return found - {22}
