"""Moments as people spell them: `14:00`, `yesterday`, `2h` ago, or a date."""

import re
from datetime import datetime, timedelta

_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?", re.ASCII)
_DAYS = re.compile(r"(\d{1,4})d", re.ASCII)
EXAMPLES = "14:00, yesterday, 2h (ago), 3d (ago), 2026-03-01 or 2026-03-01T14:00:30"


def read_moment(text: str, now: float) -> float:
    """Read a moment, in local time.

    Args:
        text: `now`; `today` or `yesterday`, their begin; a time of day, the last one that was; a time ago, such as
            `90s`, `2h` or `3d`; or a date with or without a time of day (ISO 8601).
        now: Unix time in seconds.

    Returns:
        Unix time in seconds.

    Raises:
        ValueError: The text is none of these, or lies ahead.
    """
    found = _read(text.strip(), now)
    if found > now:
        raise ValueError(f"{text!r} lies ahead")
    return found


def duration_seconds(text: str) -> float:
    """Read a time in seconds, also of days, such as `35d`.

    Raises:
        ValueError: The text is no time.
    """
    from weir.store import values

    days = _DAYS.fullmatch(text.strip())
    return int(days[1]) * 86_400.0 if days else values.duration(text)


def _read(text: str, now: float) -> float:
    present = datetime.fromtimestamp(now)
    midnight = present.replace(hour=0, minute=0, second=0, microsecond=0)
    words = {"now": present, "today": midnight, "yesterday": midnight - timedelta(days=1)}
    if text in words:
        return now if text == "now" else words[text].timestamp()
    clock = _CLOCK.fullmatch(text)
    try:
        if clock:
            hour, minute, second = (int(part or 0) for part in clock.groups())
            at = midnight.replace(hour=hour, minute=minute, second=second)
            return (at if at <= present else at - timedelta(days=1)).timestamp()
        if text[:4].isdigit() and "-" in text:
            return datetime.fromisoformat(text).timestamp()
        return now - duration_seconds(text)
    except (ValueError, OverflowError, OSError):
        raise ValueError(f"{text!r} is no moment; write {EXAMPLES}") from None
