"""`weir logs`: the words of a store's servers and mounts."""

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import click

from weir.plain_text import plain
from weir.store.home import Home

_LOOK_SECONDS = 0.2
"""Pause between two looks at logs that are followed."""
_BLOCK_BYTES = 1 << 16
"""Bytes of a log that are read at once."""
_END_BYTES = 16 << 20
"""Bytes of a log in which its last lines are looked for."""
_LINE_BYTES = 4096
"""Bytes of a line that are shown."""


@click.command()
@click.argument("servers", metavar="[SERVER]...", nargs=-1, type=click.IntRange(min=0))
@click.option(
    "--mounts", "with_mounts", is_flag=True, help="Show the logs of the mounts, alone where no SERVER is named."
)
@click.option("-n", "--lines", type=click.IntRange(min=0), default=20, help="Last lines of each log.")
@click.option("-f", "--follow", is_flag=True, help="Wait for new lines, until Ctrl-C.")
@click.pass_obj
def logs(home: Home, servers: tuple[int, ...], with_mounts: bool, lines: int, follow: bool) -> None:
    """Show the last lines of the servers' logs, each behind the name of its program.

    Each line has its time and level. A log that has 1 MiB begins anew, and the one before it is kept. Logs stay when a
    store is stopped, and only the user who started the store may read them.
    """
    found = _logs(home, servers, with_mounts)
    with contextlib.ExitStack() as ends:
        for log in found:
            ends.callback(log.close)
            for line in log.last(lines):
                _show(log, line)
        while follow:
            time.sleep(_LOOK_SECONDS)
            for log in found:
                for line in log.fresh():
                    _show(log, line)


@dataclass
class _Log:
    """A log, and the place up to which it was shown."""

    name: str
    path: Path
    file: BinaryIO | None = None
    """The log that is read. Under another name, once a new log began, it is read to its end."""
    begun: bytes = b""
    """A line that is not at its end yet."""

    def last(self, count: int) -> list[bytes]:
        """The last lines, without those before them; nothing where there is no log."""
        from weir.store.processes import older_log

        self.close()
        self.file = self._opened()
        if self.file is None:
            return []
        *whole, self.begun = _end(self.file, count).split(b"\n")
        if len(whole) < count and (older := _opened(older_log(self.path))) is not None:
            with older:
                whole = [*_end(older, count - len(whole)).split(b"\n")[:-1], *whole]
        return whole[len(whole) - min(count, len(whole)) :]

    def fresh(self) -> Iterator[bytes]:
        """The lines that came since the last look, also where a new log began since."""
        while True:
            if self.file is None:
                self.file = self._opened()
            if self.file is None:
                return
            is_present = self._is_present()
            yield from self._rest(self.file)
            if is_present:
                return
            self.close()

    def close(self) -> None:
        """Close the file that is read."""
        if self.file is not None:
            self.file.close()
        self.file, self.begun = None, b""

    def _opened(self) -> BinaryIO | None:
        return _opened(self.path)

    def _is_present(self) -> bool:
        """Whether the file that is read is the log still, and was not cut."""
        assert self.file is not None
        own = os.fstat(self.file.fileno())
        try:
            named = self.path.stat()
        except FileNotFoundError:
            return True
        return os.path.samestat(own, named) and self.file.tell() <= own.st_size

    def _rest(self, file: BinaryIO) -> Iterator[bytes]:
        while block := file.read(_BLOCK_BYTES):
            *whole, begun = (self.begun + block).split(b"\n")
            self.begun = begun[:_LINE_BYTES]
            yield from whole


def _opened(path: Path) -> BinaryIO | None:
    try:
        return path.open("rb")
    except FileNotFoundError:
        return None


def _end(file: BinaryIO, count: int) -> bytes:
    """The end of a file, with `count` whole lines at least where it has as many; the file is read to its end."""
    end = at = file.seek(0, 2)
    read = b""
    while at > 0 and len(read) < _END_BYTES and read.count(b"\n") <= count:
        size = min(_BLOCK_BYTES, at)
        at = file.seek(at - size)
        read = file.read(size) + read
    file.seek(end)
    return read


def _logs(home: Home, servers: tuple[int, ...], with_mounts: bool) -> list[_Log]:
    from weir.cli.elsewhere import place_of, refuse_elsewhere
    from weir.cli.errors import CommandError
    from weir.store import mounts

    present = home.server_numbers()
    if servers or not with_mounts:
        refuse_elsewhere(home, "`weir logs`")
    if not present and not mounts.mounts_of(home):
        raise CommandError(
            f"{home.root} has no servers, and so no logs", hint="name the store with --home or WEIR_HOME"
        )
    for number in servers:
        if number not in present:
            place = place_of(home, number)
            hint = f"its servers are {', '.join(map(str, present))}"
            raise CommandError(
                f"there is no server {number} in {home.root}",
                hint=hint if place is None else f"call `weir logs {number}` on {place}",
            )
    wanted = servers or (() if with_mounts else tuple(present))
    found = [_Log(f"server {number}", home.log(number)) for number in wanted]
    if with_mounts:
        found += [_Log(f"mount {mount.point}", mount.log) for mount in mounts.mounts_of(home)]
    return found


def _show(log: _Log, line: bytes) -> None:
    words = line[:_LINE_BYTES].decode(errors="replace")
    print(f"{log.name} | {plain(words)}", flush=True)
