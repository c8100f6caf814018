"""Windows in traces: those of a run are the ones that its programs counted in the memory that they share."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from counting_stores import WINDOW_SECONDS, cluster
from store import Store, kill
from trace_files import STARTED, ended, job, opened, process, trace, uncounted, window, written
from waits import PATIENCE_SECONDS
from ways import has_fuse
from weir.interference import traces, windows
from weir.interference.errors import InterferenceError
from weir.store import client_windows
from weir.tracing.files import TraceError, read_processes
from weir.tracing.windows import summed, windows_of

COUNTS = ("reads", "writes", "read_bytes", "written_bytes", "stats", "opens", "closes", "others")
TIMES = ("read_seconds", "write_seconds", "metadata_seconds")
PROGRAM = """
import os, sys, threading, time
root, ends = sys.argv[1], time.time() + 2.2 * WINDOW
def use(name):
    file = os.open(f"{root}/{name}", os.O_CREAT | os.O_RDWR)
    while time.time() < ends:
        os.pwrite(file, b"w" * 3000, 0)
        os.pread(file, 100, 0)
        os.stat(f"{root}/{name}")
        time.sleep(0.01)
    os.close(file)
threads = [threading.Thread(target=use, args=(f"thread.{number}",)) for number in range(3)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
os.mkdir(f"{root}/folder")
file = os.open(f"{root}/shared", os.O_CREAT | os.O_RDWR)
os.pwrite(file, b"p" * 700, 0)
child = os.fork()
os.pwrite(file, b"c" * 10, 0)
if child == 0:
    os.execvp("cat", ["cat", f"{root}/shared"])
os.waitpid(child, 0)
os.execvp("sh", ["sh", "-c", f"rm {root}/thread.0; echo more >> {root}/shared; cat {root}/shared > /dev/null"])
""".replace("WINDOW", str(WINDOW_SECONDS))
LIMITED = """
import os, resource, sys, time
root, limit = sys.argv[1], 4096
file = os.open(f"{root}/first", os.O_CREAT | os.O_RDWR)
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
for _ in range(60):
    # Each turn has a window of its own.
    os.pwrite(file, b"w" * 10, 0)
    os.stat(f"{root}/first")
    time.sleep(0.1)
last = os.open(f"{root}/last", os.O_CREAT | os.O_RDWR)
os.pwrite(last, b"w" * 20, 0)
if sys.argv[2] == "killed":
    os.kill(os.getpid(), 9)
"""
ENDLESS = """
import os, sys
file = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR)
print(os.getpid(), flush=True)
while True:
    os.pwrite(file, b"w" * 4096, 0)
"""

Key = tuple[int, str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of the traces."""
    return tmp_path / "traces"


