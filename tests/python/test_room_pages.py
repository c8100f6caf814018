"""The pages of the room as plain data, over a made-up history: sums, hidden names, and who has which role."""

import grp
import json
import math
import os
import pwd
import random
import re
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import histories
import planned
import pytest
from waits import PATIENCE_SECONDS, wait_until
from weir.guard.decisions import Entry
from weir.guard.journal import FOLDER, Journal
from weir.health.codes import Finding, found
from weir.history.database import Database
from weir.history.judgements import Judgements
from weir.history.reading import History
from weir.history.samples import Decisions, Sample
from weir.history.tables import STATES
from weir.planner.protocol import Pool, State, Summary
from weir.provisioning.lifecycle.execution import jobs_folder
from weir.provisioning.objectives.sslos import Guarantees, System
from weir.provisioning.outcomes import archive
from weir.provisioning.outcomes.outcome import Calls, Outcome
from weir.room.changes.offers import OFFERS_MAX, Offers, Proposal, check_right
from weir.room.doors import SESSIONS_MAX, Rights, Sessions
from weir.room.errors import ForbiddenError, RoomError
from weir.room.figures import FIGURES, circle, figure
from weir.room.html import Templates, cells, words
from weir.room.looks import Look, look_at
from weir.room.pages import adaptive, interference, job, jobs, outcomes, placement, store, waits
from weir.room.pages.plans import deployments_panel, pools_panel
from weir.room.panels import ROWS_MAX, Link, Mark, Page, table_of
from weir.room.sources import ANSWERS_MAX, Sources
from weir.room.visitors import HIDDEN, Role, Visitor
from weir.store import step_journal
from weir.store.errors import StoreError
from weir.store.home import Home
from weir.store.step_journal import StepEntry, TierEntry

SECONDS, SEED = 60, 5
UNTIL = (histories.BEGIN + SECONDS) * 1000
SERVERS, TARGETS, JOBS = 300, 3_600, 1_000
"""A store as large as a centre's."""
PAGE_BYTES_MAX = 2_000_000
LOOK = Look("then", "1m", UNTIL)
ADMINISTRATOR = Visitor("root", Role.ADMINISTRATOR, sees_all=True)
BOB = Visitor("bob", Role.VIEWER, sees_all=False)
OWNERS = (("ada", "job-0"), ("bob", "hog"))
STRANGER = Visitor("carol", Role.VIEWER, sees_all=False)


def nothing_up() -> list[Any]:
    """The search for servers where no store is up."""
    raise StoreError("no store is up", hint="`weir up` starts one")


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sources]:
    """A minute of three jobs of ada, each of which waits for the hog of bob; no store is up."""
    folder = tmp_path_factory.mktemp("history")
    database = Database(folder, bytes_max=1 << 30)
    generator = random.Random(SEED)
    for number in range(histories.BEGIN, histories.BEGIN + SECONDS):
        database.add(histories.sample(number, generator))
    database.close()
    home = Home(tmp_path_factory.mktemp("home"))
    journals = home.step_journals
    for number in range(20):
        step_journal.JOURNAL.add(journals, step(number, "job-0", "ada"))
        step_journal.JOURNAL.add(journals, step(number, "hog", "bob", is_late=number % 4 == 0))
    for path in journals.iterdir():
        os.utime(path, (UNTIL / 1000, UNTIL / 1000))
    yield Sources(nothing_up, folder, list, home)


def step(number: int, job: str, user: str, *, is_late: bool = False) -> StepEntry:
    """A step of a stream: each second one gets more than the interval of its forecast."""
    achieved = 3e8 if number % 2 else 1e8
    fast = TierEntry(f"/{user}/run", None, None, None, 1e9)
    shared = TierEntry(f"s3://{user}/run", 1e8 if number else None, 5e7, 2e8, achieved)
    return StepEntry(
        at=UNTIL / 1000 - 20 + number,
        job=job,
        user=user,
        host="node",
        pid=len(job),
        stream=fast.name,
        step=number,
        rmse=1e-4,
        max_error=1e-3 / (number + 1),
        read_bytes=500,
        whole_bytes=1000,
        augmentation=0.4,
        seconds=0.2,
        waited_seconds=0.1 * number,
        deadline_seconds=2.0,
        is_late=is_late,
        tiers=(fast, shared),
    )


