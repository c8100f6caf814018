"""`weir interference predict`: the class of slowdown of windows, and of the three after each."""

from collections.abc import Sequence
from pathlib import Path

import click

from weir.cli.common.interference_packages import needed
from weir.cli.common.output import Quantity, output_option, show
from weir.cli.common.parameters import FILE
from weir.cli.interference.data import DATA, read_windows


@click.command()
@click.argument("model", type=FILE)
@DATA
@click.option("--last", "is_last", is_flag=True, help="Predict only the last window of each run.")
@output_option
def predict(model: Path, data: tuple[Path, ...], is_last: bool, output: str) -> None:
    """Predict the class of slowdown of each window, and of the three windows after it.

    BY is `trees` for a workload that the training had; for another it is `ratio trees` or `above quiet`, as the
    training chose. Both compare a workload with its own quiet windows. A workload with fewer than 10 windows is not
    predicted.
    """
    needed()
    from weir.interference import predictor

    loaded = predictor.load(model)
    windows = read_windows(data)
    import msgspec

    found = predictor.predict(loaded, windows)
    if is_last:
        last = {run: max(windows.numbers[windows.runs == run]) for run in set(windows.runs.tolist())}
        found = [each for each in found if each.window == last[each.run]]
    rows: list[Sequence[object]] = [
        (
            each.run,
            each.window,
            each.ahead,
            each.slowdown,
            Quantity(f"{each.probability:.2f}"),
            each.by,
            ", ".join(f"{driver.feature} ({driver.server or 'no server'})" for driver in each.driven_by),
        )
        for each in found
    ]
    headings = ("RUN", "WINDOW", "AHEAD", "SLOWDOWN", "PROBABILITY", "BY", "DRIVEN BY")
    show(output, [msgspec.to_builtins(each) for each in found], headings, rows)
