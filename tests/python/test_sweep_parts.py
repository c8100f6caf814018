"""The parts of sweeps that know no simulator: the ledger, statistics, and pools of threads."""

import json
import math
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from waits import PATIENCE_SECONDS
from weir.simulation.intervals import spelled
from weir.simulation.sweeps.errors import SweepError
from weir.simulation.sweeps.ledger import Header, Record, opened, read_records
from weir.simulation.sweeps.pools import Threads
from weir.simulation.sweeps.statistics import best, cells

HEADER = Header("sweep.toml", "digest", {"the values of seed": "a"}, {"seed": [0, 1]})


def record(key: str, **figures: float) -> Record:
    return Record(key, {"seed": 1, "policy": "fifo"}, dict(figures))


def test_a_ledger_keeps_every_bit_of_a_figure(tmp_path: Path) -> None:
    values = {"a": 0.1 + 0.2, "b": -0.0, "c": 5e-324, "d": 1.7976931348623157e308}
    with opened(tmp_path / "out", HEADER) as ledger:
        ledger.add(record("k", **values))
    with opened(tmp_path / "out", HEADER) as ledger:
        found = ledger.records["k"].figures
        assert found is not None
        assert {name: math.copysign(1, value) for name, value in found.items()} == {
            name: math.copysign(1, value) for name, value in values.items()
        }
        assert found == values
        assert ledger.records["k"].settings == {"seed": 1, "policy": "fifo"}


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_line_that_a_crash_cut_short_is_no_point(tmp_path: Path, cut: int) -> None:
    folder = tmp_path / "out"
    with opened(folder, HEADER) as ledger:
        ledger.add(record("whole", seconds=1.0))
        ledger.add(record("torn", seconds=2.0))
    file = folder / "points.ndjson"
    file.write_bytes(file.read_bytes()[:-cut])
    with opened(folder, HEADER) as ledger:
        assert list(ledger.records) == ["whole"]
        ledger.add(record("next", seconds=3.0))
    assert list(read_records(folder)) == ["whole", "next"]


