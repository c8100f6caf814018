"""Messages between servers and subscriber, what is gathered of them, and the view of the file system that it gives."""

import gzip
import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lustre_messages import statistics, target
from weir._core import Allocator
from weir.lustre import collector as collected
from weir.lustre.collector import Collector
from weir.lustre.message import (
    MESSAGE_BYTES_MAX,
    Heartbeat,
    Message,
    RejectedError,
    TargetRates,
    decode,
    encode,
)
from weir.lustre.observer import OwnLoad, Thresholds
from weir.lustre.speed import Speeds
from weir.lustre.view import UnusableError, View, view_of_document, view_of_lfs_df

DATA = Path(__file__).resolve().parents[1] / "data" / "lustre"
IDLE = OwnLoad(0.1, 0.1, 0.5, None)


def heartbeat(server: str = "oss1", sequence: int = 1, instance: str = "first") -> Heartbeat:
    return Heartbeat(server, instance, sequence, 60.0, 5.0)


def document_of(collector: Collector, now: float, own: OwnLoad = IDLE) -> dict[str, Any]:
    """The document, as it comes out of a file."""
    document = collector.document(now, time_seconds=1700000000.0, own=own, thresholds=Thresholds())
    found: dict[str, Any] = json.loads(json.dumps(document, allow_nan=False))
    return found


@pytest.mark.parametrize(
    "message",
    [
        statistics(),
        heartbeat(),
        statistics(network=None, period_seconds=None, cpu_fraction=None, targets=(target(rates=None),)),
        statistics(targets=(), unread=("/proc/x:1: expected y, found 'z'",)),
    ],
)
def test_a_message_is_read_as_it_was_written(message: Message) -> None:
    assert decode(encode(message)) == message


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"version": 2}, "version 2; this program reads version 1"),
        ({"kind": "gossip"}, "kind 'gossip'; known are statistics, heartbeat"),
        ({"server": ""}, "server: empty"),
        ({"server": 5}, "server: no text"),
        ({"server": "x" * 2000}, "server: no text of at most 1024 characters"),
        ({"sequence": -1}, "sequence: '-1' is no whole number from 0"),
        ({"sequence": True}, "sequence: 'True' is no whole number"),
        ({"sequence": 1 << 64}, "is no whole number from 0"),
        ({"interval_seconds": math.nan}, "interval_seconds: 'nan' is no number from 0"),
        ({"interval_seconds": math.inf}, "interval_seconds: 'inf' is no number from 0"),
        ({"targets": {}}, "targets: no list"),
        ({"targets": [5]}, "targets: no JSON object"),
        ({"targets": [{}] * 1025}, "targets: no list of at most 1024"),
        ({"network": []}, "network: no JSON object"),
    ],
)
def test_a_wrong_message_is_refused_with_the_field(changes: dict[str, Any], why: str) -> None:
    document = {**json.loads(encode(statistics())), **changes}
    with pytest.raises(RejectedError) as error:
        decode(json.dumps(document).encode())
    assert why in str(error.value)


@pytest.mark.parametrize(
    "content", [b"", b"\xff", b"null", b"[]", b"{", b"[" * 100_000, b" " * (MESSAGE_BYTES_MAX + 1)]
)
def test_what_is_no_message_is_refused(content: bytes) -> None:
    with pytest.raises(RejectedError):
        decode(content)


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)


@settings(max_examples=400, deadline=None, print_blob=True)
@given(st.data())
def test_whatever_comes_is_a_message_or_refused(data: st.DataObject) -> None:
    """A message with any one field, at any depth, replaced by any JSON; and any bytes."""
    if data.draw(st.booleans(), label="any bytes"):
        content = data.draw(st.binary(max_size=200))
    else:
        document = json.loads(encode(statistics()))
        place: Any = document
        while True:
            key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
            inner = place[key]
            if not isinstance(inner, dict | list) or not inner or data.draw(st.booleans()):
                break
            place = inner
        place[key] = data.draw(ANY_JSON)
        content = json.dumps(document).encode()
    collector = Collector()
    try:
        message = decode(content)
    except RejectedError:
        assert not collector.take(content, 0.0)
        assert collector.rejected == 1
    else:
        assert decode(encode(message)) == message
        assert collector.take(content, 0.0)
        document_of(collector, 1.0)


