"""The move of a server without targets to another host, while programs use the store.

Its number stays: inodes, open files and the names of objects have the number in them. So its files go to the other
host, and a process there serves the number at another address. Names in memory are written to files first. Most files
go while the server runs. Then it ends, its folder on the old host is sealed, the rest goes, and it starts on the new
host: for clients that is a restart. The description of the store, in the home on the host that the store is deployed
from, names the move from before the seal until the server runs again, so that a command that died is gone on with.
"""

import contextlib
import copy
import time
from dataclasses import dataclass, replace
from typing import Any

from weir.deployment import asking, deployment, operations, places, record
from weir.deployment.operations import Fetched, Member, Stored
from weir.deployment.record import Move, Record
from weir.store import auditing
from weir.store.access import server_at, servers_at
from weir.store.audits import ToldEntry
from weir.store.configuration import Configuration, check
from weir.store.control import Server, ask_all
from weir.store.errors import NotYetError, StoreError
from weir.store.home import Home
from weir.store.membership import RETIRED
from weir.store.notices import Listener, Notice
from weir.ways import write_whole

_PART_BYTES = 24 << 20
"""Bytes of files in one document, which has them in base64 and is limited to 64 MiB."""
_REST_BYTES = 4 << 20
"""Bytes that are left for the time in which the server does not run."""
_NAMES_SECONDS = 120.0
"""Longest wait for names in memory to be in files: 400,000 took 3 s, and 65 MB, on a busy machine of two cores."""
_NAMES_PAUSE_SECONDS = 0.5
_ROUNDS_MAX = 4096
"""Most documents of one move: journals of about 100 GB."""


@dataclass(frozen=True)
class _Moving:
    """One server on its way to another host."""

    home: Home
    described: Record
    """The store, whose parts give the server to the new host."""
    number: int
    source: str

    @property
    def goal(self) -> str:
        """Name of the new host."""
        return self.described.host_of(self.number)

    def fetch(self, have: dict[str, int], *, seals: bool) -> Fetched:
        """Get parts of the files from the old host."""
        request = operations.FetchRequest(
            self.described.home, self.described.deployment, self.number, have, _PART_BYTES, seals
        )
        return asking.ask_all(self.described.reach(), operations.FETCH, {self.source: request})[self.source]

    def store(self, fetched: Fetched) -> Stored:
        """Give parts of the files to the new host."""
        request = operations.StoreRequest(self.described.home, self.described.deployment, self.number, fetched)
        return asking.ask_all(self.described.reach(), operations.STORE, {self.goal: request})[self.goal]


def check_move(home: Home, number: int, goal: str | None, listener: Listener) -> str:
    """Check whether a server can move to another host, and choose the host.

    Args:
        goal: Name of a host of the store; None is the one with the fewest servers among those that have one.
        listener: Called with further notices for the user.

    Returns:
        Name of the host; that of the server where it has moved before.

    Raises:
        StoreError: There is no other host, or a host or a server does not answer.
    """
    described = _read(home)
    if described.moving is not None:
        with record.folder_of(home).locked():
            moved = described.moving.server
            described = finished(home, _read(home), listener)
        if moved == number:
            return described.host_of(number)
    states = ask_all(servers_at(home), Server.status)
    for state in states:
        if isinstance(state, StoreError):
            raise StoreError(
                f"a server can retire only if all servers answer: {state.message}",
                hint=state.hint or "see `weir status`",
            )
        if state.server == number and state.state == RETIRED and goal in (None, described.host_of(number)):
            return described.host_of(number)
    source = described.host_of(number)
    chosen = goal or _usual_goal(described, source)
    if chosen == source:
        raise StoreError(f"server {number} is on {chosen} already", hint="name another host with `to`")
    if described.member(chosen) is None:
        raise StoreError(
            f"{chosen} is no host of the store", hint="`weir status` lists them; `weir server add --host` takes one in"
        )
    deployment.probe(home, described.hosts(), described.reach())
    return chosen


def move(home: Home, number: int, goal: str, listener: Listener) -> None:
    """Move a server without targets to another host.

    Args:
        goal: Name of the host.
        listener: Called with further notices for the user.

    Raises:
        StoreError: A host does not do its part. Before the server has ended, it stays where it is; later the same
            command goes on.
    """
    with record.folder_of(home).locked():
        described = finished(home, _read(home), listener)
        source = described.host_of(number)
        if source == goal:
            return
        probed = deployment.probe(home, described.hosts(), described.reach())
        document = record.read_configuration(home, described)
        part = described.member(goal)
        assert part is not None, "the host was checked"
        if not part.address:
            part = replace(part, address=places.address_of(goal, probed[goal], None, len(described.hosts())))
        placed = copy.deepcopy(document)
        listen, control = places.next_listening(document["server"], part.address, None)
        placed["server"][number].update(listen=listen, control=control, state=RETIRED)
        check(Configuration(copy.deepcopy(placed)), None)
        way = Move(number, source, listen, control)
        after = replace(described, members=_moved(described, number, part), moving=way)
        moving = _Moving(home, after, number, source)
        try:
            _keep_names(server_at(home, number, str(document["server"][number]["control"])))
            _send_ahead(moving)
            record.write(home, after)
            write_whole(record.configuration_file(home), Configuration(placed).text())
            asking.checked(deployment.install(home, after, Configuration(placed)))
        except BaseException:
            write_whole(record.configuration_file(home), Configuration(document).text())
            record.write(home, described)
            with contextlib.suppress(StoreError):
                asking.able(deployment.install(home, described, Configuration(document)), listener)
                _forget(moving, goal)
            raise
        _finish(moving, placed, listener)


