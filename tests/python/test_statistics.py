"""Readers of Lustre's and Linux's texts, and what happened between two readings."""

import gzip
import itertools
import statistics
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lfs_snapshots import parse_snapshots
from weir.lustre.counters import Counter, parse_counters
from weir.lustre.devices import inactive, parse_lctl_dl, servers_of
from weir.lustre.histograms import parse_brw_stats
from weir.lustre.host import parse_lnet_stats, parse_loadavg, parse_meminfo, parse_stat
from weir.lustre.jobs import parse_job_stats
from weir.lustre.observer import OwnLoad, Thresholds, waits_for
from weir.lustre.rates import JOBS_MAX, rates
from weir.lustre.space import file_system, parse_kilobytes, parse_lfs_df, target_index
from weir.lustre.text import MalformedError
from weir.lustre.tree import Reading, read_tree

DATA = Path(__file__).resolve().parents[1] / "data" / "lustre"
FIRST, LATER = DATA / "2.15" / "first", DATA / "2.15" / "later"
STATS = "proc/fs/lustre/obdfilter/new-OST0000/stats"
JOB_STATS = "proc/fs/lustre/obdfilter/new-OST0000/job_stats"
BRW_STATS = "sys/kernel/debug/lustre/osd-ldiskfs/new-OST0000/brw_stats"


def sample(path: str) -> str:
    return (FIRST / path).read_text()


def unpacked(name: str) -> str:
    return gzip.decompress((DATA / name).read_bytes()).decode()


def after_a_minute(before: Reading, after: Reading) -> tuple[Reading, Reading]:
    return replace(before, time_seconds=1000.0), replace(after, time_seconds=1060.0)


def test_counters_of_all_versions() -> None:
    old = parse_counters((DATA / "2.5/proc/fs/lustre/obdfilter/old-OST0001/stats").read_text(), "stats")
    assert old.snapshot_seconds == 1400000000.590578
    assert old.started is None
    assert old.counters["read_bytes"] == Counter(2001, "bytes", 4096, 1048576, 1500000000)
    assert old.counters["ping"] == Counter(77, "reqs")
    new = parse_counters(sample(STATS), "stats")
    assert new.started == 1690000000.271489350
    assert new.counters["write_bytes"].total == 600000000, "a sum of squares that ran over does not spoil the line"
    assert new.counters["write"].unit == "usecs"


def test_jobs_of_all_versions() -> None:
    old = parse_job_stats((DATA / "2.5/proc/fs/lustre/obdfilter/old-OST0000/job_stats").read_text(), "job_stats")
    assert [job.job for job in old] == ["ior.4711", "cp.0"]
    assert old[0].counters["write"] == Counter(200, "bytes", 4096, 1048576, 200000000)
    assert old[1].counters["punch"] == Counter(0, "reqs")
    (new,) = parse_job_stats(sample(JOB_STATS), "job_stats")
    assert new.job == "backup: nightly.0"
    assert new.counters["read_bytes"].total == 60000000, "a histogram inside the line does not spoil it"
    assert parse_job_stats("job_stats:\n", "job_stats") == ()
    assert parse_job_stats("job_stats:\n- job_id:\n  snapshot_time: 5\n", "job_stats")[0].job == ""


def test_histograms_of_all_versions() -> None:
    found = parse_brw_stats(sample(BRW_STATS), "brw_stats")
    assert found.snapshot_seconds == 1700000000.553884916
    assert found.histograms["disk I/O size"].reads == {4096: 3, 1 << 20: 40}
    assert found.histograms["I/O time"].writes == {4: 10, 8: 80, 64: 10}
    assert found.histograms["disk I/Os in flight"].unit == "ios"
    old = parse_brw_stats((DATA / "2.5/proc/fs/lustre/osd-ldiskfs/old-OST0000/brw_stats").read_text(), "brw_stats")
    assert old.histograms == found.histograms


