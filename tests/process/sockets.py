"""TCP sockets of processes, read from /proc; for the tests beside."""

import os
import re

ESTABLISHED = "01"
LISTENING = "0A"


def sockets(pids, state):
    """[((own address in hexadecimal, own port), (peer's, peer's))] of the TCP
    sockets of these processes in a state, IPv6 ones too."""
    known = {}
    for table in ("tcp", "tcp6"):
        with open(f"/proc/{pids[0]}/net/{table}") as file:
            for line in file.read().splitlines()[1:]:
                words = line.split()
                if words[3] == state:
                    known[words[9]] = tuple(
                        (address, int(port, 16)) for address, port in
                        (end.split(":") for end in words[1:3]))
    found = set()
    for pid in pids:
        try:
            descriptors = os.listdir(f"/proc/{pid}/fd")
        except OSError:
            continue  # ended meanwhile
        for descriptor in descriptors:
            try:
                target = os.readlink(f"/proc/{pid}/fd/{descriptor}")
            except OSError:
                continue  # closed meanwhile
            match = re.fullmatch(r"socket:\[(\d+)\]", target)
            if match and match.group(1) in known:
                found.add(known[match.group(1)])
    return sorted(found)


def listening_addresses(pids):
    """[(address in hexadecimal, port)] on which these processes listen."""
    return [own for own, _ in sockets(pids, LISTENING)]


def connections(pids):
    """[(own port, peer's port)] of these processes' connections."""
    return [(own[1], peer[1]) for own, peer in sockets(pids, ESTABLISHED)]
