"""Files that are made under a temporary name and renamed: which name leads to which file."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from seeds import seeded
from weir.prediction.context import NextRun
from weir.prediction.creations import predict
from weir.prediction.temporary_styles import learn
from weir.tracing.records import ANY, Creation, Making, Run, TemporaryName

LOWER = "abcdefghijklmnopqrstuvwxyz0123456789_"
"""Letters of Python's tempfile."""
ALL = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
"""Letters of mkstemp."""
HEX = "0123456789abcdef"

WORDS = ("k3_0zq9a", "x81mq_2b", "b7wq3n5d", "5hq1_c0z", "q9d8r7s6")

Write = tuple[str, str, int, int]
"""Name at the making, last name, rank, and number of the process."""


def renaming_run(writes: Sequence[Write], *, ranks: int = 1, arguments: str = "", started: float = 0.0) -> Run:
    """A run whose files are all of one size; a file that is written several times is made at its first."""
    files = {last: (made, rank) for made, last, rank, _ in reversed(writes)}
    orders: dict[int, int] = {}
    creations = []
    for made, last, rank, _ in writes:
        if files.pop(last, None) is None:
            continue
        order = orders[rank] = orders.get(rank, -1) + 1
        creations.append(Creation(made, rank, order, 100, 100, 1, "-c 1", renamed=last if made != last else None))
    makings = tuple(Making(*write) for write in writes)
    words = tuple(arguments.split())
    return Run("app", words, ranks, started, started + 1, tuple(creations), "weir", makings=makings)


def names_of(past: Sequence[Run], coming: NextRun) -> list[TemporaryName]:
    return list(predict(past, coming, model="regression").temporaries.names)


@pytest.mark.parametrize(
    ("letters", "length", "made", "expected"),
    [
        (LOWER, 8, "/o/tmp{}", "/o/tmp????????"),
        (LOWER, 8, "/o/tmp{}.npz", "/o/tmp????????.npz"),
        (ALL, 6, "/o/.{base}.{}", "/o/.state.7.npz.??????"),
        (ALL, 6, "/o/{base}{}", None),
        (ALL, 6, "/o/tmp_obj_{}", "/o/tmp_obj_??????"),
        (ALL, 10, "/o/tmp.{}", "/o/tmp.??????????"),
        (HEX, 32, "/o/{base}.{}.partial", f"/o/state.7.npz.{'?' * 32}.partial"),
        (HEX, 32, "/o/{stem}-{}.npz", f"/o/state.7-{'?' * 32}.npz"),
        (LOWER, 8, "/o/tmp{}/{base}", None),
        (LOWER, 8, "/tmp{}/{base}", "/tmp????????/state.7.npz"),
    ],
)
def test_a_random_part_is_found(letters: str, length: int, made: str, expected: str | None) -> None:
    """The style of three to twenty files leads every one of them, and files to come, to its last name."""
    random = seeded()
    for _ in range(20):
        pairs = []
        for number in range(random.randint(3, 20)):
            base, word = f"state.{number}.npz", ""
            # A word of letters alone is seldom, and looks like a text.
            while not any(map(str.isdigit, word)) or not any(map(str.isalpha, word)):
                word = "".join(random.choices(letters, k=length))
            name = made.replace("{base}", base).replace("{stem}", base.removesuffix(".npz")).replace("{}", word)
            pairs.append((name, f"/o/{base}"))
        styles = set(learn(pairs).values())
        if expected is not None:
            assert {style.name("/o/state.7.npz") for style in styles} == {expected}
            assert all(style.marked(name) == style.name(last) for style in styles for name, last in pairs)
        assert all(style.marked("/o/README") != style.name("/o/README") for style in styles)


@pytest.mark.parametrize(
    ("made", "expected", "pattern"),
    [
        ("/o/{base}.tmp", "/o/state.7.npz.tmp", None),
        ("/o/{stem}.tmp.npz", "/o/state.7.tmp.npz", None),
        ("/o/new/{base}", "/o/new/state.7.npz", None),
        ("/o/work.tmp", "/o/work.tmp", None),
        ("/o.tmp/{base}", "/o.tmp/state.7.npz", None),
        ("/o/{base}.{process}.tmp", "/o/state.7.npz.#.tmp", "*.#.tmp"),
        ("/o/{base}_{process}", "/o/state.7.npz_#", "*_#"),
    ],
)
def test_names_that_are_not_random(made: str, expected: str, pattern: str | None) -> None:
    pairs = []
    for number in range(12):
        base = f"state.{number}.npz"
        process = 4242 if number < 6 else 4321
        name = made.replace("{base}", base).replace("{stem}", base.removesuffix(".npz"))
        pairs.append((name.replace("{process}", str(process)), f"/o/{base}"))
    (style,) = set(learn(pairs).values())
    assert (style.name("/o/state.7.npz"), style.pattern) == (expected, pattern)


