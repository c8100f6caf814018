"""Parts of names that no model can foresee: identifiers, times of the clock, and numbers of processes.

A single run shows such a part once, so that it looks like a constant. A UUID is made anew in each run. A number near
the time of its run, and the number of one of its processes, are no accident either.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta

A_UUID = "a UUID"
A_TIME = "a time"
A_RANDOM_NAME = "a random name"
A_PROCESS = "a process number"
AN_IDENTIFIER = "a hash or an identifier"
A_JOB = "a job or process number"

_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_STAMP = re.compile(
    r"(?<![0-9])(?P<date>(?:19|20)[0-9]{2}(?P<dash>[-_.]?)[01][0-9](?P=dash)[0-3][0-9])"
    r"(?:[-_T .]?(?P<time>[0-2][0-9](?P<colon>[-_:.]?)[0-5][0-9](?:(?P=colon)[0-5][0-9])?))?(?![0-9])"
    r"|(?<![0-9])(?P<unix>1[0-9]{9}(?:[0-9]{3}){0,3})(?![0-9])",
    re.ASCII,
)
"""A date, a date and a time, and Unix time in units of a second to a nanosecond."""
_NEAR_SECONDS = 36 * 3600
"""A date is up to a day older than its run, in a time zone that may be half a day away."""
_PROCESS_MIN = 300
"""Smaller numbers are those of steps and ranks more often; Linux gives them to processes only once."""


def reason_of_text(texts: Iterable[str]) -> str:
    """Name the probable meaning of texts that are no numbers.

    Args:
        texts: The texts of one field.

    Returns:
        The meaning in words.
    """
    known = list(texts)
    if all(map(_UUID.fullmatch, known)):
        return A_UUID
    return A_RANDOM_NAME if all(text.startswith("tmp") for text in known) else AN_IDENTIFIER


def is_made_anew(text: str) -> bool:
    """Decide whether a text is a UUID or a random name, which no second run has again.

    Args:
        text: Text of a field that is no number.

    Returns:
        Whether it is; false for a hexadecimal word, which may be the hash of a constant.
    """
    return _UUID.fullmatch(text) is not None or text.startswith("tmp")


def are_process_numbers(values: Sequence[int], processes: frozenset[int]) -> bool:
    """Decide whether numbers are those of a run's processes.

    Args:
        values: The numbers.

    Returns:
        Whether they are; always false for small numbers.
    """
    return bool(values) and all(value >= _PROCESS_MIN and value in processes for value in values)


def stamp_in(name: str, begin: int, started: float, ended: float) -> tuple[int, int] | None:
    """Find a time of the clock in a name: a time near that of the run that made the file.

    Args:
        name: Path of the file.
        begin: Place in the path from which times are looked for.
        started: Unix time of the run's start, in seconds.
        ended: Unix time of the run's end, in seconds.

    Returns:
        Begin and end of the time's text; None where there is none.
    """
    for match in _STAMP.finditer(name, begin):
        if any(started - _NEAR_SECONDS <= moment <= ended + _NEAR_SECONDS for moment in _moments(match)):
            return match.span()
    return None


def _moments(match: re.Match[str]) -> Iterator[float]:
    """Unix times that a text may mean, in seconds; none for a text that is no date."""
    if match["unix"]:
        yield int(match["unix"]) / 10.0 ** (len(match["unix"]) - 10)
        return
    digits = re.sub(r"[^0-9]", "", match["date"] + (match["time"] or ""))
    try:
        date = datetime.strptime(digits[:8], "%Y%m%d").replace(tzinfo=UTC)
        hours, minutes, seconds = (int(digits[at : at + 2] or "0") for at in (8, 10, 12))
    except ValueError:
        return
    yield (date + timedelta(hours=hours, minutes=minutes, seconds=seconds)).timestamp()
