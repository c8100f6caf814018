"""`weir room` in a browser, over real stores: its pages, its doors, and hostile names of jobs."""

import json
import os
import pwd
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest
import weir.store
from hogged import configuration, hog_at_work, victim_at_work
from recorded import answer, document, known_windows, now_milliseconds
from rooms import (
    FORM,
    PAGES,
    Room,
    asked,
    asked_at,
    browser,
    faults,
    go,
    offered,
    room_at,
    room_of,
    session_of,
    visit,
    words_of,
)
from store import kill
from waits import wait_until
from weir.room.pages.jobs import address_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

HOSTILE = "<script>document.title='owned'</script>\"'\n\u202egnp.exe " + "x" * 70
PHONE = {"width": 390, "height": 844}
_READER = """
import sys, numpy
from weir import adaptive
tiers = [f"{sys.argv[1]}/fast", f"{sys.argv[1]}/shared"]
field = numpy.random.default_rng(5).normal(size=(40, 50, 60)).astype("f4")
adaptive.write(tiers, [field + step for step in range(12)], exact=True)
print([step.number for step in adaptive.open(tiers, policy=adaptive.Budget(seconds=0.5))])
"""
_WRITER = "import os\nfile = os.open('/weir/eve', os.O_CREAT | os.O_RDWR)\nos.pwrite(file, b'x' * 65536, 0)\n"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[weir.store.Store]:
    """A store of one server under `fifo`, which keeps its history in its room."""
    folder = tmp_path_factory.mktemp("room")
    file = folder / "cluster.toml"
    file.write_text(configuration("fifo"))
    with weir.store.up(file, home=folder / "home", mount=False) as store:
        yield store
        store.down(discard=True)


@pytest.fixture(scope="module")
def chromium() -> "Iterator[Browser]":
    """The browser."""
    with browser() as started:
        yield started


@pytest.fixture(scope="module")
def busy(home: weir.store.Store) -> Iterator[Room]:
    """A room over a store on which a victim, a hog and a job with a hostile name were and are at work."""
    with room_of(home) as room, victim_at_work(home), hog_at_work(home):
        with home.job(job=HOSTILE, user="eve") as environment:
            subprocess.run([sys.executable, "-c", _WRITER], env=environment, check=True)
            subprocess.run([sys.executable, "-c", _READER, home.home.parent], env=environment, check=True)
        written = now_milliseconds()
        wait_until("some seconds are kept", lambda: known_windows(home, written) >= 40)
        yield room


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [{"width": 1280, "height": 900}, PHONE], ids=["wide", "phone"])
def test_every_page_is_whole_and_has_no_serious_fault(
    chromium: "Browser", busy: Room, scheme: str, viewport: dict[str, int]
) -> None:
    with visit(chromium, busy, color_scheme=scheme, viewport=viewport) as page:
        for path in PAGES:
            go(page, busy, path)
            assert page.locator("h1").inner_text()
            assert faults(page) == [], path
            # Tables scroll in their own box, never the page.
            assert page.evaluate_handle("document.scrollingElement").evaluate(
                "each => each.scrollWidth <= each.clientWidth"
            ), path
    assert busy.complaints == []


def test_the_store_shows_servers_targets_and_their_load_over_time(chromium: "Browser", busy: Room) -> None:
    with visit(chromium, busy) as page:
        go(page, busy, "store?span=10m")
        assert page.locator("[data-part=servers] tbody tr").count() == 1
        assert "0.0" in page.locator("[data-part=devices] tbody").inner_text()
        assert page.locator("figure canvas").count() == 4
    answered = asked(busy, "/figure/targets?measure=load&span=10m", Cookie=session_of(busy))
    rows = json.loads(answered.body)["data"]["values"]
    assert max(row["value"] for row in rows if row["device"] == "0.0") > 0.3
    assert all(0 <= row["value"] <= 1 for row in rows)


def test_jobs_are_live_with_the_culprit_and_stop_when_paused(chromium: "Browser", busy: Room) -> None:
    with visit(chromium, busy) as page:
        go(page, busy, "jobs")
        victim = page.locator("[data-part=jobs] tbody tr").filter(has_text="victim").filter(has_text="ada")
        victim.wait_for()
        assert "hog" in victim.inner_text()
        refreshed(page, 2)
        page.click("#pause")
        count = page.get_attribute("#room", "data-refreshed")
        page.wait_for_timeout(2500)
        assert int(page.get_attribute("#room", "data-refreshed") or 0) <= int(count or 0) + 1


