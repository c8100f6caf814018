"""Start and stop of a store's servers, without a half-started store left behind.

cluster.json is written when every server answers, and removed before the first server is stopped: where the file is,
the store is up.
"""

import contextlib
import json
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weir import native
from weir.store import mount_points, processes, taken_ports, values
from weir.store.access import server_at, servers_at
from weir.store.client_windows import WINDOW_SECONDS
from weir.store.configuration import Configuration, read_toml
from weir.store.errors import AnswerError, StoreError
from weir.store.files import make_folder, remove_folder
from weir.store.home import Home
from weir.store.mounts import ANNOUNCEMENT
from weir.store.notices import Listener, Notice
from weir.store.processes import Process
from weir.ways import write_whole

if TYPE_CHECKING:
    from weir.store.answers import Status
    from weir.store.control import Server

_START_SECONDS = 60.0
"""Longest time until a server listens, on a busy machine: a `dir` server replays its journal first."""


_LOSS = "accepted the loss of"
"""Words with which a server's log tells what its journal gave up."""


def is_down(home: Home) -> bool:
    """Decide whether no server has run since the machine came up, so that the store has no clients either.

    Returns:
        Whether no record names a process of this boot.
    """
    records = [Process.recorded(home.record(number)) for number in home.server_numbers()]
    return not any(process is not None and process.is_of_this_boot() for process in records)


def start(
    home: Home, configuration: Configuration, listener: Listener, *, accept_journal_loss: bool = False
) -> list[dict[str, Any]]:
    """Start every server and wait until all of them answer.

    Args:
        listener: Called with the losses of the journals, and with ports that other programs have.
        accept_journal_loss: Whether to start also servers whose journals lost changes that were on stable storage.

    Returns:
        The servers' addresses, as in cluster.json.

    Raises:
        StoreError: A server did not start. The servers that did are stopped again.
    """
    write_whole(home.configuration, configuration.text())
    numbers = list(range(len(configuration.servers)))
    addresses = start_servers(home, home.configuration, numbers, listener, accept_journal_loss=accept_journal_loss)
    try:
        publish(home, addresses)
    except BaseException:
        stop(home)
        raise
    return addresses


def installed_version() -> str:
    """Ask for the version of the servers that this home would start.

    Raises:
        NotInstalledError: The program is missing, or does not tell.
    """
    return native.server_version()


def dead_servers(home: Home) -> list[int]:
    """Find the servers of a store that is up whose processes have ended.

    Returns:
        Numbers of the servers.

    Raises:
        StoreError: cluster.json cannot be read.
    """
    return [server.number for server in servers_at(home) if not _is_alive(home, server.number)]


def published(home: Home) -> list[dict[str, Any]]:
    """Read the addresses of a store that is up.

    Returns:
        The servers' addresses, as in cluster.json.
    """
    addresses: list[dict[str, Any]] = json.loads(home.cluster.read_text())["servers"]
    return addresses


def stopped_journals(home: Home) -> list[tuple[int, str]]:
    """Find the servers of a store that is up which take no changes, because their journals' devices failed.

    Returns:
        Number of each such server, and the failure. Servers that do not answer are left out.

    Raises:
        StoreError: cluster.json cannot be read.
    """
    stopped = []
    for server in servers_at(home):
        with contextlib.suppress(StoreError):
            journal = server.status().journal
            if journal is not None and journal.state == "stopped":
                stopped.append((server.number, str(journal.error)))
    return stopped


def restart(
    home: Home, numbers: list[int], listener: Listener, *, accept_journal_loss: bool = False
) -> list[dict[str, Any]]:
    """Start servers of a running store again, each at the address that its clients know, unless another program has it.

    Args:
        listener: As for `start`.
        accept_journal_loss: As for `start`.

    Returns:
        The addresses of all servers, as in cluster.json.

    Raises:
        StoreError: A server did not start. The other servers of the store go on.
    """
    addresses = published(home)
    document = read_toml(home.configuration)
    for address in addresses:
        table = document["server"][address["server"]]
        table.update(listen=address["tcp"], control=address["control"])
    pinned = home.root / "restart.toml"
    write_whole(pinned, Configuration(document).text())
    started = start_servers(home, pinned, numbers, listener, accept_journal_loss=accept_journal_loss)
    fresh = {address["server"]: address for address in started}
    addresses = [fresh.get(address["server"], address) for address in addresses]
    publish(home, addresses)
    return addresses


def restart_server(home: Home, number: int, listener: Listener) -> None:
    """Stop one server of a running store in order, and start it again at its address.

    Args:
        listener: As for `start`.

    Raises:
        StoreError: The server did not start again.
    """
    stop_servers(home, [number])
    restart(home, [number], listener)


def stop(home: Home) -> int:
    """Stop every server that runs.

    Returns:
        Number of servers that ran.
    """
    home.cluster.unlink(missing_ok=True)
    announcement = home.announcement()
    if announcement is not None:
        (announcement / "cluster.json").unlink(missing_ok=True)
        (announcement / ANNOUNCEMENT).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            announcement.rmdir()
    return stop_servers(home, home.server_numbers())


