"""The page *Job*: one job from its begin to its end, with the report of `weir report`."""

from weir.amounts import clock_time, seconds, share_or_dash, size_text
from weir.history.reading import History
from weir.report.page import page as report_page
from weir.report.rules import findings_of
from weir.report.stored import Stretch, facts_of, stretch_of
from weir.room.errors import ForbiddenError, RoomError
from weir.room.looks import Look
from weir.room.pages.jobs import address_of, link_of
from weir.room.panels import Page, Panel, Text, table_of
from weir.room.sources import Sources
from weir.room.visitors import Visitor
from weir.store.observations import JobKey

_SECOND = 1_000


def page(sources: Sources, look: Look, visitor: Visitor, name: str, user: str) -> Page:
    """Make the page of the last run of a job before the moment.

    Raises:
        ForbiddenError: The visitor may not see the job.
        RoomError: There is no history.
        ReportError: The history knows no such job.
    """
    check_seen(visitor, name, user)
    with sources.history() as history:
        stretch = stretch_at(history, look, name, user)
        past = next(
            (
                each
                for each in _opened(history).jobs(stretch.since, stretch.until)
                if JobKey(each.job, each.uid) == stretch.job
            ),
            None,
        )
    rows: list[tuple[Text, ...]] = []
    cards = [("begun", _moment(stretch.since)), ("time", seconds((stretch.until - stretch.since) / _SECOND))]
    if past is not None:
        cards += [
            ("read", size_text(past.read_bytes)),
            ("written", size_text(past.written_bytes)),
            ("owed", share_or_dash(past.share_owed)),
            ("received", share_or_dash(past.share_received)),
            ("waited", seconds(past.waited_seconds)),
        ]
        rows = [
            (link_of(other, whose, visitor, look), visitor.user_of(whose), seconds(waited))
            for other, whose, waited in past.culprits
        ]
    query = address_of(name, user)
    return Page(
        f"Job {name}",
        (
            Panel("timeline", "From its begin to its end", figure="job", query=query, none="nothing is recorded"),
            Panel("waits", "Waited for", table=table_of(("job", "user", "for"), rows), none="it waited for nobody"),
        ),
        tuple(cards),
    )


def report(sources: Sources, look: Look, visitor: Visitor, name: str, user: str) -> str:
    """Write the page of `weir report`.

    Raises:
        ForbiddenError: The visitor may not see the job.
        RoomError: There is no history.
        ReportError: The history knows no such job.
    """
    check_seen(visitor, name, user)
    if not visitor.sees_all:
        raise ForbiddenError("the report names jobs of other users, which you may not see")
    with sources.history() as history:
        facts = facts_of(_opened(history), stretch_at(history, look, name, user))
    return report_page(facts, findings_of(facts))


def check_seen(visitor: Visitor, name: str, user: str) -> None:
    """Refuse where a visitor may not see a job.

    Raises:
        ForbiddenError: The visitor may not see it.
        RoomError: The address names none.
    """
    if not name or not user:
        raise RoomError("the address names no job", hint="choose one on the page Jobs")
    if not visitor.sees(user):
        raise ForbiddenError("this job is of another user, and you may not see it")


def stretch_at(history: History | None, look: Look, name: str, user: str) -> Stretch:
    """Find the run of a job that the page shows: its last one, or its work until a moment.

    Raises:
        RoomError: There is no history.
        ReportError: The history knows no such job.
    """
    between = None if look.is_live else (look.since, look.until)
    return stretch_of(_opened(history), name, user, between)


def _opened(history: History | None) -> History:
    if history is None:
        raise RoomError("there is no history yet", hint="`weir record` keeps one, and so does a running room")
    return history


def _moment(milliseconds: int) -> str:
    return clock_time(milliseconds / _SECOND)
