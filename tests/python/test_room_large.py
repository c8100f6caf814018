"""`weir room` in a browser over the past of a large store: 1,000 jobs on 3,600 targets, as the simulator ran them."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest
import simulated_world
import weir.store
from rooms import PAGES, Room, asked, browser, faults, go, room_of, session_of, visit
from weir.room.pages.jobs import address_of
from weir.room.panels import ROWS_MAX

if TYPE_CHECKING:
    from playwright.sync_api import Browser

AGE_SECONDS = 600
"""The end of the simulated time, so long ago."""
ROWS_JUDGED = 40
PAGE_BYTES_MAX = 2_000_000
FIGURES = {"store": 4, "jobs": 1, "waits": 2}
"""Figures that pages of the past draw."""


@dataclass(frozen=True)
class World:
    """A room, and the parameters of addresses that look at the simulated time."""

    room: Room
    then: str

    def path(self, page: str, **further: str) -> str:
        """The path of a page then."""
        return f"{page}?{self.then}" + (f"&{urlencode(further)}" if further else "")


@pytest.fixture(scope="module")
def chromium() -> "Iterator[Browser]":
    """The browser."""
    with browser() as started:
        yield started


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A room over a small store whose history is that of the large one."""
    folder = tmp_path_factory.mktemp("large")
    history = folder / "history"
    history.mkdir(mode=0o700)
    until = simulated_world.kept(history, int(time.time()) - AGE_SECONDS)
    moment = datetime.fromtimestamp(until / 1000).strftime("%Y-%m-%dT%H:%M:%S")
    with weir.store.up(home=folder / "home", servers=1, targets=1, capacity="16MiB", mount=False) as store:
        with room_of(store, "--history", str(history)) as room:
            yield World(room, urlencode({"at": moment, "span": "1m"}))
        store.down(discard=True)


def test_every_page_opens_is_bounded_and_has_no_serious_fault(chromium: "Browser", world: World) -> None:
    with visit(chromium, world.room, viewport={"width": 1280, "height": 900}) as page:
        job = address_of(simulated_world.job_name(1), "user-1")
        for path in (*map(world.path, PAGES), world.path("job", **job)):
            go(page, world.room, path)
            assert len(page.content()) < PAGE_BYTES_MAX, path
            for part in page.locator("[data-part] tbody").all():
                assert part.locator("tr").count() <= ROWS_MAX, path
            drawn = page.locator("figure canvas").count()
            assert drawn == FIGURES.get(path.partition("?")[0], drawn), path
            # Tables scroll in their own box, never the page.
            scrolled = page.evaluate_handle("document.scrollingElement")
            assert scrolled.evaluate("each => each.scrollWidth <= each.clientWidth"), path
            # Rows of a table are alike, and axe takes a minute for a thousand of them.
            page.locator(f"tbody tr:nth-child(n+{ROWS_JUDGED + 1})").evaluate_all(
                "rows => rows.forEach(row => row.remove())"
            )
            assert faults(page) == [], path
    assert world.room.complaints == []


def test_no_job_is_left_out_and_pairs_wait_for_each_other(chromium: "Browser", world: World) -> None:
    with visit(chromium, world.room) as page:
        go(page, world.room, world.path("jobs"))
        assert page.locator("[data-part=past] tbody tr").count() == simulated_world.JOBS
        page.locator("input[data-filter=past]").fill("job-500")
        assert page.locator("[data-part=past] tbody tr:visible").count() == 1
        go(page, world.room, world.path("waits"))
        shared = simulated_world.TARGETS // simulated_world.PARTS
        pairs = {tuple(row.split()[:3:2]) for row in page.locator("[data-part=pairs] tbody tr").all_inner_texts()}
        assert (simulated_world.job_name(0), simulated_world.job_name(shared)) in pairs


def test_figures_of_3600_targets_are_bounded(world: World) -> None:
    cookie = session_of(world.room)
    for measure in ("load", "rate", "fill", "health"):
        answered = asked(world.room, f"/figure/targets?measure={measure}&{world.then}", Cookie=cookie)
        assert answered.status == 200
        assert len(answered.body) < PAGE_BYTES_MAX
        values = json.loads(answered.body)["data"]["values"]
        assert all(0 <= each["value"] <= 1 for each in values) or measure == "rate"
