"""The pure parts of the experiments: what policies owe, the arithmetic of windows, and what is written of it."""

import csv
import itertools
import json
import math
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import answers
import pytest
from hypothesis import given
from hypothesis import strategies as st
from waits import PATIENCE_SECONDS
from weir.experiments import convergence, figures, hierarchy, records, windows
from weir.experiments.jobs import Job, Run, coarser
from weir.experiments.policies import shares_owed, shares_owed_by_device
from weir.experiments.sampling import between
from weir.experiments.windows import Account, Done, Sample
from weir.plots import experiments as pictures

POLICIES = ["job-fair", "size-fair", "user-fair", "priority-fair", "group-fair", "user-then-size-fair"]
POLICIES += ["group-then-user-then-size-fair", "group-then-user-then-priority-fair", "user-then-size-then-job-fair"]
IDLE = Done(0, 0, 0, 0)


def job(name: str, **claims: Any) -> Job:
    return Job(name, processes=4, **{"seconds": 4.0, **claims})


@st.composite
def some_jobs(draw: st.DrawFn) -> list[Job]:
    small = st.integers(1, 9)
    return [
        job(
            f"job-{number}",
            user=f"u{draw(small) % 3}",
            group=f"g{draw(small) % 2}",
            nodes=draw(small),
            priority=draw(small),
        )
        for number in range(draw(st.integers(1, 9)))
    ]


class TestPolicies:
    def test_fifo_owes_nobody_anything(self) -> None:
        assert shares_owed("fifo", [job("a"), job("b")]) is None

    def test_a_level_that_does_not_exist_is_an_error(self) -> None:
        with pytest.raises(ValueError, match="level `planet`"):
            shares_owed("user-then-planet-fair", [job("a")])

    @pytest.mark.parametrize(
        ("policy", "owed"),
        [("size-fair", [4 / 5, 1 / 5]), ("job-fair", [1 / 2, 1 / 2]), ("user-fair", [1 / 2, 1 / 2])],
    )
    def test_figure_8(self, policy: str, owed: list[float]) -> None:
        pair = [job("a", nodes=4, user="A"), job("b", nodes=1, user="B")]
        assert list((shares_owed(policy, pair) or {}).values()) == pytest.approx(owed)

    def test_jobs_of_one_user_share_what_it_is_owed(self) -> None:
        three = [job("a", nodes=2, user="A"), job("b", nodes=2, user="A"), job("c", nodes=1, user="B")]
        assert shares_owed("user-fair", three) == pytest.approx({"a": 0.25, "b": 0.25, "c": 0.5})

    def test_figure_9(self) -> None:
        four = [job(f"{number}", nodes=nodes, user=user) for number, (nodes, user) in
                enumerate([(1, "A"), (2, "A"), (4, "B"), (6, "B")])]  # fmt: skip
        assert list((shares_owed("user-then-size-fair", four) or {}).values()) == pytest.approx(
            [1 / 6, 1 / 3, 0.2, 0.3]
        )

    def test_figure_10(self) -> None:
        """The paper prints 1.1, 1.6 and 1.1 of 20.7 GB/s for the three jobs of user 2."""
        members = [("1", "1", 1), ("2", "2", 2), ("2", "2", 3), ("2", "2", 2), ("2", "3", 3), ("2", "3", 2),
                   ("2", "4", 1), ("2", "4", 2)]  # fmt: skip
        eight = [job(f"{n}", group=group, user=user, nodes=nodes) for n, (group, user, nodes) in enumerate(members)]
        owed = list((shares_owed("group-then-user-then-size-fair", eight) or {}).values())
        sixth = 1 / 6
        assert owed == pytest.approx(
            [1 / 2, sixth * 2 / 7, sixth * 3 / 7, sixth * 2 / 7, sixth * 3 / 5, sixth * 2 / 5, sixth / 3, sixth * 2 / 3]
        )

    def test_a_class_of_jobs_weighs_once(self) -> None:
        """Of a level that is not the last: two jobs of 2 nodes are one class, of weight 2, beside one of 4."""
        three = [job("a", nodes=2), job("b", nodes=2), job("c", nodes=4)]
        assert shares_owed("size-then-job-fair", three) == pytest.approx({"a": 1 / 6, "b": 1 / 6, "c": 2 / 3})

    @given(some_jobs(), st.sampled_from(POLICIES), st.randoms(use_true_random=False))
    def test_everything_is_owed_to_somebody_in_any_order(self, jobs: list[Job], policy: str, random: Any) -> None:
        owed = shares_owed(policy, jobs)
        assert owed is not None
        assert sum(owed.values()) == pytest.approx(1)
        assert all(share > 0 for share in owed.values())
        shuffled = random.sample(jobs, len(jobs))
        assert shares_owed(policy, shuffled) == pytest.approx(owed)

    @given(some_jobs())
    def test_users_get_the_same_and_their_jobs_by_size(self, jobs: list[Job]) -> None:
        owed = shares_owed("user-then-size-fair", jobs)
        assert owed is not None
        users = {each.user for each in jobs}
        for user in users:
            mine = [each for each in jobs if each.user == user]
            assert sum(owed[each.name] for each in mine) == pytest.approx(1 / len(users))
            a_node = {owed[each.name] / each.nodes for each in mine}
            assert max(a_node) == pytest.approx(min(a_node))

    def test_the_store_of_figure_5(self) -> None:
        """By its own table each server gives job 1 two thirds; of the whole it is owed a half."""
        three = [job("1", nodes=16), job("2", nodes=8), job("3", nodes=8)]
        places = {"1": ("0.0", "1.0"), "2": ("0.0",), "3": ("1.0",)}
        owed = shares_owed_by_device("size-fair", three, places)
        assert owed is not None
        assert owed["0.0"] == pytest.approx({"1": 0.5, "2": 0.5})
        assert owed["1.0"] == pytest.approx({"1": 0.5, "3": 0.5})
        assert shares_owed_by_device("fifo", three, places) is None