@pytest.fixture
def up(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store of two servers without a mount."""
    return started(store, tmp_path, monkeypatch, mount=False)


def started(
    store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    window_seconds: float = WINDOW_SECONDS,
    **settings: Any,
) -> Store:
    monkeypatch.setenv("WEIR_WINDOWS", str(tmp_path / "windows"))
    file = store.root / "cluster.toml"
    file.write_text(cluster(window_seconds))
    store.up(file, **settings)
    return store


def variables(tmp_path: Path) -> dict[str, str]:
    return {"WEIR_WINDOWS": str(tmp_path / "windows")}


def run(store: Store, folder: Path, *command: str | Path) -> None:
    options = ("--prefix", "/weir", "--job", "solver", "--trace", folder)
    store.weir("run", *options, "--", *command, environment=variables(folder.parent))


def line_of(line: Any) -> dict[str, float]:
    """The numbers of a line; sums of times are whole nanoseconds."""
    return {name: line[name] for name in COUNTS} | {name: round(line[name] * 1e9) for name in TIMES}


def shared(store: Store, job: str = "solver") -> dict[Key, dict[str, float]]:
    """The lines of a job in the memory that programs share, once the window of this moment has ended."""
    document = json.loads((store.home / "cluster.json").read_text())
    number, limit = int(time.time() / WINDOW_SECONDS), time.monotonic() + PATIENCE_SECONDS
    while (found := client_windows.look(document, 0)).last < number:
        assert time.monotonic() < limit, "the window does not end"
        time.sleep(0.1)
    lines = [{name: getattr(line, name) for name in (*COUNTS, *TIMES)} | {"key": (line.window, line.device)}
             for line in found.lines if line.job == job]  # fmt: skip
    assert len({line["key"] for line in lines}) == len(lines)
    return {line["key"]: line_of(line) for line in lines}


def traced(folder: Path) -> dict[Key, dict[str, float]]:
    """The lines of all traces of a folder."""
    notes: list[str] = []
    (processes,) = read_processes([folder], note=notes.append)
    found = [windows_of(each, note=notes.append) for each in processes]
    (whole,) = summed(each for each in found if each is not None)
    assert (whole.job, whole.uid, whole.window_seconds) == ("solver", os.geteuid(), WINDOW_SECONDS)
    assert not notes and (whole.missed_windows, whole.missed_operations) == (0, 0)
    return {(line["window"], line["device"]): line_of(line) for line in whole.lines}


def test_the_windows_of_a_run_are_those_that_its_programs_share(up: Store, folder: Path) -> None:
    """Threads, a child of fork, programs that take its place, and programs that read alone."""
    run(up, folder, sys.executable, "-c", PROGRAM, "/weir")
    found = traced(folder)
    assert found == shared(up)
    assert len({number for number, _ in found}) >= 3
    assert {device.endswith("metadata") for _, device in found} == {True, False}
    total = {name: sum(line[name] for line in found.values()) for name in COUNTS}
    assert total["written_bytes"] % 3000 == 700 + 10 + 10 + 5 and total["others"] >= 2

    (document,) = up.json("trace", "windows", folder)
    assert document["program"] == Path("/bin/sh").resolve().name
    assert {(line["window"], line["device"]): line_of(line) for line in document["lines"]} == found
    each = up.json("trace", "windows", folder, "--processes")
    assert len(each) >= 4 and len({one["process"] for one in each}) >= 4
    assert sum(line["writes"] for one in each for line in one["lines"]) == total["writes"]
    answer = up.weir("trace", "windows", folder, "--processes").stdout.splitlines()
    assert answer[0].split()[:6] == ["RUN", "PROGRAM", "NODE", "PROCESS", "RANK", "WINDOW"]
    assert len(answer) == 1 + sum(len(one["lines"]) for one in each)


def test_windows_are_traced_where_none_are_shared(up: Store, folder: Path) -> None:
    environment = {"WEIR_WINDOWS": "off"}
    command = ("sh", "-c", "echo words > /weir/file")
    options = ("--prefix", "/weir", "--job", "solver", "--trace", folder)
    up.weir("run", *options, "--", *command, environment=environment)
    assert sum(line["written_bytes"] for line in traced(folder).values()) == len("words\n")
    assert not (folder.parent / "windows").exists()


def test_a_killed_program_loses_its_last_two_windows_at_most(up: Store, folder: Path) -> None:
    launcher = [str(Path(sys.executable).parent / "weir"), "run", "--prefix", "/weir", "--job", "solver"]
    command = [*launcher, "--trace", str(folder), "--", sys.executable, "-c", ENDLESS, "/weir/file"]
    with subprocess.Popen(
        command, env=up.variables(**variables(folder.parent)), stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        number = int(program.stdout.readline())
        limit = time.monotonic() + PATIENCE_SECONDS
        while not folder.exists() or len({key[0] for key in so_far(folder)}) < 2:
            assert time.monotonic() < limit and program.poll() is None, "no window is written"
            time.sleep(0.1)
        kill(number)
        program.wait(PATIENCE_SECONDS)
    found, whole = traced(folder), shared(up)
    last = sorted({number for number, _ in whole})[-2]
    assert found == {key: line for key, line in whole.items() if key in found}
    assert {key for key in whole if key[0] < last} <= found.keys()


def so_far(folder: Path) -> dict[Key, dict[str, float]]:
    """The lines of the traces of a run that goes on: the last block may be under way."""
    notes: list[str] = []
    groups = read_processes([folder], note=notes.append) if list(folder.glob("*.weirtrace")) else []
    found = [windows_of(each, note=notes.append) for processes in groups for each in processes]
    return {(line["window"], line["device"]): line_of(line) for each in found if each for line in each.lines}


@pytest.mark.parametrize("end", ["ended", "killed"])
def test_windows_leave_room_for_the_records_of_files(
    store: Store, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """The size of files is limited: windows take half of the trace, and the trace goes on without them."""
    started(store, tmp_path, monkeypatch, window_seconds=0.1, mount=False)
    script = tmp_path / "limited.py"
    script.write_text(LIMITED)
    options = ("--prefix", "/weir", "--job", "solver", "--trace", folder)
    command = (sys.executable, script, "/weir", end)
    store.weir("run", *options, "--", *command, environment=variables(tmp_path), code=0 if end == "ended" else None)
    notes: list[str] = []
    ((traced,),) = read_processes([folder], note=notes.append)
    assert not notes and traced.path.stat().st_size <= 4096
    made = [record for record in traced.records if record[0] == "opened"]
    assert ["last" in str(record) for record in made] == [False, True]
    found = windows_of(traced, note=notes.append)
    assert found is not None and len(found.lines) > 10
    # A killed program has told the number each time that it had doubled.
    assert found.missed_windows > 10 and "records of windows are missing" in notes[0]


def test_with_a_mount_the_programs_own_requests_are_traced(
    store: Store, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_fuse():
        pytest.skip("there is no FUSE here")
    started(store, tmp_path, monkeypatch)
    script = (
        "import os\nfile = os.open('file', os.O_CREAT | os.O_RDWR)\n[os.pwrite(file, b'w' * 100, 0) for _ in range(9)]"
    )
    options = ("--job", "solver", "--trace", folder)
    command = ("sh", "-c", f'cd {store.mount}; exec {sys.executable} -c "{script}"')
    store.weir("run", *options, "--", *command, environment=variables(tmp_path))
    found, whole = traced(folder), shared(store)
    assert sum(line["writes"] for line in found.values()) == 9
    # The rest went through the mount, which counts for the same job.
    assert all(line[name] <= whole[key][name] for key, line in found.items() for name in line)


def test_windows_of_a_traced_run_are_joined_with_those_of_servers(up: Store, folder: Path, tmp_path: Path) -> None:
    """Servers are recorded while two jobs run; the traces are joined with them afterwards."""
    recorded, weir = tmp_path / "recorded", str(Path(sys.executable).parent / "weir")
    command = [weir, "interference", "record", "--to", str(recorded), "--output", "json"]
    with subprocess.Popen(command, env=up.variables(), stdout=subprocess.PIPE, text=True) as recorder:
        limit = time.monotonic() + PATIENCE_SECONDS
        while not both(recorded):
            assert recorder.poll() is None and time.monotonic() < limit, "nothing is recorded"
            run(up, folder, sys.executable, "-c", PROGRAM.replace("folder", f"folder.{time.time()}"), "/weir")
            other = ("--prefix", "/weir", "--job", "other", "--", "sh", "-c", "echo more >> /weir/other")
            up.weir("run", *other, environment=variables(tmp_path))
        recorder.terminate()
        recorder.communicate(timeout=PATIENCE_SECONDS)
    jobs, joined = tmp_path / "jobs.parquet", tmp_path / "joined.parquet"
    imported = up.json("interference", "import", folder, "--to", jobs)
    assert imported["windows"] >= 3 and imported["runs"] >= 1
    answer = up.json("interference", "join", jobs, "--servers", recorded, "--to", joined)
    rows = windows.read_rows([joined])
    assert answer["rows"] == len(rows)
    of_servers = {(row["window"], row["server"]): row for row in windows.read_rows([recorded])}
    own = {(row["run"], row["window"], row["server"]): row for row in windows.read_rows([jobs])}
    for row in rows:
        there = of_servers[row["window"], row["server"]]
        assert all(row[name] == there[name] for name in row if name.startswith("server"))
        mine = own.get((row["run"], row["window"], row["server"]), {})
        assert all(row[name] == mine.get(name, row[name]) for name in row if name.startswith("client_"))
        assert row["counted_by"] == "client"
    assert sum(row["client_writes"] for row in rows) > 0 and any(row["server_writes_sum"] for row in rows)
    made = windows.read([joined])
    assert len(made) == len({(row["run"], row["window"]) for row in rows})


def both(recorded: Path) -> bool:
    """Whether both jobs have been recorded."""
    return len([part for part in recorded.glob("run=*") if list(part.glob("*.parquet"))]) >= 2


class TestFiles:
    """Traces that are written here byte by byte."""

    @pytest.fixture
    def write(self, tmp_path: Path) -> Iterator[Callable[..., Path]]:
        """Writes a trace."""
        count = iter(range(100))

        def written_to(*blocks: bytes, version: int = 2) -> Path:
            path = tmp_path / f"{next(count)}.weirtrace"
            path.write_bytes(trace(*blocks, version=version))
            return path

        yield written_to

    def rows(self, *paths: Path) -> list[dict[str, Any]]:
        notes: list[str] = []
        found = traces.read_rows(paths, note=notes.append)
        assert not notes
        return found

    def test_processes_of_a_run_are_added_up(self, write: Callable[..., Path]) -> None:
        first = write(process(first=True), job() + window(50, writes=2, size=10), window(51, (1, None)))
        other = write(process(number=2), job() + window(50, writes=3, size=100) + window(50, (1, 2), writes=1, size=5))
        rows = {(row["window"], row["server"]): row for row in self.rows(first, other)}
        assert rows.keys() == {(50, "0.0"), (50, "1.2"), (51, "1.metadata")}
        assert (rows[50, "0.0"]["client_writes"], rows[50, "0.0"]["client_written_bytes"]) == (5, 320)
        assert rows[50, "0.0"]["client_write_seconds"] == pytest.approx(0.005)
        assert rows[50, "0.0"]["io_seconds"] == rows[50, "1.2"]["io_seconds"] == pytest.approx(0.006)
        assert [row["is_metadata"] for _, row in sorted(rows.items())] == [False, False, True]
        assert {(row["run"], row["workload"], row["counted_by"]) for row in rows.values()} == {
            ("run", "model", "client")
        }

    def test_the_greatest_count_of_a_window_holds(self, write: Callable[..., Path]) -> None:
        path = write(
            process(), job() + window(50, writes=2, size=10), job() + window(50, writes=7, size=10),
            job() + window(50, writes=3, size=10),
        )  # fmt: skip
        (row,) = self.rows(path)
        assert (row["client_writes"], row["client_written_bytes"]) == (7, 70)

    def test_jobs_of_a_run_are_apart(self, write: Callable[..., Path]) -> None:
        one = write(process(), job("one") + window(50, writes=1, size=1))
        two = write(process(number=2), job("two") + window(50, writes=1, size=1))
        assert sorted(row["run"] for row in self.rows(one, two)) == ["run.1000/one", "run.1000/two"]

    def test_missing_windows_are_told(self, write: Callable[..., Path]) -> None:
        path = write(process(), job() + window(50, writes=1), uncounted(3, 4))
        notes: list[str] = []
        traces.read_rows([path], note=notes.append)
        assert ["3 records of windows are missing" in notes[0], "4 operations are in no window" in notes[1]] == [
            True
        ] * 2

    def test_a_trace_that_is_named_twice_counts_once(self, write: Callable[..., Path], tmp_path: Path) -> None:
        path = write(process(), job() + window(50, writes=2, size=10))
        link = tmp_path / "link"
        link.symlink_to(tmp_path)
        (row,) = self.rows(tmp_path, path, path, link, link / path.name)
        assert row["client_writes"] == 2

    def test_windows_of_several_stores_are_refused(self, write: Callable[..., Path]) -> None:
        one = write(process(), job(store=1) + window(50, writes=1))
        two = write(process("other"), job(store=2) + window(50, writes=1))
        with pytest.raises(InterferenceError, match="several stores"):
            self.rows(one, two)

    @pytest.mark.parametrize(
        "records",
        [job(window_seconds=0), job(window_seconds=61), job(""), job() + window(1 << 53)],
        ids=["no length", "too long", "no job", "number"],
    )  # fmt: skip
    def test_windows_that_no_process_makes_are_refused(self, write: Callable[..., Path], records: bytes) -> None:
        with pytest.raises(TraceError, match="none that Weir counts"):
            self.rows(write(process(), records + window(1)))

    def test_traces_of_version_1_have_files_and_no_windows(self, write: Callable[..., Path]) -> None:
        path = write(process(first=True), opened(0, "/out/a") + written(0, 9, 9), ended(2), version=1)
        (processes,) = read_processes([path], note=pytest.fail)
        assert processes[0].process["started"] == STARTED and len(processes[0].records) == 3
        assert windows_of(processes[0], note=pytest.fail) is None
        with pytest.raises(InterferenceError, match="have no windows"):
            self.rows(path)

    def test_a_window_in_a_trace_of_version_1_is_damage(self, write: Callable[..., Path]) -> None:
        path = write(process(), job() + window(50), ended(2), version=1)
        with pytest.raises(TraceError, match="later version") as refused:
            self.rows(path)
        assert "remove it" in refused.value.hint
