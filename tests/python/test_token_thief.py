"""A thief at the control port of a dead server: an administrator's commands tell it nothing, believe nothing, and end.

A user of a server's host can take the port of a server that is down, because the port stands in the world-readable
cluster.json. Commands sent it a token that was derived from the site key for ever.
"""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import answers
import pytest
from store import Store, kill, program
from waits import PATIENCE_SECONDS, wait_until
from weir import _core
from weir.interference.collector import Collector
from weir.interference.live import Publisher
from weir.store.access import servers_at
from weir.store.home import Home
from weir.store.predictions import Predictions

HEAD = 10
"""Bytes of a flight before its claims: the magic, the server's number and the length of the claims."""
MESSAGE = 48
"""Bytes of the first message of the handshake."""
PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"


def told(document: object) -> bytes:
    text = json.dumps(document).encode()
    return PLAIN % len(text) + text


ANSWERS: dict[str, Callable[[bytes], bytes | None]] = {
    "it ends the connection": lambda _flight: None,
    "it answers in the clear as a server": lambda _flight: told(answers.STATUS),
    "it sends the flight back": lambda flight: flight,
    "it answers by chance": lambda flight: flight[:6] + os.urandom(MESSAGE),
    "it answers and goes on in the clear": lambda flight: flight[:6] + os.urandom(MESSAGE) + told(answers.STATUS),
    "it says nothing": lambda _flight: b"",
}
"""What a thief says to a flight; None ends the connection."""

COMMANDS = (
    ("quota", "show"),
    ("quota", "set", "--every-user", "--bytes", "1GiB"),
    ("policy", "show"),
    ("policy", "set", "fifo"),
    ("targets",),
    ("targets", "allocator", "random"),
    ("targets", "set", "0.0", "--bandwidth", "1MB/s"),
    ("target", "retire", "0.0"),
    ("status",),
    ("jobs",),
    ("df",),
    ("top", "--once", "--interval", "0.1"),
    ("fsck",),
    ("guard", "--seconds", "1"),
)
"""Commands that an administrator gives, and that end by themselves."""


@dataclass
class Thief:
    """A program that listens where a server did, and keeps what it hears."""

    listener: socket.socket
    answer: Callable[[bytes], bytes | None]
    heard: list[bytes] = field(default_factory=list)

    def serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                threading.Thread(target=self.hear, args=(connection,), daemon=True).start()

    def hear(self, connection: socket.socket) -> None:
        number = len(self.heard)
        self.heard.append(b"")
        with connection, contextlib.suppress(OSError):
            connection.settimeout(PATIENCE_SECONDS)
            self.heard[number] += connection.recv(1 << 16)
            answer = self.answer(self.heard[number])
            if answer is None:
                return
            connection.sendall(answer)
            while piece := connection.recv(1 << 16):
                self.heard[number] += piece


@pytest.fixture(scope="module")
def dead(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store of one server that was killed; its port is free."""
    store = Store(tmp_path_factory.mktemp("thief"))
    store.up(backend="dir", mount=False)
    kill(store.server_pids()[0])
    try:
        yield store
    finally:
        store.weir("down", "--force", "--discard", "--yes", code=None)


@contextlib.contextmanager
def thief(store: Store, answer: Callable[[bytes], bytes | None]) -> Iterator[Thief]:
    """A thief at the port of server 0."""
    (server,) = json.loads((store.home / "cluster.json").read_text())["servers"]
    host, _, port = server["control"].rpartition(":")
    with socket.create_server((host, int(port)), backlog=64) as listener:
        stranger = Thief(listener, answer)
        threading.Thread(target=stranger.serve, daemon=True).start()
        yield stranger
        listener.shutdown(socket.SHUT_RDWR)


def assert_nothing_but_flights(store: Store, heard: list[bytes]) -> None:
    """Each connection brought one flight, in which are claims that everybody may know."""
    key = (store.home / "site.key").read_text().strip()
    assert heard, "the command asked its server"
    for bytes_heard in heard:
        magic = _core.SealedChannel(0, FOREIGN).flight[:6]
        assert bytes_heard.startswith(magic)
        claims = int.from_bytes(bytes_heard[HEAD - 2 : HEAD], "little")
        assert len(bytes_heard) == HEAD + claims + MESSAGE, "a flight, and not a byte more"
        assert key.encode() not in bytes_heard and bytes.fromhex(key) not in bytes_heard
        assert b"HTTP" not in bytes_heard and b"Authorization" not in bytes_heard


FOREIGN = _core.mint_credential(
    "0" * 64,
    job="job",
    user="user",
    group="group",
    uid=1,
    gid=1,
    groups=[1],
    nodes=1,
    priority=1,
    role="administrator",
    issued_seconds=0,
    expires_seconds=1 << 40,
)
"""A credential of another site."""


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_commands_tell_a_thief_nothing_and_end(dead: Store, command: tuple[str, ...]) -> None:
    with thief(dead, ANSWERS["it answers and goes on in the clear"]) as stranger:
        said = dead.weir(*command, code=None)
        assert said.returncode == 1, said
        # The check names the servers that it did not see, and leaves the reasons to `weir status`.
        if command != ("fsck",):
            assert re.search("server 0 at .* does not answer: something else listens there", said.stderr), said.stderr
            assert "does not know the site's key" in said.stderr and "ss -ltnp" in said.stderr, said.stderr
        assert_nothing_but_flights(dead, stranger.heard)


@pytest.mark.parametrize("manner", ANSWERS, ids=lambda manner: manner.replace(" ", "-"))
def test_no_manner_of_a_thief_gets_more(dead: Store, manner: str) -> None:
    with thief(dead, ANSWERS[manner]) as stranger:
        said = dead.weir("quota", "show", code=None)
        assert said.returncode == 1
        assert "server 0 at " in said.stderr and "site's key" in said.stderr and "ss -ltnp" in said.stderr, said.stderr
        assert_nothing_but_flights(dead, stranger.heard)


def test_a_command_that_watches_tells_a_thief_nothing_and_goes_on(dead: Store) -> None:
    with thief(dead, ANSWERS["it answers and goes on in the clear"]) as stranger:
        command = [*program(), "interference", "watch"]
        watch = subprocess.Popen(command, env=dead.variables(), stderr=subprocess.PIPE, text=True)
        wait_until("it asked", lambda: bool(stranger.heard) or watch.poll() is not None)
        watch.send_signal(signal.SIGINT)
        _, words = watch.communicate(timeout=PATIENCE_SECONDS)
        assert "Traceback" not in words
        assert_nothing_but_flights(dead, stranger.heard)


def test_daemons_of_the_administrator_tell_a_thief_nothing(dead: Store) -> None:
    lines: list[str] = []
    with thief(dead, ANSWERS["it answers and goes on in the clear"]) as stranger:

        def find() -> list[object]:
            return list(servers_at(Home(dead.home)))

        Collector(find, lines.append).poll()  # type: ignore[arg-type]
        Publisher(find, lines.append).publish(Predictions(7, 1.0, (), ()))  # type: ignore[arg-type]
        assert len(lines) == 2 and all("does not know the site's key" in line for line in lines)
        assert len(stranger.heard) == 2
        assert_nothing_but_flights(dead, stranger.heard)
