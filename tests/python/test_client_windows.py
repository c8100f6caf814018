"""What programs count of their own operations: exactly, for their user alone, and whatever becomes of a program."""

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as parquet
import pytest
from counting_stores import WINDOW_SECONDS, cluster
from store import Store, kill
from waits import PATIENCE_SECONDS
from ways import has_fuse
from weir.interference import clients as client_readers
from weir.interference import windows
from weir.interference.clients import Clients
from weir.interference.errors import InterferenceError
from weir.interference.upkeep import MARK
from weir.store import client_windows
from weir.store.client_windows import ClientLine, ClientWindows

OTHER, NAMESAKE = 54871, 54872
"""Users without accounts, who run nothing in other tests: their windows are of the host."""
SHORT_SECONDS = 0.2
WRITES = """
import os, sys
path, count = sys.argv[1], int(sys.argv[2])
file = os.open(path, os.O_CREAT | os.O_RDWR)
for number in range(count):
    assert os.pwrite(file, b"w" * 4096, number % 64 * 4096) == 4096
    if number % 4 == 0:
        assert len(os.pread(file, 1024, 0)) == 1024
os.close(file)
"""
ENDLESS = WRITES.replace("range(count)", "__import__('itertools').count()").replace(
    "    if number % 4", "    if number == count:\n        print('ready', flush=True)\n    if number % 4"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of this test's windows, which is not made."""
    return tmp_path / "windows"


@pytest.fixture
def up(store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store of two servers, whose programs count in `folder`."""
    return started(store, folder, monkeypatch, WINDOW_SECONDS)


def started(store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch, window_seconds: float) -> Store:
    monkeypatch.setenv("WEIR_WINDOWS", str(folder))
    file = store.root / "cluster.toml"
    file.write_text(cluster(window_seconds))
    store.up(file, mount=False)
    return store


def variables(folder: Path) -> dict[str, str]:
    return {"WEIR_WINDOWS": str(folder)}


def run(store: Store, folder: Path, job: str, *command: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    arguments = ["run", "--prefix", "/weir", "--job", job, "--", *command]
    return store.weir(*arguments, environment=variables(folder), **options)


def written(store: Store, folder: Path, job: str, count: int) -> None:
    run(store, folder, job, sys.executable, "-c", WRITES, f"/weir/{job}", str(count))


def counted(store: Store, until: float | None = None) -> list[ClientLine]:
    """The lines of all windows up to a moment, now by default."""
    document = json.loads((store.home / "cluster.json").read_text())
    number = int((until or time.time()) / WINDOW_SECONDS)
    limit = time.monotonic() + PATIENCE_SECONDS
    while True:
        found = client_windows.look(document, 0)
        if found.last >= number:
            assert not found.problems and not found.left_out
            return list(found.lines)
        assert time.monotonic() < limit, "the window does not end"
        time.sleep(0.1)


def total(lines: list[ClientLine], job: str, name: str) -> float:
    return float(sum(getattr(line, name) for line in lines if line.job == job))


def test_operations_of_two_jobs_are_counted_exactly(up: Store, folder: Path) -> None:
    written(up, folder, "one", 100)
    written(up, folder, "two", 20)
    lines = counted(up)
    for job, count in (("one", 100), ("two", 20)):
        assert total(lines, job, "writes") == count
        assert total(lines, job, "written_bytes") == 4096 * count
        assert total(lines, job, "reads") == count / 4
        assert total(lines, job, "read_bytes") == 1024 * count / 4
        assert total(lines, job, "opens") == total(lines, job, "closes") == 1
        assert all(total(lines, job, f"{kind}_seconds") > 0 for kind in ("read", "write", "metadata"))
    assert {line.uid for line in lines} == {os.geteuid()}
    targets = {line.device for line in lines if line.writes}
    assert targets <= {"0.0", "1.0"} and targets
    assert {line.device for line in lines if line.opens} <= {"0.metadata", "1.metadata"}


def test_programs_without_the_library_are_counted_by_the_mount(
    store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_fuse():
        pytest.skip("there is no FUSE here")
    monkeypatch.setenv("WEIR_WINDOWS", str(folder))
    file = store.root / "cluster.toml"
    file.write_text(cluster())
    store.up(file)
    command: list[str | Path] = [sys.executable, "-c", WRITES, store.mount / "file", "12"]
    store.weir("run", "--no-preload", "--job", "plain", "--", *command, environment=variables(folder))
    lines = counted(store)
    assert total(lines, "plain", "writes") == 12
    assert total(lines, "plain", "written_bytes") == 12 * 4096
    assert total(lines, "plain", "opens") == 1


def test_a_child_of_fork_counts_as_its_parent_does(up: Store, folder: Path) -> None:
    script = (
        "import os, sys\n"
        "file = os.open('/weir/file', os.O_CREAT | os.O_RDWR)\n"
        "os.pwrite(file, b'p' * 100, 0)\n"
        "child = os.fork()\n"
        "os.pwrite(file, b'c' * 10, 0)\n"
        "child and os.waitpid(child, 0)\n"
    )
    run(up, folder, "forks", sys.executable, "-c", script)
    assert total(counted(up), "forks", "written_bytes") == 120


def test_a_killed_program_loses_its_operation_in_progress_at_most(up: Store, folder: Path) -> None:
    command = [sys.executable, "-c", ENDLESS, "/weir/killed", "500"]
    launcher = [str(Path(sys.executable).parent / "weir"), "run", "--prefix", "/weir", "--job", "killed", "--"]
    with subprocess.Popen(
        [*launcher, "sh", "-c", 'echo $$; exec "$@"', "sh", *command],
        env=up.variables(**variables(folder)),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        number = int(process.stdout.readline())
        assert process.stdout.readline() == "ready\n"
        kill(number)
        process.wait(PATIENCE_SECONDS)
    lines = counted(up)
    writes = total(lines, "killed", "writes")
    assert writes >= 500
    assert 0 <= writes * 4096 - total(lines, "killed", "written_bytes") <= 4096
    written(up, folder, "killed", 8)
    assert total(counted(up), "killed", "writes") == writes + 8, "the next program of the job counts in the same lines"


def test_programs_run_without_windows_where_the_folder_is_not_their_own(
    up: Store, folder: Path, root_only: None
) -> None:
    folder.mkdir(mode=0o700)
    os.chown(folder, OTHER, OTHER)
    written(up, folder, "job", 4)
    assert not list(folder.iterdir())
    answer = up.weir("interference", "clients", environment=variables(folder))
    assert "it belongs to another user" in answer.stderr


def test_a_limit_on_the_size_of_files_ends_no_program(up: Store, folder: Path) -> None:
    # A file beyond the limit would bring a signal that ends the program.
    script = "ulimit -f 1; echo words > /weir/file && cat /weir/file"
    assert run(up, folder, "job", "bash", "-c", script).stdout == "words\n"
    assert all(file.stat().st_size == 0 for file in folder.iterdir())


def test_nothing_is_counted_where_the_setting_is_off(up: Store, folder: Path) -> None:
    answer = up.weir(
        *("run", "--prefix", "/weir", "--", "sh", "-c", "echo words > /weir/file; echo $WEIR_WINDOWS"),
        environment={"WEIR_WINDOWS": "off"},
    )
    assert answer.stdout == "off\n" and not folder.exists()


class TestUsers:
    """Each user has a file of its own, which no other user can read or write."""

    @pytest.fixture
    def shared(self, root_only: None, up: Store, folder: Path) -> Iterator[Path]:
        """The folder of the other user's windows."""
        theirs = Path(f"/dev/shm/weir-{OTHER}")
        written(up, folder, "ours", 8)
        yield theirs
        for file in theirs.glob("*"):
            file.unlink()
        if theirs.is_dir():
            theirs.rmdir()

    def test_no_user_sees_the_windows_of_another(self, up: Store, folder: Path, shared: Path) -> None:
        granted = up.grant(OTHER, "--job", "theirs")
        up.weir(
            *("run", "--prefix", "/weir", "--", "dd", "if=/dev/zero", "of=/weir/theirs", "bs=5000", "count=1"),
            uid=OTHER,
            environment=granted,
        )
        (file,) = shared.iterdir()
        for path in (shared, file):
            assert path.stat().st_uid == OTHER and not path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)
        lines = counted(up)
        assert {line.job for line in lines} == {"ours", "theirs"}, "the superuser reads the windows of all"
        assert total(lines, "theirs", "written_bytes") == 5000
        answer = up.weir("interference", "clients", "--output", "json", uid=OTHER, environment=granted)
        assert {line["job"] for line in json.loads(answer.stdout)["lines"]} == {"theirs"}
        answer = up.weir(
            *("interference", "clients", "--output", "json"),
            uid=OTHER,
            environment=granted | {"WEIR_WINDOWS": str(folder)},
        )
        assert json.loads(answer.stdout)["lines"] == [] and "cannot open" in answer.stderr

    def test_a_user_that_damages_its_file_harms_itself_alone(self, up: Store, folder: Path, shared: Path) -> None:
        granted = up.grant(OTHER, "--job", "theirs")
        up.weir("run", "--prefix", "/weir", "--", "mkdir", "/weir/theirs", uid=OTHER, environment=granted)
        (file,) = shared.iterdir()
        with file.open("r+b") as opened:
            opened.truncate(1000)
        document = json.loads((up.home / "cluster.json").read_text())
        found = client_windows.look(document, 0)
        assert len(found.problems) == 1 and "another size" in found.problems[0]
        written(up, folder, "ours", 8)
        up.weir("run", "--prefix", "/weir", "--", "mkdir", "/weir/more", uid=OTHER, environment=granted)
        assert not client_windows.look(document, 0).problems, "the next program of the user gives the file its size"


class TestRecord:
    """The collector takes the clients' counts in place of the servers', and says so in each row."""

    def record(self, store: Store, folder: Path, target: Path, *options: str) -> subprocess.Popen[str]:
        command = [str(Path(sys.executable).parent / "weir"), "interference", "record", "--to", str(target), *options]
        return subprocess.Popen(
            [*command, "--output", "json"],
            env=store.variables(**variables(folder)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def rows(self, store: Store, folder: Path, target: Path, *options: str) -> tuple[list[dict[str, Any]], Any, str]:
        """The rows of what is recorded while a job writes, until there are rows of all that it writes at a time."""
        writers = folder.parent / "windows" if "--gather" not in options else folder.parent / "elsewhere"
        with self.record(store, folder, target, *options) as recorder:
            limit = time.monotonic() + PATIENCE_SECONDS
            while sum(row["client_writes"] for row in kept(target)) < 40:
                assert recorder.poll() is None and time.monotonic() < limit, "nothing is recorded"
                written(store, writers, "job", 40)
            answer, said = self.ended(recorder)
        return kept(target), answer, said

    def ended(self, recorder: subprocess.Popen[str]) -> tuple[Any, str]:
        """The answer of a recorder that is asked to end, and its words."""
        recorder.send_signal(signal.SIGTERM)
        answer, said = recorder.communicate(timeout=PATIENCE_SECONDS)
        assert recorder.returncode == 0, said
        return json.loads(answer), said

    def check(self, rows: list[dict[str, Any]]) -> None:
        assert {row["counted_by"] for row in rows} == {"client"}
        assert {row["server"] for row in rows} <= {"0.0", "0.metadata", "1.0", "1.metadata"}
        assert all(row["client_written_bytes"] == 4096 * row["client_writes"] for row in rows)
        assert sum(row["client_writes"] for row in rows) >= 40
        busy = [row for row in rows if row["client_writes"]]
        assert all(0 < row["client_write_seconds"] <= row["io_seconds"] for row in busy)
        assert any(row["server_writes_sum"] for row in busy), "the server's counters stand beside"

    def test_a_row_has_the_counts_of_clients(self, up: Store, folder: Path, tmp_path: Path) -> None:
        rows, answer, said = self.rows(up, folder, tmp_path / "recorded", "--counts", "client")
        self.check(rows)
        assert answer["jobs"] == 1 and answer["windows"] > 0 and answer["uncounted"] == 0, said
        read = windows.read([tmp_path / "recorded"])
        assert set(read.counted_by.tolist()) == {"client"} and (read.times[read.present] >= 0).all()

    def test_other_hosts_are_gathered_by_a_command(self, up: Store, folder: Path, tmp_path: Path) -> None:
        weir = Path(sys.executable).parent / "weir"
        command = f"env WEIR_WINDOWS={tmp_path / 'elsewhere'} {weir} interference gather"
        options = ("--counts", "client", "--gather", command)
        rows, _, said = self.rows(up, folder, tmp_path / "recorded", *options)
        self.check(rows)
        assert "missing" not in said

    def test_a_job_that_no_host_counts_is_told(self, up: Store, folder: Path, tmp_path: Path) -> None:
        target = tmp_path / "recorded"
        with self.record(up, folder, target, "--counts", "client", "--gather", "echo nonsense") as recorder:
            limit = time.monotonic() + PATIENCE_SECONDS
            while not (target / MARK).exists():
                assert recorder.poll() is None and time.monotonic() < limit, "the recorder does not begin"
                time.sleep(0.05)
            until = time.monotonic() + 3 * WINDOW_SECONDS
            while time.monotonic() < until:
                written(up, tmp_path / "elsewhere", "job", 40)
            answer, said = self.ended(recorder)
        assert not kept(target) and answer["windows"] == 0 and answer["uncounted"] > 0
        assert "wrote something else than windows" in said and said.count("nonsense") == 1

    def test_windows_that_clients_can_no_longer_tell_are_not_uncounted(
        self, store: Store, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        up = started(store, folder, monkeypatch, SHORT_SECONDS)
        written(up, folder, "job", 8)
        document = json.loads((up.home / "cluster.json").read_text())
        limit = time.monotonic() + PATIENCE_SECONDS
        while client_windows.look(document, 0).lines:
            assert time.monotonic() < limit, "the ring keeps the windows"
            time.sleep(0.1)
        with self.record(up, folder, tmp_path / "recorded", "--seconds", "0.5", "--counts", "client") as recorder:
            answer, said = recorder.communicate(timeout=PATIENCE_SECONDS)
        assert recorder.returncode == 0 and json.loads(answer)["uncounted"] == 0, said

    def test_jobs_of_two_users_with_one_name_are_apart(self, up: Store, folder: Path, tmp_path: Path) -> None:
        if os.geteuid():
            pytest.skip("only root takes the part of another user")
        granted, target = up.grant(NAMESAKE, "--job", "job"), tmp_path / "recorded"
        command = ["dd", "if=/dev/zero", "of=/weir/theirs", "bs=5000", "count=3"]
        try:
            with self.record(up, folder, target, "--counts", "client") as recorder:
                limit = time.monotonic() + PATIENCE_SECONDS
                while {row["run"] for row in kept(target) if row["client_writes"]} != {
                    "run.job",
                    f"run.{NAMESAKE}/job",
                }:
                    assert recorder.poll() is None and time.monotonic() < limit, "a user's job is not recorded"
                    written(up, folder, "job", 40)
                    up.weir("run", "--prefix", "/weir", "--", *command, uid=NAMESAKE, environment=granted)
                answer, _ = self.ended(recorder)
        finally:
            shutil.rmtree(f"/dev/shm/weir-{NAMESAKE}", ignore_errors=True)
        assert answer["jobs"] == 2
        for row in kept(target):
            size = 4096 if row["run"] == "run.job" else 5000
            assert row["client_written_bytes"] == size * row["client_writes"], "a run has its own user's counts alone"

    def test_the_servers_count_unless_clients_are_asked_for(self, up: Store, folder: Path, tmp_path: Path) -> None:
        rows, _, _ = self.rows(up, folder, tmp_path / "recorded")
        assert {row["counted_by"] for row in rows} == {"server"}
        assert {row["client_write_seconds"] for row in rows} == {None}


def kept(folder: Path) -> list[dict[str, Any]]:
    """The rows that are on disk."""
    parts = [parquet.ParquetFile(part).read().to_pylist() for part in sorted(folder.rglob("*.parquet"))]
    return [row for part in parts for row in part]


def row(**changed: Any) -> dict[str, Any]:
    return {"run": "r", "workload": "w", "window": 1, "io_seconds": 1.0, "server": "0", **changed}


def test_a_run_is_counted_by_one_side() -> None:
    with pytest.raises(InterferenceError, match="programs in some windows and by servers in others"):
        windows.of_rows([row(counted_by="client"), row(window=2, counted_by="server")])
    with pytest.raises(InterferenceError, match="neither client nor server"):
        windows.of_rows([row(counted_by="me")])
    with pytest.raises(InterferenceError, match="negative"):
        windows.of_rows([row(counted_by="client", client_read_seconds=-1.0)])


def test_data_sets_of_the_first_version_are_read(tmp_path: Path) -> None:
    file = tmp_path / "data.parquet"
    windows.write(windows.of_rows([row(client_reads=3.0, counted_by="server")]), file)
    table = parquet.read_table(file).drop_columns(["counted_by", *(f"client_{name}" for name in windows.TIMES)])
    metadata = {b"weir.windows": json.dumps({"version": 1})}
    parquet.write_table(table.replace_schema_metadata(metadata), file)
    read = windows.read([file])
    assert read.counted_by.tolist() == [""] and read.client[0, 0, 0] == 3.0 and np.isnan(read.times).all()


@pytest.mark.parametrize(
    "line",
    [
        b"[]",
        b'{"version": 2}',
        b'{"version": 1, "window": -1, "window_seconds": 1.0, "lines": []}',
        b'{"version": 1, "window": 1, "window_seconds": 2.0, "lines": []}',
        b'{"version": 1, "window": 1, "window_seconds": 1.0, "lines": [{"window": 1}]}',
        b'{"version": 1, "window": 1, "window_seconds": 1.0, "lines": [[]]}',
        b"[" * 100_000,
    ],
)
def test_a_reader_that_writes_something_else_is_left_out(tmp_path: Path, line: bytes) -> None:
    cluster, object_file = tmp_path / "cluster.json", tmp_path / "object"
    cluster.write_text(json.dumps({"servers": [{"server": 0, "tcp": "127.0.0.1:1"}]}))
    object_file.write_bytes(line + b"\n")
    told: list[str] = []
    with Clients(cluster, [f"cat {object_file}"], told.append).running() as clients:
        limit = time.monotonic() + PATIENCE_SECONDS
        while not any("cat" in words for words in told):
            assert time.monotonic() < limit
            assert clients.look(0, 1.0).lines == ()
            time.sleep(0.01)
    # The programs of others on this host may have had too many jobs.
    assert ["wrote something else than windows" in words for words in told if "cat" in words] == [True]


def test_what_was_not_counted_before_a_reader_began_is_no_loss_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = tmp_path / "cluster.json"
    cluster.write_text(json.dumps({"servers": [{"server": 0, "tcp": "127.0.0.1:1"}]}))
    counts = iter([5, 5, 8])
    monkeypatch.setattr(client_readers, "look", lambda *_, **__: ClientWindows((), 0, 0, next(counts), ()))
    told: list[str] = []
    with Clients(cluster, [], told.append).running() as clients:
        for _ in range(3):
            clients.look(0, 1.0)
    assert told == ["3 operations were not counted: there are too many jobs and devices at once"]


def test_a_command_that_cannot_be_run_is_an_error(tmp_path: Path) -> None:
    cluster = tmp_path / "cluster.json"
    cluster.write_text(json.dumps({"servers": [{"server": 0, "tcp": "127.0.0.1:1"}]}))
    clients = Clients(cluster, [str(tmp_path / "none")], lambda _: None)
    with pytest.raises(InterferenceError, match="cannot run"), clients.running():
        pass
