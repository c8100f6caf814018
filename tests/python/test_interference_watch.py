"""Predictions of a running store: a victim and an unannounced hog, servers that come and go, and who sees it."""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import slowdown_reference
import weir.store
import windows as synthetic
from store import kill
from waits import PATIENCE_SECONDS
from weir.interference import predictor
from weir.interference.collector import Collector, joined
from weir.interference.live import Live
from weir.interference.windows import Windows, of_rows

SPEED = 'speed = { read = "32MB/s", write = "32MB/s", fixed = "1ms" }'
TARGET = f'[[server.target]]\nbackend = "ram"\ncapacity = "64MiB"\n{SPEED}\n'
WINDOW_SECONDS = 0.5
STORE = f'version = 1\npolicy = "fifo"\nwindow = "500ms"\nwindows_kept = 600\n[[server]]\n{TARGET}[[server]]\n{TARGET}'
LOOP = "while :; do dd if=/dev/zero of=/weir/$0 bs=64k count=256 conv=notrunc status=none || exit; done"
HOGS = 4
LOOKS = 8
QUIET = 6
HOGGED = 5
"""Windows of a look without hogs, and those with hogs in which the victim is slowed."""
WINDOWS = 24
"""Windows of each kind from which the model of these tests is trained."""
SLOWED = 1.4
"""Slowdown at which the class begins: below that of any window with hogs, and above that of the quiet ones."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[weir.store.Store]:
    """Two servers that serve requests in the order of their arrival."""
    folder = tmp_path_factory.mktemp("watch")
    (folder / "cluster.toml").write_text(STORE)
    with weir.store.up(folder / "cluster.toml", home=folder / "home", mount=False) as store:
        yield store
        if store.home.exists():
            store.down(discard=True)


@contextlib.contextmanager
def running(store: weir.store.Store, job: str, count: int = 1) -> Iterator[None]:
    """A job that writes without a pause."""
    with ExitStack() as ends:
        for number in range(count):
            environment = ends.enter_context(store.job(job=job))
            writer = subprocess.Popen(["sh", "-c", LOOP, f"{job}-{number}"], env=environment, start_new_session=True)
            ends.callback(writer.wait)
            ends.callback(os.killpg, writer.pid, signal.SIGKILL)
        yield


def labelled_rows(
    store: weir.store.Store, collector: Collector, count: int, first_run: int, *, is_hogged: bool
) -> list[dict[str, Any]]:
    """Rows of so many windows of the victim, with the truth of the store as their label.

    They begin with the first window that shows whether there are hogs: those before it were told late, or are of both.
    """
    rows: list[dict[str, Any]] = []
    found = 0
    has_begun = False
    limit = time.monotonic() + PATIENCE_SECONDS
    while found < count:
        assert time.monotonic() < limit, "the servers tell no more windows"
        collector.poll()
        for number, at_servers in collector.take():
            window = joined(number, at_servers, "victim", f"run-{first_run + 2 * found // count}", "victim")
            if window.device_seconds <= 0:
                continue
            slowdown = (window.device_seconds + window.waited_seconds) / window.device_seconds
            has_begun = has_begun or (slowdown >= SLOWED) == is_hogged
            if has_begun:
                rows += [{**row, "slowdown": slowdown} for row in window.rows]
                found += 1
        time.sleep(0.05)
    return rows


@pytest.fixture(scope="module")
def recorded(store: weir.store.Store) -> Windows:
    """Windows of the victim alone and with hogs, twice in turns: so the model learns nothing from the time of a run."""
    collector = Collector(lambda: store.servers, print)
    rows = []
    with running(store, "victim"):
        collector.poll()
        collector.take(is_end=True)
        for turn in range(2):
            rows += labelled_rows(store, collector, WINDOWS // 2, 4 * turn, is_hogged=False)
            with running(store, "hog", HOGS):
                rows += labelled_rows(store, collector, WINDOWS // 2, 4 * turn + 2, is_hogged=True)
    return of_rows(rows)


@pytest.fixture(scope="module")
def model(recorded: Windows, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of windows of this store."""
    path = tmp_path_factory.mktemp("model") / "model.json"
    predictor.save(predictor.train(recorded, (SLOWED,)), path)
    return path


