"""Names that cannot be foreseen are called so: identifiers, times of the clock, numbers of processes."""

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest
from weir.prediction.context import NextRun, identity, title
from weir.prediction.creations import predict
from weir.prediction.pattern import Unpredictable
from weir.tracing.records import Creation, Run

STARTED = datetime(2026, 3, 1, 11, 50, 4, tzinfo=UTC).timestamp()
DAY = 86400.0
FIRST, SECOND = UUID(int=0x1234567812345678ABCDEF0123456789), UUID(int=0x9876543212345678ABCDEF0123456789)


def run_at(started: float, *names: str, arguments: str = "", processes: frozenset[int] = frozenset()) -> Run:
    creations = tuple(Creation(f"/s/{name}", 0, at, 100, 100, 1, "-c 1") for at, name in enumerate(names))
    words = tuple(arguments.split())
    return Run("app", words, 1, started, started + 60, creations, "weir", process_numbers=processes)


def told(*past: Run, arguments: str = "") -> tuple[list[str], list[Unpredictable]]:
    prediction = predict(past, NextRun("app", tuple(arguments.split()), 1))
    return [one.path for one in prediction.creations], list(prediction.unpredictable)


@pytest.mark.parametrize(
    ("name", "pattern", "reason"),
    [
        (f"mesh-{FIRST}.h5", "/s/mesh-<a UUID>.h5", "a UUID"),
        ("tmpk3_0zq9a", "/s/<a random name>", "a random name"),
        ("out-20260301T115004.h5", "/s/out-<a time>.h5", "a time"),
        ("out-2026-03-01_11-50-09.h5", "/s/out-<a time>.h5", "a time"),
        ("out-2026-03-01T11:50.h5", "/s/out-<a time>.h5", "a time"),
        ("2026.03.01.h5", "/s/<a time>.h5", "a time"),
        (f"out.{int(STARTED) + 7}", "/s/out.<a time>", "a time"),
        (f"out.{int(STARTED) + 7}123456", "/s/out.<a time>", "a time"),
        ("20260301-115004/out.h5", "/s/<a time>/out.h5", "a time"),
        ("out.41234", "/s/out.<a process number>", "a process number"),
    ],
)
def test_a_single_run_shows_them(name: str, pattern: str, reason: str) -> None:
    """One run shows each of these names once: it was expected again, and nobody was told why it did not come."""
    processes = frozenset({41233, 41234})
    paths, unpredictable = told(run_at(STARTED, name, "log", processes=processes))
    assert paths == ["/s/log"]
    assert [(one.pattern, one.reason, one.files) for one in unpredictable] == [(pattern, reason, 1)]


@pytest.mark.parametrize(
    "name",
    [
        "out-20240301.h5",
        "out.1700000000",
        "20260301/out.h5",
        "out.4123",
        "v2.1/out.41239",
        "deadbeef01.h5",
        "tmpfile_001",
    ],
)
def test_other_numbers_are_expected_again(name: str) -> None:
    assert told(run_at(STARTED, name, processes=frozenset({41234}))) == ([f"/s/{name}"], [])


def test_a_time_that_an_argument_gives_is_known() -> None:
    past = run_at(STARTED, "20260301T1150/out", arguments="-o /s/20260301T1150/out")
    assert told(past, arguments="-o /s/x/out") == (["/s/x/out"], [])


def test_identifiers_of_several_runs() -> None:
    paths, (mesh,) = told(run_at(STARTED, f"{FIRST}.h5"), run_at(STARTED + DAY, f"{SECOND}.h5"))
    assert (paths, mesh.pattern, mesh.reason) == ([], "/s/<a UUID>.h5", "a UUID")
    assert told(run_at(STARTED, f"{FIRST}.h5"), run_at(STARTED + DAY, f"{FIRST}.h5"))[0] == [f"/s/{FIRST}.h5"]


def test_scratch_files_of_tempfile_are_one_pattern() -> None:
    past = [
        run_at(STARTED, "tmpk3_0zq9a", "tmpx81mq_2b", "out"),
        run_at(STARTED + DAY, "tmpb7wq3n5d", "tmp5hq1_c0z", "out"),
    ]
    paths, (one,) = told(*past)
    assert (paths, one.pattern, one.files) == (["/s/out"], "/s/<a random name>", 2)


def test_times_of_several_runs() -> None:
    """Their hours and minutes were numbers with roles of their own: a counter, or a job number."""
    past = [run_at(STARTED, "out_2026-03-01_11-50-04"), run_at(STARTED + DAY, "out_2026-03-02_11-52-31")]
    paths, (one,) = told(*past)
    assert (paths, one.pattern, one.reason) == ([], "/s/out_<a time>", "a time")
    hours = [f"forecast_2026-03-01_{hour:02}:00:00" for hour in range(6)]
    assert told(run_at(STARTED, *hours), run_at(STARTED + 60, *hours))[0] == [f"/s/{hour}" for hour in hours]


def test_process_numbers_of_several_runs() -> None:
    past = [
        run_at(STARTED, "out.41234", processes=frozenset({41234})),
        run_at(STARTED + 60, "out.50321", processes=frozenset({50321, 50322})),
    ]
    paths, (one,) = told(*past)
    assert (paths, one.pattern, one.reason) == ([], "/s/out.<a process number>", "a process number")
    unknown = [replace(run, process_numbers=frozenset()) for run in past]
    assert told(*unknown)[1][0].reason == "a job or process number"


@pytest.mark.parametrize(
    ("program", "arguments", "key", "name"),
    [
        ("model", "-n 3", ("model",), "model"),
        ("python3.11", "/a/one.py -n 3", ("python3.11", "one.py"), "python3.11 one.py"),
        ("python3.11", "-u -X dev -W ignore one.py", ("python3.11", "one.py"), "python3.11 one.py"),
        ("python3.11", "-m pkg.tool --steps 4", ("python3.11", "-m pkg.tool"), "python3.11 -m pkg.tool"),
        ("bash", "-e job.sh", ("bash", "job.sh"), "bash job.sh"),
        ("python3.11", "", ("python3.11",), "python3.11"),
    ],
)
def test_a_script_tells_programs_apart(program: str, arguments: str, key: tuple[str, ...], name: str) -> None:
    assert identity(program, arguments.split()) == key
    assert title(program, arguments.split()) == name
