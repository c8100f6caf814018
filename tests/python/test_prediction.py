"""Creations of a run that was not trained on: names, sizes, ranks, order, and what cannot be known."""

import subprocess
import sys
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from past_runs import File, run_of
from waits import PATIENCE_SECONDS
from weir.plugins import PluginError
from weir.prediction.accuracy import accuracy
from weir.prediction.context import NextRun
from weir.prediction.creations import MODELS, predict
from weir.tracing.files import read_runs
from weir.tracing.records import SHARED, Creation, Run


def assert_predicted(past: Sequence[Run], came: Run, *, steps: int | None = None) -> None:
    coming = NextRun(came.program, came.arguments, came.ranks, steps=steps)
    prediction = predict(past, coming, model="regression")
    expected = {(one.path, one.rank, one.size_bytes) for one in prediction.creations}
    assert expected == {(one.path, one.rank, one.size_bytes) for one in came.creations}
    assert [(one.order, one.rank, one.path) for one in prediction.creations] == sorted(
        (one.order, one.rank, one.path) for one in came.creations
    )


def runs(make: Callable[..., list[File]], *cases: tuple[int, str]) -> list[Run]:
    """Runs of a program at several scales and with several arguments, one after the other."""
    made = []
    for number, (ranks, arguments) in enumerate(cases):
        values = [float(word) for word in arguments.split() if not word.startswith("-")]
        files = make(ranks, *(int(value) for value in values))
        made.append(run_of(files, ranks=ranks, arguments=arguments, started=float(1000 * number)))
    return made


def checkpoints(ranks: int, steps: int, particles: int) -> list[File]:
    return [
        (f"/s/d{step:03}/part{rank:05}-of-{ranks:05}.step{step:03}.dat", rank, 4096 + 38 * particles)
        for step, rank in product(range(0, 10 * steps, 10), range(ranks))
    ]


def test_ranks_steps_and_a_step_that_stands_twice() -> None:
    *past, came = runs(
        checkpoints,
        (8, "--steps 2 -p 1000"),
        (8, "--steps 3 -p 2000"),
        (16, "--steps 3 -p 5000"),
        (64, "--steps 7 -p 9000"),
    )
    assert_predicted(past, came)


def test_files_that_take_turns_go_on_so_and_the_last_stays_last() -> None:
    def make(steps: int) -> list[File]:
        turns = [(f"/s/{kind}.{step}", 0, 100) for step in range(steps) for kind in ("mesh", "field", "mask")]
        return [("/s/begin", 0, 1), *turns, ("/s/end", 0, 1)]

    past = [run_of(make(2), arguments="-n 2"), run_of(make(3), arguments="-n 3", started=1)]
    came = run_of(make(7), arguments="-n 7")
    assert_predicted(past, came)
    said = predict(past, NextRun.like(came)).creations
    assert [one.path for one in said] == [one.path for one in came.creations]


