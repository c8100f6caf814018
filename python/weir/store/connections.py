"""Connections to the control API: in the clear, or sealed by a channel in which both sides prove themselves.

A client with a proof sends nothing of a request before the server has proved that it is the one that is meant: a port
that a server left may be anybody's.
"""

import http.client
import io
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from weir import _core
from weir.store.errors import UnprovenServerError

if TYPE_CHECKING:
    from weir.store.access import Access

_REQUEST_SECONDS = 120.0
"""Longest time for a request with its answer, however small the pieces in which the answer comes."""
_FOREIGN = "something else listens there that does not know the site's key"
_ENDED = f"{_FOREIGN} (it ended the connection)"
_PIECE_BYTES = 1 << 16
"""Bytes that are taken from a socket at once."""


class Connection(http.client.HTTPConnection):
    """A connection for one request, in which each wait ends."""

    def __init__(self, number: int, control: str, timeout_seconds: float, access: "Access | None") -> None:
        """Name a server; nothing is sent.

        Args:
            control: Address of its control API, `HOST:PORT`.
            timeout_seconds: Longest time without a byte of the server, and until it has proved itself.
            access: The proof of this process; None is a connection in the clear.
        """
        host, _, port = control.rpartition(":")
        super().__init__(host.strip("[]"), int(port), timeout=timeout_seconds)
        self._number = number
        self._control = control
        self._seconds = timeout_seconds
        self._access = access

    def connect(self) -> None:
        """Reach the server, and have it prove itself.

        Raises:
            UnprovenServerError: Another program listens there.
            OSError: Nothing listens there, or no answer comes in time.
        """
        connected = socket.create_connection((self.host, self.port), self._seconds)
        try:
            # Head and body are two writes: the second would wait for the acknowledgement of the first.
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # http.client takes a socket by its methods `sendall`, `makefile` and `close`.
            self.sock: Any = self._line(connected)
        except BaseException:
            connected.close()
            raise

    def _line(self, connected: socket.socket) -> "_Line":
        if self._access is None:
            return _Line(connected, self._seconds)
        return _SealedLine(connected, self._seconds, self._proved(connected, self._access.credential()))

    def _proved(self, connected: socket.socket, credential: str) -> "_core.SealedChannel":
        """The channel to a server that has proved itself; until then all waits end together."""
        channel = _core.SealedChannel(self._number, credential)
        line, deadline = _Line(connected, self._seconds), time.monotonic() + self._seconds
        answer = b""
        try:
            line.sendall(channel.flight)
            while len(answer) < channel.ANSWER_BYTES:
                piece = line.receive(channel.ANSWER_BYTES - len(answer), deadline)
                if not piece:
                    raise self._unproven(_ENDED)
                answer += piece
            channel.finish(answer)
        except TimeoutError as error:
            raise self._unproven(
                f"it took the connection and did not prove itself in {self._seconds:g} s: it hangs, or something else "
                "listens there that does not know the site's key"
            ) from error
        except (ConnectionResetError, BrokenPipeError) as error:
            raise self._unproven(_ENDED) from error
        except ValueError as error:
            raise self._unproven(f"{_FOREIGN} ({error})") from error
        return channel

    def _unproven(self, why: str) -> UnprovenServerError:
        port = self._control.rpartition(":")[2]
        return UnprovenServerError(
            f"server {self._number} at {self._control} does not answer: {why}; it was told nothing",
            hint=f"`ss -ltnp 'sport = :{port}'` shows the program that listens there: end it, and start the server by "
            "`weir up`. A server that does listen there has another site.key",
        )


class _Line:
    """A socket in which each wait, and all waits together, end. http.client closes it before it reads the answer."""

    def __init__(self, connected: socket.socket, seconds: float) -> None:
        self._socket = connected
        self._seconds = seconds
        self._until = time.monotonic() + _REQUEST_SECONDS
        self._has_reader = False

    def sendall(self, content: bytes) -> None:
        self._limit(self._until)
        self._socket.sendall(content)

    def receive(self, count: int, until: float) -> bytes:
        self._limit(until)
        return self._socket.recv(count)

    def read(self, count: int) -> bytes:
        return self.receive(count, self._until)

    def makefile(self, _mode: str) -> io.BufferedReader:
        self._has_reader = True
        return io.BufferedReader(_Reader(self.read, self._socket.close), _PIECE_BYTES)

    def close(self) -> None:
        if not self._has_reader:
            self._socket.close()

    def _limit(self, until: float) -> None:
        left = min(self._seconds, until - time.monotonic())
        if left <= 0:
            raise TimeoutError("timed out")
        self._socket.settimeout(left)


class _SealedLine(_Line):
    """A socket whose bytes are sealed."""

    def __init__(self, connected: socket.socket, seconds: float, channel: "_core.SealedChannel") -> None:
        super().__init__(connected, seconds)
        self._channel = channel
        self._opened = b""

    def sendall(self, content: bytes) -> None:
        super().sendall(self._channel.seal(content))

    def read(self, count: int) -> bytes:
        while not self._opened:
            piece = super().read(_PIECE_BYTES)
            if not piece:
                return b""
            self._opened = self._channel.open(piece)
        taken, self._opened = self._opened[:count], self._opened[count:]
        return taken


class _Reader(io.RawIOBase):
    """The bytes of a connection as a file."""

    def __init__(self, read: Callable[[int], bytes], end: Callable[[], None]) -> None:
        super().__init__()
        self._read = read
        self._end = end

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._read(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        super().close()
        self._end()
