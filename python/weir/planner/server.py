"""The planner's sockets: bounded connections, bounded requests, and answers in the order of the requests.

Ordinary users share one socket. Root and the scheduler's user have another one beside it, because whoever connects
fastest fills the kernel's queue of a socket.
"""

import asyncio
import contextlib
import logging
import os
import socket
import struct
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from weir.errors import WeirError
from weir.planner.errors import PlannerError
from weir.planner.protocol import (
    ANSWER_BYTES_MAX,
    REQUEST_BYTES_MAX,
    Answer,
    decode,
    encode,
    refusal,
    result,
)
from weir.planner.service import Service
from weir.planner.settings import CLIENTS_MAX, CLIENTS_PER_USER_MAX, PRIVILEGED_CLIENTS_MAX
from weir.planner.turns import Peer, Turns
from weir.planner.users import is_privileged

IDLE_SECONDS_MAX = 300.0
"""Time without a request after which a connection is closed."""
STALL_SECONDS_MAX = 30.0
"""Time in which a request that has begun has to come, and an answer has to be taken."""
_LOGGED = frozenset({"infeasible", "failed"})
"""Kinds of refusals that the log has: those that an administrator may have to mend."""
_LOG = logging.getLogger("weir.planner")
_CREDENTIALS = struct.Struct("3i")
_BACKLOG = 256
"""Connections that the kernel keeps until they are accepted or refused."""
_ACCEPTS_MAX = 16
"""Connections that are accepted in one turn of the loop, some 20 us each: many new ones do not hold up those that are
there, nor slurmctld's."""
_EXHAUSTED_SECONDS = 0.2
"""Pause where the system has no descriptor for another connection."""


@dataclass(eq=False)
class _Connection:
    """A connection and its wait for the client."""

    peer: Peer
    task: asyncio.Task[None] | None = None
    waits_since: float | None = field(default_factory=time.monotonic)
    """Begin of the wait for a request, or until an answer is taken; None while a request is worked on."""


