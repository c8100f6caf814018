"""Windows of block devices and of Lustre's services: sampled, kept on disk, told after a death, and exported."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from waits import PATIENCE_SECONDS, wait_until
from weir.cli.common.window_export import read_address
from weir.interference import sampling, windows
from weir.interference.devices import IN_PROGRESS, Reading, Storage, parse_diskstats
from weir.interference.errors import InterferenceError
from weir.interference.export import Board, served, token_of
from weir.interference.upkeep import MARK, collecting
from weir.ways import WayError

LUSTRE = Path(__file__).resolve().parents[1] / "data/lustre"
ZERO = (0.0,) * len(windows.SERVER)
WEIR = [sys.executable, "-m", "weir.cli"]


def device() -> str:
    """The block device of this host that has done most."""
    every = parse_diskstats(Path("/proc/diskstats").read_text(), "/proc/diskstats")
    if not every:
        pytest.skip("this host has no block device")
    return max(every, key=lambda name: every[name][0] + every[name][1])


def values(**counters: float) -> tuple[float, ...]:
    return tuple(counters.get(name, 0.0) for name in windows.SERVER)


def test_the_kernels_table_is_read_in_the_order_of_the_columns() -> None:
    fields = "   8  0 sda 11 12 13 14 21 22 23 24 31 32 33 41 42 43 44 51 52\n"
    found = dict(zip(windows.SERVER, parse_diskstats(fields, "x")["sda"], strict=True))
    assert found == {
        **{"reads": 11, "merged_reads": 12, "read_sectors": 13, "read_milliseconds": 14},
        **{"writes": 21, "merged_writes": 22, "written_sectors": 23, "write_milliseconds": 24},
        **{"in_progress": 31, "busy_milliseconds": 32, "queued_milliseconds": 33},
    }
    for text in ("8 0 sda 1 2 3\n", fields.replace("21", "-21"), fields.replace("21", "x")):
        with pytest.raises(InterferenceError, match="expected"):
            parse_diskstats(text, "/proc/diskstats")


def test_real_writes_to_a_file_are_seen_in_the_devices_of_this_host(tmp_path: Path) -> None:
    every = parse_diskstats(Path("/proc/diskstats").read_text(), "/proc/diskstats")
    storage = Storage(Path("/"), tuple(every), False, lambda line: None)
    before = storage.read()
    with (tmp_path / "written").open("wb") as out:
        out.write(os.urandom(1 << 20))
        out.flush()
        os.fsync(out.fileno())
    place = windows.SERVER.index("written_sectors")
    if not any(storage.read()[name].values[place] > before[name].values[place] for name in every):
        pytest.skip("the file system of this folder is on no block device")
    for name, after in storage.read().items():
        grown = [now - then for then, now in zip(before[name].values, after.values, strict=True)]
        assert min(grown[:IN_PROGRESS]) >= 0, name


def test_lustres_statistics_become_the_same_columns() -> None:
    found = Storage(LUSTRE / "2.15/first", (), True, lambda line: None).read()["new-OST0000"]
    assert found == Reading(
        values(
            **{"reads": 100, "writes": 200, "read_sectors": 120_000_000 / 512, "written_sectors": 600_000_000 / 512},
            **{"read_milliseconds": 1000, "write_milliseconds": 5000},
        )
    )
    service = Storage(LUSTRE / "2.15/mds", (), True, lambda line: None).read()["new-MDT0000"]
    looks, changes = 5000 + 4990 + 9000 + 20 + 59816, 10 + 300 + 40 + 50 + 600
    times = {"read_milliseconds": 922.184, "write_milliseconds": 108.0}
    assert service.is_metadata
    assert service.values == pytest.approx(values(reads=looks, writes=changes, **times))
    older = Storage(LUSTRE / "2.12/mds", (), True, lambda line: None).read()["mid-MDT0000"]
    assert older.values == values(reads=5000 + 4990 + 9000 + 59816, writes=910)


def test_a_file_that_is_none_of_lustres_is_told_once_and_the_rest_goes_on(tmp_path: Path) -> None:
    for name, text in (
        ("fs-OST0000", "snapshot_time 1.0 secs\nread_bytes 1 samples [bytes] 1 1 512\n"),
        ("x-OST1", ""),
    ):
        folder = tmp_path / "proc/fs/lustre/obdfilter" / name
        folder.mkdir(parents=True)
        (folder / "stats").write_text(text)
    (tmp_path / "proc/fs/lustre/obdfilter/fs-OST0001").mkdir()
    (tmp_path / "proc/fs/lustre/obdfilter/fs-OST0001/stats").write_text("nonsense\n")
    told: list[str] = []
    storage = Storage(tmp_path, (), True, told.append)
    for _ in range(3):
        assert set(storage.read()) == {"fs-OST0000"}
    assert len(told) == 1 and "fs-OST0001" in told[0]


def sampled(sampler: sampling.Sampler, *steps: tuple[float, dict[str, float]]) -> list[sampling.DeviceWindow]:
    return [
        window
        for moment, devices in steps
        for window in sampler.take(moment, {name: Reading(values(reads=reads)) for name, reads in devices.items()})
    ]


def test_windows_have_the_sum_mean_and_deviation_of_their_samples() -> None:
    told: list[str] = []
    sampler = sampling.Sampler(1.0, told.append)
    steps = [(9.5, {"a": 5.0}), (10.0, {"a": 7.0}), (10.5, {"a": 8.0}), (11.0, {"a": 11.0}), (12.0, {"a": 11.0})]
    found = sampled(sampler, *steps)
    assert [window.number for window in found] == [10, 11] and not told
    row = found[0].row("host")
    assert (row["server_reads_sum"], row["server_reads_mean"], row["server_reads_deviation"]) == (4.0, 2.0, 1.0)
    assert set(row) <= set(windows.columns())
    assert windows.of_rows([row]).server.shape == (1, 1, len(windows.SERVER) * 3)


@pytest.mark.parametrize(
    ("steps", "numbers", "told"),
    [
        ([(10.0, {"a": 1}), (10.5, {"a": 2}), (14.0, {"a": 9}), (15.0, {"a": 9})], [14], "4 windows are lost"),
        ([(9.0, {"a": 1}), (10.0, {"a": 2}), (10.5, {}), (11.0, {"a": 2}), (12.0, {"a": 2})], [11], "a is gone"),
        (
            [(9.0, {}), (10.0, {}), (10.4, {"a": 1}), (10.8, {"a": 2}), (11.0, {"a": 2}), (12.0, {"a": 2})],
            [11],
            "joined",
        ),
        ([(9.0, {"a": 9}), (10.0, {"a": 9}), (10.5, {"a": 2}), (11.0, {"a": 3})], [10], "began anew"),
        ([(9.0, {"a": 9}), (10.0, {"a": 9}), (5.5, {"a": 9}), (6.0, {"a": 9}), (7.0, {"a": 9})], [6], "set back"),
    ],
)
def test_losses_are_told_and_no_part_of_a_window_counts_as_a_whole_one(
    steps: list[tuple[float, dict[str, float]]], numbers: list[int], told: str
) -> None:
    lines: list[str] = []
    found = sampled(sampling.Sampler(1.0, lines.append), *steps)
    assert [window.number for window in found] == numbers
    assert len([line for line in lines if told in line]) == 1


def test_a_time_of_32_bits_wraps_and_a_counter_does_not() -> None:
    told: list[str] = []
    sampler = sampling.Sampler(1.0, told.append)
    high = float((1 << 32) - 10)
    sampler.take(10.0, {"a": Reading(values(busy_milliseconds=high))})
    sampler.take(11.0, {"a": Reading(values(busy_milliseconds=high))})
    (window,) = sampler.take(12.0, {"a": Reading(values(busy_milliseconds=90.0))})
    assert window.row("r")["server_busy_milliseconds_sum"] == 100.0 and not told


def test_the_windows_of_a_device_are_recorded_exported_and_bounded(tmp_path: Path) -> None:
    folder, name = tmp_path / "windows", device()
    options = ["--device", name, "--to", str(folder), "--window", "0.1", "--max-size", "60KiB", "--name", "host"]
    command = [*WEIR, "stats", "windows", *options, "--listen", "127.0.0.1:0", "--output", "json"]
    told = tmp_path / "told"
    with (
        told.open("wb") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as recording,
    ):
        wait_until("the address is told", lambda: told.read_text().count("\n") > 0 or recording.poll() is not None)
        address = told.read_text().split()[2].rstrip(",")
        files: set[Path] = set()

        def has_begun_a_fifth_file() -> bool:
            files.update(folder.glob("run=host/*.parquet"))
            return len(files) >= 5

        wait_until("five files were begun", has_begun_a_fifth_file)
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(address, timeout=PATIENCE_SECONDS)
        given = {"Authorization": f"Bearer {token_of(folder / 'metrics.token')}"}
        asked = urllib.request.Request(address, headers=given)
        with urllib.request.urlopen(asked, timeout=PATIENCE_SECONDS) as answer:
            text = answer.read().decode()
        recording.send_signal(signal.SIGTERM)
        said, _ = recording.communicate(timeout=PATIENCE_SECONDS)
    document = json.loads(said)
    assert recording.returncode == 0 and document["removed_parts"] > 0
    assert f'weir_window_server_writes_total{{target="{name}"}}' in text
    left = [path for path in folder.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in left) < 100_000 and not (folder / MARK).exists()
    assert {path.name for path in left if path.suffix != ".parquet"} == {"metrics.token"}
    assert {row["server"] for row in windows.read_rows([folder])} == {name}


def test_a_collector_that_died_is_told_by_the_next_one(tmp_path: Path) -> None:
    command = [*WEIR, "stats", "windows", "--device", device(), "--to", str(tmp_path), "--window", "0.1"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as recording:
        wait_until("a window is on disk", lambda: bool(list(tmp_path.rglob("*.parquet"))))
        second = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
        assert second.returncode == 1 and "another collector writes" in second.stderr
        recording.kill()
    before = len(windows.read([tmp_path]))
    again = [*command, "--seconds", "0.5"]
    said = subprocess.run(again, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True).stderr
    assert f"(process {recording.pid}) did not end by itself" in said and "window that was open is lost" in said
    assert len(windows.read([tmp_path])) >= before
    told: list[str] = []
    with collecting(tmp_path, 1.0, told.append):
        pass
    assert not told and tmp_path.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--device", "none-such"], "no block device is called none-such"),
        (["--lustre", "--root", "{empty}"], "no target and no metadata service"),
        ([], "no device was chosen"),
        (["--device", "sda", "--root", "{empty}"], "cannot read"),
        (["--device", "{device}", "--listen", "1.2.3.4:9"], "cannot listen"),
    ],
)
def test_bad_input_is_one_error_with_a_hint_or_a_reason(options: list[str], message: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    busiest = device() if "{device}" in options else ""
    given = [each.format(empty=tmp_path / "empty", device=busiest) for each in options]
    command = [*WEIR, "stats", "windows", "--to", str(tmp_path / "to"), "--seconds", "0.1", *given]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert done.returncode == 1 and message in done.stderr and "Traceback" not in done.stderr
    assert not list(tmp_path.rglob("*.parquet"))


def test_the_numbers_of_jobs_are_for_callers_with_the_token_alone(tmp_path: Path) -> None:
    board = Board()
    shared = {"run": "r", "workload": "w", "io_seconds": 1.0, "server": "0.0", "is_metadata": False}
    for number in (1, 2):
        for job in ("one", "other"):
            counted = {"client_reads": 3.0, "server_reads_sum": 10.0, "server_reads_mean": 1.0}
            board.add(number, (job, 7), [{**shared, "window": number, **counted}])
    token = token_of(tmp_path / "token")
    assert token == token_of(tmp_path / "token") and (tmp_path / "token").stat().st_mode & 0o777 == 0o600
    with served(board, ("127.0.0.1", 0), token) as (host, port, *_):
        for given in (None, "", "Bearer ", f"Bearer {token[:-1]}", f"Basic {token}", "Bearer x\u00e9"):
            asked = urllib.request.Request(f"http://{host}:{port}/metrics")
            if given is not None:
                asked.add_header("Authorization", given)
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(asked, timeout=PATIENCE_SECONDS)
            assert refused.value.code == 401 and b"job_name" not in refused.value.read()
        asked = urllib.request.Request(f"http://{host}:{port}/metrics", headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(asked, timeout=PATIENCE_SECONDS) as answer:
            text = answer.read().decode()
    assert 'weir_window_client_reads_total{job_name="one",target="0.0",uid="7"} 6.0' in text
    # Both jobs' rows repeat the counters of the server.
    assert 'weir_window_server_reads_total{target="0.0"} 20.0' in text
    (tmp_path / "token").chmod(0o644)
    with pytest.raises(WayError, match="can be read or changed by other users"):
        token_of(tmp_path / "token")
    (tmp_path / "empty").touch(0o600)
    with pytest.raises(InterferenceError, match="holds no token"):
        token_of(tmp_path / "empty")


def test_a_caller_that_says_nothing_does_not_keep_the_others_out() -> None:
    import socket

    with served(Board(), ("127.0.0.1", 0), "open", seconds_max=1.0) as (host, port, *_):
        silent = [socket.create_connection((host, port)) for _ in range(20)]
        try:

            def is_answered() -> bool:
                try:
                    given = {"Authorization": "Bearer open"}
                    asked = urllib.request.Request(f"http://{host}:{port}/metrics", headers=given)
                    with urllib.request.urlopen(asked, timeout=5) as answer:
                        return bool(answer.status == 200)
                except OSError:
                    return False

            wait_until("the silent callers were cut off", is_answered)
        finally:
            for each in silent:
                each.close()


def test_the_numbers_are_served_at_an_address_of_ipv6() -> None:
    import socket

    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError as error:
        pytest.skip(f"this host has no IPv6: {error}")
    with served(Board(), ("::1", 0), "open") as (host, port, *_):
        assert host == "::1" and port > 0


def test_an_address_without_a_host_is_loopback() -> None:
    assert read_address("9400") == ("127.0.0.1", 9400)
    assert read_address("[::1]:9400") == ("::1", 9400)
    for text in ("", "host", "1.2.3.4:", "1:70000", "a b:1", "http://x:1"):
        with pytest.raises(ValueError, match="no address"):
            read_address(text)


def test_growth_while_the_collector_slept_is_that_of_no_window() -> None:
    told: list[str] = []
    sampler = sampling.Sampler(1.0, told.append)
    begun = time.time() // 1
    for after in (0.0, 1.0, 9.0):
        assert not sampler.take(begun + after, {"a": Reading(ZERO)}) or after == 1.0
    assert told == ["8 windows are lost: no sample was taken for longer than a window"]
