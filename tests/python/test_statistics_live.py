"""`weir stats` for real: publishers and subscribers are processes that talk over the loopback."""

import contextlib
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq
from waits import PATIENCE_SECONDS
from weir.lustre.message import TOPIC

DATA = Path(__file__).resolve().parents[1] / "data" / "lustre"
STATS = [sys.executable, "-m", "weir.cli", "stats"]

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start `weir stats ...`; what still runs at the end is ended."""
    running: list[subprocess.Popen[str]] = []

    def begin(*arguments: str, **options: Any) -> "subprocess.Popen[str]":
        running.append(subprocess.Popen([*STATS, *arguments], text=True, stderr=subprocess.PIPE, **options))
        return running[-1]

    yield begin
    for process in running:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=PATIENCE_SECONDS)


def publisher(start: Start, root: Path, server: str) -> "tuple[subprocess.Popen[str], str]":
    """A publisher and the address that it chose."""
    words = ["--bind", "tcp://127.0.0.1:*", "--interval", "1", "--heartbeat", "0.3", "--server", server]
    process = start("publish", *words, "--root", str(root))
    assert process.stderr is not None
    line = process.stderr.readline()
    found = re.search(r"publishing at (tcp://127\.0\.0\.1:\d+) every 1 s", line)
    assert found, line + process.stderr.read()
    return process, found[1]


def eventually(path: Path, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The first document in `path` of which something holds."""
    until = time.monotonic() + PATIENCE_SECONDS
    document: dict[str, Any] = {}
    while time.monotonic() < until:
        with contextlib.suppress(FileNotFoundError):
            document = json.loads(path.read_text())
            if holds(document):
                return document
        time.sleep(0.05)
    pytest.fail(f"it never came: {json.dumps(document)[:2000]}")


def heard(document: dict[str, Any]) -> list[str]:
    return [each["statistics"]["server"] for each in document["servers"]]


def end(process: "subprocess.Popen[str]", number: signal.Signals = signal.SIGTERM) -> str:
    """What it said after the lines that were read already."""
    process.send_signal(number)
    code = process.wait(PATIENCE_SECONDS)
    assert process.stderr is not None
    words = process.stderr.read()
    assert code == 0, words
    return words


def show(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*STATS, "show", *arguments], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )


def test_several_servers_one_killed_one_back(start: Start, tmp_path: Path) -> None:
    names = ("oss1", "oss2", "oss3")
    roots = {"oss1": DATA / "2.5", "oss2": DATA / "2.12", "oss3": tmp_path / "oss3"}
    shutil.copytree(DATA / "2.15/first", roots["oss3"])
    published = {name: publisher(start, roots[name], name) for name in names}
    path = tmp_path / "statistics.json"
    connections = [word for _, address in published.values() for word in ("--connect", address)]
    subscriber = start("subscribe", *connections, "--file", str(path), "--every", "1")
    document = eventually(path, lambda document: heard(document) == list(names))
    assert document["silent"] == []
    assert document["rejected_messages"] == 0
    assert document["own"]["may_allocate"] == (document["own"]["waits_for"] is None)

    # What is counted between two readings comes as rates, and the slow target is seen.
    def replace(source: str, target: str) -> None:
        """Put one file in another's place: as under /proc, no reader finds half of it."""
        shutil.copyfile(source, tmp_path / "whole")
        (tmp_path / "whole").replace(target)

    shutil.copytree(DATA / "2.15/later", roots["oss3"], dirs_exist_ok=True, copy_function=replace)
    document = eventually(path, lambda document: "new-OST0003" in document["speeds"])
    assert document["speeds"]["new-OST0003"] == pytest.approx(0.1, rel=0.2)
    shown = show("--file", str(path), "--file-system", "new", "--output", "json")
    assert shown.returncode == 0, shown.stderr
    view = json.loads(shown.stdout)
    assert [each["index"] for each in view["targets"]] == [0, 1, 2, 3]
    assert view["targets"][0]["server"] == "oss3"
    assert "slow" in show("--file", str(path), "--file-system", "new").stdout

    # Killed, it is told of as silent, its targets with it, and the others stay.
    published["oss2"][0].kill()
    document = eventually(path, lambda document: heard(document) == ["oss1", "oss3"])
    (silent,) = document["silent"]
    assert silent["server"] == "oss2"
    assert silent["targets"] == ["mid-OST00a0", "mid-OST00a1"]
    shown = show("--file", str(path), "--file-system", "mid")
    assert shown.returncode == 1
    assert shown.stdout == ""

    # Started again at the same address, it is back.
    address = published["oss2"][1]
    again = start("publish", "--bind", address, "--interval", "1", "--server", "oss2", "--root", str(DATA / "2.12"))
    eventually(path, lambda document: heard(document) == list(names) and not document["silent"])

    assert end(subscriber) == ""
    assert end(again, signal.SIGINT).startswith("publishing at ")
    end(published["oss1"][0])
    end(published["oss3"][0])
    assert [each.name for each in tmp_path.iterdir() if each.is_file()] == ["statistics.json"], "nothing half-written"


