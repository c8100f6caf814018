"""The matrix of slowdowns: real tasks among each other on real stores, and the planner's factors from it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from weir import plots
from weir.interference import planner_factors, slowdowns
from weir.interference.errors import InterferenceError
from weir.plots.canvas import picture
from weir.provisioning.behaviour import classes
from weir.provisioning.pairwise import shape
from weir.provisioning.pairwise.shape import Shape
from weir.provisioning.sharing import interference_factors
from weir.provisioning.sharing.interference_factors import Neighbour

TASKS = ("mdtest-easy-write", "ior-hard-write")
STORE = """\
version = 1
policy = "fifo"
window = "200ms"
[[server]]
metadata_speed = { fixed = "2ms" }
[[server.target]]
backend = "ram"
capacity = "64MiB"
speed = { read = "32MB/s", write = "32MB/s", fixed = "20ms" }
"""


def of(slowdown: float, task: str, other: str) -> slowdowns.Cell:
    return slowdowns.Cell(task=task, interferer=other, slowdown=slowdown, runs=(slowdown - 0.25, slowdown + 0.25))


def made(instances: int = 3) -> slowdowns.Matrix:
    """A matrix of two tasks under two policies."""
    first, second = TASKS
    cells = tuple(
        of(slowdown, task, other)
        for slowdown, (task, other) in zip(
            (4.0, 1.0, 1.5, 7.0), ((one, two) for one in TASKS for two in TASKS), strict=True
        )
    )
    fair = tuple(of(2.0, cell.task, cell.interferer) for cell in cells)
    quiet = {first: 1.0, second: 1.01}
    return slowdowns.Matrix(
        tasks=TASKS,
        instances=instances,
        seconds=4.0,
        store=STORE,
        policies=(
            slowdowns.UnderPolicy(policy="fifo", quiet=quiet, cells=cells),
            slowdowns.UnderPolicy(policy="size-fair", quiet=quiet, cells=fair),
        ),
    )


def test_tasks_slow_each_other_down_and_a_matrix_goes_on_where_it_stopped(tmp_path: Path) -> None:
    folder = tmp_path / "matrix"
    (tmp_path / "store.toml").write_text(STORE)
    words = ["--to", str(folder), "--policy", "job-fair", "--store", str(tmp_path / "store.toml"), "--seconds", "2"]
    words += ["--runs", "2", "--parallel", "2", "--output", "json", *(f"--task={task}" for task in TASKS)]
    command = [sys.executable, "-m", "weir.cli", "interference", "matrix", *words]
    # Where no folder holds a cache of fonts, matplotlib says that it makes one.
    environment = {**os.environ, "MPLCONFIGDIR": str(tmp_path / "fonts")}

    def run(*more: str, is_checked: bool = True) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([*command, *more], env=environment, capture_output=True, text=True, check=is_checked)

    first = run()
    found = msgspec.json.decode(first.stdout, type=slowdowns.Matrix)
    assert found == slowdowns.read(folder / "matrix.json")
    assert [each.policy for each in found.policies] == ["fifo", "job-fair"]
    assert (folder / "matrix.png").stat().st_size > 10_000
    fifo = found.policies[0]
    low, high = fifo.noise
    assert f"fifo: alone once more, tasks took {low:.2f} to {high:.2f} times their time" in first.stderr
    assert all(len(cell.runs) == 2 for cell in fifo.cells)
    # Three like jobs before each request make it wait for several times of its own.
    slowed = {task: fifo.slowdown(task, task) for task in TASKS}
    print(slowed)
    assert min(slowed.values()) > 1.2, slowed
    (folder / f"fifo/runs/{TASKS[0]}.{TASKS[1]}.3.1/done.json").unlink()
    told = [line for line in run().stderr.splitlines() if " instances of " in line]
    assert told == [f"{TASKS[0]}.{TASKS[1]}.3.1: 3 instances of {TASKS[1]}"]
    other = run("--instances", "2", is_checked=False)
    assert other.returncode == 1 and "another plan" in other.stderr


def test_the_planner_takes_its_factors_from_a_matrix(tmp_path: Path) -> None:
    (tmp_path / "matrix.json").write_bytes(msgspec.json.encode(made()))
    command = [sys.executable, "-m", "weir.cli", "plan", "factors", "--matrix", str(tmp_path / "matrix.json")]
    subprocess.run([*command, "--into", str(tmp_path / "factors.json")], check=True, capture_output=True)
    table = interference_factors.read_table((tmp_path / "factors.json").read_bytes(), "factors.json")
    names = [each.name for each in classes.built_in().classes]
    assert {(each.one, each.other) for each in table.factors} == {(one, other) for one in names for other in names}
    # The planner adds the excesses of three neighbours up, and comes to the slowdown that was measured.
    shapes = {"writer": Shape(0.0, 0.0, 0.0, 0.1, 0.1), "creator": Shape(0.5, 1.0, 0.0, 1.0, 4.0)}
    assert {name: planner_factors.nearest_task(mix, TASKS) for name, mix in shapes.items()} == {
        "writer": "ior-hard-write",
        "creator": "mdtest-easy-write",
    }
    expected = {"ior-hard-write": 7.0, "mdtest-easy-write": 4.0}
    for each in classes.built_in().classes:
        task = planner_factors.nearest_task(shape.of(each.centre), TASKS)
        job = Neighbour(behaviour_class=each.name)
        assert interference_factors.slowdown(job, [job] * 3, table) == pytest.approx(expected[task], abs=0.01)
    fair = planner_factors.table(made(), "size-fair", classes.built_in().classes, "here")
    assert {each.slowdown for each in fair.factors} == {round(1 + 1 / 3, 3)}


def test_the_noise_of_the_machine_is_what_tasks_take_longer_or_shorter_alone() -> None:
    quiet = dict(zip(TASKS, (0.92, 1.14), strict=True))
    assert msgspec.structs.replace(made().policies[0], quiet=quiet).noise == (0.92, 1.14)
    slower = dict(zip(TASKS, (1.03, 1.14), strict=True))
    assert msgspec.structs.replace(made().policies[0], quiet=slower).noise == (1.0, 1.14)


def test_a_file_that_is_no_matrix_is_refused(tmp_path: Path) -> None:
    whole = json.loads(msgspec.json.encode(made()))
    broken = {
        "version": {**whole, "version": 2},
        "cells": {**whole, "policies": [{**whole["policies"][0], "cells": whole["policies"][0]["cells"][:3]}]},
        "slowdown": {**whole, "policies": [{**whole["policies"][0], "quiet": {"a": -1}}]},
        "tasks": {**whole, "tasks": []},
    }
    for name, document in broken.items():
        (tmp_path / name).write_text(json.dumps(document))
        with pytest.raises(InterferenceError):
            slowdowns.read(tmp_path / name)
    for path in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(InterferenceError, match="is not a file"):
            slowdowns.read(path)
    with pytest.raises(InterferenceError, match="not measured under job-fair"):
        slowdowns.of_policy(made(), "job-fair")
    strange = msgspec.structs.replace(made(), tasks=("ior",))
    with pytest.raises(InterferenceError, match="there is no task ior"):
        planner_factors.table(strange, "fifo", classes.built_in().classes, "here")


def test_a_heat_map_has_a_panel_for_each_policy(tmp_path: Path) -> None:
    with picture(tmp_path / "map.svg") as figure:
        plots.matrix(made(), figure=figure)
    text = (tmp_path / "map.svg").read_text()
    assert text.startswith("<?xml") and text.count("<image") >= 2


@pytest.mark.parametrize(
    ("most", "told"), [(1.2, ["1", "1.5", "2"]), (4.13, ["1", "1.5", "2", "3"]), (7.0, ["1", "1.5", "2", "3", "5"])]
)
def test_the_scale_of_a_heat_map_has_plain_numbers(tmp_path: Path, most: float, told: list[str]) -> None:
    """A scale of less than a decade once had 4 times ten to the power of 0 at a minor tick."""
    whole = made()
    policies = [
        msgspec.structs.replace(each, cells=tuple(of(min(cell.slowdown, most), *pair(cell)) for cell in each.cells))
        for each in whole.policies
    ]
    with picture(tmp_path / "map.svg") as figure:
        plots.matrix(msgspec.structs.replace(whole, policies=tuple(policies)), figure=figure)
    words = re.findall("<!-- (.*?) -->", (tmp_path / "map.svg").read_text())
    last_title = words.index("size-fair")
    assert words[last_title + 1 :] == [*told, "slowdown"]


def pair(cell: slowdowns.Cell) -> tuple[str, str]:
    return cell.task, cell.interferer