def test_a_host() -> None:
    root = DATA / "host" / "proc"
    assert parse_loadavg((root / "loadavg").read_text(), "loadavg").one_minute >= 0
    memory = parse_meminfo((root / "meminfo").read_text(), "meminfo")
    assert 0 < memory.available_bytes < memory.total_bytes
    assert parse_meminfo("MemTotal: 100 kB\nMemFree: 10 kB\nCached: 20 kB\n", "meminfo").used_fraction == 0.7
    processors = parse_stat((root / "stat").read_text(), "stat")
    assert processors.count == 2
    assert 0 < processors.busy_ticks < processors.total_ticks
    network = parse_lnet_stats((DATA / "2.5/proc/sys/lnet/stats").read_text(), "stats")
    assert (network.errors, network.sent_messages, network.dropped_messages) == (2, 195805, 17)
    assert (network.sent_bytes, network.received_bytes) == (216828482, 708781379)


def test_this_machine_can_be_read() -> None:
    reading = read_tree(Path("/"), with_targets=False)
    assert reading.load is not None
    assert reading.memory is not None
    assert reading.processors is not None
    assert not reading.unread


def test_lfs_df_of_four_production_systems() -> None:
    targets = parse_lfs_df(unpacked("lfs-df.txt.gz"), "lfs df")
    sizes = dict.fromkeys(sorted({file_system(each.target) for each in targets}), 0)
    for each in targets:
        sizes[file_system(each.target)] += 1
        assert each.index == target_index(each.target), "in brackets decimal, in the name hexadecimal"
        assert 0 < each.available_bytes < each.total_bytes
        # What is used and what can be had, without the reserve, is not more than all.
        assert each.used_bytes + each.available_bytes <= each.total_bytes
    assert sizes == {"snx11025": 24, "snx11035": 24, "snx11036": 36, "snx11168": 248}
    first = next(each for each in targets if each.target == "snx11035-OST0000")
    assert (first.total_bytes, first.available_bytes) == (90767651352 << 10, 24423870832 << 10)
    assert first.mount == "/scratch2"


def test_lfs_df_tells_of_targets_that_take_nothing() -> None:
    text = (
        "UUID                   1K-blocks        Used   Available Use% Mounted on\n"
        "fs-MDT0000_UUID           100         10          90  10% /mnt/a file system[MDT:0]\n"
        "fs-OST0000_UUID           100         10          90  10% /mnt/a file system[OST:0]\n"
        "fs-OST0001_UUID           100         10          90  10% /mnt/a file system[OST:1] R\n"
        "fs-OST0002_UUID           100         10          90  10% /mnt/a file system[OST:2] D\n"
        "OST0003             : inactive device\n"
        "fs-OST0010             : Resource temporarily unavailable\n"
        "filesystem summary:     300         30         270  10% /mnt/a file system\n"
    )
    targets = parse_lfs_df(text, "lfs df")
    assert [(each.index, each.active, each.degraded) for each in targets] == [
        (0, True, False),
        (1, False, False),
        (2, True, True),
        (16, False, False),
    ]
    assert targets[0].mount == "/mnt/a file system"


