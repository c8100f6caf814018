"""Pages of the room over a store with 1,000 jobs at work, in Debian's Chromium."""

import resource
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import weir.store
from _harness import WEIR, announce
from _history_cost import processor_seconds
from playwright.sync_api import Browser, Page, sync_playwright

JOBS = 1_000
PAGES = ("store", "jobs", "waits", "interference", "placement", "what-if")
PHASE_SECONDS = 20
PAGE_SECONDS_MAX = 2.0
"""Asked of each page."""
CPU_MAX = 25.0
"""Percent of a processor that a second's refresh may take."""
_SETTLE_SECONDS = 12
"""Time in which the room's recorder keeps some windows."""
_START_SECONDS_MAX = 120
_CONFIGURATION = "version = 1\n[[server]]\n" + '[[server.target]]\nbackend = "ram"\ncapacity = "64MiB"\n' * 4


def measure(directory: Path) -> dict[str, float]:
    """Measure all of them."""
    # Each job of this process has connections of its own.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    file = directory / "cluster.toml"
    file.write_text(_CONFIGURATION)
    with weir.store.up(file, home=directory / "home", mount=False) as store:
        with at_work(store), opened(store) as (entrance, pid), sync_playwright() as driver:
            settle(store)
            started = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            seconds = max(page_seconds(started, entrance, name) for name in PAGES)
            alone = percent(pid)
            rows, watched, rate = refreshed(started, entrance, pid)
            started.close()
        store.down(discard=True)
    announce("slowest page", f"{seconds:.2f} s", f"asked: {PAGE_SECONDS_MAX} s", seconds / PAGE_SECONDS_MAX)
    beside = f"unwatched {alone:.1f} %, asked: {CPU_MAX} %"
    announce("1,000 jobs refreshed", f"{watched:.1f} %", beside, watched / CPU_MAX)
    announce("refreshes a second", f"{rate:.2f}", "asked: 1", rate)
    return {
        "page_seconds": seconds,
        "refresh_cpu_percent_1000_jobs": watched,
        "unwatched_cpu_percent_1000_jobs": alone,
        "rows_shown": float(rows),
        "refreshes_a_second": rate,
    }


def settle(store: weir.store.Store) -> None:
    """Wait until the room has put the scripts of figures together, and recorded some windows."""
    end = time.monotonic() + _START_SECONDS_MAX
    while not list((store.home / "room").glob("vega-*.js")):
        if time.monotonic() > end:
            raise TimeoutError(f"the room made no scripts in {_START_SECONDS_MAX} s")
        time.sleep(0.1)
    time.sleep(_SETTLE_SECONDS)


@contextmanager
def at_work(store: weir.store.Store) -> Iterator[None]:
    """Keep 1,000 jobs at work: each writes 4 KiB about once a second."""
    clients = [weir.store.connect(store, job=f"job-{number}", user=f"user-{number % 40}") for number in range(JOBS)]
    is_over = threading.Event()

    def work() -> None:
        while not is_over.is_set():
            begun = time.monotonic()
            for number, client in enumerate(clients):
                if is_over.is_set():
                    return
                with client.open(f"/file-{number}", "wb") as opened_file:
                    opened_file.write(b"x" * 4096)
            is_over.wait(max(0.0, 1.0 - (time.monotonic() - begun)))

    with ThreadPoolExecutor(1) as thread:
        working = thread.submit(work)
        try:
            yield
        finally:
            is_over.set()
        # Figures of jobs that stood still are none.
        working.result()


@contextmanager
def opened(store: weir.store.Store) -> Iterator[tuple[str, int]]:
    """Open a room; its address with the token, and its process."""
    command = [str(WEIR), "--home", str(store.home), "room", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip(), process.pid
        finally:
            process.terminate()


def page_seconds(started: Browser, entrance: str, name: str) -> float:
    """The time until a page and its figures are there, in a browser that has seen none of the room."""
    page = entered(started, entrance)
    begun = time.monotonic()
    page.goto(f"{entrance.partition('/?')[0]}/{name}")
    page.wait_for_selector("#room[data-drawn]", state="attached")
    taken = time.monotonic() - begun
    page.context.close()
    announce(f"page {name}", f"{taken:.2f} s", f"asked: {PAGE_SECONDS_MAX} s", taken / PAGE_SECONDS_MAX)
    return taken


def entered(started: Browser, entrance: str) -> Page:
    """A session of its own."""
    page = started.new_context().new_page()
    # The browser has loaded nothing yet, not even the scripts of figures.
    page.context.request.get(entrance, max_redirects=0)
    return page


def percent(pid: int) -> float:
    """Percent of a processor that a process takes for a while."""
    begun, before = time.monotonic(), processor_seconds(pid)
    time.sleep(PHASE_SECONDS)
    return 100 * (processor_seconds(pid) - before) / (time.monotonic() - begun)


def refreshed(started: Browser, entrance: str, pid: int) -> tuple[int, float, float]:
    """Rows of a live page of jobs, what the room takes while it is watched, and refreshes a second."""
    page = entered(started, entrance)
    page.goto(f"{entrance.partition('/?')[0]}/jobs")
    page.wait_for_selector("#room[data-refreshed]", state="attached")
    before, begun = refreshes(page), time.monotonic()
    taken = percent(pid)
    rate = (refreshes(page) - before) / (time.monotonic() - begun)
    rows = page.locator("[data-part=jobs] tbody tr").count()
    page.context.close()
    return rows, taken, rate


def refreshes(page: Page) -> int:
    """How often a live page was refreshed."""
    return int(page.get_attribute("#room", "data-refreshed") or 0)
