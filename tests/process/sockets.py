"""TCP sockets of processes, read from /proc; for the tests beside."""

import os
import re

ESTABLISHED = "01"
CLOSE_WAIT = "08"
LISTENING = "0A"


def rows(of, state):
    """(inode, ends) of each TCP socket in a state, as process `of` sees them,
    IPv6 ones too; ends are ((own address in hexadecimal, own port), (peer's,
    peer's))."""
    for table in ("tcp", "tcp6"):
        with open(f"/proc/{of}/net/{table}") as file:
            for line in file.read().splitlines()[1:]:
                words = line.split()
                if words[3] == state:
                    yield words[9], tuple(
                        (address, int(port, 16)) for address, port in
                        (end.split(":") for end in words[1:3]))


def sockets(pids, state):
    """The ends of the TCP sockets of these processes in a state, in order."""
    known = dict(rows(pids[0], state))
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


def held_by_doors(ports):
    """{(door's port, stranger's port)} of what was connected to these ports and
    has not been closed there, accepted or not. The other side may think so of
    more: a system whose queue is full forgets whom it answered with a cookie,
    and says nothing."""
    return {(own[1], peer[1]) for state in (ESTABLISHED, CLOSE_WAIT)
            for _, (own, peer) in rows("self", state) if own[1] in ports}
