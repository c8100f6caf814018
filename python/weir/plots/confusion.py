"""Confusion matrices of estimators: a picture for each split, with a panel for each estimator."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from weir.plots.canvas import grid, picture
from weir.ways import make_folders

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

    from weir.interference.evaluation import Evaluation, Score

_COLUMNS_MAX = 4
_CELL_INCHES = 0.85
_MARGIN_INCHES = (1.4, 1.9)
_DARK_PART = 0.55
"""Part of the windows of a class from which the words of a cell are light."""


def confusions(scores: "Sequence[Score]", bins: Sequence[float], *, figure: "FigureBase | None" = None) -> "list[Axes]":
    """Plot the confusion matrices of estimators on one split, a panel for each.

    Args:
        scores: Scores of an evaluation, such as `Evaluation.scores`, of one split.
        bins: Slowdowns at which a class begins, such as `Evaluation.bins`.
        figure: Figure to fill; None makes one.

    Returns:
        The axes of each panel.

    Raises:
        ImportError: matplotlib is not installed.
    """
    from weir.interference.predictor import class_names

    names = class_names(tuple(bins))
    width, height = (_CELL_INCHES * len(names) + margin for margin in _MARGIN_INCHES)
    title = f"Slowdowns, kept aside: {scores[0].split}"
    places = grid(figure, len(scores), columns_max=_COLUMNS_MAX, inches=(width, height), title=title)
    for place, score in zip(places, scores, strict=True):
        _panel(place, score, names)
    return places


def draw(found: "Evaluation", folder: Path) -> list[Path]:
    """Draw the confusion matrices of an evaluation.

    Args:
        folder: Folder of the pictures, which is made.

    Returns:
        Paths of the pictures, one for each split that has scores.

    Raises:
        ImportError: matplotlib is not installed.
    """
    make_folders(folder)
    drawn = []
    for scores in (found.scores, found.with_additional):
        ending = "" if scores is found.scores else "-with-additional"
        for split in dict.fromkeys(score.split for score in scores):
            path = folder / f"confusion-{split.replace(', ', '-').replace(' ', '-')}{ending}.png"
            with picture(path) as figure:
                confusions([score for score in scores if score.split == split], found.bins, figure=figure)
            drawn.append(path)
    return drawn


def _panel(place: "Axes", score: "Score", names: Sequence[str]) -> None:
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
