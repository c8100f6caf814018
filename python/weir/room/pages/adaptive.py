"""The page *Adaptive*: how accurate the steps of streams were, and how good the forecasts of their storage."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from weir.amounts import Quantity, clock_time, seconds, share, share_or_dash, size
from weir.room.looks import Look
from weir.room.pages.jobs import link_of
from weir.room.panels import LABEL_MAX, Page, Panel, Text, shortened, table_of
from weir.room.sources import Sources
from weir.room.visitors import Visitor
from weir.store.step_journal import StepEntry

_HEADER = (
    *("stream", "job", "user", "steps", "last step", "at", "error bound"),
    *("read", "part read", "longest wait", "late", "in interval"),
)
_NONE = (
    "no step was noted in this time: `weir run -- CMD` of the store's owner notes the steps that CMD reads of adaptive "
    "streams"
)


@dataclass(frozen=True, slots=True)
class Reading:
    """The steps of a stream that a process read, the oldest first, one at least."""

    steps: tuple[StepEntry, ...]

    @property
    def last(self) -> StepEntry:
        """The last step."""
        return self.steps[-1]


def page(sources: Sources, look: Look, visitor: Visitor) -> Page:
    """Make the page: each stream that was read in the stretch of time, its accuracy and its forecasts."""
    rows = [_row(each, visitor, look) for each in readings_of(sources.steps(look))]
    words = (
        "Each stream that a process read. The error bound is that of the last step, in units of the data. In interval "
        "are the bandwidths within the interval of their forecast, which is to hold four of five."
    )
    return Page(
        "Adaptive",
        (
            Panel("streams", "Streams", words, table_of(_HEADER, rows), none=_NONE),
            Panel(
                "accuracy",
                "Accuracy of each step",
                "Bound of the largest error, in units of the data; lower is more accurate.",
                figure="accuracy",
                none="no accuracy is known of this time",
            ),
            Panel(
                "forecasts",
                "Forecasts and achieved bandwidths",
                "Of each tier that was forecast: the forecast of each step with its interval, and the bandwidth that "
                "the step got.",
                figure="forecasts",
                none="nothing was forecast in this time: readers with a budget or a plot forecast",
            ),
        ),
    )


def readings_of(steps: Sequence[StepEntry]) -> list[Reading]:
    """Divide steps by stream and process.

    Returns:
        The readings, the one with the latest step first.
    """
    found: dict[tuple[str, str, str, int, str], list[StepEntry]] = {}
    for each in steps:
        found.setdefault((each.user, each.job, each.host, each.pid, each.stream), []).append(each)
    return sorted((Reading(tuple(each)) for each in found.values()), key=lambda each: -each.last.at)


def labelled(readings: Sequence[Reading]) -> dict[str, Reading]:
    """Give readings short names, each its own."""
    names = [f"{tail_of(each.last.stream)} {shortened(each.last.job)}".strip() for each in readings]
    counts = Counter(names)
    return {
        name if counts[name] == 1 else f"{name} {shortened(each.last.host)}:{each.last.pid}": each
        for name, each in zip(names, readings, strict=True)
    }


def tail_of(url: str) -> str:
    """Write the end of a URL, which tells streams and tiers apart."""
    return shortened(url if len(url) <= LABEL_MAX else url[-LABEL_MAX:].partition("/")[2] or url[-LABEL_MAX:])


def _row(reading: Reading, visitor: Visitor, look: Look) -> tuple[Text, ...]:
    steps, last = reading.steps, reading.last
    read, whole = sum(each.read_bytes for each in steps), sum(each.whole_bytes for each in steps)
    held = [
        tier.low <= tier.bandwidth <= tier.high
        for each in steps
        for tier in each.tiers
        if tier.bandwidth is not None and tier.low is not None and tier.high is not None
    ]
    return (
        last.stream if visitor.sees(last.user) else "-",
        link_of(last.job, last.user, visitor, look) if last.job else "-",
        visitor.user_of(last.user),
        Quantity(f"{len(steps):,}"),
        Quantity(str(last.step)),
        clock_time(last.at),
        Quantity("-" if last.max_error is None else f"{last.max_error:.3g}"),
        size(read),
        share(read / whole) if whole else Quantity("-"),
        seconds(max(each.waited_seconds for each in steps)),
        Quantity(f"{sum(each.is_late for each in steps):,}"),
        share_or_dash(sum(held) / len(held) if held else None),
    )