def test_native_predictions_are_those_of_lightgbm_on_windows_of_a_store(recorded: Windows, model: Path) -> None:
    loaded = predictor.load(model)
    slowdown_reference.assert_alike(loaded, recorded)
    slowdown_reference.assert_alike(msgspec.structs.replace(loaded, workloads=()), recorded)
    slowdown_reference.assert_alike(loaded, recorded.take(np.arange(len(recorded)) % 9 == 0))


class Lines:
    """What a command prints, read by a thread, so that a command that prints nothing ends the test."""

    def __init__(self, started: "subprocess.Popen[str]") -> None:
        self._read: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._started = started
        self._thread = threading.Thread(target=self._drain, daemon=True)
        self._thread.start()

    def _drain(self) -> None:
        assert self._started.stdout is not None
        for line in self._started.stdout:
            self._read.put(line)

    def end(self) -> None:
        self._started.send_signal(signal.SIGTERM)
        self._started.wait(PATIENCE_SECONDS)
        self._thread.join(PATIENCE_SECONDS)

    def next(self) -> dict[str, Any]:
        """The next line about the victim."""
        limit = time.monotonic() + PATIENCE_SECONDS
        while True:
            document: dict[str, Any] = json.loads(self._read.get(timeout=max(limit - time.monotonic(), 0.001)))
            if document["job"] == "victim":
                return document

    def next_since(self, window: int) -> dict[str, Any]:
        """The next line about the victim whose window is this one or a later one."""
        while True:
            line = self.next()
            if line["window"] >= window:
                return line


@contextlib.contextmanager
def command(store: weir.store.Store, *words: str) -> Iterator[Lines]:
    environment = {**os.environ, "WEIR_HOME": str(store.home)}
    arguments = [sys.executable, "-m", "weir.cli", "interference", *words]
    with subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE, text=True) as started:
        lines = Lines(started)
        try:
            yield lines
        finally:
            lines.end()


def test_watch_shows_class_and_responsible_job_within_two_windows(store: weir.store.Store, model: Path) -> None:
    """On a busy machine a window now and then is like none of the training, so one look may err."""
    with running(store, "victim"), command(store, "watch", "--model", str(model), "--output", "json") as lines:
        looks: list[bool] = []
        while not (looks and looks[-1]):
            assert len(looks) < LOOKS, looks
            looks.append(is_shown_in_time(store, lines))


def is_shown_in_time(store: weir.store.Store, lines: Lines) -> bool:
    """Whether the class of most windows is right, and that of a hog's victim within two windows."""
    # Requests of the last look's hogs may still be waiting in the windows around their end.
    quiet_since = int(time.time() / WINDOW_SECONDS) + 3
    quiet = [lines.next_since(quiet_since) for _ in range(QUIET)]
    after: list[dict[str, Any]] = []
    limit = time.monotonic() + PATIENCE_SECONDS
    with running(store, "hog", HOGS):
        while sum(is_slowed(line) for line in after) < HOGGED:
            assert time.monotonic() < limit, "the hogs do not slow the victim"
            after.append(lines.next())
    slowed = [line for line in after if is_slowed(line)]
    # The windows from the first in which the hog really slowed the victim.
    within = [line for line in after if 0 <= line["window"] - slowed[0]["window"] <= 2]
    assert all([horizon["ahead"] for horizon in line["horizons"]] == [0, 1, 2, 3] for line in after)
    assert {line["basis"] for line in after} <= {"trees", "measured"}
    assert any(line["driven_by"] for line in (*quiet, *after))
    right = [share_of(quiet, f"below {SLOWED:g}"), share_of(slowed, f"from {SLOWED:g}")]
    named = [[job["job"] for job in line["responsible"]] for line in (*quiet, *within)]
    print(f"classes that are right: {right}, responsible jobs: {named}")
    is_blame_right = not any(named[: len(quiet)]) and all(jobs[:1] in ([], ["hog"]) for jobs in named[len(quiet) :])
    is_class_right = min(right) > 0.5 and share_of(within, f"from {SLOWED:g}") > 0
    return is_class_right and is_blame_right and bool(slowed[0]["responsible"])


