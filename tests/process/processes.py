"""What /proc says of processes; for the tests beside."""

import os
import re


def children_of(pid):
    """Ids of a process's children, in the order in which one thread began them
    (numbers begin anew at some point), also of one that has not begun its program
    yet. Asked for a hundred times a second by who waits, so of its threads alone,
    where the kernel keeps lists of theirs."""
    try:
        found = []
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as file:
                found += map(int, file.read().split())
        return found
    except OSError:
        pass  # the kernel keeps none, or a thread has just ended
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat") as file:
                words = file.read().rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            continue
        if int(words[1]) == pid:
            found.append((int(words[19]), int(entry)))  # when it began
    return [entry for _, entry in sorted(found)]


def processes_of(folder):
    """Ids of all processes whose TMPDIR is this folder."""
    wanted = f"TMPDIR={folder}".encode()
    found = []
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                if wanted in file.read().split(b"\0"):
                    found.append(int(entry))
        except (OSError, ValueError):
            continue
    return found


def state_of(pid):
    """"R", "S", "T", "Z": proc(5)."""
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rsplit(")", 1)[1].split()[0]


def holds_back(pid, how):
    """Whether a process has its own ways with a signal yet."""
    with open(f"/proc/{pid}/status") as file:
        blocked = re.search(r"^SigBlk:\s*(\w+)$", file.read(), re.MULTILINE)
    return bool(blocked) and bool(int(blocked.group(1), 16) & 1 << how - 1)
