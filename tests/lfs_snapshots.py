"""A file system's room over time: outputs of `lfs df`, one below the other."""

import re
from dataclasses import dataclass

from weir.lustre.space import TargetSpace, target_of
from weir.lustre.text import lines

BEGIN = re.compile(r"BEGIN[ \t]+(\d{1,12})")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The targets at one moment."""

    time_seconds: float | None
    """Unix time; None where no `BEGIN` line gives it."""
    targets: tuple[TargetSpace, ...]


def parse_snapshots(text: str, source: str) -> tuple[Snapshot, ...]:
    """Read several outputs of `lfs df`, each below a line `BEGIN UNIX-SECONDS`; without any such line there is one.

    Args:
        text: The outputs.
        source: Origin of the text, for errors.

    Returns:
        The snapshots, in their order.

    Raises:
        MalformedError: A line is none of `lfs df`. The error names `source` and the line.
    """
    moments: list[tuple[float | None, list[TargetSpace]]] = []
    for place in lines(text, source):
        begin = BEGIN.fullmatch(place.text.strip())
        if begin:
            moments.append((float(begin[1]), []))
            continue
        if not moments:
            moments.append((None, []))
        found = target_of(place)
        if found is not None:
            moments[-1][1].append(found)
    return tuple(Snapshot(moment, tuple(targets)) for moment, targets in moments)