def refuse_moving(home: Home, number: int) -> None:
    """Refuse to open a server that is on its way.

    Raises:
        StoreError: The server is being moved to another host.
    """
    described = record.read(home)
    if described is not None and described.moving is not None and described.moving.server == number:
        raise StoreError(
            f"server {number} is being moved to another host", hint="the same command without `cancel` continues"
        )


def finished(home: Home, described: Record, listener: Listener) -> Record:
    """End a move whose command died; the caller has locked the store's description.

    Args:
        described: The store; without a move it stays as it is.
        listener: Called with further notices for the user.

    Returns:
        The store, without the move.

    Raises:
        StoreError: A host does not do its part.
    """
    if described.moving is None:
        return described
    moving = _Moving(home, described, described.moving.server, described.moving.source)
    document = record.read_configuration(home, described)
    document["server"][moving.number]["state"] = RETIRED
    write_whole(record.configuration_file(home), Configuration(document).text())
    asking.able(deployment.install(home, described, Configuration(document)), listener)
    return _finish(moving, document, listener)


def go_on(home: Home, listener: Listener) -> Record:
    """Go on with a move whose command died; without one there is nothing to do.

    Args:
        listener: Called with further notices for the user.

    Returns:
        The store. It still has the move where a host does not do its part, of which the listener is told.
    """
    with record.folder_of(home).locked():
        described = _read(home)
        try:
            return finished(home, described, listener)
        except StoreError as error:
            listener(Notice(f"a server is still on its way to another host: {error.message}", hint=error.hint))
            return described


def _finish(moving: _Moving, document: dict[str, Any], listener: Listener) -> Record:
    """Do everything behind the seal: no step can be undone, and each can be repeated."""
    home, described, number, goal = moving.home, moving.described, moving.number, moving.goal
    stored = moving.store(Fetched((), (), is_sealed=False))
    rounds = 0
    while not stored.is_whole:
        # The files on the new host are dropped where the old one has none of that name any more.
        stored = moving.store(moving.fetch(stored.have, seals=True))
        rounds += 1
        if rounds > _ROUNDS_MAX:
            raise StoreError(
                f"the files of server {number} did not arrive complete at {goal}", hint="see its disk and log"
            )
    deployment.begin_steps(home, described, [goal])
    start = operations.StartRequest(described.home, described.deployment, accept_journal_loss=False)
    answer = asking.ask_all(described.reach(), operations.START, {goal: start})[goal]
    asking.pass_on(goal, answer.notices, listener)
    server_at(home, number, str(document["server"][number]["control"])).set_state(RETIRED)
    told = deployment.told_before(home, without=number)
    addresses = deployment.addresses_of(described, Configuration(document), told)
    asking.able(deployment.publish(home, described, addresses), listener)
    after = replace(described, moving=None)
    record.write(home, after)
    with contextlib.suppress(StoreError):
        _forget(moving, moving.source)
    auditing.tell(home, ToldEntry("server move", str(number), before=moving.source, after=goal), listener)
    return after


def _keep_names(server: Server) -> None:
    deadline = time.monotonic() + _NAMES_SECONDS
    while True:
        try:
            return server.keep_names()
        except NotYetError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_NAMES_PAUSE_SECONDS)


def _send_ahead(moving: _Moving) -> None:
    """Send files while the server runs, until little is left."""
    stored = moving.store(Fetched((), (), is_sealed=False))
    for _ in range(_ROUNDS_MAX):
        fetched = moving.fetch(stored.have, seals=False)
        stored = moving.store(fetched)
        left = sum(state.size - stored.have.get(state.name, 0) for state in fetched.files)
        if left <= _REST_BYTES:
            return


def _forget(moving: _Moving, host: str) -> None:
    described = moving.described
    request = operations.ForgetRequest(described.home, described.deployment, moving.number)
    asking.ask_all(described.reach(), operations.FORGET, {host: request})


def _moved(described: Record, number: int, goal: Member) -> tuple[Member, ...]:
    """The parts of the hosts, with the server on another one."""
    members = []
    for part in described.members:
        if part.host == goal.host:
            part = replace(goal, servers=tuple(sorted((*goal.servers, number))))
        elif number in part.servers:
            part = replace(part, servers=tuple(each for each in part.servers if each != number))
        members.append(part)
    return tuple(members)


def _usual_goal(described: Record, source: str) -> str:
    """The host with the fewest servers among the others that have one."""
    serving = [part for part in described.members if part.servers and part.host != source]
    if not serving:
        raise StoreError("no other host has a server", hint="add one first (`weir server add`)")
    return min(serving, key=lambda part: len(part.servers)).host


def _read(home: Home) -> Record:
    described = record.read(home)
    if described is None:
        raise StoreError(f"no store was deployed from {home.root}", hint="see `weir deploy --help`")
    return described
