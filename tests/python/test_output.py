"""Data alone on standard output; tables for people, JSON for programs."""

import json

import pytest
from weir.cli import output
from weir.cli.jobs import merge
from weir.cli.layout import SizeType, parse


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


@pytest.mark.parametrize(
    ("text", "count"), [("4096", 4096), ("64k", 65536), ("1MiB", 1 << 20), ("1 M", 1 << 20), ("2gb", 2 << 30)]
)
def test_sizes_are_read_with_binary_prefixes(text: str, count: int) -> None:
    assert SizeType().convert(text, None, None) == count


def test_a_layout_is_taken_apart() -> None:
    text = "stripe_size=1048576 stripe_count=4 spread=no targets=0.0,0.1,1.0"
    assert parse(text) == {
        "stripe_size": 1 << 20,
        "stripe_count": 4,
        "spread": False,
        "targets": ["0.0", "0.1", "1.0"],
    }


def test_jobs_of_several_servers_are_merged() -> None:
    entry = {
        "job": "a",
        "id": "1",
        "user": "u",
        "group": "g",
        "uid": 1,
        "nodes": 4,
        "priority": 1,
        "active": True,
        "operations": 10,
        "bytes_read": 5,
        "bytes_written": 6,
        "device_seconds": 1.0,
        "queue_wait_seconds_median": 0.1,
        "queue_wait_seconds_p99": 0.2,
        "contended_seconds": 10.0,
        "owed_seconds": 8.0,
        "received_seconds": 7.0,
        "share_owed": 0.8,
        "share_received": 0.7,
        "last_seen_seconds": 3.0,
    }
    elsewhere = {"contended_seconds": 30.0, "owed_seconds": 6.0, "received_seconds": 9.0}
    idle = {**entry, **elsewhere, "active": False, "queue_wait_seconds_p99": 0.5}
    silent = {**entry, "id": "3", "device_seconds": 0.0, "contended_seconds": 0.0}
    other = {**entry, "id": "2", "device_seconds": 9.0}
    first, second, third = merge([[entry, other], [idle, silent]])
    assert first["id"] == "2"
    assert third["share_owed"] is None
    assert second["operations"] == 20
    assert second["active"]
    assert (second["share_owed"], second["share_received"]) == (14 / 40, 16 / 40)
    assert second["queue_wait_seconds_p99"] == 0.5