class Server:
    """The listening sockets and their connections."""

    def __init__(self, service: Service, scheduler_user: int | None) -> None:
        """Take the service.

        Args:
            scheduler_user: The user who has connections of a budget apart, as root has.
        """
        self._service = service
        self._scheduler_user = scheduler_user
        self._connections: dict[Peer, set[_Connection]] = {}
        self._turns = Turns()
        """Turns at the event loop."""

    @contextlib.asynccontextmanager
    async def listening(self, *listeners: socket.socket) -> AsyncIterator[None]:
        """Answer connections within the block.

        Args:
            listeners: The listening sockets, which `listen` made.

        Yields:
            Nothing.
        """
        loop = asyncio.get_running_loop()
        for listener in listeners:
            loop.add_reader(listener, self._accept, listener)
        try:
            yield
        finally:
            for listener in listeners:
                loop.remove_reader(listener)
                listener.close()
            tasks = [each.task for own in self._connections.values() for each in own if each.task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _accept(self, listener: socket.socket) -> None:
        """Accept some connections. One that is refused costs no task and no buffer."""
        for _ in range(_ACCEPTS_MAX):
            try:
                accepted, _address = listener.accept()
            except (BlockingIOError, ConnectionError, InterruptedError):
                return
            except OSError:
                # The process or the machine has no free descriptor. The kernel keeps the connection.
                loop = asyncio.get_running_loop()
                loop.remove_reader(listener)
                loop.call_later(_EXHAUSTED_SECONDS, self._resume, listener)
                return
            accepted.setblocking(False)
            peer = self._peer(accepted)
            refused = self._refusal(peer)
            if refused is not None:
                with accepted, contextlib.suppress(OSError):
                    accepted.send(encode(refusal(0, refused)))
                continue
            connection = _Connection(peer)
            self._connections.setdefault(peer, set()).add(connection)
            connection.task = asyncio.ensure_future(self._serve(connection, accepted))

    def _resume(self, listener: socket.socket) -> None:
        if listener.fileno() >= 0:
            asyncio.get_running_loop().add_reader(listener, self._accept, listener)

    def _peer(self, accepted: socket.socket) -> Peer:
        raw = accepted.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        _, uid, _ = _CREDENTIALS.unpack(raw)
        return Peer(int(uid), is_privileged(int(uid), self._scheduler_user))

    def _refusal(self, peer: Peer) -> PlannerError | None:
        """Refuse a connection over a limit. A user without room takes it from the one who has most connections."""
        own = len(self._connections.get(peer, ()))
        if own >= CLIENTS_PER_USER_MAX and not peer.is_privileged:
            words = f"{own} connections of user {peer.uid}"
        else:
            like = [found for each, found in self._connections.items() if each.is_privileged == peer.is_privileged]
            total = sum(map(len, like))
            if total < (PRIVILEGED_CLIENTS_MAX if peer.is_privileged else CLIENTS_MAX):
                return None
            if not peer.is_privileged and _displaced(like, own):
                return None
            words = f"{total} connections"
        return PlannerError(f"the planner has {words}", hint="close some, or ask again later", code="busy")

    def _forget(self, connection: _Connection) -> None:
        own = self._connections.get(connection.peer, set())
        own.discard(connection)
        if not own:
            self._connections.pop(connection.peer, None)

    async def _serve(self, connection: _Connection, accepted: socket.socket) -> None:
        try:
            # A client that is gone, or does not take its answers, is left.
            with contextlib.suppress(OSError):
                opening = asyncio.open_unix_connection(sock=accepted, limit=REQUEST_BYTES_MAX)
                reader, writer = await self._turns.charged(connection.peer, opening)
                try:
                    await self._converse(connection, reader, writer)
                finally:
                    writer.transport.abort() if writer.transport.get_write_buffer_size() else writer.close()
        finally:
            accepted.close()
            self._forget(connection)

    async def _converse(
        self, connection: _Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while True:
            try:
                line = await _line(reader)
            except asyncio.LimitOverrunError:
                await _send(writer, encode(_too_long()))
                return
            if not line:
                return
            connection.waits_since = None
            answer = await self._turns.charged(connection.peer, self._answered(connection.peer, line))
            connection.waits_since = time.monotonic()
            await _send(writer, answer)

    async def _answered(self, peer: Peer, line: bytes) -> bytes:
        """The answer to a request, as it is sent: its reading and its writing are work of the user's, too."""
        identifier: int | str = 0
        try:
            request = decode(line)
            identifier = request.id
            found = encode(result(identifier, await self._service.answer(peer, request)))
            if len(found) > ANSWER_BYTES_MAX:
                raise PlannerError("the answer is too long", hint="ask for less", code="failed")
            return found
        except PlannerError as error:
            _log_refusal(peer, error)
            return encode(refusal(identifier, error))
        except WeirError as error:
            return encode(refusal(identifier, PlannerError(error.message, hint=error.hint)))
        except Exception as error:
            # One request that meets a fault of the planner's ends neither its connection nor the others.
            _LOG.exception("a request of user %d failed", peer.uid)
            fault = PlannerError(f"the planner failed: {type(error).__name__}", hint="its log tells why", code="failed")
            return encode(refusal(identifier, fault))


def _log_refusal(peer: Peer, error: PlannerError) -> None:
    """Log a request that failed, or whose plan cannot be; requests that are wrong are their user's own affair."""
    if error.code in _LOGGED:
        _LOG.info("a request of user %d is refused: %s", peer.uid, error.message)


def _displaced(connections: list[set[_Connection]], own: int) -> bool:
    """End the connection that has waited longest for its client, of the user who has most and more than `own`."""
    most = max(connections, key=len)
    waiting = [each for each in most if each.waits_since is not None]
    if len(most) <= own + 1 or not waiting:
        return False
    longest = min(waiting, key=lambda each: each.waits_since or 0.0)
    assert longest.task is not None
    longest.task.cancel()
    most.discard(longest)
    return True


async def _line(reader: asyncio.StreamReader) -> bytes:
    """The next request without its end; empty at the end of the connection. A request that has begun ends soon."""
    async with asyncio.timeout(IDLE_SECONDS_MAX):
        while (first := await reader.read(1)) == b"\n":
            # Empty lines in a buffer are read without a wait.
            await asyncio.sleep(0)
    if not first:
        return first
    async with asyncio.timeout(STALL_SECONDS_MAX):
        try:
            return first + (await reader.readuntil(b"\n"))[:-1]
        except asyncio.IncompleteReadError as error:
            return first + error.partial


def _too_long() -> Answer:
    return refusal(0, PlannerError(f"the request is longer than {REQUEST_BYTES_MAX} bytes"))


async def _send(writer: asyncio.StreamWriter, answer: bytes) -> None:
    writer.write(answer)
    async with asyncio.timeout(STALL_SECONDS_MAX):
        await writer.drain()


def listen(path: Path, *, owner: int | None = None) -> socket.socket:
    """Make a listening socket, in the place of one that a planner left when it was killed.

    Args:
        path: The socket.
        owner: The one user who may connect to it, beside root; None for every user.

    Raises:
        PlannerError: Another planner listens there, or something else is in its place.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    fresh = path.with_name(f".{path.name}.new")
    try:
        if path.is_socket():
            if _is_answered(path):
                raise PlannerError(f"a planner listens on {path}", hint="end it, or name another `socket`")
        elif path.exists():
            raise PlannerError(f"{path} is no socket", hint="name another `socket`")
        # A client that sees the socket may connect at once: it gets its name when it listens.
        fresh.unlink(missing_ok=True)
        listener.bind(str(fresh))
        fresh.chmod(0o666 if owner is None else 0o600)
        if owner not in (None, os.geteuid()):
            os.chown(fresh, owner, -1)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
        fresh.rename(path)
    except OSError as error:
        listener.close()
        raise PlannerError(
            f"{path} cannot be listened on: {error.strerror or error}",
            hint="a path of at most 90 bytes in a folder that is there; see `socket`",
        ) from error
    except PlannerError:
        listener.close()
        raise
    return listener


def _is_answered(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except BlockingIOError:
            # Its queue is full, so somebody listens.
            return True
        except OSError:
            return False
        return True
