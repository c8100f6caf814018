"""A program brings a store up by itself, uses it, and nothing of it is left."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import weir
from waits import PATIENCE_SECONDS
from weir.store import SettingsError, StoreError
from weir.store.processes import Process


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "home"
    yield place
    command = [sys.executable, "-m", "weir.cli", "--home", str(place), "down", "--force", "--discard", "--yes"]
    if place.is_dir():
        subprocess.run(command, timeout=PATIENCE_SECONDS, check=False)


def processes(home: Path) -> list[Process]:
    """The servers and mounts of a home."""
    records = [*home.glob("servers/*/pid"), *home.glob("mounts/*.pid")]
    return [process for record in records if (process := Process.recorded(record)) is not None]


@pytest.mark.usefixtures("fuse")
def test_a_store_in_a_block_is_used_and_gone() -> None:
    with weir.store.up(servers=2, targets=2, capacity="64MiB") as store:
        assert store.mount is not None
        assert store.notices == ()
        (store.mount / "file").write_text("words")
        running = processes(store.home)
        assert len(running) == 3
        assert all(process.is_alive() for process in running)
        seen = store.run(["cat", store.mount / "file"], capture_output=True, text=True, check=True)
        assert seen.stdout == "words"
        folder = store.home.parent
    assert not any(process.is_alive() for process in running)
    assert not folder.exists()
    assert store.mount is None
    assert store.down().servers == 0, "a second time changes nothing"


def test_programs_use_it_without_a_mount_as_the_job_that_is_named(tmp_path: Path) -> None:
    claims = "import json, os; print(json.dumps(json.load(open(os.environ['WEIR_CREDENTIAL']))['claims']))"
    with weir.store.up(mount=False) as store:
        assert store.mount is None
        store.run(["sh", "-c", "echo words >/weir/file"], check=True)
        seen = store.run(["cat", "/data/file"], prefix="/data", capture_output=True, text=True, check=True)
        assert seen.stdout == "words\n"
        said = store.run([sys.executable, "-c", claims], job="mine", user="alice", nodes=4, capture_output=True)
        told = json.loads(said.stdout)
        assert (told["job"], told["user"], told["nodes"], told["uid"]) == ("mine", "alice", 4, os.getuid())
        with store.job("first") as one, store.job("first") as other:
            assert one["WEIR_CREDENTIAL"] != other["WEIR_CREDENTIAL"], "two runs of one program are two jobs"
            texts = [json.loads(Path(each["WEIR_CREDENTIAL"]).read_text()) for each in (one, other)]
            assert texts[0]["claims"]["job"] != texts[1]["claims"]["job"]
        assert not Path(one["WEIR_CREDENTIAL"]).exists()


def test_a_program_that_ends_before_its_store_is_not_warned(home: Path) -> None:
    """Python warned of each server that is still running, and of each that another program had ended."""
    code = "import sys; from weir.store import up; up(home=sys.argv[1], mount=False, servers=2)"
    words = [sys.executable, "-X", "dev", "-c", code, str(home)]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True)
    assert ended.stderr == ""
    assert len([process for process in processes(home) if process.is_alive()]) == 2


def test_a_home_that_is_named_keeps_its_files_and_goes_on(home: Path) -> None:
    with weir.store.up(home=home, mount=False, backend="dir", targets=1) as store:
        store.run(["sh", "-c", "echo words >/weir/file"], check=True)
        with pytest.raises(StoreError, match="already up"):
            weir.store.up(home=home, mount=False)
    with weir.store.up(home=home, mount=False) as store:
        seen = store.run(["cat", "/weir/file"], capture_output=True, text=True, check=True)
        assert seen.stdout == "words\n"
        store.down(discard=True)
    assert not (home / "servers").exists()


def test_the_command_and_the_program_have_the_same_store(home: Path) -> None:
    status = [sys.executable, "-m", "weir.cli", "--home", str(home), "status", "--output", "json"]
    with weir.store.up(home=home, mount=False, servers=3, targets=1, policy="job-fair"):
        answer = subprocess.run(status, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True)
        servers = json.loads(answer.stdout)["servers"]
        assert [server["policy"] for server in servers] == ["job-fair"] * 3
    assert subprocess.run(status, capture_output=True, timeout=PATIENCE_SECONDS, check=False).returncode == 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"servers": 0}, "servers cannot be 0"),
        ({"targets": "two"}, "targets cannot be 'two'"),
        ({"backend": "tape"}, "backend cannot be 'tape'"),
        ({"policy": "szie-fair"}, "unknown policy `szie-fair`"),
        ({"capacity": "plenty"}, "plenty"),
        ({"file": "/nonexistent.toml"}, "cannot read"),
    ],
)
def test_settings_that_no_store_has_start_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, str], words: str
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    with pytest.raises(SettingsError, match=words) as refused:
        weir.store.up(**given)  # type: ignore[arg-type]
    assert refused.value.hint
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_does_not_come_up_leaves_nothing(tmp_path: Path, home: Path) -> None:
    file = tmp_path / "cluster.toml"
    foreign = "192.0.2.1:7000"
    server = '[[server]]\n[[server.target]]\nbackend = "ram"\ncapacity = "64MiB"\n'
    file.write_text(f"version = 1\n{server}" + server.replace("]]\n", f']]\nlisten = "{foreign}"\n', 1))
    with pytest.raises(StoreError, match=foreign):
        weir.store.up(file, home=home, mount=False)
    assert processes(home) == []
    assert not (home / "cluster.json").exists()


def test_a_program_with_threads_may_start_servers() -> None:
    """A hook between fork and exec once wrote the record: in a program with threads, such as a notebook, it could wait
    for ever for a lock of a thread that the fork has not."""
    script = (
        "import os, weir\n"
        "forks = []\n"
        # Python calls this before a fork in which it runs code, and not where exec follows at once.
        "os.register_at_fork(before=lambda: forks.append(True))\n"
        "with weir.store.up(mount=False, servers=2, targets=1, capacity='16MiB') as store:\n"
        "    assert len(list(store.home.glob('servers/*/pid'))) == 2\n"
        "assert not forks\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert answer.returncode == 0, answer.stderr


def test_a_temporary_store_goes_with_the_program_that_forgot_it(tmp_path: Path) -> None:
    """A notebook's kernel ends without the end of any block."""
    script = "import weir; store = weir.store.up(mount=False, capacity='16MiB'); print(store.home)"
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    answer = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    assert answer.stderr == ""
    assert Path(answer.stdout.strip()).is_relative_to(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_temporary_store_goes_with_the_program_that_is_killed(tmp_path: Path) -> None:
    """A notebook's kernel that was killed by -9 left its store, whose memory nobody could free by a name."""
    script = (
        "import os, signal, weir\n"
        "store = weir.store.up(mount=False, capacity='16MiB', servers=2)\n"
        "records = [record.read_text() for record in store.home.glob('servers/*/pid')]\n"
        "print(*records, sep='', flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert answer.returncode == -signal.SIGKILL, answer.stderr
    found = [line.split() for line in answer.stdout.splitlines() if line]
    servers = [Process(int(pid), int(ticks), boot) for pid, ticks, boot in found]
    assert len(servers) == 2
    assert all(server.ends_within(PATIENCE_SECONDS) for server in servers)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while list(tmp_path.iterdir()):
        assert time.monotonic() < deadline, list(tmp_path.iterdir())
        time.sleep(0.05)


def test_a_store_in_a_home_that_is_named_stays_after_a_kill(home: Path) -> None:
    """`weir --home` reaches it, and its memory may be needed: it is like one of `weir up`."""
    script = (
        "import os, signal, weir\n"
        f"store = weir.store.up(home={str(home)!r}, mount=False, capacity='16MiB')\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", script], timeout=PATIENCE_SECONDS, check=False)
    assert processes(home)
    assert all(process.is_alive() for process in processes(home))


def test_a_store_that_is_down_runs_nothing() -> None:
    """It said that it could not read the key of a folder that was gone."""
    store = weir.store.up(mount=False, capacity="16MiB")
    store.down()
    with pytest.raises(StoreError, match="is down"):
        store.run(["true"])


def test_a_fork_does_not_take_the_store_with_it() -> None:
    script = (
        "import os, sys, weir\n"
        "store = weir.store.up(mount=False, capacity='16MiB')\n"
        "if os.fork() == 0: sys.exit()\n"
        "os.wait()\n"
        "store.run(['sh', '-c', 'echo words >/weir/file'], check=True)\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert answer.returncode == 0, answer.stderr


def test_without_a_mount_a_program_that_takes_no_fast_path_is_refused() -> None:
    with weir.store.up(mount=False) as store:
        with pytest.raises(StoreError, match="no way to the store"):
            store.run(["true"], is_preloaded=False)
        with pytest.raises(SettingsError, match="not an absolute path below /"):
            store.run(["true"], prefix="weir")


def test_the_guide_runs_as_it_is_printed(tmp_path: Path) -> None:
    guide = (Path(__file__).resolve().parents[2] / "docs/guides/python.md").read_text()
    blocks = [part.partition("```")[0] for part in guide.split("```python\n")[1:]]
    assert blocks
    (tmp_path / "examples").symlink_to(Path(__file__).resolve().parents[2] / "examples")
    for block in blocks:
        answer = subprocess.run(
            [sys.executable, "-W", "error", "-c", block],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert answer.returncode == 0, f"{block}\n{answer.stderr}"


def test_importing_the_package_imports_no_part_of_it_but_the_list_of_its_names() -> None:
    command = "import sys, weir; print([name for name in sys.modules if name.startswith('weir.')])"
    answer = subprocess.run(
        [sys.executable, "-c", command], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True
    )
    assert answer.stdout == "['weir.exports']\n"
    assert not hasattr(weir, "nothing")
