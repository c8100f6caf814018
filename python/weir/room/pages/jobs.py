"""The page *Jobs*: what each job was owed, received and waited for."""

from collections.abc import Sequence
from urllib.parse import quote

from weir.amounts import Quantity, rate_text, seconds, share, share_or_dash, size
from weir.history.reading import JobPast
from weir.room.changes.limit import PARTS, spelled
from weir.room.looks import Look
from weir.room.pages.store import notes_of
from weir.room.panels import Field, Form, Link, Page, Panel, Text, chosen, shortened, table_of
from weir.room.sources import Sources
from weir.room.visitors import HIDDEN, Visitor
from weir.store.accounts import worst
from weir.store.activity import Active

_LIVE = (
    *("job", "user", "nodes", "read", "written", "op/s", "devices"),
    *("owed", "received", "mean wait", "waits for"),
)
_LIMITS_MAX = 100
"""Most jobs whose limits the page offers."""
_PAST = ("job", "user", "nodes", "read", "written", "devices", "owed", "received", "waited", "waited for")


def page(sources: Sources, look: Look, visitor: Visitor) -> Page:
    """Make the page: the last second of each job, or its sums in a stretch of the past."""
    figure = Panel(
        "received",
        "Received and waited",
        "Device time of the jobs with most of it, in the stretch of time that is chosen above.",
        figure="jobs",
        none="nothing is recorded of this time",
    )
    if not look.is_live:
        return Page("Jobs", (_past(sources, look, visitor), figure))
    present = sources.present()
    jobs = [] if present.interval is None else present.interval.jobs
    rows = [_live_row(each, visitor, look) for each in jobs]
    words = "The last second. Shares are parts of the device time that all servers gave to all jobs."
    forms = _limit_form(jobs, visitor)
    panel = Panel("jobs", "At work", words, table_of(_LIVE, rows), none="no job is at work", forms=forms)
    return Page("Jobs", (panel, figure, _past(sources, look, visitor)), (), notes_of(present))


def _limit_form(jobs: Sequence[Active], visitor: Visitor) -> tuple[Form, ...]:
    """Offer a limit of one of the jobs that received most."""
    seen = sorted((each.job for each in jobs if visitor.sees(each.job.user)), key=lambda job: -job.device_seconds)
    choices = {spelled(job.job, job.user): f"{shortened(job.job)} of {job.user}" for job in seen[:_LIMITS_MAX]}
    fields = (Field("job", "Job", choices=choices), Field("limit", "to", choices=chosen(PARTS)))
    return (Form("limit", "Limit it for a minute", fields),) if choices else ()


def link_of(job: str, user: str, visitor: Visitor, look: Look) -> Text:
    """The name of a job, which leads to its page where the visitor may see it."""
    if not job:
        return "(further)"
    if not visitor.sees(user):
        return HIDDEN
    return Link(job, "job", {**address_of(job, user), **look.query})


def address_of(job: str, user: str) -> dict[str, str]:
    """The parameters that name a job, quoted once more: a form of a page keeps no line breaks as they are."""
    return {"name": quote(job, safe="", errors="replace"), "user": quote(user, safe="", errors="replace")}


def _live_row(active: Active, visitor: Visitor, look: Look) -> tuple[Text, ...]:
    job, length = active.job, active.seconds
    waits = worst(job)
    users = {each.job: each.user for each in job.waited_for}
    waited = active.wait_seconds
    return (
        link_of(job.job, job.user, visitor, look),
        visitor.user_of(job.user),
        Quantity(str(job.nodes)),
        Quantity(rate_text(job.bytes_read / length)),
        Quantity(rate_text(job.bytes_written / length)),
        Quantity(f"{job.operations / length:,.0f}"),
        share(job.device_seconds / length),
        share_or_dash(job.share_owed),
        share_or_dash(job.share_received),
        Quantity("-") if waited is None else seconds(waited),
        "-" if waits is None else f"{visitor.name_of(waits[0], users.get(waits[0], ''))} {share(waits[1] / length)}",
    )


def _past(sources: Sources, look: Look, visitor: Visitor) -> Panel:
    key = ("past rows", visitor, look.moment, *sources.past_key(look))
    rows = sources.kept(key, lambda _: [_past_row(each, visitor, look) for each in sources.past_jobs(look)]) or []
    title = f"In the last {look.span}" if look.is_live else f"In {look.span} until then"
    return Panel("past", title, table=table_of(_PAST, rows), none="no work is recorded in this time")


def _past_row(job: JobPast, visitor: Visitor, look: Look) -> tuple[Text, ...]:
    longest = next(iter(job.culprits), None)
    return (
        link_of(job.job, job.user, visitor, look),
        visitor.user_of(job.user) if job.user else "-",
        Quantity("-" if job.nodes is None else str(job.nodes)),
        size(job.read_bytes),
        size(job.written_bytes),
        seconds(job.device_seconds),
        share_or_dash(job.share_owed),
        share_or_dash(job.share_received),
        seconds(job.waited_seconds),
        "-" if longest is None else f"{visitor.name_of(longest[0], longest[1])} {seconds(longest[2])}",
    )