def test_bad_messages_are_counted_and_kill_nobody(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "statistics.json"
    _, address = publisher(start, DATA / "2.5", "oss1")
    with zmq.Context() as context, context.socket(zmq.PUB) as liar:
        liar.setsockopt(zmq.LINGER, 0)
        port = liar.bind_to_random_port("tcp://127.0.0.1")
        lies = f"tcp://127.0.0.1:{port}"
        subscriber = start("subscribe", "--connect", address, "--connect", lies, "--file", str(path), "--every", "1")
        wrong = [
            [TOPIC],
            [TOPIC, b""],
            [TOPIC, b"\xff\xfe"],
            [TOPIC, b"{}"],
            [TOPIC, b"[" * 10_000],
            [TOPIC, b"{}", b""],
        ]

        def lied(document: dict[str, Any]) -> bool:
            for frames in wrong:
                liar.send_multipart(frames)
            return document["rejected_messages"] >= 3 * len(wrong) and heard(document) == ["oss1"]

        document = eventually(path, lied)
        # Larger than any message may be: the connection ends and begins anew, and the subscriber stays.
        liar.send_multipart([TOPIC, b" " * (5 << 20)])
        assert len(document["rejections"]) > 0
        before = document["received_messages"]
        eventually(path, lambda document: document["received_messages"] > before + 3)
    assert end(subscriber) == ""


def test_once_ends_with_the_first_reading_of_all(start: Start) -> None:
    """A publisher sends a newcomer its last reading again: nobody waits for the next minute."""
    words = ["--bind", "tcp://127.0.0.1:*", "--interval", "3600", "--server", "oss1", "--root", str(DATA / "2.5")]
    process = start("publish", *words)
    assert process.stderr is not None
    address = process.stderr.readline().split()[2]
    subscriber = start("subscribe", "--connect", address, "--once", "--wait", "60", stdout=subprocess.PIPE)
    out, words_said = subscriber.communicate(timeout=PATIENCE_SECONDS)
    assert subscriber.returncode == 0, words_said
    document = json.loads(out.splitlines()[-1])
    assert heard(document) == ["oss1"]
    assert document["servers"][0]["statistics"]["targets"][0]["available_bytes"] == 2500000 << 10
    end(process)


def test_once_says_who_was_not_heard(start: Start) -> None:
    with zmq.Context() as context, context.socket(zmq.PUB) as nobody:
        port = nobody.bind_to_random_port("tcp://127.0.0.1")
        words = ["--connect", f"tcp://127.0.0.1:{port}", "--once", "--wait", "1"]
        subscriber = start("subscribe", *words, stdout=subprocess.PIPE)
        out, said = subscriber.communicate(timeout=PATIENCE_SECONDS)
    assert subscriber.returncode == 1
    assert "0 of 1 publishers were heard within 1 s" in said
    assert heard(json.loads(out.splitlines()[-1])) == []


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["publish", "--bind", "nonsense"], "error: Invalid value for '--bind': `nonsense` is no address"),
        (["subscribe", "--connect", "nonsense"], "error: Invalid value for '--connect': `nonsense` is no address"),
        (["show", "--file", __file__], f"error: {__file__}: Extra data: line 1"),
        (["show", "--lfs-df", __file__], f"error: {__file__}:1: expected `NAME_UUID TOTAL USED"),
        (["show"], "error: give either --file or --lfs-df"),
        (["subscribe", "--cpu-max", "seventy"], "error: Invalid value for '--cpu-max': 'seventy' is no part"),
    ],
)
def test_a_users_error_is_a_line_and_a_hint(arguments: list[str], error: str) -> None:
    answer = subprocess.run([*STATS, *arguments], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert answer.returncode in (1, 2)
    first, second = answer.stderr.splitlines()
    assert first.startswith(error)
    assert second.startswith("hint: ")
    assert answer.stdout == ""


def test_an_address_that_is_taken_is_said(start: Start) -> None:
    process, address = publisher(start, DATA / "2.5", "oss1")
    second = start("publish", "--bind", address)
    _, said = second.communicate(timeout=PATIENCE_SECONDS)
    assert second.returncode == 1
    assert f"error: cannot publish at {address}: Address already in use" in said
    end(process)


def test_files_that_cannot_be_read_are_told_of_once(start: Start, tmp_path: Path) -> None:
    root = tmp_path / "root"
    shutil.copytree(DATA / "2.5", root)
    (root / "proc/fs/lustre/obdfilter/old-OST0001/stats").write_text("nonsense\n")
    process, address = publisher(start, root, "oss1")
    path = tmp_path / "statistics.json"
    subscriber = start("subscribe", "--connect", address, "--file", str(path))
    document = eventually(path, lambda document: bool(document["servers"]))
    (unread,) = document["servers"][0]["statistics"]["unread"]
    assert unread.endswith(
        "old-OST0001/stats:1: expected `NAME N samples [UNIT] [MIN MAX SUM [SUMSQ]]`, found 'nonsense'"
    )
    eventually(path, lambda document: document["received_messages"] > 8)
    assert end(process).count("nonsense") == 1
    end(subscriber)


def test_an_old_file_is_told_of(tmp_path: Path, start: Start) -> None:
    process, address = publisher(start, DATA / "2.5", "oss1")
    path = tmp_path / "statistics.json"
    once = start("subscribe", "--connect", address, "--file", str(path), "--once")
    once.communicate(timeout=PATIENCE_SECONDS)
    assert once.returncode == 0
    end(process)
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "time_seconds": document["time_seconds"] - 3600}))
    shown = show("--file", str(path))
    assert shown.returncode == 1
    assert re.search(r"warning: .* is 36\d\d s old", shown.stderr)
    assert len(shown.stdout.splitlines()) == 3
