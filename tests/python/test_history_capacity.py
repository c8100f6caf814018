"""The trend of the room on targets: the day on which each will be full, from states that a history kept."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from weir.history.capacity import trends
from weir.history.database import Database
from weir.history.levels import DAY, HOUR, MINUTE
from weir.history.reading import History
from weir.history.samples import Sample
from weir.history.tables import KNOWN, STATES

BEGIN = 1_790_000_000_000
GIB = 1 << 30


def kept(folder: Path, hours: float, held: "dict[str, tuple[float, float]]") -> tuple[History, int]:
    """A history in which each target holds so much at the begin, and so much more each day, of 100 GiB."""
    database = Database(folder, bytes_max=1 << 30)
    end = BEGIN + round(hours * HOUR)
    at = BEGIN
    while at <= end:
        sample = Sample(at, 1000)
        sample.rows[KNOWN] = [(0, at, 0, 1000)]
        sample.rows[STATES] = [
            (0, at, name, round((first + daily * (at - BEGIN) / DAY) * GIB), 100 * GIB, None, 0, *[None] * 4)
            for name, (first, daily) in held.items()
        ]
        database.add(sample)
        at += 5 * MINUTE
    database.close()
    return History(folder), end


def test_the_day_is_that_of_a_line_through_what_targets_held(tmp_path: Path) -> None:
    history, end = kept(tmp_path, 48, {"0.0": (10, 20), "0.1": (50, 0), "0.2": (60, -5), "0.3": (90, 0.001)})
    found = {trend.target: trend for trend in trends(history, end)}
    history.close()
    assert list(found) == ["0.0", "0.1", "0.2", "0.3"], "the one that is full first comes first"
    growing = found["0.0"]
    assert growing.bytes_per_day == pytest.approx(20 * GIB, rel=1e-6)
    # 50 GiB after two days; 50 more take two and a half.
    assert growing.full_at == pytest.approx(end + 2.5 * DAY, abs=HOUR)
    assert found["0.1"].full_at is None
    assert found["0.2"].full_at is None
    assert found["0.3"].full_at is None, "thirty years are no forecast"


def test_df_shows_the_trend_of_a_store_that_is_down(tmp_path: Path) -> None:
    history, end = kept(tmp_path / "home/history", 48, {"0.0": (10, 20), "0.1": (60, -5)})
    history.close()
    command = [sys.executable, "-m", "weir.cli", "--home", str(tmp_path / "home"), "df", "--trend"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    day = time.strftime("%Y-%m-%d", time.localtime((end + 2.5 * DAY) / 1000))
    assert shown[1].split()[-1] == day
    assert shown[1].split()[-3:-1] == ["20.0", "GiB"]
    assert shown[2].split()[-3:] == ["-5.0", "GiB", "-"]
    told = json.loads(subprocess.run([*command, "--output", "json"], capture_output=True, text=True, check=True).stdout)
    assert [each["target"] for each in told] == ["0.0", "0.1"]


def test_less_than_an_hour_says_nothing(tmp_path: Path) -> None:
    history, end = kept(tmp_path, 0.8, {"0.0": (10, 20)})
    (trend,) = trends(history, end)
    history.close()
    assert trend.bytes_per_day is None
    assert trend.full_at is None
    assert trend.used_bytes > 10 * GIB


def test_what_came_later_does_not_count(tmp_path: Path) -> None:
    history, end = kept(tmp_path, 48, {"0.0": (10, 20)})
    (before,) = trends(history, end - DAY)
    history.close()
    assert before.used_bytes == pytest.approx(30 * GIB, rel=0.01)