def test_a_server_that_falls_silent_is_told_of_and_left_out() -> None:
    collector = Collector()
    collector.accept(statistics("oss1"), 0.0)
    collector.accept(statistics("oss2", targets=(target("fs-OST0001"),)), 0.0)
    collector.accept(heartbeat("oss1"), 15.0)
    assert collector.silent(15.9) == frozenset()
    assert collector.silent(16.1) == {"oss2"}, "three heartbeats of 5 s and a second"
    document = document_of(collector, 20.0)
    assert [each["statistics"]["server"] for each in document["servers"]] == ["oss1"]
    assert (document["servers"][0]["age_seconds"], document["servers"][0]["heard_seconds"]) == (20.0, 5.0)
    assert document["silent"] == [{"server": "oss2", "heard_seconds": 20.0, "targets": ["fs-OST0001"]}]
    collector.accept(statistics("oss2", 1, targets=(target("fs-OST0001"),)), 21.0)
    assert collector.silent(21.0) == frozenset(), "it is back"
    assert collector.silent(31.5) == {"oss1"}, "whose last word was at 15"


def test_a_server_that_only_beats_has_no_news_either() -> None:
    """Its publisher lives, but its readings do not come."""
    collector = Collector()
    collector.accept(statistics(), 0.0)
    for sequence in range(1, 60):
        collector.accept(heartbeat(sequence=sequence), 5.0 * sequence)
        silent = collector.silent(5.0 * sequence)
        assert bool(silent) == (5.0 * sequence > 181.0)


def test_no_server_is_waited_for_longer_than_an_hour_each_time() -> None:
    collector = Collector()
    collector.accept(statistics(interval_seconds=1e9, heartbeat_seconds=1e9), 0.0)
    assert collector.silent(3 * 3600.0) == frozenset()
    assert collector.silent(3 * 3600.0 + 2) == {"oss1"}


def test_lost_messages_are_counted_and_a_restart_is_none() -> None:
    collector = Collector()
    collector.accept(statistics(sequence=0), 0.0)
    collector.accept(heartbeat(sequence=4), 1.0)
    collector.accept(statistics(sequence=5), 2.0)
    collector.accept(statistics(sequence=0, instance="second"), 3.0)
    assert document_of(collector, 3.0)["servers"][0]["lost_messages"] == 3


def test_a_reading_that_is_sent_again_keeps_its_age_and_counts_once() -> None:
    collector = Collector()
    collector.accept(statistics(sequence=7, time_seconds=5.0, age_seconds=40.0), 100.0)
    collector.accept(statistics(sequence=8, time_seconds=5.0, age_seconds=41.0), 101.0)
    assert collector.readings() == 1
    assert document_of(collector, 102.0)["servers"][0]["age_seconds"] == 42.0


def test_rejections_are_counted_and_the_latest_told() -> None:
    collector = Collector()
    for number in range(20):
        assert not collector.take(json.dumps({"version": number + 5}).encode(), 0.0)
    document = document_of(collector, 0.0)
    assert document["rejected_messages"] == 20
    assert len(document["rejections"]) == collected.REASONS_MAX
    assert document["rejections"][-1].startswith("version 24;")


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collected, "SERVERS_MAX", 3)
    monkeypatch.setattr(collected, "TARGETS_MAX", 5)
    collector = Collector()
    for number in range(10):
        collector.take(encode(statistics(f"oss{number}")), 0.0)
    assert (collector.servers_heard(), collector.rejected) == (3, 7)
    many = tuple(target(f"fs-OST000{number}") for number in range(4))
    collector.take(encode(statistics("oss0", 1, targets=many)), 1.0)
    assert collector.reasons[-1] == "more than 5 targets"
    collector.take(encode(statistics("oss0", 1, targets=many[:3])), 1.0)
    assert collector.rejected == 8
    document_of(collector, collected.FORGOTTEN_SECONDS + 0.5)
    assert collector.servers_heard() == 1, "those that were silent for a day are forgotten"
    collector.take(encode(statistics("new", 0, targets=many[:2])), 2.0)
    assert collector.servers_heard() == 2


def test_own_load_says_whether_to_allocate() -> None:
    document = document_of(Collector(), 0.0)
    assert (document["own"]["may_allocate"], document["own"]["waits_for"]) == (True, None)
    document = document_of(Collector(), 0.0, OwnLoad(0.9, 0.1, 5.0, None))
    assert document["own"]["may_allocate"] is False
    assert document["own"]["waits_for"] == "90% of the processors is used, of 70% at most"


def test_the_speed_of_a_slow_target_is_learned_and_forgotten_again() -> None:
    """The case of a real system: one target served 29 MB/s where the median served 1,688."""
    speeds = Speeds()

    def minute(slow_rate: float) -> float:
        for number in range(24):
            rate = slow_rate if number == 14 else 1688e6
            speeds.observe(str(number), moved_bytes=1e9, service_seconds=1e9 / rate, period_seconds=60.0)
        return speeds.relative()["14"]

    assert minute(29e6) == pytest.approx(29 / 1688)
    assert speeds.relative()["3"] == 1.0
    healed = [minute(1688e6) for _ in range(360)]
    assert healed == sorted(healed)
    assert healed[-1] > 0.99