def refreshed(page: "Page", times: int) -> None:
    """Wait until a page was refreshed some times."""
    wait_until(f"{times} refreshes", lambda: int(page.get_attribute("#room", "data-refreshed") or 0) >= times)


def test_who_waits_for_whom_names_the_pair(chromium: "Browser", busy: Room) -> None:
    with visit(chromium, busy) as page:
        go(page, busy, "waits")
        first = page.locator("[data-part=pairs] tbody tr").first.inner_text()
        assert first.split()[:4] == ["victim", "ada", "hog", "bob"]
        assert page.locator("figure canvas").count() == 2


def test_a_job_has_its_time_line_and_its_report(chromium: "Browser", busy: Room) -> None:
    with visit(chromium, busy) as page:
        go(page, busy, "jobs")
        page.locator("[data-part=past] a", has_text="victim").first.click()
        page.wait_for_selector("#room[data-drawn]", state="attached")
        assert page.locator("h1").inner_text() == "Job victim"
        assert page.locator("figure canvas").count() == 1
        report = page.frame_locator("iframe.report")
        assert "hog" in report.locator("#waits").inner_text()


def test_a_stream_that_a_job_reads_has_its_accuracy_and_its_forecasts(chromium: "Browser", busy: Room) -> None:
    with visit(chromium, busy) as page:
        go(page, busy, "adaptive")
        row = page.locator("[data-part=streams] tbody tr")
        assert row.count() == 1
        cells = row.locator("td").all_inner_texts()
        assert cells[0].endswith("/fast")
        assert cells[1].startswith("<script>")
        assert cells[2:5] == ["eve", "12", "11"]
        assert page.locator("figure canvas").count() == 2
        assert page.title() != "owned"
        go(page, busy, "adaptive?at=2d")
        assert "no step was noted" in page.locator("[data-part=streams]").inner_text()
    assert busy.complaints == []


def test_a_run_under_predictions_shows_what_they_hit_and_missed(
    chromium: "Browser", home: weir.store.Store, busy: Room, tmp_path: Path
) -> None:
    program, traces, database = tmp_path / "program.py", tmp_path / "traces", tmp_path / "next.db"
    program.write_text("import sys\nfor name in sys.argv[1:]:\n    open(f'/weir/{name}', 'w').write('x' * 4096)\n")
    run, command = ("run", "--prefix", "/weir"), ("--", sys.executable, program)
    answer(home, *map(str, (*run, "--trace", traces, *command, "a0", "a1", "a2")))
    answer(home, *run, "--", "sh", "-c", "rm /weir/a?")
    answer(home, "place", "--from", str(traces), "--database", str(database))
    answer(home, *map(str, (*run, "--placement", database, *command, "a0", "a1", "a2", "other")))
    with visit(chromium, busy) as page:
        go(page, busy, "placement")
        cells = page.locator("[data-part=runs] tbody tr").first.locator("td").all_inner_texts()
        assert cells[4:9] == ["75.0%", "3", "1", "0", "0"]
        assert cells[-1].endswith("/other")
        assert page.locator("figure canvas").count() == 1
        go(page, busy, "placement?at=1d")
        assert page.locator("[data-part=runs] tbody tr").count() == 0


def test_time_moves_back(chromium: "Browser", busy: Room) -> None:
    with visit(chromium, busy) as page:
        for path in PAGES[:-1]:
            go(page, busy, f"{path}?at=1s&span=1m")
            assert page.get_attribute("#room", "data-live") == "no"
        go(page, busy, "jobs?at=1s&span=1m")
        assert page.locator("[data-part=past] a", has_text="hog").count() >= 1
        go(page, busy, "jobs?at=2d")
        assert "no work is recorded" in page.locator("[data-part=past]").inner_text()
        page.click("text=Now")
        page.wait_for_selector("#room[data-live=yes]", state="attached")
    refused = asked(busy, "/store?at=25%3A99", Cookie=session_of(busy))
    assert refused.status == 400
    assert "is no moment" in refused.body


def test_a_replay_tells_what_jobs_would_have_had(chromium: "Browser", busy: Room) -> None:
    with visit(chromium, busy) as page:
        go(page, busy, "what-if?policy=job-fair&span=1m")
        assert "no job is off by more than" in page.locator("[data-part=top]").inner_text()
        assert "victim" in page.locator("[data-part=replay]").inner_text()
    refused = asked(busy, "/what-if?policy=%3Cb%3E", Cookie=session_of(busy))
    assert refused.status == 400
    assert "<b>" not in refused.body


