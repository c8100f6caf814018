"""Confusion matrices of estimators: a picture for each split, with a panel for each estimator."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from weir.interference.evaluation import Evaluation, Score
from weir.interference.predictor import class_names
from weir.ways import make_folders, replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLUMNS_MAX = 4
_CELL_INCHES = 0.85
_MARGIN_INCHES = (1.4, 1.9)
_DARK_PART = 0.55
"""Part of the windows of a class from which the words of a cell are light."""


def draw(found: Evaluation, folder: Path) -> list[Path]:
    """Draw the confusion matrices of an evaluation.

    Args:
        folder: Folder of the pictures, which is made.

    Returns:
        Paths of the pictures, one for each split that has scores.

    Raises:
        ImportError: matplotlib is not installed.
    """
    make_folders(folder)
    names = class_names(found.bins)
    drawn = []
    for scores in (found.scores, found.with_additional):
        ending = "" if scores is found.scores else "-with-additional"
        for split in dict.fromkeys(score.split for score in scores):
            path = folder / f"confusion-{split.replace(', ', '-').replace(' ', '-')}{ending}.png"
            _draw_split(split, [score for score in scores if score.split == split], names, path)
            drawn.append(path)
    return drawn


def _draw_split(split: str, scores: Sequence[Score], names: Sequence[str], path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = min(len(scores), _COLUMNS_MAX)
    lines = -(-len(scores) // columns)
    width, height = (_CELL_INCHES * len(names) + margin for margin in _MARGIN_INCHES)
    figure = Figure(figsize=(width * columns, height * lines), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(f"Slowdowns, kept aside: {split}")
    grid = figure.subplots(lines, columns, squeeze=False)
    for place, score in zip(grid.flat, scores, strict=False):
        _panel(place, score, names)
    for place in list(grid.flat)[len(scores) :]:
        place.set_axis_off()
    with replacing(path, mode=None) as file:
        figure.savefig(file, format="png", dpi=110)


def _panel(place: "Axes", score: Score, names: Sequence[str]) -> None:
    """One matrix: a row for each true class, with the counts and their parts of the row."""
    parts = [[count / max(sum(row), 1) for count in row] for row in score.confusion]
    place.imshow(parts, cmap="Blues", vmin=0.0, vmax=1.0)
    for row, counts in enumerate(score.confusion):
        for column, count in enumerate(counts):
            part = parts[row][column]
            words = f"{count}\n{100 * part:.0f} %"
            colour = "white" if part > _DARK_PART else "black"
            place.text(column, row, words, ha="center", va="center", fontsize=8, color=colour)
    place.set_xticks(range(len(names)), names, fontsize=8)
    place.set_yticks(range(len(names)), names, fontsize=8, rotation=90, va="center")
    place.set_xlabel("predicted", fontsize=8)
    place.set_ylabel("labelled", fontsize=8)
    place.set_title(f"{score.estimator}\nF1 {score.f1:.2f}, of all {score.overall:.2f}", fontsize=9)
