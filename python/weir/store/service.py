"""Servers and mounts in the foreground, for a supervisor such as systemd, which starts them anew.

The process takes its record in the home before it becomes the program, so every command knows it as one of its own:
`weir status`, `weir down`, and `weir up` beside it.
"""

import os
from pathlib import Path
from typing import Any, NoReturn

from weir import native
from weir.store import cluster, mount_points, mounts, window_folders
from weir.store.configuration import is_shaped, read_toml
from weir.store.environment import without_store
from weir.store.errors import StoreError
from weir.store.files import make_folder
from weir.store.home import Home
from weir.store.processes import Process
from weir.ways import write_whole


def serve(home: Home, number: int) -> NoReturn:
    """Become a server of the store in a home.

    Args:
        home: Home of the store, with its key and its configuration.

    Raises:
        StoreError: There is no such server, its addresses are not fixed, or it runs already.
        OSError: The home cannot be written, or the program cannot be executed.
    """
    tables = _servers(home)
    if number >= len(tables):
        raise StoreError(f"{home.configuration} has no server {number}", hint=f"its servers are 0 to {len(tables) - 1}")
    if home.sealed(number).is_dir():
        raise StoreError(
            f"server {number} went from here to another host", hint=f"disable its unit here: weir-server@{number}"
        )
    program = native.server_program()
    with home.locked():
        _refuse_running(home.record(number), f"server {number}")
        make_folder(home.server(number), home.passage)
        _publish(home)
        _record(home.record(number))
    words = [str(program), "--config", str(home.configuration), "--home", str(home.root), "--server", str(number)]
    os.chdir(home.root)
    os.execve(program, words, without_store(os.environ) | window_folders.variables(os.environ))


def mount(home: Home, point: Path) -> NoReturn:
    """Become the program of a mount, which waits for the servers.

    Raises:
        StoreError: There is no store, its addresses are not known here, something else is mounted there, or it is
            mounted there already.
        OSError: The home cannot be written, or the program cannot be executed.
    """
    program = native.mount_program()
    credential = home.credentials / "mount.json"
    with home.locked():
        _publish(home)
        found = mounts.reserved(home, point, credential=credential)
        _record(found.record)
        folder = mount_points.prepare(point, found.marker)
        if folder is not None and os.geteuid() == 0:
            # Root mounts on a folder into which nobody can write.
            mount_points.protect(folder)
    words = [str(program), "--cluster", str(home.cluster), "--credential", str(credential), str(point)]
    os.chdir("/")
    os.execve(program, words, without_store(os.environ) | window_folders.variables(os.environ))


def _servers(home: Home) -> list[dict[str, Any]]:
    """The servers of the configuration, each with fixed addresses."""
    if not home.configuration.is_file() or home.read_site_key() is None:
        raise StoreError(
            f"{home.root} has no store yet", hint="bring it up once: `weir deploy`, or `weir up` with a cluster.toml"
        )
    document = read_toml(home.configuration)
    if not is_shaped(document):
        raise StoreError(f"{home.configuration} has no servers", hint="bring the store up once, which writes it")
    tables: list[dict[str, Any]] = document["server"]
    for number, table in enumerate(tables):
        if any(str(table.get(key, ":0")).endswith(":0") for key in ("listen", "control")):
            raise StoreError(
                f"server {number} has no fixed `listen` and `control` in {home.configuration}",
                hint="clients know a server that is started anew by its ports: name them in cluster.toml, or use "
                "`weir deploy`",
            )
    return tables


def _publish(home: Home) -> None:
    """Tell the addresses of the servers, where `weir down` took them away, or a boot the copy for other users."""
    if not home.cluster.is_file():
        cluster.publish(home, [_address(home, number, table) for number, table in enumerate(_servers(home))])
    elif not cluster.announced(home).is_file():
        cluster.publish(home, cluster.published(home))


def _address(home: Home, number: int, table: dict[str, Any]) -> dict[str, Any]:
    # Servers of other hosts have no folder here, and no socket.
    socket = str(home.server(number) / "socket") if home.server(number).is_dir() else None
    address = {"server": number, "tcp": table["listen"], "unix": socket, "control": table["control"]}
    return {**address, "owner": home.root.stat().st_uid}


def _refuse_running(record: Path, name: str) -> None:
    process = Process.recorded(record)
    if process is not None and process.is_alive() and process.pid != os.getpid():
        hint = "see `weir status`; `weir down` ends it"
        raise StoreError(f"{name} runs already, as process {process.pid}", hint=hint)


def _record(record: Path) -> None:
    """Record this process, which has the same number and start when it is the program."""
    process = Process.current()
    write_whole(record, f"{process.pid} {process.start_ticks} {process.boot}\n", mode=0o644)