def test_a_hostile_name_is_text_on_every_page(chromium: "Browser", busy: Room) -> None:
    with visit(chromium, busy) as page:
        job = urlencode(address_of(HOSTILE, "eve"))
        for path in (*PAGES, f"job?{job}"):
            go(page, busy, path)
            assert page.title() != "owned", path
            assert "\u202e" not in page.content(), path
        assert "<script>document.title" in page.locator("h1").inner_text()
        go(page, busy, "jobs")
        link = page.locator("[data-part=past] a", has_text="<script>")
        assert "\\u202egnp.exe" in link.inner_text()
        link.click()
        page.wait_for_selector("h1:has-text('<script>')")
        assert page.title() != "owned"


def test_figures_over_time_show_the_stretch_that_was_chosen(chromium: "Browser", busy: Room) -> None:
    with visit(chromium, busy) as page:
        for path in ("store", "jobs"):
            go(page, busy, f"{path}?span=10m")
            for figure in page.locator("figure[data-figure]").all():
                since, until = figure.evaluate("each => each.view.scale('x').domain().map(Number)")
                assert until - since == 600_000, figure.get_attribute("data-title")


def test_the_keyboard_alone_reaches_another_page_and_another_moment(chromium: "Browser", busy: Room) -> None:
    with visit(chromium, busy) as page:
        go(page, busy, "store")
        page.keyboard.press("Tab")
        assert page.locator(":focus").inner_text() == "To the content"
        for _ in range(2):
            page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        assert page.locator(":focus").inner_text() == "Who waits for whom"
        page.keyboard.press("Enter")
        page.wait_for_selector("h1:has-text('Who waits for whom')")
        page.locator("input[name=at]").focus()
        page.keyboard.type("1s")
        page.keyboard.press("Enter")
        page.wait_for_selector("#room[data-live=no]", state="attached")


def test_nobody_comes_in_without_the_token(busy: Room) -> None:
    for path in ("/store", "/figure/jobs", "/job?name=hog&user=bob", "/report?name=hog&user=bob"):
        assert asked(busy, path).status == 401, path
        assert asked(busy, path, Cookie="weir_room=forged").status == 401, path
    assert asked(busy, "/store?token=forged").status == 403
    assert asked(busy, "/login", "POST", "token=forged", Content_Type="application/x-www-form-urlencoded").status == 403


