"""Progress of long work on a terminal and elsewhere, and what a store holds before it is ended."""

import os
import pty
import re
import select
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from store import Store, program
from waits import PATIENCE_SECONDS, wait_until
from weir.cli.common import progress as shown_progress
from weir.cli.common.errors import say
from weir.cli.common.progress import progress, working


def on_a_terminal(store: Store, *arguments: str, answer: str = "") -> tuple[int, str]:
    """Run `weir` on a terminal of its own, and type an answer; the exit code and what the terminal got."""
    child, terminal = pty.fork()
    if child == 0:
        os.execve(program()[0], [*program(), *arguments], store.variables(TERM="xterm"))
    os.write(terminal, answer.encode())
    told = b""
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end and select.select([terminal], [], [], PATIENCE_SECONDS)[0]:
        try:
            told += os.read(terminal, 4096)
        except OSError:
            break
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), told.decode()


def test_an_upgrade_and_a_backup_show_how_far_they_are_on_a_terminal(make_store: Callable[[], Store]) -> None:
    store = make_store()
    store.weir("up", "--backend", "dir", "--servers", "2", "--no-mount")
    code, told = on_a_terminal(store, "upgrade")
    assert code == 0, told
    assert re.search(r"upgrade  \[-+\] 0%, server 0", told)
    assert re.search(r"upgrade  \[#+-+\] 50%.*server 1", told)
    code, told = on_a_terminal(store, "backup", str(store.root / "backup"))
    assert (code, "backup  [" in told) == (0, True), told
    code, told = on_a_terminal(store, "fsck")
    assert (code, "check  [" in told) == (0, True), told
    quiet = store.weir("fsck")
    assert "[" not in quiet.stderr, "a short command prints no progress elsewhere"


def test_elsewhere_a_long_work_prints_a_line_each_some_seconds(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with progress() as shown:
        for second in range(40):
            now = float(second)
            shown("moves", second, 40, "of files")
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "moves: 25%, 30 s left, of files",
        "moves: 50%, 20 s left, of files",
        "moves: 75%, 10 s left, of files",
    ]


def test_a_long_time_is_told_in_minutes_and_a_work_that_begins_again_is_estimated_anew(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with progress() as shown:
        for second, done in ((0, 0), (60, 1), (70, 0), (130, 10)):
            now = float(second)
            shown("copy", done, 100)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["copy: 1%, 1 h 39 min left", "copy: 0%", "copy: 10%, 9 min left"]


def test_a_work_that_says_nothing_is_shown_by_its_time(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shown_progress, "_BEAT_SECONDS", 0.01)
    monkeypatch.setattr(shown_progress, "_LINE_SECONDS", 0.02)
    told: list[str] = []

    def has_told() -> bool:
        told.extend(capsys.readouterr().err.splitlines())
        return bool(told)

    with working("training"):
        wait_until("the work is shown", has_told)
    assert re.fullmatch(r"training: \d s so far", told[0])
    assert not any(thread.name == "progress" for thread in threading.enumerate())


def test_words_take_the_place_of_a_line_of_progress(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress() as shown:
        shown("moves", 1, 4)
        say("words")
    told = capsys.readouterr().err
    assert told.startswith("\rmoves  [#####")
    assert "\r\x1b[Kwords\n" in told


def test_down_says_before_it_begins_what_will_be_gone(make_store: Callable[[], Store], tmp_path: Path) -> None:
    store = make_store()
    store.weir("up", "--no-mount")
    (tmp_path / "file").write_bytes(bytes(3 << 20))
    store.weir("run", "--prefix", "/weir", "--", "cp", tmp_path / "file", "/weir/file")
    code, told = on_a_terminal(store, "down", answer="no\n")
    assert (code, "hold 3.0 MiB that are lost then" in told) == (1, True), told
    assert store.json("status")["servers"][0]["up"]
    assert "this will end the store, whose targets in memory hold 3.0 MiB" in store.weir("down").stderr