def texts(page: Page) -> list[str]:
    """All texts of the tables of a page."""
    tables = [panel.table for panel in page.panels if panel.table is not None]
    cells = [each for table in tables for row in table.rows for each in row]
    return [each if isinstance(each, str) else each.text for each in cells]


def test_jobs_and_waits_are_those_of_the_history(sources: Sources) -> None:
    found = {past.job: past for past in sources.past_jobs(LOOK)}
    page = jobs.page(sources, LOOK, ADMINISTRATOR)
    (table,) = [panel.table for panel in page.panels if panel.table is not None]
    named = [row[0].text for row in table.rows if isinstance(row[0], Link)]
    assert sorted(named) == ["job-0", "job-1", "job-2"]
    pairs = waits.page(sources, LOOK, ADMINISTRATOR)
    assert texts(pairs).count("hog") == 3
    longest = max(found.values(), key=lambda past: past.culprits[0][2] if past.culprits else 0.0)
    (rows,) = [panel.table.rows for panel in pairs.panels if panel.table is not None]
    assert isinstance(rows[0][0], Link)
    assert rows[0][0].text == longest.job


def test_streams_have_their_accuracy_and_their_forecasts(sources: Sources) -> None:
    first = adaptive.page(sources, LOOK, ADMINISTRATOR).panels[0]
    assert first.table is not None
    rows = {row[0]: row[2:] for row in first.table.rows}
    assert set(rows) == {"/ada/run", "/bob/run"}
    assert rows["/bob/run"][:3] == ("bob", "20", "19")
    assert rows["/bob/run"][4:] == ("5e-05", "9.8 KiB", "50.0%", "1.9 s", "5", "50.0%")
    errors = figure("accuracy", sources, LOOK, ADMINISTRATOR, {})["data"]["values"]
    assert [row["value"] for row in errors if row["stream"] == "/ada/run job-0"] == [
        1e-3 / (number + 1) for number in range(20)
    ]
    told = figure("forecasts", sources, LOOK, ADMINISTRATOR, {})["data"]["values"]
    assert {row["what"] for row in told} == {f"tier 2, s3://{who}/run, of /{who}/run {job}" for who, job in OWNERS}
    assert [row["step"] for row in told if "ada" in row["what"]] == list(range(1, 20)), "the first has no forecast"
    assert all((row["low"], row["forecast"], row["high"]) == (5e7, 1e8, 2e8) for row in told)
    earlier = adaptive.page(sources, LOOK.moved(-1), ADMINISTRATOR)
    assert not texts(earlier)
    assert "weir run" in earlier.panels[0].none


def test_readings_that_are_alike_have_names_of_their_own() -> None:
    many = [replace(step(0, "a" * 99, "ada"), stream="/" + "x" * 99, pid=pid) for pid in range(30)]
    named = adaptive.labelled(adaptive.readings_of(many))
    assert len(named) == 30
    assert all(len(name) < 120 for name in named)


PAGES = [store.page, jobs.page, waits.page, interference.page, placement.page, adaptive.page]


@pytest.mark.parametrize("make", PAGES)
def test_a_viewer_sees_the_own_names_alone(sources: Sources, make: Any) -> None:
    for visitor, hidden in ((STRANGER, ("job-0", "hog", "ada", "bob")), (BOB, ("job-0", "ada"))):
        shown = " ".join(texts(make(sources, LOOK, visitor)))
        assert not [name for name in hidden if name in shown]
    for name in FIGURES:
        if name != "job":
            drawn = json.dumps(figure(name, sources, LOOK, STRANGER, {}))
            assert "job-0" not in drawn
            assert "hog" not in drawn
    assert HIDDEN in texts(jobs.page(sources, LOOK, STRANGER))
    assert "hog" in texts(waits.page(sources, LOOK, BOB))


