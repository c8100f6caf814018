"""Reader of Lustre's `stats` files (`obdfilter.*.stats`), which have one counter a line.

The format is that of `lprocfs_stats_seq_show`: `name N samples [unit] min max sum sumsq`. The numbers after the unit,
or the last of them, may be missing. From Lustre 2.15 a start and an elapsed time follow the snapshot's.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from weir.lustre.text import Place, lines

_MOMENTS = ("snapshot_time", "start_time", "elapsed_time")
_COUNTER = "`NAME N samples [UNIT] [MIN MAX SUM [SUMSQ]]`"


@dataclass(frozen=True, slots=True)
class Counter:
    """One counter of Lustre, since its start or since the counters were cleared."""

    samples: int
    """Number of samples."""
    unit: str
    """Unit of the samples: `bytes`, `reqs`, `usec`, `usecs` and others."""
    minimum: int | None = None
    """Smallest sample, in `unit`; None where the file lacks the number."""
    maximum: int | None = None
    """Largest sample, in `unit`; None where the file lacks the number."""
    total: int | None = None
    """Sum of the samples, in `unit`; None where the file lacks the number."""


@dataclass(frozen=True, slots=True)
class Counters:
    """The counters of one file."""

    snapshot_seconds: float
    """Unix time at which Lustre read the counters."""
    started: float | None
    """Begin of the counting, by Lustre's own clock; only a change of it has a meaning: the counters began anew."""
    counters: Mapping[str, Counter]
    """Counters by their names."""


def parse_counters(text: str, source: str) -> Counters:
    """Read a `stats` file.

    Args:
        text: Content of the file.
        source: Path of the file, for errors.

    Returns:
        The counters, with the time of the snapshot.

    Raises:
        MalformedError: The text is no `stats` file. The error names `source` and the line.
    """
    moments: dict[str, float] = {}
    counters: dict[str, Counter] = {}
    for place in lines(text, source):
        name, *words = place.text.split()
        if name.rstrip(":") in _MOMENTS and words:
            moments[name.rstrip(":")] = place.decimal(words[0], "seconds after the name")
        else:
            counters[name] = _counter(place, words)
    if "snapshot_time" not in moments:
        Place(source, 1, text.split("\n", 1)[0]).malformed("a `snapshot_time` line")
    return Counters(moments["snapshot_time"], moments.get("start_time"), counters)


def _counter(place: Place, words: list[str]) -> Counter:
    if len(words) < 3 or words[1] != "samples" or not (words[2].startswith("[") and words[2].endswith("]")):
        place.malformed(_COUNTER)
    numbers = [place.signed(word, _COUNTER) for word in words[3:]]
    if len(numbers) not in (0, 3, 4):
        place.malformed(_COUNTER)
    return Counter(place.count(words[0], _COUNTER), words[2][1:-1], *numbers[:3])
