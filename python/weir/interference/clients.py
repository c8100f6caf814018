"""The windows of clients, gathered from this host and from others, each by one reader.

A reader of another host is a command that runs `weir interference gather` there, such as one of `ssh`. It writes a JSON
object for each window that has ended. All that it writes is checked. A reader that ends, or writes something else, is
told and no longer waited for.
"""

import contextlib
import json
import queue
import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import IO, Any

from weir.interference.errors import InterferenceError
from weir.store.client_windows import ClientLine, ClientWindows, look

GATHERED_VERSION = 1
"""Version of the objects that a reader writes."""
_LINE_BYTES_MAX = 16 << 20
"""Longest object: the full tables of about a hundred users, with long names."""
_WAITING_MAX = 64
"""Objects of a reader that wait to be taken; it is held up beyond them."""
_COUNT_MAX = float(1 << 53)
"""Largest count, which a JSON number has exactly."""
_WINDOWS_BEHIND_MAX = 30
"""Windows for which a reader of another host is waited for: the ring of a host has two more."""


def gathered(found: ClientWindows, window_seconds: float, after: int) -> Iterator[dict[str, Any]]:
    """The objects that a reader writes for the windows that have ended.

    Args:
        found: What one look found.
        after: Number of the last window that was written.

    Yields:
        An object for each window with operations, and one for the last window.
    """
    of_window: dict[int, list[dict[str, Any]]] = {} if found.last <= after else {found.last: []}
    for line in found.lines:
        of_window.setdefault(line.window, []).append(asdict(line))
    for number in sorted(of_window):
        yield {
            "version": GATHERED_VERSION,
            "window": number,
            "window_seconds": window_seconds,
            "lines": of_window[number],
            "left_out": found.left_out,
        }


class Clients:
    """All readers: the one of this host, and the commands of others."""

    def __init__(self, cluster: Path, commands: Sequence[str], tell: Callable[[str], None]) -> None:
        """Describe the readers. Those of other hosts are started by `running`.

        Args:
            cluster: The store's cluster.json.
            commands: Commands that run `weir interference gather` on other hosts.
            tell: Takes a line about each loss.
        """
        self._document: dict[str, Any] = json.loads(cluster.read_text())
        self._commands = commands
        self._tell = tell
        self._told: set[str] = set()
        self._left_out: int | None = None
        """Operations that were not counted up to the last look; those before the first are no loss of this reader."""
        self._hosts: list[_Host] = []
        self._own_reached = 0
        self._began = 0.0
        self._waiting: list[ClientLine] = []

    @contextlib.contextmanager
    def running(self) -> Iterator["Clients"]:
        """The readers, for the length of a block.

        Yields:
            Itself.

        Raises:
            InterferenceError: A command cannot be run.
        """
        self._began = time.time()
        with contextlib.ExitStack() as ends:
            for command in self._commands:
                host = _Host(command)
                ends.callback(host.end)
                self._hosts.append(host)
            yield self

    def look(self, after: int, window_seconds: float) -> ClientWindows:
        """Take the windows that have ended on all hosts.

        Args:
            after: Number of a window; those up to it are left out.
            window_seconds: Length of a window at the servers.

        Returns:
            The windows. A host that is more than 30 windows behind is not waited for.
        """
        found = look(self._document, max(after, self._own_reached), window_seconds=window_seconds)
        self._own_reached = found.last
        for problem in found.problems:
            self._tell_once(problem)
        more = 0 if self._left_out is None else found.left_out - self._left_out
        if more > 0:
            self._tell(f"{more} operations were not counted: there are too many jobs and devices at once")
        self._left_out = max(self._left_out or 0, found.left_out)
        last = found.last
        self._waiting += found.lines
        for host in self._hosts:
            self._waiting += host.take(after, window_seconds)
            if host.problem:
                self._tell_once(host.problem)
            else:
                last = min(last, max(host.reached, found.last - _WINDOWS_BEHIND_MAX))
        # A reader of another host may take a while to begin. Its ring has the windows since the begin here.
        first = max(found.first, int(self._began / window_seconds)) if self._hosts else found.first
        last = max(after, last)
        lines = tuple(line for line in self._waiting if after < line.window <= last)
        self._waiting = [line for line in self._waiting if line.window > last]
        return ClientWindows(lines, first, last, found.left_out, found.problems)

    def _tell_once(self, words: str) -> None:
        if words not in self._told:
            self._told.add(words)
            self._tell(words)


