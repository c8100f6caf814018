"""The page of a sweep: each choice of what was varied, with means and intervals over its seeds."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from weir.simulation import intervals
from weir.simulation.intervals import LEVEL, METHOD
from weir.simulation.report.drawing import COLOURS, OTHERS, draw, spread_legend
from weir.simulation.report.section import ROWS_MAX, Section
from weir.simulation.report.section import Cell as TableCell
from weir.simulation.report.template import check_libraries, rendered
from weir.simulation.sweeps.errors import SweepError
from weir.simulation.sweeps.evaluation import OBJECTIVES, USUAL_OBJECTIVES
from weir.simulation.sweeps.plan import shown, spelled
from weir.simulation.sweeps.results import best_words
from weir.simulation.sweeps.statistics import SEED

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from weir.simulation.intervals import Interval
    from weir.simulation.sweeps.evaluation import Objective
    from weir.simulation.sweeps.results import Results
    from weir.simulation.sweeps.statistics import Best, Cell

_TEMPLATE = "sweep.html"
_DRAWN_MAX = 60
"""Choices of a figure: each is a line of it."""
_LABEL_CHARACTERS = 56
_REFUSALS_MAX = 5
_RATE = "bytes_per_second"
_ROW_INCHES, _FRAME_INCHES = 0.24, 1.0


def sweep_page(name: str, results: "Results") -> str:
    """Write a page about a sweep.

    Args:
        name: Name of the sweep, for the title.
        results: Its points, all or those that are done.

    Returns:
        The page as HTML, which needs nothing from elsewhere and runs no script.

    Raises:
        SimulationError: No point has run, or a library that draws is not installed.
    """
    check_libraries()
    cells = results.cells
    if not cells:
        raise SweepError(f"no point of {name} has run", hint="run the sweep first")
    keys = [key for key in results.header.axes if key != SEED]
    found = [OBJECTIVES[each] for each in OBJECTIVES if any(cell.mean(each) for cell in cells)]
    usual = [each for each in found if each.name in USUAL_OBJECTIVES]
    header = ["#", *keys, *(_title(each) for each in usual), "seeds"]
    return rendered(
        _TEMPLATE,
        title=name,
        words=f"{len(results.records)} points of {len(cells)} settings. A value is the mean over the seeds with the "
        f"half width of its {LEVEL:.0%} interval ({METHOD}).",
        best=[_best_line(each, best) for each in usual if (best := results.best(each.name)) is not None],
        header=header,
        rows=[_row(number, cell, keys, usual) for number, cell in enumerate(cells, start=1)],
        sections=[_section(objective, results, cells) for objective in found],
        axes=[(key, "; ".join(shown(value) for value in values)) for key, values in results.header.axes.items()],
        rows_max=ROWS_MAX,
        warnings=_warnings(results, cells),
    )


def _warnings(results: "Results", cells: "Sequence[Cell]") -> list[str]:
    words = [f"Not run: {spelled(record.settings)}: {record.refusal}" for record in results.refused[:_REFUSALS_MAX]]
    if len(results.refused) > _REFUSALS_MAX:
        words.append(f"{len(results.refused) - _REFUSALS_MAX} more points were not run.")
    most = max(_seeds(cell) for cell in cells)
    short = sum(_seeds(cell) < most for cell in cells)
    if short:
        words.append(f"{short} of {len(cells)} settings have fewer than {most} seeds: the sweep has not ended.")
    return words


def _seeds(cell: "Cell") -> int:
    """Runs of a choice: the figures that every run has count them."""
    return max(len(values) for values in cell.figures.values())


def _title(objective: "Objective") -> str:
    return objective.name.replace("_", " ")


def _best_line(objective: "Objective", best: "Best") -> str:
    return f"Best by {_title(objective)}: {best_words(best)}."


def _row(number: int, cell: "Cell", keys: Sequence[str], objectives: "Sequence[Objective]") -> list[TableCell]:
    settings = [shown(cell.settings[key]) for key in keys]
    return [number, *settings, *(intervals.spelled(cell.mean(each.name)) for each in objectives), _seeds(cell)]


def _section(objective: "Objective", results: "Results", cells: "Sequence[Cell]") -> Section:
    """The figure and the table of an objective, the best choice first in the table."""
    sign = -1.0 if objective.is_greater_better else 1.0
    found = [(number, cell, mean) for number, cell in enumerate(cells, start=1) if (mean := cell.mean(objective.name))]
    ranked = sorted(found, key=lambda each: sign * each[2].mean)
    best = results.best(objective.name)
    # In the order of the plan, in which neighbours differ in one key; of too many the best.
    drawn = sorted(ranked[:_DRAWN_MAX], key=lambda each: each[0])
    meaning = objective.meaning[:1].upper() + objective.meaning[1:]
    words = f"{meaning}; {'more' if objective.is_greater_better else 'less'} is better."
    if best is not None:
        words += f" {_best_line(objective, best)}"
    if len(ranked) > len(drawn):
        words += f" The figure has the best {len(drawn)} of {len(ranked)} settings."
    return Section(
        name=objective.name.replace("_", "-"),
        title=_title(objective).capitalize(),
        words=words,
        svg=draw(
            objective.name.replace("_", "-"),
            [_ROW_INCHES * len(drawn) + _FRAME_INCHES],
            [_intervals(objective, drawn, best)],
            words,
        ),
        header=["#", "Settings", "mean", "low", "high", "seeds"],
        rows=[
            [number, spelled(cell.settings), *intervals.rounded(mean), len(cell.figures[objective.name])]
            for number, cell, mean in ranked
        ],
        note=f"Low and high are the ends of the {LEVEL:.0%} interval of the mean ({METHOD}).",
    )


def _intervals(
    objective: "Objective", drawn: "Sequence[tuple[int, Cell, Interval]]", best: "Best | None"
) -> "Callable[[Axes], None]":
    """A dot for the mean of each choice, on a line for its interval."""
    as_good = [cell.settings for cell in best.as_good] if best else []
    kinds: list[tuple[str, str, Callable[[Cell], bool]]] = [
        ("best", COLOURS[2], lambda cell: best is not None and cell.settings == best.cell.settings),
        ("cannot be told from it", COLOURS[0], lambda cell: cell.settings in as_good),
        ("others", OTHERS, lambda cell: True),
    ]

    scale, axis = 1.0, _title(objective)
    if objective.name.endswith(_RATE):
        scale, axis = 1e-6, f"{axis.removesuffix(_RATE.replace('_', ' '))}MB/s"

    def panel(place: "Axes") -> None:
        left = list(enumerate(drawn))
        legends = 0
        for name, colour, belongs in kinds:
            own = [each for each in left if belongs(each[1][1])]
            left = [each for each in left if each not in own]
            if not own:
                continue
            legends += 1
            heights = [height for height, _ in own]
            means = [mean for _, (_, _, mean) in own]
            lows = [scale * (mean.mean if mean.low is None else mean.low) for mean in means]
            highs = [scale * (mean.mean if mean.high is None else mean.high) for mean in means]
            place.hlines(heights, lows, highs, color=colour, linewidth=2.2, alpha=0.75)
            place.plot([scale * mean.mean for mean in means], heights, "o", color=colour, markersize=6, label=name)
        place.set_yticks(range(len(drawn)), [_label(number, cell) for number, cell, _ in drawn])
        place.set_title(" · ".join(drawn[0][1].settings), fontweight="normal")
        place.set_ylim(len(drawn) - 0.4, -0.6)
        place.set_xlabel(f"{axis} ({'more' if objective.is_greater_better else 'less'} is better)")
        spread_legend(place, legends)

    return panel


def _label(number: int, cell: "Cell") -> str:
    words = f"{number}: {' · '.join(shown(value) for value in cell.settings.values())}"
    return words if len(words) <= _LABEL_CHARACTERS else f"{words[: _LABEL_CHARACTERS - 1]}…"