def test_a_viewer_opens_the_own_job_alone(sources: Sources) -> None:
    with pytest.raises(RoomError, match="of another user"):
        job.page(sources, LOOK, BOB, "job-0", "ada")
    with pytest.raises(RoomError, match="of another user"):
        figure("job", sources, LOOK, BOB, {"name": "job-0", "user": "ada"})
    ada = Visitor("ada", Role.VIEWER, sees_all=False)
    page = job.page(sources, LOOK, ada, "job-0", "ada")
    assert page.title == "Job job-0"
    assert HIDDEN in texts(page), "bob's hog"
    with pytest.raises(RoomError, match="names jobs of other users"):
        job.report(sources, LOOK, ada, "job-0", "ada")


def test_a_store_that_is_down_has_pages_of_the_past(sources: Sources) -> None:
    live = look_at({})
    assert [note.text for note in store.page(sources, live, ADMINISTRATOR).notes] == [
        "no store is up; `weir up` starts one"
    ]
    assert jobs.page(sources, live, ADMINISTRATOR).notes
    assert not store.page(sources, LOOK, ADMINISTRATOR).notes


def test_the_load_of_a_device_is_that_of_each_second(sources: Sources, monkeypatch: pytest.MonkeyPatch) -> None:
    # At that moment the history kept single windows.
    monkeypatch.setattr("weir.room.looks.time", SimpleNamespace(time=lambda: UNTIL / 1000 + 5))
    document = figure("targets", sources, LOOK, ADMINISTRATOR, {"measure": "load"})
    drawn = {row["at"]: row["value"] for row in document["data"]["values"] if row["device"] == "0.0"}
    generator = random.Random(SEED)
    told = [histories.window(number, generator, 3) for number in range(histories.BEGIN, histories.BEGIN + SECONDS)]
    assert drawn == {
        each.number * 1000: pytest.approx(device.busy_milliseconds.sum / 1000)
        for each in told
        for device in each.devices
        if device.device == "0.0"
    }


