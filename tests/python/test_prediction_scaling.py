"""What changes with the ranks is learned from runs: numbers in the names of places and directories stay."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import product
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from past_runs import File, run_of
from weir.prediction.context import NextRun
from weir.prediction.creations import MODELS, predict
from weir.tracing.places import place_of, relocated, write_place
from weir.tracing.records import SHARED, Place

Made = Callable[[str, int], list[File]]
"""The files of one kind in a directory, for a number of ranks."""


def test_a_digit_that_equals_the_ranks_stays() -> None:
    """A run of 4 ranks below `user4` was predicted below `user8` for 8 ranks: 0 of 16 files were placed."""
    past = [run_of([(f"/w4/user4/{name}.{rank}", rank, 9) for name in "ab" for rank in range(4)], ranks=4)]
    for model in (None, *MODELS):
        said = {one.path for one in predict(past, NextRun("app", (), 8), model=model).creations}
        ranks = 4 if model == "markov" else 8
        assert said >= {f"/w4/user4/{name}.{rank}" for name in "ab" for rank in range(ranks)}
        assert {str(PurePosixPath(path).parent) for path in said} == {"/w4/user4"}, model


def test_runs_of_two_scales_teach_a_directory_of_the_ranks() -> None:
    past = [
        run_of([(f"/s4/n{ranks}/out.{rank}", rank, 9) for rank in range(ranks)], ranks=ranks, started=float(ranks))
        for ranks in (4, 8)
    ]
    said = {one.path for one in predict(past, NextRun("app", (), 16)).creations}
    assert said == {f"/s4/n16/out.{rank}" for rank in range(16)}
    again = [run_of([("/s4/n4/out", 0, 9)], ranks=4, started=float(at)) for at in range(3)]
    assert [one.path for one in predict(again, NextRun("app", (), 8)).creations] == ["/s4/n4/out"]


@pytest.mark.parametrize("spelling", ["part{}of{}", "part{:05}-of-{:05}", "{:03}_of_{:03}.safetensors"])
@pytest.mark.parametrize("first", [0, 1])
def test_a_name_that_says_of_how_many_ranks_it_is_one(spelling: str, first: int) -> None:
    def made(ranks: int) -> list[File]:
        return [(f"/of4/{spelling.format(rank + first, ranks)}", rank, 9) for rank in range(ranks)]

    said = {one.path for one in predict([run_of(made(4), ranks=4)], NextRun("app", (), 8)).creations}
    assert said == {path for path, _, _ in made(8)}


def test_counters_begin_and_step_as_before() -> None:
    """A first step of 4, and steps 4 apart, were taken for the 4 ranks of the only run."""
    past = [run_of([(f"/s/field.{step}", SHARED, 9) for step in (4, 8, 12)], ranks=4)]
    said = [one.path for one in predict(past, NextRun("app", (), 8)).creations]
    assert said == ["/s/field.4", "/s/field.8", "/s/field.12"]


KINDS: list[Made] = [
    lambda folder, ranks: [(f"{folder}/out.{rank:04}", rank, 4096) for rank in range(ranks)],
    lambda folder, ranks: [(f"{folder}/t{step}.p{rank}", rank, 64) for step in (0, 5, 10) for rank in range(ranks)],
    lambda folder, ranks: [(f"{folder}/all.{step}", SHARED if ranks > 1 else 0, 100 * ranks) for step in range(3)],
    lambda folder, ranks: [(f"{folder}/table", 0, 16)],
    lambda folder, ranks: [(f"{folder}/sub.{rank}", rank, 4000) for rank in range(0, ranks, 2)],
]
_NUMBERS = st.integers(0, 9) | st.sampled_from([16, 64, 512, 1000, 20261129])
_COMPONENTS = st.builds(
    lambda word, number, width, after: f"{word}{number:0{width}}{after}",
    st.sampled_from(["", "user", "run-", "n", "x86_"]),
    _NUMBERS,
    st.sampled_from([0, 2, 4]),
    st.sampled_from(["", ".d", "-of-4", "_7b"]),
)
_FOLDERS = st.lists(_COMPONENTS, min_size=1, max_size=3).map(lambda parts: "/" + "/".join(parts))
_PLACES = st.one_of(
    _FOLDERS,
    st.sampled_from(["/tmp/tmpab3c_9xy/mnt", "/mnt/84894e8e-755b-43b1-b019-c8f9312f2d95", "/data/20260101-101500/m"]),
)


@settings(deadline=None)
@given(
    place=_PLACES,
    folders=st.lists(_FOLDERS, min_size=1, max_size=3, unique=True),
    kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=3, unique=True),
    scales=st.lists(st.sampled_from([1, 2, 3, 4, 8]), min_size=1, max_size=3),
    ranks=st.sampled_from([1, 2, 4, 7, 8, 16]),
)
def test_a_run_of_other_ranks_has_the_same_directories(
    place: str, folders: list[str], kinds: list[Made], scales: list[int], ranks: int
) -> None:
    """Whatever numbers stand in the mount point, the home and the directories above a program's files."""

    def made(count: int) -> list[File]:
        return [file for kind, folder in product(kinds, folders) for file in kind(place + folder, count)]

    # The date in the last of the places is that of the runs: no other knowledge tells it from a name made anew.
    past = [run_of(made(count), ranks=count, started=1767261600.0 + at) for at, count in enumerate(scales)]
    used = _folders(path for path, _, _ in made(1))
    for model in (None, *MODELS):
        prediction = predict(past, NextRun("app", (), ranks, places=(place,)), model=model)
        said = _folders(one.path for one in prediction.creations)
        # A chain walks from directory to directory by the usual steps, and so beyond them or not to all of them.
        assert said == used or (prediction.model == "markov" and (len(folders) > 1 or said <= used)), model
        assert prediction.unpredictable == ()


