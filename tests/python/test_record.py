"""`weir record` on a real store: it keeps what the servers told, and `weir jobs --since` and `weir replay` read it."""

import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import weir.store
from hogged import configuration, hog_at_work, victim_at_work
from recorded import answer, command, document, known_windows, now_milliseconds, recording, words
from store import kill
from waits import wait_until
from weir.history.reading import History

BUSY_WINDOWS = 12
"""Windows of a quarter of a second in which victim and hog work."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[weir.store.Store]:
    """A store of one server under `fifo`."""
    file = tmp_path / "cluster.toml"
    file.write_text(configuration("fifo"))
    with weir.store.up(file, home=tmp_path / "home", mount=False) as store:
        yield store
        if store.home.exists():
            store.down(discard=True)


def worked(store: weir.store.Store) -> dict[str, dict[str, Any]]:
    """The jobs of the history by name."""
    return {job["job"]: job for job in document(store, "jobs", "--since", "1d")["jobs"]}


def totals_that_are_kept(store: weir.store.Store) -> dict[str, dict[str, Any]]:
    """The servers' totals of each job, once the history has all of its operations: a window is kept after its end."""
    totals: dict[str, dict[str, Any]] = {}

    def are_kept() -> bool:
        totals.update({job["job"]: job for job in document(store, "jobs", "--all")})
        jobs = worked(store)
        return all(jobs[name]["operations"] == totals[name]["operations"] for name in ("victim", "hog"))

    wait_until("all operations are kept", are_kept)
    return totals


def test_what_servers_knew_is_kept_and_shown(store: weir.store.Store) -> None:
    with recording(store) as recorder:
        with victim_at_work(store), hog_at_work(store):
            begun = now_milliseconds()
            wait_until("both have worked", lambda: known_windows(store, begun) >= BUSY_WINDOWS)
            second = answer(store, "record", "--seconds", "1", code=1)
            assert "another recorder" in second.stderr
        totals = totals_that_are_kept(store)
        recorder.send_signal(signal.SIGTERM)
        assert recorder.wait() == 0
    jobs = worked(store)
    for name in ("victim", "hog"):
        assert jobs[name]["operations"] == totals[name]["operations"]
        assert jobs[name]["written_bytes"] == totals[name]["bytes_written"]
        assert jobs[name]["device_seconds"] == pytest.approx(totals[name]["device_seconds"], abs=1e-3)
        assert jobs[name]["share_received"] == pytest.approx(totals[name]["share_received"], abs=0.1)
    assert (jobs["victim"]["user"], jobs["hog"]["user"]) == ("ada", "bob")
    assert jobs["victim"]["culprits"][0][:2] == ["hog", "bob"]
    assert jobs["victim"]["waited_seconds"] > jobs["victim"]["device_seconds"]
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(begun / 1000 + BUSY_WINDOWS / 4))
    then = document(store, "top", "--at", moment, "--interval", "2")
    assert {job["job"] for job in then["jobs"]} == {"victim", "hog"}
    assert then["until"] - then["since"] == 2.0
    assert next(each["load"] for each in then["devices"] if each["device"] == "0.0") > 0.5
    assert "2 s until then" in answer(store, "top", "--at", moment, "--interval", "2").stdout
    table = answer(store, "jobs", "--since", "1h").stdout
    assert "WAITED FOR" in table
    assert "hog" in table


def test_decisions_are_kept_with_the_moment_at_which_they_were_seen(store: weir.store.Store) -> None:
    with recording(store):
        before = time.time()
        answer(store, "policy", "set", "job-fair")

        def policies() -> list[dict[str, Any]]:
            found = document(store, "jobs", "--since", "1h")["decisions"]
            return [each for each in found if each["subject"] == "policy"]

        wait_until("the policy is seen", lambda: len(policies()) == 2)
    first, second = policies()
    assert first["value"].startswith("fifo")
    assert second["value"].startswith("job-fair")
    assert first["at"] <= before <= second["at"]


def test_findings_are_kept(store: weir.store.Store) -> None:
    def found() -> list[str]:
        return [each["subject"] for each in document(store, "jobs", "--since", "1h")["decisions"]]

    with recording(store):
        wait_until("a finding is kept", lambda: any(each.startswith("finding keeps-nothing of") for each in found()))