def test_speeds_need_evidence() -> None:
    speeds = Speeds()
    for name in "abcd":
        speeds.observe(name, moved_bytes=1e6, service_seconds=1.0, period_seconds=60.0)
    assert speeds.relative() == {}, "too few bytes"
    speeds = Speeds()
    for name in "ab":
        speeds.observe(name, moved_bytes=1e9, service_seconds=1.0, period_seconds=60.0)
    assert speeds.relative() == {}, "too few peers"
    speeds.observe("c", moved_bytes=1e9, service_seconds=4.0, period_seconds=60.0)
    assert speeds.relative() == {"a": 1.0, "b": 1.0, "c": 0.25}
    speeds.observe("d", moved_bytes=1e9, service_seconds=0.1, period_seconds=60.0)
    assert speeds.relative()["d"] == 1.0, "a fast one is no faster than its peers"
    speeds.forget("a")
    speeds.forget("d")
    assert speeds.relative() == {}


def view_of(collector: Collector, now: float, of: str | None = None) -> View:
    return view_of_document(document_of(collector, now), "file", of=of)


def test_the_view_of_what_was_gathered() -> None:
    collector = Collector()
    collector.accept(statistics("oss2", targets=(target("fs-OST000b", degraded=True), target("fs-MDT0000"))), 0.0)
    collector.accept(statistics("oss1", targets=(target("fs-OST0001", available_bytes=None),)), 0.0)
    view = view_of(collector, 3.0)
    assert view.file_system == "fs"
    (only,) = view.targets
    assert (only.index, only.name, only.server, only.fill, only.degraded) == (11, "fs-OST000b", "oss2", 0.5, True)
    assert only.load_bytes_per_second == 3e6
    assert view.servers["oss2"].network_bytes_per_second == 3e6
    assert view.servers["oss2"].age_seconds == 3.0
    assert view.left_out == {"fs-OST0001": "its server oss1 does not tell its space"}
    assert view.waits_for is None


def test_targets_of_a_silent_server_are_left_out_of_the_view() -> None:
    collector = Collector()
    collector.accept(statistics("oss1", targets=(target("fs-OST0000"),)), 0.0)
    collector.accept(statistics("oss2", targets=(target("fs-OST0001"),)), 30.0)
    view = view_of(collector, 31.0)
    assert [each.name for each in view.targets] == ["fs-OST0001"]
    assert view.left_out == {"fs-OST0000": "its server oss1 was last heard 31 s ago"}


def test_a_target_that_moved_is_where_it_was_last_seen() -> None:
    collector = Collector()
    collector.accept(statistics("oss1", targets=(target("fs-OST0000"),)), 0.0)
    collector.accept(statistics("oss2", targets=(target("fs-OST0000", available_bytes=400),)), 10.0)
    (only,) = view_of(collector, 11.0).targets
    assert (only.server, only.available_bytes) == ("oss2", 400)
    (only,) = view_of(collector, 17.0).targets
    assert only.server == "oss2"
    assert view_of(collector, 17.0).left_out == {}, "it is there, though the server that had it is silent"


@pytest.mark.parametrize(
    ("document", "why"),
    [
        (None, "no document of `weir stats subscribe`"),
        ({"kind": "statistics", "version": 1}, "no document of `weir stats subscribe`"),
        ({"kind": "gathered-statistics", "version": 9}, "version 9; this program reads version 1"),
        ({"kind": "gathered-statistics", "version": 1}, "no document of `weir stats subscribe`: 'servers'"),
    ],
)
def test_a_document_of_something_else_is_refused(document: object, why: str) -> None:
    with pytest.raises(UnusableError) as error:
        view_of_document(document, "file")
    assert why in str(error.value)
    assert str(error.value).startswith("file: ")


def test_the_view_of_a_document_of_nobody() -> None:
    with pytest.raises(UnusableError, match="there are: none"):
        view_of(Collector(), 0.0)


@settings(max_examples=200, deadline=None, print_blob=True)
@given(st.data())
def test_whatever_stands_in_the_file_gives_a_view_or_one_error(data: st.DataObject) -> None:
    """A document with any one part, at any depth, replaced by any JSON."""
    collector = Collector()
    collector.accept(statistics("oss1"), 0.0)
    collector.accept(statistics("oss2", targets=(target("fs-OST0001"),)), 30.0)
    document = document_of(collector, 31.0)
    document["speeds"] = {"fs-OST0001": 0.5}
    assert len(view_of_document(document, "file").targets) == 1
    place: Any = document
    while True:
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        inner = place[key]
        if not isinstance(inner, dict | list) or not inner or data.draw(st.booleans()):
            break
        place = inner
    place[key] = data.draw(ANY_JSON | st.just(10**400))
    try:
        view = view_of_document(document, "file")
    except UnusableError as error:
        assert str(error).startswith("file: ")
    else:
        assert all(0.0 <= each.fill <= 1.0 for each in view.targets)
        view.inputs()