REGULAR: dict[str, Callable[[int, int, int], list[File]]] = {
    "a file for each rank and step": lambda ranks, scale, steps: [
        (f"/s/out.{step:03}.{rank:04}", rank, 512 + 100 * scale) for step in range(steps) for rank in range(ranks)
    ],
    "all numbers in the name": lambda ranks, scale, steps: [
        (f"/s/n{ranks}/x{scale}/step{step}.{rank}", rank, 4096) for step in range(steps) for rank in range(ranks)
    ],
    "a shared file a step": lambda ranks, scale, steps: [
        (f"/s/x{scale}.step{step}", SHARED, 64 + 1000 * ranks) for step in range(steps)
    ],
    "the first step is written, too": lambda ranks, scale, steps: [
        (f"/s/t{5 * step}.p{rank}", rank, 64 * scale) for step in range(steps + 1) for rank in range(ranks)
    ],
    "a file for each piece": lambda ranks, scale, steps: [
        (f"/s/piece{piece}.{step}", piece % ranks, 64) for step in range(steps) for piece in range(scale)
    ],
    "pieces with a border": lambda ranks, scale, steps: [(f"/s/piece{piece:02}", 0, 64) for piece in range(scale + 2)],
    "three pieces a rank and a list": lambda ranks, scale, steps: [
        (f"/s/part{piece}", 0, 64) for piece in range(3 * ranks + 1)
    ],
    "all ranks but one": lambda ranks, scale, steps: [(f"/s/worker{rank}", 0, 64) for rank in range(ranks - 1)],
    "levels of a mesh": lambda ranks, scale, steps: [
        (f"/s/level{level}.{step}", SHARED, 64) for step in range(steps) for level in range(2 * scale + 1)
    ],
    "each second rank": lambda ranks, scale, steps: [(f"/s/sub.{rank}", rank, 4000) for rank in range(0, ranks, 2)],
    "strong scaling behind a header": lambda ranks, scale, steps: [
        (f"/s/part.{rank}", rank, 4096 + (1 << 20) // ranks) for rank in range(ranks)
    ],
    "a table of all ranks": lambda ranks, scale, steps: [
        (f"/s/table.{step}", 0, 16 + 24 * ranks) for step in range(steps)
    ],
}
"""Programs with regular names, by ranks, scale and steps."""


@pytest.mark.parametrize("name", REGULAR)
@pytest.mark.parametrize(("ranks", "scale", "steps"), [(8, 8, 4), (16, 16, 4), (8, 8, 7)])
def test_ranks_and_a_scale_that_change_together(name: str, ranks: int, scale: int, steps: int) -> None:
    """Two different scales were seen, and one number of steps: a law with an offset fitted both and was refused."""
    cases = [(2, 2, 4), (4, 4, 4), (4, 4, 4), (ranks, scale, steps)]
    *past, came = runs(REGULAR[name], *((ranks, f"-x {scale} -n {steps}") for ranks, scale, steps in cases))
    assert_predicted(past, came)


def test_the_number_of_steps_may_be_told() -> None:
    def make(ranks: int, steps: int) -> list[File]:
        return [(f"/s/out.{step}", SHARED, 100 * ranks) for step in range(steps)]

    past = [run_of(make(8, 3), ranks=8), run_of(make(8, 3), ranks=8, started=1)]
    came = run_of(make(8, 5), ranks=8)
    assert_predicted(past, came, steps=5)


def test_one_in_every_four_ranks_writes() -> None:
    def make(ranks: int) -> list[File]:
        return [(f"/s/sub.{rank // 4}", rank, 4000) for rank in range(0, ranks, 4)]

    past = [run_of(make(8), ranks=8), run_of(make(16), ranks=16, started=1)]
    assert_predicted(past, run_of(make(64), ranks=64))


def test_a_folder_for_every_32_ranks() -> None:
    def make(ranks: int) -> list[File]:
        return [(f"/s/group{rank // 32}/rank{rank}", rank, 4000) for rank in range(ranks)]

    past = [run_of(make(64), ranks=64), run_of(make(96), ranks=96, started=1)]
    assert_predicted(past, run_of(make(256), ranks=256))


def test_the_first_ranks_file_is_larger_and_the_last_ones_smaller() -> None:
    def make(ranks: int) -> list[File]:
        sizes = [9000, *[5000] * (ranks - 2), 2000]
        return [(f"/s/part.{rank}", rank, sizes[rank]) for rank in range(ranks)]

    past = [run_of(make(8), ranks=8), run_of(make(16), ranks=16, started=1)]
    assert_predicted(past, run_of(make(64), ranks=64))


def test_strong_scaling_of_files_and_a_shared_one_beside_them() -> None:
    def make(ranks: int) -> list[File]:
        own = [(f"/s/part.{rank:04}", rank, (1 << 24) // ranks) for rank in range(ranks)]
        return [*own, ("/s/all", SHARED, 1 << 24)]

    past = [run_of(make(8), ranks=8), run_of(make(16), ranks=16, started=1)]
    assert_predicted(past, run_of(make(64), ranks=64))


def test_one_past_run_is_extended_to_more_ranks() -> None:
    past = [run_of([(f"/s/test.{rank:08}", rank, 1 << 20) for rank in range(8)], ranks=8)]
    assert_predicted(past, run_of([(f"/s/test.{rank:08}", rank, 1 << 20) for rank in range(64)], ranks=64))


def test_a_single_process_that_writes_rank_nought() -> None:
    past = [run_of([("/s/test.00000000", 0, 1 << 20)], ranks=1)]
    assert_predicted(past, run_of([(f"/s/test.{rank:08}", rank, 1 << 20) for rank in range(4)], ranks=4))


def test_steps_go_on_where_the_run_before_ended() -> None:
    past = [
        run_of([(f"/s/restart.{step:05}", SHARED, 800) for step in range(first, first + 5)], ranks=4, started=first)
        for first in (0, 5, 10)
    ]
    assert_predicted(past, run_of([(f"/s/restart.{step:05}", SHARED, 800) for step in range(15, 20)], ranks=4))


def test_sizes_that_grow_with_the_steps_go_on_growing() -> None:
    def make(steps: int) -> list[File]:
        return [(f"/s/mesh.{step}", SHARED, 1000 + 250 * step) for step in range(steps)]

    past = [run_of(make(6), ranks=4, arguments="-n 6"), run_of(make(8), ranks=4, arguments="-n 8", started=1)]
    assert_predicted(past, run_of(make(12), ranks=4, arguments="-n 12"))


def test_names_take_the_place_that_the_arguments_name() -> None:
    past = [
        run_of([(f"/s/{name}.{rank}", rank, 10) for rank in range(4)], ranks=4, arguments=f"-o /s/{name}")
        for name in ("alpha", "beta")
    ]
    came = run_of([(f"/t/gamma.{rank}", rank, 10) for rank in range(4)], ranks=4, arguments="-o /t/gamma")
    assert_predicted(past, came)


def test_other_ways_of_calling_and_other_programs_are_left_out() -> None:
    own = [(f"/s/own.{rank}", rank, 100) for rank in range(4)]
    past = [
        run_of(own, ranks=4, arguments="-F", started=1),
        run_of([("/s/shared", SHARED, 400)], ranks=4, started=2),
        run_of([("/s/else", 0, 1)], ranks=4, arguments="-F", program="other", started=3),
    ]
    prediction = predict(past, NextRun("app", ("-F",), 4))
    assert {one.path for one in prediction.creations} == {path for path, _, _ in own}
    assert (prediction.runs, prediction.likeness) == (1, 1.0)
    assert predict(past, NextRun("unknown", (), 4)).creations == ()


def test_what_cannot_be_known_is_said_and_not_invented() -> None:
    past = [
        run_of([(f"/s/out.{number}.log", 0, 100), ("/s/fixed", 0, 5)], started=1.7e9 + 9e6 * at)
        for at, number in enumerate((66184525, 66186284, 66186370))
    ]
    prediction = predict(past, NextRun("app", (), 1))
    assert [one.path for one in prediction.creations] == ["/s/fixed"]
    (unknown,) = prediction.unpredictable
    assert unknown.pattern == "/s/out.<a job or process number>.log"
    assert (unknown.files, unknown.bytes_max) == (1, 100)
    dated = [run_of([(f"/s/{day}.h5", 0, 100)], started=at) for at, day in enumerate((20260101, 20260117, 20260405))]
    assert predict(dated, NextRun("app", (), 1)).unpredictable[0].reason == "a time"
    hashed = [run_of([(f"/s/{word}", 0, 100)], started=at) for at, word in enumerate(("9f86d081", "2c26b46b"))]
    assert "hash" in predict(hashed, NextRun("app", (), 1)).unpredictable[0].reason


def test_a_file_of_one_odd_run_is_not_expected() -> None:
    usual = [("/s/out", 0, 100)]
    past = [run_of(usual, started=at) for at in range(3)] + [run_of([*usual, ("/s/core", 0, 1 << 30)], started=3)]
    assert [one.path for one in predict(past, NextRun("app", (), 1)).creations] == ["/s/out"]


def test_the_problem_size_may_be_told() -> None:
    past = [run_of([("/s/field", SHARED, 1000)], ranks=4)] * 2
    (creation,) = predict(past, NextRun("app", (), 4, problem_size=8.0)).creations
    assert creation.size_bytes == 8000


def test_layout_and_writers_go_with_the_names() -> None:
    past = [run_of([("/s/field", SHARED, 8 << 20)], ranks=8), run_of([("/s/field", SHARED, 16 << 20)], ranks=16)]
    (creation,) = predict(past, NextRun("app", (), 64)).creations
    assert (creation.layout, creation.writers, creation.size_bytes) == ("-c 2 -S 1M", 64, 64 << 20)
    assert creation.written_bytes == 64 << 20


def test_the_best_on_the_last_run_predicts() -> None:
    def make(steps: int) -> list[File]:
        return [(f"/s/out.{step}", SHARED, 1000) for step in range(steps)]

    growing = [run_of(make(steps), ranks=4, arguments=f"-n {steps}", started=steps) for steps in (2, 3, 5)]
    prediction = predict(growing, NextRun("app", ("-n", "9"), 4))
    assert prediction.model == "regression" and prediction.hold_out["regression"].fraction == 1.0
    assert prediction.hold_out["last-run"].fraction < 1.0
    assert set(prediction.hold_out) == set(MODELS)
    with pytest.raises(PluginError, match="unknown forecaster `oracle`: expected one of regression"):
        predict(growing, NextRun("app", (), 4), model="oracle")


def test_accuracy_counts_both_ways() -> None:
    def creations(*files: tuple[str, int]) -> tuple[Creation, ...]:
        return run_of([(path, 0, size) for path, size in files]).creations

    came = creations(("/a", 1000), ("/b", 1000), ("/c", 1000), ("/d", 0))
    said = creations(("/a", 1010), ("/b", 1011), ("/e", 1000), ("/d", 0))
    score = accuracy(said, came)
    assert (score.right, score.wrong_size, score.missed, score.invented) == (2, 1, 1, 1)
    assert score.fraction == 2 / 5
    assert accuracy((), ()).fraction == 1.0


PATHS = st.lists(
    st.lists(st.sampled_from(["out", "a", ".", "-", "/x", "0", "7", "12", "003", "deadbeef01"]), min_size=1, max_size=6)
    .map("".join)
    .map(lambda text: "/s/" + text),
    min_size=1,
    max_size=12,
    unique=True,
)


@settings(deadline=None)
@given(paths=PATHS, data=st.data(), ranks=st.integers(1, 6))
def test_what_was_always_the_same_is_expected_again(paths: list[str], data: st.DataObject, ranks: int) -> None:
    """Whatever the names are made of. A Markov chain takes what other ranks did for what a rank will do."""
    files = [
        (path, data.draw(st.integers(-1 if ranks > 1 else 0, ranks - 1)), data.draw(st.integers(0, 1 << 40)))
        for path in paths
    ]
    past = [run_of(files, ranks=ranks, started=float(at)) for at in range(3)]
    for model in ("regression", "arima", "last-run"):
        prediction = predict(past, NextRun("app", (), ranks), model=model)
        assert accuracy(prediction.creations, past[0].creations).fraction == 1.0, model
        assert prediction.unpredictable == ()


@settings(deadline=None)
@given(data=st.data())
def test_any_past_is_taken(data: st.DataObject) -> None:
    """Runs that have nothing to do with each other end in some prediction, never in an error."""
    past = []
    for at in range(data.draw(st.integers(1, 4))):
        ranks = data.draw(st.integers(1, 5))
        files = [
            (path, data.draw(st.integers(-1, ranks - 1)), data.draw(st.integers(0, 1 << 40)))
            for path in data.draw(PATHS)
        ]
        arguments = data.draw(st.sampled_from(["", "-o /s/out", "-n 3", "-n 0 x=1", "out 12 -s4"]))
        past.append(run_of(files, ranks=ranks, arguments=arguments, started=float(at)))
    coming = NextRun(
        "app", tuple(data.draw(st.sampled_from(["", "-o /t", "-n 7"])).split()), data.draw(st.integers(1, 9))
    )
    for model in (None, *MODELS):
        creations = predict(past, coming, model=model).creations
        assert len({one.path for one in creations}) == len(creations)
        assert all(one.size_bytes >= 0 and -1 <= one.rank < coming.ranks for one in creations)


def test_real_runs_that_were_traced(tmp_path: Path) -> None:
    """A program run three times with more steps and larger files each time; the fourth run is predicted, then made."""
    script = tmp_path / "simulate.py"
    script.write_text(
        "import sys\n"
        "folder, steps, cells = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])\n"
        "for step in range(steps):\n"
        "    with open(f'{folder}/field.{10 * step:05d}', 'wb') as file:\n"
        "        file.write(bytes(512 + 8 * cells))\n"
        "open(f'{folder}/done', 'wb').write(b'x')\n"
    )
    made = []
    for number, (steps, cells) in enumerate(((2, 1000), (3, 4000), (4, 9000), (9, 20000))):
        output, traces = tmp_path / f"output{number}", tmp_path / f"traces{number}"
        output.mkdir()
        recording: list[str | Path] = [
            sys.executable,
            "-m",
            "weir.cli",
            "run",
            "--trace",
            traces,
            "--observe",
            tmp_path,
        ]
        program: list[str | Path] = [sys.executable, script, output, str(steps), str(cells)]
        subprocess.run([*recording, "--", *program], check=True, timeout=PATIENCE_SECONDS)
        made += read_runs([traces], note=print)
    *past, came = made
    prediction = predict(past, NextRun.like(came))
    assert prediction.model == "regression"
    assert [(one.path, one.size_bytes) for one in prediction.creations] == [
        *((f"{tmp_path}/output3/field.{10 * step:05d}", 512 + 8 * 20000) for step in range(9)),
        (f"{tmp_path}/output3/done", 1),
    ]
    assert accuracy(prediction.creations, came.creations).fraction == 1.0


def test_thousands_of_files_are_one_series_a_pattern() -> None:
    """Ten thousand files at a scale never seen; the number of fits does not grow with them."""

    def make(ranks: int) -> list[File]:
        return [(f"/s/{step:02}/part.{rank:06}", rank, 1 << 20) for step in range(5) for rank in range(ranks)]

    past = [run_of(make(ranks), ranks=ranks, started=float(ranks)) for ranks in (256, 512)]
    assert_predicted(past, run_of(make(2048), ranks=2048))