PAIR = [job("a", seconds=8.0), job("b", start_seconds=2.0, nodes=1)]
"""Job a has work from 0 to 8 s, job b from 2 to 6 s."""


def run_of_pair(*, late_seconds: float = 0.0, outstanding: float = 4.0, bytes_of_a: int = 800) -> Run:
    """While both have work, a receives 0.8 of the device's time; the sample at 4 s comes late."""
    run = Run(PAIR, 1.0)
    for edge in range(9):
        when = edge + (late_seconds if edge == 4 else 0.0)
        shared = min(max(when - 2, 0.0), 4.0)
        seconds = {"a": (when - shared) + 0.8 * shared, "b": 0.2 * shared}
        jobs = {name: Account({"0.0": each}, {}, {}, 0) for name, each in seconds.items()}
        run.samples.append([Sample(0, when, jobs)])
    waited = int(outstanding * 1e9)
    alone, idle = Done(1000, 0, 1, waited), [IDLE]
    run.done["a"] = [Done(bytes_of_a, 0, 1, waited) if 2 <= window < 6 else alone for window in range(8)] + idle
    run.done["b"] = [Done(0, 200, 1, waited) if 2 <= window < 6 else IDLE for window in range(8)] + idle
    return run


class TestWindows:
    def test_phases_change_where_jobs_come_and_go(self) -> None:
        assert [windows.phase_of(PAIR, start, start + 1) for start in range(8)] == [1, 1, 2, 2, 2, 2, 3, 3]
        assert windows.phase_of(PAIR, 1.5, 2.5) is None
        assert windows.working(PAIR, 1, 2) == ["a"]
        assert windows.working(PAIR, 5, 6) == ["a", "b"]
        assert windows.working(PAIR, 5.5, 6.5) == ["a"]

    def test_the_first_window_of_a_phase_does_not_count(self) -> None:
        rows = figures.rows_of(run_of_pair(), "size-fair")
        assert [row.window for row in rows if row.is_counted and row.job == "a"] == [1, 3, 4, 5, 7]
        assert [row.window for row in rows if row.is_counted and row.job == "b"] == [3, 4, 5]

    def test_a_window_without_enough_requests_does_not_count(self) -> None:
        run = run_of_pair(outstanding=1.5)
        rows = figures.rows_of(run, "size-fair")
        assert not any(row.is_counted for row in rows)
        assert any(row.is_counted for row in figures.rows_of(run, "size-fair", outstanding_min=1.0))

    @pytest.mark.parametrize("late_seconds", [0.0, 0.4])
    def test_shares_are_right_however_late_the_sample(self, late_seconds: float) -> None:
        rows = figures.rows_of(run_of_pair(late_seconds=late_seconds), "job-fair")
        shared = [row for row in rows if row.phase == 2]
        assert [row.share_device for row in shared] == pytest.approx([0.8, 0.2] * 4)
        assert [row.device_ratio for row in shared] == pytest.approx([0.8, 0.2] * 4)
        assert [row.share_owed for row in shared] == [0.5] * 8
        assert windows.busy_ratio(rows, 1) == pytest.approx(1.0)
        assert windows.disagreement_max(rows) == pytest.approx(0.0)

    @given(st.lists(st.floats(0.01, 2), min_size=2, max_size=8), st.floats(-1, 20))
    def test_accounts_between_samples_are_those_of_their_time(self, pauses: list[float], when: float) -> None:
        """Windows of 100 ms had no device time behind 3.2 s: each edge waited for a table of its own, 250 ms long."""
        times = list(itertools.accumulate(pauses))
        taken = [Sample(0, time, {"a": Account({"0.0": 0.5 * time}, {}, {}, round(1e6 * time))}) for time in times]
        found = between(taken, when)
        assert found.time_seconds == pytest.approx(min(max(when, times[0]), times[-1]))
        assert found.jobs["a"].device_seconds["0.0"] == pytest.approx(0.5 * found.time_seconds)
        assert found.jobs["a"].bytes_total == pytest.approx(1e6 * found.time_seconds, abs=2)

    def test_counts_that_differ_from_the_servers_are_told(self) -> None:
        rows = figures.rows_of(run_of_pair(bytes_of_a=200), "job-fair")
        assert windows.disagreement_max(rows) == pytest.approx(0.3)

    def test_a_summary_says_how_far_off_the_worst_window_is(self) -> None:
        summaries = windows.summaries(figures.rows_of(run_of_pair(), "job-fair"), 1.0, tolerance=0.02)
        (shared,) = [each for each in summaries if each.phase == 2 and each.job == "b"]
        assert (shared.start_seconds, shared.end_seconds, shared.windows) == (3.0, 6.0, 3)
        assert shared.bytes_per_second_median == 200
        assert shared.share_error_max == pytest.approx(0.3)
        assert shared.windows_within == 0
        (alone,) = [each for each in summaries if each.phase == 1]
        assert alone.windows_within == 1
        assert alone.bytes_per_second_deviation is None

    def test_under_fifo_nothing_is_owed(self) -> None:
        rows = figures.rows_of(run_of_pair(), "fifo")
        assert all(row.share_owed is None for row in rows)
        assert all(each.share_error_max is None for each in windows.summaries(rows, 1.0))

    @given(st.lists(st.floats(0.001, 1), min_size=2, max_size=6), st.integers(1, 3))
    def test_shares_add_up_over_jobs_and_servers(self, speeds: list[float], servers: int) -> None:
        jobs = [job(f"{number}") for number in range(len(speeds))]

        def sample(server: int, edge: int) -> Sample:
            worked = zip(jobs, speeds, strict=True)
            accounts = {each.name: Account({f"{server}.0": edge * speed}, {}, {}, 0) for each, speed in worked}
            return Sample(server, edge + 0.01 * server, accounts)

        samples = [[sample(server, edge) for server in range(servers)] for edge in range(3)]
        done = {each.name: [Done(3, 4, 2, 0)] * 3 for each in jobs}
        rows = windows.table(jobs, samples, done, 1.0, lambda names: None)
        for window in (0, 1):
            of_window = [row for row in rows if row.window == window]
            assert sum(row.share_device or 0 for row in of_window) == pytest.approx(1)
            assert sum(row.share_bytes or 0 for row in of_window) == pytest.approx(1)
            assert sum(row.device_ratio for row in of_window) == pytest.approx(servers * sum(speeds))

    def test_longer_windows_hold_the_same(self) -> None:
        run = run_of_pair()
        longer = coarser(run, 2)
        for name, done in run.done.items():
            assert sum(each.bytes_written + each.bytes_read for each in longer.done[name]) == sum(
                each.bytes_written + each.bytes_read for each in done
            )
        rows = [row for row in figures.rows_of(longer, "job-fair") if row.phase == 2]
        assert [row.share_device for row in rows] == pytest.approx([0.8, 0.2] * 2)
        assert [row.start_seconds for row in rows if row.job == "a"] == [2.0, 4.0]

    def test_metadata_is_not_a_target(self) -> None:
        devices = [
            {"device": "1.0", "share_owed": 0.5, "share_owed_for_seconds": 2.0, "device_seconds": 3.0},
            {"device": "1.metadata", "share_owed": 0.1, "share_owed_for_seconds": 2.0, "device_seconds": 6.0},
        ]
        line = answers.job(bytes_read=1, bytes_written=2, device_seconds=9.0, devices=devices)
        assert windows.accounts([line]) == {"a": Account({"1.0": 3.0}, {"1.0": 0.5}, {"1.0": 2.0}, 3)}


