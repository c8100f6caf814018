"""The file of a history: sums and maxima stay while it grows coarser, and no kill and no full disk takes anything."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import histories
import pytest
from disks import small
from seeds import seeded
from weir.history.database import FILE, Database
from weir.history.errors import FullDiskError, HistoryError
from weir.history.levels import DAY, HOUR
from weir.history.reading import History
from weir.history.samples import Sample
from weir.history.tables import FURTHER, LINES_MAX, WORK, Table

GIB = 1 << 30
SUMMED = [*WORK.sums]


def kept(folder: Path, samples: list[Sample], **settings: Any) -> Database:
    """A history that has samples."""
    database = Database(folder, **{"bytes_max": GIB, **settings})
    for each in samples:
        database.add(each)
    return database


def rows(folder: Path, statement: str) -> list[Any]:
    """What a statement finds in the file of a history."""
    connection = sqlite3.connect(folder / FILE)
    try:
        return connection.execute(statement).fetchall()
    finally:
        connection.close()


def expected(samples: list[Sample], table: Table, columns: tuple[str, ...], reduce: Any) -> dict[Any, list[Any]]:
    """Columns of the rows of samples by their keys, without any database."""
    found: dict[Any, list[Any]] = {}
    places = [table.columns.index(column) for column in columns]
    for each in samples:
        for row in each.rows.get(table, []):
            key = (row[2].job, row[3])  # type: ignore[attr-defined]
            values = [row[place] for place in places]
            found[key] = [reduce(pair) for pair in zip(found[key], values, strict=True)] if key in found else values
    return found


@pytest.mark.parametrize("age", [0, 3 * HOUR, 3 * DAY, 9 * DAY])
def test_sums_and_maxima_are_kept_at_every_age(tmp_path: Path, age: int) -> None:
    generator = seeded()
    numbers = sorted(generator.sample(range(histories.BEGIN, histories.BEGIN + 5000), 150))
    samples = [histories.sample(number, generator) for number in numbers]
    database = kept(tmp_path, samples)
    database.settle(numbers[-1] * 1000 + age)
    database.close()
    named = "FROM work JOIN jobs ON jobs.number = work.job JOIN device_names ON device_names.number = work.device"
    for columns, reduce, word in ((WORK.sums, sum, "sum"), (WORK.maxima, max, "max")):
        figures = ", ".join(f"{word}({column})" for column in columns)
        found = rows(tmp_path, f"SELECT jobs.job, device_names.device, {figures} {named} GROUP BY 1, 2")
        assert {(job, device): list(values) for job, device, *values in found} == expected(
            samples, WORK, columns, reduce
        )
    levels = {level for (level,) in rows(tmp_path, "SELECT DISTINCT level FROM work")}
    assert levels <= {0: {0}, 3 * HOUR: {1}, 3 * DAY: {2}, 9 * DAY: {3}}[age]
    # What is known does not grow with the width of buckets: gaps stay.
    assert rows(tmp_path, "SELECT sum(known_ms) FROM known") == [(150 * 1000,)]


@pytest.mark.parametrize("age", [0, 3 * HOUR, 3 * DAY, 9 * DAY])
def test_predictions_are_kept_at_every_age(tmp_path: Path, age: int) -> None:
    begin, key = histories.BEGIN, histories.key(1)
    samples = [Sample((begin + place + 1) * 1000, 1000) for place in range(40)]
    for place, sample in enumerate(samples):
        sample.add_predictions(histories.predicted(begin + place, slowed=place % 4 == 0))
    database = kept(tmp_path, samples)
    assert database.last_prediction() == begin + 39
    database.settle((begin + 40) * 1000 + age)
    database.close()
    history = History(tmp_path)
    slowed, calm = history.predictions(0, (begin + 600) * 1000, key)
    assert (slowed.windows, slowed.slowed, slowed.slowdown_max, slowed.basis) == (10, 10, 5.0, "measured")
    assert (slowed.job, slowed.user) == ("flood", "bob")
    assert (calm.windows, calm.slowed, calm.slowdown_max, calm.basis, calm.job) == (30, 0, 1.0, "trees", "")
    assert history.predictions(0, (begin + 600) * 1000, histories.key(2)) == []
    history.close()


def test_a_history_of_a_program_that_kept_no_predictions_is_read(tmp_path: Path) -> None:
    kept(tmp_path, [histories.sample(histories.BEGIN, seeded(7))]).close()
    rows(tmp_path, "DROP TABLE predictions")
    history = History(tmp_path)
    assert history.predictions(0, (histories.BEGIN + 1) * 1000, histories.key(0)) == []
    history.close()
    database = Database(tmp_path, bytes_max=GIB)
    assert database.last_prediction() == 0
    database.close()


def test_a_history_is_kept_for_as_long_as_it_was_asked(tmp_path: Path) -> None:
    generator = seeded(5)
    database = kept(tmp_path, [histories.sample(histories.BEGIN, generator)], kept=40 * DAY)
    database.settle(histories.BEGIN * 1000 + 39 * DAY)
    assert rows(tmp_path, "SELECT count(*) FROM known") == [(1,)]
    database.settle(histories.BEGIN * 1000 + 41 * DAY)
    assert rows(tmp_path, "SELECT count(*) FROM known") == [(0,)]
    database.close()


def test_a_gap_is_a_gap_and_idleness_is_none(tmp_path: Path) -> None:
    generator = seeded(6)
    begin = histories.BEGIN
    samples = [histories.sample(begin + place, generator, jobs=0) for place in (*range(10), *range(25, 40))]
    kept(tmp_path, samples).close()
    history = History(tmp_path)
    [gap] = history.gaps(begin * 1000, (begin + 40) * 1000)
    assert (gap.server, gap.begin, gap.end) == (0, (begin + 10) * 1000, (begin + 25) * 1000)
    assert history.gaps((begin + 2) * 1000, (begin + 9) * 1000) == []
    assert history.jobs(begin * 1000, (begin + 40) * 1000) == []
    history.close()


def test_a_window_in_which_a_server_started_is_a_gap_where_it_ended_in_it_too(tmp_path: Path) -> None:
    generator, begin = seeded(8), histories.BEGIN
    samples = []
    for number, is_whole in ((0, False), (1, True), (2, False), (4, True), (6, False)):
        window = replace(histories.window(begin + number, generator, 3), is_whole=is_whole)
        samples.append(Sample((begin + number + 1) * 1000, 1000))
        samples[-1].add_windows(begin + number, [window], {0: begin + number - 1} if number == 2 else {})
    kept(tmp_path, samples).close()
    history = History(tmp_path)
    found = [
        (gap.begin // 1000 - begin, gap.end // 1000 - begin) for gap in history.gaps(begin * 1000, begin * 1000 + 7000)
    ]
    assert found == [(2, 4), (5, 6)]
    worked = rows(tmp_path, "SELECT DISTINCT begin FROM work ORDER BY begin")
    assert worked == [((begin + number) * 1000,) for number in (0, 1, 2, 4, 6)]
    history.close()


def test_a_window_that_is_told_twice_counts_once(tmp_path: Path) -> None:
    number = histories.BEGIN
    database = kept(tmp_path, [histories.sample(number, seeded(7))])
    before = rows(tmp_path, "SELECT * FROM work")
    again = Sample((number + 1) * 1000, 1000)
    again.add_windows(number, [histories.window(number, seeded(7), 3)], database.reached())
    assert again.is_empty
    assert database.reached() == {0: number}
    database.close()
    assert rows(tmp_path, "SELECT * FROM work") == before


def test_many_jobs_fold_into_a_bounded_number_of_rows_with_the_same_sums(tmp_path: Path) -> None:
    generator = seeded(8)
    samples = [histories.sample(histories.BEGIN // 10 * 10 + place, generator, jobs=700) for place in range(3)]
    database = kept(tmp_path, samples)
    sums = ", ".join(f"sum({name})" for name in SUMMED)
    before = rows(tmp_path, f"SELECT {sums} FROM work")
    database.settle(histories.BEGIN * 1000 + 3 * HOUR)
    database.close()
    assert rows(tmp_path, f"SELECT {sums} FROM work") == before
    assert rows(tmp_path, "SELECT count(*) FROM work") == [(LINES_MAX + 1,)]
    least = rows(tmp_path, f"SELECT min(request_us) FROM work WHERE job != {FURTHER}")[0][0]
    assert least > 0
    [further] = rows(tmp_path, f"SELECT device, request_us FROM work WHERE job = {FURTHER}")
    assert further[0] == FURTHER
    history = History(tmp_path)
    assert history.jobs(0, 1 << 60)[-1].job == ""
    history.close()


def test_the_file_stays_within_its_bound_and_says_how_far_it_reaches(tmp_path: Path) -> None:
    generator, bound = seeded(9), 512 << 10
    database = kept(tmp_path, [], bytes_max=bound)
    settled = None
    # Some windows of each hour of three days, with the work of 40 jobs each: more than the bound holds.
    numbers = range(histories.BEGIN, histories.BEGIN + 3 * 86_400, 720)
    for number in numbers:
        database.add(histories.sample(number, generator, jobs=40))
        if number % 3600 < 720:
            settled = database.settle((number + 1) * 1000)
            assert settled.used_bytes <= bound
    assert settled is not None
    assert settled.shortened is not None, "the bound cut the history"
    database.close()
    assert (tmp_path / FILE).stat().st_size < 2 * bound
    # The newest windows are whole.
    assert rows(tmp_path, "SELECT max(begin) FROM known") == [(numbers[-1] * 1000,)]


def test_a_recorder_that_is_killed_at_any_moment_loses_nothing_that_it_kept(tmp_path: Path) -> None:
    generator = seeded()
    number = histories.BEGIN
    told: list[int] = []
    for _ in range(12):
        command = [sys.executable, histories.__file__, str(tmp_path), str(number), str(generator.randrange(1 << 30))]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            told.append(int(process.stdout.readline()))
            time.sleep(generator.random() * 0.3)
            process.send_signal(signal.SIGKILL)
            told += [int(line) for line in process.stdout.read().split("\n")[:-1]]
        # What was told is there; one more may be, that was kept and not told.
        assert rows(tmp_path, "PRAGMA integrity_check") == [("ok",)]
        known = rows(tmp_path, "SELECT sum(known_ms) FROM known")[0][0] // 1000
        assert len(told) <= known <= len(told) + 1
        number = rows(tmp_path, "SELECT window FROM servers")[0][0] + 1
        told += [] if known == len(told) else [number - 1]
    # Folding was cut off, too: no bucket counts twice and none is lost.
    by_level = defaultdict(int, rows(tmp_path, "SELECT level, sum(known_ms) FROM known GROUP BY level"))
    assert by_level[1] > 0
    assert sum(by_level.values()) == len(told) * 1000


def test_a_second_recorder_is_refused(tmp_path: Path) -> None:
    database = kept(tmp_path, [])
    with pytest.raises(HistoryError, match="another recorder"):
        Database(tmp_path, bytes_max=GIB)
    database.close()
    Database(tmp_path, bytes_max=GIB).close()


def test_a_file_that_is_no_history_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"a diary, and no database at all" * 100)
    with pytest.raises(HistoryError, match="is no history"):
        Database(tmp_path, bytes_max=GIB)
    assert (tmp_path / FILE).read_bytes().startswith(b"a diary")
    with pytest.raises(HistoryError, match="cannot read"):
        History(tmp_path)
    with pytest.raises(HistoryError, match="there is no history"):
        History(tmp_path / "none")


def test_a_full_disk_is_told_and_takes_nothing_that_was_kept(tmp_path: Path) -> None:
    generator = seeded(11)
    with small(tmp_path, "tmpfs") as disk:
        folder = disk.path / "history"
        first = histories.BEGIN
        database = kept(folder, [histories.sample(first + place, generator) for place in range(20)])
        disk.fill()
        number = first + 20
        with pytest.raises(FullDiskError, match="no room") as refused:
            while number < first + 2000:
                database.add(histories.sample(number, generator, jobs=100))
                number += 1
        assert "what was kept before is whole" in refused.value.hint
        known = rows(folder, "SELECT count(*), max(begin) FROM known WHERE level = 0")
        assert known == [(number - first, (number - 1) * 1000)]
        disk.free()
        database.add(histories.sample(number, generator))
        database.close()
        assert rows(folder, "PRAGMA integrity_check") == [("ok",)]
        assert rows(folder, "SELECT max(begin) FROM known") == [(number * 1000,)]


def test_the_history_is_private(tmp_path: Path) -> None:
    kept(tmp_path / "history", []).close()
    assert (tmp_path / "history").stat().st_mode & 0o777 == 0o700
    for file in (tmp_path / "history").iterdir():
        assert file.stat().st_mode & 0o077 == 0
    assert os.access(tmp_path / "history" / FILE, os.R_OK)
