"""The benchmark of speed: its load does what it counts, and its figures are the worst of the measured ones."""

import importlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from waits import PATIENCE_SECONDS

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
BLOCK = 1 << 20
HEADLINES = {
    "create_vs_prefix",
    "open_read_close_vs_prefix",
    "reread_4k_vs_tmpfs",
    "round_trip_vs_pingpong",
    "read_1m_vs_before",
    "reread_1m_vs_tmpfs",
    "cold_write_1m_vs_tmpfs",
    "warm_write_1m_vs_before",
    "shared_x4_prefix_vs_run",
    "stat_vs_glusterfs",
    "mount_stat_vs_before",
    "mount_small_read_vs_before",
    "programs_vs_tmpfs_max",
    "remote_4k_vs_before",
    "random_read_4k_vs_tmpfs",
    "random_write_4k_vs_tmpfs",
}


@pytest.fixture(scope="module")
def module() -> Iterator[Any]:
    """Imports a module of the benchmarks by its name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        yield importlib.import_module


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled load."""
    program = tmp_path_factory.mktemp("load") / "speed_load"
    command: list[str | Path] = ["cc", "-O1", "-Wall", "-Wextra", "-Werror", "-o", program, BENCHMARKS / "speed_load.c"]
    subprocess.run(command, check=True, timeout=PATIENCE_SECONDS)
    return program


def take(load: Path, folder: Path, processes: int, *turns: str) -> list[int]:
    """The operations of each turn."""
    answer = subprocess.run(
        [load, folder, str(processes)],
        input="".join(f"{turn}\n" for turn in turns),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    ready, *lines = answer.stdout.splitlines()
    assert ready == "ready"
    assert all(float(line.split()[1]) > 0 for line in lines)
    return [int(line.split()[0]) for line in lines]


@pytest.mark.parametrize("processes", [1, 3])
def test_the_load_does_what_it_counts(load: Path, tmp_path: Path, processes: int) -> None:
    works = ["write 3 0", "read 3 0", "create 5 0", "remove 4 0", "shared-write 4096 0"]
    counts = take(load, tmp_path, processes, *works)
    own, shared = processes, 64 * BLOCK // 4096 // processes * processes
    assert counts == [3 * own, 3 * own, 5 * own, 4 * own, shared]
    for process in range(processes):
        assert (tmp_path / f"data-{process}").stat().st_size == 3 * BLOCK
        assert [path.name for path in (tmp_path / f"files-{process}").iterdir()] == ["4"]
    assert (tmp_path / "shared").stat().st_size == shared * 4096


def test_calls_that_change_nothing_go_on_for_their_time_and_at_least_once_through(load: Path, tmp_path: Path) -> None:
    turns = ["fill 40 0", "stat 40 0", "open 40 0", "stat 40 0.05", "write 2 0"]
    turns += [f"{verb} 2 0.05" for verb in ("read", "read-small", "random-read", "random-write")]
    filled, once, opened, longer, _, *others = take(load, tmp_path, 1, *turns)
    assert (filled, once, opened) == (40, 40, 40)
    assert longer >= 40
    assert all(count % 16 == 0 and count > 0 for count in others)
    assert (tmp_path / "files-0/39").stat().st_size == 4096


def test_a_process_that_fails_ends_the_load_with_the_reason(load: Path, tmp_path: Path) -> None:
    """The others would wait for it at the barrier for ever."""
    answer = subprocess.run(
        [load, tmp_path, "3"],
        input="remove 5 0\nwrite 1 0\n",
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert answer.returncode != 0
    assert answer.stdout.splitlines() == ["ready"]
    assert "remove of process" in answer.stderr
    assert "No such file or directory" in answer.stderr


def test_the_ping_pong_comes_back_to_each_process(load: Path, tmp_path: Path) -> None:
    with subprocess.Popen([load, tmp_path, "serve"], stdout=subprocess.PIPE, text=True) as echo:
        assert echo.stdout is not None
        try:
            assert echo.stdout.readline() == "ready\n"
            once, longer = take(load, tmp_path, 3, "ping 4096 0", "ping 1 0.05")
        finally:
            echo.terminate()
    assert once == 3
    assert longer >= once


def test_the_parts_owe_every_figure_that_the_table_has(module: Any) -> None:
    owed = {figure for _, figures in module("speed").PARTS.values() for figure in figures}
    rows = module("_speed_table").ROWS
    assert owed == {row.figure for row in rows} == HEADLINES


def test_a_figure_is_the_worst_of_the_numbers_of_processes(module: Any) -> None:
    rounds = module("_speed_rounds")
    rates = {
        ("run", "stat", 1): [10.0, 30.0, 20.0],
        ("tmpfs", "stat", 1): [10.0, 10.0, 10.0],
        ("run", "stat", 4): [5.0, 6.0, 4.0],
        ("tmpfs", "stat", 4): [10.0, 10.0, 10.0],
    }
    figures = rounds.compared(rates, "figure", "stat", "run", "tmpfs")
    assert figures["figure"] == figures["figure_x4"] == 0.5
    assert (figures["figure_x1"], figures["figure_x1_min"], figures["figure_x1_max"]) == (2.0, 1.0, 3.0)
    assert rounds.compared(rates, "figure", "stat", "run", "absent")["figure"] is None
    assert rounds.worst({"a": 2.0, "b": 1.0}, ["a", "b"]) == 1.0
    assert rounds.worst({"a": 2.0, "b": None}, ["a", "b"]) is None


def test_programs_are_compared_with_tmpfs_and_each_rival(module: Any) -> None:
    times = {
        "tmpfs": [1.0],
        "run": [3.0],
        "mount": [2.0],
        "run_before": [6.0],
        "mount_before": [1.0],
        "glusterfs": [4.0],
    }
    figures = module("_speed_programs").told({("ls", place): seconds for place, seconds in times.items()})
    assert figures["programs_vs_tmpfs_max"] == 3.0
    assert figures["programs_vs_before_max"] == 2.0
    assert figures["programs_vs_glusterfs_max"] == 0.75
    assert figures["programs_vs_juicefs_max"] is None


def test_the_shell_of_programs_tells_code_and_time(module: Any, tmp_path: Path) -> None:
    place = module("_speed_places").Place("here", tmp_path)
    with module("_speed_rounds").taking_turns(
        [place], ("bash", "-c", module("_speed_programs")._SHELL, "speed")
    ) as turns:
        assert module("_speed_programs").shell_seconds(turns["here"], "echo words; touch made") > 0
        assert (tmp_path / "made").exists()
        with pytest.raises(SystemExit, match="gave 3"):
            module("_speed_programs").shell_seconds(turns["here"], "exit 3")


def test_the_table_marks_what_misses_and_what_was_not_measured(module: Any) -> None:
    told = module("_speed_table").table({"create_vs_prefix": 0.5, "stat_vs_glusterfs": 2.0, "reread_4k_vs_tmpfs": None})
    lines = {line.split("|")[1].strip(): line for line in told.splitlines()}
    assert "| **0.5** |" in lines["creates under `weir run` over those through the prefix"]
    assert "| 2 |" in lines["stat over GlusterFS"]
    assert "| not measured |" in lines["4 KiB re-reads in order over tmpfs"]
