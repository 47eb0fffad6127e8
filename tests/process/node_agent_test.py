"""`troupe node`, told what to do as `troupe launch` tells it."""

import json
import selectors
import socket
import subprocess
import time
import unittest

from cluster import DEADLINE_S, TROUPE


class Agent:
    def __init__(self, case):
        self.process = subprocess.Popen([TROUPE, "node"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, bufsize=0)
        case.addCleanup(self.close)
        self.partial = b""

    def close(self):
        self.process.stdin.close()
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def tell(self, **message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")

    def hear(self):
        """The next message."""
        with selectors.DefaultSelector() as ready:
            ready.register(self.process.stdout, selectors.EVENT_READ)
            end = time.monotonic() + DEADLINE_S
            while b"\n" not in self.partial:
                if not ready.select(end - time.monotonic()):
                    raise AssertionError("it says nothing")
                read = self.process.stdout.read(65536)
                if not read:
                    raise AssertionError("it has ended")
                self.partial += read
        line, self.partial = self.partial.split(b"\n", 1)
        return json.loads(line)


def full_door(case):
    """HOST:PORT at which whoever comes is neither let in nor refused."""
    door = socket.create_server(("127.0.0.1", 0), backlog=0)
    case.addCleanup(door.close)
    for _ in range(4):
        visitor = socket.socket()
        case.addCleanup(visitor.close)
        visitor.setblocking(False)
        visitor.connect_ex(door.getsockname())
    time.sleep(0.2)
    host, port = door.getsockname()
    return f"{host}:{port}"


class NodeAgent(unittest.TestCase):
    def test_it_says_that_it_is_there(self):
        agent = Agent(self)
        self.assertEqual(agent.hear()["is"], "here")
        agent.tell(do="alive")
        self.assertEqual(agent.hear(), {"is": "alive"})

    def test_it_obeys_while_it_tries_ways(self):
        """It heard nothing until a way that drops what it gets was given up,
        after 2.5 s: roles were neither started nor ended meanwhile."""
        agent = Agent(self)
        self.assertEqual(agent.hear()["is"], "here")
        closed = full_door(self)
        agent.tell(do="try", id=7, at=[closed], doors=[closed])
        agent.tell(do="listen", address="127.0.0.1")
        listens = agent.hear()
        self.assertEqual(listens["is"], "listens")
        agent.tell(do="try", id=8, at=[listens["at"]], doors=[])
        self.assertEqual(agent.hear(), {"is": "tried", "id": 8, "ways": [
            {"at": listens["at"], "why": ""}]})
        tried = agent.hear()
        self.assertEqual((tried["is"], tried["id"]), ("tried", 7))
        self.assertEqual(tried["ways"][0]["at"], closed)
        self.assertNotEqual(tried["ways"][0]["why"], "")
        agent.tell(do="end", keep=False)
        self.assertEqual(agent.process.wait(DEADLINE_S), 0)


if __name__ == "__main__":
    unittest.main()