def test_files_are_predicted_by_their_last_names() -> None:
    def make(steps: int, word: Callable[[int], str]) -> list[Write]:
        return [(f"/o/tmp{word(step)}", f"/o/state.{step:03}", 0, 0) for step in range(steps)]

    past = [
        renaming_run(make(2, lambda step: WORDS[step]), arguments="-n 2"),
        renaming_run(make(3, lambda step: WORDS[step + 2]), arguments="-n 3", started=1),
    ]
    prediction = predict(past, NextRun("app", ("-n", "5"), 1))
    assert [one.path for one in prediction.creations] == [f"/o/state.{step:03}" for step in range(5)]
    assert not prediction.unpredictable
    assert prediction.temporaries.patterns == ("tmp????????",)
    assert list(prediction.temporaries.names) == [
        TemporaryName("/o/tmp????????", 0, step, f"/o/state.{step:03}") for step in range(5)
    ]


def test_each_rank_has_its_own_turns_and_more_ranks_follow() -> None:
    def make(ranks: int) -> list[Write]:
        return [
            (f"/o/part.{rank}.tmp", f"/o/part.{rank}.{step}", rank, rank) for step in range(3) for rank in range(ranks)
        ]

    past = [renaming_run(make(2), ranks=2), renaming_run(make(3), ranks=3, started=1)]
    assert names_of(past, NextRun("app", (), 4)) == [
        TemporaryName(f"/o/part.{rank}.tmp", rank, step, f"/o/part.{rank}.{step}")
        for rank in range(4)
        for step in range(3)
    ]


def test_a_name_that_tells_its_file_needs_no_turn() -> None:
    writes = [(f"/o/.state.{step}.a{step}B3c9", f"/o/state.{step}", 0, step) for step in range(4)]
    assert names_of([renaming_run(writes)], NextRun("app", (), 1)) == [
        TemporaryName(f"/o/.state.{step}.??????", ANY, ANY, f"/o/state.{step}") for step in range(4)
    ]


def test_the_latest_state_is_replaced_in_each_step() -> None:
    def make(steps: int) -> list[Write]:
        pairs = [(f"/o/state.{step}", "/o/latest") for step in range(steps)]
        return [("/o/work.tmp", last, 0, 0) for pair in pairs for last in pair]

    past = [renaming_run(make(2), arguments="-n 2"), renaming_run(make(3), arguments="-n 3", started=1)]
    expected = [last for _, last, _, _ in make(5)]
    turns = names_of(past, NextRun("app", ("-n", "5"), 1))
    assert [one.path for one in turns][: len(expected) - 1] == expected[:-1]
    assert [one.turn for one in turns] == list(range(len(turns)))


def test_a_file_that_keeps_its_temporary_name_takes_a_turn() -> None:
    writes = [
        ("/o/tmpa1b2c3_0", "/o/first", 0, 0),
        ("/o/tmpq9w8e7_1", "/o/tmpq9w8e7_1", 0, 0),
        ("/o/tmpz5y6x7_2", "/o/second", 0, 0),
    ]
    other = [("/o/tmpm1b2c3_0", "/o/first", 0, 0), ("/o/tmpn9w8e7_1", "/o/tmpn9w8e7_1", 0, 0)]
    past = [renaming_run(writes), renaming_run([*other, ("/o/tmpp5y6x7_2", "/o/second", 0, 0)], started=1)]
    assert [one.path for one in names_of(past, NextRun("app", (), 1))] == ["/o/first", "", "/o/second"]


def test_files_of_several_processes_under_one_name_are_told_and_not_placed() -> None:
    writes = [(f"/o/tmp{WORDS[part]}", f"/o/part.{part}", 0, part % 2) for part in range(4)]
    prediction = predict([renaming_run(writes)], NextRun("app", (), 1))
    assert prediction.creations == ()
    assert prediction.temporaries.names == ()
    (told,) = prediction.unpredictable
    assert (told.pattern, told.files) == ("/o/tmp????????", 4)
    assert "several processes" in told.reason


def test_files_that_are_replaced_afterwards_are_recognised_both_times() -> None:
    """`sed -i` renames `sedaB3dE6` over the file that it read."""
    made = [(f"/o/f{number}.txt", f"/o/f{number}.txt", 0, 0) for number in range(3)]
    replaced = [
        (f"/o/sed{word}", f"/o/f{number}.txt", 0, 1) for number, word in enumerate(("aB3dE6", "Zk9q0x", "p1Lm5N"))
    ]
    assert names_of([renaming_run([*made, *replaced])], NextRun("app", (), 1)) == [
        TemporaryName("/o/sed??????", 0, number, f"/o/f{number}.txt") for number in range(3)
    ]


def test_a_program_that_does_not_rename_has_no_temporary_names() -> None:
    plain = replace(renaming_run([("/o/a", "/o/a", 0, 0), ("/o/b", "/o/b", 0, 0)]), makings=())
    assert names_of([plain], NextRun("app", (), 1)) == []
