"""A client of the planner, for Python programs and the command line."""

import os
import socket
import struct
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec

from weir.planner.errors import PlannerError
from weir.planner.places import found_socket, reserved
from weir.planner.protocol import (
    ANSWER_BYTES_MAX,
    WAIT_SECONDS_MAX,
    Answer,
    AnyRequest,
    AnyResult,
    List,
    Listed,
    Summary,
    check,
)

_CONNECT_SECONDS = 5
_ANSWER_SECONDS = 180.0
"""Longest wait for an answer: a large log is parsed within the planner's own bound."""
Result = TypeVar("Result", bound=AnyResult)


class Client:
    """A connection to a planner. One request waits for its answer at a time."""

    def __init__(self, path: Path | None = None, *, answer_seconds: float = _ANSWER_SECONDS) -> None:
        """Connect.

        Args:
            path: The socket; None for that of `places.found_socket`. Where this user may use the one that is reserved
                for root and the scheduler's user, that one is taken.
            answer_seconds: Longest wait for an answer.

        Raises:
            PlannerError: No planner listens there.
        """
        place = path or found_socket()
        if os.access(reserved(place), os.W_OK):
            place = reserved(place)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # With a bound of Python's own the call would not wait for room in the queue of the socket.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", _CONNECT_SECONDS, 0))
        try:
            self._socket.connect(str(place))
        except OSError as error:
            self._socket.close()
            raise PlannerError(
                f"no planner answers on {place}: {error.strerror or error}",
                hint="start one with `weir planner`, or name its socket by WEIR_PLANNER",
                code="failed",
            ) from error
        self._rest = b""
        self._count = 0
        self._answer_seconds = answer_seconds

    def ask(self, request: AnyRequest, kind: type[Result]) -> Result:
        """Ask and wait for the answer.

        Args:
            request: The request; its `id` is set.
            kind: Type of the result, which follows from the request.

        Raises:
            PlannerError: The planner refused the request, or went away.
        """
        check(request)
        self._count += 1
        request.id = self._count
        wait = getattr(request, "wait_seconds", 0.0)
        self._socket.settimeout(self._answer_seconds + min(wait, WAIT_SECONDS_MAX))
        try:
            self._socket.sendall(msgspec.json.encode(request) + b"\n")
            answer = msgspec.json.decode(self._line(), type=Answer)
        except OSError as error:
            raise PlannerError(
                f"the planner went away: {error.strerror or error}", hint="ask again", code="failed"
            ) from error
        except msgspec.MsgspecError as error:
            raise PlannerError(f"the planner's answer cannot be read: {error}", code="failed") from error
        if answer.error is not None:
            raise PlannerError(answer.error.message, hint=answer.error.hint, code=answer.error.code)
        try:
            return msgspec.convert(answer.result, kind)
        except msgspec.ValidationError as error:
            raise PlannerError(
                f"the planner's answer cannot be read: {error}", hint="does it have another version?", code="failed"
            ) from error

    def deployments(self, *, all_users: bool = False, ended: bool = False) -> list[Summary]:
        """List deployments, page by page.

        Args:
            all_users: Whether those of every user are listed: for root and the scheduler's user alone.
            ended: Whether ended ones are listed, too.

        Raises:
            PlannerError: The planner refused a request, or went away.
        """
        found: list[Summary] = []
        after = ""
        while True:
            page = self.ask(List(all_users=all_users, ended=ended, after=after), Listed)
            found += page.deployments
            after = page.next
            if not after:
                return found

    def close(self) -> None:
        """End the connection."""
        self._socket.close()

    def __enter__(self) -> Self:
        """Begin a block that ends the connection."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the connection.

        Args:
            kind: Type of the error that ends the block.
        """
        self.close()

    def _line(self) -> bytes:
        parts: list[Any] = [self._rest]
        size = len(self._rest)
        while b"\n" not in parts[-1]:
            received = self._socket.recv(1 << 16)
            size += len(received)
            if not received or size > ANSWER_BYTES_MAX + (1 << 16):
                raise ConnectionResetError(104, "the connection was closed")
            parts.append(received)
        line, _, self._rest = b"".join(parts).partition(b"\n")
        return line
