"""Data alone on standard output; tables for people, JSON for programs."""

import json

import pytest
from weir.cli import output


def test_a_table_aligns_text_left_and_numbers_right(capsys: pytest.CaptureFixture[str]) -> None:
    output.show("table", None, ("NAME", "BYTES"), [("a", output.size(5)), ("long name", output.size(1234))])
    assert capsys.readouterr().out == "NAME       BYTES\na              5\nlong name   1234\n"


def test_json_and_ndjson_carry_the_document(capsys: pytest.CaptureFixture[str]) -> None:
    output.show("json", [{"a": 1}, {"a": 2}], (), [])
    assert json.loads(capsys.readouterr().out) == [{"a": 1}, {"a": 2}]
    output.show("ndjson", [{"a": 1}, {"a": 2}], (), [])
    assert capsys.readouterr().out == '{"a": 1}\n{"a": 2}\n'


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (5 << 30, "5.0 GiB"), (1 << 70, "1024.0 EiB")]
)
def test_sizes_have_binary_units(count: int, text: str) -> None:
    assert output.human_size(count) == text
