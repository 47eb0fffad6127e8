"""A crowd at the ports of a job, for the tests beside: idle connections, TLS
hellos, or connections that come and go, as many as one processor core can make.

    flood.py idle|hellos|visits|spin COUNT FROM HOST:PORT…

idle: COUNT connections to each port that say nothing; one that is closed is made
again. hellos: the beginning of a TLS handshake, up to COUNT of them under way,
one after the other to each port. visits: COUNT connections a second in all, each
closed at once. spin: none, it is busy. FROM: which of this host's addresses they
come from. It ends when it is killed, and prints what it did each second as
{"made": …, "answered": …}.
"""

import errno
import itertools
import json
import resource
import selectors
import socket
import ssl
import struct
import sys
import time

IP_BIND_ADDRESS_NO_PORT = 24
RESET = struct.pack("ii", 1, 0)  # nobody waits for what is under way
PATIENCE_S = 2


def client_hello():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    out = ssl.MemoryBIO()
    session = context.wrap_bio(ssl.MemoryBIO(), out)
    try:
        session.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return out.read()


class Flood:
    def __init__(self, own, doors):
        self.own = own
        self.doors = itertools.cycle(doors)
        self.counts = {"made": 0, "answered": 0}
        self.told = time.monotonic()
        self.selector = selectors.DefaultSelector()

    def connect(self, door):
        """None where the system has no more of them."""
        try:
            one = socket.socket()
        except OSError:
            return None
        one.setblocking(False)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        one.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
        one.bind((self.own, 0))
        code = one.connect_ex(door)
        if code not in (0, errno.EINPROGRESS):
            one.close()
            return None
        self.counts["made"] += 1
        return one

    def tell(self):
        now = time.monotonic()
        if now - self.told >= 1:
            self.told = now
            print(json.dumps(self.counts), flush=True)
        return now

    def spin(self, _):
        while True:
            for _ in range(100_000):
                pass
            self.tell()

    def visits(self, count):
        began = time.monotonic()
        visits = 0
        while True:
            now = self.tell()
            while visits < (now - began) * count:
                one = self.connect(next(self.doors))
                if one is not None:
                    one.close()
                visits += 1
            time.sleep(0.001)

    def idle(self, count):
        """Whoever is sent away comes again."""
        doors = []
        while (door := next(self.doors)) not in doors:
            doors.append(door)
        missing = doors * count
        while True:
            now, missing = missing[:500], missing[500:]
            for door in now:
                one = self.connect(door)
                if one is None:
                    missing.append(door)
                else:
                    self.selector.register(one, selectors.EVENT_READ, door)
            for key, _ in self.selector.select(0.05):
                try:
                    if key.fileobj.recv(4096):
                        self.counts["answered"] += 1
                        continue
                except BlockingIOError:
                    continue
                except OSError:
                    pass
                self.selector.unregister(key.fileobj)
                key.fileobj.close()
                missing.append(key.data)
            self.tell()

    def hellos(self, count):
        """A handshake whose answer has come, or does not, is begun anew."""
        hello = client_hello()
        deadlines = {}
        while True:
            now = self.tell()
            while len(deadlines) < count:
                one = self.connect(next(self.doors))
                if one is None:
                    break
                deadlines[one] = now + PATIENCE_S
                self.selector.register(one, selectors.EVENT_WRITE)
            for key, events in self.selector.select(0.01):
                one = key.fileobj
                try:
                    if events & selectors.EVENT_WRITE:
                        one.send(hello)
                        self.selector.modify(one, selectors.EVENT_READ)
                        continue
                    if one.recv(4096):
                        self.counts["answered"] += 1
                except BlockingIOError:
                    continue
                except OSError:
                    pass
                self.leave(one, deadlines)
            for one in list(itertools.takewhile(
                    lambda one: deadlines[one] < now, deadlines)):
                self.leave(one, deadlines)

    def leave(self, one, deadlines):
        self.selector.unregister(one)
        del deadlines[one]
        one.close()


def more_files():
    """As many as one may have."""
    with open("/proc/sys/fs/nr_open") as file:
        most = int(file.read())
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for limit in (most, hard):
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
            return
        except (OSError, ValueError):
            continue


def main(kind, count, own, *doors):
    more_files()
    places = [(host, int(port)) for host, port in
              (door.rsplit(":", 1) for door in doors)]
    getattr(Flood(own, places), kind)(int(count))


if __name__ == "__main__":
    main(*sys.argv[1:])
