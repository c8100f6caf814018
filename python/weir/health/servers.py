"""Findings about servers: whether they answer, agree, and take changes."""

import time
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from weir.amounts import seconds, size_text
from weir.health.codes import Finding, found
from weir.health.facts import Facts, ServerFacts
from weir.store import taken_ports
from weir.store.errors import AnswerError, StoreError, UnprovenServerError
from weir.store.folder_check import strangers

if TYPE_CHECKING:
    from weir.store.answers import Status

NAMES_FILLING = 0.9
"""Part of the memory for names from which on it is filling."""
CLOCK_SECONDS = 5.0
"""Difference of clocks that is told: a shorter one may be that of a busy machine."""
_LATE_INTERVALS = 10
_LATE_SECONDS = 5.0
"""A server is late if another server has not heard of it for this number of intervals of the exchange, and for this
time."""


def of_servers(facts: Facts) -> Iterator[Finding]:
    """Derive the findings about servers."""
    for each in facts.servers:
        if each.status is None:
            yield _without_answer(facts, each)
        else:
            yield from _clock(each, each.status)
            yield from _ports(each.status)
            yield from _journal(facts, each, each.status)
            yield from _names(each, each.status)
            yield from _state(each.status)
    yield from _late(facts)
    yield from _versions(facts)
    yield from _agreement(facts)
    yield from _identities(facts)
    if any(not state.durable for state in facts.answering()):
        words = "a target is in memory, so no names and bytes outlive the servers"
        yield found("keeps-nothing", "store", words)


def _without_answer(facts: Facts, server: ServerFacts) -> Finding:
    """The finding about a server that gave no state."""
    error = server.error
    names: dict[str, Any] = {
        "start": facts.start_command(server),
        "logs": facts.logs_command(server),
        "port": server.server.control.rpartition(":")[2],
    }
    since, where = _last_heard(facts, server), f"{server.server.control}{_on(server)}"
    if isinstance(error, AnswerError):
        return found("version-differs", server.name, error.message, **names)
    if server.refusal is not None:
        words = "; ".join(each for each in server.refusal if each)
        return found("identity-refused", server.name, words, since=since, **names)
    if isinstance(error, UnprovenServerError) and (server.is_running is False or not _is_timeout(error)):
        return found("server-unproven", server.name, error.message, since=since, **names)
    if server.is_running is False:
        why = f": {server.last_error[0]}" if server.last_error else ""
        return found("server-down", server.name, f"its process has ended{_on(server)}{why}", since=since, **names)
    if error is not None and isinstance(error.__cause__, ConnectionRefusedError):
        return found("server-down", server.name, f"nothing listens at {where}", since=since, **names)
    words = f"it does not answer at {where} within {facts.seconds:g} s" if error is None else error.message
    hangs = "; its process runs, and hangs" if server.is_running else ""
    return found("server-silent", server.name, words + hangs, since=since, **names)


def _is_timeout(error: StoreError) -> bool:
    return isinstance(error.__cause__, TimeoutError)


def _on(server: ServerFacts) -> str:
    return "" if server.host is None else f" on {server.host}"


def _last_heard(facts: Facts, server: ServerFacts) -> float | None:
    """The last moment at which another server had a report of a server."""
    ages = [
        peer.age_seconds
        for state in facts.answering()
        for peer in state.peers
        if peer.server == server.server.number and peer.age_seconds is not None
    ]
    return facts.now - min(ages) if ages else None


def _clock(server: ServerFacts, state: "Status") -> Iterator[Finding]:
    if state.clock_seconds is None:
        return
    before, after = server.asked
    apart = max(before - state.clock_seconds, state.clock_seconds - after, 0.0)
    if apart > CLOCK_SECONDS:
        which = "behind" if state.clock_seconds < before else "ahead of"
        words = f"its clock is {seconds(apart)} {which} that of this host"
        yield found("clocks-apart", server.name, words)