def test_devices_name_servers() -> None:
    devices = parse_lctl_dl(unpacked("lctl-dl-t.txt.gz"), "lctl dl")
    servers = servers_of(devices)
    assert len(servers) == 332
    assert servers["snx11035-OST0014"] == "10.100.101.25@o2ib2"
    assert inactive(devices) == frozenset()
    down = "  5 IN osc fs-OST0001-osc-ffff88 8dbdc7f6 5 10.0.0.1@tcp\n"
    assert inactive(parse_lctl_dl(down, "lctl dl")) == {"fs-OST0001"}


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (
            parse_counters,
            "snapshot_time 1.5 secs\nread_bytes many samples [bytes]\n",
            "lines:2: expected `NAME N samples",
        ),
        (parse_counters, "snapshot_time 1.5\nread_bytes 5 samples [bytes] 1 2\n", "lines:2: expected `NAME N samples"),
        (parse_counters, "read_bytes 5 samples [bytes]\n", "lines:1: expected a `snapshot_time` line"),
        (parse_job_stats, "", "lines:1: expected `job_stats:`, found ''"),
        (parse_job_stats, "job_stats:\n  write: { samples: 1 }\n", "lines:2: expected `- job_id: NAME`"),
        (parse_job_stats, "job_stats:\n- job_id: a\n", "lines:2: expected a job with a `snapshot_time:`"),
        (parse_job_stats, "job_stats:\n- job_id: a\n  write: { samples: x }\n", "lines:3: expected `NAME: { samples"),
        (parse_job_stats, "job_stats:\n- job_id: a\n  write: { samples: 1\n", "lines:3: expected `NAME: { samples"),
        (parse_brw_stats, "snapshot_time: 1.5\n4: 1 2 3 | 4 5 6\n", "lines:2: expected `BUCKET: N % % | N % %`"),
        (parse_brw_stats, "", "lines:1: expected a `snapshot_time:` line"),
        (parse_loadavg, "0.1 0.2\n", "lines:1: expected three load averages"),
        (parse_loadavg, "nan nan nan 1/2 3\n", "lines:1: expected three load averages"),
        (parse_meminfo, "MemTotal: 5 kB\nMemFree 5\n", "lines:2: expected `NAME: N kB`"),
        (parse_meminfo, "MemFree: 5 kB\n", "lines:1: expected a `MemTotal` above 0"),
        (parse_meminfo, "MemTotal: 5 kB\n", "lines:1: expected a `MemAvailable` or a `MemFree`"),
        (parse_stat, "cpu 1 2 3\n", "lines:1: expected `cpu` and at least five numbers"),
        (parse_lnet_stats, "1 2 3\n", "lines:1: expected 11 numbers"),
        (parse_lnet_stats, "", "lines:1: expected one line"),
        (parse_kilobytes, "12 kB\n", "lines:1: expected a number of KiB"),
        (
            parse_lfs_df,
            "UUID bytes Used Available Use% Mounted on\n",
            "lines:1: expected `1K-blocks`: `lfs df` without -h",
        ),
        (parse_lfs_df, "fs-OST0000_UUID 5.5G 1.1G 4G 20% /mnt[OST:0]\n", "lines:1: expected `NAME_UUID TOTAL USED"),
        (parse_lfs_df, f"fs-OST0000_UUID {1 << 54} 1 4 20% /mnt[OST:0]\n", "lines:1: expected `NAME_UUID TOTAL USED"),
        (parse_lctl_dl, "  0 UP mgc name uuid\n", "lines:1: expected `NUMBER STATUS TYPE NAME"),
    ],
)
def test_errors_name_the_line_and_what_was_expected(
    parse: Callable[[str, str], object], text: str, message: str
) -> None:
    with pytest.raises(MalformedError) as error:
        parse(text, "lines")
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("version", "targets", "total", "available"),
    [
        ("2.5", ["old-OST0000", "old-OST0001"], 8000000, 2500000),
        ("2.12", ["mid-OST00a0", "mid-OST00a1"], 8000000, 2990000),
        ("2.15/first", [f"new-OST000{number}" for number in range(4)], 8000000, 2900000),
    ],
)
def test_files_are_found_where_each_version_has_them(
    version: str, targets: list[str], total: int, available: int
) -> None:
    reading = read_tree(DATA / version)
    assert list(reading.targets) == targets, "MDTs are no targets"
    assert reading.unread == ()
    first = reading.targets[targets[0]]
    assert (first.total_bytes, first.available_bytes) == (total << 10, available << 10)
    assert first.counters is not None
    assert first.jobs is not None
    assert first.histograms is not None
    assert reading.network is not None
    assert [each.degraded for each in reading.targets.values()] == [target == "mid-OST00a1" for target in targets]


def test_one_wrong_file_costs_no_other(tmp_path: Path) -> None:
    folder = tmp_path / "proc/fs/lustre/obdfilter/fs-OST0000"
    folder.mkdir(parents=True)
    (folder / "stats").write_text("nonsense\n")
    (folder / "kbytestotal").write_text("100\n")
    (folder / "job_stats").mkdir()
    reading = read_tree(tmp_path)
    assert reading.targets["fs-OST0000"].total_bytes == 102400
    assert reading.targets["fs-OST0000"].counters is None
    trouble = "\n".join(reading.unread)
    assert f"{folder / 'stats'}:1: expected" in trouble
    assert f"{folder / 'job_stats'}: Is a directory" in trouble


