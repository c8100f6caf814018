"""The guard on a real store: a hog and a victim under `fifo`, and nothing left when it ends or dies."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import weir.store
import windows as synthetic
from hogged import WINDOW_SECONDS, configuration, hog_at_work, victim_at_work
from waits import wait_until
from weir.guard import journal, watch
from weir.guard.bounds import Bounds
from weir.guard.decisions import Entry, Guard
from weir.guard.errors import GuardError
from weir.guard.forecast import Forecast
from weir.guard.observations import Observation, Predicted, Traits, Use
from weir.guard.owing import owed_by
from weir.guard.served import predicted_of
from weir.health import findings
from weir.interference import predictor
from weir.interference.collector import Collector, joined
from weir.store.answers import LeasedJob, WaitedFor
from weir.store.control import Server
from weir.store.decoding import decode
from weir.store.observations import JobKey, ObservedJob, Window
from weir.store.predictions import Predictions

MIN_QUIET = 10
"""Windows that a job needs before it is compared with its own."""
QUICK = ("--windows", "2", "--calm", "12", "--dwell", "12")
"""A busy machine stalls a hog for a second, which is no end of the cause."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[weir.store.Store]:
    """A store under `fifo`."""
    file = tmp_path / "cluster.toml"
    file.write_text(configuration("fifo"))
    with weir.store.up(file, home=tmp_path / "home", mount=False) as store:
        yield store
        if store.home.exists():
            store.down(discard=True)


def command(store: weir.store.Store, *arguments: str) -> list[str]:
    """The command line of the guard of a store."""
    return [sys.executable, "-m", "weir.cli", "--home", str(store.home), "guard", *arguments]


