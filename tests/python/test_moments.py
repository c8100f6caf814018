"""Moments of a history as people spell them."""

from datetime import datetime

import pytest
from weir.history.moments import duration_seconds, read_moment

NOW = datetime(2026, 3, 2, 15, 30, 20).timestamp()


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("now", datetime(2026, 3, 2, 15, 30, 20)),
        ("today", datetime(2026, 3, 2)),
        ("yesterday", datetime(2026, 3, 1)),
        ("14:00", datetime(2026, 3, 2, 14)),
        ("14:00:05", datetime(2026, 3, 2, 14, 0, 5)),
        ("23:59", datetime(2026, 3, 1, 23, 59)),
        ("90s", datetime(2026, 3, 2, 15, 28, 50)),
        ("2h", datetime(2026, 3, 2, 13, 30, 20)),
        ("3d", datetime(2026, 2, 27, 15, 30, 20)),
        ("2026-01-31", datetime(2026, 1, 31)),
        ("2026-01-31T07:08:09", datetime(2026, 1, 31, 7, 8, 9)),
        ("2026-01-31 07:08", datetime(2026, 1, 31, 7, 8)),
    ],
)
def test_a_moment_is_read_in_local_time(text: str, moment: datetime) -> None:
    assert read_moment(text, NOW) == moment.timestamp()


@pytest.mark.parametrize(
    "text", ["", "soon", "25:00", "14:60", "14", "-2h", "2026-02-30", "9999d9", "1e9", "2026-13-01T"]
)
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no moment"):
        read_moment(text, NOW)


def test_what_lies_ahead_is_refused() -> None:
    with pytest.raises(ValueError, match="lies ahead"):
        read_moment("2026-03-03", NOW)


def test_times_may_be_days() -> None:
    assert duration_seconds("35d") == 35 * 86_400
    assert duration_seconds("1h 30m") == 5400