def test_rates_between_two_readings() -> None:
    before, after = after_a_minute(read_tree(FIRST), read_tree(LATER))
    found = rates(before, after)
    assert found is not None
    assert found.period_seconds == 60.0
    assert found.cpu_fraction == pytest.approx(0.6), "1200 of 2000 ticks of both processors"
    assert found.network is not None
    assert found.network.sent_bytes_per_second == 100000.0
    target = found.targets["new-OST0000"]
    assert target.read_bytes_per_second == 2e6
    assert target.write_bytes_per_second == 1e7
    assert target.writes_per_second == pytest.approx(200 / 60)
    assert target.service_seconds_per_second == pytest.approx(0.1)
    assert found.targets["new-OST0003"].service_seconds_per_second == pytest.approx(1.0)
    assert target.disk is not None
    assert target.disk.ios_per_second == pytest.approx(143 / 60)
    assert target.disk.bytes_mean == pytest.approx((140 * (1 << 20) + 3 * 4096) / 143)
    assert target.disk.milliseconds_mean == pytest.approx((53 * 4 + 80 * 8 + 10 * 64) / 143)
    (job,) = target.jobs
    assert (job.job, job.read_bytes_per_second, job.write_bytes_per_second) == ("backup: nightly.0", 1e6, 5e6)


def test_counters_that_begin_anew_count_from_nothing() -> None:
    before, after = after_a_minute(read_tree(LATER), read_tree(FIRST))
    found = rates(before, after)
    assert found is not None
    target = found.targets["new-OST0001"]
    assert target.write_bytes_per_second == 600000000 / 60, "what was counted since, not a negative rate"
    assert target.service_seconds_per_second == pytest.approx(0.1)
    assert target.jobs[0].write_bytes_per_second == 300000000 / 60
    assert found.network is not None
    assert found.network.received_bytes_per_second == 12000000 / 60
    assert found.cpu_fraction is None, "the processors' time went backwards"


def test_counters_that_began_anew_and_overtook_are_seen_by_their_start() -> None:
    before, after = after_a_minute(read_tree(FIRST), read_tree(LATER))
    target = after.targets["new-OST0000"]
    assert target.counters is not None
    restarted = replace(target, counters=replace(target.counters, started=1695000000.0))
    found = rates(before, replace(after, targets={"new-OST0000": restarted}))
    assert found is not None
    assert found.targets["new-OST0000"].write_bytes_per_second == 1200000000 / 60


def test_a_target_that_moved_here_has_no_rates_yet() -> None:
    before, after = after_a_minute(read_tree(FIRST), read_tree(LATER))
    del before.targets["new-OST0002"]  # type: ignore[attr-defined]
    found = rates(before, after)
    assert found is not None
    assert sorted(found.targets) == ["new-OST0000", "new-OST0001", "new-OST0003"]


def test_old_versions_time_requests_by_the_histogram_only() -> None:
    before, after = after_a_minute(read_tree(DATA / "2.5"), read_tree(DATA / "2.5"))
    found = rates(before, after)
    assert found is not None
    assert found.targets["old-OST0000"].service_seconds_per_second is None, "nothing moved"
    assert found.targets["old-OST0000"].jobs == ()
    assert rates(after, after) is None, "no time passed"


def test_a_message_tells_of_few_jobs_the_greatest_first() -> None:
    before, after = after_a_minute(read_tree(FIRST), read_tree(LATER))
    target = after.targets["new-OST0000"]
    assert target.jobs is not None
    many = tuple(
        replace(target.jobs[0], job=str(number), counters={"write_bytes": Counter(1, "bytes", 0, 0, 60 * number)})
        for number in range(100)
    )
    found = rates(before, replace(after, targets={"new-OST0000": replace(target, jobs=many)}))
    assert found is not None
    moved = [job.write_bytes_per_second for job in found.targets["new-OST0000"].jobs]
    assert moved == [99.0 - number for number in range(JOBS_MAX)]


def test_the_papers_rule_when_to_allocate() -> None:
    thresholds = Thresholds()
    assert (thresholds.cpu_fraction_max, thresholds.memory_fraction_max) == (0.7, 0.5)
    assert waits_for(OwnLoad(0.69, 0.49, 1.0, None), thresholds) is None
    assert "processors" in (waits_for(OwnLoad(0.70, 0.1, 1.0, None), thresholds) or "")
    assert "memory" in (waits_for(OwnLoad(0.1, 0.50, 1.0, None), thresholds) or "")
    assert "not known" in (waits_for(OwnLoad(None, 0.1, 1.0, None), thresholds) or "")
    assert waits_for(OwnLoad(0.9, 0.9, 1.0, None), Thresholds(1.0, 1.0)) is None


