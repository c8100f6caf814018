"""The pictures of the control room in README and the guides: taken in a browser from a real store with jobs at work.

make pictures      writes docs/images/room-*.png
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import weir.store
from playwright.sync_api import Page, sync_playwright
from weir.history.errors import NoHistoryError
from weir.history.reading import History

IMAGES = Path(__file__).resolve().parents[1] / "docs/images"
PAGES = {"room-store": "store?span=1m", "room-jobs": "jobs?span=1m", "room-waits": "waits?span=1m"}
"""Names of the pictures, and the pages that they show."""
WINDOWS = 75
"""Seconds that the history has before the first picture: a little more than the pages show."""
_WAIT_SECONDS_MAX = 300.0
_SPEED = 'speed = { read = "60MB/s", write = "60MB/s", fixed = "1ms" }'
_TARGET = f'[[server.target]]\nbackend = "ram"\ncapacity = "512MiB"\n{_SPEED}\n'
_CONFIGURATION = f'version = 1\npolicy = "size-fair"\n[[server]]\n{_TARGET * 2}[[server]]\n{_TARGET * 2}'


@dataclass(frozen=True)
class Work:
    """A job of the pictures: processes that write, or read what they wrote, with pauses."""

    user: str
    nodes: int
    processes: int
    kilobytes: int
    pause_seconds: float
    is_reading: bool = False


JOBS = {
    "climate-checkpoint": Work("ada", 16, 4, 1024, 0.0),
    "genome-align": Work("bob", 2, 2, 64, 0.01, is_reading=True),
    "training": Work("carol", 4, 3, 256, 0.02, is_reading=True),
    "post-processing": Work("dora", 1, 1, 512, 0.5),
}
_PROGRAM = """
import os, sys, time
path, size, pause, is_reading = sys.argv[1], int(sys.argv[2]) << 10, float(sys.argv[3]), sys.argv[4] == "True"
file, turn = os.open(path, os.O_RDWR | os.O_CREAT), 0
for place in range(8):
    os.pwrite(file, b"x" * size, place * size)
while True:
    if is_reading:
        os.pread(file, size, turn % 8 * size)
    else:
        os.pwrite(file, b"x" * size, turn % 8 * size)
    turn += 1
    time.sleep(pause)
"""


def main() -> None:
    """Take all pictures."""
    with ExitStack() as ends:
        folder = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="weir-pictures-")))
        (folder / "cluster.toml").write_text(_CONFIGURATION)
        store = ends.enter_context(weir.store.up(folder / "cluster.toml", home=folder / "home", mount=False))
        for name, work in JOBS.items():
            ends.enter_context(_at_work(store, name, work))
        entrance = ends.enter_context(_room(store))
        _await_windows(store)
        driver = ends.enter_context(sync_playwright())
        # The sandbox of Chromium does not start as root, nor in most containers.
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 860})
        page.goto(entrance)
        for name, path in PAGES.items():
            _take(page, f"{entrance.partition('/?')[0]}/{path}", IMAGES / f"{name}.png")
        browser.close()


@contextmanager
def _at_work(store: weir.store.Store, name: str, work: Work) -> Iterator[None]:
    with store.job(job=name, user=work.user, nodes=work.nodes) as environment, ExitStack() as ends:
        for number in range(work.processes):
            words = [f"/weir/{name}-{number}", work.kilobytes, work.pause_seconds, work.is_reading]
            process = subprocess.Popen([sys.executable, "-c", _PROGRAM, *map(str, words)], env=environment)
            ends.callback(process.wait)
            ends.callback(process.kill)
        yield


@contextmanager
def _room(store: weir.store.Store) -> Iterator[str]:
    """Open the room; its address with the token."""
    program = Path(sys.executable).with_name("weir")
    command = [str(program), "--home", str(store.home), "room", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def _await_windows(store: weir.store.Store) -> None:
    """Wait until the room has recorded as much as the pages show."""
    end = time.monotonic() + _WAIT_SECONDS_MAX
    while time.monotonic() < end:
        with suppress(NoHistoryError):
            history = History(store.home / "history")
            first, last = history.span() or (0, 0)
            history.close()
            if last - first >= WINDOWS * 1000:
                return
        time.sleep(1)
    raise TimeoutError(f"the room recorded no {WINDOWS} s in {_WAIT_SECONDS_MAX:g} s")


def _take(page: Page, address: str, file: Path) -> None:
    page.goto(address)
    page.wait_for_selector("#room[data-drawn]", state="attached")
    page.wait_for_timeout(1500)
    page.screenshot(path=file)
    print(file)


if __name__ == "__main__":
    main()
