"""The page *Who waits for whom*: device time that others received while a job had requests queued."""

from weir.amounts import seconds, share
from weir.room.looks import Look
from weir.room.pages.jobs import link_of
from weir.room.panels import Page, Panel, Text, table_of
from weir.room.sources import Sources
from weir.room.visitors import Visitor

_GRAPH_WORDS = "An arrow leads from a job that waited to one that was served meanwhile, thicker for a longer wait."


def page(sources: Sources, look: Look, visitor: Visitor) -> Page:
    """Make the page: a matrix, and the pairs with the longest waits."""
    rows: list[tuple[Text, ...]] = []
    pairs = [(job, other, user, waited) for job in sources.past_jobs(look) for other, user, waited in job.culprits]
    for job, other, user, waited in sorted(pairs, key=lambda pair: -pair[3]):
        part = waited / job.waited_seconds if job.waited_seconds else 0.0
        row = (
            link_of(job.job, job.user, visitor, look),
            visitor.user_of(job.user),
            link_of(other, user, visitor, look),
            visitor.user_of(user),
            seconds(waited),
            share(min(part, 1.0)),
        )
        rows.append(row)
    header = ("job", "user", "waited for", "its user", "for", "of its waits")
    none = "no job is known to have waited in this time"
    words = "Each row is a job that waited, each column a job that was served meanwhile."
    return Page(
        "Who waits for whom",
        (
            Panel("matrix", "Matrix", words, figure="waits", none=none),
            Panel("graph", "Graph", _GRAPH_WORDS, figure="graph", none=none),
            Panel("pairs", "Longest waits", table=table_of(header, rows), none=none),
        ),
    )
