"""The planner's socket: bounded connections, bounded requests, and answers in the order of the requests."""

import asyncio
import contextlib
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator
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
from weir.planner.settings import CLIENTS_MAX, CLIENTS_PER_USER_MAX
from weir.planner.users import is_privileged

IDLE_SECONDS_MAX = 300.0
"""Time without a request after which a connection is closed."""
STALL_SECONDS_MAX = 30.0
"""Time in which a request that has begun has to come, and an answer has to be taken."""
_CREDENTIALS = struct.Struct("3i")
_BACKLOG = 128
_QUICK_BYTES = 1 << 14
"""A longer request takes a turn of the loop for its decoding alone."""


class Server:
    """A listening socket and its connections."""

    def __init__(self, service: Service, scheduler_user: int | None) -> None:
        """Take the service.

        Args:
            service: The requests.
            scheduler_user: The user who may have as many connections as root.
        """
        self._service = service
        self._scheduler_user = scheduler_user
        self._clients: Counter[int] = Counter()
        self._turns: dict[int, asyncio.Lock] = {}
        """One request of a user is decoded in a turn of the loop: many large ones would hold others up."""
        self._tasks: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def listening(self, listener: socket.socket) -> AsyncIterator[None]:
        """Answer connections within the block.

        Args:
            listener: The listening socket, which `listen` made.

        Yields:
            Nothing.
        """
        server = await asyncio.start_unix_server(self._accept, sock=listener, limit=REQUEST_BYTES_MAX)
        try:
            yield
        finally:
            server.close()
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        peer = _peer(writer)
        try:
            refused = self._refusal(peer)
            if refused is not None:
                await _send(writer, refusal(0, refused))
                return
            self._clients[peer] += 1
            try:
                await self._converse(peer, reader, writer)
            finally:
                self._clients[peer] -= 1
                if not self._clients[peer]:
                    del self._clients[peer]
                    self._turns.pop(peer, None)
        except (ConnectionError, TimeoutError):
            # The client is gone, or does not take its answers.
            pass
        finally:
            self._tasks.discard(task)
            writer.transport.abort() if writer.transport.get_write_buffer_size() else writer.close()

    def _refusal(self, peer: int) -> PlannerError | None:
        is_full = self._clients.total() >= CLIENTS_MAX
        own = 0 if is_privileged(peer, self._scheduler_user) else self._clients[peer]
        if not is_full and own < CLIENTS_PER_USER_MAX:
            return None
        words = f"{self._clients.total()} connections" if is_full else f"{own} connections of user {peer}"
        return PlannerError(f"the planner has {words}", hint="close some, or ask again later", code="busy")

    async def _converse(self, peer: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                line = await _line(reader)
            except asyncio.LimitOverrunError:
                await _send(writer, refusal(0, PlannerError(f"the request is longer than {REQUEST_BYTES_MAX} bytes")))
                return
            if not line:
                return
            await _send(writer, await self._answered(peer, line))
            # A client that asks without a pause lets the others have their turn.
            await asyncio.sleep(0)

    async def _answered(self, peer: int, line: bytes) -> Answer:
        identifier: int | str = 0
        try:
            async with self._turns.setdefault(peer, asyncio.Lock()):
                request = decode(line)
                if len(line) > _QUICK_BYTES:
                    await asyncio.sleep(0)
            identifier = request.id
            return result(identifier, await self._service.answer(peer, request))
        except PlannerError as error:
            return refusal(identifier, error)
        except WeirError as error:
            return refusal(identifier, PlannerError(error.message, hint=error.hint))
        except Exception as error:
            import logging

            # One request that meets a fault of the planner's ends neither its connection nor the others.
            logging.getLogger(__name__).exception("a request of user %d failed", peer)
            return refusal(
                identifier,
                PlannerError(f"the planner failed: {type(error).__name__}", hint="its log tells why", code="failed"),
            )


async def _line(reader: asyncio.StreamReader) -> bytes:
    """The next request without its end; empty at the end of the connection. What has begun has to end soon."""
    async with asyncio.timeout(IDLE_SECONDS_MAX):
        first = await reader.read(1)
    if first in (b"", b"\n"):
        return first.strip() or (await _line(reader) if first else b"")
    async with asyncio.timeout(STALL_SECONDS_MAX):
        try:
            return first + (await reader.readuntil(b"\n"))[:-1]
        except asyncio.IncompleteReadError as error:
            return first + error.partial


async def _send(writer: asyncio.StreamWriter, answer: Answer) -> None:
    line = encode(answer)
    if len(line) > ANSWER_BYTES_MAX:
        line = encode(refusal(answer.id, PlannerError("the answer is too long", hint="ask for less", code="failed")))
    writer.write(line)
    async with asyncio.timeout(STALL_SECONDS_MAX):
        await writer.drain()


def _peer(writer: asyncio.StreamWriter) -> int:
    connection = writer.get_extra_info("socket")
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, uid, _ = _CREDENTIALS.unpack(raw)
    return int(uid)


def listen(path: Path) -> socket.socket:
    """Make the listening socket, in the place of one that a planner left when it was killed.

    Args:
        path: The socket. Every user may connect to it.

    Returns:
        The listening socket.

    Raises:
        PlannerError: Another planner listens there, or something else is in its place.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    fresh = path.with_name(f".{path.name}.new")
    try:
        if path.is_socket():
            if _is_answered(path):
                raise PlannerError(f"a planner listens on {path}", hint="end it, or name another --socket")
        elif path.exists():
            raise PlannerError(f"{path} is no socket", hint="name another --socket")
        # A client that sees the socket may connect at once: it gets its name when it listens.
        fresh.unlink(missing_ok=True)
        listener.bind(str(fresh))
        fresh.chmod(0o666)
        listener.listen(_BACKLOG)
        fresh.rename(path)
    except OSError as error:
        listener.close()
        raise PlannerError(
            f"{path} cannot be listened on: {error.strerror or error}",
            hint="a path of at most 100 bytes in a folder that is there; see --socket",
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
