"""Data alone on standard output; tables for people, JSON for programs."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from seeds import seeded
from waits import PATIENCE_SECONDS
from weir.amounts import rate_text, size_text
from weir.cli.common import errors, output
from weir.placement import emit
from weir.store import values


def test_a_table_aligns_text_left_and_numbers_right(capsys: pytest.CaptureFixture[str]) -> None:
    output.show("table", None, ("NAME", "BYTES"), [("a", output.size(5)), ("long name", output.size(1234))])
    assert capsys.readouterr().out == "NAME         BYTES\na              5 B\nlong name  1.2 KiB\n"


def test_json_and_ndjson_carry_the_document(capsys: pytest.CaptureFixture[str]) -> None:
    output.show("json", [{"a": 1}, {"a": 2}], (), [])
    assert json.loads(capsys.readouterr().out) == [{"a": 1}, {"a": 2}]
    output.show("ndjson", [{"a": 1}, {"a": 2}], (), [])
    assert capsys.readouterr().out == '{"a": 1}\n{"a": 2}\n'


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (5 << 30, "5.0 GiB"), (1 << 70, "1024.0 EiB")]
)
def test_sizes_have_binary_units(count: int, text: str) -> None:
    assert size_text(count) == text


@pytest.mark.parametrize(
    ("rate", "text"), [(0, "0 B/s"), (999, "999 B/s"), (29e6, "29 MB/s"), (1.5e9, "1.5 GB/s"), (1e21, "1000 EB/s")]
)
def test_rates_have_decimal_units(rate: float, text: str) -> None:
    assert rate_text(rate) == text


def test_amounts_are_read_as_they_were_shown() -> None:
    """`size=900GB` was shown as 966.4 GB: the reader took a GB for 2^30 bytes, and the writer for 10^9."""
    random = seeded()
    for _ in range(2000):
        count = int(2 ** random.uniform(0, 62))
        assert values.size(size_text(count)) == pytest.approx(count, rel=0.05)
        assert values.rate(rate_text(count)) == pytest.approx(count, rel=5e-4, abs=0.5)
    for unit, factor in (("GB", 10**9), ("GiB", 1 << 30), ("G", 1 << 30)):
        assert values.size(f"900{unit}") == values.rate(f"900{unit}/s") == 900 * factor
        assert size_text(values.size(f"900{unit}")) == ("838.2 GiB" if unit == "GB" else "900.0 GiB")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("plain, ünïcode, 漢字", "plain, ünïcode, 漢字"),
        ("\x1b[2J\x1b]0;owned\x07", r"\x1b[2J\x1b]0;owned\x07"),
        ("two\nlines\r", r"two\nlines\r"),
        ("\x9b31m", r"\x9b31m"),
        ("gpj.\u202eexe", r"gpj.\u202eexe"),
        ("\udcff\udcfe", r"\xff\xfe"),
    ],
)
def test_a_name_from_elsewhere_gives_a_terminal_no_orders(
    name: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The name of a traced file once cleared the screen of whoever looked at the trace."""
    output.show("table", None, ("NAME",), [(name,)])
    errors.warn(f"there is no {name}")
    errors.report(f"{name} is no file", f"remove {name}")
    captured = capsys.readouterr()
    assert captured.out == f"NAME\n{shown}\n"
    assert captured.err == f"warning: there is no {shown}\nerror: {shown} is no file\nhint: remove {shown}\n"


@pytest.mark.parametrize("name", ["plain", "with space", "it's", "\x1b[2J", "a\nb'c\\d", os.fsdecode(b"\xff\x01")])
def test_a_word_for_a_shell_is_the_name_again(name: str) -> None:
    word = emit.shell_word(name)
    assert word.isprintable()
    answer = subprocess.run(
        ["bash", "-c", f"printf %s {word}"], capture_output=True, check=True, timeout=PATIENCE_SECONDS
    )
    assert answer.stdout == os.fsencode(name)


def test_json_has_no_numbers_that_json_lacks() -> None:
    """`weir plan identity --output json` printed NaN, which no reader of JSON takes."""
    document = {"a": [float("nan"), 1.5, (float("-inf"), 2)], "b": {"c": float("inf")}, "d": "NaN"}
    assert json.loads(output.json_text(document), parse_constant=lambda name: pytest.fail(name)) == {
        "a": [None, 1.5, [None, 2]],
        "b": {"c": None},
        "d": "NaN",
    }
    printers = [
        path.name
        for path in (Path(__file__).resolve().parents[2] / "python" / "weir" / "cli").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "print" and "json.dumps" in ast.unparse(node)
    ]
    assert printers == []


def test_a_name_that_the_terminal_cannot_show_is_escaped() -> None:
    """`weir find` ended in a traceback where the encoding of standard output lacked a letter."""
    program = "import sys, click, weir.cli; weir.cli._run = lambda: print('caf\\xe9 \\u4e16') or 0; weir.cli.main()"
    answer = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert (answer.returncode, answer.stdout) == (0, "caf\\xe9 \\u4e16\n"), answer.stderr