class _Host:
    """The reader of another host."""

    def __init__(self, command: str) -> None:
        self._command = command
        self._objects: queue.Queue[bytes] = queue.Queue(_WAITING_MAX)
        self.reached = 0
        """Number of the last window that it told."""
        self.problem = ""
        """The reason for which it is no longer waited for."""
        try:
            self._process = subprocess.Popen(shlex.split(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        except (OSError, ValueError, IndexError) as error:
            raise InterferenceError(
                f"cannot run {command!r}: {error}", hint='give a command, such as "ssh HOST weir interference gather"'
            ) from error
        assert self._process.stdout is not None
        self._thread = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._thread.start()

    def _read(self, output: IO[bytes]) -> None:
        """Read objects until the end, which is an empty one."""
        line = b"-"
        while line:
            try:
                line = output.readline(_LINE_BYTES_MAX)
            except (OSError, ValueError):
                line = b""
            self._objects.put(line)

    def take(self, after: int, window_seconds: float) -> list[ClientLine]:
        """The operations that it told since the last call."""
        found: list[ClientLine] = []
        while not self.problem:
            try:
                line = self._objects.get_nowait()
            except queue.Empty:
                break
            if not line:
                self.problem = f"`{self._command}` ended: the windows of its host are missing from now on"
                break
            try:
                number, of_window = _checked(json.loads(line), window_seconds)
            except (ValueError, TypeError, KeyError, RecursionError) as error:
                self.problem = f"`{self._command}` wrote something else than windows ({error}), and is left out"
                break
            self.reached = max(self.reached, number)
            found += of_window if number > after else []
        return found

    def end(self) -> None:
        """End the process, and the thread that reads it."""
        self._process.terminate()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        # The thread may be held up by a queue that is full. It stays where a child of the process has the output.
        limit = time.monotonic() + _END_SECONDS
        while self._thread.is_alive() and time.monotonic() < limit:
            with contextlib.suppress(queue.Empty):
                self._objects.get(timeout=_DRAIN_SECONDS)
        if self._process.stdout is not None and not self._thread.is_alive():
            self._process.stdout.close()


_END_SECONDS = 5.0
"""Time in which a reader has to end."""
_DRAIN_SECONDS = 0.05


def _checked(document: Any, window_seconds: float) -> tuple[int, list[ClientLine]]:
    """The number and the lines of an object.

    Raises:
        ValueError: It is none, or has numbers outside of their bounds.
    """
    if not isinstance(document, dict) or document.get("version") != GATHERED_VERSION:
        raise ValueError(f"no object of version {GATHERED_VERSION}")
    if document["window_seconds"] != window_seconds:
        raise ValueError(f"windows of {document['window_seconds']} s, and the servers' have {window_seconds} s")
    number, lines = document["window"], document["lines"]
    if not isinstance(number, int) or not 0 <= number < _COUNT_MAX or not isinstance(lines, list):
        raise ValueError("no window")
    return number, [_line(line, number) for line in lines]


def _line(document: Mapping[str, Any], number: int) -> ClientLine:
    line = ClientLine(**document)
    for name in (each.name for each in fields(ClientLine)):
        value = getattr(line, name)
        is_text = name in ("job", "device")
        if is_text != isinstance(value, str) or isinstance(value, bool):
            raise ValueError(f"{name} is {value!r}")
        if not is_text and not (isinstance(value, int | float) and 0 <= value < _COUNT_MAX):
            raise ValueError(f"{name} is {value!r}")
    if line.window != number:
        raise ValueError("a line of another window")
    return line
