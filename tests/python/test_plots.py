"""Plots of Weir's objects: they return axes, and have what the objects have."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
import weir
from waits import PATIENCE_SECONDS
from weir import adaptive, plots, provisioning, simulation
from weir.experiments import blobs, viability
from weir.plots.canvas import picture
from weir.store import JobWindow, JobWindows
from weir.store.answers import WaitedFor

ROOT = Path(__file__).resolve().parents[2]
SCENARIO = """
topology = "2x2"
[[jobs]]
generator = "ior"
name = "$large$"
nodes = 3
processes = 12
[[jobs]]
generator = "ior"
name = "small"
nodes = 1
processes = 4
"""


@pytest.fixture(autouse=True)
def no_screen() -> Iterator[None]:
    matplotlib = pytest.importorskip("matplotlib")
    before = matplotlib.get_backend()
    matplotlib.use("agg")
    yield
    from matplotlib import pyplot

    pyplot.close("all")
    matplotlib.use(before)


def written(ax: Any, path: Path) -> bool:
    """Whether the figure of a plot can be written; a dollar in a name would begin a formula."""
    figure = ax.figure
    figure.savefig(path)
    return path.read_bytes().startswith(b"\x89PNG")


def heights(line: Any) -> list[float]:
    return [float(height) for height in line.get_ydata()]


def bar_labels(ax: Any) -> list[str]:
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_targets_of_a_store_are_drawn_with_their_fill() -> None:
    with weir.store.up(servers=1, targets=2, capacity="64MiB", mount=False) as store:
        store.run(["dd", "if=/dev/zero", "of=/weir/f", "bs=1M", "count=32", "status=none"], job="a$b$", check=True)
        ax: Any = plots.targets(store)
        states = [server.status() for server in store.servers]
        shares = plots.shares(store.jobs())
    assert [text.get_text() for text in ax.get_yticklabels()] == ["0.0", "0.1"]
    used = [100 * target.used_bytes / target.capacity_bytes for target in states[0].targets]
    assert [patch.get_width() for patch in ax.patches[:2]] == used
    assert sum(used) == pytest.approx(50.0)
    assert [text.get_text() for text in shares.get_yticklabels()] == ["a$b$"]


def test_windows_stack_the_waits_on_what_a_job_received(tmp_path: Path) -> None:
    flood, other = WaitedFor("$flood$", "eve", 1, 3.0), WaitedFor("other", "bob", 2, 0.5)
    windows = JobWindows(
        "mine",
        1.0,
        [JobWindow(100.0, 0, 0, 1.0, 3.5, (flood, other)), JobWindow(101.0, 0, 0, 2.0, 3.25, (flood,))],
    )
    ax: Any = plots.windows(windows)
    assert bar_labels(ax) == ["mine received", "waited for $flood$", "waited for other", "waited for others"]
    bars = numpy.array([patch.get_height() for patch in ax.patches]).reshape(4, 2)
    assert bars.tolist() == [[1.0, 2.0], [3.0, 3.0], [0.5, 0.0], [0.0, 0.25]]
    tops = [patch.get_y() + patch.get_height() for patch in ax.patches[-2:]]
    assert tops == [4.5, 5.25], "the whole height is the time received and waited"
    assert written(ax, tmp_path / "windows.png")
    assert len(plots.windows(JobWindows("idle", 1.0, [])).patches) == 0


def test_a_plot_draws_into_axes_that_are_given() -> None:
    from matplotlib import pyplot

    figure, places = pyplot.subplots(1, 2)
    assert plots.windows(JobWindows("idle", 1.0, []), ax=places[1]) is places[1]
    before = pyplot.get_fignums()
    assert plots.targets([], ax=places[0]) is places[0]
    assert pyplot.get_fignums() == before, "no figure is made beside the given one"
    assert figure.axes == list(places)


def test_simulated_runs_are_drawn_as_in_their_report(tmp_path: Path) -> None:
    (tmp_path / "scenario.toml").write_text(SCENARIO)
    scenario = simulation.read_scenario(tmp_path / "scenario.toml")
    run = simulation.record("size", scenario, baseline=simulation.Baseline())
    for ax in (plots.slowdowns([run]), plots.bandwidths([run]), plots.simulated_shares(run)):
        assert [text.get_text() for text in ax.get_yticklabels()] == ["$large$", "small"]
        assert written(ax, tmp_path / "plot.png")
    shares: Any = plots.simulated_shares(run)
    assert [round(patch.get_width()) for patch in shares.patches] == [75, 25]
    assert bar_labels(plots.device_time(run)) == ["$large$", "small"]
    assert written(plots.device_time(run), tmp_path / "time.png")


def test_steps_of_a_reader_are_drawn_with_their_deadline(tmp_path: Path) -> None:
    fields = [numpy.sin(numpy.mgrid[0:24, 0:24].sum(0) / 5 + step) for step in range(3)]
    adaptive.write([str(tmp_path / "fast"), str(tmp_path / "shared")], fields, tolerance=1e-4)
    steps = list(adaptive.open(str(tmp_path / "fast")))
    times, parts, errors = plots.steps(steps, deadline_seconds=9.0)
    assert heights(times.lines[0]) == [step.waited_seconds for step in steps]
    assert set(heights(times.lines[-1])) == {9.0}
    assert heights(parts.lines[0]) == [100.0] * 3
    assert heights(errors.lines[0]) == [step.max_error for step in steps]
    late = [SimpleNamespace(**{**vars(step), "late": step.number == 1}) for step in steps]
    times, _, _ = plots.steps(late)  # type: ignore[arg-type]
    assert [int(step) for step in numpy.asarray(times.lines[2].get_xdata())] == [1]


def test_a_plan_is_drawn_with_its_candidates() -> None:
    plan = provisioning.plan(ROOT / "examples/run.darshan", size="1GiB")
    ax = plots.plan(plan)
    points = [tuple(point) for line in ax.lines[:-2] for point in numpy.asarray(line.get_xydata()).tolist()]
    every = [plan.selected.candidate, *plan.alternatives]
    assert sorted(points) == sorted((each.deployment.price, each.io_seconds) for each in every)


def test_figures_9_and_10_are_drawn_into_a_figure(tmp_path: Path) -> None:
    run = viability.Foretold("run 1", (1e6, 2e6, 3e6, 4e6), {"mean": (1.5e6, 1.5e6)})
    (place,) = plots.forecasts([run])
    assert heights(place.lines[0]) == [1.0, 2.0, 3.0, 4.0]
    found = blobs.measure(blobs.potential(64, 20), blobs.THRESHOLD)
    with picture(tmp_path / "blobs.png") as figure:
        places = plots.blobs(found, figure=figure)
        assert len(places) == 6 and places[0].figure is figure
    assert (tmp_path / "blobs.png").read_bytes().startswith(b"\x89PNG")


def test_a_picture_that_fails_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="in the block"), picture(tmp_path / "no.png"):
        raise RuntimeError("in the block")
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib_plots_can_be_listed_and_say_what_is_missing() -> None:
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from weir import plots\n"
        "from weir.store import JobWindows\n"
        "assert 'windows' in dir(plots)\n"
        "try: plots.windows(JobWindows('mine', 1.0, []))\n"
        "except ImportError as error: print(error, error.__notes__)\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True
    )
    assert told.stdout.startswith("matplotlib is not installed")
    assert "pip install" in told.stdout
