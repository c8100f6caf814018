"""What a notebook shows of stores, jobs, runs, plans, simulated runs and readers: tables without foreign marks."""

import time
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy
import pytest
import weir
from waits import PATIENCE_SECONDS
from weir import adaptive, provisioning, simulation
from weir.html_table import ROWS_MAX, html_table
from weir.store import JobTable, JobWindow, JobWindows, Run, StoreError
from weir.store.answers import WaitedFor

ROOT = Path(__file__).resolve().parents[2]
HOSTILE = '<script>alert("1")</script>&$x$\x1b[2J\u202e'
SCENARIO = """
topology = "2x2"
[[jobs]]
generator = "ior"
name = "<b>large</b>"
nodes = 3
processes = 12
[[jobs]]
generator = "ior"
name = "small"
nodes = 1
processes = 4
"""


class Page(HTMLParser):
    """The elements and the texts of HTML; an element that is not closed, or closed twice, is an error."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[str] = []
        self.styles: list[str] = []
        self.words = ""
        self.cells: list[list[str]] = []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.elements.append(tag)
        self.styles += [value or "" for name, value in attrs if name == "style"]
        assert {name for name, _ in attrs} <= {"style", "scope", "class"}
        if tag == "tr":
            self.cells.append([])
        elif tag in ("td", "th"):
            self.cells[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data
        if "td" in self.open or "th" in self.open:
            self.cells[-1][-1] += data


def page(shown: Any) -> Page:
    return Page(shown._repr_html_())


def test_a_table_escapes_foreign_text_and_sets_no_colour() -> None:
    found = Page(html_table(HOSTILE, [HOSTILE, "n"], [[HOSTILE, 1], [None, 2.5]], notes=[HOSTILE]))
    assert set(found.elements) == {"div", "table", "caption", "strong", "thead", "tbody", "tr", "th", "td"}
    assert "\x1b" not in found.words and "\u202e" not in found.words
    assert found.words.count('<script>alert("1")</script>') == 4
    assert found.cells[1:] == [[found.cells[0][0], "1"], ["", "2.5"]]
    colours = [part.strip() for style in found.styles for part in style.split(";") if "color" in part]
    assert set(colours) == {"color: inherit"}
    assert not any("#" in style or "rgb" in style for style in found.styles)


def test_a_long_table_is_cut_and_says_so() -> None:
    found = Page(html_table("many", ["n"], [[number] for number in range(ROWS_MAX + 1234)]))
    assert len(found.cells) == 1 + ROWS_MAX
    assert "1,234 more rows are not shown" in found.words
    assert Page(html_table("none", ["n"], [])).cells == [["n"]]


@pytest.fixture(scope="module")
def store() -> Iterator[weir.store.Store]:
    with weir.store.up(servers=2, targets=2, capacity="64MiB", mount=False) as store:
        yield store


@pytest.fixture(scope="module")
def run(store: weir.store.Store) -> Run:
    return store.run(["dd", "if=/dev/zero", "of=/weir/f", "bs=1M", "count=16", "status=none"], job="<i>", check=True)


def test_a_store_shows_its_targets_also_when_it_is_down(store: weir.store.Store, run: Run) -> None:
    assert run.returncode == 0
    found = page(store)
    assert [row[0] for row in found.cells[1:]] == ["0.0", "0.1", "1.0", "1.1"]
    assert found.cells[1][2:4] == ["4.0 MiB", "64.0 MiB"]
    assert "2 servers, 4 targets, size-fair" in found.words
    assert "not mounted" in repr(store)
    (state, _) = (server.status() for server in store.servers)
    assert "Server 0: open, size-fair" in page(state).words
    with weir.store.up(targets=1, mount=False) as other:
        pass
    assert "The store is down." in page(other).words


def test_a_run_has_its_job_and_shows_it(store: weir.store.Store, run: Run) -> None:
    assert run.job == "<i>" and run.seconds > 0
    assert page(run).cells[1][:2] == ["<i>", "dd if=/dev/zero of=/weir/f bs=1M count=16 status=none"]
    assert "exit code 0" in repr(run)
    failed = store.run(["false"], capture_output=True)
    assert failed.returncode == 1 and failed.stdout == b"" and failed.args == ["false"]


def test_jobs_of_a_store_are_one_sequence(store: weir.store.Store, run: Run) -> None:
    before = store.jobs()
    found = before.named(run.job)
    assert found.bytes_written == 16 << 20
    assert list(before) == list(before[:]) and before[0] in before
    with pytest.raises(StoreError, match="knows no job nobody"):
        before.named("nobody")
    row = next(row for row in page(before).cells if row[0] == "<i>")
    assert row[5] == "16.0 MiB"
    assert page(found).cells[1] == row
    store.run(["sh", "-c", "cat /weir/f >/dev/null"], job="reader", check=True)
    since = store.jobs().since(before)
    assert since.named("reader").bytes_read == 16 << 20
    assert since.named(run.job).bytes_written == 0
    with pytest.raises(StoreError, match="of 1 servers"):
        since.since(JobTable([[]]))


def test_the_windows_of_a_job_are_those_of_all_servers_from_their_start_on() -> None:
    with weir.store.up(servers=2, targets=2, capacity="64MiB", mount=False) as store:
        check_windows(store)


def check_windows(store: weir.store.Store) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    store.run(["dd", "if=/dev/zero", "of=/weir/w", "bs=1M", "count=24", "status=none"], job="windowed", check=True)
    while sum(window.written_bytes for window in store.windows("windowed")) < 24 << 20:
        assert time.monotonic() < end, "the windows never had all bytes of the job"
        time.sleep(0.2)
    found = store.windows("windowed", user=store.jobs().named("windowed").user)
    assert found.window_seconds == 1.0
    assert found.received_seconds > 0 and found.slowdown is not None
    assert not store.windows("windowed", user="nobody-else").received_seconds
    assert "windowed" in page(found).words


def test_windows_add_up_waits_and_name_the_culprits() -> None:
    flood, other = WaitedFor("<flood>", "eve", 1, 3.0), WaitedFor("other", "bob", 2, 0.5)
    windows = JobWindows(
        "mine",
        1.0,
        [
            JobWindow(100.0, 0, 1 << 20, 1.0, 3.5, (flood, other)),
            JobWindow(101.0, 0, 0, 0.0, 0.0, ()),
            JobWindow(102.0, 1 << 20, 0, 1.0, 3.0, (flood,)),
        ],
    )
    assert windows.slowdown == pytest.approx(1 + 6.5 / 2)
    assert [each.slowdown for each in windows] == [4.5, None, 4.0]
    assert [(wait.job, wait.seconds) for wait in windows.waited_for] == [("<flood>", 6.0), ("other", 0.5)]
    found = page(windows)
    assert [row[0] for row in found.cells[1:]] == ["0 s", "2 s"], "windows without work are left out"
    assert "It waited most for <flood> 6.0 s" in found.words
    assert windows[2:].slowdown == 4.0 and len(windows[:2]) == 2
    assert JobWindows("idle", 1.0, []).slowdown is None


def test_a_simulated_run_shows_its_jobs(tmp_path: Path) -> None:
    (tmp_path / "scenario.toml").write_text(SCENARIO)
    scenario = simulation.read_scenario(tmp_path / "scenario.toml")
    outcome = page(simulation.run(scenario))
    assert [row[0] for row in outcome.cells] == ["job", "0", "1"]
    record = simulation.record("by size", scenario, baseline=simulation.Baseline())
    found = page(record)
    assert [row[0] for row in found.cells] == ["job", "<b>large</b>", "small"]
    assert found.cells[1][-3:-1] == ["75.0%", "75.0%"]
    assert "policy size-fair" in found.words


def test_a_plan_shows_what_it_chose_and_what_else_would_do() -> None:
    plan = provisioning.plan(ROOT / "examples/run.darshan", size="1GiB")
    found = page(plan)
    assert found.cells[1][0] == "chosen" and found.cells[1][1] == plan.deployment.system.device
    assert plan.identity.name in found.words
    asked = provisioning.plan(ROOT / "examples/run.darshan", size="1GiB", durable=False, policy="performance")
    assert asked.deployment.policy == "performance"
    with pytest.raises(weir.provisioning.ProvisioningError, match="has room"):
        provisioning.plan(ROOT / "examples/run.darshan", size="900PiB")


def test_a_reader_and_its_steps_show_accuracy_and_no_values(tmp_path: Path) -> None:
    fields = [numpy.sin(numpy.mgrid[0:24, 0:24].sum(0) / 5 + step) for step in range(3)]
    tiers = [str(tmp_path / "fast"), str(tmp_path / "shared")]
    adaptive.write(tiers, fields, tolerance=1e-4)
    with adaptive.open(tiers[0], policy=adaptive.Budget(seconds=5), deadline_seconds=30) as reader:
        found = page(reader)
        assert "Stream of 3 steps: 24 x 24 float64" in found.words
        assert ["deadline_seconds", "30"] in found.cells
        assert not any(row[0] == "prefetch" for row in found.cells), "what is off is not told"
        step = page(next(reader))
    assert step.words.startswith("Step 0: 24 x 24 float64, max_error ")
    assert [row[0] for row in step.cells[1:]] == tiers
    assert repr(reader).startswith("<reader of 3 steps")
