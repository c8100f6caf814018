"""Commands on a store of `weir.store`, and a recorder of its history."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from waits import wait_until
from weir.history.errors import HistoryError
from weir.history.reading import History


class Homed(Protocol):
    """A store, by its home."""

    @property
    def home(self) -> Path:
        """The directory of its state."""


def command(store: Homed, *arguments: str) -> list[str]:
    """The command line of a store."""
    return [sys.executable, "-m", "weir.cli", "--home", str(store.home), *arguments]


def answer(store: Homed, *arguments: str, code: int = 0) -> "subprocess.CompletedProcess[str]":
    """Run a command."""
    found = subprocess.run(command(store, *arguments), capture_output=True, text=True, check=False)
    assert found.returncode == code, found.stderr
    return found


def document(store: Homed, *arguments: str) -> Any:
    """The JSON of a command."""
    return json.loads(answer(store, *arguments, "--output", "json").stdout)


@contextmanager
def recording(store: Homed, *arguments: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a recorder, which writes its words beside the home."""
    with (store.home.parent / "recorder.err").open("ab") as words:
        process = subprocess.Popen(command(store, "record", *arguments), stderr=words)
    try:
        wait_until("the recorder has kept a window", lambda: known_windows(store) > 0)
        yield process
    finally:
        process.kill()
        process.wait()


def words(store: Homed) -> str:
    """What recorders said."""
    return (store.home.parent / "recorder.err").read_text()


def known_windows(store: Homed, since: int = 0) -> int:
    """Windows that the history knows from a moment on, in Unix milliseconds."""
    try:
        history = History(store.home / "history")
    except HistoryError:
        return 0
    try:
        return int(history._rows("SELECT count(*) FROM known WHERE begin >= ?", (since,))[0][0])
    finally:
        history.close()


def now_milliseconds() -> int:
    """The Unix time."""
    return round(time.time() * 1000)
