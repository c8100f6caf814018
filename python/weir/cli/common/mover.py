"""The program `weir-move`: its start, its credential, its progress and what it left."""

import contextlib
import json
import os
import signal
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from weir.cli.common.errors import FAILED, CommandError, say, warn
from weir.cli.common.move_notes import MoveNotes
from weir.store.errors import StoreError
from weir.store.home import Home, find_cluster

if TYPE_CHECKING:
    import subprocess

    from weir.cli.common.progress import Shown

_JOB = "rebalance"
"""Name of the job under which bytes are moved, before its process number."""
_LEFT_LINES_MAX = 5
"""Files that are named where more stay: one cause often holds all of them."""


@dataclass(frozen=True)
class Outcome:
    """The end of a mover.

    Attributes:
        code: Its exit code.
        summary: Its figures; empty where it ended before it had any.
        moves: The objects that it moved, or would move.
        left: Path and reason of each file that it left as it is.
    """

    code: int
    summary: dict[str, Any]
    moves: list[dict[str, Any]]
    left: list[tuple[str, str]]


def target_fills(home: Home, cluster: Path, *, drained: Collection[str]) -> tuple[list[dict[str, Any]], list[int]]:
    """Ask for the fill of every target.

    Args:
        cluster: Its cluster.json.
        drained: Targets that everything leaves. Other targets that retire get nothing, and give nothing either.

    Returns:
        The fills, as the mover reads them, and the numbers of the servers that do not answer, whose fills are missing.
    """
    from weir.store.access import access_to
    from weir.store.control import Server, ask_all, servers_of

    fills: list[dict[str, Any]] = []
    silent: list[int] = []
    servers = servers_of(cluster, access_to(home, cluster))
    for server, answer in zip(servers, ask_all(servers, Server.status), strict=True):
        if isinstance(answer, StoreError):
            warn(answer.message, hint=f"its targets are left out; see {home.log(server.number)}")
            silent.append(server.number)
            continue
        for target in answer.targets:
            if target.state != "open" and target.target not in drained:
                continue
            figures = {
                "target": target.target,
                "capacity_bytes": target.capacity_bytes,
                "used_bytes": target.used_bytes,
            }
            # Bytes that outlive a restart must not move to a target that keeps nothing.
            fills.append({**figures, "class": target.backend})
    return fills, silent


@contextlib.contextmanager
def mover_credential(home: Home, chosen: str | None) -> Iterator[Path]:
    """Find the credential of the mover's job.

    The holder of the site's key moves the files of all users; others move their own.

    Args:
        chosen: Path of the credential; None is a new one, which is removed at the end of the block.

    Yields:
        Path of the credential.

    Raises:
        CommandError: The caller has none, and cannot read the store's key.
    """
    from weir.store.identity import Identity
    from weir.store.launch import credential_path, minted

    if chosen is None and home.owns(find_cluster(home)) and home.read_site_key() is not None:
        with minted(home, Identity.of_process(f"{_JOB}-{os.getpid()}").narrowed(uid=0)) as path:
            yield path
        return
    granted = Path(chosen).absolute() if chosen else credential_path(home)
    if granted is None:
        raise CommandError(
            "permission denied: you have no credential for this store, and cannot read its key",
            hint="ask the owner of the store for a grant (`weir grant`), and set WEIR_CREDENTIAL to it",
        )
    yield granted


def start_mover(
    cluster: Path, credential: Path, options: list[str], silent: list[int], paths: list[str]
) -> "subprocess.Popen[str]":
    """Start the program that moves objects.

    Args:
        cluster: The store's cluster.json.
        credential: Credential of the mover's job.
        options: Its further options.
        silent: Numbers of the servers that do not answer.
        paths: Paths of the store, below which files are looked for.

    Returns:
        The process, which waits for the fills.
    """
    import subprocess

    from weir import native

    program = native.mover_program()
    silences = ["--silent", ",".join(map(str, silent))] if silent else []
    # The mover has a session of its own, so that it gets a signal of the terminal once, from here.
    return subprocess.Popen(
        [program, "--cluster", cluster, "--credential", credential, *options, *silences, "--", *paths],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def follow(mover: "subprocess.Popen[str]", fills: list[dict[str, Any]], notes: MoveNotes) -> Outcome:
    """Show the progress of a mover until its end, and note it.

    Args:
        fills: The fills of the targets.

    Raises:
        CommandError: The process has no pipes.
    """
    from weir.cli.common.progress import progress

    if mover.stdin is None or mover.stdout is None:
        raise CommandError("the mover has no pipes")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda received, _frame: mover.send_signal(received))
    # The pipe stays open: the mover ends when this program does.
    mover.stdin.write(json.dumps(fills) + "\n")
    mover.stdin.flush()
    summary: dict[str, Any] = {}
    moves = []
    left = []
    with progress() as shown, notes:
        for event in _shown(_events(mover.stdout), shown):
            notes.take(event)
            kind = event.pop("event")
            if kind in ("moved", "would"):
                moves.append(event)
            elif kind == "left":
                left.append((event["path"], event["error"]))
            else:
                summary.update(event)
    code = mover.wait()
    return Outcome(code if code >= 0 else FAILED, summary, moves, left)


def warn_of_left(left: Sequence[tuple[str, str]]) -> None:
    """Name the first files that a mover left as they are, and count the others.

    Args:
        left: Path and reason of each file.
    """
    for path, reason in left[:_LEFT_LINES_MAX]:
        warn(f"{path} was not moved: {reason}")
    if len(left) > _LEFT_LINES_MAX:
        warn(f"{len(left) - _LEFT_LINES_MAX} more files were not moved")


def _events(lines: IO[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        event: dict[str, Any] = json.loads(line)
        yield event


def _shown(events: Iterator[dict[str, Any]], shown: "Shown") -> Iterator[dict[str, Any]]:
    """Pass events on, and show how far the moves are."""
    from weir.amounts import size_text

    planned = done = 0
    for event in events:
        if event["event"] == "planned":
            planned = event["bytes"]
            if event["stuck"]:
                say(f"{event['stuck']} objects fit on no other target")
        elif event["event"] == "moved":
            done += event["bytes"]
            shown("moves", done, planned, f"{size_text(done)} of {size_text(planned)}")
        yield event