def _folders(paths: Iterable[str]) -> set[str]:
    return {str(PurePosixPath(path).parent) for path in paths}


@pytest.mark.parametrize("scales", [(3,), (8,), (4, 8), (3, 6, 6)])
@pytest.mark.parametrize("slope", [300, -40])
def test_sizes_linear_in_the_rank_go_on_along_the_line(scales: tuple[int, ...], slope: int) -> None:
    """Added ranks took the mean of the others."""

    def made(ranks: int) -> list[File]:
        return [
            (f"/s/out.{step}.{rank}", rank, 2000 + slope * rank + step) for step in range(2) for rank in range(ranks)
        ]

    past = [run_of(made(ranks), ranks=ranks, started=float(at)) for at, ranks in enumerate(scales)]
    for model in ("regression", "last-run"):
        creations = predict(past, NextRun("app", (), 16), model=model).creations
        assert len(creations) == 32
        for one in creations:
            assert one.size_bytes == pytest.approx(2000 + slope * one.rank, rel=0.01), model


def test_a_slope_that_is_divided_among_the_ranks() -> None:
    def made(ranks: int) -> list[File]:
        return [(f"/s/out.{rank}", rank, 4096 + (1 << 20) // ranks * (rank + 1)) for rank in range(ranks)]

    past = [run_of(made(ranks), ranks=ranks, started=float(ranks)) for ranks in (4, 8, 16)]
    said = {one.path: one.size_bytes for one in predict(past, NextRun("app", (), 64), model="regression").creations}
    assert said == {path: pytest.approx(size, rel=0.01) for path, _, size in made(64)}


def test_runs_of_another_mount_point_are_moved_to_that_of_now(tmp_path: Path) -> None:
    """A store of a job has a mount point of its own, so runs of 4 and 8 ranks seemed to name it by their ranks."""
    past = []
    for ranks in (4, 8):
        place = Place(f"/jobs/{ranks}/mnt", is_mount=True)
        write_place(tmp_path, f"run-{ranks}", place)
        assert place_of(tmp_path, f"run-{ranks}") == place
        files = [(f"{place.path}/out/part.{rank}", rank, 9) for rank in range(ranks)]
        run = run_of(files, ranks=ranks, arguments=f"-o {place.path}/out --also={place.path}2/x", started=float(ranks))
        past.append(relocated(replace(run, place=place), "/now/3"))
    assert past[0].arguments == ("-o", "/now/3/out", "--also=/jobs/4/mnt2/x")
    coming = NextRun("app", ("-o", "/now/3/out", "--also=/jobs/4/mnt2/x"), 16, places=("/now/3",))
    assert {one.path for one in predict(past, coming).creations} == {f"/now/3/out/part.{rank}" for rank in range(16)}


@pytest.mark.parametrize(
    "content", [b"", b"mount", b"mount \n", b"mount x\n", b"disk /x\n", b"mount /" + b"x" * 9000 + b"\n"]
)
def test_a_place_that_is_none_is_no_place(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "run.place").write_bytes(content)
    assert place_of(tmp_path, "run") is None
    assert place_of(tmp_path, "none") is None
