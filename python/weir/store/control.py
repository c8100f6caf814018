"""The control API of the servers of a store."""

import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir.store.errors import StoreError

TIMEOUT_SECONDS = 5.0
"""How long a server may take to answer: its control API answers beside the data path."""
_ASKED_AT_ONCE = 64
"""Servers asked at the same time: those that do not answer are waited for together, not one after the other."""

_PORT_MAX = 65535


@dataclass(frozen=True)
class Server:
    """One server of a cluster.json."""

    number: int
    control: str

    def ask(self, method: str, path: str, *, body: object = None, token: str | None = None) -> Any:
        """Send one request and return the JSON of its answer.

        Raises:
            StoreError: The server does not answer, or refuses.
        """
        import http.client

        host, _, port = self.control.rpartition(":")
        connection = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=TIMEOUT_SECONDS)
        headers = {"Content-Type": "application/json"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        try:
            with contextlib.closing(connection):
                connection.request(method, path, None if body is None else json.dumps(body), headers)
                answer = connection.getresponse()
                document = json.loads(answer.read() or b"null")
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise StoreError(
                f"server {self.number} at {self.control} does not answer: {error}",
                hint="see `weir status` and the server's log",
            ) from error
        if answer.status >= 400:
            said = document if isinstance(document, dict) else {}
            message = said.get("error") or f"{answer.status} {answer.reason}"
            raise StoreError(f"server {self.number}: {message}", hint=said.get("hint") or "")
        return document


def ask_all(servers: Sequence[Server], path: str) -> list[Any]:
    """What each server answers to `GET path`, in their order; a StoreError in the place of an answer that did not come.

    However many do not answer, all of them together take as long as one, up to the first `_ASKED_AT_ONCE`.
    """
    from concurrent.futures import ThreadPoolExecutor

    def ask(server: Server) -> Any:
        try:
            return server.ask("GET", path)
        except StoreError as failure:
            return failure

    with ThreadPoolExecutor(min(len(servers), _ASKED_AT_ONCE) or 1) as threads:
        return list(threads.map(ask, servers))


def servers_of(cluster: Path) -> list[Server]:
    """The servers of a cluster.json.

    Raises:
        StoreError: The file cannot be read.
    """
    try:
        document = json.loads(cluster.read_text())
        return [Server(int(entry["server"]), _address(entry["control"])) for entry in document["servers"]]
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise StoreError(f"cannot use {cluster}: {error}", hint="is the store up? see `weir status`") from error


def _address(text: object) -> str:
    """`host:port`, checked before anything is sent there."""
    host, _, port = str(text).rpartition(":")
    if not host.isprintable() or " " in host or not port.isascii() or not port.isdecimal() or int(port) > _PORT_MAX:
        raise ValueError(f"{text!r} is no address of a control API")
    return str(text)