def start_servers(
    home: Home, configuration: Path, numbers: list[int], listener: Listener, *, accept_journal_loss: bool = False
) -> list[dict[str, Any]]:
    """Start servers of a store, and wait until they answer.

    Args:
        configuration: File of their configuration.
        listener: As for `start`.
        accept_journal_loss: Whether to start also servers whose journals lost changes that were on stable storage.

    Returns:
        The servers' addresses, as in cluster.json.

    Raises:
        StoreError: A server did not start. None of these servers is left running.
    """
    program = native.server_program()
    started: list[_Started] = []
    try:
        for number in numbers:
            make_folder(home.server(number), home.passage)
            home.address(number).unlink(missing_ok=True)
            offset = processes.end_of(home.log(number))
            command: list[str | Path] = [
                program,
                "--config",
                configuration,
                "--home",
                home.root,
                "--server",
                str(number),
                "--log",
                home.log(number),
                *_consent(home, number, accept_journal_loss=accept_journal_loss),
            ]
            child = processes.start(command, record=home.record(number), log=home.log(number), folder=home.root)
            started.append(_Started(number, child, offset))
        deadline = time.monotonic() + _START_SECONDS
        addresses = [_address(home, server, deadline) for server in started]
        for address in addresses:
            state = _await_status(server_at(home, int(address["server"]), str(address["control"])), deadline)
            for notice in taken_ports.notices(state):
                listener(notice)
        if accept_journal_loss:
            _tell_losses(home, started, listener)
    except BaseException:
        stop_servers(home, numbers)
        for server in started:
            server.child.wait()
        raise
    return addresses


def check_places(home: Home, configuration: Configuration, *, accept_journal_loss: bool = False) -> None:
    """Have the servers that do not run look whether their folders are the right ones. Nothing is changed.

    Args:
        home: Home of the store, which need not exist.
        configuration: Configuration to start.
        accept_journal_loss: As for `start`.

    Raises:
        StoreError: A home, a journal or a target is missing, another store's or server's, or older than the store.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as wanted:
        wanted.write(configuration.text())
        wanted.flush()
        for number in range(len(configuration.servers)):
            if _is_alive(home, number):
                continue
            fault = places_fault(home, number, Path(wanted.name), accept_journal_loss=accept_journal_loss)
            if fault is not None:
                message, hint = fault
                raise StoreError(f"server {number} would not start: {message}", hint=hint)


def places_fault(
    home: Home,
    number: int,
    configuration: Path,
    *,
    accept_journal_loss: bool = False,
    seconds: float = _START_SECONDS,
) -> tuple[str, str] | None:
    """Have a server that does not run look whether its folders are the right ones. Nothing is changed.

    Args:
        configuration: A cluster.toml.
        accept_journal_loss: As for `start`.
        seconds: Longest time until it has looked.

    Returns:
        The message and the hint of the refusal; None where it would start.

    Raises:
        StoreError: It does not come to an end.
    """
    command = [str(native.server_program()), "--config", str(configuration), "--home", str(home.root)]
    command += ["--server", str(number), "--check", *_consent(home, number, accept_journal_loss=accept_journal_loss)]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        raise StoreError(
            f"server {number} did not come to an end with its folders in {seconds:.3g} s",
            hint="does a disk of its targets answer?",
        ) from None
    if answer.returncode == 0:
        return None
    return processes.error_in(answer.stderr.splitlines()) or (answer.stderr.strip(), "")


def forget_server(home: Home, number: int) -> None:
    """Remove the files of a server that never joined the store, or left it for another host."""
    shutil.rmtree(home.server(number), ignore_errors=True)
    home.identity(number).unlink(missing_ok=True)


def _consent(home: Home, number: int, *, accept_journal_loss: bool) -> list[str]:
    """The consent to a server's start: one that the home does not know is new, and stamps its folders.

    The server refuses to do so where it finds a journal with records, or objects.
    """
    is_new = not home.identity(number).exists()
    return [*(["--first-run"] if is_new else []), *(["--accept-journal-loss"] if accept_journal_loss else [])]


def stop_servers(home: Home, numbers: list[int]) -> int:
    """Stop servers, and remove the files that show that they run.

    Returns:
        Number of servers that ran.
    """
    recorded = [Process.recorded(home.record(number)) for number in numbers]
    running = [process for process in recorded if process is not None and process.is_alive()]
    for process in running:
        process.request_stop()
    for process in running:
        process.stop()
    for number in numbers:
        for leftover in (home.record(number), home.address(number), home.server(number) / "socket"):
            leftover.unlink(missing_ok=True)
    return len(running)


def publish(home: Home, addresses: list[dict[str, Any]]) -> None:
    """Write down that the store is up, and its addresses.

    Args:
        addresses: The addresses of all servers.
    """
    document = {"version": 1, "servers": addresses, "window_seconds": _window_seconds(home)}
    write_whole(home.cluster, json.dumps(document, indent=2) + "\n", mode=0o644)
    _announce(home, document)


def _window_seconds(home: Home) -> float:
    """Length of the servers' windows, so that those of clients fit them."""
    if not home.configuration.exists():
        return WINDOW_SECONDS
    window = read_toml(home.configuration).get("window", WINDOW_SECONDS)
    return values.duration(window) if isinstance(window, str) else float(window)


