"""A process that keeps a host's servers and mount inside of an allocation.

Slurm and Flux end what a step started when the step ends. So one lasting step on each host runs a keeper, and the short
steps of `weir agent` have it do what starts programs.
"""

import contextlib
import json
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from weir.store.errors import StoreError
from weir.store.home import Home

_BEGIN_SECONDS = 120.0
"""Longest time until a keeper listens after its step was begun, on a busy machine."""
_ANSWER_SECONDS = 300.0
"""Longest time until a keeper has answered."""
_DOCUMENT_BYTES_MAX = 64 << 20
"""Longest request or answer that is read."""

Do = Callable[[str, object], dict[str, Any]]
"""Does an operation by its name with a request, and returns the answer, as `weir.deployment.agent.do`."""


def socket_of(home: Home) -> Path:
    """Name the socket of a home's keeper.

    Args:
        home: Home of the host.
    """
    return home.root / "keeper"


def keep(home: Home, do: Do, last: str) -> None:
    """Do operations for other processes of this user, until one of them is the last.

    Args:
        home: Home of the host, which is made.
        do: Does an operation.
        last: Name of the operation after which the keeper ends, once it succeeded.

    Raises:
        OSError: The socket cannot be made.
    """
    home.create()
    path = socket_of(home)
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        former = os.umask(0o177)
        try:
            listener.bind(str(path))
        finally:
            os.umask(former)
        listener.listen()
        try:
            while not _serve(listener, do, last):
                pass
        finally:
            path.unlink(missing_ok=True)


def ask(home: Home, name: str, document: object, *, patiently: bool) -> dict[str, Any] | None:
    """Have a home's keeper do an operation.

    Args:
        home: Home of the host.
        document: Its request.
        patiently: Whether to wait for a keeper whose step has just begun.

    Returns:
        The answer; None where there is no keeper, and `patiently` is not given.

    Raises:
        StoreError: No keeper listens in time, or it does not answer.
    """
    deadline = time.monotonic() + _BEGIN_SECONDS
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        while True:
            try:
                line.connect(str(socket_of(home)))
                break
            except (FileNotFoundError, ConnectionRefusedError):
                if not patiently:
                    return None
                if time.monotonic() > deadline:
                    raise StoreError(
                        f"the step that keeps the servers did not begin within {_BEGIN_SECONDS:.0f} s",
                        hint="see the logs in the folder `deployment` of the home where the store was deployed from",
                    ) from None
                time.sleep(0.05)
        line.settimeout(_ANSWER_SECONDS)
        try:
            line.sendall(json.dumps({"operation": name, "request": document}).encode())
            line.shutdown(socket.SHUT_WR)
            answer: dict[str, Any] = json.loads(_read(line))
        except (OSError, ValueError) as error:
            raise StoreError(f"the step that keeps the servers does not answer: {error}") from error
        return answer


def _serve(listener: socket.socket, do: Do, last: str) -> bool:
    """Serve one caller; return whether that was the last operation."""
    line, _ = listener.accept()
    with line, contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        line.settimeout(_ANSWER_SECONDS)
        wanted = json.loads(_read(line))
        answer = do(wanted["operation"], wanted["request"])
        line.sendall(json.dumps(answer).encode())
        return wanted["operation"] == last and "answer" in answer
    return False


def _read(line: socket.socket) -> bytes:
    """Read everything that the other side sends."""
    parts, size = [], 0
    while part := line.recv(1 << 16):
        parts.append(part)
        size += len(part)
        if size > _DOCUMENT_BYTES_MAX:
            raise ValueError(f"a document is longer than {_DOCUMENT_BYTES_MAX} bytes")
    return b"".join(parts)