def test_a_recorder_that_was_killed_goes_on_where_it_was_and_counts_nothing_twice(store: weir.store.Store) -> None:
    with victim_at_work(store), hog_at_work(store):
        for _ in range(3):
            with recording(store) as recorder:
                begun = now_milliseconds()
                wait_until("some windows are kept", lambda since=begun: known_windows(store, since) >= 3)  # type: ignore[misc]
                kill(recorder.pid)
    with recording(store):
        begun = now_milliseconds()
        wait_until("the last windows are kept", lambda: known_windows(store, begun) >= 2)
        totals = totals_that_are_kept(store)
    jobs = worked(store)
    for name in ("victim", "hog"):
        assert jobs[name]["operations"] == totals[name]["operations"]
    # Servers keep a minute of windows, so a restart leaves no gap.
    history = History(store.home / "history")
    first, last = history.span() or (0, 0)
    assert history.gaps(first, last) == []
    history.close()


def test_a_server_that_is_killed_leaves_a_gap_that_is_told(store: weir.store.Store) -> None:
    with recording(store):
        [server] = (path.read_text().split()[0] for path in (store.home / "servers").glob("*/pid"))
        kill(int(server))
        wait_until("the recorder tells of it", lambda: "its windows are missing" in words(store))
        subprocess.run(command(store, "up", str(store.home.parent / "cluster.toml"), "--no-mount"), check=True)
        begun = now_milliseconds()
        wait_until("windows are kept again", lambda: known_windows(store, begun) >= 2)
    found = document(store, "jobs", "--since", "1h")
    answers = [each["value"] for each in found["decisions"] if each["subject"] == "answers"]
    assert answers == ["yes", "no", "yes"]
    inner = [gap for gap in found["gaps"] if gap["since"] > found["since"] and gap["until"] < found["until"]]
    assert inner, "the time without the server is a gap"
    assert "nothing was recorded of server 0" in answer(store, "jobs", "--since", "1h").stderr


def test_a_replay_says_what_jobs_would_have_had(store: weir.store.Store) -> None:
    with recording(store), victim_at_work(store), hog_at_work(store):
        wait_until("both are at work", lambda: {"victim", "hog"} <= worked(store).keys())
        since = int(time.time()) + 1
        wait_until("a stretch is kept", lambda: known_windows(store, since * 1000) >= BUSY_WINDOWS)
        until = since + BUSY_WINDOWS // 4
    stretch = [time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(moment)) for moment in (since, until)]
    options = ("replay", "--since", stretch[0], "--until", stretch[1])
    same = document(store, *options, "--policy", "fifo")
    other = document(store, *options, "--policy", "job-fair")
    assert same["policies"] == ["fifo by fifo"]
    assert same["gaps"] == []
    for job in same["jobs"]:
        assert job["would_have"] == job["replayed"], "the policy of then"
        assert job["streams"] == (6 if job["job"] == "hog" else 1)
    jobs = {job["job"]: job for job in other["jobs"]}
    assert jobs["victim"]["would_have"]["moved_bytes"] > 1.5 * jobs["victim"]["had"]["moved_bytes"]
    assert jobs["hog"]["would_have"]["moved_bytes"] < jobs["hog"]["had"]["moved_bytes"]
    told = answer(store, *options, "--policy", "job-fair")
    assert "replayed under fifo by fifo, the policy of then" in told.stderr
    assert "WOULD/S" in told.stdout


@pytest.mark.parametrize(
    ("arguments", "words", "code"),
    [
        (("jobs", "--since", "1h"), "there is no history", 1),
        (("replay", "--since", "1h", "--policy", "fifo"), "there is no history", 1),
        (("jobs", "--until", "1h"), "need --since", 2),
        (("jobs", "--since", "1h", "--until", "2h"), "is not after", 2),
        (("record", "--keep", "10d"), "is kept for 30d", 2),
    ],
)
def test_what_cannot_be_is_refused(store: weir.store.Store, arguments: tuple[str, ...], words: str, code: int) -> None:
    assert words in answer(store, *arguments, code=code).stderr
