"""Command lines and names of files taken apart, and put together again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from weir.prediction.context import RANKS, context_of, identity, number
from weir.prediction.names import build, parse


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1048576", 1048576),
        ("1m", 1 << 20),
        ("2G", 2 << 30),
        ("64KiB", 65536),
        ("2.5", 2.5),
        ("-3", -3),
        ("1e3", 1000),
        ("", None),
        ("m1", None),
        ("1x", None),
        ("/scratch/1", None),
        ("1e400", None),
    ],
)
def test_numbers_of_command_lines(text: str, value: float | None) -> None:
    assert number(text) == value


def test_options_in_all_their_spellings() -> None:
    context = context_of(["-b", "1m", "-s4", "--steps=10", "nodes=2", "-F", "-o", "/s/out", "input.in", "7"], ranks=8)
    assert context.numbers == {RANKS: 8, "-b": 1 << 20, "-s": 4, "--steps": 10, "nodes": 2, "1": 7}
    assert context.texts == {"-o": "/s/out", "0": "input.in"}
    assert context.flags == {"-b", "-s", "--steps", "nodes", "-F", "-o"}


def test_scripts_of_one_interpreter_are_different_programs() -> None:
    assert identity("ior", ["-F"]) == ("ior",)
    assert identity("python3", ["-u", "/home/a/train.py", "8"]) == identity("python3", ["train.py"])
    assert identity("python3", ["train.py"]) != identity("python3", ["test.py"])
    workers = [identity("python3", ["-c", "from", "multiprocessing", f"main({fd})"]) for fd in (29, 31)]
    assert workers[0] == workers[1]


def fields(path: str, *arguments: str) -> tuple[str, ...]:
    return parse(path, context_of(arguments, ranks=8)).fields


def test_numbers_hashes_and_uuids_are_fields() -> None:
    assert fields("/s/run7/test.00000012.3") == ("7", "00000012", "3")
    assert fields("/s/84894e8e-755b-43b1-b019-c8f9312f2d95/log") == ("84894e8e-755b-43b1-b019-c8f9312f2d95",)
    assert fields("/s/9f86d081884c7d65.tmp") == ("9f86d081884c7d65",)
    assert fields("/s/deadline/facade") == ()


def test_arguments_stand_in_the_skeleton() -> None:
    one = parse("/a/b/test.00000003", context_of(["-o", "/a//b/./test"], ranks=8))
    other = parse("/c/data.00000005", context_of(["-o", "/c/data"], ranks=8))
    assert one.skeleton == other.skeleton
    assert build(one.skeleton, ("00000009",), context_of(["-o", "/x/y"], ranks=8)) == "/x/y.00000009"
    assert build(one.skeleton, ("00000009",), context_of([], ranks=8)) is None


def test_relative_arguments_are_found_behind_the_working_directory() -> None:
    one = parse("/home/u/B", context_of(["B"], ranks=1))
    assert build(one.skeleton, one.fields, context_of(["C"], ranks=1)) == "/home/u/C"
    assert build(one.skeleton, one.fields, context_of(["/s/C"], ranks=1)) == "/s/C"
    # One letter within a word is no argument.
    assert "\1" not in parse("/home/u/Bench", context_of(["B"], ranks=1)).skeleton
    assert "\1" not in parse("/scratch2/file", context_of(["-o", "/scratch"], ranks=1)).skeleton


@given(
    st.lists(st.sampled_from(["a", "out", "0", "12", "007", ".", "-", "_", "/", "deadbeef01"]), min_size=1, max_size=12)
)
def test_a_name_put_together_again_is_the_name(parts: list[str]) -> None:
    path = "/" + "".join(parts)
    for arguments in ([], ["-o", "/a"], ["out"], ["-f", "out/a"]):
        context = context_of(arguments, ranks=4)
        name = parse(path, context)
        assert build(name.skeleton, name.fields, context) == path
