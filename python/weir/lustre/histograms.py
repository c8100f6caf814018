"""`brw_stats` files of Lustre (`osd-*.*.brw_stats`): histograms of bulk reads and writes.

Each histogram has a title line and a line for each bucket, reads to the left of a bar and writes to its right. A bucket
of sizes or times is named by its upper bound, a power of two (`lprocfs_oh_tally_log2`); one of counts by the count.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from weir.lustre.text import Place, lines

_TITLE = re.compile(r"(\S.*?\S)[ \t]{2,}(\w+)[ \t]+%[ \t]+cum[ \t]+%[ \t]*\|.*")
_SIDES = re.compile(r"[ \t]*read[ \t]*\|[ \t]*write[ \t]*")
_SIDE = r"[ \t]*(\d+)[ \t]+\d+[ \t]+\d+[ \t]*"
_BUCKET = re.compile(rf"[ \t]*(\d{{1,15}})([KMGTP]?):{_SIDE}\|{_SIDE}")
_MOMENT = re.compile(r"(snapshot_time|start_time|elapsed_time):?[ \t]+(\S+).*")
_EXPONENT = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40, "P": 50}

IO_TIME = "I/O time"
"""Histogram of how long disk I/Os took, in milliseconds."""
IO_SIZE = "disk I/O size"
"""Histogram of the sizes of disk I/Os, in bytes."""
IN_FLIGHT = "disk I/Os in flight"
"""Histogram of how many disk I/Os were under way as one began."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """How often each bucket was met."""

    unit: str
    """What was counted: `rpcs`, `ios` or `maps`."""
    reads: Mapping[int, int]
    """Counts of reads, by bucket."""
    writes: Mapping[int, int]
    """Counts of writes, by bucket."""


@dataclass(frozen=True, slots=True)
class Histograms:
    """The histograms of one file."""

    snapshot_seconds: float
    """Unix time at which Lustre read them."""
    histograms: Mapping[str, Histogram]
    """By title, without the unit in brackets behind it."""


def parse_brw_stats(text: str, source: str) -> Histograms:
    """The histograms of a `brw_stats` file.

    Raises:
        MalformedError: naming `source` and the line, where it is no such file.
    """
    snapshot_seconds = None
    histograms: dict[str, Histogram] = {}
    reads: dict[int, int] | None = None
    writes: dict[int, int] = {}
    for place in lines(text, source):
        if moment := _MOMENT.fullmatch(place.text):
            seconds = place.decimal(moment[2], "seconds after the name")
            snapshot_seconds = seconds if moment[1] == "snapshot_time" else snapshot_seconds
        elif title := _TITLE.fullmatch(place.text):
            reads, writes = {}, {}
            histograms[title[1].split(" (")[0]] = Histogram(title[2], reads, writes)
        elif (bucket := _BUCKET.fullmatch(place.text)) and reads is not None:
            bound = int(bucket[1]) << _EXPONENT[bucket[2]]
            reads[bound] = place.count(bucket[3], "a number of reads")
            writes[bound] = place.count(bucket[4], "a number of writes")
        elif not _SIDES.fullmatch(place.text):
            place.malformed("`BUCKET: N % % | N % %` below a title")
    if snapshot_seconds is None:
        Place(source, 1, text.split("\n", 1)[0]).malformed("a `snapshot_time:` line")
    return Histograms(snapshot_seconds, histograms)
