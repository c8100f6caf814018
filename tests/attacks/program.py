"""An adversary at a door, as a program of its own that needs no package, so that any user can be the adversary.

program.py listen MANNER PLACE [TO [SEED]]   in the place of a server, or between two sides, until it is ended
program.py say PLACE                         each line of the input, in hex, in a connection of its own
program.py flood PLACE HEX                   many connections that say HEX, then a byte now and then
program.py take PLACE                        tries to come into the place of a Unix socket

A place is `HOST:PORT`, or the path of a Unix socket; TO may be `original`. Lines of JSON tell what happens.
"""

import contextlib
import itertools
import json
import os
import random
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

CONNECTIONS = 200
"""Connections of a flood."""
PAUSE_SECONDS = 0.05
DRIPS_MAX = 40
"""Bytes that a dripping listener says in one connection."""
WAIT_SECONDS = 600.0
"""Bound on each wait: only a hang meets it."""
PIECE_BYTES = 1 << 16
NUMBER_AT = 6
"""Place of the server's number in the first flight of a channel."""
HARMED = 1 / 3
"""Part of the directions that one in the middle harms: else no call would ever end."""
SPARED_BYTES_MAX = 1_000_000
"""Most bytes of a direction before the harm; most often they are fewer, of any magnitude."""
ORIGINAL = "original"
"""In place of an address: the one that each client meant."""
_SO_ORIGINAL_DST = 80
TO_SERVER, TO_CLIENT = "to server", "to client"


def tell(**fields: object) -> None:
    """Print a line of JSON, whole beside those of other threads."""
    os.write(sys.stdout.fileno(), json.dumps(fields).encode() + b"\n")


def connected(place: str) -> socket.socket:
    """A connection to a place."""
    if "/" in place:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(WAIT_SECONDS)
        connection.connect(place)
        return connection
    host, _, port = place.rpartition(":")
    return socket.create_connection((host, int(port)), WAIT_SECONDS)


def listener(place: str) -> socket.socket:
    """A socket that listens at a place, which is told."""
    if "/" in place:
        made = socket.socket(socket.AF_UNIX)
        made.bind(place)
        Path(place).chmod(0o666)
        made.listen(64)
        tell(at=place)
        return made
    host, _, port = place.rpartition(":")
    made = socket.create_server((host, int(port)), backlog=64)
    tell(at=f"{host}:{made.getsockname()[1]}")
    return made


CLEAR = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
MANNERS: dict[str, Callable[[bytes], bytes | None]] = {
    "ends": lambda _heard: None,
    "echoes": lambda heard: heard,
    "guesses": lambda heard: heard[:6] + os.urandom(48),
    "goes on in the clear": lambda heard: heard[:6] + os.urandom(48) + CLEAR,
    "is silent": lambda _heard: b"",
    "drips": lambda heard: heard[:6] + os.urandom(DRIPS_MAX - 6),
}
"""The words of a squatter after it has heard the first bytes; None ends the connection."""
MIDDLES = ("passes", "rewrites", "alters", "cuts")
"""Manners of one who stands between two sides."""


def squat(manner: str, number: int, connection: socket.socket) -> None:
    """Speak in a server's place, and tell what comes."""
    with connection, contextlib.suppress(OSError):
        connection.settimeout(WAIT_SECONDS)
        heard = connection.recv(PIECE_BYTES)
        tell(connection=number, heard=heard.hex())
        said = MANNERS[manner](heard)
        if said is None:
            return
        for part in [said[at : at + 1] for at in range(len(said))] if manner == "drips" else [said]:
            connection.sendall(part)
            if manner == "drips":
                time.sleep(PAUSE_SECONDS)
        while piece := connection.recv(PIECE_BYTES):
            tell(connection=number, heard=piece.hex())
    tell(ended=number)


def stand_between(manner: str, number: int, client: socket.socket, place: str, dice: random.Random) -> None:
    """Pass a connection on to a place, and tell what comes from the client."""
    with contextlib.suppress(OSError):
        server = connected(original(client) if place == ORIGINAL else place)
        client.settimeout(WAIT_SECONDS)
        ways = ((TO_SERVER, client, server), (TO_CLIENT, server, client))
        for way, source, sink in ways:
            own = random.Random(dice.random())
            arguments = (manner, number, (way, source, sink), own)
            threading.Thread(target=pass_on, args=arguments, daemon=True).start()


