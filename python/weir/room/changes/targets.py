"""Targets that are emptied, that take files again, and that are as slow as another device."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence

from weir.amounts import rate_text, size_text
from weir.deployment.growth import configuration_of
from weir.room.changes.offers import Proposal, proposal
from weir.room.errors import RoomError
from weir.room.panels import Mark, Page, Panel, Text, table_of
from weir.room.sources import Sources
from weir.store import values
from weir.store.answers import Speed, Target, WantedSpeed
from weir.store.claims import REQUEST_OF, claims
from weir.store.control import Server
from weir.store.membership import RETIRING, begin_retirement, reopen
from weir.store.notices import Notice
from weir.ways import make_folders

_OPEN = "open"


def propose_drain(sources: Sources, query: Mapping[str, str]) -> Proposal:
    """Propose to empty a target, so that it can leave.

    Args:
        query: Has the name of the `target`.

    Raises:
        RoomError: There is no such target, or it is being emptied.
        StoreError: No store is up, or the target's server does not answer.
    """
    name = _name(query)
    server, target = _found(sources, name)
    if target.state != _OPEN:
        raise RoomError(f"{name} is {target.state}", hint=f"`weir target retire {name}` goes on with it")
    held, free = size_text(target.used_bytes), _free_elsewhere(sources, name)
    rows: list[tuple[Text, ...]] = [
        ("new files", "get stripes here", Mark("get none", "odd")),
        ("what it holds", held, Mark("goes to the other targets", "odd")),
        ("free on the others", size_text(free), "" if free > target.used_bytes else Mark("too little", "bad")),
        ("the target", target.state, Mark("leaves once it is empty, for good", "bad")),
    ]
    warning = "Programs use the files meanwhile. Until the target has left, it can be opened again."
    state = (target.state, RETIRING)
    return _of_state(sources, f"Drain {name}", name, state, rows, warning, lambda: _drained(sources, server, name))


def propose_open(sources: Sources, query: Mapping[str, str]) -> Proposal:
    """Propose that a target which is being emptied takes files again.

    Args:
        query: Has the name of the `target`.

    Raises:
        RoomError: There is no such target, or it is open.
        StoreError: No store is up, or the target's server does not answer.
    """
    name = _name(query)
    server, target = _found(sources, name)
    if target.state == _OPEN:
        raise RoomError(f"{name} is open", hint="the page Placement shows targets that are being emptied")
    rows: list[tuple[Text, ...]] = [("new files", "get no stripes here", Mark("get stripes here", "odd"))]
    warning = "What has moved stays where it is; `weir rebalance` moves stripes back."
    state = (target.state, _OPEN)
    return _of_state(sources, f"Open {name} again", name, state, rows, warning, lambda: _opened(sources, server, name))


def _of_state(
    sources: Sources,
    title: str,
    name: str,
    state: tuple[str, str],
    rows: Sequence[tuple[Text, ...]],
    warning: str,
    change: Callable[[], Page],
) -> Proposal:
    """Propose another state of a target.

    Args:
        state: The state now, and the one in question.
    """
    before, then = state
    return proposal(
        title,
        f"target {name} {before} -> {then}",
        rows,
        warning=warning,
        shown=before,
        look=lambda: _found(sources, name)[1].state,
        change=change,
    )


def propose_speed(sources: Sources, query: Mapping[str, str]) -> Proposal:
    """Propose to emulate a speed on a target.

    Args:
        query: Has the name of the `target`, and rates of `read` and `write`; without both the emulation ends.

    Raises:
        RoomError: There is no such target, or a rate is none.
        StoreError: No store is up, or the target's server does not answer.
    """
    name = _name(query)
    server, target = _found(sources, name)
    wanted = WantedSpeed(read=_rate(query, "read"), write=_rate(query, "write"))
    speed = target.speed
    reads, writes = (None, None) if speed is None else (speed.read_bytes_per_second, speed.write_bytes_per_second)
    rows: list[tuple[Text, ...]] = [
        (what, _speed_words(now), Mark(f"at most {rate}" if rate else "as fast as the device", "odd"))
        for what, now, rate in (("reads", reads, wanted.read), ("writes", writes, wanted.write))
    ]
    return proposal(
        f"Change the speed of {name}",
        f"speed of {name}: read {wanted.read}, write {wanted.write}",
        rows,
        warning="It holds at once, and until the server is started again; programs wait for the slower device.",
        shown=(target.state, target.speed),
        look=lambda: _state_and_speed(sources, name),
        change=lambda: _slowed(server, target, wanted),
    )


def _name(query: Mapping[str, str]) -> str:
    try:
        return values.target(query.get("target", "").strip())
    except ValueError as error:
        raise RoomError(str(error), hint="the page Store lists the targets") from error


def _rate(query: Mapping[str, str], name: str) -> str | None:
    text = query.get(name, "").strip()
    if not text:
        return None
    try:
        values.rate(text)
    except ValueError as error:
        raise RoomError(str(error), hint="such as 200MB/s") from error
    return text


def _found(sources: Sources, name: str) -> tuple[Server, Target]:
    """The server of a target, and the target as it is now."""
    number = name.partition(".")[0]
    for server in sources.find():
        if str(server.number) == number:
            for target in server.status().targets:
                if target.target == name:
                    return server, target
    raise RoomError(f"the store has no target {name}", hint="the page Store lists them")


def _state_and_speed(sources: Sources, name: str) -> tuple[str, Speed | None]:
    _, target = _found(sources, name)
    return target.state, target.speed


def _speed_words(bytes_per_second: int | None) -> str:
    return "as fast as the device" if bytes_per_second is None else f"at most {rate_text(bytes_per_second)}"


def _free_elsewhere(sources: Sources, name: str) -> int:
    others = [each for state in sources.present().states for each in state.targets if each.target != name]
    return sum(max(each.capacity_bytes - each.used_bytes, 0) for each in others if each.state == _OPEN)


def _drained(sources: Sources, server: Server, name: str) -> Page:
    notes: list[Notice] = []
    begin_retirement(configuration_of(sources.home, notes.append), server, name)
    log = sources.home.root / "room" / f"drain-{name}.log"
    make_folders(log.parent, 0o700)
    environment = {**os.environ, REQUEST_OF: claims().get("Weir-Request-Of", "")}
    words = [sys.executable, "-m", "weir.cli", "--home", str(sources.home.root), "target", "retire", name]
    with log.open("w") as said:
        # It goes on without the room.
        moves = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=environment, start_new_session=True
        )
    threading.Thread(target=moves.wait, daemon=True).start()
    rows: list[tuple[Text, ...]] = [
        ("new files", Mark("get no stripes here", "good")),
        ("its objects", "move now; the page Placement shows how many are left"),
        ("what the move says", str(log)),
    ]
    return _page(f"{name} is being emptied", rows, notes)


def _opened(sources: Sources, server: Server, name: str) -> Page:
    notes: list[Notice] = []
    reopen(configuration_of(sources.home, notes.append), server, name)
    return _page(f"{name} is open again", [("new files", Mark("get stripes here", "good"))], notes)


def _slowed(server: Server, target: Target, wanted: WantedSpeed) -> Page:
    server.set_speed(target.target, wanted)
    rows: list[tuple[Text, ...]] = [
        (what, Mark(rate or "as fast as the device", "good"))
        for what, rate in (("reads", wanted.read), ("writes", wanted.write))
    ]
    return _page(f"The speed of {target.target} is changed", rows, [])


def _page(title: str, rows: list[tuple[Text, ...]], notes: list[Notice]) -> Page:
    panel = Panel("target", "What changed", table=table_of(("what", "now"), rows))
    return Page(title, (panel,), (), tuple(Mark(f"{note.words} {note.hint}".strip(), "odd") for note in notes))
