"""A user who floods the planner, and one who asks meanwhile; run as a program, it needs no package.

planner_flood.py flood SOCKET KIND         until it is ended
planner_flood.py ask SOCKET COUNT          the milliseconds of each answer, a line each; `inf` for a refusal
"""

import json
import math
import os
import selectors
import socket
import struct
import sys
import time
from collections.abc import Callable

CONNECTIONS = 60
"""Connections of the flood; a user may have four more."""
SCRIPT = "#!/bin/bash\n#SBATCH --nodes=2\n#WEIR size=1GiB\nsrun model\n"
PAUSE_SECONDS = 0.01
_SEND_BYTES = 1 << 16
_BOUND = struct.pack("ll", 60, 0)
"""Longest wait of a call on the socket of one who asks."""
_IDENTITY = {"name": "small-write-light-sequential-posix", "program": "m", "processes": 8, "written_bytes": 1 << 30}


def line(**fields: object) -> bytes:
    """A request."""
    return json.dumps(fields).encode() + b"\n"


def head(text: str, characters: int) -> str:
    """A script without a command, of equal lines."""
    return "#!/bin/sh\n" + text * (characters // len(text)) + "\n"


def _validate(script: str) -> bytes:
    return line(request="validate", script=script)


FLOODS: dict[str, Callable[[int], bytes]] = {
    "misspelt names": lambda number: _validate(f"#!/bin/sh\n#WEIR {'polcy' * 800}{number}=1\n"),
    "quoted paths": lambda number: _validate(head('#WEIR stage_in="/a b":c\n', 60_000)),
    "a long word": lambda number: _validate("#!/bin/sh\n#WEIR size=" + "1" * 200_000 + "\n"),
    "lines that go on": lambda number: _validate(head("#WEIR aaaa\\\n", 60_000)),
    "empty lines": lambda number: _validate(head("\n", 250_000)),
    "options": lambda number: _validate(head("#SBATCH --nodes='2'\n", 250_000)),
    "a long command": lambda number: _validate("#!/bin/sh\nsrun" + " 'a b'" * 40_000),
    "a short jobspec": lambda number: _validate("version: 1\nresources: [" + "{a: b}," * 1100 + "]"),
    "a long jobspec": lambda number: _validate("version: 1\nresources: [" + "{type: node}," * 15_000 + "]"),
    "many nodes": lambda number: b'{"request":"setup","name":"a","nodes":[' + b'"a",' * 130_000 + b'"a"]}\n',
    "plans": lambda number: line(
        request="plan", identity=_IDENTITY, script=SCRIPT.replace("1GiB", f"{number % 977 + 1}MiB")
    ),
    "pings": lambda number: line(request="ping"),
    "requests of nothing": lambda number: b"\n" * 900 + line(request="ping"),
}
"""The request of each flood, by its number."""


class _Flood:
    """Many connections, of which each asks again as soon as it has an answer."""

    def __init__(self, place: str, request: Callable[[int], bytes]) -> None:
        self._place = place
        self._request = request
        self._number = 0
        self._selector = selectors.DefaultSelector()
        self._rest: dict[socket.socket, bytes] = {}

    def run(self) -> None:
        for _ in range(CONNECTIONS):
            self._connect()
        while True:
            for key, events in self._selector.select():
                assert isinstance(key.fileobj, socket.socket)
                try:
                    self._go_on(key.fileobj, events)
                except OSError:
                    self._selector.unregister(key.fileobj)
                    key.fileobj.close()
                    self._connect()

    def _connect(self) -> None:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self._place)
        connection.setblocking(False)
        self._rest[connection] = self._next()
        self._selector.register(connection, selectors.EVENT_READ | selectors.EVENT_WRITE)

    def _next(self) -> bytes:
        self._number += 1
        return self._request(self._number)

    def _go_on(self, connection: socket.socket, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            self._rest[connection] = self._rest[connection][connection.send(self._rest[connection][:_SEND_BYTES]) :]
            if not self._rest[connection]:
                self._selector.modify(connection, selectors.EVENT_READ)
            return
        answer = connection.recv(1 << 20)
        if not answer:
            raise ConnectionResetError
        if answer.endswith(b"\n"):
            self._rest[connection] = self._next()
            self._selector.modify(connection, selectors.EVENT_READ | selectors.EVENT_WRITE)


def connect(place: str) -> None:
    """Connect anew all the time, and leave the oldest connection."""
    held: list[socket.socket] = []
    while True:
        held.append(socket.socket(socket.AF_UNIX))
        held[-1].connect(place)
        if len(held) > CONNECTIONS:
            held.pop(0).close()


def ask(place: str) -> float:
    """The milliseconds of an answer over a connection of its own, as Slurm's plugin asks; infinity for a refusal."""
    reserved = f"{place}.reserved"
    begin = time.perf_counter()
    answer = b""
    with socket.socket(socket.AF_UNIX) as connection:
        for option in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
            connection.setsockopt(socket.SOL_SOCKET, option, _BOUND)
        try:
            connection.connect(reserved if os.access(reserved, os.W_OK) else place)
            connection.sendall(_validate(SCRIPT))
            while not answer.endswith(b"\n") and (part := connection.recv(1 << 16)):
                answer += part
        except OSError as error:
            print(error, file=sys.stderr)
    return (time.perf_counter() - begin) * 1e3 if b'"result"' in answer else math.inf


if __name__ == "__main__":
    what, socket_path, detail = sys.argv[1:]
    if what == "ask":
        for _ in range(int(detail)):
            print(ask(socket_path), flush=True)
            time.sleep(PAUSE_SECONDS)
    elif detail == "connections":
        connect(socket_path)
    else:
        _Flood(socket_path, FLOODS[detail]).run()
