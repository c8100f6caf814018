"""Windows of real servers: counted by them, joined by the collector, and labelled by runs alone and among others."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import weir.store
from store import kill
from waits import PATIENCE_SECONDS
from weir.errors import WeirError
from weir.interference import agreement, collection, labels, plan, windows
from weir.interference.collector import Collector, JobWindow, Parts, joined
from weir.interference.errors import InterferenceError
from weir.interference.labels import Operation
from weir.interference.upkeep import collecting
from weir.store.access import by_credential
from weir.store.control import Server
from weir.store.identity import Identity

SPEED = 'speed = { read = "32MB/s", write = "32MB/s", fixed = "1ms" }'
TARGET = f'[[server.target]]\nbackend = "ram"\ncapacity = "64MiB"\n{SPEED}\n'
STORE = (
    'version = 1\npolicy = "fifo"\nwindow = "200ms"\nwindows_kept = 600\n'
    f'[[server]]\nmetadata_speed = {{ fixed = "1ms" }}\n{TARGET}'
)
MIB = 1 << 20
CHANGED = r"others may write|changed by other users|another user|uid 54321"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[weir.store.Store]:
    """Two servers, each with a target."""
    file = tmp_path / "cluster.toml"
    file.write_text(f"{STORE}[[server]]\n{TARGET}")
    with weir.store.up(file, home=tmp_path / "home", mount=False) as store:
        await_windows(store)
        yield store
        if store.home.exists():
            store.down(discard=True)


def await_windows(store: weir.store.Store) -> None:
    """Wait until every server has a whole window: the one in which it started is dropped."""
    limit = time.monotonic() + PATIENCE_SECONDS
    while not all(server.windows(0).windows for server in store.servers):
        assert time.monotonic() < limit, "the servers close no window"
        time.sleep(0.05)


def gathered(collector: Collector, job: str, end: float) -> list[JobWindow]:
    """The windows of a job up to a Unix time."""
    found: list[JobWindow] = []
    limit = time.monotonic() + PATIENCE_SECONDS
    while not collector.window_seconds or collector.reached() < int(end / collector.window_seconds):
        assert time.monotonic() < limit, "the servers tell no more windows"
        collector.poll()
        found += [joined(number, at_servers, job, "run", job) for number, at_servers in collector.take()]
        time.sleep(0.05)
    return found


def test_servers_count_what_each_job_did_and_waited_for(store: weir.store.Store) -> None:
    told: list[str] = []
    collector = Collector(lambda: store.servers, told.append)
    collector.poll()
    script = "dd if=/dev/zero of=/weir/$0 bs=64k count=64 status=none && cat /weir/$0 > /dev/null"
    jobs = ("one", "other")
    with ExitStack() as ends:
        programs = [
            subprocess.Popen(["sh", "-c", script, job], env=ends.enter_context(store.job(job=job))) for job in jobs
        ]
        assert [program.wait(PATIENCE_SECONDS) for program in programs] == [0, 0]
    end = time.time()
    found: dict[str, list[JobWindow]] = {job: [] for job in jobs}
    limit = time.monotonic() + PATIENCE_SECONDS
    while collector.reached() < int(end / (collector.window_seconds or 1)):
        assert time.monotonic() < limit, "the servers tell no more windows"
        collector.poll()
        for number, at_servers in collector.take():
            for job in jobs:
                found[job].append(joined(number, at_servers, job, "run", job))
        time.sleep(0.05)
    for job in jobs:
        rows = [row for window in found[job] for row in window.rows]
        assert sum(row["client_written_bytes"] for row in rows) == 4 * MIB
        assert sum(row["client_read_bytes"] for row in rows) >= 4 * MIB
        assert sum(row["client_opens"] for row in rows) >= 2 and sum(row["client_closes"] for row in rows) >= 2
        assert all(row["client_opens"] == 0 for row in rows if not row["is_metadata"])
        (other,) = set(jobs) - {job}
        waits = sum(window.waited_for.get(other, 0.0) for window in found[job])
        received = sum(window.device_seconds for window in found[other])
        assert 0 < waits <= received * 1.001 and not any(job in window.waited_for for window in found[job])
    every = [row for window in found["one"] for row in window.rows]
    assert sum(row["server_written_sectors_sum"] for row in every) == 8 * MIB / 512
    busy = sum(row["server_busy_milliseconds_sum"] for row in every) / 1e3
    assert busy == pytest.approx(sum(window.device_seconds for of_job in found.values() for window in of_job), rel=0.05)
    # The time in the queue is that of the requests, as far as they ended in the same windows.
    assert sum(row["server_queued_milliseconds_sum"] for row in every) > sum(
        row["server_busy_milliseconds_sum"] for row in every if not row["is_metadata"]
    )
    assert not [line for line in told if "lost" in line]


def test_a_user_sees_the_own_jobs_alone_and_a_stranger_none(store: weir.store.Store) -> None:
    server, key = store.servers[0], (store.home / "site.key").read_text()
    accesses = {}
    for uid in (4711, 4712):
        identity = Identity(f"job-{uid}", f"user-{uid}", "group", uid, uid, [uid])
        credential = store.home / f"{uid}.json"
        credential.write_text(identity.mint(key, 3600))
        accesses[uid] = by_credential(credential.read_text())
        with store.job() as environment:
            command = ["dd", "if=/dev/zero", f"of=/weir/{uid}", "bs=64k", "count=4", "status=none"]
            subprocess.run(command, env={**environment, "WEIR_CREDENTIAL": str(credential)}, check=False)
    limit = time.monotonic() + PATIENCE_SECONDS
    seen: dict[int | None, set[int]] = {}
    while seen.get(None, set()) < {4711, 4712}:
        assert time.monotonic() < limit, "the servers know the jobs no more"
        asked: list[tuple[int | None, Server]] = [(None, server)]
        asked += [(uid, replace(server, access=access)) for uid, access in accesses.items()]
        for who, caller in asked:
            answer = caller.windows(0)
            seen.setdefault(who, set()).update(line.uid for window in answer.windows for line in window.jobs)
        time.sleep(0.05)
    assert seen[4711] <= {4711} and seen[4712] <= {4712}
    other = Identity("job-0", "user-0", "group", 0, 0, [0]).mint("0" * 64, 3600)
    forged = (store.home / "4711.json").read_text().replace("4711", "4712")
    for text in (other, forged):
        with pytest.raises(weir.store.StoreError):
            replace(server, access=by_credential(text)).windows(0)


def test_a_server_that_dies_is_told_and_the_others_go_on(store: weir.store.Store) -> None:
    told: list[str] = []
    collector = Collector(lambda: store.servers, told.append)
    gathered(collector, "none", time.time() + 0.5)
    kill(int((store.home / "servers/1/pid").read_text().split()[0]))
    found = gathered(collector, "none", time.time() + 1)
    assert [line for line in told if "server 1" in line and "lost" in line] == told
    assert {row["server"] for row in found[-1].rows} == {"0.0", "0.metadata"}


def test_parts_on_disk_are_bounded_and_none_is_half(tmp_path: Path) -> None:
    parts = Parts(tmp_path / "data", 60_000)
    removed = 0
    for number in range(60):
        shared = {"workload": "job", "window": number, "io_seconds": 0.5, "slowdown": None}
        rows = tuple({**shared, "run": "run/job", "server": f"0.{place}", "client_reads": 1.0} for place in range(2))
        removed += parts.add(JobWindow(number, rows, 0.0, 0.0, {}))
    files = sorted((tmp_path / "data").rglob("*"))
    assert removed > 0 and not [file for file in files if file.suffix == ".unfinished"]
    assert sum(file.stat().st_size for file in files if file.is_file()) <= 2 * 60_000
    left = windows.read([tmp_path / "data"])
    assert left.numbers[-1] == 59 and set(np.diff(left.numbers)) == {1}


def rows_of(run: str, number: int) -> list[dict[str, Any]]:
    return [{"run": run, "workload": "job", "window": number, "io_seconds": 0.5, "server": "0.0", "client_reads": 1.0}]


def test_jobs_of_a_few_windows_go_in_their_turn_with_their_folders(tmp_path: Path) -> None:
    parts = Parts(tmp_path / "data", 60_000)
    removed = sum(parts.add_rows(number, rows_of(f"run.{number}", number)) for number in range(100))
    folders = {path.name for path in (tmp_path / "data").iterdir()}
    assert 0 < removed == 100 - len(folders)
    assert "run=run.0" not in folders and {f"run=run.{number}" for number in range(40, 100)} <= folders


def test_parts_elsewhere_are_left_alone_and_folders_of_others_refused(tmp_path: Path) -> None:
    Parts(tmp_path / "elsewhere", 1 << 20).add_rows(0, rows_of("kept", 0))
    data = tmp_path / "data"
    parts = Parts(data, 1)
    (data / "run=link").symlink_to(tmp_path / "elsewhere" / "run=kept")
    for number in range(30):
        parts.add_rows(number, rows_of("run", number))
    assert not list((data).glob("run=run/*")) and len(list((data / "run=link").iterdir())) == 1
    data.chmod(0o722)
    with pytest.raises(WeirError, match=CHANGED):
        Parts(data, 1)
    with (
        pytest.raises(WeirError, match=CHANGED),
        collecting(data, 1.0, lambda _: None),
    ):
        pass
    if os.geteuid() == 0:
        data.chmod(0o700)
        os.chown(data, 54321, 54321)
        with pytest.raises(WeirError, match=CHANGED):
            Parts(data, 1)


def operations(*times: float, begin: float = 10.0) -> list[Operation]:
    return [Operation("write", "file@0", begin + number, seconds) for number, seconds in enumerate(times)]


def test_a_label_is_the_mean_of_ratios_of_the_same_operations_weighted_by_their_times_or_plain() -> None:
    alone = operations(0.1, 0.2, 0.1)
    found = labels.label([alone], operations(0.2, 0.6, 0.1, 0.7), 2.0)
    # Windows 5 and 6 have two operations each; the fourth operation has no match.
    assert [(each.window, each.operations) for each in found.labels] == [(5, 2), (6, 1)]
    assert [each.slowdown("time") for each in found.labels] == pytest.approx([0.8 / 0.3, 1.0])
    assert [each.slowdown("mean") for each in found.labels] == pytest.approx([(2.0 + 3.0) / 2, 1.0])
    assert found.slowdown == pytest.approx(0.9 / 0.4)
    assert (found.unmatched_windows, found.unmatched_operations) == (0, 1)
    other = [Operation("read", "file@0", 20.0, 0.1)]
    assert labels.label([alone], other, 2.0) == labels.Labels((), 1, 1, None)
    short = labels.label([operations(1e-5)], operations(1e-4), 1.0)
    assert not short.labels and short.unmatched_operations == 1
    (every,) = labels.label([operations(1e-5)], operations(1e-4), 1.0, noise_seconds=0.0).labels
    assert every.slowdown("mean") == pytest.approx(10.0)


def test_one_short_operation_that_a_processor_delayed_does_not_make_a_label_by_time() -> None:
    # A close of 60 us that took 4 ms once counted as much as each of 20 writes, and labelled a quiet window 4.
    alone = [Operation("write", f"file@{number}", 10.0 + number / 50, 0.012) for number in range(20)]
    closed = [Operation("close", "file@0", 10.5, seconds) for seconds in (6e-5, 4e-3)]
    (label,) = labels.label([[*alone, closed[0]]], [*alone, closed[1]], 1.0).labels
    assert label.slowdown("time") == pytest.approx(1.0, abs=0.02)
    assert label.slowdown("mean") == pytest.approx((20 + 4e-3 / 6e-5) / 21)


def test_the_time_alone_is_the_median_of_several_runs() -> None:
    runs = [operations(0.1, 0.2), operations(0.1, 0.9), operations(0.8, 0.2)]
    assert labels.label(runs, operations(0.2, 0.4), 10.0).slowdown == pytest.approx(2.0)
    assert labels.agreement({1: 2.5, 2: 1.0}, {1: 2.1, 2: 3.0, 3: 1.0}) == 0.5


def test_labels_are_compared_with_truths_by_class_and_by_ratio() -> None:
    found = agreement.compare([(1.1, 1.0), (2.2, 2.0), (2.2, 1.9), (4.4, 6.0), (11.0, 10.0)])
    assert found is not None
    assert found.confusion == ((1, 0, 0), (1, 1, 1), (0, 0, 1)) and found.same_class() == 3 / 5
    assert found.median_ratio == pytest.approx(1.1) and 0.9 < (found.correlation or 0) < 1
    assert found.crossing() == (1, 0)
    below = agreement.compare([(1.0, 2.0)] * 3 + [(6.0, 3.0)])
    assert below is not None and below.crossing() == (0, 3)
    same = agreement.compare([(1.0, 1.0)] * 3)
    assert same is not None and same.correlation is None and agreement.compare([]) is None
    assert agreement.quiet_part([0.94, 0.95, 1.0, 1.05, 1.06]) == pytest.approx(3 / 5)
    assert agreement.described(agreement.Quality(None, None, [])) == [] and agreement.quiet_part([]) is None


def labelled_by(file: Path) -> tuple[list[float], list[tuple[float, float]]]:
    """The labels of a run, and the means weighted by time and plain."""
    found = list(agreement.read_windows(file))
    return [each.label for each in found], [each.weightings for each in found if each.weightings is not None]


def test_a_record_that_is_none_is_refused(tmp_path: Path) -> None:
    for text in ("write,a@0,1\n", "write,a@0,1,nan\n", "write,a@0,-1,2\n", "write,a@0,x,2\n", "\x00"):
        (tmp_path / "operations.csv").write_text(text)
        with pytest.raises(InterferenceError, match="no record of operations"):
            labels.read_operations(tmp_path / "operations.csv")


PLAN = """\
version = 1
store = "store.toml"
noise_max = 1000
references = 2
parallel = 1
[[target]]
name = "writer"
kernel = "amrex"
rounds = 4
seconds = 60.0
[[target]]
name = "copy"
command = ["sh", "-c", "dd if=/dev/zero of={folder}/file bs=64k count=64 status=none"]
[[interferer]]
name = "hog"
kernel = "ior-easy-write"
instances = [2]
"""


def test_a_plan_becomes_a_labelled_data_set_and_goes_on_where_it_stopped(tmp_path: Path) -> None:
    (tmp_path / "store.toml").write_text(STORE)
    (tmp_path / "plan.toml").write_text(PLAN)
    loaded, folder = plan.read(tmp_path / "plan.toml"), tmp_path / "data"
    told: list[str] = []
    runs = collection.collect(loaded, folder, told.append)
    names = [run.name for run in runs]
    kinds = ("alone", "alone.1", "quiet.0", "hog.2.0")
    assert names == [f"{target}.{kind}" for target in ("writer", "copy") for kind in kinds]
    assert [run.name for run in runs if run.is_reference] == [name for name in names if ".alone" in name]
    assert len(told) == len(runs) and not any(run.notices for run in runs)
    made = windows.read([folder / "windows"])
    of = {name: made.take(made.runs == name) for name in names}
    written = windows.CLIENT.index("written_bytes")
    assert of["writer.alone"].client[:, :, written].sum() == 4 * (2 * MIB + 4096)
    assert np.isnan(of["writer.alone"].slowdowns).all() and not np.isnan(of["writer.hog.2.0"].slowdowns).any()
    among = {run.name: run for run in runs}["writer.hog.2.0"]
    assert among.truth is not None and among.truth > 1.2, "two hogs had the device half of the time and more"
    assert among.slowdown is not None and among.slowdown > 1.2
    assert {run.labelled_by for run in runs} == {"operations", "store"}
    assert (
        f"{sum(run.windows for run in runs if not run.is_reference)} labelled windows"
        in (folder / "README.md").read_text()
    )
    found, card = collection.quality(runs, folder), (folder / "README.md").read_text()
    assert found.truth is not None and len(found.quiet) == {run.name: run for run in runs}["writer.quiet.0"].windows
    assert f"same class in {100 * found.truth.same_class():.1f} % of {found.truth.windows}" in card
    chosen, weightings = labelled_by(folder / "runs/writer.hog.2.0/labels.csv")
    assert chosen == [by_time for by_time, _ in weightings] and 'label = "time"' in card
    assert labelled_by(folder / "runs/copy.hog.2.0/labels.csv")[1] == []
    (folder / "runs/copy.quiet.0/done.json").unlink()
    again = collection.collect(loaded, folder, told.append)
    assert told[len(runs) :] == ["copy.quiet.0: 0 instances of nothing"]
    assert [run for run in again if run.name != "copy.quiet.0"] == [run for run in runs if run.name != "copy.quiet.0"]
    (tmp_path / "plan.toml").write_text(PLAN.replace("rounds = 4", "rounds = 5"))
    with pytest.raises(InterferenceError, match="another plan"):
        collection.collect(plan.read(tmp_path / "plan.toml"), folder, told.append)


def test_a_plan_may_choose_the_papers_label_and_its_readme_says_so(tmp_path: Path) -> None:
    (tmp_path / "store.toml").write_text(STORE)
    (command,) = [part for part in PLAN.split("[[target]]") if "copy" in part]
    chosen = PLAN.replace("version = 1", 'version = 1\nlabel = "mean"\nnoise_seconds = 0').replace(
        f"[[target]]{command.partition('[[interferer]]')[0]}", ""
    )
    (tmp_path / "plan.toml").write_text(chosen)
    runs = collection.collect(plan.read(tmp_path / "plan.toml"), tmp_path / "data", lambda _: None)
    card = (tmp_path / "data/README.md").read_text()
    assert 'label = "mean"' in card and "Every operation counts." in card
    found, weightings = labelled_by(tmp_path / "data/runs/writer.hog.2.0/labels.csv")
    assert found == [mean for _, mean in weightings] and any(mean != by_time for by_time, mean in weightings)
    made = windows.read([tmp_path / "data/windows"])
    assert set(made.slowdowns[made.runs == "writer.hog.2.0"]) == set(found)
    of_both = collection.quality(runs, tmp_path / "data").weighting
    assert of_both is not None and f"in {100 * sum(of_both.crossing()) / of_both.windows:.1f} % of" in card


def test_a_collection_that_the_user_ends_ends_at_once_with_all_its_processes(tmp_path: Path) -> None:
    (tmp_path / "store.toml").write_text(STORE)
    (tmp_path / "plan.toml").write_text(PLAN.replace("rounds = 4", "rounds = 1000").replace("seconds = 60.0", ""))
    plan_file, data = str(tmp_path / "plan.toml"), str(tmp_path / "data")
    command = [sys.executable, "-m", "weir.cli", "interference", "collect", plan_file, "--to", data]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as collecting:
        limit = time.monotonic() + PATIENCE_SECONDS
        logs = [tmp_path / f"data/runs/writer.alone{ending}/operations.csv" for ending in ("", ".1")]
        while not any(log.exists() for log in logs):
            assert time.monotonic() < limit, "the target does not run"
            time.sleep(0.05)
        assert len(naming(tmp_path)) > 1, "the collection has processes beside its own"
        collecting.send_signal(signal.SIGINT)
        # A thousand rounds take minutes.
        collecting.communicate(timeout=PATIENCE_SECONDS)
    assert collecting.returncode != 0 and not list(tmp_path.rglob("done.json"))
    assert not naming(tmp_path), "a process of the collection is left"


def naming(folder: Path) -> list[str]:
    """The command lines of the processes that name a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            found += [line] if str(folder) in line else []
    return found


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("version = 1", "version = 2", "version 2"),
        ('kernel = "amrex"', 'kernel = "amerx"', "no kernel 'amerx'"),
        ('kernel = "amrex"', "", "either a kernel or a command"),
        ("instances = [2]", "instances = [0]", "no plan"),
        ('name = "copy"', 'name = "writer"', "two programs of one name"),
        ('name = "copy"', 'name = "../copy"', "no plan"),
        ('store = "store.toml"', 'store = "none.toml"', "no plan"),
        ("rounds = 4", "turns = 4", "no plan"),
        ("parallel = 1", 'label = "median"', "no plan"),
        ("parallel = 1", "noise_seconds = -1", "no plan"),
    ],
)
def test_a_plan_with_an_error_is_refused(tmp_path: Path, before: str, after: str, message: str) -> None:
    (tmp_path / "store.toml").write_text(STORE)
    (tmp_path / "plan.toml").write_text(PLAN.replace(before, after, 1))
    with pytest.raises(InterferenceError, match=message):
        plan.read(tmp_path / "plan.toml")


def test_the_windows_of_a_running_store_are_recorded(store: weir.store.Store, tmp_path: Path) -> None:
    folder = tmp_path / "recorded"
    command = [sys.executable, "-m", "weir.cli", "interference", "record", "--to", str(folder), "--output", "json"]
    environment = {**os.environ, "WEIR_HOME": str(store.home)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as recording:
        copy = ["dd", "if=/dev/zero", "of=/weir/file", "bs=64k", "count=16", "status=none"]
        limit = time.monotonic() + PATIENCE_SECONDS
        while not list(folder.rglob("*.parquet")):
            assert time.monotonic() < limit, "nothing is recorded"
            store.run(copy, job="writer", check=True)
        recording.send_signal(signal.SIGTERM)
        said, _ = recording.communicate(timeout=PATIENCE_SECONDS)
    assert recording.returncode == 0
    found = windows.read([folder])
    assert len(found) == json.loads(said)["windows"]
    assert set(found.workloads) == {"writer"} and set(found.runs) == {"run.writer"}
    assert found.client[:, :, windows.CLIENT.index("written_bytes")].sum() >= MIB