def owing(server: int, when: float, *shares: float, since: float = 0.0) -> Sample:
    device = f"{server}.0"
    jobs = {str(n): Account({}, {device: share}, {device: when - since}, 0) for n, share in enumerate(shares)}
    return Sample(server, when, jobs)


class TestExchange:
    RIGHT = {"0.0": {"0": 0.5, "1": 0.5}, "1.0": {"0": 0.5, "2": 0.5}}  # noqa: RUF012

    def moment(self, *polls: Sample) -> float | None:
        return convergence.right_since(polls, self.RIGHT)

    def test_the_last_server_counts(self) -> None:
        polls = [
            owing(0, 0.1, 0.5, 0.5, since=0.01),
            owing(1, 0.1, 0.67, 0, 0.33),
            owing(0, 0.2, 0.5, 0.5, since=0.01),
            owing(1, 0.3, 0.5, 0, 0.5, since=0.12),
        ]
        assert self.moment(*polls) == pytest.approx(0.12)

    def test_the_job_whose_share_became_right_last_counts(self) -> None:
        early, late = owing(1, 0.3, 0.5, 0, 0.5, since=0.1), owing(1, 0.3, 0.5, 0, 0.5, since=0.25)
        jobs = {"0": early.jobs["0"], "2": late.jobs["2"]}
        assert self.moment(owing(0, 0.1, 0.5, 0.5), Sample(1, 0.3, jobs)) == pytest.approx(0.25)

    def test_weights_that_turn_wrong_again_were_not_right(self) -> None:
        polls = [
            owing(1, 0.0, 0.5, 0, 0.5),
            owing(0, 0.1, 0.5, 0.5),
            owing(0, 0.2, 0.67, 0.33),
            owing(0, 0.3, 0.5, 0.5, since=0.27),
        ]
        assert self.moment(*polls) == pytest.approx(0.27)
        assert self.moment(*polls[:-1]) is None

    def test_weights_are_not_right_before_a_sample_that_is_wrong(self) -> None:
        polls = [owing(0, 0.1, 0.5, 0.5), owing(1, 0.2, 0.67, 0, 0.33), owing(1, 0.3, 0.5, 0, 0.5, since=0.19)]
        assert self.moment(*polls) == 0.2

    def test_before_the_first_request_nothing_counts(self) -> None:
        polls = [
            owing(0, -0.1, 0.5, 0.5),
            owing(1, -0.1, 0.5, 0, 0.5),
            owing(0, 0.1, 0.5, 0.5, since=-0.2),
            owing(1, 0.2, 0.5, 0, 0.5, since=-0.2),
        ]
        assert self.moment(*polls) == 0.0
        assert self.moment(*polls[:2]) is None

    def test_a_server_that_does_not_say_is_not_right(self) -> None:
        silent = Sample(1, 0.1, {name: Account({"1.0": 1.0}, {}, {}, 0) for name in ("0", "2")})
        assert self.moment(owing(0, 0.1, 0.5, 0.5), silent) is None

    @pytest.mark.parametrize(("right_at", "exchanges"), [(0.01, 1), (0.05, 1), (0.07, 2), (0.102, 3)])
    def test_an_exchange_that_has_begun_counts_whole(self, right_at: float, exchanges: int) -> None:
        places = {"0": ("0.0", "1.0"), "1": ("0.0",), "2": ("1.0",)}
        jobs = [job(name, nodes=8 * len(targets), targets=targets) for name, targets in places.items()]
        run = Run(jobs, 1.0)
        run.polls = [owing(0, 0.3, 0.5, 0.5, since=right_at), owing(1, 0.3, 0.5, 0, 0.5, since=0.01)]
        found = convergence.convergence_of(run, "size-fair", [], 50)
        assert found.right_seconds == pytest.approx(right_at)
        assert found.exchanges == exchanges

    def test_exchanges_count_from_the_moment_at_which_each_server_has_met_its_jobs(self) -> None:
        places = {"0": ("0.0", "1.0"), "1": ("0.0",), "2": ("1.0",)}
        jobs = [job(name, nodes=8 * len(targets), targets=targets) for name, targets in places.items()]
        run = Run(jobs, 1.0)
        run.polls = [
            owing(0, 0.01, 0.67, 0.33),
            owing(1, 0.01, 1.0),
            owing(1, 0.03, 1.0, 0, 0.0),
            owing(1, 0.04, 0.67, 0, 0.33),
            owing(0, 0.1, 0.5, 0.5, since=0.045),
            owing(1, 0.1, 0.5, 0, 0.5, since=0.049),
        ]
        found = convergence.convergence_of(run, "size-fair", [], 10)
        assert (found.met_seconds, found.exchanges) == (0.03, 2)

    @pytest.mark.parametrize("jobs", [(), (0.67,), (0.67, 0, 0.0)])
    def test_a_server_without_one_of_its_jobs_has_not_met_all(self, jobs: tuple[float, ...]) -> None:
        polls = [owing(0, 0.1, 0.67, 0.33), owing(1, 0.2, *jobs), owing(1, 0.3, 0.67, 0, 0.33)]
        assert convergence.met_since(polls, self.RIGHT) == 0.2


