"""A limit of one job for a minute: a lease of the sharing on every server."""

from collections.abc import Mapping
from urllib.parse import quote, unquote

from weir.amounts import share
from weir.room.changes.offers import Proposal, proposal
from weir.room.errors import RoomError
from weir.room.panels import Mark, Page, Panel, Text, table_of
from weir.room.sources import Sources
from weir.store.answers import LeasedJob
from weir.store.control import Server, ask_all
from weir.store.errors import StoreError

SECONDS = 60.0
"""Time for which a limit holds, the longest that servers lease."""
PARTS = ("5%", "10%", "20%", "30%", "50%", "75%")
"""Limits that the page offers, in parts of each device's time."""


def spelled(job: str, user: str) -> str:
    """Write a job and its user as one word each, whatever is in their names."""
    return " ".join(quote(each, safe="", errors="replace") for each in (job, user))


def propose(sources: Sources, query: Mapping[str, str]) -> Proposal:
    """Propose a limit.

    Args:
        query: Has the `job` as `spelled` writes it, and the `limit` as one of `PARTS`.

    Raises:
        RoomError: The store knows no such job, a lease is in force, or there is no such limit.
        StoreError: No store is up.
    """
    name, user = (unquote(each) for each in query.get("job", "").partition(" ")[::2])
    part = query.get("limit", "")
    if part not in PARTS:
        raise RoomError(f"{part or 'nothing'} is no limit that a job may get", hint=f"one of {', '.join(PARTS)}")
    job = LeasedJob(name, _uid(sources, name, user), limit=int(part.removesuffix("%")) / 100)
    if _is_leased(sources):
        raise RoomError("a lease is in force, which this limit would end", hint="`weir guard log` says why")
    return proposal(
        f"Limit {name} for a minute",
        f"limit of {name} ({user}) {part} for {SECONDS:g} s",
        [(f"job {name} of {user}", "as the policy gives", Mark(f"at most {part} of each device", "odd"))],
        warning="It holds at once, on every server, and ends by itself, or where a guard begins a lease. Of "
        "this limit and that of the site the lower one counts.",
        shown=False,
        look=lambda: _is_leased(sources),
        change=lambda: _changed(sources, job),
    )


def _uid(sources: Sources, name: str, user: str) -> int:
    for jobs in ask_all(sources.find(), Server.jobs):
        if not isinstance(jobs, StoreError):
            for job in jobs:
                if (job.job, job.user) == (name, user):
                    return job.uid
    raise RoomError("the store knows no such job now", hint="choose one that is at work on the page Jobs")


def _is_leased(sources: Sources) -> bool:
    answers = ask_all(sources.find(), Server.lease)
    return any(not isinstance(answer, StoreError) and answer.is_leased for answer in answers)


def _changed(sources: Sources, job: LeasedJob) -> Page:
    servers = sources.find()
    answers = ask_all(servers, lambda server: server.set_lease(None, [job], SECONDS))
    if all(isinstance(answer, StoreError) for answer in answers):
        raise next(answer for answer in answers if isinstance(answer, StoreError))
    rows: list[tuple[Text, ...]] = [
        (
            str(server.number),
            Mark(answer.message, "bad")
            if isinstance(answer, StoreError)
            else Mark(f"{share(answer.jobs[0].limit or 1.0)} for {answer.seconds:.0f} s", "good"),
        )
        for server, answer in zip(servers, answers, strict=True)
    ]
    panel = Panel("servers", "What changed", table=table_of(("server", "limit"), rows))
    return Page("The job is limited", (panel,))