def test_a_sweep_that_is_killed_keeps_its_finished_points(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from weir.simulation.sweeps.ledger import Header, Record, opened\n"
        "with opened(Path(sys.argv[1]), Header('f', 'd', {}, {})) as ledger:\n"
        "    for number in range(5):\n"
        "        ledger.add(Record(str(number), {}, {'x': number}))\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    answer = subprocess.run([sys.executable, "-c", script, tmp_path / "out"], timeout=PATIENCE_SECONDS, check=False)
    assert answer.returncode == -9
    with opened(tmp_path / "out", Header("f", "d", {}, {})) as ledger:
        assert list(ledger.records) == ["0", "1", "2", "3", "4"]


def test_a_changed_plan_is_refused_and_its_change_is_named(tmp_path: Path) -> None:
    other = Header("sweep.toml", "other", {"the values of seed": "b"}, {"seed": [0, 1, 2]})
    with opened(tmp_path / "out", HEADER) as ledger:
        ledger.add(record("k", seconds=1.0))
    with pytest.raises(SweepError, match="the values of seed changed"), opened(tmp_path / "out", other):
        pass
    with opened(tmp_path / "out", other, is_changed_allowed=True) as ledger:
        assert list(ledger.records) == ["k"]
    with opened(tmp_path / "out", other):
        pass


def test_two_sweeps_do_not_write_to_one_folder(tmp_path: Path) -> None:
    with (
        opened(tmp_path / "out", HEADER),
        pytest.raises(SweepError, match="another sweep writes to it"),
        opened(tmp_path / "out", HEADER),
    ):
        pass


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("words")
    with pytest.raises(SweepError, match="holds other files"), opened(tmp_path, HEADER):
        pass
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize(
    "line", [b"{}", b"[1]", b"null", b"\xff\xfe", b'{"key": 1, "settings": {}, "figures": null, "refusal": null}']
)
def test_a_damaged_line_is_named(tmp_path: Path, line: bytes) -> None:
    with opened(tmp_path / "out", HEADER) as ledger:
        ledger.add(record("k", seconds=1.0))
    file = tmp_path / "out" / "points.ndjson"
    file.write_bytes(file.read_bytes() + line + b"\n")
    with pytest.raises(SweepError, match=r"points\.ndjson:2 is no point"), opened(tmp_path / "out", HEADER):
        pass


def rows(values: dict[str, list[float]]) -> list[tuple[dict[str, object], dict[str, object]]]:
    return [
        ({"policy": policy, "seed": seed}, {"seconds": value, "is_complete": True, "none": None})
        for policy, each in values.items()
        for seed, value in enumerate(each)
    ]


def test_the_best_is_told_from_others_by_differences_seed_by_seed() -> None:
    # The seeds differ by far more than the policies do, and yet `a` is better than `b` with every seed.
    found = cells(rows({"a": [1.0, 10.0, 100.0], "b": [2.0, 11.0, 101.1], "c": [1.5, 9.5, 100.1]}))
    chosen = best(found, "seconds", is_greater_better=False)
    assert chosen is not None
    assert chosen.cell.settings == {"policy": "a"}
    assert [cell.settings for cell in chosen.as_good] == [{"policy": "c"}]
    most = best(found, "seconds", is_greater_better=True)
    assert most is not None
    assert most.cell.settings == {"policy": "b"}
    assert best(found, "none", is_greater_better=True) is None


def test_figures_without_a_square_are_left_out() -> None:
    """A damaged file told of 1e200 seconds once; the interval's squares overflowed."""
    for damaged in (1e200, -1e308, float("inf"), float("nan"), 10**400):
        (found,) = cells(rows({"a": [1.0, damaged, 3.0]}))
        mean = found.mean("seconds")
        assert mean is not None and mean.mean == 2.0


def test_the_last_digits_of_sums_tell_nothing() -> None:
    # All device time went where it was owed under both policies: the figures differ by the rounding of sums alone.
    rows = [
        ({"policy": policy, "seed": seed}, {"share_error": error * (1 + seed)})
        for policy, error in (("fifo", 1e-17), ("user-fair", 8e-17))
        for seed in range(3)
    ]
    found = best(cells(rows), "share_error", is_greater_better=False)
    assert found is not None and [cell.settings["policy"] for cell in found.as_good] == ["user-fair"]
    assert spelled(found.cell.mean("share_error")) == "0 ± 0"


def test_one_seed_has_no_interval() -> None:
    found = cells(rows({"a": [1.0], "b": [1.0], "c": [2.0]}))
    mean = found[0].mean("seconds")
    assert mean is not None
    assert mean.low is None and mean.high is None
    chosen = best(found, "seconds", is_greater_better=False)
    assert chosen is not None
    assert [cell.settings for cell in chosen.as_good] == [{"policy": "b"}]


@dataclass(frozen=True)
class Number:
    key: str
    value: int


def test_threads_answer_every_task_and_take_few_ahead() -> None:
    taken = 0

    def tasks() -> object:
        nonlocal taken
        for value in range(100):
            taken += 1
            yield Number(str(value), value)

    def square(task: Number, is_wanted: Callable[[], bool]) -> int:
        assert is_wanted()
        return task.value**2

    found = {}
    for task, answer in Threads(3).answers(square, tasks()):  # type: ignore[arg-type]
        found[task.value] = answer
        assert taken <= len(found) + 6
    assert found == {value: value**2 for value in range(100)}


def test_threads_end_what_is_under_way_when_nobody_wants_it() -> None:
    begun = threading.Semaphore(0)
    heard: list[bool] = []

    def wait(task: Number, is_wanted: Callable[[], bool]) -> int:
        if task.value == 0:
            return 0
        begun.release()
        while is_wanted():
            threading.Event().wait(0.001)
        heard.append(True)
        return 1

    with closing(Threads(2).answers(wait, [Number(str(value), value) for value in range(50)])) as answers:
        next(answers)
        begun.acquire(timeout=PATIENCE_SECONDS)
    assert 1 <= len(heard) <= 2


def test_an_error_of_a_task_is_raised() -> None:
    def fail(task: Number, is_wanted: Callable[[], bool]) -> int:
        raise SweepError(f"task {task.key}")

    with pytest.raises(SweepError, match="task 0"):
        list(Threads(1).answers(fail, [Number("0", 0)]))


def test_documents_of_ledgers_are_json(tmp_path: Path) -> None:
    with opened(tmp_path / "out", HEADER) as ledger:
        ledger.add(Record("k", {"seed": 0}, None, "no such policy"))
    line = json.loads((tmp_path / "out" / "points.ndjson").read_text())
    assert line == {"key": "k", "settings": {"seed": 0}, "figures": None, "refusal": "no such policy"}