def _ports(state: "Status") -> Iterator[Finding]:
    for taken, notice in zip(state.taken_ports, taken_ports.notices(state), strict=True):
        port = taken.wanted.rpartition(":")[2]
        since = time.time() - state.uptime_seconds
        yield found("port-taken", f"server {state.server}", notice.words, since=since, port=port)


def _journal(facts: Facts, server: ServerFacts, state: "Status") -> Iterator[Finding]:
    journal, logs = state.journal, facts.logs_command(server)
    if state.full:
        place = facts.home / "servers" / str(state.server)
        words = "the file system of its journal is full"
        yield found("journal-full", server.name, words, place=place)
    if journal is None:
        return
    if journal.state == "stopped":
        since = None if journal.stopped_seconds is None else facts.now - journal.stopped_seconds
        words = f"it takes no changes (EROFS): {journal.error}"
        yield found("journal-stopped", server.name, words, since=since, logs=logs)
    elif journal.sync_failures:
        words = f"{journal.sync_failures} syncs failed since it started: {journal.error}"
        yield found("journal-failures", server.name, words, logs=logs)


def _names(server: ServerFacts, state: "Status") -> Iterator[Finding]:
    part = state.kept_bytes / state.kept_bytes_max if state.kept_bytes_max else 0.0
    if part >= NAMES_FILLING:
        words = f"names and attributes take {size_text(state.kept_bytes)} of {size_text(state.kept_bytes_max)}"
        yield found("names-full" if part >= 1 else "names-filling", server.name, words)


def _state(state: "Status") -> Iterator[Finding]:
    if state.state == "retiring":
        words = f"it retires, and has {len(state.targets)} targets yet"
        yield found("server-retiring", f"server {state.server}", words, server=state.server)


def _late(facts: Facts) -> Iterator[Finding]:
    """Servers that answer here, and that another server has not heard of."""
    answering = {state.server for state in facts.answering()}
    bound = max(_LATE_SECONDS, _LATE_INTERVALS * facts.interval_seconds)
    for each in facts.servers:
        number = each.server.number
        if number not in answering:
            continue
        deaf = {
            state.server: state.uptime_seconds if peer.age_seconds is None else peer.age_seconds
            for state in facts.answering()
            for peer in state.peers
            if peer.server == number
        }
        deaf = {other: age for other, age in deaf.items() if age > bound}
        if deaf:
            others = " and ".join(f"server {other}" for other in deaf)
            have, age = "has" if len(deaf) == 1 else "have", max(deaf.values())
            words = f"{others} {have} not heard of it for {seconds(age)}, though it answers here"
            yield found("server-late", each.name, words, since=facts.now - age, logs=facts.logs_command(each))


def _versions(facts: Facts) -> Iterator[Finding]:
    for state in facts.answering():
        if state.version != facts.version:
            words = f"it is of version {state.version}, and this program of {facts.version}"
            yield found("version-differs", f"server {state.server}", words)


def _agreement(facts: Facts) -> Iterator[Finding]:
    """Servers whose settings are not those of most of them."""
    states = facts.answering()
    for words, told in (
        ("policy", [f"{state.policy} by {state.scheduler}" for state in states]),
        ("allocator", [state.allocator for state in states]),
        ("number of servers", [str(state.servers) for state in states]),
    ):
        values = dict(zip((state.server for state in states), told, strict=True))
        usual = Counter(values.values()).most_common(1)
        for number, value in values.items():
            if value != usual[0][0]:
                cause = f"its {words} is {value}, and that of the others {usual[0][0]}"
                policy = Counter(state.policy for state in states).most_common(1)[0][0]
                yield found("out-of-step", f"server {number}", cause, policy=policy)


def _identities(facts: Facts) -> Iterator[Finding]:
    for stranger in strangers(facts.answering()):
        words = f"{stranger.place}: {stranger.found}; {stranger.way_out}"
        yield found("identity-refused", f"server {stranger.server}", words)