def test_the_view_of_lfs_df() -> None:
    text = gzip.decompress((DATA / "lfs-df.txt.gz").read_bytes()).decode()
    devices = gzip.decompress((DATA / "lctl-dl-t.txt.gz").read_bytes()).decode()
    with pytest.raises(UnusableError, match="one file system has to be named; there are: snx11025, snx11035"):
        view_of_lfs_df(text, "lfs df")
    with pytest.raises(UnusableError, match="no file system 'scratch' there"):
        view_of_lfs_df(text, "lfs df", of="scratch")
    view = view_of_lfs_df(text, "lfs df", devices=devices, of="snx11035")
    assert [each.index for each in view.targets] == list(range(24))
    assert view.targets[0x14].server == "10.100.101.25@o2ib2"
    assert view.targets[0].fill == pytest.approx(1 - 24423870832 / 90767651352)
    assert view.targets[0].load_bytes_per_second is None
    down = devices.replace("UP osc snx11035-OST0014", "IN osc snx11035-OST0014")
    view = view_of_lfs_df(text, "lfs df", devices=down, of="snx11035")
    assert len(view.targets) == 23
    assert view.left_out == {"snx11035-OST0014": "it is inactive, or takes no new files"}


def test_what_an_allocator_is_given() -> None:
    """A slow, a loaded and a nearly full target, and a server whose processors are busy."""
    collector = Collector()
    idle = TargetRates(0.0, 0.0, 0.0, 0.0, 0.0)
    space = {"total_bytes": 10**13, "free_bytes": 10**13, "available_bytes": 8 * 10**12}
    first = (target("fs-OST0000", rates=idle, **space), target("fs-OST0001", **space))
    full = target("fs-OST0003", rates=idle, total_bytes=10**13, available_bytes=10**12)
    last = target("fs-OST0004", rates=idle, total_bytes=10**13, available_bytes=0)
    second = (target("fs-OST0002", rates=idle, **space), full, last)
    collector.accept(statistics("oss1", cpu_fraction=0.5, memory_fraction=0.2, targets=first), 0.0)
    collector.accept(statistics("oss2", cpu_fraction=None, targets=second), 0.0)
    document = document_of(collector, 1.0)
    document["speeds"] = {"fs-OST0000": 0.1}
    inputs = view_of_document(document, "file").inputs(horizon_seconds=100.0, expected_bytes_per_second=1e9)
    assert inputs["targets"] == ["0", "1", "2", "3", "4"]
    assert inputs["servers"] == ["oss1", "oss1", "oss2", "oss2", "oss2"]
    assert inputs["speeds"][:3] == [1e8, 1e9, 1e9]
    assert 0.0 < inputs["speeds"][3] < 1e9
    assert inputs["speeds"][4] == 0.0
    assert inputs["loads_bytes"] == [0.0, 3e8, 0.0, 0.0, 0.0]
    assert inputs["server_speeds"] == {"oss1": 1.1e9}
    assert inputs["server_loads_bytes"] == {"oss1": 3e8}
    placed = Allocator("balanced").allocate(**inputs, stripes=[1] * 200, stripe_bytes=[10**10] * 200)
    counts = Counter(name for names in placed.targets for name in names)
    assert "4" not in counts, "it is full"
    assert counts["2"] > counts["1"] > counts["0"], "its server is idle; it is not slow"
    assert counts["2"] > counts["3"]


def test_a_busy_server_slows_its_targets_down() -> None:
    collector = Collector()
    space = {"total_bytes": 10**13, "free_bytes": 10**13, "available_bytes": 8 * 10**12}
    for index, used in enumerate((0.1, 0.9)):
        targets = (target(f"fs-OST{index:04x}", **space),)
        collector.accept(statistics(f"oss{index}", cpu_fraction=used, memory_fraction=0.2, targets=targets), 0.0)
    inputs = view_of_document(document_of(collector, 1.0), "file").inputs(expected_bytes_per_second=1e9)
    assert inputs["speeds"] == pytest.approx([1e9, 2e8])
    assert inputs["server_speeds"] == pytest.approx({"oss0": 1e9, "oss1": 2e8})


def test_a_view_of_space_alone_is_enough_for_an_allocator() -> None:
    text = gzip.decompress((DATA / "lfs-df.txt.gz").read_bytes()).decode()
    inputs = view_of_lfs_df(text, "lfs df", of="snx11025").inputs()
    assert inputs["server_speeds"] == {}
    placed = Allocator("balanced").allocate(**inputs, stripes=[4] * 60, stripe_bytes=[1 << 30] * 60)
    assert all(len(set(names)) == 4 for names in placed.targets)
    assert {name for names in placed.targets for name in names} <= set(inputs["targets"])
