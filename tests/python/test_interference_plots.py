"""Pictures of the interference paper: confusion matrices (figures 3 to 5) and times of operations (figure 1)."""

import math
from pathlib import Path

import numpy as np
import pytest
import windows as synthetic
from weir.interference import collection, plan
from weir.interference.evaluation import confusion, evaluate
from weir.plots import confusion as confusion_pictures
from weir.plots import operation_times

PLAN = """
version = 1

[[target]]
name = "enzo"
kernel = "enzo"
rounds = 2

[[interferer]]
name = "hog"
kernel = "ior-easy-write"
instances = [1, 3]

[[interferer]]
name = "creates"
kernel = "mdtest-easy-write"
instances = [2]
"""


def test_a_confusion_counts_each_window_in_the_row_of_its_class() -> None:
    wanted, guessed = np.array([0, 0, 0, 1, 1, 2]), np.array([0, 0, 2, 1, 0, 2])
    assert confusion((wanted, guessed), 3) == ((2, 0, 1), (1, 1, 0), (0, 0, 1))


def test_an_evaluation_has_a_confusion_of_each_estimator_and_a_picture_of_each_split(tmp_path: Path) -> None:
    found = evaluate(synthetic.made(1), (2.0,), ("majority", "above quiet"))
    for score in found.scores:
        (right, false), (missed, hit) = score.confusion
        f1 = 2 * hit / max(2 * hit + false + missed, 1)
        assert score.overall == pytest.approx(f1), score
        if score.split == "other workloads":
            assert right + false + missed + hit == found.windows
    drawn = confusion_pictures.draw(found, tmp_path / "figures")
    assert [path.name for path in drawn] == [
        f"confusion-{name}.png" for name in ("random", "later-in-the-run", "other-runs", "other-workloads")
    ]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in drawn)


def test_operations_of_a_data_set_are_drawn_alone_and_among_others(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN)
    loaded = plan.simulated(plan.read(tmp_path / "plan.toml"), 0)
    folder = tmp_path / "data"
    collection.collect(loaded, folder, lambda _line: None)
    runs = plan.cases(loaded.plan)
    panels = operation_times.panels_of(runs)
    assert {title: list(lines) for title, lines in panels.items()} == {
        "instances of hog": ["1", "3"],
        "kinds of interferers": ["3 x hog", "2 x creates"],
    }
    alone = operation_times.medians([case for case in runs if case.is_reference], folder)
    among = operation_times.medians(panels["instances of hog"]["3"], folder)
    shared = alone.keys() & among.keys()
    assert sum(among[key] for key in shared) > 1.5 * sum(alone[key] for key in shared)
    (picture,) = operation_times.draw(loaded, folder)
    assert picture == folder / "plots" / "enzo.png"
    assert picture.stat().st_size > 10_000


def test_a_moving_mean_leaves_unknown_times_out() -> None:
    unknown = math.nan
    assert operation_times.smoothed([1.0, 2.0, 3.0, unknown, 5.0], 3) == pytest.approx([1.5, 2.0, 2.5, 4.0, 5.0])
    assert math.isnan(operation_times.smoothed([unknown] * 3, 3)[1])