def discard(home: Home, token: str = "") -> list[str]:
    """Remove the files of stopped servers: those inside the home, and folders of targets that the store's owner marked.

    Args:
        token: Mark of the folders of targets outside of the home that go, too: the end of their names. Empty is none.

    Returns:
        Folders of targets outside of the home, which are left.

    Raises:
        StoreError: A marked folder cannot be removed. The files inside the home stay, so that a second call knows it.
    """
    own, elsewhere = _outside(home, token)
    failures: list[StoreError] = []
    for place in own:
        try:
            remove_folder(place)
        except StoreError as error:
            failures.append(error)
    if failures:
        raise failures[0]
    for folder in (home.servers, home.identities):
        shutil.rmtree(folder, ignore_errors=True)
    announcement = home.announcement()
    if announcement is not None:
        shutil.rmtree(Home(announcement).credentials, ignore_errors=True)
        with contextlib.suppress(OSError):
            announcement.rmdir()
    for file in (home.configuration, home.reserve):
        file.unlink(missing_ok=True)
    for marker in home.mounts.glob("*.made"):
        mount_points.release(marker)
    return elsewhere


def _outside(home: Home, token: str) -> tuple[list[Path], list[str]]:
    """The targets outside of the home: those of this host's servers that carry the mark, and those without it."""
    kept = stored(home)
    own: list[Path] = []
    elsewhere: list[str] = []
    numbers = set(home.server_numbers())
    for number, server in enumerate(kept.servers if kept else []):
        for path in (Path(target["path"]) for target in server["target"] if "path" in target):
            if not token or not path.name.endswith(f"-{token}"):
                elsewhere.append(str(path))
            elif number in numbers:
                own.append(path)
    return own, elsewhere


def running(home: Home) -> Configuration:
    """Read the configuration that the servers run with.

    Raises:
        StoreError: The configuration cannot be read.
    """
    return Configuration(read_toml(home.configuration))


def stored(home: Home) -> Configuration | None:
    """Read the configuration of a store that lies in the home and outlives its servers.

    Returns:
        The configuration; None where there is no such store.
    """
    if not home.configuration.is_file() or not home.server_numbers():
        return None
    try:
        configuration = Configuration(read_toml(home.configuration))
        return configuration if configuration.keeps_bytes() else None
    except (StoreError, KeyError, TypeError, AttributeError):
        # A damaged copy does not describe the store; the servers judge the contents of their folders.
        return None


@dataclass(frozen=True)
class _Started:
    """A server that was started by this command; its log begins at `offset`."""

    number: int
    child: subprocess.Popen[str]
    offset: int


def _tell_losses(home: Home, started: list[_Started], listener: Listener) -> None:
    """Tell the losses of the journals, in the words of the servers."""
    for server in started:
        words = processes.words_since(home.log(server.number), server.offset)
        losses = [line.partition(": ")[2].strip() for line in words if _LOSS in line]
        for loss in losses:
            listener(Notice(f"server {server.number} {loss}"))


def _is_alive(home: Home, number: int) -> bool:
    process = Process.recorded(home.record(number))
    return process is not None and process.is_alive()


def _address(home: Home, server: _Started, deadline: float) -> dict[str, Any]:
    """Wait until a server has written its address."""
    log = home.log(server.number)
    while not home.address(server.number).is_file():
        if server.child.poll() is not None:
            message, hint = processes.reason(log, server.offset, f"it ended with code {server.child.returncode}")
            raise StoreError(f"server {server.number} did not start: {message}", hint=hint)
        if time.monotonic() > deadline:
            raise StoreError(f"server {server.number} does not listen after {_START_SECONDS:.0f} s", hint=f"see {log}")
        time.sleep(0.01)
    address: dict[str, Any] = json.loads(home.address(server.number).read_text())
    return address


def _await_status(server: "Server", deadline: float) -> "Status":
    while True:
        try:
            return server.status()
        except AnswerError:
            raise
        except StoreError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _announce(home: Home, document: dict[str, Any]) -> None:
    """Tell the servers' addresses to other users, where these users cannot pass through the home to read them."""
    announcement = home.announcement()
    if announcement is None:
        return
    # These users cannot pass to the sockets either.
    reachable = [{**address, "unix": None} for address in document["servers"]]
    text = json.dumps({**document, "servers": reachable}, indent=2) + "\n"
    make_folder(announcement.parent, 0o755)
    make_folder(announcement, 0o755)
    write_whole(announcement / "cluster.json", text, mode=0o644)


def announced(home: Home) -> Path:
    """Find the cluster.json that other users may read.

    Returns:
        Path of the file.
    """
    folder = home.announcement()
    return folder / "cluster.json" if folder else home.cluster
