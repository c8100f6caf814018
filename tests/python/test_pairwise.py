"""Pairwise runs of the classes' representatives: the mix of each, and real runs on a real store."""

import itertools
import json
import os
import sys
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from weir import cli as program
from weir.provisioning.behaviour.classes import built_in as classes
from weir.provisioning.errors import ProvisioningError
from weir.provisioning.pairwise import runs, shape
from weir.provisioning.sharing.interference_factors import built_in, read_table, written

PART = st.floats(0, 1)


@given(PART, PART, PART, PART, st.floats(0, shape.METADATA_MAX), st.integers(0, 1 << 32))
@settings(max_examples=30)
def test_a_short_run_has_the_mix_of_its_class(
    read: float, small: float, large: float, sequential: float, metadata: float, seed: int
) -> None:
    large = min(large, 1.0 - small)
    mix = shape.Shape(read=read, small=small, large=large, sequential=sequential, metadata=metadata)
    found = list(itertools.islice(shape.calls(mix, seed), 1000))
    assert found == list(itertools.islice(shape.calls(mix, seed), 1000))
    moved = [call for call in found if call.kind != "metadata"]
    assert len(found) - len(moved) == pytest.approx(len(moved) * metadata, abs=2 * metadata + 1)
    for part, own in (
        (read, [call.kind == "read" for call in moved]),
        (small, [call.length < 10_000 for call in moved]),
        (large, [call.length >= 1_000_000 for call in moved]),
    ):
        assert sum(own) / len(moved) == pytest.approx(part, abs=0.03)
    follow = sum(one.place + one.length == other.place for one, other in itertools.pairwise(moved))
    # A file ends, and some random places happen to follow.
    assert follow / len(moved) <= sequential + 0.05
    if not large:
        assert follow / len(moved) >= sequential * 0.9 - 0.05 - (0.05 if small < 1 else 0)
    assert all(call.place >= 0 and call.place + call.length <= shape.FILE_BYTES for call in moved)


def test_each_class_has_a_representative_of_its_own() -> None:
    shapes = {each.name: shape.of(each.centre) for each in classes().classes}
    assert len(set(shapes.values())) == len(shapes)
    writers = shapes["medium-write-light-sequential-posix"]
    assert writers.read < 0.1 and writers.sequential > 0.9 and writers.metadata < 0.1


def test_the_built_in_factors_are_those_of_all_pairs_of_the_built_in_classes() -> None:
    table = built_in()
    names = [each.name for each in classes().classes]
    found = {(each.one, each.other, each.same_node, each.processes) for each in table.factors}
    assert found == set(itertools.product(names, names, (True, False), (1, 4)))
    assert written(table) == (files("weir.provisioning") / "tables/interference.json").read_text()
    # Devices that are divided fairly among two jobs slow neither down to much less than a half.
    assert min(each.slowdown for each in table.factors) >= 1.0
    assert max(each.slowdown for each in table.factors) < 3.0


def measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *words: str) -> int:
    monkeypatch.setenv("WEIR_HOME", str(tmp_path / "home"))
    arguments = ["--classes", "2", "--rounds", "1", "--processes", "2", *words]
    monkeypatch.setattr(sys, "argv", ["weir", "plan", "factors", *arguments])
    return program._run()


def test_pairs_run_on_a_store_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    into = tmp_path / "factors.json"
    assert measured(monkeypatch, tmp_path, "--into", str(into), "--seconds", "2", "--output", "json") == 0
    table = read_table(into.read_bytes(), "the table")
    assert json.loads(capsys.readouterr().out)["conditions"] == table.conditions
    names = {each.name for each in sorted(classes().classes, key=lambda each: -each.jobs_fraction)[:2]}
    assert {(each.one, each.other, each.same_node) for each in table.factors} == set(
        itertools.product(names, names, (True, False))
    )
    assert "2 targets in memory, each limited to 64MB/s" in table.conditions
    assert measured(monkeypatch, tmp_path, "--into", str(into)) == 1
    assert "is there already" in capsys.readouterr().err


def test_pairs_run_on_a_path_by_way_of_launchers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`env` stands for a launcher: it starts the words behind its own."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    launchers = ("--node", "env A=1", "--other-node", "env A=2")
    words = ("--path", str(scratch), *launchers, "--seconds", "2")
    assert measured(monkeypatch, tmp_path, "--into", str(tmp_path / "factors.json"), *words) == 0
    assert list(scratch.iterdir()) == []
    assert "nodes `env A=1` and `env A=2`" in read_table((tmp_path / "factors.json").read_bytes(), "").conditions
    capsys.readouterr()
    missing = ("--path", str(scratch), "--node", "no-such-launcher", "--other-node", "env")
    assert measured(monkeypatch, tmp_path, "--into", str(tmp_path / "other.json"), *missing) == 1
    assert "cannot start no-such-launcher" in capsys.readouterr().err
    assert list(scratch.iterdir()) == [] and not (tmp_path / "other.json").exists()
    assert measured(monkeypatch, tmp_path, "--into", str(tmp_path / "other.json"), "--node", "env") == 2


def test_a_run_in_which_a_job_ends_no_call_is_repeated_for_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[float] = []

    def run(jobs: Sequence[object], _: int, __: int, experiment: runs.Experiment) -> list[float]:
        tried.append(experiment.seconds)
        return [10.0 if experiment.seconds >= enough else 0.0 for _ in jobs]

    monkeypatch.setattr(runs, "_run", run)
    nodes = runs.processor_nodes()
    experiment = runs.Experiment(tmp_path, (os.environ, os.environ), nodes, seconds=2.0, rounds=1)
    one = classes().classes[:1]
    enough = 10.0
    assert {each.slowdown for each in runs.factors(one, [1], experiment, lambda *_: None)} == {1.0}
    # Alone and beside itself, on one node and on two.
    assert tried == [2.0, 10.0] * 4
    enough = 1000.0
    with pytest.raises(ProvisioningError, match=f"no call of {one[0].name} ended within 50 s"):
        runs.factors(one, [1], experiment, lambda *_: None)


def test_a_job_that_fails_tells_why_and_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    first, second = runs.processor_nodes()
    experiment = runs.Experiment(folder, (os.environ, os.environ), (first, second), seconds=0.2, rounds=1)
    with pytest.raises(ProvisioningError, match="failed: FileNotFoundError") as error:
        runs.factors(classes().classes[:1], [2], experiment, lambda done, parts: None)
    assert error.value.hint