def test_a_thousand_jobs_on_3600_targets_have_bounded_pages(tmp_path: Path) -> None:
    generator, database = random.Random(SEED), Database(tmp_path, bytes_max=1 << 30)
    for number in range(histories.BEGIN, histories.BEGIN + 3):
        sample = Sample((number + 1) * 1000, 1000)
        for server in range(SERVERS):
            named = histories.window(number, generator, 0)
            (device, *_) = named.devices
            devices = tuple(replace(device, device=f"{server}.{index}") for index in range(TARGETS // SERVERS))
            made = (histories.line(f"job-{job}", generator) for job in range(server, JOBS, SERVERS))
            lines = tuple(replace(line, device=f"{server}.{generator.randrange(len(devices))}") for line in made)
            sample.add_windows(number, [replace(named, devices=devices, jobs=lines)], {})
        database.add(sample)
    database.close()
    large = Sources(nothing_up, tmp_path, list, Home(tmp_path))
    look = Look("then", "1m", (histories.BEGIN + 3) * 1000)
    for make in (store.page, jobs.page, waits.page, interference.page, placement.page):
        page = make(large, look, ADMINISTRATOR)
        assert all(len(panel.table.rows) <= ROWS_MAX for panel in page.panels if panel.table is not None)
        assert len(Templates().render("panels.html", page=page, look=look, changes=())) < PAGE_BYTES_MAX
    (past,) = [panel.table for panel in jobs.page(large, look, ADMINISTRATOR).panels if panel.name == "past"]
    assert past is not None
    assert len(past.rows) == JOBS, "and no job is left out"
    for name in FIGURES:
        if name != "job":
            assert len(json.dumps(figure(name, large, look, ADMINISTRATOR, {}))) < PAGE_BYTES_MAX, name


def test_the_health_of_a_target_is_that_of_its_states(tmp_path: Path) -> None:
    database = Database(tmp_path, bytes_max=1 << 30)
    told = {"0.0": (5, None, 0), "0.1": (5, 1, 0), "0.2": (9, 1, 0), "0.3": (9, None, 1)}
    sample = Sample(UNTIL, 1000)
    sample.rows[STATES] = [
        (0, UNTIL - 20_000, name, used, 9, slow_since, failed, *[None] * 4)
        for name, (used, slow_since, failed) in told.items()
    ]
    database.add(sample)
    database.close()
    document = figure(
        "targets", Sources(nothing_up, tmp_path, list, Home(tmp_path)), LOOK, ADMINISTRATOR, {"measure": "health"}
    )
    drawn = {row["device"]: row["state"] for row in document["data"]["values"]}
    assert drawn == {"0.0": "works", "0.1": "slow", "0.2": "full", "0.3": "failed"}


def test_arrows_lead_from_who_waited_to_who_was_served() -> None:
    nodes, arrows = circle(["a", "b", "c"], {("a", "b"): 2.0, ("b", "a"): 1.0, ("c", "c"): 9.0})
    assert [node["name"] for node in nodes] == ["a", "b", "c"]
    assert (nodes[0]["x"], nodes[0]["y"]) == (0.0, 1.0)
    there, back = arrows
    assert (there["job"], there["for"], there["value"]) == ("a", "b", 2.0)
    places = {node["name"]: (node["x"], node["y"]) for node in nodes}
    assert math.dist((there["x"], there["y"]), places["a"]) < math.dist((there["x"], there["y"]), places["b"])
    assert math.dist((there["x2"], there["y2"]), (back["x"], back["y"])) > 0.05, "both are seen"
    assert (there["angle"] - back["angle"]) % 360 == pytest.approx(180)


def test_many_visitors_ask_the_history_once(sources: Sources) -> None:
    asked: list[int] = []

    def count(_: History) -> int:
        asked.append(1)
        return len(asked)

    assert [sources.kept(("count", 1), count) for _ in range(5)] == [1] * 5
    assert sources.kept(("count", 2), count) == 2
    for number in range(ANSWERS_MAX):
        sources.kept(("other", number), count)
    assert sources.kept(("count", 1), count) == len(asked) > ANSWERS_MAX


def test_an_empty_folder_is_no_history(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    empty = Sources(nothing_up, tmp_path, list, Home(tmp_path))
    with empty.history() as history:
        assert history is None
    assert all(figure(name, empty, LOOK, ADMINISTRATOR, {}) is None for name in FIGURES if name != "job")
    with pytest.raises(RoomError, match="no history"):
        job.page(empty, LOOK, ADMINISTRATOR, "a", "b")


def test_deployments_are_those_of_the_stretch_and_hidden_from_others() -> None:
    def summary(name: str, state: State, changed: float) -> Summary:
        return Summary(name=name, uid=0, job="run.sh", state=state, changed=changed, size_bytes=1 << 30, nodes=("n1",))

    now = UNTIL / 1000
    found = [summary("old", "ended", now - 90), summary("new", "ended", now - 5), summary("kept", "ready", now - 90)]
    shown = deployments_panel(found, LOOK, ADMINISTRATOR).table
    assert shown is not None
    assert [row[0] for row in shown.rows] == ["new"]
    live = deployments_panel([*found, summary("bad", "failed", now)], look_at({}), ADMINISTRATOR).table
    assert live is not None
    assert {row[0]: row[3].text for row in live.rows if isinstance(row[3], Mark)} == {"kept": "ready", "bad": "failed"}
    hidden = deployments_panel(found, LOOK, STRANGER).table
    assert hidden is not None
    assert [row[:3] for row in hidden.rows] == [(HIDDEN, "-", "-")]


def test_findings_come_first_with_what_mends_them(sources: Sources) -> None:
    full = Finding("target-full", "error", "target 0.1", "it is full", None, "writes fail", "weir target add 0")
    judged = Sources(nothing_up, sources.folder, lambda: [full], Home(sources.folder))
    first = store.page(judged, look_at({}), ADMINISTRATOR).panels[0]
    assert first.title == "Findings"
    assert first.table is not None
    assert first.table.rows[0][1:3] == ("target 0.1", "it is full [target-full]")
    assert first.table.rows[0][-1] == "weir target add 0"


def test_a_viewer_sees_the_kind_of_findings_about_others(sources: Sources) -> None:
    near = found("quota-near", "user ada", "it has 9 of 10 inodes", kind="user", owner=7, what="inodes", more=20)
    blocked = found("job-blocked", "job hog of bob", "it is connected", start="weir up")
    told = found("target-full", "target 0.1", "it is full")
    judged = Sources(nothing_up, sources.folder, lambda: [near, blocked, told], Home(sources.folder))
    assert "user ada" in texts(store.page(judged, look_at({}), ADMINISTRATOR))
    shown = store.page(judged, look_at({}), STRANGER).panels[0].table
    assert shown is not None
    assert [row[1] for row in shown.rows] == ["-", "-", "target 0.1"]
    assert not [each for each in texts(store.page(judged, look_at({}), STRANGER)) if re.search(r"ada|hog|bob", each)]


def test_findings_of_the_past_are_those_between_their_begin_and_their_end(tmp_path: Path) -> None:
    full = Finding("target-full", "error", "target 0.1", "it holds 9 GiB", None, "writes fail", "weir target add 0")
    near = Finding("quota-near", "warning", "user ada", "it has 91 %", None, "its writes fail soon", "weir quota set")
    before: Decisions = {}
    database = Database(tmp_path, bytes_max=1 << 30)
    for turn, told in enumerate(([full], [replace(full, cause="it holds 10 GiB"), near], [near], [])):
        judgements = Judgements(lambda told=told: told)  # type: ignore[misc]
        assert judgements.last(PATIENCE_SECONDS) == told
        sample = Sample((histories.BEGIN + turn) * 1000, 1000)
        sample.add_findings(judgements.values() or {}, before)
        database.add(sample)
    database.close()
    past = Sources(nothing_up, tmp_path, list, Home(tmp_path))

    def at(turn: int, visitor: Visitor) -> list[str]:
        page = store.page(past, Look("then", "1m", (histories.BEGIN + turn) * 1000 + 500), visitor)
        (table,) = [panel.table for panel in page.panels if panel.name == "findings"]
        return [] if table is None else [str(row[2]) for row in table.rows]

    assert at(0, ADMINISTRATOR) == ["it holds 9 GiB [target-full]"]
    assert len(at(1, ADMINISTRATOR)) == 2
    assert at(2, ADMINISTRATOR) == ["it has 91 % [quota-near]"]
    assert at(3, ADMINISTRATOR) == []
    assert "91 %" not in at(2, BOB)[0]


def test_a_store_that_was_not_judged_yet_is_not_well(sources: Sources) -> None:
    ended = threading.Event()

    def slow() -> list[Finding]:
        ended.wait(PATIENCE_SECONDS)
        return []

    looking = Sources(nothing_up, sources.folder, slow, Home(sources.folder))
    assert store.page(looking, look_at({}), ADMINISTRATOR).panels[0].none.startswith("the first look")
    ended.set()
    wait_until("it is over", lambda: looking.judgements.last() == [])
    assert store.page(looking, look_at({}), ADMINISTRATOR).panels[0].none == "nothing is wrong"


def test_a_store_that_cannot_be_judged_is_not_well(sources: Sources) -> None:
    blind = Sources(nothing_up, sources.folder, nothing_up, Home(sources.folder))
    first = store.page(blind, look_at({}), ADMINISTRATOR).panels[0]
    assert first.none == "the store cannot be judged: no store is up; `weir up` starts one"


def test_a_cause_is_kept_as_it_was_first_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weir.history.judgements.EVERY_SECONDS", 0.0)
    percents = iter(range(90, 1 << 30))
    near = Finding("quota-near", "warning", "user ada", "", None, "its writes fail soon", "weir quota set")
    judgements = Judgements(lambda: [replace(near, cause=f"it has {next(percents)} %")])
    wait_until("many judgements were made", lambda: judgements.values() is not None and next(percents) > 100)
    assert judgements.values() == {"finding quota-near of user ada": "warning: it has 90 %"}


def test_moments_move_by_stretches_and_never_ahead() -> None:
    earlier = LOOK.moved(-1)
    assert earlier.until == UNTIL - 60_000
    assert look_at(earlier.query).until == earlier.until
    assert look_at({"span": "1h"}).moved(1).is_live
    for query in ({"span": "5y"}, {"at": "25:99"}, {"at": "2099-01-01"}):
        with pytest.raises(RoomError):
            look_at(query)


def test_rows_are_bounded_and_the_rest_is_told() -> None:
    table = table_of(("job",), [("x",)] * (ROWS_MAX + 7))
    assert (len(table.rows), table.further) == (ROWS_MAX, 7)


def test_texts_are_escaped() -> None:
    hostile = "<script>\u202e\"'&\n"
    assert cells([hostile]) == "<td>&lt;script&gt;\\u202e&#34;&#39;&amp;\\n</td>"
    link = cells([Link(hostile, "job", {"name": '"><b>'}), Mark(hostile, "bad")])
    assert "<b>" not in link
    assert "<script>" not in link
    assert words("say `<b>`") == "say <code>&lt;b&gt;</code>"
    page = Templates().render("error.html", status=400, message=hostile, hint=hostile)
    assert "<script>" not in page.replace("<script src=", "")


def peer_of(rights: Rights, **headers: str) -> Visitor | None:
    """The visitor at the other end of a Unix socket, which is this process."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        return rights.visitor_of_socket(ours, headers)


def test_the_kernel_names_the_owner_an_administrator() -> None:
    visitor = peer_of(Rights())
    assert visitor is not None
    assert visitor.user == pwd.getpwuid(os.geteuid()).pw_name
    assert visitor.role is Role.ADMINISTRATOR
    assert visitor.sees("anybody")


def test_a_header_counts_from_the_proxy_alone() -> None:
    own = pwd.getpwuid(os.geteuid()).pw_name
    other = next(each for each in pwd.getpwall() if each.pw_uid not in (0, os.geteuid()))
    group = grp.getgrgid(other.pw_gid).gr_name
    rights = Rights({Role.OPERATOR: group}, "X-User", own)
    named = peer_of(rights, **{"X-User": other.pw_name})
    assert named == Visitor(other.pw_name, Role.OPERATOR, sees_all=True)
    viewer = peer_of(Rights({}, "X-User", own), **{"X-User": other.pw_name})
    assert viewer == Visitor(other.pw_name, Role.VIEWER, sees_all=False)
    assert peer_of(rights) is None, "the proxy itself is nobody"
    assert peer_of(rights, **{"X-User": "no such user"}) is None
    forged = peer_of(Rights({}, "X-User", other.pw_name), **{"X-User": other.pw_name})
    assert forged is not None
    assert forged.user == own, "somebody else writes the header"


def test_sessions_need_the_token_and_are_bounded() -> None:
    sessions = Sessions()
    assert sessions.begin("forged") is None
    assert sessions.begin("\udcff") is None
    assert sessions.visitor_of("forged") is None
    first = sessions.begin(sessions.token)
    assert first is not None
    assert sessions.visitor_of(first) is not None
    for _ in range(SESSIONS_MAX):
        sessions.begin(sessions.token)
    assert sessions.visitor_of(first) is None
    assert Sessions().begin(sessions.token) is None, "the token of another start"


def test_an_offer_is_its_owners_and_holds_once() -> None:
    offers = Offers()
    proposal = Proposal(Page("change", ()), "change", lambda: Page("changed", ()))
    name = offers.add("ada", proposal)
    with pytest.raises(ForbiddenError):
        offers.take("bob", name)
    with pytest.raises(ForbiddenError):
        offers.take("ada", name)
    name = offers.add("ada", proposal)
    assert offers.take("ada", name) is proposal
    first = offers.add("ada", proposal)
    for _ in range(OFFERS_MAX):
        offers.add("ada", proposal)
    with pytest.raises(ForbiddenError):
        offers.take("ada", first)


def test_a_viewer_changes_nothing() -> None:
    with pytest.raises(ForbiddenError, match="a viewer may not"):
        check_right(BOB, Role.OPERATOR)
    check_right(ADMINISTRATOR, Role.OPERATOR)
    check_right(Visitor("ada", Role.OPERATOR, sees_all=True), Role.OPERATOR)


def test_the_guard_is_shown_with_its_reasons(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.root.mkdir(mode=0o700)
    entry = Entry(
        did="acted",
        kind="weight",
        value=2.0,
        victim="job-0",
        victim_user="ada",
        victim_uid=5,
        culprit="hog",
        culprit_user="bob",
        culprit_uid=7,
        slowdown_before=3.5,
        slowdown_after=None,
        reason="job-0 waits for hog",
    )
    (line,) = Journal(home.root / FOLDER).add([entry], 7, is_dry_run=False)
    look = Look("then", "1m", round(line["time"] * 1000) + 1_000)
    sources = Sources(nothing_up, tmp_path, list, home)

    def shown(visitor: Visitor) -> list[str]:
        page = interference.page(sources, look, visitor)
        (table,) = [panel.table for panel in page.panels if panel.name == "guard"]
        assert table is not None
        return [str(each) for each in table.rows[0][1:]]

    assert shown(ADMINISTRATOR) == ["acted", "weight 2.00", "job-0", "hog", "3.50", "-", "job-0 waits for hog"]
    assert shown(STRANGER) == ["acted", "weight 2.00", HIDDEN, HIDDEN, "3.50", "-", "-"]


def test_runs_stand_beside_what_their_plans_expected(tmp_path: Path) -> None:
    identity = planned.writer(written_bytes=10**10, processes=4, seconds=100.0)
    home = Home(tmp_path / "home")
    folder = jobs_folder(home.root)
    folder.mkdir(mode=0o700)
    for begun, rate in ((UNTIL / 1000 - 30, 0.5e9), (UNTIL / 1000 - 20, 1.1e9), (UNTIL / 1000 - 900, 1e9)):
        archive.keep(
            archive.file_of(folder),
            Outcome(
                begun=begun,
                job="0" * 32,
                behaviour_class="writers",
                sslo="write-ssd",
                system=System(device="ssd", servers=2),
                planned=identity,
                done=identity,
                predicted=Guarantees(write_bytes_per_second=1e9),
                calls={"write": Calls(operations=10**4, bytes=10**10, seconds=10**10 / rate)},
                covered=1.0,
            ),
        )
    sources = Sources(nothing_up, tmp_path, list, home)
    table = outcomes.panel_of(sources, LOOK, ADMINISTRATOR).table
    assert table is not None
    assert [row[5] for row in table.rows] == ["write 110%", Mark("write 50%", "odd")]
    assert outcomes.panel_of(sources, LOOK, BOB).table is None
    pools = pools_panel([Pool(name="ssd", total_bytes=400, free_bytes=100, granularity_bytes=10)]).table
    assert pools is not None
    assert pools.rows[0][3] == "75.0%"