@contextmanager
def guarding(store: weir.store.Store, *arguments: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a guard, which writes its words into `guard.err` beside the home."""
    with said(store).open("w") as words:
        process = subprocess.Popen(command(store, *QUICK, *arguments), stderr=words)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def said(store: weir.store.Store) -> Path:
    """The file of a guard's words."""
    return store.home.parent / "guard.err"


def log(store: weir.store.Store) -> list[dict[str, Any]]:
    """The journal, as the command shows it."""
    shown = subprocess.run(command(store, "log", "--output", "json"), capture_output=True, text=True, check=True)
    found: list[dict[str, Any]] = json.loads(shown.stdout)
    return found


def is_leased(store: weir.store.Store) -> bool:
    """Whether a server has a lease."""
    return any(server.lease().is_leased for server in store.servers)


def policy_in_force(store: weir.store.Store) -> str:
    """The policy of the first server, which may be leased."""
    return store.servers[0].lease().policy


def test_a_victim_is_protected_from_a_hog_and_all_is_undone_when_the_hog_has_gone(store: weir.store.Store) -> None:
    # Nobody predicts for this store, so the windows tell the slowdown.
    with guarding(store, "--actions", "share,limit", "--served") as guard, victim_at_work(store):
        with hog_at_work(store):
            wait_until("the guard acts", lambda: policy_in_force(store) == "size-fair")
            second = subprocess.run(command(store), capture_output=True, text=True, check=False)
            assert second.returncode == 1
            assert "has a guard already" in second.stderr
        wait_until("the guard undoes it", lambda: not is_leased(store))
        guard.send_signal(signal.SIGTERM)
        assert guard.wait() == 0
    acted, *_ = lines = log(store)
    assert (acted["did"], acted["kind"], acted["victim"], acted["culprit"]) == ("acted", "share", "victim", "hog")
    assert acted["slowdown_before"] > 2
    undone = [line for line in lines if (line["did"], line["kind"]) == ("undone", "share")]
    assert undone
    # A guard that was stalled has seen no window under its action.
    seen = [line for line in undone if line["slowdown_after"] is not None]
    assert all(line["slowdown_after"] < line["slowdown_before"] for line in seen)
    assert store.servers[0].sharing().policy == "fifo"


def test_a_guard_that_is_killed_leaves_nothing_and_one_that_ends_at_once(store: weir.store.Store) -> None:
    # No stall of the hog is long enough for an end of the cause.
    patient = ("--calm", "1000", "--dwell", "1000")
    with victim_at_work(store), hog_at_work(store):
        with guarding(store, *patient) as guard:
            wait_until("the guard acts", lambda: is_leased(store))
            os.kill(guard.pid, signal.SIGKILL)
            wait_until("its death is found", lambda: "guard-died" in [each.code for each in findings(store)])
            guard.wait()
            wait_until("its lease ends", lambda: not is_leased(store))
        with guarding(store, *patient) as guard:
            wait_until("the next guard acts", lambda: is_leased(store))
            guard.send_signal(signal.SIGINT)
            assert guard.wait() == 0
            assert not is_leased(store)
    ended = [line for line in log(store) if line["reason"] == "the guard ended"]
    assert "undone" in {line["did"] for line in ended}


def guard_of(find: Callable[[], list[Server]], store: weir.store.Store, bounds: Bounds) -> watch.Watch:
    """A guard in this process."""
    folder = store.home.parent
    return watch.Watch(
        find=find,
        guard=Guard(bounds, owed_by(folder / "cluster.toml")),
        journal=journal.Journal(folder / "guard"),
        tell=lambda _line: None,
        warn=lambda _line: None,
    )


def test_a_hung_server_is_asked_once_a_turn_and_leases_on_others_are_renewed_without_windows(
    store: weir.store.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    with socket.create_server(("127.0.0.1", 0), backlog=64) as hung, victim_at_work(store), hog_at_work(store):
        hung.setblocking(False)
        silent = Server(1, f"127.0.0.1:{hung.getsockname()[1]}", 0.2, store.servers[0].access)

        def connections() -> int:
            count = 0
            with suppress(BlockingIOError):
                while True:
                    hung.accept()[0].close()
                    count += 1
            return count

        def acts() -> bool:
            guard.turn()
            asked.append(connections())
            return is_leased(store)

        guard = guard_of(lambda: [*store.servers, silent], store, Bounds(windows=2, calm=1000, dwell=1000))
        guard.begin()
        connections()
        wait_until("the guard acts", acts)
        assert set(asked) == {1}
        store.servers[0].set_lease(None, [], 0)
        monkeypatch.setattr(Collector, "take", lambda _self: [])
        wait_until("it renews the lease", acts)
        guard.end()
    assert not is_leased(store)


def test_an_action_that_a_lease_has_no_room_for_is_refused(store: weir.store.Store) -> None:
    bounds = Bounds(windows=2, calm=1000, dwell=1000, changes_per_hour=3600, kinds=("limit",))
    guard = guard_of(lambda: list(store.servers), store, bounds)
    names = [str(number) for number in range(65)]
    pairs = {number: (JobKey(f"v{number}", 7), JobKey(f"h{number}", 7)) for number in names}
    traits = [Traits(key, key.job, "group", 1, 1) for pair in pairs.values() for key in pair]
    uses = {
        number: {victim: Use(0.05, {hog: 0.9}), hog: Use(0.95, {victim: 0.05})}
        for number, (victim, hog) in pairs.items()
    }
    guard.begin()
    first = int(time.time() / WINDOW_SECONDS) - 1000
    for number in range(first, first + 1000):
        guard.guard.decide(Observation(number, WINDOW_SECONDS, "size-fair", traits, uses))
        if len(guard.guard.wanted("size-fair").shares) == len(names):
            break

    def refused() -> bool:
        guard.turn()
        return bool(guard.journal.lines())

    wait_until("the guard says so", refused)
    lines = guard.journal.lines()
    assert {(line["did"], line["reason"]) for line in lines} == {("refused", "a lease has at most 64 jobs")}


def told(store: weir.store.Store, *words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run a command that shows the store."""
    line = [sys.executable, "-m", "weir.cli", *words]
    environment = {**os.environ, "WEIR_HOME": str(store.home), **variables}
    return subprocess.run(line, env=environment, capture_output=True, text=True, check=True)


def test_a_lease_in_force_is_shown_with_the_policy_the_state_and_the_jobs(
    store: weir.store.Store, tmp_path: Path
) -> None:
    (server,) = store.servers
    with victim_at_work(store):
        wait_until("the job is known", lambda: any(job.job == "victim" and job.active for job in server.jobs()))
        server.set_lease("size-fair", [LeasedJob("victim", os.getuid(), weight=2.0, limit=0.5)], 60.0)
        (shown,) = json.loads(told(store, "policy", "show", "--output", "json").stdout)["servers"]
        (state,) = json.loads(told(store, "status", "--output", "json").stdout)["servers"]
        (job,) = json.loads(told(store, "jobs", "--output", "json").stdout)
        table = told(store, "jobs")
        words = told(store, "policy", "show").stdout, told(store, "status").stdout
        (tmp_path / "other").mkdir(mode=0o700)
        other = {"WEIR_HOME": str(tmp_path / "other"), "WEIR_CLUSTER": str(store.home / "cluster.json")}
        (hidden,) = json.loads(told(store, "jobs", "--output", "json", **other).stdout)
        server.set_lease(None, [], 0)
        (after,) = json.loads(told(store, "policy", "show", "--output", "json").stdout)["servers"]
    assert (shown["policy"], shown["lease"]["policy"]) == ("fifo", "size-fair"), "the site's own, and the lease"
    assert state["lease"]["scheduler"] == "virtual-time"
    assert 0 < state["lease"]["seconds"] <= 60
    assert job["lease"] == {"job": "victim", "uid": os.getuid(), "weight": 2.0, "limit": 0.5, "avoid": []}
    assert "weight 2, limit 50%" in table.stdout
    assert "a lease is in force on server 0: size-fair by virtual-time for " in table.stderr
    assert all("size-fair by virtual-time for " in each and "1 job with terms" in each for each in words)
    assert (hidden["job"], hidden["lease"]) == ("victim", None), "a lease names jobs, which are nobody else's business"
    assert after["lease"] is None


def test_a_job_that_is_left_alone_is_told_on_the_terminal_and_in_the_journal(store: weir.store.Store) -> None:
    with victim_at_work(store), hog_at_work(store), guarding(store, "--actions", "avoid") as guard:
        wait_until("the guard says why it does nothing", lambda: bool(log(store)))
        guard.send_signal(signal.SIGTERM)
        assert guard.wait() == 0
    line = log(store)[0]
    assert (line["did"], line["kind"], line["victim"]) == ("left alone", None, "victim")
    assert "none of the actions avoid can help" in line["reason"]
    assert "left alone: victim (ada) was slowed" in said(store).read_text()
    table = subprocess.run(command(store, "log"), capture_output=True, text=True, check=True).stdout
    assert "left alone" in table


def test_a_dry_run_does_nothing_and_says_so(store: weir.store.Store) -> None:
    with victim_at_work(store), hog_at_work(store), guarding(store, "--dry-run") as guard:
        wait_until("it would act", lambda: bool(log(store)))
        assert not is_leased(store)
        guard.send_signal(signal.SIGTERM)
        assert guard.wait() == 0
    assert "would have acted: share size-fair for victim (ada) against hog (bob)" in said(store).read_text()
    assert all(line["is_dry_run"] for line in log(store))


def test_a_model_sees_a_hog_in_the_windows_of_a_job_it_was_not_trained_on(
    store: weir.store.Store, tmp_path: Path
) -> None:
    model = tmp_path / "model.json"
    predictor.save(predictor.train(synthetic.made(1, windows=24)), model)

    seen: dict[int, Window] = {}

    def look() -> None:
        # A server keeps its last windows alone.
        told = store.servers[0].windows(max(seen, default=0)).windows
        seen.update((each.number, each) for each in told if any(job.job == "victim" for job in each.jobs))

    def slowed() -> list[int]:
        look()
        joined_windows = [joined(number, [window], "victim", "run", "work") for number, window in seen.items()]
        times = [(each.number, each.device_seconds, each.waited_seconds) for each in joined_windows]
        return [number for number, received, waited in times if received and (received + waited) / received >= 2]

    def quiet() -> bool:
        look()
        return len(seen) >= MIN_QUIET + 2

    with victim_at_work(store):
        wait_until("the job has quiet windows", quiet)
        with hog_at_work(store):
            wait_until("windows in which the hog slows the job", lambda: len(slowed()) >= 3)
    forecast, hit = Forecast(model), slowed()
    predicted = {number: forecast.predict(number, [window]) for number, window in sorted(seen.items())}
    victim = JobKey("victim", os.getuid())
    assert max(predicted[number].get(victim, Predicted(1.0)).slowdown for number in hit) == 2.0
    assert not forecast.predict(max(seen) + 1, []), "no job, no prediction"


def test_predictions_that_servers_show_are_read_and_old_or_doubtful_ones_are_not() -> None:
    def job(name: str, *horizons: tuple[int, str, float]) -> dict[str, object]:
        told = [
            {"ahead": ahead, "slowdown": slowdown, "probability": part, "probabilities": []}
            for ahead, slowdown, part in horizons
        ]
        waits = {"device_seconds": 1.0, "waited_seconds": 0.0, "waited_ratio": 0.0, "responsible": []}
        driven_by = [{"feature": "io_seconds", "server": "0.1"}, {"feature": "rank_rate", "server": None}]
        return {"job": name, "user": "u", "uid": 7, "basis": "trees", "horizons": told, "driven_by": driven_by, **waits}

    jobs = [
        job("calm", (0, "below 2", 0.9)),
        job("soon", (0, "below 2", 0.9), (1, "2 to 5", 0.6), (2, "from 5", 0.9)),
        job("slow", (0, "from 5", 0.8), (1, "2 to 5", 0.8)),
        job("doubtful", (0, "from 5", 0.4)),
        job("new", (0, "not known", 1.0)),
    ]
    predictions = decode(Predictions, {"window": 70, "window_seconds": 1.0, "missing": [], "jobs": jobs})
    slowdowns = {"calm": 1.0, "soon": 2.0, "slow": 5.0}
    expected = {JobKey(name, 7): Predicted(slowdown, ("0.1",)) for name, slowdown in slowdowns.items()}
    assert predicted_of(predictions, 70) == predicted_of(predictions, 72) == expected
    assert predicted_of(predictions, 73) == {}


def test_only_the_holder_of_the_key_guards_a_store(store: weir.store.Store, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir(mode=0o700)
    other_home = {"WEIR_HOME": str(tmp_path / "other"), "WEIR_CLUSTER": str(store.home / "cluster.json")}
    environment = {**os.environ, **other_home}
    other = [sys.executable, "-m", "weir.cli", "guard"]
    refused = subprocess.run(other, env=environment, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "permission denied: only a user who can read the key" in refused.stderr


def entry(number: int) -> Entry:
    """Some entry."""
    jobs: dict[str, Any] = {
        "victim": "v",
        "victim_user": "u",
        "victim_uid": 7,
        "culprit": "c",
        "culprit_user": "w",
        "culprit_uid": 8,
    }
    return Entry(did="acted", kind="limit", **jobs, reason=str(number), value=0.5, slowdown_before=3.0)


def test_the_journal_is_bounded_and_a_line_that_was_cut_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "BYTES_MAX", 2000)
    kept = journal.Journal(tmp_path / "guard")
    assert kept.lines() == []
    for number in range(100):
        kept.add([entry(number)], number, is_dry_run=False)
    lines = kept.lines()
    assert 10 <= len(lines) < 40
    assert [line["window"] for line in lines] == list(range(100 - len(lines), 100)), "the oldest have gone"
    files = sorted((tmp_path / "guard").iterdir())
    assert len(files) == 2
    assert all(file.stat().st_size < 3000 for file in files)
    with files[1].open("a") as file:
        file.write('{"time": 3, "did": "acted", "victim": "v"}\n{"time": 3, "did"')
    assert kept.lines() == lines, "a line of another form is left out, too"
    files[1].write_bytes(b"\xff")
    with pytest.raises(GuardError, match="cannot read"):
        kept.lines()


def test_uses_are_parts_of_a_window_and_jobs_of_one_name_are_apart_by_user() -> None:
    counts = {"reads": 0, "writes": 0, "read_bytes": 0, "written_bytes": 0, "stats": 0, "opens": 0, "closes": 0}
    counts |= {"lists": 0, "makes": 0, "removes": 0, "renames": 0, "changes": 0}

    def line(job: JobKey, received: float, waited: dict[JobKey, float]) -> ObservedJob:
        waits = tuple(WaitedFor(other.job, "somebody", other.uid, seconds) for other, seconds in waited.items())
        return ObservedJob(
            job=job.job,
            user="somebody",
            uid=job.uid,
            device="0.0",
            request_seconds=0.0,
            device_seconds=received,
            waited_for=waits,
            waited_for_others_seconds=0.1,
            **counts,
        )

    one, same_name, other = JobKey("a", 7), JobKey("a", 8), JobKey("b", 7)
    jobs = (line(one, 0.5, {same_name: 0.2, other: 0.4}), line(same_name, 0.3, {other: 0.2}))
    uses = watch.uses_of([Window(7, (), jobs, 0)], 2.0)["0.0"]
    assert {job: use.received for job, use in uses.items()} == pytest.approx({one: 0.25, same_name: 0.15})
    assert uses[one].waited_for == pytest.approx({same_name: 0.1, other: 0.2})
    assert (uses[one].waited_for_others, uses[one].waited) == pytest.approx((0.05, 0.35))
