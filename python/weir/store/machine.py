"""The means that a configuration needs of this machine: folders, addresses, ports and memory.

The servers are the judges of a configuration by itself (`configuration.check`). Whether this machine can run it is
found here, before anything of a store is changed.
"""

import contextlib
import errno
import fcntl
import mmap
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from weir import _core
from weir.store.configuration import Configuration
from weir.store.errors import StoreError
from weir.store.home import Home
from weir.store.values import ports as read_ports

_LISTENERS = 2
"""Addresses of a server: for clients, and for control."""
_DEFAULT_ADDRESS = "127.0.0.1:0"
_MAP_NORESERVE = 0x4000
"""Linux's flag, which Python names since 3.13 alone."""
_NAME_BYTES_MAX = 255
"""Longest name in a folder (NAME_MAX of Linux)."""


def check(home: Home, wanted: Configuration) -> None:
    """Refuse a configuration that this machine cannot run now. Nothing is left changed.

    Args:
        home: Home of the store, which need not exist.
        wanted: A configuration that the server accepts.

    Raises:
        StoreError: A folder cannot be made, or is another target's; an address is not this machine's, or named twice;
            too few ports are free; or the targets are larger than the memory that a process can have.
    """
    _check_folder(home.root, "the home")
    _check_places(home, wanted)
    _check_addresses(wanted)
    for number, server in enumerate(wanted.servers):
        _check_memory(number, server)


def _check_places(home: Home, wanted: Configuration) -> None:
    places: dict[Path, str] = {}
    for number, server in enumerate(wanted.servers):
        for index, target in enumerate(server["target"]):
            if target["backend"] != "dir":
                continue
            name = f"target {number}.{index}"
            path = Path(target.get("path") or home.server(number) / f"target-{index}")
            if "\0" in str(path):
                raise StoreError(f"{name} cannot be in {path}: the name has a NUL", hint="name another folder")
            _refuse_shared(name, path, places)
            places[path.resolve()] = name
            _check_folder(path, name)


def _refuse_shared(name: str, path: Path, places: dict[Path, str]) -> None:
    """Refuse a folder in, around or in place of another target's: their objects have the same names."""
    own = path.resolve()
    for other, holder in places.items():
        if own.is_relative_to(other) or other.is_relative_to(own):
            raise StoreError(
                f"{name} and {holder} share the folder {path}", hint="give each target a `path` of its own"
            )


def _check_folder(path: Path, name: str) -> None:
    """Refuse a folder that is not there and cannot be made, and one that a running server holds."""
    try:
        missing = [part for part in (path, *path.parents) if not os.path.lexists(part)]
        if any(len(os.fsencode(part.name)) > _NAME_BYTES_MAX for part in missing):
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
        if missing:
            # The one way to know it: rights, quotas and read-only file systems all have a say.
            missing[-1].mkdir()
            missing[-1].rmdir()
            return
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise StoreError(f"{name} cannot be in {path}: {reason}", hint="name a folder that can be made") from error
    with contextlib.closing(_Descriptor(descriptor)):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreError(
                f"{name} cannot be in {path}: another target has this directory",
                hint="give each target a `path` of its own",
            ) from None
        if not os.access(path, os.W_OK | os.X_OK):
            raise StoreError(f"{name} cannot be in {path}: you may not write there", hint="name another folder")


class _Descriptor:
    """An open file that is closed at the end of a block."""

    def __init__(self, number: int) -> None:
        self._number = number

    def close(self) -> None:
        os.close(self._number)


def _check_addresses(wanted: Configuration) -> None:
    """Bind every named address, and as many ports of a small range as the servers need.

    A server listens on another port where a program has its own, which keeps no store down.
    """
    with contextlib.ExitStack() as bound:
        left_open = 0
        named: set[str] = set()
        for server in wanted.servers:
            for key in ("listen", "control"):
                address = str(server.get(key, _DEFAULT_ADDRESS))
                if address.endswith(":0"):
                    left_open += 1
                    continue
                if address in named:
                    raise StoreError(f"two listeners have the address {address}", hint="give each a port of its own")
                named.add(address)
                try:
                    bound.enter_context(_bound(address))
                except OSError as error:
                    if error.errno != errno.EADDRINUSE:
                        raise StoreError(
                            f"cannot listen on {address}: {error.strerror}",
                            hint="name an address of this machine, and port 0 for a free one",
                        ) from error
        if "ports" in wanted.document:
            _check_ports(str(wanted.document["ports"]), left_open, bound)


@contextlib.contextmanager
def _bound(address: str) -> Iterator[None]:
    host, _, port = address.rpartition(":")
    family, kind, _, _, place = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
        listener.listen()
        yield


def _check_ports(text: str, needed: int, bound: contextlib.ExitStack) -> None:
    first, last = read_ports(text)
    if last - first + 1 >= _LISTENERS * needed:
        # Others may have some of the ports. That many are seldom all of them, and the servers look for free ones.
        return
    free = 0
    for port in range(first, last + 1):
        with contextlib.suppress(OSError):
            bound.enter_context(_bound(f"127.0.0.1:{port}"))
            free += 1
    if free < needed:
        raise StoreError(
            f"every port of {text} is in use: {needed} are needed, and {free} are free",
            hint="give a larger range of `ports`",
        )


def _check_memory(number: int, server: dict[str, Any]) -> None:
    """Reserve the addresses of all targets in memory at once, as the server does; this takes no memory."""
    reserved: list[mmap.mmap] = []
    try:
        for index, target in enumerate(server["target"]):
            if target["backend"] != "ram":
                continue
            capacity = target["capacity"]
            size = capacity if isinstance(capacity, int) else _core.parse_size(str(capacity))
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
            try:
                reserved.append(mmap.mmap(-1, size, flags=flags, prot=mmap.PROT_READ))
            except (OSError, OverflowError, ValueError) as error:
                raise StoreError(
                    f"target {number}.{index} of {capacity} is larger than the memory that a process can have",
                    hint="choose a smaller capacity",
                ) from error
    finally:
        for region in reserved:
            region.close()