SAMPLES: list[tuple[Callable[[str, str], object], str]] = [
    (parse_counters, sample(STATS)),
    (parse_job_stats, sample(JOB_STATS)),
    (parse_brw_stats, sample(BRW_STATS)),
    (parse_lnet_stats, "0 1172 2 195805 204126 0 17 216828482 708781379 0 3268\n"),
    (parse_loadavg, (DATA / "host/proc/loadavg").read_text()),
    (parse_meminfo, (DATA / "host/proc/meminfo").read_text()),
    (parse_stat, (DATA / "host/proc/stat").read_text()),
    (parse_lfs_df, unpacked("lfs-df.txt.gz")[:2000]),
    (parse_snapshots, "BEGIN 1489998203\n" + unpacked("lfs-df.txt.gz")[:2000]),
    (parse_lctl_dl, unpacked("lctl-dl-t.txt.gz")[:2000]),
    (parse_kilobytes, "8000000\n"),
]


@pytest.mark.slow
@settings(max_examples=300, deadline=None, print_blob=True)
@given(data=st.data())
@pytest.mark.parametrize(("parse", "text"), SAMPLES)
def test_whatever_is_read_is_understood_or_refused_with_a_line(
    parse: Callable[[str, str], object], text: str, data: st.DataObject
) -> None:
    """Samples with parts cut out, doubled and replaced, and any text at all."""
    if data.draw(st.booleans(), label="from a sample"):
        begin = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(begin, min(len(text), begin + 200)))
        words = ["", "-1", "9" * 30, "nan", "{", "}", "[", ":", "\x00", "\r", "\u2028", "samples", text[begin:end] * 2]
        changed = text[:begin] + data.draw(st.sampled_from(words) | st.text(max_size=20)) + text[end:]
    else:
        changed = data.draw(st.text(max_size=400))
    try:
        parse(changed, "source")
    except MalformedError as error:
        assert str(error).startswith(f"source:{error.line}: expected {error.expected}, found ")
        assert 1 <= error.line <= changed.count("\n") + 1


@settings(max_examples=100, deadline=None, print_blob=True)
@given(st.lists(st.tuples(st.integers(0, 1 << 62), st.integers(0, 1 << 62)), min_size=2, max_size=6))
def test_rates_are_never_negative(totals: list[tuple[int, int]]) -> None:
    """Whatever a counter does from reading to reading."""
    texts = [
        f"snapshot_time {number}.5 secs\nread_bytes {read % 1000} samples [bytes] 0 1 {read}\n"
        f"write_bytes {written % 1000} samples [bytes] 0 1 {written}\n"
        for number, (read, written) in enumerate(totals)
    ]
    base = read_tree(FIRST)
    readings = [
        replace(
            base,
            time_seconds=float(number),
            targets={"a": replace(base.targets["new-OST0000"], counters=parse_counters(text, "stats"))},
        )
        for number, text in enumerate(texts)
    ]
    for before, after in itertools.pairwise(readings):
        found = rates(before, after)
        assert found is not None
        moved = found.targets["a"]
        assert (moved.read_bytes_per_second or 0) >= 0
        assert (moved.write_bytes_per_second or 0) >= 0
        assert (moved.reads_per_second or 0) >= 0


def test_snapshots_over_a_day() -> None:
    """A day of `lfs df` of four file systems."""
    path = Path(__file__).resolve().parents[2] / "benchmarks/data/ost-fullness.txt.gz"
    snapshots = parse_snapshots(gzip.decompress(path.read_bytes()).decode(), path.name)
    assert len(snapshots) == 70
    assert {len(each.targets) for each in snapshots} == {332}
    moments = [each.time_seconds or 0 for each in snapshots]
    steps = [after - before for before, after in itertools.pairwise(moments)]
    assert all(step > 0 for step in steps)
    assert 800 < statistics.median(steps) < 1000