def test_other_names_and_other_sites_are_refused(busy: Room) -> None:
    cookie = session_of(busy)
    assert asked(busy, "/store", Cookie=cookie).status == 200
    assert asked(busy, "/store", Cookie=cookie, Host="evil.example").status == 421
    assert asked(busy, "/figure/jobs", Cookie=cookie, Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="cors").status == 403
    posted = asked(busy, "/login", "POST", "", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate")
    assert posted.status == 403


def test_each_answer_forbids_scripts_of_others(busy: Room) -> None:
    cookie = session_of(busy)
    for path in ("/store", "/login", "/static/room.css", "/nothing", "/figure/nothing", "/store?at=25%3A99"):
        policy = asked(busy, path, Cookie=cookie).headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy, path
        assert "unsafe" not in policy, path
    report = asked(busy, "/report?name=hog&user=bob", Cookie=cookie).headers["Content-Security-Policy"]
    assert "script-src" not in report
    assert report.endswith("sandbox")


def test_an_empty_store_has_whole_pages(chromium: "Browser", tmp_path: Path) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text(configuration("job-fair"))
    with (
        weir.store.up(file, home=tmp_path / "home", mount=False) as store,
        room_of(store) as room,
        visit(chromium, room) as page,
    ):
        for path in PAGES:
            go(page, room, path)
            assert faults(page) == [], path
        go(page, room, "jobs")
        assert "no job is at work" in page.locator("[data-part=jobs]").inner_text()
        store.down()
        wait_until("the page tells of it", lambda: page.locator(".note.bad").count() > 0)
        assert room.complaints == []


def test_a_dead_server_leaves_whole_pages(chromium: "Browser", tmp_path: Path) -> None:
    with (
        weir.store.up(home=tmp_path / "home", servers=2, targets=1, capacity="16MiB", mount=False) as store,
        room_of(store) as room,
        visit(chromium, room) as page,
    ):
        kill(int((store.home / "servers/1/pid").read_text().split()[0]))
        for path in PAGES:
            go(page, room, path)
            assert faults(page) == [], path
        go(page, room, "store")
        servers = page.locator("[data-part=servers]")
        wait_until("the page tells of it", lambda: "no answer" in servers.inner_text())
        findings = page.locator("[data-part=findings]")
        wait_until("the finding is there", lambda: "server-down" in findings.inner_text())
        assert room.complaints == []
        store.down(discard=True)


def test_the_kernel_names_callers_of_a_unix_socket(home: weir.store.Store, tmp_path: Path) -> None:
    path = tmp_path / "room.sock"
    with room_at(home, path):
        found = asked_at(path, "/store")
    assert found.status == 200
    assert "administrator" in found.body
    assert not path.exists()


def test_a_taken_port_and_a_missing_store_are_one_line_with_a_hint(home: weir.store.Store, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        told = answer(home, "room", "--port", str(port), code=1).stderr
    assert f"cannot listen at 127.0.0.1:{port}" in told
    assert "hint: another program listens there" in told
    nothing = subprocess.run(
        [sys.executable, "-m", "weir.cli", "--home", str(tmp_path / "none"), "room"], capture_output=True, text=True
    )
    assert nothing.returncode == 1
    assert "hint:" in nothing.stderr


def test_the_room_ends_and_comes_back_with_the_history(home: weir.store.Store) -> None:
    before = known_windows(home)
    with room_of(home) as room:
        begun = round(time.time() * 1000)
        wait_until("it records again", lambda: known_windows(home, begun) >= 2)
        room.process.kill()
    with room_of(home) as room:
        assert asked(room, "/store", Cookie=session_of(room)).status == 200
    assert known_windows(home) > before


def policy_of(store: weir.store.Store) -> str:
    """The policy of a store."""
    return str(document(store, "policy", "show")["policy"])


def test_a_policy_is_changed_after_a_look_and_a_confirmation(
    chromium: "Browser", home: weir.store.Store, busy: Room
) -> None:
    with visit(chromium, busy) as page:
        go(page, busy, "what-if?policy=job-fair&span=1m")
        page.click("text=Change the store to job-fair")
        assert page.locator("h1").inner_text() == "Change the policy to job-fair"
        assert faults(page) == []
        assert policy_of(home) == "fifo", "nothing changes before it is confirmed"
        page.click("text=Change it")
        page.wait_for_selector("h1:has-text('The policy is changed')")
        assert policy_of(home) == "job-fair"
    answer(home, "policy", "set", "fifo")
    assert "policy fifo -> job-fair" in words_of(home)
    entries = document(home, "audit", "--kind", "policy")["entries"]
    visitor = pwd.getpwuid(os.geteuid()).pw_name
    changes = [each["after"] for each in entries if each["claimed_request_of"] == visitor]
    assert "job-fair" in [json.loads(after)["policy"] for after in changes]


def test_a_change_without_its_confirmation_is_refused(home: weir.store.Store, busy: Room) -> None:
    cookie, other = session_of(busy), session_of(busy)
    before = policy_of(home)
    offer = offered(busy, cookie, "policy", policy="job-fair")
    assert asked(busy, "/act", "POST", f"offer={offer}", **FORM).status == 401, "without a session"
    assert asked(busy, "/act", "POST", "offer=forged", Cookie=cookie, **FORM).status == 403
    assert asked(busy, "/act", "POST", "", Cookie=cookie, **FORM).status == 403
    cross = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Origin": "https://evil.example"}
    assert asked(busy, "/act", "POST", f"offer={offer}", Cookie=cookie, **FORM, **cross).status == 403
    for origin in ("https://evil.example", "null"):
        refused = asked(busy, "/act", "POST", f"offer={offer}", Cookie=cookie, Origin=origin, **FORM)
        assert refused.status == 403, origin
    assert asked(busy, "/act", "POST", f"offer={offer}", Cookie=other, **FORM).status == 403, "another session"
    assert asked(busy, f"/act?offer={offer}", Cookie=cookie).status == 405, "a link changes nothing"
    assert asked(busy, "/act/policy?policy=%3Cb%3E", Cookie=cookie).status == 400
    assert policy_of(home) == before


def test_a_confirmation_holds_once_and_for_what_was_shown(home: weir.store.Store, busy: Room) -> None:
    cookie = session_of(busy)
    stale, offer = (offered(busy, cookie, "policy", policy=policy) for policy in ("user-fair", "size-fair"))
    assert asked(busy, "/act", "POST", f"offer={offer}", Cookie=cookie, **FORM).status == 200
    assert policy_of(home) == "size-fair"
    answer(home, "policy", "set", "fifo")
    assert asked(busy, "/act", "POST", f"offer={offer}", Cookie=cookie, **FORM).status == 403, "replayed"
    answer(home, "policy", "set", "job-fair")
    late = asked(busy, "/act", "POST", f"offer={stale}", Cookie=cookie, **FORM)
    assert late.status == 400
    assert "changed since you looked" in late.body
    assert policy_of(home) == "job-fair"
    answer(home, "policy", "set", "fifo")