def original(client: socket.socket) -> str:
    """The place that a client meant whom the kernel sent here (netfilter's `redirect`)."""
    port, address = struct.unpack("!2xH4s", client.getsockopt(socket.SOL_IP, _SO_ORIGINAL_DST, 16)[:8])
    return f"{socket.inet_ntoa(address)}:{port}"


def pass_on(manner: str, number: int, ends: tuple[str, socket.socket, socket.socket], dice: random.Random) -> None:
    """Pass one direction on, and do harm to it, once at most."""
    begun = False
    way, source, sink = ends
    harms = manner in ("alters", "cuts") and dice.random() < HARMED
    spared = int(SPARED_BYTES_MAX ** dice.random()) if harms else None
    with contextlib.suppress(OSError):
        while piece := source.recv(PIECE_BYTES):
            if way == TO_SERVER:
                tell(connection=number, heard=piece.hex())
                if manner == "rewrites" and not begun and len(piece) > NUMBER_AT:
                    piece = piece[:NUMBER_AT] + b"\0\0" + piece[NUMBER_AT + 2 :]
            begun = True
            if spared is None or spared >= len(piece):
                sink.sendall(piece)
                spared = None if spared is None else spared - len(piece)
            elif manner == "alters":
                bit = 1 << dice.randrange(8)
                sink.sendall(piece[:spared] + bytes([piece[spared] ^ bit]) + piece[spared + 1 :])
                tell(altered=way)
                spared = None
            else:
                sink.sendall(piece[:spared])
                tell(cut=way)
                break
    for each in (source, sink):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
    tell(ended=number)


def listen(manner: str, place: str, to: str = "", seed: str = "0") -> None:
    """Take every connection at a place."""
    dice = random.Random(int(seed))
    made = listener(place)
    for number in itertools.count():
        connection, _ = made.accept()
        if manner in MIDDLES:
            stand_between(manner, number, connection, to, dice)
        else:
            threading.Thread(target=squat, args=(manner, number, connection), daemon=True).start()


def say(place: str) -> None:
    """Say each line of the input in a connection of its own, and tell the answer, or the error of the connection."""
    for word in sys.stdin:
        answer = b""
        try:
            with connected(place) as connection, contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(bytes.fromhex(word))
                connection.shutdown(socket.SHUT_WR)
                while piece := connection.recv(PIECE_BYTES):
                    answer += piece
            tell(answer=answer.hex())
        except OSError as error:
            tell(errno=error.errno)


def flood(place: str, word: str) -> None:
    """Hold many connections, each of which has said something and goes on slowly; one that was ended is made anew."""
    begun = bytes.fromhex(word)
    held: list[socket.socket | None] = [None] * CONNECTIONS
    rounds = 0
    while True:
        for number, connection in enumerate(held):
            try:
                if connection is None:
                    held[number] = connection = connected(place)
                    # No wait for room: a door that does not read is what a flood wants.
                    connection.setblocking(False)
                    connection.send(begun[: number % (len(begun) + 1)])
                else:
                    connection.send(b"\1")
            except BlockingIOError:
                continue
            except OSError:
                if connection is not None:
                    connection.close()
                held[number] = None
        rounds += 1
        tell(round=rounds)
        time.sleep(PAUSE_SECONDS)


def take(place: str) -> None:
    """Try all ways to listen in the place of a Unix socket; tell those that worked."""
    path = Path(place)
    own = Path(f"/tmp/adversary-{os.getpid()}")
    own.mkdir(mode=0o700)
    link = own / "link"
    link.symlink_to(path)
    tries: dict[str, Callable[[], object]] = {
        "removed": path.unlink,
        "renamed": lambda: path.rename(path.with_name("gone")),
        "bound": lambda: socket.socket(socket.AF_UNIX).bind(place),
        "bound beside": lambda: socket.socket(socket.AF_UNIX).bind(str(path.with_name("beside"))),
        "linked over": lambda: link.replace(path),
        "moved the folder": lambda: path.parent.rename(path.parent.with_name("gone")),
        "opened the mode": lambda: path.chmod(0o777),
    }
    worked = []
    for name, attempt in tries.items():
        with contextlib.suppress(OSError):
            attempt()
            worked.append(name)
    for left in own.iterdir():
        left.unlink()
    own.rmdir()
    tell(worked=worked)


if __name__ == "__main__":
    WORKS: dict[str, Callable[..., None]] = {"listen": listen, "say": say, "flood": flood, "take": take}
    WORKS[sys.argv[1]](*sys.argv[2:])