def share_of(lines: list[dict[str, Any]], slowdown: str) -> float:
    """The share of windows that are said to be of a class."""
    return float(np.mean([line["horizons"][0]["slowdown"] == slowdown for line in lines]))


def is_slowed(line: dict[str, Any]) -> bool:
    """Whether the victim waited for others for so long that the window is of the class of slowed ones."""
    return line["waited_ratio"] is not None and 1 + line["waited_ratio"] >= SLOWED


def test_without_a_model_the_wait_of_the_store_is_shown_and_what_helps(store: weir.store.Store) -> None:
    """A model said "below 2, 0.96" of a job whose store had measured a wait of 48 to 80 times."""
    with running(store, "victim"), running(store, "hog", HOGS), command(store, "watch", "--output", "json") as lines:
        while (line := lines.next())["remedy"] is None:
            measured = 1 + (line["waited_ratio"] or 0)
            assert line["horizons"][0]["slowdown"] == "from 2" or measured < 2, line
    assert line["remedy"] == "weir policy set size-fair"
    assert line["basis"] in ("measured", "above quiet") and line["responsible"][0]["job"] == "hog"


def test_predictions_are_served_while_a_process_serves_them(store: weir.store.Store, model: Path) -> None:
    limit = time.monotonic() + PATIENCE_SECONDS
    with running(store, "victim"), command(store, "serve", "--model", str(model)):
        shown: dict[int, set[str]] = {}
        while not all("victim" in shown.get(server.number, ()) for server in store.servers):
            assert time.monotonic() < limit, "a server shows no predictions"
            for server in store.servers:
                shown[server.number] = {job.job for job in server.interference().jobs}
            time.sleep(0.05)
        with command(store, "watch", "--output", "ndjson") as lines:
            line = lines.next()
        assert line["missing"] == [] and len(line["horizons"]) == predictor.HORIZONS


def test_a_server_that_dies_leaves_predictions_from_the_others(store: weir.store.Store, model: Path) -> None:
    """It comes last: the store has one server after it."""
    told: list[str] = []
    servers = list(store.servers)
    native = predictor.native(predictor.load(model))
    live = Live(Collector(lambda: servers, told.append), native, told.append)
    live.poll()
    kill(int((store.home / "servers/1/pid").read_text().split()[0]))

    def await_missing(missing: tuple[int, ...]) -> None:
        limit = time.monotonic() + PATIENCE_SECONDS
        while not any(predictions.missing == missing for predictions in live.poll()):
            assert time.monotonic() < limit, told
            time.sleep(0.05)

    await_missing((1,))
    assert len([line for line in told if "server 1" in line and "are missing from now on" in line]) == 1, told
    del servers[1]
    await_missing((1,))


def test_windows_with_more_and_fewer_servers_are_put_together() -> None:
    from weir.interference.windows import chained, latest

    every = synthetic.made(1, ("writer",), windows=4)
    fewer = every.take(np.array([0]))
    fewer = Windows(
        **{
            name: getattr(fewer, name)[:, :2] if getattr(fewer, name).ndim > 1 else getattr(fewer, name)
            for name in Windows.__dataclass_fields__
        }
    )
    both = chained([fewer, every])
    assert len(both) == 1 + len(every) and both.present.shape[1] == every.present.shape[1]
    assert list(both.present[0]) == [True, True, False, False] and not both.server[0, 2:].any()
    assert np.array_equal(both.client[1:], every.client)
    # A server that left takes no place once its windows are gone.
    assert latest(both, 3).present.shape == (3, every.present.shape[1])
    last = latest(chained([every, fewer]), 1)
    assert last.present.shape == (1, 2) and np.array_equal(last.server, fewer.server)
    assert np.array_equal(latest(every, 99).server, every.server)
