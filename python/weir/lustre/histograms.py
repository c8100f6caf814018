"""Reader of Lustre's `brw_stats` files (`osd-*.*.brw_stats`): histograms of bulk reads and writes.

Each histogram has a title line and a line for each bucket, reads to the left of a bar and writes to its right. The name
of a bucket of sizes or times is its upper bound, a power of two (`lprocfs_oh_tally_log2`); that of a bucket of counts
is the count.
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
"""Histogram of the times of disk I/Os, in milliseconds."""
IO_SIZE = "disk I/O size"
"""Histogram of the sizes of disk I/Os, in bytes."""
IN_FLIGHT = "disk I/Os in flight"
"""Histogram of the number of disk I/Os under way when one began."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """The counts of one histogram."""

    unit: str
    """Counted things: `rpcs`, `ios` or `maps`."""
    reads: Mapping[int, int]
    """Counts of reads, by bucket."""
    writes: Mapping[int, int]
    """Counts of writes, by bucket."""


@dataclass(frozen=True, slots=True)
class Histograms:
    """The histograms of one file."""

    snapshot_seconds: float
    """Unix time at which Lustre read the histograms."""
    histograms: Mapping[str, Histogram]
    """Histograms by their titles, without the unit in brackets behind a title."""


def parse_brw_stats(text: str, source: str) -> Histograms:
    """Read a `brw_stats` file.

    Args:
        text: Content of the file.
        source: Path of the file, for errors.

    Returns:
        The histograms, with the time of the snapshot.

    Raises:
        MalformedError: The text is no `brw_stats` file. The error names `source` and the line.
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