def figure() -> figures.Figure:
    panel = figures.Panel("a and b", "size-fair", None, jobs=PAIR, groupings=("user", "name"))
    panel.rows = figures.rows_of(run_of_pair(), "size-fair")
    panel.summaries = windows.summaries(panel.rows, 1.0)
    return figures.Figure("figure-0", "A pair", figures.Options(seconds=8.0), [panel])


class TestRecords:
    def test_the_numbers_can_be_read_again(self, tmp_path: Path) -> None:
        whole, lines = records.write(figure(), tmp_path / "new" / "folder")
        document = json.loads(whole.read_text())
        (panel,) = document["panels"]
        assert len(panel["windows"]) == 16
        assert panel["windows"][4]["share_device"] == pytest.approx(0.8)
        with lines.open() as file:
            table = list(csv.DictReader(file))
        assert len(table) == 16
        assert sum(int(row["bytes_written"]) + int(row["bytes_read"]) for row in table) == sum(
            window["bytes_written"] + window["bytes_read"] for window in panel["windows"]
        )
        assert [row["job"] for row in table if row["is_counted"] == "1"].count("b") == 3

    def test_shares_add_up_in_a_tree(self) -> None:
        def summary(job: str, phase: int, owed: float, received: float) -> windows.Summary:
            return windows.Summary(job, phase, 0.0, 1.0, 3, 1e6, 1e6, None, owed, received, received, None, 0.0, 3)

        jobs = [
            Job(name, 1, 1.0, user=user, group=group)
            for name, user, group in (("a", "one", "x"), ("b", "one", "x"), ("c", "two", "y"))
        ]
        found = [summary("a", 1, 1.0, 1.0), summary("a", 2, 0.2, 0.25), summary("b", 2, 0.3, 0.25)]
        found.append(summary("c", 2, 0.5, 0.5))
        x, y = hierarchy.tree(jobs, found, ("group", "user", "name"))
        assert (x.name, y.name) == ("x", "y")
        assert x.share_owed == pytest.approx(0.5) and x.share_device == pytest.approx(0.5)
        assert [each.name for each in x.branches[0].branches] == ["a", "b"]
        assert list(hierarchy.lines((y,))) == [
            "y: 50.0% of 50.0% owed", "  two: 50.0% of 50.0% owed", "    c: 50.0% of 50.0% owed",
        ]  # fmt: skip
        assert hierarchy.tree(jobs, [], ("group", "name")) == ()

    def test_a_plot_is_drawn(self, tmp_path: Path) -> None:
        pytest.importorskip("matplotlib")
        path = pictures.draw(figure(), tmp_path)
        assert path is not None
        assert path.read_bytes().startswith(b"\x89PNG")

    def test_without_matplotlib_there_is_no_plot(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
        with pytest.raises(ImportError):
            pictures.draw(figure(), tmp_path)

    def test_what_was_not_run_is_not_drawn(self, tmp_path: Path) -> None:
        nothing = replace(figure(), panels=[figures.Panel("none", "odd-fair", None, refused="unknown policy")])
        assert pictures.draw(nothing, tmp_path) is None


class TestLoad:
    """The processes are plain programs: on a local file system they do the same."""

    def start(self, folder: Path, **changes: Any) -> subprocess.Popen[str]:
        specification = {
            "folder": str(folder), "processes": 3, "request_bytes": 4096, "requests_per_file": 4,
            "start_seconds": 0.1, "seconds": 0.5, "window_seconds": 0.25, "windows": 4, "targets": [], **changes,
        }  # fmt: skip
        command = [sys.executable, "-m", "weir.experiments.load", json.dumps(specification)]
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def test_it_counts_what_it_does(self, tmp_path: Path) -> None:
        with self.start(tmp_path / "files") as load:
            assert load.stdout is not None
            assert load.stdout.readline() == "ready\n"
            output, words = load.communicate(f"{time.monotonic()}\n", timeout=PATIENCE_SECONDS)
        assert (load.returncode, words) == (0, "")
        done = [Done(**window) for window in json.loads(output)]
        assert len(done) == 4
        assert sum(each.bytes_written + each.bytes_read for each in done) == 4096 * sum(each.requests for each in done)
        assert min(sum(each.bytes_written for each in done), sum(each.bytes_read for each in done)) > 0
        assert all(each.waited_nanoseconds <= 3 * 0.25e9 + 1000 for each in done[:-1])
        assert [path.stat().st_size for path in sorted((tmp_path / "files").iterdir())] == [4 * 4096] * 3

    def test_without_a_beginning_it_does_nothing(self, tmp_path: Path) -> None:
        with self.start(tmp_path / "files") as load:
            output, _ = load.communicate("", timeout=PATIENCE_SECONDS)
        assert load.returncode == 0
        ready, report = output.splitlines()
        assert ready == "ready"
        assert sum(window["requests"] for window in json.loads(report)) == 0

    def test_a_process_that_fails_fails_the_job(self, tmp_path: Path) -> None:
        with self.start(tmp_path / "missing" / "files") as load:
            _, words = load.communicate("", timeout=PATIENCE_SECONDS)
        assert load.returncode == 1
        assert "No such file" in words


def test_requests_are_a_small_part_of_a_window() -> None:
    class Rates:
        def device_rates(self) -> list[float]:
            return self.rates

        def __init__(self, *rates: float) -> None:
            self.rates = list(rates)

    for rate, expected in ((32e6, 64), (64e6, 128), (1e9, 256), (1e6, 64), (math.inf, 256)):
        (sized,) = figures.sized([job("a")], Rates(rate), 1.0)  # type: ignore[arg-type]
        assert sized.request_bytes == expected * 1024
